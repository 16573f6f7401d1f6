"""Fake quantization: values rounded to the steps that a few bits have, still as floats.

The range is moved a little, so that zero is a step (TensorFlow's "nudging"). The gradient
goes through where the value was inside the range.
"""

from __future__ import annotations

from typing import Any

from millrace.compiler.xla import jnp
from millrace.core.tensor_shape import TensorShape
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, merge_shapes, unchanged
from millrace.graph.tensor import Tensor
from millrace.ops.array.rules import require_rank, require_rank_at_least

__all__ = [
    "fake_quant_with_min_max_args",
    "fake_quant_with_min_max_args_gradient",
    "fake_quant_with_min_max_vars",
    "fake_quant_with_min_max_vars_gradient",
    "fake_quant_with_min_max_vars_per_channel",
    "fake_quant_with_min_max_vars_per_channel_gradient",
]

_BITS = "num_bits: int = 8; narrow_range: bool = false"
_RANGE = "min: float = -6.0; max: float = 6.0"


def _nudged(low: Any, high: Any, num_bits: int, narrow_range: bool) -> tuple[Any, Any, Any]:
    """The range moved so that zero is a step, and the size of a step."""
    if not 2 <= num_bits <= 16:
        raise ValueError(f"num_bits must be between 2 and 16, inclusive, got {num_bits}")
    first, last = float(narrow_range), float(2**num_bits - 1)
    low, high = jnp.asarray(low, jnp.float32), jnp.asarray(high, jnp.float32)
    step = (high - low) / (last - first)
    zero = first - low / step
    # Halves away from zero, as C++ rounds; it is positive here.
    zero = jnp.where(zero < first, first, jnp.where(zero > last, last, jnp.floor(zero + 0.5)))
    return (first - zero) * step, (last - zero) * step, step


def _quantized(inputs: Any, low: Any, high: Any, num_bits: int, narrow_range: bool) -> Any:
    bottom, top, step = _nudged(low, high, num_bits, narrow_range)
    clamped = jnp.clip(inputs, bottom, top) - bottom
    rounded = jnp.floor(clamped / step + 0.5) * step + bottom
    nothing = (jnp.asarray(low) == 0) & (jnp.asarray(high) == 0)
    return jnp.where(nothing, jnp.float32(0), rounded)


def _gradients(
    gradients: Any, inputs: Any, low: Any, high: Any, num_bits: int, narrow_range: bool
) -> tuple[Any, Any, Any]:
    """Of the inputs; and, element by element, what goes to the lower and the upper end."""
    bottom, top, _ = _nudged(low, high, num_bits, narrow_range)
    nothing = (jnp.asarray(low) == 0) & (jnp.asarray(high) == 0)
    below, above = inputs < bottom, inputs > top
    inside = jnp.where(nothing | ~(below | above), gradients, 0)
    return (
        inside,
        jnp.where(below & ~nothing, gradients, 0),
        jnp.where(above & ~nothing, gradients, 0),
    )


def _check_order(low: Any, high: Any, check: Any) -> None:
    check(low <= high, "min has to be smaller than max")


# -- The range is part of the graph --------------------------------------------------------


@op(
    f"FakeQuantWithMinMaxArgs(inputs: float32) -> outputs: float32 where {_RANGE}; {_BITS}",
    shape=unchanged,
)
def FakeQuantWithMinMaxArgs(
    inputs: Any, *, min: float, max: float, num_bits: int, narrow_range: bool
) -> Any:
    """Values in steps, for a range that is given as attributes."""
    _check_attributes(min, max)
    return _quantized(inputs, min, max, num_bits, narrow_range)


def _check_attributes(low: float, high: float) -> None:
    if low >= high:
        raise ValueError(f"min has to be smaller than max, was: {low:g} >= {high:g}")


@op(
    "FakeQuantWithMinMaxArgsGradient(gradients: float32, inputs: float32) -> backprops: float32 "
    f"where {_RANGE}; {_BITS}",
    shape=lambda c: merge_shapes(c.shape(0), c.shape(1)),
    gradient=NO_GRADIENT,
)
def FakeQuantWithMinMaxArgsGradient(
    gradients: Any, inputs: Any, *, min: float, max: float, num_bits: int, narrow_range: bool
) -> Any:
    """The gradient where the value is inside the range."""
    _check_attributes(min, max)
    return _gradients(gradients, inputs, min, max, num_bits, narrow_range)[0]


@FakeQuantWithMinMaxArgs.gradient
def _(op: Operation, grad: Tensor) -> Any:
    return FakeQuantWithMinMaxArgsGradient(grad, op.inputs[0], **op.attrs)


# -- The range is learned ------------------------------------------------------------------


def _scalar_range(c: ShapeContext, first: int) -> None:
    for i in (first, first + 1):
        require_rank(c.shape(i), 0)


def _with_range(c: ShapeContext) -> TensorShape:
    _scalar_range(c, 1)
    return c.shape(0)


def _with_range_gradient(c: ShapeContext) -> list[TensorShape]:
    _scalar_range(c, 2)
    return [merge_shapes(c.shape(0), c.shape(1)), TensorShape([]), TensorShape([])]


@op(
    "FakeQuantWithMinMaxVars(inputs: float32, min: float32, max: float32) -> outputs: float32 "
    f"where {_BITS}",
    shape=_with_range,
)
def FakeQuantWithMinMaxVars(
    inputs: Any, min: Any, max: Any, *, num_bits: int, narrow_range: bool, check: Any
) -> Any:
    """Values in steps, for a range that is given as tensors."""
    _check_order(min, max, check)
    return _quantized(inputs, min, max, num_bits, narrow_range)


@op(
    "FakeQuantWithMinMaxVarsGradient(gradients: float32, inputs: float32, min: float32, "
    "max: float32) -> (backprops_wrt_input: float32, backprop_wrt_min: float32, "
    f"backprop_wrt_max: float32) where {_BITS}",
    shape=_with_range_gradient,
    gradient=NO_GRADIENT,
)
def FakeQuantWithMinMaxVarsGradient(
    gradients: Any, inputs: Any, min: Any, max: Any, *, num_bits: int, narrow_range: bool
) -> Any:
    """The gradients of the values and of both ends of the range."""
    inside, below, above = _gradients(gradients, inputs, min, max, num_bits, narrow_range)
    return inside, jnp.sum(below), jnp.sum(above)


@FakeQuantWithMinMaxVars.gradient
def _(op: Operation, grad: Tensor) -> Any:
    return FakeQuantWithMinMaxVarsGradient(grad, *op.inputs, **op.attrs)


# -- A range for each channel --------------------------------------------------------------


def _channels(c: ShapeContext, x: TensorShape, first: int) -> tuple[TensorShape, TensorShape]:
    require_rank_at_least(x, 1)
    ends = TensorShape([None]) if x.sizes is None else TensorShape([x.sizes[-1]])
    for i in (first, first + 1):
        require_rank(c.shape(i), 1)
        ends = merge_shapes(ends, c.shape(i))
    if x.sizes is not None:
        x = TensorShape([*x.sizes[:-1], ends.as_list()[0]])
    return x, ends


def _per_channel_gradient_shape(c: ShapeContext) -> list[TensorShape]:
    x, ends = _channels(c, merge_shapes(c.shape(0), c.shape(1)), 2)
    return [x, ends, ends]


@op(
    "FakeQuantWithMinMaxVarsPerChannel(inputs: float32, min: float32, max: float32) -> "
    f"outputs: float32 where {_BITS}",
    shape=lambda c: _channels(c, c.shape(0), 1)[0],
)
def FakeQuantWithMinMaxVarsPerChannel(
    inputs: Any, min: Any, max: Any, *, num_bits: int, narrow_range: bool, check: Any
) -> Any:
    """Values in steps, with a range for each place of the last dimension."""
    _check_order(min, max, check)
    return _quantized(inputs, min, max, num_bits, narrow_range)


@op(
    "FakeQuantWithMinMaxVarsPerChannelGradient(gradients: float32, inputs: float32, "
    "min: float32, max: float32) -> (backprops_wrt_input: float32, backprop_wrt_min: float32, "
    f"backprop_wrt_max: float32) where {_BITS}",
    shape=_per_channel_gradient_shape,
    gradient=NO_GRADIENT,
)
def FakeQuantWithMinMaxVarsPerChannelGradient(
    gradients: Any, inputs: Any, min: Any, max: Any, *, num_bits: int, narrow_range: bool
) -> Any:
    """The gradients of the values and of both ends of each range."""
    inside, below, above = _gradients(gradients, inputs, min, max, num_bits, narrow_range)
    rest = tuple(range(inputs.ndim - 1))
    return inside, jnp.sum(below, axis=rest), jnp.sum(above, axis=rest)


@FakeQuantWithMinMaxVarsPerChannel.gradient
def _(op: Operation, grad: Tensor) -> Any:
    return FakeQuantWithMinMaxVarsPerChannelGradient(grad, *op.inputs, **op.attrs)


# -- Public functions ----------------------------------------------------------------------


def fake_quant_with_min_max_args(
    inputs: Any,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """Values rounded to the steps of `num_bits` between `min` and `max`.

    Args:
      inputs: A float32 tensor.
      min: The lower end of the range.
      max: The upper end.
      num_bits: From 2 to 16.
      narrow_range: Whether the lowest step is left out, so that both signs have as many.
      name: Name of the op.
    """
    result: Tensor = FakeQuantWithMinMaxArgs(
        inputs, min=min, max=max, num_bits=num_bits, narrow_range=narrow_range, name=name
    )
    return result


def fake_quant_with_min_max_args_gradient(
    gradients: Any,
    inputs: Any,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """The gradient of `fake_quant_with_min_max_args`."""
    result: Tensor = FakeQuantWithMinMaxArgsGradient(
        gradients, inputs, min=min, max=max, num_bits=num_bits, narrow_range=narrow_range, name=name
    )
    return result


def fake_quant_with_min_max_vars(
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """As `fake_quant_with_min_max_args`, for a range that can be learned."""
    result: Tensor = FakeQuantWithMinMaxVars(
        inputs, min, max, num_bits=num_bits, narrow_range=narrow_range, name=name
    )
    return result


def fake_quant_with_min_max_vars_gradient(
    gradients: Any,
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """The gradients of `fake_quant_with_min_max_vars`: of inputs, `min` and `max`."""
    return FakeQuantWithMinMaxVarsGradient(
        gradients, inputs, min, max, num_bits=num_bits, narrow_range=narrow_range, name=name
    )


def fake_quant_with_min_max_vars_per_channel(
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """As `fake_quant_with_min_max_vars`, with a range for each place of the last dimension."""
    result: Tensor = FakeQuantWithMinMaxVarsPerChannel(
        inputs, min, max, num_bits=num_bits, narrow_range=narrow_range, name=name
    )
    return result


def fake_quant_with_min_max_vars_per_channel_gradient(
    gradients: Any,
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """The gradients of `fake_quant_with_min_max_vars_per_channel`."""
    return FakeQuantWithMinMaxVarsPerChannelGradient(
        gradients, inputs, min, max, num_bits=num_bits, narrow_range=narrow_range, name=name
    )
