"""Choosing by condition: where, masks, and one-hot rows."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import (
    ShapeContext,
    broadcast_shapes,
    merge_shapes,
)
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import gather as array_gather
from millrace.ops.array import join as array_join
from millrace.ops.array import shape as array_shape
from millrace.ops.array.constant import constant
from millrace.ops.array.rules import normal_axis, require_rank, shape_text
from millrace.ops.math import arithmetic, numeric, reduction

__all__ = ["boolean_mask", "one_hot", "sequence_mask", "where", "where_v2"]

_WHERE_TYPES = (
    "{float32, float64, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
    "bfloat16, qint16, quint16, uint16, complex128, float16, uint32, uint64, bool}"
)


@op(
    f"Where(input: T) -> index: int64 where T: {_WHERE_TYPES} = bool",
    shape=lambda c: TensorShape([None, c.shape(0).ndims]),
    gradient=NO_GRADIENT,
    host=True,
)
def Where(input: Any, *, xp: Any) -> Any:
    """The coordinates of all elements that are not zero, in row-major order."""
    return np.argwhere(input).astype(np.int64)


def _selected_shape(c: ShapeContext) -> TensorShape:
    condition, chosen = c.shape(0), merge_shapes(c.shape(1), c.shape(2))
    if condition.sizes is None or chosen.sizes is None or not condition.sizes:
        return chosen
    if len(condition.sizes) == 1 and len(chosen.sizes) > 1:
        # A vector chooses whole rows.
        rows = merge_shapes(condition, TensorShape(chosen.sizes[:1]))
        return rows.concatenate(TensorShape(chosen.sizes[1:]))
    return merge_shapes(chosen, condition)


@op("Select(condition: bool, t: T, e: T) -> output: T", shape=_selected_shape)
def Select(condition: Any, t: Any, e: Any, *, xp: Any, node: Any) -> Any:
    """`t` where the condition holds, else `e`; a vector of conditions chooses rows."""
    if condition.ndim == 1 and t.ndim > 1:
        if condition.shape[0] != t.shape[0]:
            raise ValueError(
                "Number of batches of 'then' must match size of 'cond', but saw: "
                f"{t.shape[0]} vs. {condition.shape[0]}"
            )
        condition = condition.reshape(-1, *([1] * (t.ndim - 1)))
    elif condition.ndim and condition.shape != t.shape:
        raise ValueError(_shapes_differ(node, 0, condition, 1, t))
    if t.shape != e.shape:
        raise ValueError(_shapes_differ(node, 1, t, 2, e))
    return xp.where(condition, t, e)


@Select.on_host
def _(node: Any, known: Any) -> Any:
    whole = functools.partial(Select.kernel, xp=np, node=node)

    def select(condition: Any, t: Any, e: Any) -> Any:
        if t.shape != e.shape:
            return whole(condition, t, e)
        if condition.shape == t.shape:
            return np.where(condition, t, e)
        if condition.ndim != 1 or t.ndim != 2 or len(condition) != len(t):
            return whole(condition, t, e)
        # Rows, as in a loop over sequences of which some are over: mostly none is.
        if not condition.any():
            return e
        return t if condition.all() else np.where(condition[:, None], t, e)

    return select


def _shapes_differ(node: Any, i: int, x: Any, k: int, y: Any) -> str:
    return (
        f"Inputs to operation {node.name} of type Select must have the same size and shape.  "
        f"Input {i}: {shape_text(x.shape)} != input {k}: {shape_text(y.shape)}"
    )


@Select.gradient
def _(op: Operation, grad: Any) -> Any:
    condition, chosen, _ = op.inputs
    zeros = array_fill.zeros_like(chosen)
    return [None, where(condition, grad, zeros), where(condition, zeros, grad)]


def _broadcast_selection(c: ShapeContext) -> TensorShape:
    return broadcast_shapes(c.shape(0), broadcast_shapes(c.shape(1), c.shape(2)))


@op("SelectV2(condition: bool, t: T, e: T) -> output: T", shape=_broadcast_selection)
def SelectV2(condition: Any, t: Any, e: Any, *, xp: Any) -> Any:
    """`t` where the condition holds, else `e`, all three broadcast."""
    try:
        np.broadcast_shapes(condition.shape, t.shape, e.shape)
    except ValueError:
        raise ValueError(
            f"condition {shape_text(condition.shape)}, then {shape_text(t.shape)}, and else "
            f"{shape_text(e.shape)} must be broadcastable"
        ) from None
    return xp.where(condition, t, e)


@SelectV2.gradient
def _(op: Operation, grad: Any) -> Any:
    condition, t, e = op.inputs
    zero = array_fill.zeros([], grad.dtype.base_dtype)
    whole = op.outputs[0]
    return [
        None,
        array_shape.sum_to(where_v2(condition, grad, zero), whole, t),
        array_shape.sum_to(where_v2(condition, zero, grad), whole, e),
    ]


@dispatched
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Elements of `x` or `y` by condition, or the coordinates of true elements.

    Args:
      condition: Bools: of the shape of `x`, a scalar, or a vector that chooses rows. Without
        `x` and `y` also numbers.
      x: Taken where the condition holds.
      y: Taken where it does not; of the shape of `x`.
      name: Name of the op.

    Raises:
      ValueError: Only one of `x` and `y` is given.
    """
    if x is None and y is None:
        return _coordinates(condition, name)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    result: Tensor = Select(condition, x, y, name=name)
    return result


def where_v2(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """As `where`, but condition, `x` and `y` are broadcast against each other."""
    if x is None and y is None:
        return _coordinates(condition, name)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    result: Tensor = SelectV2(condition, x, y, name=name)
    return result


def _coordinates(condition: Any, name: str | None) -> Tensor:
    with name_scope(name, "Where", [condition]) as scope:
        tensor = convert_to_tensor(condition, preferred_dtype=dtypes.bool, name="condition")
        result: Tensor = Where(tensor, name=scope)
        return result


# -- Masks -------------------------------------------------------------------------------


@dispatched
def boolean_mask(
    tensor: Any, mask: Any, name: str | None = "boolean_mask", axis: Any = None
) -> Tensor:
    """The elements of `tensor` at the true places of `mask`.

    Args:
      tensor: The tensor.
      mask: Bools, of known rank; their shape is that of the dimensions of `tensor` from
        `axis` on, which become one.
      name: Name of the scope.
      axis: Where the masked dimensions begin; 0 when None.

    Raises:
      ValueError: The mask is a scalar, of unknown rank, or of another shape.
    """
    with name_scope(name, "boolean_mask", [tensor, mask]):
        source = convert_to_tensor(tensor, name="tensor")
        flags = convert_to_tensor(mask, name="mask")
        count = flags.shape.ndims
        if count == 0:
            raise ValueError("mask cannot be scalar.")
        if count is None:
            raise ValueError(
                "Number of mask dimensions must be specified, even if some dimensions are None. "
                " E.g. shape=[None] is ok, but shape=None is not."
            )
        start = 0 if axis is None else axis
        known = constant_value.constant_value(start) if isinstance(start, Tensor) else start
        if known is not None:
            start = int(known)
            source.shape[start : start + count].assert_is_compatible_with(flags.shape)
        shape: Any = array_shape.shape(source)
        length = reduction.reduce_prod(shape[start : start + count], [0])
        front: Any = array_shape.shape(source)[:start]
        back: Any = array_shape.shape(source)[start + count :]
        flat = array_shape.reshape(source, array_join.concat([front, [length], back], 0))
        if known is not None and source.shape.ndims is not None:
            sizes = source.shape
            masked = sizes[start : start + count].num_elements()
            flat.set_shape(sizes[:start].concatenate([masked]).concatenate(sizes[start + count :]))
        places = where_v2(array_shape.reshape(flags, [-1]))
        return array_gather.gather(flat, array_shape.squeeze(places, [1]), axis=start)


def sequence_mask(
    lengths: Any, maxlen: Any = None, dtype: Any = dtypes.bool, name: str | None = None
) -> Tensor:
    """Rows that are true up to a length: ``mask[i, j] = j < lengths[i]``.

    Args:
      lengths: Integers of any shape.
      maxlen: The length of a row; the largest of `lengths` when None.
      dtype: The type of the result.
      name: Name of the scope.

    Raises:
      ValueError: `maxlen` is no scalar.
    """
    with name_scope(name, "SequenceMask", [lengths, maxlen]):
        counts = convert_to_tensor(lengths)
        if maxlen is None:
            most = reduction.reduce_max(counts)
            longest = arithmetic.maximum(constant(0, most.dtype.base_dtype), most)
        else:
            longest = convert_to_tensor(maxlen)
        if longest.shape.ndims not in (None, 0):
            raise ValueError(
                "Argument `maxlen` must be scalar for sequence_mask, received `maxlen` = "
                f"{longest} with shape '{longest.shape}'"
            )
        kind = longest.dtype.base_dtype
        row: Any = numeric.range(constant(0, kind), longest, constant(1, kind))
        result: Tensor = row < cast.Cast(array_shape.expand_dims(counts, -1), DstT=kind)
        wanted = dtypes.bool if dtype is None else dtypes.as_dtype(dtype)
        if wanted != dtypes.bool:
            result = cast.cast(result, wanted)
        return result


# -- One-hot -----------------------------------------------------------------------------


def _one_hot_shape(c: ShapeContext) -> TensorShape:
    for name in ("depth", "on_value", "off_value"):
        require_rank(c.shape(name), 0)
    depth = c.value("depth")
    if depth is not None and depth < 0:
        raise ValueError(
            f"Dimension size, given by scalar input 1, must be non-negative but is {depth}"
        )
    sizes, axis = c.shape("indices").sizes, c.attr("axis")
    if axis < -1:
        raise ValueError("axis must be >= -1")
    if sizes is None:
        return unknown_shape()
    place = _one_hot_axis(axis, len(sizes))
    return TensorShape([*sizes[:place], None if depth is None else int(depth), *sizes[place:]])


def _one_hot_axis(axis: int, rank: int) -> int:
    return normal_axis(
        axis,
        rank + 1,
        f"Expected axis to be -1 or between [0, {rank + 1}).  But received: {axis}",
    )


@op(
    "OneHot(indices: TI, depth: int32, on_value: T, off_value: T) -> output: T "
    "where axis: int = -1; TI: {uint8, int8, int32, int64} = int64",
    shape=_one_hot_shape,
    static=("depth",),
    gradient=NO_GRADIENT,
)
def OneHot(indices: Any, depth: Any, on_value: Any, off_value: Any, *, axis: int, xp: Any) -> Any:
    """For each index a row with `on_value` at the index, and `off_value` elsewhere."""
    if depth.ndim:
        raise ValueError(f"depth must be a scalar, but got: {shape_text(depth.shape)}")
    count = int(depth)
    if count < 0:
        raise ValueError(f"depth must be non-negative, got: {count}")
    place = _one_hot_axis(axis, indices.ndim)
    positions = [1] * (indices.ndim + 1)
    positions[place] = count
    # Wider than the small index types: 256 places must not wrap in uint8.
    kind = np.int64 if indices.dtype.itemsize == 8 else np.int32
    row = np.arange(count, dtype=kind).reshape(positions)
    hit = xp.expand_dims(indices, place) == row
    return xp.where(hit, on_value, off_value)


def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """For each index a row that is `on_value` at the index, and `off_value` elsewhere.

    An index that is negative, or `depth` or more, gives a row of `off_value`.

    Args:
      indices: Integers of any shape.
      depth: The length of a row.
      on_value: 1 when None.
      off_value: 0 when None.
      axis: Where the rows go among the dimensions; last when None.
      dtype: The type; told from the values, else float32, when None.
      name: Name of the op.

    Raises:
      TypeError: The types of the values differ from each other, or from `dtype`.
    """
    with name_scope(name, "one_hot", [indices, depth, on_value, off_value]) as scope:
        kind = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
        values: dict[str, Any] = {"on_value": on_value, "off_value": off_value}
        for label, value in values.items():
            if value is not None:
                values[label] = convert_to_tensor(value, preferred_dtype=kind)
                found = values[label].dtype.base_dtype
                if kind is not None and dtype is not None and found != kind:
                    raise TypeError(
                        f"dtype {found} of {label} does not match dtype parameter {kind}"
                    )
        given = [v.dtype.base_dtype for v in values.values() if v is not None]
        kind = kind or (given[0] if given else dtypes.float32)
        for label, number in (("on_value", 1), ("off_value", 0)):
            if values[label] is None:
                values[label] = convert_to_tensor(number, kind, name=label)
        types = [v.dtype.base_dtype for v in values.values()]
        if types[0] != types[1]:
            raise TypeError(
                f"dtype {types[0]} of on_value does not match dtype {types[1]} of off_value"
            )
        result: Tensor = OneHot(
            indices,
            depth,
            values["on_value"],
            values["off_value"],
            axis=-1 if axis is None else axis,
            name=scope,
        )
        return result
