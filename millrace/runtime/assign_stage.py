"""A small value of the host becomes a variable's: no XLA program is called to copy it.

A worker of synchronous training takes a token in every step and notes it as its local step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.passes.node import Edge, Node, is_variable_edge, variable_of
from millrace.runtime.small_variable_stage import SmallVariableStage

#: Larger values are XLA's business: a variable on an accelerator is there for it.
MAX_BYTES = 256


class AssignStage(SmallVariableStage):
    """One assignment to a variable of known shape."""

    def __init__(self, node: Node, wanted: list[Edge], name: str) -> None:
        super().__init__(node, wanted, name)
        # A value too large, or of another shape, is left to the program.
        self._sizes = tuple(self._variable.attrs["shape"].as_list())
        self._dtype = np.dtype(node.inputs[1].dtype.base_dtype.as_numpy_dtype)

    def run(self, inputs: list[Any], step: Any) -> list[Any]:
        """Assigns; returns the new value if somebody wants it."""
        value = inputs[0]
        if (
            type(value) is not np.ndarray
            or value.shape != self._sizes
            or value.dtype != self._dtype
            or value.nbytes > MAX_BYTES
        ):
            return self._compiled.run(inputs, step)
        slot = self._slot_in(step.resources)
        kept = value.copy()
        kept.flags.writeable = False
        with slot.lock:
            slot.value = kept
        return [kept] * len(self.outputs)


def applies(node: Node) -> bool:
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
