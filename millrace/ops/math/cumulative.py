"""Running sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.compiler.xla import jnp, lax
from millrace.core.tensor_shape import TensorShape
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import select as array_select
from millrace.ops.math import arithmetic, comparison, complex_numbers, elementwise
from millrace.ops.math.broadcasting import shape_text

__all__ = ["cumprod", "cumsum"]

_ATTRS = "exclusive: bool = false; reverse: bool = false; T: number; Tidx: {int32, int64} = int32"


def _same_shape(c: ShapeContext) -> TensorShape:
    return c.shape(0)


def _scan(
    x: Any,
    axis: Any,
    exclusive: bool,
    reverse: bool,
    function: Callable[..., Any],
    neutral: Any,
    xp: Any,
) -> Any:
    if axis.ndim != 0:
        raise ValueError(f"ScanOp: axis must be a scalar, not {shape_text(axis.shape)}")
    position, rank = int(axis), x.ndim
    if not -rank <= position < rank:
        raise ValueError(
            f"ScanOp: Expected scan axis in the range [{-rank}, {rank}), but got {position}"
        )
    if reverse:
        x = xp.flip(x, position)
    if exclusive:
        first = list(x.shape)
        first[position] = min(1, first[position])
        but_last = [slice(None)] * rank
        but_last[position] = slice(None, -1)
        x = xp.concatenate([xp.full(first, neutral, x.dtype), x[tuple(but_last)]], position)
    result = function(x, position % rank)
    return xp.flip(result, position) if reverse else result


@op(
    f"Cumsum(x: T, axis: Tidx) -> out: T where {_ATTRS}",
    shape=_same_shape,
    static=("axis",),
)
def Cumsum(x: Any, axis: Any, *, xp: Any, exclusive: bool, reverse: bool) -> Any:
    def running(values: Any, position: int) -> Any:
        return xp.cumsum(values, axis=position, dtype=values.dtype)

    return _scan(x, axis, exclusive, reverse, running, 0, xp)


@Cumsum.gradient
def _(op: Operation, grad: Any) -> Any:
    exclusive, reverse = op.get_attr("exclusive"), op.get_attr("reverse")
    return cumsum(grad, op.inputs[1], exclusive=exclusive, reverse=not reverse), None


def cumsum(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """The running sum along an axis.

    Args:
      x: The tensor.
      axis: The axis.
      exclusive: Whether an element is left out of its own sum.
      reverse: Whether to sum from the end.
      name: The node's name.
    """
    return Cumsum(x, axis, exclusive=exclusive, reverse=reverse, name=name or "Cumsum")


@op(
    f"Cumprod(x: T, axis: Tidx) -> out: T where {_ATTRS}",
    shape=_same_shape,
    static=("axis",),
)
def Cumprod(x: Any, axis: Any, *, xp: Any, exclusive: bool, reverse: bool) -> Any:
    def running(values: Any, position: int) -> Any:
        return xp.cumprod(values, axis=position, dtype=values.dtype)

    return _scan(x, axis, exclusive, reverse, running, 1, xp)


@Cumprod.gradient
def _(op: Operation, grad: Any) -> Any:
    x, axis = op.inputs
    exclusive, reverse = op.get_attr("exclusive"), op.get_attr("reverse")
    products = complex_numbers.conj(op.outputs[0])
    total = cumsum(products * grad, axis, exclusive=exclusive, reverse=not reverse)
    return arithmetic.div_no_nan(total, complex_numbers.conj(x)), None


def cumprod(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """The running product along an axis; see `cumsum` for the arguments."""
    return Cumprod(x, axis, exclusive=exclusive, reverse=reverse, name=name or "Cumprod")


@op(
    "CumulativeLogsumexp(x: T, axis: Tidx) -> out: T where exclusive: bool = false; "
    "reverse: bool = false; T: {bfloat16, float16, float32, float64}; Tidx: {int32, int64} = int32",
    shape=_same_shape,
    static=("axis",),
)
def CumulativeLogsumexp(x: Any, axis: Any, *, exclusive: bool, reverse: bool) -> Any:
    return _scan(jnp.asarray(x), axis, exclusive, reverse, lax.cumlogsumexp, -jnp.inf, jnp)


@CumulativeLogsumexp.gradient
def _(op: Operation, grad: Any) -> Any:
    x, axis = op.inputs
    exclusive, reverse = op.get_attr("exclusive"), op.get_attr("reverse")
    least = float(np.finfo(np.float32).min) if x.dtype.size < 8 else x.dtype.min

    def part(amount: Any) -> Any:
        """What the positive entries of `amount` contribute, summed in logarithms."""
        is_positive = comparison.greater(amount, 0)
        logs = array_select.where_v2(is_positive, elementwise.log(amount), least)
        running: Any = cumulative_logsumexp(
            logs - op.outputs[0], axis, exclusive=exclusive, reverse=not reverse
        )
        return elementwise.exp(running + x)

    return part(grad) - part(-grad), None


def cumulative_logsumexp(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """The running log(sum(exp(x))) along an axis; see `cumsum` for the arguments."""
    return CumulativeLogsumexp(
        x, axis, exclusive=exclusive, reverse=reverse, name=name or "CumulativeLogsumexp"
    )
