"""State that outlives a step: containers of named resources.

A resource is kept by (container, name) and kind, so that clients of one server share what
has one name. Dropping a container drops all that is in it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from numpy.typing import DTypeLike

from millrace.core import errors
from millrace.core.resource_handle import DEFAULT_CONTAINER, ResourceHandle
from millrace.core.value import Value

_R = TypeVar("_R")


class _BeingUpdated:
    """Stands in a slot while its value is changed in place; the slot's lock is held meanwhile.

    Code that uses it as a value fails as with a buffer that an update has taken, and waits.
    """

    shape = dtype = None

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Value:
        raise RuntimeError("The variable is being updated.")


BEING_UPDATED = _BeingUpdated()


class HeldRows(Protocol):
    """Keeps rows of a table as they were, when they are about to be changed in place."""

    def before_change(self, rows: object) -> None:
        """Rows are about to be changed; the slot's lock is held until `after_change`."""

    def after_change(self) -> None:
        """They are changed, and the slot has its value."""


class VariableSlot:
    """One variable's storage.

    Attributes:
      value: The current value: a jax.Array, which nobody changes; a NumPy array, which is changed
        in place only while nobody else refers to it (`variable_state.writable`); None while
        uninitialised; or `BEING_UPDATED`. Arrays of strings are of objects.
      lock: Held by writers from reading the old buffer to storing the new one.
      serial: A number by which locks are taken in one order.
      held: A snapshot of the value whose rows are kept when they are changed in place; or None.
        Guarded by the lock.
    """

    __slots__ = ("held", "lock", "name", "serial", "value")
    _serials = itertools.count()

    def __init__(self, name: str) -> None:
        self.name = name
        self.value: Any = None
        self.lock = threading.Lock()
        self.serial = next(self._serials)
        self.held: HeldRows | None = None


class ResourceStore:
    """All containers of one task (or of one in-process session)."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._containers: dict[str, dict[tuple[type, str], Any]] = {}
        #: Grows when containers are dropped: what was looked up before is void.
        self.generation = 0
        #: Told of each resource that is made, with its container and name.
        self.on_created: Callable[[Any, str, str], None] | None = None

    def get_or_create(
        self, kind: type[_R], container: str, name: str, create: Callable[[], _R]
    ) -> _R:
        """The resource of that kind and name, made by `create` the first time."""
        key = (kind, name)
        with self._lock:
            members = self._containers.setdefault(container or DEFAULT_CONTAINER, {})
            found = members.get(key)
            if found is None:
                found = members[key] = create()
                if self.on_created is not None:
                    self.on_created(found, container or DEFAULT_CONTAINER, name)
            return found

    def get(self, kind: type[_R], handle: ResourceHandle) -> _R:
        """The resource behind a handle.

        Raises:
          NotFoundError: There is none (its container was cleared, or it was never made).
        """
        with self._lock:
            found = self._containers.get(handle.container, {}).get((kind, handle.name))
        if found is None:
            raise errors.NotFoundError(
                None,
                None,
                f"Resource {handle.container}/{handle.name}/{kind.__name__} does not exist.",
            )
        return found  # type: ignore[no-any-return]

    def remove(self, kind: type, handle: ResourceHandle) -> Value:
        """Drops one resource and returns it, or None."""
        with self._lock:
            return self._containers.get(handle.container, {}).pop((kind, handle.name), None)

    def drop(self, handle: ResourceHandle) -> None:
        """Drops the resources of one name, of whatever kind, and ends the waits at them."""
        with self._lock:
            members = self._containers.get(handle.container, {})
            dropped = [members.pop(key) for key in list(members) if key[1] == handle.name]
        for resource in dropped:
            _end(resource)

    def variable(self, container: str, name: str) -> VariableSlot:
        """The slot of a variable, made when missing."""
        return self.get_or_create(VariableSlot, container, name, lambda: VariableSlot(name))

    def clear(self, containers: list[str] | None = None) -> None:
        """Drops the named containers, or the default one when none is named."""
        names = containers or [DEFAULT_CONTAINER]
        with self._lock:
            dropped = [self._containers.pop(name, {}) for name in names]
            self.generation += 1
        for members in dropped:
            for resource in members.values():
                _end(resource)

    def clear_all(self) -> None:
        """Drops every container."""
        with self._lock:
            names = list(self._containers)
        if names:
            self.clear(names)

    def all_of(self, kind: type[_R]) -> list[tuple[str, str, _R]]:
        """(container, name, resource) of every resource of that kind."""
        with self._lock:
            return [
                (container, name, resource)
                for container, members in self._containers.items()
                for (member_kind, name), resource in members.items()
                if member_kind is kind
            ]


def _end(resource: object) -> None:
    if isinstance(resource, VariableSlot):
        # Plans hold slots directly: an old slot must not keep its value.
        resource.value = None
    close = getattr(resource, "close", None)
    if close is not None:
        close()
