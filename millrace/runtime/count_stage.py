"""A counter goes up by a constant: the host does that without calling an XLA program.

The global step of asynchronous training is counted when all updates are done. Where these are not
one program, for instance because rows of a table are updated, the counter would be one of its own,
and the call of it cost more than many a stage.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.passes.node import Edge, Node, variable_of
from millrace.runtime.small_variable_stage import SmallVariableStage

_ADD = ("AssignAdd", "AssignAddVariableOp")
_SUBTRACT = ("AssignSub", "AssignSubVariableOp")


class CountStage(SmallVariableStage):
    """Adds a constant to an integer."""

    def __init__(self, node: Node, wanted: list[Edge], name: str) -> None:
        super().__init__(node, wanted, name)
        self._change = np.add if node.type in _ADD else np.subtract
        self._by = np.asarray(node.inputs[1].node.attrs["value"])

    def run(self, inputs: list[Any], step: Any) -> list[Any]:
        """Counts; returns the new number if somebody wants it."""
        slot = self._slot_in(step.resources)
        with slot.lock:
            value = slot.value
            if value is not None and value.shape == ():
                new = np.empty((), self._by.dtype)
                self._change(np.asarray(value), self._by, out=new)
                new.flags.writeable = False
                slot.value = new
                return [new] * len(self.outputs)
        return self._compiled.run(inputs, step)


def applies(node: Node, wanted: list[Edge]) -> bool:
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
