"""Dropout, built from random and elementwise ops as TensorFlow builds it."""

from __future__ import annotations

import numbers
from typing import Any

from millrace.core.tensor_shape import TensorShape
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.dispatch import dispatched
from millrace.graph.tensor import Tensor
from millrace.ops.array import join as array_join
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.random import random

__all__ = ["dropout"]


@dispatched
def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Tensor:
    """Sets a random part of the elements to 0 and scales the rest up to keep the expected sum.

    Args:
      x: A floating-point tensor.
      keep_prob: The probability with which an element is kept. (Deprecated: use `rate`.)
      noise_shape: The shape of the random choices, broadcast to that of `x`; a dimension that
        is None is that of `x`.
      seed: The op seed.
      name: The name scope.
      rate: The probability with which an element is dropped: ``1 - keep_prob``.

    Raises:
      ValueError: Both or neither of `keep_prob` and `rate` are given, a probability is out
        of range, or `x` is not of a floating type.
    """
    if keep_prob is not None:
        if rate is not None:
            raise ValueError("Cannot specify both 'keep_prob' and 'rate'.")
        rate = 1 - keep_prob
    if rate is None:
        raise ValueError("`rate` must be provided. Received: rate=None")
    with name_scope(name, "dropout", [x]):
        if isinstance(rate, numbers.Real) and not 0 <= float(rate) < 1:
            raise ValueError(
                "`rate` must be a scalar tensor or a float in the range [0, 1). "
                f"Received: rate={rate}"
            )
        x = convert_to_tensor(x, name="x")
        dtype = x.dtype.base_dtype
        if not dtype.is_floating:
            raise ValueError(
                "`x.dtype` must be a floating point tensor as `x` will be scaled. "
                f"Received: x_dtype={dtype}"
            )
        if isinstance(rate, numbers.Real):
            if rate == 0:
                return x
            scaled = x * convert_to_tensor(1 / (1 - float(rate)), dtype)
        else:
            rate = convert_to_tensor(rate, dtype, name="rate")
            rate.shape.assert_has_rank(0)
            if constant_value(rate) == 0:
                return x
            scaled = x / (convert_to_tensor(1, dtype) - rate)
        noise = random.random_uniform(_noise_shape(x, noise_shape), seed=seed, dtype=dtype)
        kept = noise >= rate
        result = array_select.where_v2(kept, scaled, convert_to_tensor(0.0, dtype))
        result.set_shape(x.shape)
        return result


def _noise_shape(x: Tensor, noise_shape: Any) -> Any:
    if noise_shape is None:
        return array_shape.shape(x)
    if isinstance(noise_shape, Tensor):
        return noise_shape
    wanted = TensorShape(noise_shape)
    if wanted.sizes is None or x.shape.sizes is None or len(wanted.sizes) != len(x.shape.sizes):
        return noise_shape
    pairs = zip(wanted.sizes, x.shape.sizes, strict=True)
    filled = [own if size is None else size for size, own in pairs]
    if None not in filled:
        return filled
    sizes = array_shape.shape(x)
    return array_join.stack([sizes[i] if size is None else size for i, size in enumerate(filled)])
