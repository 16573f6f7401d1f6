"""Mean and variance, at once or from sums that were collected elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import gather as array_gather
from millrace.ops.array import identity as array_identity
from millrace.ops.array import shape as array_shape
from millrace.ops.math import arithmetic, elementwise, reduction

__all__ = ["moments", "normalize_moments", "sufficient_statistics", "weighted_moments"]

_SMALL = (dtypes.float16, dtypes.bfloat16)


def _keep(keep_dims: bool | None, keepdims: bool | None) -> bool:
    if keep_dims is not None and keepdims is not None:
        raise ValueError("Cannot specify both 'keep_dims' and 'keepdims'.")
    return bool(keepdims if keepdims is not None else keep_dims)


def moments(
    x: Any,
    axes: Any,
    shift: Any = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """The mean and the variance of `x` over `axes`.

    Args:
      x: A tensor.
      axes: Axes to average over.
      shift: Accepted for compatibility: the result does not depend on it.
      name: The name scope.
      keep_dims: The old name of `keepdims`.
      keepdims: Whether the axes stay, with size 1.
    """
    keep = _keep(keep_dims, keepdims)
    with name_scope(name, "moments", [x, axes]):
        x = convert_to_tensor(x)
        dtype = x.dtype.base_dtype
        # Half precision overflows in sums of squares.
        y = cast.cast(x, dtypes.float32) if dtype in _SMALL else x
        mean = reduction.reduce_mean(y, axes, keepdims=True, name="mean")
        # The derivative by the mean of the squared differences is zero.
        distances = arithmetic.squared_difference(y, array_identity.stop_gradient(mean))
        variance = reduction.reduce_mean(distances, axes, keepdims=True, name="variance")
        if not keep:
            mean = _drop(mean, axes)
            variance = _drop(variance, axes)
        if dtype in _SMALL:
            return cast.cast(mean, dtype), cast.cast(variance, dtype)
        return mean, variance


def _drop(tensor: Tensor, axes: Any) -> Tensor:
    known = constant_value(convert_to_tensor(axes, name="axes"))
    if known is None:
        raise ValueError("`axes` must be known while the graph is built")
    return array_shape.squeeze(tensor, [int(axis) for axis in np.ravel(known)])


def sufficient_statistics(
    x: Any,
    axes: Any,
    shift: Any = None,
    keep_dims: bool | None = None,
    name: str | None = None,
    keepdims: bool | None = None,
) -> tuple[Any, Any, Any, Any]:
    """What `normalize_moments` needs: counts that can be added up over batches.

    Args:
      x: A tensor.
      axes: Axes to sum over.
      shift: A value near the mean that is subtracted first, for precision.
      keep_dims: The old name of `keepdims`.
      name: The name scope.
      keepdims: Whether the axes stay, with size 1.

    Returns:
      The number of elements, their sum, the sum of their squares, and `shift`.
    """
    keep = _keep(keep_dims, keepdims)
    numbers = [int(axis) for axis in np.ravel(axes)]
    with name_scope(name, "sufficient_statistics", [x, shift]):
        x = convert_to_tensor(x, name="x")
        dtype = x.dtype.base_dtype
        sizes = x.shape.sizes
        if sizes is not None and all(sizes[axis] is not None for axis in numbers):
            count: Any = convert_to_tensor(np.prod([sizes[axis] for axis in numbers]), dtype)
        else:
            lengths = cast.cast(array_shape.shape(x), dtype)
            positive = [axis if axis >= 0 else axis + array_shape.rank(x) for axis in numbers]
            count = reduction.reduce_prod(array_gather.gather(lengths, positive), name="count")
        if shift is not None:
            shift = convert_to_tensor(shift, dtype, name="shift")
            values, squares = x - shift, arithmetic.squared_difference(x, shift)
        else:
            values, squares = x, elementwise.square(x)
        mean_ss = reduction.reduce_sum(values, numbers, keepdims=keep, name="mean_ss")
        var_ss = reduction.reduce_sum(squares, numbers, keepdims=keep, name="var_ss")
        return count, mean_ss, var_ss, shift


def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Mean and variance from the results of `sufficient_statistics`."""
    with name_scope(name, "normalize", [counts, mean_ss, variance_ss, shift]):
        divisor: Any = elementwise.reciprocal(counts, name="divisor")
        if shift is not None:
            shifted: Any = arithmetic.multiply(mean_ss, divisor, name="shifted_mean")
            mean = arithmetic.add(shifted, shift, name="mean")
        else:
            mean = shifted = arithmetic.multiply(mean_ss, divisor, name="mean")
        squares = arithmetic.multiply(variance_ss, divisor)
        variance = arithmetic.subtract(squares, elementwise.square(shifted), name="variance")
        return mean, variance


def weighted_moments(
    x: Any,
    axes: Any,
    frequency_weights: Any,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance of `x` over `axes`, where some elements count more than others.

    Args:
      x: A tensor.
      axes: Axes to average over.
      frequency_weights: A tensor that broadcasts to the shape of `x`.
      name: The name scope.
      keep_dims: The old name of `keepdims`.
      keepdims: Whether the axes stay, with size 1.
    """
    keep = _keep(keep_dims, keepdims)
    with name_scope(name, "weighted_moments", [x, frequency_weights, axes]):
        x = convert_to_tensor(x, name="x")
        weights: Any = convert_to_tensor(frequency_weights, name="frequency_weights")
        dtype = x.dtype.base_dtype
        needs_cast = dtype in _SMALL
        if needs_cast:
            x = cast.cast(x, dtypes.float32)
        if weights.dtype.base_dtype != x.dtype.base_dtype:
            weights = cast.cast(weights, x.dtype.base_dtype)
        total = reduction.reduce_sum(weights * x, axes, name="weighted_input_sum", keepdims=True)
        spread = weights + array_fill.zeros_like(x)
        count = reduction.reduce_sum(spread, axes, name="sum_of_weights", keepdims=True)
        mean = arithmetic.div_no_nan(total, count)
        distances = reduction.reduce_sum(
            weights * arithmetic.squared_difference(x, mean),
            axes,
            name="weighted_distsq",
            keepdims=True,
        )
        variance = arithmetic.div_no_nan(distances, count)
        if not keep:
            mean, variance = _drop(mean, axes), _drop(variance, axes)
        if needs_cast:
            mean, variance = cast.cast(mean, dtype), cast.cast(variance, dtype)
        return mean, variance
