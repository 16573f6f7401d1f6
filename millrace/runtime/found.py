"""What a stage has found in a resource store, kept until it may be another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from millrace.passes.node import Node
from millrace.runtime.kernel_call import variable_key
from millrace.runtime.resources import ResourceStore, VariableSlot

T = TypeVar("T")


class Found(Generic[T]):
    """Something found once for a store or a session, until containers are cleared.

    Threads may find it at the same time; what each of them finds is the same.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: tuple[object, int, T] | None = None

    def get(self, owner: object, resources: ResourceStore, find: Callable[[], T]) -> T:
        """What was found, or is found now.

        Args:
          owner: Whose it is: a session, or the store.
          resources: Where it is kept.
          find: Finds it.
        """
        held, generation = self._held, resources.generation
        if held is None or held[0] is not owner or held[1] != generation:
            held = self._held = owner, generation, find()
        return held[2]


class FoundVariables:
    """The storage of a stage's variables."""

    __slots__ = ("_found", "variables")

    def __init__(self, variables: Sequence[Node]) -> None:
        self.variables = list(variables)
        self._found: Found[list[VariableSlot]] = Found()

    def slots(self, resources: ResourceStore) -> list[VariableSlot]:
        """The slots, in the order of the variables."""
        return self._found.get(
            resources,
            resources,
            lambda: [resources.variable(*variable_key(v)) for v in self.variables],
        )


def in_lock_order(slots: Sequence[VariableSlot]) -> list[VariableSlot]:
    """Each slot once, in the order in which every stage takes locks."""
    return [slot for _, slot in sorted({slot.serial: slot for slot in slots}.items())]
