"""A store's variables at one instant, held by reference: no value is copied to take it.

A variable's value is an XLA buffer that nobody changes, or a NumPy array that its writers change
in place only while nobody else refers to it. So holding a reference is copy on write: the next
update of a variable whose value is held here makes a new value, and this one stays as it was. What
a snapshot costs is that copy, once per variable that changes while it is held, and its memory until
`release`.

Copying a table as a whole would let the first step that changes a few of its rows wait. So a large
table is held row by row (`HeldTable`): updates that name their rows go on in place, and keep what
was there before. Reading it from the snapshot copies it, a block at a time.

Invariants: the values are those of one instant, at which no update was under way; they never
change. Only variables are held: queues, accumulators and tables have states of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from millrace.core import aligned, errors
from millrace.core.resource_handle import DEFAULT_CONTAINER, ResourceHandle
from millrace.core.value import Value
from millrace.runtime.found import in_lock_order
from millrace.runtime.resources import ResourceStore, VariableSlot

_R = TypeVar("_R")
#: A variable's container and name.
Key = tuple[str, str]


#: Smaller variables are copied as a whole when they change.
MIN_HELD_BYTES = 4 << 20
#: So much of a table is copied at a time: an update of it waits no longer.
_BLOCK_BYTES = 1 << 20


class HeldTable:
    """A large table as it was, while its rows are updated in place.

    Its content is that of a view, except for the rows that were kept. The view is of the live
    table; a writer that changes the whole table sees that a reader holds it, and makes another.

    Args:
      slot: The variable, whose lock is held.
      view: Its value.
    """

    def __init__(self, slot: VariableSlot, view: Value) -> None:
        self.slot = slot
        self._view: Value | None = view
        self._is_kept = np.zeros(len(view), np.bool_)
        self._kept: list[tuple[Value, Value]] = []
        self.nbytes = int(view.nbytes)
        slot.held = self

    def before_change(self, rows: Value) -> None:
        """Rows are about to be changed in place; the variable's lock is held."""
        view = self._view
        if view is None:
            return
        if _address(view) != _address(self.slot.value):
            self.slot.held = None  # The variable has another value by now: this one stays.
            return
        rows = np.unique(rows)
        rows = rows[(rows >= 0) & (rows < len(view))]
        new = rows[~self._is_kept[rows]]
        if new.size:
            self._is_kept[new] = True
            self._kept.append((new, view[new]))
        self._view = None  # Else the change would be made in a copy.

    def after_change(self) -> None:
        """The rows are changed, and the variable has its value."""
        if self.slot.held is self:
            self._view = _view_of(self.slot.value)

    def copy(self) -> Value:
        """The table as it was; updates wait for a block of it at most."""
        with self.slot.lock:
            view = self._view
            assert view is not None
            made = aligned.empty(view.shape, view.dtype)
        count = max(1, _BLOCK_BYTES // max(1, self.nbytes // len(made)))
        for start in range(0, len(made), count):
            with self.slot.lock:
                view = self._view
                assert view is not None
                made[start : start + count] = view[start : start + count]
        with self.slot.lock:
            for rows, values in self._kept:
                made[rows] = values
            self.release()
        return made

    def release(self) -> None:
        """Keeps nothing any more; the variable's lock is held."""
        if self.slot.held is self:
            self.slot.held = None
        self._view = None
        self._kept.clear()


class StoreSnapshot(ResourceStore):
    """The variables of a store, as they were; other resources are those of the live store.

    It is a store, so that a plan can run on it as it runs on the live one. A variable that the
    snapshot does not have is without a value.
    """

    def __init__(self, live: ResourceStore, values: dict[Key, Value]) -> None:
        super().__init__()
        self._live = live
        self._slots: dict[Key, VariableSlot] = {}
        #: Tables that nobody has read yet.
        self._held: dict[Key, HeldTable] = {}
        self._reading = threading.Lock()
        for key, value in values.items():
            if isinstance(value, HeldTable):
                self._held[key] = value
            self._slots[key] = slot = VariableSlot(key[1])
            slot.value = None if key in self._held else value

    def get_or_create(
        self, kind: type[_R], container: str, name: str, create: Callable[[], _R]
    ) -> _R:
        """The resource of that kind and name, made by `create` the first time."""
        if kind is not VariableSlot:
            return self._live.get_or_create(kind, container, name, create)
        return self._slot((container or DEFAULT_CONTAINER, name))  # type: ignore[return-value]

    def _slot(self, key: Key) -> VariableSlot:
        with self._lock:
            slot = self._slots.setdefault(key, VariableSlot(key[1]))
            if key not in self._held:
                return slot
        with self._reading:
            with self._lock:
                held = self._held.get(key)
            if held is not None:
                value = held.copy()
                with self._lock:
                    if self._held.pop(key, None) is not None:  # else it was released meanwhile
                        slot.value = value
        return slot

    def get(self, kind: type[_R], handle: ResourceHandle) -> _R:
        """The resource behind a handle; NotFoundError if there is none."""
        if kind is not VariableSlot:
            return self._live.get(kind, handle)
        return self.variable(handle.container, handle.name)  # type: ignore[return-value]

    def remove(self, kind: type, handle: ResourceHandle) -> Value:
        """Refuses: what was is not changed."""
        raise errors.FailedPreconditionError(
            None, None, f"{handle.name} cannot be dropped from a snapshot."
        )

    def all_of(self, kind: type[_R]) -> list[tuple[str, str, _R]]:
        """(container, name, resource) of every resource of that kind."""
        if kind is not VariableSlot:
            return self._live.all_of(kind)
        with self._lock:
            keys = list(self._slots)
        return [(*key, self._slot(key)) for key in keys]  # type: ignore[misc]

    def __iter__(self) -> Iterator[tuple[Key, Value]]:
        """Each variable that has a value, by container and name."""
        found = ((key, slot.value) for *key, slot in self.all_of(VariableSlot))
        return (((key[0], key[1]), value) for key, value in found if value is not None)

    @property
    def nbytes(self) -> int:
        """The size of what is held; it costs memory only as far as the variables change."""
        with self._lock:
            held = sum(table.nbytes for table in self._held.values())
            values = [slot.value for slot in self._slots.values() if slot.value is not None]
            return held + sum(int(value.nbytes) for value in values)

    def release(self) -> None:
        """Holds the values no more: updates happen in place again."""
        with self._lock:
            held, self._held = self._held, {}
            # Plans remember the slots that they have read.
            for slot in self._slots.values():
                slot.value = None
        for table in held.values():
            with table.slot.lock:
                table.release()


def take(store: ResourceStore) -> StoreSnapshot:
    """The variables of a store, as they are between two updates.

    Waits for updates that are under way; those that come meanwhile wait until it is taken.
    """
    found = store.all_of(VariableSlot)
    locked = in_lock_order([slot for _, _, slot in found])
    for slot in locked:
        slot.lock.acquire()
    try:
        # A host view of an XLA buffer keeps later updates from reusing it.
        values = {
            (container, name): _held(slot)
            for container, name, slot in found
            if slot.value is not None
        }
    finally:
        for slot in reversed(locked):
            slot.lock.release()
    return StoreSnapshot(store, values)


def _held(slot: VariableSlot) -> Value:
    """A variable's value, as a snapshot holds it; its lock is held."""
    value = slot.value
    is_table = value.ndim >= 2 and value.nbytes >= MIN_HELD_BYTES and not value.dtype.hasobject
    # One snapshot at a time keeps rows; another one is copied as a whole.
    if is_table and slot.held is None:
        return HeldTable(slot, _view_of(value))
    return np.asarray(value)


def _view_of(value: Value) -> Value:
    """A view that keeps updates from changing what it shows, until it is dropped.

    `np.asarray` would have XLA's array remember the view.
    """
    return value if isinstance(value, np.ndarray) else np.from_dlpack(value)


def _address(value: Value) -> int:
    if isinstance(value, np.ndarray):
        return int(value.__array_interface__["data"][0])
    return int(value.unsafe_buffer_pointer())
