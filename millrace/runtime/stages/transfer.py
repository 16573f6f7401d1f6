"""Sends and receives between tasks: host nodes of every step, so their call is worked out once."""

from __future__ import annotations

import numpy as np

from millrace.compiler.xla import ArrayImpl, jax
from millrace.core.dead import DEAD
from millrace.core.written import Written
from millrace.ops.control_flow.tensor_list_value import Collection
from millrace.passes.node import Edge, Node, is_variable_edge, variable_of
from millrace.runtime.found import FoundVariables
from millrace.runtime.future import Future
from millrace.runtime.kernel_call import StoredState, op_error, uninitialized
from millrace.runtime.resources import ResourceStore, VariableSlot
from millrace.runtime.stage import Value
from millrace.runtime.step import Step

#: What is sent as it is.
_OF_THE_HOST = (np.ndarray, Written)


class SendStage:
    """Hands values, and variables as they are now, to the exchange of the step."""

    may_block = False
    is_short = True

    def __init__(self, node: Node) -> None:
        self.node = node
        self.nodes = [node]
        self.outputs: list[Edge] = []
        self.inputs = [edge for edge in dict.fromkeys(node.inputs) if not is_variable_edge(edge)]
        self._to, self._key = node.attrs["to"].decode(), node.attrs["key"]
        self._is_last = node.attrs["last"]
        positions = {edge: i for i, edge in enumerate(self.inputs)}
        named = dict.fromkeys(_variable(edge) for edge in node.inputs)
        self._variables = [variable for variable in named if variable is not None]
        numbers = {variable: i for i, variable in enumerate(self._variables)}
        #: For each tensor where it stands: (among the inputs, or else among the variables,
        #: position).
        self._sources: list[tuple[bool, int]] = []
        for edge in node.inputs:
            variable = _variable(edge)
            if variable is None:
                self._sources.append((True, positions[edge]))
            else:
                self._sources.append((False, numbers[variable]))
        self._slots = FoundVariables(self._variables)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    def run(self, inputs: list[Value], step: Step) -> list[Value]:
        """Sends.

        Raises:
          OpError: The other task cannot be reached, or a variable has no value.
        """
        try:
            held = self._read(step.resources) if self._variables else []
            tensors = []
            for is_input, position in self._sources:
                value = inputs[position] if is_input else held[position]
                if type(value) is ArrayImpl:
                    value = np.asarray(value)
                elif type(value) not in _OF_THE_HOST:
                    value = _on_host(value)
                tensors.append(value)
            if self._is_last:
                step.exchange.send_last(tensors)
            else:
                step.exchange.send(self._to, self._key, tensors)
        except Exception as error:
            raise op_error(self.node, error) from None
        return []

    def values(self, resources: ResourceStore) -> list[Value]:
        """What a send of nothing but variables sends now.

        Raises:
          FailedPreconditionError: One has no value.
        """
        held = self._read(resources)
        return [held[position] for _, position in self._sources]

    def slots(self, resources: ResourceStore) -> list[VariableSlot]:
        """Where what a send of nothing but variables sends is stored."""
        held = self._slots.slots(resources)
        return [held[position] for _, position in self._sources]

    def _read(self, resources: ResourceStore) -> list[Value]:
        values = []
        for slot, variable in zip(self._slots.slots(resources), self._variables, strict=True):
            value = StoredState.read_slot(slot)
            if value is None:
                raise uninitialized(variable)
            values.append(value)
        return values


class ReceiveStage:
    """Takes values from the exchange of the step, or what will have them."""

    may_block = True
    is_short = True

    def __init__(self, node: Node) -> None:
        self.node = node
        self.nodes = [node]
        self.inputs: list[Edge] = []
        self.outputs = [Edge(node, i) for i in range(len(node.output_types))]
        self._source = node.attrs["source"].decode()
        #: What tells the values apart from all others of a step.
        self.key: int = node.attrs["key"]

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    def run(self, inputs: list[Value], step: Step) -> list[Value] | Future:
        """The values of the outputs, or a Future of them."""
        try:
            received: list[Value] | Future = step.exchange.receive(self._source, self.key)
        except Exception as error:
            raise op_error(self.node, error) from None
        return received


def can_send(node: Node) -> bool:
    """Whether a send is as plain as `SendStage` takes it."""
    return all(
        variable_of(edge) is not None and edge.dtype.name != "resource"
        if is_variable_edge(edge)
        else not edge.dtype._is_ref_dtype and edge.dtype.name not in ("resource", "variant")
        for edge in node.inputs
    )


def _variable(edge: Edge) -> Node | None:
    return variable_of(edge) if is_variable_edge(edge) else None


def _on_host(value: object) -> Value:
    if value is DEAD:
        return value
    return jax.tree.map(np.asarray, value) if isinstance(value, Collection) else np.asarray(value)
