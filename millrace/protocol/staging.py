"""Staging areas: tensors put aside for a later step, in order or by key.

Puts wait for room (a number of tuples, a number of bytes), gets for something to get. Requests are
served as soon as they can be, the oldest first, but one that cannot be served does not hold up
those behind it that can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millrace.core import errors
from millrace.protocol.attempt import Attempt


class Put(Attempt):
    """Values to be put aside; for a map, under a key and for some of an entry's places.

    Attributes:
      size: The bytes of all values.
      width: How many places an entry of the map has.
    """

    __slots__ = ("indices", "key", "size", "values", "width")

    def __init__(
        self,
        values: Sequence[object],
        size: int,
        key: int = 0,
        indices: Sequence[int] = (),
        width: int = 0,
    ) -> None:
        super().__init__()
        self.values = list(values)
        self.size = size
        self.key = key
        self.indices = list(indices)
        self.width = width


class Get(Attempt):
    """A request for values; its value is the list of them (with their key, if none was given).

    Attributes:
      key: The entry (of a map) or position (to peek at in a queue); None for the next.
      indices: Which places of a map's entry.
      removes: Whether they are taken away.
    """

    __slots__ = ("indices", "key", "removes")

    def __init__(
        self, key: int | None = None, indices: Sequence[int] = (), removes: bool = True
    ) -> None:
        super().__init__()
        self.key = key
        self.indices = list(indices)
        self.removes = removes


class StagingState:
    """What both kinds of staging areas share.

    Args:
      capacity: How many tuples at most; 0 for any number.
      memory_limit: How many bytes at most; 0 for any number.
    """

    def __init__(self, capacity: int, memory_limit: int) -> None:
        self._capacity = capacity
        self._memory_limit = memory_limit
        self._bytes = 0
        self._waiting: list[Put | Get] = []

    def __len__(self) -> int:
        raise NotImplementedError

    def _put(self, attempt: Put) -> None:
        raise NotImplementedError

    def _try_get(self, attempt: Get) -> None:
        raise NotImplementedError

    # -- Events: each returns the attempts that it has settled -----------------------------

    def submit(self, attempt: Put | Get) -> list[Attempt]:
        """A new request."""
        if isinstance(attempt, Put) and 0 < self._memory_limit < attempt.size:
            attempt.fail(
                errors.ResourceExhaustedError(
                    None,
                    None,
                    f"Attempted to insert tensors with combined size of '{attempt.size}' bytes "
                    f"into Staging Area with a memory limit of '{self._memory_limit}'.",
                )
            )
            return [attempt]
        self._waiting.append(attempt)
        return self._serve()

    def cancel(self, attempt: Put | Get) -> list[Attempt]:
        """The step that made the request was cancelled."""
        if attempt.done:
            return []
        self._waiting.remove(attempt)
        what = "Put" if isinstance(attempt, Put) else "Get"
        attempt.fail(errors.CancelledError(None, None, f"{what} operation was cancelled"))
        return [attempt]

    def abandon(self) -> list[Attempt]:
        """The staging area itself goes away."""
        waiting: list[Attempt] = list(self._waiting)
        self._waiting.clear()
        for attempt in waiting:
            attempt.fail(errors.CancelledError(None, None, "The staging area was removed."))
        return waiting

    def clear(self) -> list[Attempt]:
        """Everything that was put aside is dropped; puts that wait have room now."""
        self._bytes = 0
        self._drop_all()
        return self._serve()

    def _drop_all(self) -> None:
        raise NotImplementedError

    # -- Progress --------------------------------------------------------------------------

    def _serve(self) -> list[Attempt]:
        settled: list[Attempt] = []
        moved = True
        while moved:
            moved = False
            for attempt in list(self._waiting):
                if isinstance(attempt, Get):
                    self._try_get(attempt)
                elif self._has_room(attempt):
                    self._put(attempt)
                if attempt.done:
                    self._waiting.remove(attempt)
                    settled.append(attempt)
                    moved = True
        return settled

    def _has_room(self, attempt: Put) -> bool:
        if self._memory_limit and self._bytes + attempt.size > self._memory_limit:
            return False
        return not self._capacity or len(self) < self._capacity


class OrderedStaging(StagingState):
    """Tuples in the order in which they were put (`StagingArea`)."""

    def __init__(self, capacity: int, memory_limit: int) -> None:
        super().__init__(capacity, memory_limit)
        self._tuples: list[Put] = []

    def __len__(self) -> int:
        return len(self._tuples)

    def _put(self, attempt: Put) -> None:
        self._tuples.append(attempt)
        self._bytes += attempt.size
        attempt.succeed()

    def _try_get(self, attempt: Get) -> None:
        position = attempt.key or 0
        if position >= len(self._tuples):
            return
        attempt.succeed(self._tuples[position].values)
        if attempt.removes:
            self._bytes -= self._tuples.pop(position).size

    def _drop_all(self) -> None:
        self._tuples.clear()


class _Entry:
    """An entry of a map: its values by place, and how large each is."""

    __slots__ = ("taken", "values")

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}
        #: Places whose values were there and have been taken.
        self.taken: set[int] = set()


class MapStaging(StagingState):
    """Tuples by key, whose places may be filled one after the other (`MapStagingArea`).

    Args:
      is_ordered: Whether "the next" is the one with the smallest key.
      size_of: The bytes of a value.
    """

    def __init__(
        self,
        capacity: int,
        memory_limit: int,
        is_ordered: bool,
        size_of: Callable[[object], int],
    ) -> None:
        super().__init__(capacity, memory_limit)
        self._is_ordered = is_ordered
        self._size_of = size_of
        self._entries: dict[int, _Entry] = {}
        self._incomplete: dict[int, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def incomplete_size(self) -> int:
        """How many keys still lack values."""
        return len(self._incomplete)

    def _put(self, attempt: Put) -> None:
        is_whole = len(attempt.indices) == attempt.width
        # A whole tuple does not wait for one that is being put together under its key.
        entry = (None if is_whole else self._incomplete.get(attempt.key)) or _Entry()
        for i in attempt.indices:
            problem = ""
            if not 0 <= i < attempt.width:
                problem = f"Index '{i}' is out of bounds for entries of {attempt.width} values."
            elif i in entry.values:
                problem = (
                    f"The tensor for index '{i}' for key '{attempt.key}' was already initialized "
                    f"'{attempt.width}'."
                )
            if problem:
                attempt.fail(errors.InvalidArgumentError(None, None, problem))
                return
        entry.values.update(zip(attempt.indices, attempt.values, strict=True))
        self._bytes += attempt.size
        if len(entry.values) < attempt.width:
            self._incomplete[attempt.key] = entry
        else:
            if not is_whole:
                del self._incomplete[attempt.key]
            self._entries[attempt.key] = entry
        attempt.succeed()

    def _try_get(self, attempt: Get) -> None:
        key = attempt.key
        if key is None:
            if not self._entries:
                return
            key = min(self._entries) if self._is_ordered else next(iter(self._entries))
        entry = self._entries.get(key)
        if entry is None:
            return
        for i in attempt.indices:
            problem = ""
            if i in entry.taken:
                problem = f"Tensor at index '{i}' for key '{key}' has already been removed."
            elif i not in entry.values:
                problem = f"Index '{i}' is out of bounds for the values of key '{key}'."
            if problem:
                attempt.fail(errors.InvalidArgumentError(None, None, problem))
                return
        values = [entry.values[i] for i in attempt.indices]
        if attempt.removes:
            for i in attempt.indices:
                self._bytes -= self._size_of(entry.values.pop(i))
                entry.taken.add(i)
            if not entry.values:
                del self._entries[key]
        attempt.succeed(values if attempt.key is not None else (key, values))

    def _drop_all(self) -> None:
        self._entries.clear()
        self._incomplete.clear()
