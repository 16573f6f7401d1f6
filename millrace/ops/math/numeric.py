"""Number sequences, order and places: ranges, top-k, buckets, coordinates.

Inputs that decide a shape (a range's limit, k) are static. The public
`range` hides Python's in this module: loops here use `builtins.range`.
"""

from __future__ import annotations

import builtins
import functools
from typing import Any, NamedTuple

import numpy as np

from millrace.compiler.xla import jnp, lax
from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import JAX_GRADIENT, NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, unchanged
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.math import arithmetic, comparison, reduction
from millrace.ops.math.broadcasting import shape_text

__all__ = ["lin_space", "linspace", "range", "unravel_index"]


def _require_rank(shape: TensorShape, rank: int) -> None:
    if shape.ndims not in (None, rank):
        raise ValueError(f"Shape must be rank {rank} but is rank {shape.ndims}")


# -- Sequences ---------------------------------------------------------------------------


def _number_text(value: Any) -> str:
    """A bound as TensorFlow prints it: 3 and not 3.0."""
    return f"{value:g}" if np.asarray(value).dtype.kind == "f" else str(int(value))


def _range_size(start: Any, limit: Any, delta: Any) -> int:
    if delta == 0:
        raise ValueError("Requires delta != 0")
    if delta > 0 and start > limit:
        raise ValueError(
            f"Requires start <= limit when delta > 0: {_number_text(start)}/{_number_text(limit)}"
        )
    if delta < 0 and start < limit:
        raise ValueError(
            f"Requires start >= limit when delta < 0: {_number_text(start)}/{_number_text(limit)}"
        )
    if np.asarray(start).dtype.kind in "iu":
        start, limit, delta = int(start), int(limit), int(delta)
        return (abs(limit - start) + abs(delta) - 1) // abs(delta)
    # In the numbers' own precision: (1.1 - 0.1) / 0.1 is 10 in float32, more than 10 in float64.
    return int(np.ceil(np.abs((limit - start) / delta)))


def _range_shape(c: ShapeContext) -> TensorShape:
    for i in builtins.range(3):
        _require_rank(c.shape(i), 0)
    bounds = [c.value(i) for i in builtins.range(3)]
    if any(bound is None for bound in bounds):
        return TensorShape([None])
    return TensorShape([_range_size(*bounds)])


@op(
    "Range(start: Tidx, limit: Tidx, delta: Tidx) -> output: Tidx where Tidx: {bfloat16, float16, "
    "float32, float64, int8, int16, int32, int64, uint16, uint32, uint64} = int32",
    shape=_range_shape,
    static=("start", "limit", "delta"),
    gradient=NO_GRADIENT,
)
def Range(start: Any, limit: Any, delta: Any, *, xp: Any) -> Any:
    size = _range_size(start, limit, delta)
    numbers = np.arange(size).astype(start.dtype, copy=False)
    if isinstance(start, np.ndarray | np.generic) and isinstance(delta, np.ndarray | np.generic):
        numbers *= delta  # in place: a long one takes memory once
        numbers += start
        return numbers
    return start + numbers * delta


@Range.on_host
def _(node: Any, known: Any) -> Any:
    whole = functools.partial(Range.kernel, xp=np)

    def numbers(start: Any, limit: Any, delta: Any) -> Any:
        if start.dtype.kind != "i" or start.ndim or limit.ndim or delta.ndim:
            return whole(start, limit, delta)
        first, last, step = start.item(), limit.item(), delta.item()
        if not step or (last - first) * step < 0:
            raise ValueError("Range: the limit is not ahead")
        return np.arange(first, last, step, dtype=start.dtype)

    return numbers


#: Types that a range may have, in the order in which mixed bounds are promoted.
_RANGE_TYPES = (
    dtypes.int32, dtypes.int64, dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64,
)  # fmt: skip


def range(
    start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range"
) -> Tensor:
    """The numbers from `start` up to but without `limit`, in steps of `delta`.

    Args:
      start: The first number; the limit, if no `limit` is given.
      limit: Where to stop.
      delta: The step.
      dtype: The type; by default the widest of the three.
      name: The node's name.
    """
    if limit is None:
        start, limit = 0, start
    with name_scope(name, "Range", [start, limit, delta]) as scope:
        wanted = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
        bounds = [
            value if isinstance(value, Tensor) else convert_to_tensor(value, wanted, name=label)
            for value, label in ((start, "start"), (limit, "limit"), (delta, "delta"))
        ]
        if wanted is None:
            types = [bound.dtype.base_dtype for bound in bounds]
            for found in types:
                if found not in _RANGE_TYPES:
                    raise TypeError(f"tf.range takes no bounds of type {found.name}")
            wanted = max(types, key=_RANGE_TYPES.index)
        return Range(*(cast.cast(bound, wanted) for bound in bounds), name=scope)


def _linspace_shape(c: ShapeContext) -> TensorShape:
    for i in builtins.range(3):
        _require_rank(c.shape(i), 0)
    count = c.value("num")
    if count is None:
        return TensorShape([None])
    if int(count) <= 0:
        raise ValueError(f"Requires num > 0: {int(count)}")
    return TensorShape([int(count)])


@op(
    "LinSpace(start: T, stop: T, num: Tidx) -> output: T "
    "where T: {bfloat16, float16, float32, float64}; Tidx: {int32, int64} = int32",
    shape=_linspace_shape,
    static=("num",),
    gradient=NO_GRADIENT,
)
def LinSpace(start: Any, stop: Any, num: Any, *, xp: Any) -> Any:
    count = int(num)
    if count <= 0:
        raise ValueError(f"Requires num > 0: {count}")
    places = np.arange(count).astype(start.dtype)
    step = (stop - start) / np.asarray(max(count - 1, 1), start.dtype)
    inner = start + places * step
    return inner if count == 1 else xp.where(np.arange(count) == count - 1, stop, inner)


def linspace(start: Any, stop: Any, num: Any, name: str | None = None, axis: int = 0) -> Tensor:
    """`num` numbers from `start` to `stop`, both included, at equal distances.

    Args:
      start: The first number, or a tensor of first numbers.
      stop: The last number, or a tensor of last numbers.
      num: How many.
      name: The node's name.
      axis: For tensors: the axis of the result along which the numbers run.
    """
    with name_scope(name, "linspace", [start, stop]) as scope:
        first: Any = convert_to_tensor(start, name="start")
        last: Any = convert_to_tensor(stop, name="stop", dtype=first.dtype.base_dtype)
        count = convert_to_tensor(num, name="num")
        if first.dtype.is_integer:
            first, last = (cast.cast(t, dtypes.float64) for t in (first, last))
        fixed = constant_value(count)
        if first.shape.ndims == 0 and last.shape.ndims == 0 and (fixed is None or fixed > 0):
            return LinSpace(first, last, count, name=scope)
        return _linspace_of_tensors(first, last, cast.cast(count, dtypes.int32), axis)


lin_space = linspace


def _linspace_of_tensors(first: Any, last: Any, count: Any, axis: int) -> Tensor:
    kind = first.dtype.base_dtype
    first, last = first + array_fill.zeros_like(last), last + array_fill.zeros_like(first)
    first, last = array_shape.expand_dims(first, axis), array_shape.expand_dims(last, axis)
    rank = array_shape.rank(first)
    is_axis = comparison.equal(range(rank), arithmetic.floormod(axis, rank))
    along = array_select.where_v2(is_axis, count, 1)
    places = array_shape.reshape(cast.cast(range(count), kind), along)
    steps = cast.cast(arithmetic.maximum(count - 1, 1), kind)
    inner = first + (last - first) * (places / steps)
    is_last = comparison.logical_and(
        comparison.equal(places, cast.cast(count - 1, kind)), comparison.greater(count, 1)
    )
    return array_select.where_v2(is_last, last, inner)


# -- Order -------------------------------------------------------------------------------


def _require_columns(shape: TensorShape, k: int | None) -> None:
    if shape.ndims == 0:
        raise ValueError("Shape must be at least rank 1 but is rank 0")
    if k is not None and k < 0:
        raise ValueError(
            f"Dimension size, given by scalar input 1, must be non-negative but is {k}"
        )
    last = shape.sizes[-1] if shape.sizes else None
    if k is not None and last is not None and last < k:
        raise ValueError(f"input must have last dimension >= k = {k} but is {last}")


def _top_shapes(shape: TensorShape, k: int | None) -> list[TensorShape]:
    _require_columns(shape, k)
    result = unknown_shape() if shape.sizes is None else TensorShape([*shape.sizes[:-1], k])
    return [result, result]


def _top_k_v2_shape(c: ShapeContext) -> list[TensorShape]:
    _require_rank(c.shape(1), 0)
    k = c.value("k")
    return _top_shapes(c.shape(0), None if k is None else int(k))


def _top(input: Any, k: int) -> Any:
    if input.ndim == 0:
        raise ValueError("input must be >= 1-D, got shape []")
    if k < 0:
        raise ValueError(f"Need k >= 0, got {k}")
    if input.shape[-1] < k:
        raise ValueError(f"input must have at least k columns. Had {input.shape[-1]}, needed {k}")
    return tuple(lax.top_k(jnp.asarray(input), k))


@op(
    "TopKV2(input: T, k: Tk) -> (values: T, indices: index_type) where sorted: bool = true; "
    "T: real; Tk: {int16, int32, int64} = int32; index_type: {int16, int32, int64} = int32",
    shape=_top_k_v2_shape,
    static=("k",),
    gradient=JAX_GRADIENT,
)
def TopKV2(input: Any, k: Any) -> Any:
    return _top(input, int(k))


@op(
    "TopK(input: T) -> (values: T, indices: int32) where k: int >= 0; sorted: bool = true; T: real",
    shape=lambda c: _top_shapes(c.shape(0), c.attr("k")),
    gradient=JAX_GRADIENT,
)
def TopK(input: Any, *, k: int) -> Any:
    return _top(input, k)


class TopKResult(NamedTuple):
    """What `top_k` returns."""

    values: Tensor
    indices: Tensor


def top_k(
    input: Any,
    k: Any = 1,
    sorted: bool = True,
    name: str | None = None,
    *,
    index_type: Any = dtypes.int32,
) -> TopKResult:
    """The `k` greatest entries along the last axis, and where they are.

    Args:
      input: The tensor.
      k: How many.
      sorted: Whether the greatest comes first; here it always does.
      index_type: The type of the positions.
      name: The node's name.

    Returns:
      A pair (values, indices). Of equal entries the one with the lower index comes first.
    """
    return TopKResult(*TopKV2(input, k, sorted=sorted, index_type=index_type, name=name))


def _in_top_shape(c: ShapeContext) -> TensorShape:
    predictions, targets = c.shape("predictions"), c.shape("targets")
    _require_rank(predictions, 2)
    _require_rank(targets, 1)
    rows = predictions.sizes[0] if predictions.sizes else None
    return TensorShape([rows]).merge_with(targets)


def _in_top(predictions: Any, targets: Any, k: Any) -> Any:
    if predictions.shape[0] != targets.shape[0]:
        raise ValueError(
            f"First dimension of predictions {predictions.shape[0]} must match length of targets "
            f"{targets.shape[0]}"
        )
    classes = predictions.shape[1]
    exists = (targets >= 0) & (targets < classes)
    places = jnp.clip(targets, 0, max(classes - 1, 0))
    own = jnp.take_along_axis(jnp.asarray(predictions), places[:, None], axis=1)
    # A prediction that is not finite makes the order, and so the answer, unknown.
    finite = jnp.all(jnp.isfinite(predictions), axis=1)
    better = jnp.sum(predictions > own, axis=1)
    return exists & finite & (better < k)


@op(
    "InTopKV2(predictions: float32, targets: T, k: T) -> precision: bool "
    "where T: {int32, int64} = int32",
    shape=_in_top_shape,
    gradient=NO_GRADIENT,
)
def InTopKV2(predictions: Any, targets: Any, k: Any) -> Any:
    return _in_top(predictions, targets, k)


@op(
    "InTopK(predictions: float32, targets: T) -> precision: bool "
    "where k: int; T: {int32, int64} = int32",
    shape=_in_top_shape,
    gradient=NO_GRADIENT,
)
def InTopK(predictions: Any, targets: Any, *, k: int) -> Any:
    return _in_top(predictions, targets, k)


def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Tensor:
    """Whether the target is among the `k` classes with the greatest predictions.

    Args:
      predictions: One row of class scores an example.
      targets: The class of each example.
      k: How many classes count.
      name: The name scope.
    """
    with name_scope(name, "in_top_k", [predictions, targets]):
        return InTopKV2(predictions, targets, k)


def _nth_shape(c: ShapeContext) -> TensorShape:
    _require_rank(c.shape(1), 0)
    sizes, n = c.shape(0).sizes, c.value("n")
    if sizes is None:
        return unknown_shape()
    if not sizes:
        raise ValueError("Shape must be at least rank 1 but is rank 0")
    if n is not None and sizes[-1] is not None and sizes[-1] <= int(n):
        raise ValueError(f"Input must have last dimension > n = {int(n)} but is {sizes[-1]}")
    return TensorShape(sizes[:-1])


@op(
    "NthElement(input: T, n: int32) -> values: T where reverse: bool = false; T: real",
    shape=_nth_shape,
    static=("n",),
)
def NthElement(input: Any, n: Any, *, xp: Any, reverse: bool) -> Any:
    place = int(n)
    if not 0 <= place < input.shape[-1]:
        raise ValueError(f"Input must have at least n+1 columns: n = {place}, {input.shape[-1]}")
    ordered = xp.sort(input, axis=-1)
    return ordered[..., input.shape[-1] - 1 - place if reverse else place]


@NthElement.gradient
def _(op: Operation, grad: Any) -> Any:
    result = array_shape.expand_dims(op.outputs[0], -1)
    chosen: Any = cast.cast(comparison.equal(result, op.inputs[0]), grad.dtype.base_dtype)
    ties = reduction.reduce_sum(chosen, -1, keepdims=True)
    return chosen / ties * array_shape.expand_dims(grad, -1), None


def nth_element(input: Any, n: Any, reverse: bool = False, name: str | None = None) -> Tensor:
    """The n-th smallest entry along the last axis (the n-th greatest, if `reverse`)."""
    return NthElement(input, n, reverse=reverse, name=name)


# -- Places ------------------------------------------------------------------------------


def _unravel_shape(c: ShapeContext) -> TensorShape:
    indices, dims = c.shape("indices"), c.shape("dims")
    if indices.sizes is None or dims.sizes is None:
        return unknown_shape()
    count = dims.sizes[0] if dims.sizes else None
    return TensorShape([count, *indices.sizes])


@op(
    "UnravelIndex(indices: Tidx, dims: Tidx) -> output: Tidx where Tidx: {int32, int64} = int32",
    shape=_unravel_shape,
    gradient=NO_GRADIENT,
)
def UnravelIndex(indices: Any, dims: Any, *, xp: Any, check: Any) -> Any:
    if indices.ndim > 1:
        raise ValueError(
            f'The indices can only be scalar or vector, got "{shape_text(indices.shape)}"'
        )
    if dims.ndim != 1:
        raise ValueError(f'The dims should be a vector, got "{shape_text(dims.shape)}"')
    size = xp.prod(dims, dtype=dims.dtype)
    check((indices >= 0) & (indices < size), "index is out of bound as with dims")
    behind = xp.cumprod(dims[::-1], dtype=dims.dtype)[::-1]
    strides = xp.concatenate([behind[1:], xp.ones((1,), dims.dtype)])
    tall = (-1,) + (1,) * indices.ndim
    return xp.floor_divide(indices[None], strides.reshape(tall)) % dims.reshape(tall)


def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Tensor:
    """The coordinates, in an array of shape `dims`, of flat positions."""
    return UnravelIndex(indices, dims, name=name)


@op(
    "Bucketize(input: T) -> output: int32 "
    "where T: {int32, int64, float32, float64}; boundaries: list(float)",
    shape=unchanged,
    gradient=NO_GRADIENT,
)
def Bucketize(input: Any, *, xp: Any, boundaries: list[float]) -> Any:
    bounds = np.asarray(boundaries, np.float32)
    if np.any(bounds[1:] < bounds[:-1]):
        raise ValueError("Expected sorted boundaries")
    kind = np.float32 if input.dtype == np.float32 else np.float64
    return xp.searchsorted(
        xp.asarray(bounds.astype(kind)), input.astype(kind), side="right"
    ).astype(np.int32)


def bucketize(input: Any, boundaries: Any, name: str | None = None) -> Tensor:
    """The number of the bucket between sorted boundaries that each entry falls into."""
    return Bucketize(input, boundaries=list(boundaries), name=name)


def polyval(coeffs: Any, x: Any, name: str | None = None) -> Any:
    """The polynomial with these coefficients (of the highest power first) at x.

    Raises:
      ValueError: `coeffs` is no list.
    """
    if not isinstance(coeffs, list):
        raise ValueError(f"Argument coeffs must be list type. Received type {type(coeffs)}.")
    with name_scope(name, "polyval", [*coeffs, x]):
        point: Any = convert_to_tensor(x, name="x")
        if not coeffs:
            return array_fill.zeros_like(point)
        tensors: list[Any] = [
            convert_to_tensor(c, point.dtype.base_dtype, name=f"coeff_{i}")
            for i, c in enumerate(coeffs)
        ]
        value = tensors[0]
        for tensor in tensors[1:]:
            value = tensor + value * point
        return value
