"""Stages that change one small variable on the host: no XLA program is called for it.

A worker of synchronous training takes a token in every step and notes it as its local step. The
global step of asynchronous training is counted when all updates are done. Where these are not one
program, for instance because rows of a table are updated, a program for the counter alone would
cost more than many a stage.
"""

from __future__ import annotations

import numpy as np

from millrace.passes.node import Edge, Node, is_variable_edge, variable_of
from millrace.runtime.compiled_stage import CompiledStage
from millrace.runtime.found import FoundVariables
from millrace.runtime.stage import Value
from millrace.runtime.step import Step

#: Larger values are XLA's business: a variable on an accelerator is there for it.
MAX_BYTES = 256
_ADD = ("AssignAdd", "AssignAddVariableOp")
_SUBTRACT = ("AssignSub", "AssignSubVariableOp")


class _SmallVariableStage:
    """One node whose first input is the variable; `_compiled` does the same by XLA."""

    may_block = False
    is_short = True

    def __init__(self, node: Node, wanted: list[Edge], name: str) -> None:
        self._compiled = CompiledStage([node], wanted, name)
        self.node = node
        self.nodes = [node]
        self.name = name
        self.inputs = self._compiled.inputs
        self.outputs = wanted
        variable = variable_of(node.inputs[0])
        assert variable is not None
        self._variable = variable
        self._slots = FoundVariables([variable])


class AssignStage(_SmallVariableStage):
    """One assignment to a variable of known shape."""

    def __init__(self, node: Node, wanted: list[Edge], name: str) -> None:
        super().__init__(node, wanted, name)
        # A value too large, or of another shape, is left to the program.
        self._sizes = tuple(self._variable.attrs["shape"].as_list())
        self._dtype = np.dtype(node.inputs[1].dtype.base_dtype.as_numpy_dtype)

    def run(self, inputs: list[Value], step: Step) -> list[Value]:
        """Assigns; returns the new value if somebody wants it."""
        value = inputs[0]
        if (
            type(value) is not np.ndarray
            or value.shape != self._sizes
            or value.dtype != self._dtype
            or value.nbytes > MAX_BYTES
        ):
            return self._compiled.run(inputs, step)
        (slot,) = self._slots.slots(step.resources)
        kept = value.copy()
        kept.flags.writeable = False
        with slot.lock:
            slot.value = kept
        return [kept] * len(self.outputs)


def is_small_assignment(node: Node) -> bool:
    """Whether a node assigns a value that comes from the host to a variable of known shape."""
    if node.type != "Assign" or is_variable_edge(node.inputs[1]):
        return False
    variable = variable_of(node.inputs[0])
    return (
        variable is not None
        and node.inputs[1].node.type != "Const"
        and node.inputs[1].dtype.base_dtype.name not in ("string", "resource", "variant")
        and variable.attrs["shape"].is_fully_defined()
        and variable.attrs["dtype"] == node.inputs[1].dtype.base_dtype
    )


class CountStage(_SmallVariableStage):
    """Adds a constant to an integer."""

    def __init__(self, node: Node, wanted: list[Edge], name: str) -> None:
        super().__init__(node, wanted, name)
        self._change = np.add if node.type in _ADD else np.subtract
        self._by = np.asarray(node.inputs[1].node.attrs["value"])

    def run(self, inputs: list[Value], step: Step) -> list[Value]:
        """Counts; returns the new number if somebody wants it."""
        (slot,) = self._slots.slots(step.resources)
        with slot.lock:
            value = slot.value
            if value is not None and value.shape == ():
                new = np.empty((), self._by.dtype)
                self._change(np.asarray(value), self._by, out=new)
                new.flags.writeable = False
                slot.value = new
                return [new] * len(self.outputs)
        return self._compiled.run(inputs, step)


def is_counter(node: Node, wanted: list[Edge]) -> bool:
    """Whether a node adds a constant to a single integer."""
    if node.type not in (*_ADD, *_SUBTRACT) or node.inputs[1].node.type != "Const":
        return False
    variable = variable_of(node.inputs[0])
    return (
        variable is not None
        and not any(edge.dtype.name == "resource" for edge in wanted)
        and variable.attrs["shape"].is_fully_defined()
        and variable.attrs["shape"].ndims == 0
        and variable.attrs["dtype"].base_dtype.is_integer
        and variable.attrs["dtype"].base_dtype == node.inputs[1].dtype.base_dtype
        and not node.inputs[1].node.attrs["value"].shape
    )
