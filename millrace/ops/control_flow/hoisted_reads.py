"""Reads of resource variables, taken out of loops that a cluster runs.

A loop runs on one task, so it cannot use the handle of a variable that lives on another. A
variable that a loop only reads has one value for all its iterations: it is read before the loop,
where the variable is, and the loop takes the value. Only variables that are placed on a task are
read so, and only where nothing orders the read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.core.device_spec import DeviceSpec
from millrace.graph.function import FuncGraph
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.ops.state import variable_ops


def take_out(branches: Sequence[Any]) -> None:
    """Replaces handles that functions capture only to read them by values.

    Args:
      branches: The functions of one node, before they are finished: each with the `graph` and
        the `leaves` that it returns.
    """
    graphs = [branch.graph for branch in branches]
    if any(graph.outer_controls for graph in graphs):
        return
    for handle in dict.fromkeys(tensor for graph in graphs for tensor in graph.captures):
        if handle.dtype.name == "resource" and DeviceSpec.from_string(handle.device).job:
            _take_out_one(handle, branches)


def _take_out_one(handle: Tensor, branches: Sequence[Any]) -> None:
    inside = [b for b in branches if handle in b.graph.captures]
    reads: list[Operation] = []
    for branch in inside:
        inner = branch.graph.captures[handle]
        if any(tensor is inner for tensor in branch.leaves.tensors):
            return
        reads.extend(inner.consumers())
    if not reads or not all(map(_is_free_read, reads)):
        return
    outer = inside[0].graph.outer
    with (
        outer.as_default(),
        outer.colocate_with(None, ignore_existing=True),
        outer.device(handle.device),
    ):
        value = variable_ops.ReadVariableOp(handle, dtype=reads[0].outputs[0].dtype)
        value.set_shape(reads[0].outputs[0].shape)
    for branch in inside:
        graph: FuncGraph = branch.graph
        argument = graph.captures.pop(handle)
        graph.arguments.remove(argument)
        taken = graph.capture(value)
        for read in list(argument.consumers()):
            _replace(read.outputs[0], taken, branch)
            graph._discard([read])
            del graph._ops[read.name]
        del graph._ops[argument.op.name]


def _is_free_read(op: Operation) -> bool:
    return op.type == "ReadVariableOp" and not op.control_inputs and not op._control_outputs


def _replace(old: Tensor, new: Tensor, branch: Any) -> None:
    for user in list(old.consumers()):
        for i, tensor in enumerate(user.inputs):
            if tensor is old:
                user._update_input(i, new)
    branch.leaves.tensors = [new if t is old else t for t in branch.leaves.tensors]
