"""Number sequences, order and counting: ranges, top-k, bins, confusion matrices.

Inputs that decide a shape (a range's limit, a number of bins, k) are static. The public
`range` hides Python's in this module: loops here use `builtins.range`.
"""

from __future__ import annotations

import builtins
from typing import Any, NamedTuple

import numpy as np

from millrace.core import dtypes
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import control_dependencies, name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import JAX_GRADIENT, NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, unchanged
from millrace.graph.tensor import Tensor
from millrace.ops import (
    arithmetic,
    array,
    cast,
    checks,
    comparison,
    elementwise,
    reduction,
)
from millrace.ops.broadcasting import shape_text
from millrace.ops.xla import jnp, lax

__all__ = [
    "bincount", "confusion_matrix", "histogram_fixed_width", "histogram_fixed_width_bins",
    "lin_space", "linspace", "range", "unravel_index",
]  # fmt: skip


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
            "Requires start <= limit when delta > 0: "
            f"{_number_text(start)}/{_number_text(limit)}"
        )
    if delta < 0 and start < limit:
        raise ValueError(
            "Requires start >= limit when delta < 0: "
            f"{_number_text(start)}/{_number_text(limit)}"
        )
    if np.asarray(start).dtype.kind in "iu":
        start, limit, delta = int(start), int(limit), int(delta)
        return (abs(limit - start) + abs(delta) - 1) // abs(delta)
    return int(np.ceil(abs((float(limit) - float(start)) / float(delta))))


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
    return start + np.arange(size).astype(start.dtype) * delta


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
    first, last = first + array.zeros_like(last), last + array.zeros_like(first)
    first, last = array.expand_dims(first, axis), array.expand_dims(last, axis)
    rank = array.rank(first)
    is_axis = comparison.equal(range(rank), arithmetic.floormod(axis, rank))
    along = array.where_v2(is_axis, count, 1)
    places = array.reshape(cast.cast(range(count), kind), along)
    steps = cast.cast(arithmetic.maximum(count - 1, 1), kind)
    inner = first + (last - first) * (places / steps)
    is_last = comparison.logical_and(
        comparison.equal(places, cast.cast(count - 1, kind)), comparison.greater(count, 1)
    )
    return array.where_v2(is_last, last, inner)


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
    index_type: Any = dtypes.int32,
    name: str | None = None,
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
    result = array.expand_dims(op.outputs[0], -1)
    chosen: Any = cast.cast(comparison.equal(result, op.inputs[0]), grad.dtype.base_dtype)
    ties = reduction.reduce_sum(chosen, -1, keepdims=True)
    return chosen / ties * array.expand_dims(grad, -1), None


def nth_element(input: Any, n: Any, reverse: bool = False, name: str | None = None) -> Tensor:
    """The n-th smallest entry along the last axis (the n-th greatest, if `reverse`)."""
    return NthElement(input, n, reverse=reverse, name=name)


# -- Counting ----------------------------------------------------------------------------


def _require_bins(arr: Any, weights: Any, xp: Any, check: Any) -> None:
    if weights.size and weights.shape != arr.shape:
        raise ValueError(
            "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it "
            f"acts as all weights equal to 1. Received {shape_text(weights.shape)}"
        )
    check(xp.greater_equal(arr, 0), "Input arr must be non-negative!")


def _count_into(bins: int, places: Any, weights: Any, once: bool) -> Any:
    """Adds weights (1 without) into bins; places past the last bin are left out."""
    result = jnp.zeros((bins,), weights.dtype)
    if once:
        return result.at[places].set(1, mode="drop")
    amount = weights if weights.size else jnp.ones((), weights.dtype)
    return result.at[places].add(amount, mode="drop")


def _bins_shape(c: ShapeContext) -> TensorShape:
    size = c.value("size")
    if size is not None and int(size) < 0:
        raise ValueError(f"size ({int(size)}) must be non-negative")
    return TensorShape([None if size is None else int(size)])


@op(
    "Bincount(arr: int32, size: int32, weights: T) -> bins: T "
    "where T: {int32, int64, float32, float64}",
    shape=_bins_shape,
    static=("size",),
    gradient=NO_GRADIENT,
)
def Bincount(arr: Any, size: Any, weights: Any, *, check: Any) -> Any:
    _require_bins(arr, weights, jnp, check)
    return _count_into(int(size), jnp.ravel(arr), jnp.ravel(weights), once=False)


def _dense_bins_shape(c: ShapeContext) -> TensorShape:
    input = c.shape("input")
    bins = _bins_shape(c)
    if input.sizes is None:
        return unknown_shape()
    if len(input.sizes) == 2:
        return TensorShape([input.sizes[0]]).concatenate(bins)
    return bins


@op(
    "DenseBincount(input: Tidx, size: Tidx, weights: T) -> output: T where Tidx: {int32, int64}; "
    "T: {int32, int64, float32, float64}; binary_output: bool = false",
    shape=_dense_bins_shape,
    static=("size",),
    gradient=NO_GRADIENT,
)
def DenseBincount(input: Any, size: Any, weights: Any, *, binary_output: bool, check: Any) -> Any:
    _require_bins(input, weights, jnp, check)
    bins = int(size)
    if input.ndim < 2:
        return _count_into(bins, jnp.ravel(input), jnp.ravel(weights), binary_output)
    # Every row has its own bins: one long row of them, and places moved accordingly.
    rows = input.shape[0]
    first = jnp.arange(rows, dtype=input.dtype)[:, None] * bins
    places = jnp.where(input < bins, input + first, rows * bins)
    total = _count_into(rows * bins, jnp.ravel(places), jnp.ravel(weights), binary_output)
    return total.reshape(rows, bins)


def bincount(
    arr: Any,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = dtypes.int32,
) -> Tensor:
    """How often each number from 0 on occurs.

    Args:
      arr: Non-negative integers.
      weights: What each counts for; 1 when None.
      minlength: The least length of the result.
      maxlength: The greatest length of the result; greater numbers are not counted.
      dtype: The type of the result; that of `weights`, if there are any.
    """
    with name_scope(None, "bincount", [arr, weights]):
        numbers: Any = convert_to_tensor(arr, name="arr")
        if numbers.dtype.base_dtype not in (dtypes.int32, dtypes.int64):
            numbers = cast.cast(numbers, dtypes.int32)
        kind = numbers.dtype.base_dtype
        has_any = cast.cast(comparison.greater(array.size(numbers), 0), kind)
        size = has_any * (reduction.reduce_max(numbers) + 1)
        if minlength is not None:
            size = arithmetic.maximum(
                convert_to_tensor(minlength, kind, name="minlength"), size
            )
        if maxlength is not None:
            size = arithmetic.minimum(
                convert_to_tensor(maxlength, kind, name="maxlength"), size
            )
        if weights is None:
            amounts: Any = convert_to_tensor(np.zeros([0], dtypes.as_dtype(dtype).as_numpy_dtype))
        else:
            amounts = array.reshape(convert_to_tensor(weights, name="weights"), [-1])
        return DenseBincount(array.reshape(numbers, [-1]), size, amounts)


def _histogram_shape(c: ShapeContext) -> TensorShape:
    _require_rank(c.shape("value_range"), 1)
    bins = c.value("nbins")
    if bins is None:
        return TensorShape([None])
    if int(bins) <= 0:
        raise ValueError(f"Requires nbins > 0: {int(bins)}")
    return TensorShape([int(bins)])


@op(
    "HistogramFixedWidth(values: T, value_range: T, nbins: int32) -> out: dtype "
    "where T: {int32, int64, float32, float64}; dtype: {int32, int64} = int32",
    shape=_histogram_shape,
    static=("nbins",),
    gradient=NO_GRADIENT,
)
def HistogramFixedWidth(
    values: Any, value_range: Any, nbins: Any, *, dtype: DType, check: Any
) -> Any:
    bins = int(nbins)
    if bins <= 0:
        raise ValueError(f"nbins should be a positive number, but got '{bins}'")
    low, high = value_range[0], value_range[1]
    check(
        low < high,
        lambda found: "value_range should satisfy value_range[0] < value_range[1], but got "
        f"'[{found[0]:g}, {found[1]:g}]'",
        value_range,
    )
    values = jnp.ravel(values)
    if values.dtype.kind == "f":
        check(jnp.logical_not(jnp.isnan(values)), "Histogram values must not contain NaN")
    step = (high - low).astype(np.float64) / bins
    inside = jnp.clip(values, low, high)
    places = jnp.minimum(((inside - low).astype(np.float64) / step).astype(np.int32), bins - 1)
    return jnp.zeros((bins,), dtype.as_numpy_dtype).at[places].add(1)


def histogram_fixed_width(
    values: Any,
    value_range: Any,
    nbins: Any = 100,
    dtype: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """How many values fall into each of `nbins` bins of equal width.

    Args:
      values: The values; those outside of the range count in the first or last bin.
      value_range: The pair (lower, upper).
      nbins: How many bins.
      dtype: The type of the counts.
      name: The node's name.
    """
    with name_scope(name, "histogram_fixed_width", [values, value_range, nbins]) as scope:
        return HistogramFixedWidth(values, value_range, nbins, dtype=dtype, name=scope)


def histogram_fixed_width_bins(
    values: Any,
    value_range: Any,
    nbins: Any = 100,
    dtype: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """The bin that each value falls into; see `histogram_fixed_width`."""
    with name_scope(name, "histogram_fixed_width_bins", [values, value_range, nbins]):
        numbers: Any = convert_to_tensor(values, name="values")
        bounds: Any = convert_to_tensor(value_range, numbers.dtype.base_dtype, name="value_range")
        count = convert_to_tensor(nbins, dtypes.int32, name="nbins")
        with control_dependencies([checks.assert_positive(count)]):
            count = array.identity(count)
        low, high = bounds[0], bounds[1]
        share = arithmetic.truediv(numbers - low, high - low)
        places = elementwise.floor(cast.cast(count, share.dtype) * share)
        top: Any = cast.cast(count, dtypes.int32)
        clipped = arithmetic.maximum(
            arithmetic.minimum(places, cast.cast(top - 1, places.dtype)),
            convert_to_tensor(0, places.dtype.base_dtype),
        )
        return cast.cast(clipped, dtype)


def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    dtype: Any = dtypes.int32,
    name: str | None = None,
    weights: Any = None,
) -> Tensor:
    """How often each class (row) was predicted as each class (column).

    Args:
      labels: The true classes, a vector.
      predictions: The predicted classes, a vector.
      num_classes: How many classes there are; one more than the greatest when None.
      dtype: The type of the counts.
      name: The name scope.
      weights: What each example counts for; 1 when None.

    Raises:
      InvalidArgumentError: (in the run) A class is negative or not less than `num_classes`.
    """
    with name_scope(name, "confusion_matrix", [predictions, labels, num_classes, weights]):
        truth, guess = _squeezed_alike(
            convert_to_tensor(labels, name="labels"),
            convert_to_tensor(predictions, name="predictions"),
        )
        guess = cast.cast(guess, dtypes.int64)
        truth = cast.cast(truth, dtypes.int64)
        truth = _after(
            truth, checks.assert_non_negative(truth, message="`labels` contains negative values")
        )
        guess = _after(
            guess,
            checks.assert_non_negative(guess, message="`predictions` contains negative values"),
        )
        if num_classes is None:
            greatest: Any = arithmetic.maximum(
                reduction.reduce_max(guess), reduction.reduce_max(truth)
            )
            count: Any = greatest + 1
        else:
            count = cast.cast(num_classes, dtypes.int64)
            truth = _after(
                truth, checks.assert_less(truth, count, message="`labels` out of bound")
            )
            guess = _after(
                guess, checks.assert_less(guess, count, message="`predictions` out of bound")
            )
        amounts = (
            array.ones_like(guess, dtype=dtype) if weights is None else cast.cast(weights, dtype)
        )
        if weights is not None:
            guess.shape.assert_is_compatible_with(amounts.shape)
        places = array.stack([truth, guess], 1)
        return array.scatter_nd(places, amounts, cast.cast(array.stack([count, count]), "int64"))


def _after(tensor: Any, assertion: Any) -> Any:
    """The tensor, once an assertion holds."""
    if assertion is None:
        return tensor
    with control_dependencies([assertion]):
        return array.identity(tensor)


def _squeezed_alike(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Drops a last axis of size 1 from the one that has a rank more than the other."""
    ranks = labels.shape.ndims, predictions.shape.ndims
    if None in ranks:
        return labels, predictions
    if ranks[0] - ranks[1] == 1 and labels.shape[-1].is_compatible_with(1):
        labels = array.squeeze(labels, [-1])
    elif ranks[1] - ranks[0] == 1 and predictions.shape[-1].is_compatible_with(1):
        predictions = array.squeeze(predictions, [-1])
    return labels, predictions


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
            return array.zeros_like(point)
        tensors: list[Any] = [
            convert_to_tensor(c, point.dtype.base_dtype, name=f"coeff_{i}")
            for i, c in enumerate(coeffs)
        ]
        value = tensors[0]
        for tensor in tensors[1:]:
            value = tensor + value * point
        return value
