"""Variables as kernels see them: references to read and write, and where these lead.

A kernel gets a `VariableRef`. Behind it is the task's store (`StoredState`), or names for values
inside a program that is being traced (`TracedState`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from millrace.compiler import row_sums
from millrace.compiler.xla import jax
from millrace.core import aligned, errors
from millrace.core.value import Value
from millrace.passes.node import Node
from millrace.runtime.resources import BEING_UPDATED, ResourceStore, VariableSlot

#: Changes arrays in place.
Change = Callable[[list[Value]], None]
_NONE_FOUND: Mapping[Node, VariableSlot] = {}


class VariableState(Protocol):
    """Where a kernel's variable inputs read and write."""

    def read(self, variable: Node) -> Value:
        """The current value."""

    def write(self, variable: Node, value: object) -> None:
        """Replaces the value."""

    def write_rows(self, variable: Node, rows: Value, values: Value) -> None:
        """Replaces rows of the value."""

    def add_rows(self, variable: Node, rows: object, values: object) -> None:
        """Adds to rows of the value."""

    def change(self, variables: Sequence[Node], change: Change) -> None:
        """Changes the values of several variables together."""


class VariableRef:
    """What a kernel gets for a variable input (a reference or a resource)."""

    __slots__ = ("_state", "node")

    def __init__(self, state: VariableState, node: Node) -> None:
        self._state = state
        self.node = node

    @property
    def declared_shape(self) -> Value:
        """The static shape that the variable was made with."""
        return self.node.attrs["shape"]

    @property
    def dtype(self) -> Value:
        """The variable's type."""
        return self.node.attrs["dtype"]

    @property
    def name(self) -> str:
        """The variable's name."""
        return self.node.name

    def read(self) -> Value:
        """The current value.

        Raises:
          FailedPreconditionError: The variable is not initialised.
        """
        return self._state.read(self.node)

    def write(self, value: object) -> None:
        """Replaces the value."""
        self._state.write(self.node, value)

    def write_rows(self, rows: object, values: object) -> None:
        """Replaces rows of the value, which must be distinct; on the host in place if it can."""
        self._state.write_rows(self.node, rows, values)

    def add_rows(self, rows: object, values: object) -> None:
        """Adds to rows of the value, which may repeat; on the host in place if it can."""
        self._state.add_rows(self.node, rows, values)

    def change(self, others: Sequence[VariableRef], change: Change) -> None:
        """Changes the values of this variable and others together; on the host in place if it can.

        Args:
          others: Further variables.
          change: Changes the NumPy arrays that it is given, one for each variable.
        """
        self._state.change([self.node, *(other.node for other in others)], change)

    def is_initialized(self) -> bool:
        """Whether there is a value; for host kernels only."""
        assert isinstance(self._state, StoredState)
        return self._state.slot(self.node).value is not None

    def clear(self) -> None:
        """Takes the value away; for host kernels only."""
        assert isinstance(self._state, StoredState)
        self._state.slot(self.node).value = None


def variable_key(node: Node) -> tuple[str, str]:
    """(container, name) under which a variable is stored."""
    shared = node.attrs.get("shared_name") or node.attrs.get("var_name") or b""
    return node.attrs.get("container", b"").decode(), (shared.decode() or node.name)


def uninitialized(node: Node) -> errors.FailedPreconditionError:
    """The error for reading a variable that has no value."""
    return errors.FailedPreconditionError(
        None,
        node.source,
        f"Attempting to use uninitialized value {variable_key(node)[1]}. Run its initializer "
        "(tf.global_variables_initializer() for all of them) or restore a checkpoint first.",
    )


class StoredState:
    """Variables read and written directly in a store; used outside of compiled stages.

    Args:
      resources: The store.
      slots: The storage of some variables, where it was looked up before.
    """

    def __init__(
        self, resources: ResourceStore, slots: Mapping[Node, VariableSlot] | None = None
    ) -> None:
        self._resources = resources
        self._slots = _NONE_FOUND if slots is None else slots

    def slot(self, node: Node) -> VariableSlot:
        """The variable's storage."""
        found = self._slots.get(node)
        return self._resources.variable(*variable_key(node)) if found is None else found

    def read(self, variable: Node) -> Value:
        """The current value; FailedPreconditionError when there is none."""
        slot = self._slots.get(variable)
        if slot is None:
            slot = self._resources.variable(*variable_key(variable))
        value = slot.value
        if type(value) is np.ndarray:
            return value
        value = self.read_slot(slot)
        if value is None:
            raise uninitialized(variable)
        return value

    @staticmethod
    def read_slot(slot: VariableSlot) -> Value:
        """The value in a slot, or None."""
        while True:
            value = slot.value
            if value is None or type(value) is np.ndarray:
                return value
            try:
                # A view of the buffer: XLA copies on write while somebody holds one.
                return np.asarray(value)
            except RuntimeError:
                # Another step has taken the buffer to update it in place; it holds the lock
                # until the new value is there.
                with slot.lock:
                    if slot.value is value:
                        raise

    def write(self, variable: Node, value: object) -> None:
        """Replaces the value."""
        if not isinstance(value, jax.Array):
            value = owned(value)
        self.slot(variable).value = value

    def values(self, variables: Sequence[Node]) -> list[Value] | None:
        """The current values; None if one is missing."""
        found = [self.slot(variable).value for variable in variables]
        if all(type(value) is np.ndarray for value in found):
            return found
        found = [self.read_slot(self.slot(variable)) for variable in variables]
        return None if any(value is None for value in found) else found

    def store(self, each: Iterable[tuple[Node, Node, Value]]) -> None:
        """Stores values that nobody else has: (writer, variable, value)."""
        for _, variable, value in each:
            self.slot(variable).value = value

    def write_rows(self, variable: Node, rows: Value, values: Value) -> None:
        """Replaces rows, in place if nobody else looks at the variable; its lock is held."""

        def replace(table: Value) -> None:
            table[rows] = values

        self.change([variable], lambda tables: replace(tables[0]))

    def add_rows(self, variable: Node, rows: object, values: object) -> None:
        """Adds to rows, in place if nobody else looks at the variable; its lock is held."""
        self.change([variable], lambda tables: row_sums.add_to_rows(tables[0], rows, values))

    def change(self, variables: Sequence[Node], change: Change) -> None:
        """Changes values, in place where nobody else looks at them; their locks are held."""
        slots = [self.slot(variable) for variable in variables]
        tables: list[Value] = []
        try:
            for slot, variable in zip(slots, variables, strict=True):
                tables.append(_taken(slot, variable))
            change(tables)
        finally:
            for slot in reversed(slots[: len(tables)]):
                # Another object, so that nobody takes it for the value from before.
                slot.value = tables.pop().view()


def _taken(slot: VariableSlot, variable: Node) -> Value:
    """The array of a slot, to be changed in place; a reader meanwhile waits for the lock."""
    table = slot.value
    if table is None:
        raise uninitialized(variable)
    slot.value = BEING_UPDATED
    try:
        return writable(table)
    except BaseException:
        slot.value = table
        raise


def owned(value: object) -> Value:
    """An array of the store's own: a kernel's result may be somebody's input, or a view of one."""
    value = np.asarray(value)
    if value.dtype.hasobject or value.nbytes < aligned.LITTLE:
        return np.array(value)
    copy = aligned.empty(value.shape, value.dtype)
    copy[...] = value
    return copy


def writable(table: object) -> Value:
    """The array itself if only the caller has it, else a copy; to be changed in place.

    As NumPy's own `resize` does it: references are counted, of the array and of the memory that
    it is a view of. XLA's arrays are not ours to change, so those are copied.
    """
    if type(table) is not np.ndarray or not table.flags.writeable:
        return owned(table)
    # One reference is the caller's variable, one the argument here, one the count's own.
    if sys.getrefcount(table) > 3 or (
        # One is the array's, one the count's own.
        table.base is not None and sys.getrefcount(table.base) > 2
    ):
        return owned(table)
    return table


class TracedState:
    """Variables while kernels are traced: names for values inside the program."""

    def __init__(self, values: dict[Node, Value]) -> None:
        self.values = values

    def read(self, variable: Node) -> Value:
        """The value inside the program."""
        return self.values[variable]

    def write(self, variable: Node, value: object) -> None:
        """Gives the variable another value from here on."""
        self.values[variable] = value

    def write_rows(self, variable: Node, rows: Value, values: Value) -> None:
        """Gives the variable a value with other rows from here on."""
        self.write(variable, self.read(variable).at[rows].set(values))

    def add_rows(self, variable: Node, rows: object, values: object) -> None:
        """Gives the variable a value with sums in some rows from here on."""
        self.write(variable, self.read(variable).at[rows].add(values))

    def change(self, variables: Sequence[Node], change: Change) -> None:
        """Only arrays of NumPy's are changed in place."""
        raise AssertionError("A traced value cannot be changed in place")
