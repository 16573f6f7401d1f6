"""Values that are known while the graph is built.

Folding runs an op's own kernel on NumPy when the kernel accepts that and its inputs are
known: one definition serves the runtime and this. `Shape`, `Size` and `Rank` fold from
static shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core.tensor_shape import TensorShape, as_shape, unknown_shape
from millrace.graph.tensor import Tensor

#: Larger results are not worth computing while the graph is built.
_MAX_ELEMENTS = 1 << 16
#: Chains longer than this are given up.
_MAX_DEPTH = 64
_PASS_THROUGH = frozenset(("Identity", "StopGradient", "PreventGradient", "CheckNumerics"))


def constant_value(tensor: Any, partial: bool = False) -> np.ndarray | None:
    """The value of `tensor` if it can be known now, else None.

    Args:
      tensor: The tensor.
      partial: For a Pack of scalars of which only some are known: an object array with
        None for the unknown ones.
    """
    if partial and tensor.op.type == "Pack" and tensor.op.attrs["axis"] == 0:
        parts = [constant_value(t) for t in tensor.op.inputs]
        if all(t.shape.ndims == 0 for t in tensor.op.inputs) and None in parts:
            return np.array([None if p is None else p.item() for p in parts], dtype=object)
    return _fold(tensor, 0)


def _fold(tensor: Any, depth: int) -> np.ndarray | None:
    if not isinstance(tensor, Tensor) or depth > _MAX_DEPTH:
        return None
    op = tensor.op
    kind = op.type
    if kind == "Const":
        value: np.ndarray = op.attrs["value"]
        return value
    if kind in ("Shape", "ShapeN"):
        sizes = op.inputs[tensor.value_index].shape.sizes
        if sizes is None or None in sizes:
            return None
        return np.array(sizes, op.attrs["out_type"].as_numpy_dtype)
    if kind == "VariableShape":
        behind = op.inputs[0].handle_data
        if behind is None or not behind[0].is_fully_defined():
            return None
        return np.array(behind[0].as_list(), op.attrs["out_type"].as_numpy_dtype)
    if kind == "Size":
        shape = op.inputs[0].shape
        if not shape.is_fully_defined():
            return None
        return np.array(shape.num_elements(), op.attrs["out_type"].as_numpy_dtype)
    if kind == "Rank":
        rank = op.inputs[0].shape.ndims
        return None if rank is None else np.array(rank, np.int32)
    if kind == "StridedSlice" and _may_be_shape(op.inputs[0]):
        # Part of a shape may be known where the whole is not.
        part = _part_of_shape(op, depth)
        if part is not None:
            return np.array(part, tensor.dtype.base_dtype.as_numpy_dtype)
    definition = op.definition
    if not definition.is_foldable:
        return None
    if set(definition.specials) - {"xp", "check", "node"} or not op.inputs:
        return None
    size = tensor.shape.num_elements() if tensor.shape.is_fully_defined() else 0
    if size is not None and size > _MAX_ELEMENTS:
        return None
    if any(t.dtype._is_ref_dtype or t.dtype.name in ("resource", "variant") for t in op.inputs):
        return None
    values = []
    for source in op.inputs:
        known = _fold(source, depth + 1)
        if known is None or known.size > _MAX_ELEMENTS:
            return None
        values.append(known)
    try:
        outputs = evaluate(op, values)
    except Exception:
        # A value that cannot be computed is an error of the run, not of inference.
        return None
    return outputs[tensor.value_index]


def evaluate(op: Any, values: list[np.ndarray]) -> list[np.ndarray]:
    """Runs the kernel of `op` (an Operation or a Node) on NumPy arrays."""
    definition = op.definition
    keywords: dict[str, Any] = {name: op.attrs[name] for name in definition.kernel_attrs}
    for special in definition.specials:
        keywords[special] = {"xp": np, "check": check_now, "node": op}[special]
    arguments = [
        list(values[place]) if isinstance(place, slice) else values[place]
        for place in definition.signature.input_slices(op.attrs)
    ]
    with np.errstate(all="ignore"):
        result = definition.kernel(*arguments, **keywords)
    flat: list[Any] = []
    places = definition.signature.output_slices(op.attrs)
    results = (result,) if len(places) == 1 else result
    for place, item in zip(places, results, strict=True):
        flat.extend(item) if isinstance(place, slice) else flat.append(item)
    types = definition.signature.output_types(op.attrs)
    return [
        np.asarray(item, dtype=dtype.base_dtype.as_numpy_dtype)
        for item, dtype in zip(flat, types, strict=True)
    ]


def check_now(ok: Any, message: Any, *values: Any) -> None:
    """The host form of a kernel's ``check``: fails at once."""
    if not np.all(ok):
        raise ValueError(message(*values) if callable(message) else message)


def constant_value_as_shape(tensor: Tensor) -> TensorShape:
    """The shape that an integer vector denotes, with unknown dimensions where not known.

    A negative entry denotes an unknown dimension.
    """
    return _as_partial_shape(tensor, 0)


def _as_partial_shape(tensor: Tensor, depth: int) -> TensorShape:
    value = constant_value(tensor)
    if value is not None:
        if value.ndim == 0:
            if int(value) == -1:
                return unknown_shape()
            raise ValueError(f"Received a scalar with value '{value}' as shape; require -1")
        if value.ndim != 1:
            raise ValueError(f"Shape must be rank 1 but is rank {value.ndim}")
        return TensorShape([int(d) if d >= 0 else None for d in value])
    length = tensor.shape.sizes[0] if tensor.shape.sizes else None
    fallback = unknown_shape(length) if length is not None else unknown_shape()
    op = tensor.op
    if depth > _MAX_DEPTH:
        return fallback
    if op.type in ("Shape", "ShapeN"):
        return op.inputs[tensor.value_index].shape
    if op.type == "VariableShape" and op.inputs[0].handle_data is not None:
        return op.inputs[0].handle_data[0]
    if op.type in _PASS_THROUGH or op.type == "Cast":
        return _as_partial_shape(op.inputs[0], depth + 1)
    if op.type == "Pack" and op.attrs["axis"] == 0:
        return TensorShape([_as_dimension(t) for t in op.inputs])
    if op.type in ("ConcatV2", "Concat"):
        parts = op.inputs[:-1] if op.type == "ConcatV2" else op.inputs[1:]
        result = TensorShape([])
        for part in parts:
            result = result.concatenate(_as_partial_shape(part, depth + 1))
        return result
    if op.type == "StridedSlice":
        sliced = _slice_of_shape(op, depth)
        if sliced is not None:
            return sliced
    return fallback


def _as_dimension(tensor: Tensor) -> int | None:
    value = constant_value(tensor)
    if value is not None:
        return int(value) if value >= 0 else None
    op = tensor.op
    if op.type in _PASS_THROUGH or op.type == "Cast":
        return _as_dimension(op.inputs[0])
    return None


#: Ops whose output may be partly known (see `_as_partial_shape`).
_PARTLY_KNOWN = _PASS_THROUGH | {
    "Cast", "Concat", "ConcatV2", "Pack", "Shape", "ShapeN", "StridedSlice", "VariableShape"
}  # fmt: skip


def _may_be_shape(tensor: Tensor) -> bool:
    return (
        tensor.op.type in _PARTLY_KNOWN
        and tensor.dtype.base_dtype.is_integer
        and tensor.shape.ndims == 1
    )


def _part_of_shape(op: Any, depth: int) -> int | list[int] | None:
    """The value of a StridedSlice of a shape, where that part is known."""
    if op.attrs["shrink_axis_mask"] == 1:
        begin = constant_value(op.inputs[1])
        sizes = _as_partial_shape(op.inputs[0], depth + 1).sizes
        if begin is None or begin.size != 1 or sizes is None:
            return None
        index = int(begin[0])
        return sizes[index] if -len(sizes) <= index < len(sizes) else None
    sliced = _slice_of_shape(op, depth)
    if sliced is None or not sliced.is_fully_defined():
        return None
    return [size for size in sliced.as_list() if size is not None]


def _slice_of_shape(op: Any, depth: int) -> TensorShape | None:
    bounds = [constant_value(t) for t in op.inputs[1:4]]
    if any(b is None or b.size != 1 for b in bounds):
        return None
    masks = op.attrs
    if masks["ellipsis_mask"] or masks["new_axis_mask"] or masks["shrink_axis_mask"]:
        return None
    begin, end, stride = (int(b[0]) for b in bounds if b is not None)
    source = _as_partial_shape(op.inputs[0], depth + 1)
    if source.sizes is None:
        return None
    window = slice(
        None if masks["begin_mask"] else begin, None if masks["end_mask"] else end, stride
    )
    return as_shape(list(source.sizes[window]))
