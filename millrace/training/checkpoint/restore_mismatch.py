"""Says why a checkpoint cannot be restored: which variables differ from what is in it, and how."""

from __future__ import annotations

from typing import Any

from millrace.core import errors
from millrace.core.config import SaverDef
from millrace.data.checkpoint_reader import open_checkpoint
from millrace.graph.constant_value import constant_value
from millrace.graph.graph import Graph
from millrace.graph.tensor import Tensor

_SHOWN = 20


def explained(
    error: errors.OpError, cause: str, details: list[str] | None = None
) -> errors.OpError:
    """The error again, with what it most likely means."""
    text = (
        f"Restoring from checkpoint failed. This is most likely due to {cause} from the "
        "checkpoint. Please ensure that you have not altered the graph expected based on the "
        "checkpoint."
    )
    if details:
        more = f"\n  ... and {len(details) - _SHOWN} more" if len(details) > _SHOWN else ""
        text += "\n  " + "\n  ".join(details[:_SHOWN]) + more
    kind: Any = type(error)
    made: errors.OpError = kind(
        error.node_def, error.op, f"{text}\n Original error:\n\n{error.message}"
    )
    return made


def find(graph: Graph, saver_def: SaverDef, prefix: str) -> list[str]:
    """A line for each variable that has another type or shape in the checkpoint."""
    try:
        reader = open_checkpoint(prefix)
    except errors.OpError:
        return []
    lines = []
    with reader:
        filename = saver_def.filename_tensor_name
        for op in graph.get_operations():
            if op.type != "RestoreV2" or op.inputs[0].name != filename:
                continue
            names, specs = constant_value(op.inputs[1]), constant_value(op.inputs[2])
            if names is None or specs is None:
                continue
            for name, spec, tensor in zip(names, specs, op.outputs, strict=True):
                key = name.decode()
                variable = _assigned(tensor)
                if variable is None or key not in reader:
                    continue
                lines.extend(_compare(key, spec.decode(), variable, reader.info(key)))
    return lines


def _assigned(tensor: Tensor) -> Tensor | None:
    """The variable that a restored tensor is assigned to."""
    for consumer in tensor.consumers():
        if consumer.type in ("Assign", "AssignVariableOp"):
            return consumer.inputs[0]
        if consumer.type in ("Identity", "Reshape"):
            return _assigned(consumer.outputs[0])
    return None


def _compare(key: str, spec: str, variable: Tensor, stored: Any) -> list[str]:
    if variable.op.type == "VarHandleOp":
        shape, dtype = variable.op.get_attr("shape"), variable.op.get_attr("dtype")
    else:
        shape, dtype = variable.shape, variable.dtype.base_dtype
    if spec:
        sizes = [int(size) for size in spec.split(" ")[:-1]]
    elif shape.is_fully_defined():
        sizes = shape.as_list()
    else:
        return []
    found = []
    if tuple(sizes) != stored.shape:
        found.append(f"has shape {list(stored.shape)} in the checkpoint and {sizes} in the graph")
    if dtype != stored.dtype:
        found.append(f"is {stored.dtype.name} in the checkpoint and {dtype.name} in the graph")
    return [f"{key} (variable {variable.op.name}) {' and '.join(found)}"] if found else []
