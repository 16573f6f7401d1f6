"""Counting: how often numbers occur, fall into bins, or are mistaken for each other.

The number of bins decides a shape, so it is a static input. Numbers beyond the last bin of a
count are left out; those outside of a histogram's range go into its outermost bins.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.xla import jnp
from millrace.core import dtypes
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import control_dependencies, name_scope
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import gather as array_gather
from millrace.ops.array import identity as array_identity
from millrace.ops.array import join as array_join
from millrace.ops.array import shape as array_shape
from millrace.ops.control_flow import checks
from millrace.ops.math import arithmetic, comparison, elementwise, reduction
from millrace.ops.math.broadcasting import shape_text

__all__ = [
    "bincount", "confusion_matrix", "histogram_fixed_width", "histogram_fixed_width_bins",
]  # fmt: skip


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
        has_any = cast.cast(comparison.greater(array_shape.size(numbers), 0), kind)
        greatest: Any = reduction.reduce_max(numbers)
        size = has_any * (greatest + 1)
        if minlength is not None:
            size = arithmetic.maximum(convert_to_tensor(minlength, kind, name="minlength"), size)
        if maxlength is not None:
            size = arithmetic.minimum(convert_to_tensor(maxlength, kind, name="maxlength"), size)
        if weights is None:
            amounts: Any = convert_to_tensor(np.zeros([0], dtypes.as_dtype(dtype).as_numpy_dtype))
        else:
            amounts = array_shape.reshape(convert_to_tensor(weights, name="weights"), [-1])
        return DenseBincount(array_shape.reshape(numbers, [-1]), size, amounts)


def _histogram_shape(c: ShapeContext) -> TensorShape:
    if c.shape("value_range").ndims not in (None, 1):
        raise ValueError(f"Shape must be rank 1 but is rank {c.shape('value_range').ndims}")
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
        lambda found: (
            "value_range should satisfy value_range[0] < value_range[1], but got "
            f"'[{found[0]:g}, {found[1]:g}]'"
        ),
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
            count = array_identity.identity(count)
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
            count: Any = arithmetic.maximum(
                reduction.reduce_max(guess), reduction.reduce_max(truth)
            )
            count = count + 1
        else:
            count = cast.cast(num_classes, dtypes.int64)
            truth = _after(truth, checks.assert_less(truth, count, message="`labels` out of bound"))
            guess = _after(
                guess, checks.assert_less(guess, count, message="`predictions` out of bound")
            )
        amounts = (
            array_fill.ones_like(guess, dtype=dtype)
            if weights is None
            else cast.cast(weights, dtype)
        )
        if weights is not None:
            guess.shape.assert_is_compatible_with(amounts.shape)
        places = array_join.stack([truth, guess], 1)
        return array_gather.scatter_nd(
            places, amounts, cast.cast(array_join.stack([count, count]), "int64")
        )


def _after(tensor: Any, assertion: Any) -> Any:
    """The tensor, once an assertion holds."""
    if assertion is None:
        return tensor
    with control_dependencies([assertion]):
        return array_identity.identity(tensor)


def _squeezed_alike(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Drops a last axis of size 1 from the one that has a rank more than the other."""
    ranks = labels.shape.ndims, predictions.shape.ndims
    if None in ranks:
        return labels, predictions
    if ranks[0] - ranks[1] == 1 and labels.shape[-1].is_compatible_with(1):
        labels = array_shape.squeeze(labels, [-1])
    elif ranks[1] - ranks[0] == 1 and predictions.shape[-1].is_compatible_with(1):
        predictions = array_shape.squeeze(predictions, [-1])
    return labels, predictions
