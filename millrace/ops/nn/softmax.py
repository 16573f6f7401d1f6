"""Softmax and log-softmax over any axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.xla import jnp, lax
from millrace.core import errors
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import join as array_join
from millrace.ops.array import layout as array_layout
from millrace.ops.array import shape as array_shape
from millrace.ops.math import elementwise, numeric, reduction

__all__ = ["log_softmax", "softmax"]

_FLOATS = "{float16, bfloat16, float32, float64}"


def shifted_logits(logits: Any, xp: Any) -> Any:
    """Logits minus the largest of their row, so that exp() does not overflow."""
    if logits.shape[-1] == 0:
        return logits
    if xp is np:
        return logits - np.max(logits, axis=-1, keepdims=True)
    return logits - lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))


def _at_least_a_vector(c: ShapeContext) -> TensorShape:
    shape = c.shape(0)
    if shape.ndims == 0:
        raise ValueError("Shape must be at least rank 1 but is rank 0")
    return shape


@op(f"Softmax(logits: T) -> softmax: T where T: {_FLOATS}", shape=_at_least_a_vector)
def Softmax(logits: Any, *, xp: Any) -> Any:
    powers = xp.exp(shifted_logits(logits, xp))
    return powers / xp.sum(powers, axis=-1, keepdims=True)


@Softmax.gradient
def _(op: Operation, grad: Any) -> Any:
    y: Any = op.outputs[0]
    total: Any = reduction.reduce_sum(grad * y, -1, keepdims=True)
    return (grad - total) * y


@op(f"LogSoftmax(logits: T) -> logsoftmax: T where T: {_FLOATS}", shape=_at_least_a_vector)
def LogSoftmax(logits: Any, *, xp: Any) -> Any:
    shifted = shifted_logits(logits, xp)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))


@LogSoftmax.gradient
def _(op: Operation, grad: Any) -> Any:
    probabilities = elementwise.exp(op.outputs[0])
    total: Any = reduction.reduce_sum(grad, -1, keepdims=True)
    return grad - total * probabilities


def softmax(
    logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """exp(logits) / sum(exp(logits)) along one axis.

    Args:
      logits: A floating-point tensor.
      axis: The axis that sums to 1; the last by default.
      name: The node's name.
      dim: The old name of `axis`.

    Raises:
      InvalidArgumentError: There is no such axis.
    """
    return _along(Softmax, logits, _one_axis(axis, dim), name)


def log_softmax(
    logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """logits - log(sum(exp(logits))) along one axis; the arguments are those of `softmax`."""
    return _along(LogSoftmax, logits, _one_axis(axis, dim), name)


def _one_axis(axis: int | None, dim: int | None) -> int:
    if axis is not None and dim is not None:
        raise ValueError("Cannot specify both 'dim' and 'axis'.")
    chosen = axis if axis is not None else dim
    return -1 if chosen is None else chosen


def _along(compute: Any, logits: Any, axis: int, name: str | None) -> Tensor:
    logits = convert_to_tensor(logits)
    rank = logits.shape.ndims
    if rank is not None and rank > 0 and not -rank <= axis < rank:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"`dim` must be in the range [{-rank}, {rank}) where {rank} is the number of "
            f"dimensions in the input. Received: dim={axis}",
        )
    if axis == -1 or (rank is not None and (rank == 0 or axis % rank == rank - 1)):
        return compute(logits, name=name)
    order = exchange_with_last(logits, axis)
    result = array_layout.transpose(
        compute(array_layout.transpose(logits, order)), order, name=name
    )
    result.set_shape(logits.shape)
    return result


def exchange_with_last(tensor: Tensor, axis: int) -> Any:
    """The permutation that exchanges an axis with the last one; it is its own inverse."""
    rank = tensor.shape.ndims
    if rank is not None:
        order = list(range(rank))
        order[axis], order[-1] = order[-1], order[axis]
        return order
    count = array_shape.rank(tensor)
    place: Any = axis if axis >= 0 else count + axis
    return array_join.concat(
        [numeric.range(place), [count - 1], numeric.range(place + 1, count - 1), [place]], 0
    )
