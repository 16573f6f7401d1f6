"""A barrier: elements whose components arrive one by one, each under the element's key.

An element waits among the incomplete ones until all its components are there, then moves to a
priority queue, ordered by when its key was first seen. A barrier that is closed accepts no new
key, but still completes the ones it has.

Invariant: the queue of ready elements is closed when, and only when, the barrier is closed and
nothing incomplete is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.core import errors
from millrace.protocol.attempt import Attempt
from millrace.protocol.queue import Close, Dequeue, Enqueue, PriorityQueueState

_MISSING = object()


class _Incomplete:
    """An element some of whose components are there."""

    __slots__ = ("components", "index", "missing")

    def __init__(self, index: int, count: int) -> None:
        self.index = index
        self.components: list[Any] = [_MISSING] * count
        self.missing = count


class BarrierState:
    """A barrier for elements of `component_count` components."""

    def __init__(self, name: str, component_count: int) -> None:
        self.name = name
        self._component_count = component_count
        self._incomplete: dict[bytes, _Incomplete] = {}
        #: Elements (index, key, components...) that are complete.
        self._ready = PriorityQueueState(f"{name}_queue", -1)
        self._next_index = -(2**63)
        self._is_closed = False
        self._refuses_all = False

    @property
    def ready_size(self) -> int:
        """How many elements are complete."""
        return len(self._ready)

    @property
    def incomplete_size(self) -> int:
        """How many keys still lack components."""
        return len(self._incomplete)

    # -- Events: each returns the attempts that it has settled -----------------------------

    def insert_many(
        self, component: int, keys: Sequence[bytes], values: Sequence[object]
    ) -> list[Attempt]:
        """One component of several elements arrived.

        Raises:
          InvalidArgumentError: A key has this component already.
          CancelledError: The barrier is closed, and a key is new.
        """
        if self._refuses_all:
            raise errors.CancelledError(
                None,
                None,
                f"Barrier {self.name} is closed.  Pending enqueues cancelled: 1.  Number of new "
                f"insertions: {len(keys)}.  Number of incomplete keys: {self.incomplete_size}.",
            )
        ready = []
        has_new_keys = False
        try:
            for i, (key, value) in enumerate(zip(keys, values, strict=True)):
                found = self._incomplete.get(key)
                if found is None:
                    if self._is_closed:
                        raise errors.CancelledError(
                            None,
                            None,
                            f"Barrier {self.name} is closed, but attempted to insert a brand new "
                            f"key: {key.decode(errors='replace')}.  Pending enqueues cancelled: "
                            f"0.  Insertion index: {i}.  Number of incomplete keys: "
                            f"{self.incomplete_size}.",
                        )
                    found = _Incomplete(self._next_index, self._component_count)
                    self._incomplete[key] = found
                    has_new_keys = True
                if found.components[component] is not _MISSING:
                    raise errors.InvalidArgumentError(
                        None,
                        None,
                        f"Key {key.decode(errors='replace')} already has a value for component "
                        f"{component} in barrier {self.name}",
                    )
                found.components[component] = value
                found.missing -= 1
                if not found.missing:
                    del self._incomplete[key]
                    ready.append((found.index, key, *found.components))
        finally:
            self._next_index += has_new_keys
        settled = self._ready.submit(Enqueue(ready)) if ready else []
        if self._is_closed and not self._incomplete and not self._ready.is_closed:
            settled += self._ready.submit(Close())
        return settled

    def submit(self, attempt: Dequeue) -> list[Attempt]:
        """A new request to take elements."""
        if self._is_closed:
            available = self.ready_size
            wanted = attempt.missing
            if attempt.allow_small_batch:
                wanted = min(wanted, available)
            else:
                available += self.incomplete_size
            if available < max(wanted, 1):
                attempt.fail(
                    errors.OutOfRangeError(
                        None,
                        None,
                        f"Barrier '{self.name}' is closed and has insufficient elements "
                        f"(requested {wanted}, total size {available})",
                    )
                )
                return [attempt]
            attempt.missing = wanted
        return self._ready.submit(attempt)

    def cancel(self, attempt: Dequeue) -> list[Attempt]:
        """The step that made the request was cancelled."""
        return self._ready.cancel(attempt)

    def close(self, cancel_pending_enqueues: bool) -> list[Attempt]:
        """Closes; with `cancel_pending_enqueues`, what is incomplete is dropped.

        Raises:
          CancelledError: It is closed already, and this would change nothing.
        """
        if self._is_closed and (self._refuses_all or not cancel_pending_enqueues):
            raise errors.CancelledError(None, None, f"Barrier '{self.name}' is already closed.")
        self._is_closed = True
        self._refuses_all = cancel_pending_enqueues
        if cancel_pending_enqueues:
            self._incomplete.clear()
        if self._incomplete or self._ready.is_closed:
            return []
        return self._ready.submit(Close())

    def abandon(self) -> list[Attempt]:
        """The barrier itself goes away."""
        return self._ready.abandon()
