"""A store's variables at one instant, held by reference: no value is copied to take it.

A variable's value is an XLA buffer that nobody changes, or a NumPy array that its writers change
in place only while nobody else refers to it. So holding a reference is copy on write: the next
update of a variable whose value is held here makes a new value, and this one stays as it was. What
a snapshot costs is that copy, once per variable that changes while it is held, and its memory until
`release`.

Invariants: the values are those of one instant, at which no update was under way; they never
change. Only variables are held: queues, accumulators and tables have states of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from millrace.core import errors
from millrace.core.resource_handle import DEFAULT_CONTAINER, ResourceHandle
from millrace.core.value import Value
from millrace.runtime.found import in_lock_order
from millrace.runtime.resources import ResourceStore, VariableSlot

_R = TypeVar("_R")
#: A variable's container and name.
Key = tuple[str, str]


class StoreSnapshot(ResourceStore):
    """The variables of a store, as they were; other resources are those of the live store.

    It is a store, so that a plan can run on it as it runs on the live one. A variable that the
    snapshot does not have is without a value.
    """

    def __init__(self, live: ResourceStore, values: dict[Key, Value]) -> None:
        super().__init__()
        self._live = live
        self._slots: dict[Key, VariableSlot] = {}
        for (container, name), value in values.items():
            self.variable(container, name).value = value

    def get_or_create(
        self, kind: type[_R], container: str, name: str, create: Callable[[], _R]
    ) -> _R:
        """The resource of that kind and name, made by `create` the first time."""
        if kind is not VariableSlot:
            return self._live.get_or_create(kind, container, name, create)
        key = container or DEFAULT_CONTAINER, name
        with self._lock:
            return self._slots.setdefault(key, VariableSlot(name))  # type: ignore[return-value]

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
            return [(*key, slot) for key, slot in self._slots.items()]  # type: ignore[misc]

    def __iter__(self) -> Iterator[tuple[Key, Value]]:
        """Each variable that has a value, by container and name."""
        with self._lock:
            held = list(self._slots.items())
        return ((key, slot.value) for key, slot in held if slot.value is not None)

    @property
    def nbytes(self) -> int:
        """The size of what is held; it costs memory only as far as the variables change."""
        return sum(value.nbytes for _, value in self)

    def release(self) -> None:
        """Holds the values no more: updates happen in place again."""
        with self._lock:
            # Plans remember the slots that they have read.
            for slot in self._slots.values():
                slot.value = None


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
            (container, name): np.asarray(slot.value)
            for container, name, slot in found
            if slot.value is not None
        }
    finally:
        for slot in reversed(locked):
            slot.lock.release()
    return StoreSnapshot(store, values)
