"""Norms and what is divided by them: L2 loss and normalisation, local response normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.xla import jnp, lax
from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import JAX_GRADIENT
from millrace.graph.shape_inference import ShapeContext, scalars
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import identity as array_identity
from millrace.ops.array import shape as array_shape
from millrace.ops.math import arithmetic, elementwise, reduction

__all__ = [
    "l2_loss",
    "l2_normalize",
    "local_response_normalization",
    "lrn",
    "zero_fraction",
]

_FLOATS = "{float16, bfloat16, float32, float64}"


# -- L2 ----------------------------------------------------------------------------------


@op(f"L2Loss(t: T) -> output: T where T: {_FLOATS}", shape=scalars)
def L2Loss(t: Any, *, xp: Any) -> Any:
    """Half the sum of the squares."""
    return xp.sum(xp.square(t), dtype=t.dtype) / xp.asarray(2, t.dtype)


@L2Loss.gradient
def _(op: Operation, grad: Any) -> Any:
    x: Any = op.inputs[0]
    return x * grad


def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """sum(t ** 2) / 2."""
    return L2Loss(t, name=name)


def l2_normalize(
    x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None
) -> Any:
    """x / sqrt(max(sum(x ** 2), epsilon)), the sum taken over `axis` (all axes when None).

    Args:
      x: A tensor.
      axis: One axis or several.
      epsilon: The least sum of squares that is divided by.
      name: The name scope.
      dim: The old name of `axis`.
    """
    if axis is not None and dim is not None:
        raise ValueError("Cannot specify both 'dim' and 'axis'.")
    axis = axis if axis is not None else dim
    with name_scope(name, "l2_normalize", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        squares = elementwise.square(x)
        if x.dtype.is_complex:
            squares = elementwise.square(elementwise.abs(x))
        total = reduction.reduce_sum(squares, axis, keepdims=True)
        inverse = elementwise.rsqrt(arithmetic.maximum(total, epsilon))
        if x.dtype.is_complex:
            inverse = cast.cast(inverse, x.dtype)
        return arithmetic.multiply(x, inverse, name=scope)


def zero_fraction(value: Any, name: str | None = None) -> Tensor:
    """The part of the elements that are zero (NaN for no elements)."""
    with name_scope(name, "zero_fraction", [value]):
        value = convert_to_tensor(value, name="value")
        size: Any = array_shape.size(value, out_type=dtypes.int64)
        nonzero = reduction.count_nonzero(value, dtype=dtypes.int64)
        with name_scope("counts_to_fraction"):
            zeros = cast.cast(size - nonzero, dtypes.float32)
            fraction = zeros / cast.cast(size, dtypes.float32)
        return array_identity.identity(fraction, "fraction")


# -- Local response ----------------------------------------------------------------------

_LRN_ATTRS = (
    "depth_radius: int = 5; bias: float = 1.0; alpha: float = 1.0; beta: float = 0.5; "
    "T: {float16, bfloat16, float32} = float32"
)
#: Up to here a product with a band matrix is faster than a window along the channels.
_MOST_CHANNELS = 256


def _images(c: ShapeContext) -> TensorShape:
    shape = TensorShape([None] * 4)
    for tensor in c.inputs:
        if tensor.shape.ndims not in (None, 4):
            raise ValueError(f"Shape must be rank 4 but is rank {tensor.shape.ndims}")
        shape = shape.merge_with(tensor.shape)
    return shape


def _neighbour_sums(x: Any, radius: int) -> Any:
    """For each channel the sum over the channels within `radius` of it."""
    channels = x.shape[-1]
    if channels <= _MOST_CHANNELS:
        numbers = np.arange(channels)
        near = np.abs(numbers[:, None] - numbers) <= radius
        return jnp.matmul(x, jnp.asarray(near, x.dtype), precision=lax.Precision.HIGHEST)
    last = x.ndim - 1
    sizes = [2 * radius + 1 if axis == last else 1 for axis in range(x.ndim)]
    pads = [(radius, radius) if axis == last else (0, 0) for axis in range(x.ndim)]
    return lax.reduce_window(x, np.zeros((), x.dtype), lax.add, sizes, [1] * x.ndim, pads)


def _lrn_norms(x: Any, radius: int, bias: float, alpha: float) -> Any:
    return bias + alpha * _neighbour_sums(jnp.square(x), radius)


@op(f"LRN(input: T) -> output: T where {_LRN_ATTRS}", shape=_images)
def LRN(input: Any, *, depth_radius: int, bias: float, alpha: float, beta: float) -> Any:
    """Divides every element by a power of the squares of its neighbours along the channels."""
    x = jnp.asarray(input).astype(jnp.float32)
    # exp(b * log(x)) is five times faster than a power on CPUs.
    return x * jnp.exp(-beta * jnp.log(_lrn_norms(x, depth_radius, bias, alpha)))


@LRN.gradient
def _(op: Operation, grad: Any) -> Any:
    names = ("depth_radius", "bias", "alpha", "beta")
    attrs = {name: op.attrs[name] for name in names}
    return LRNGrad(grad, op.inputs[0], op.outputs[0], **attrs)


@op(
    f"LRNGrad(input_grads: T, input_image: T, output_image: T) -> output: T where {_LRN_ATTRS}",
    shape=_images,
    gradient=JAX_GRADIENT,
)
def LRNGrad(
    input_grads: Any,
    input_image: Any,
    output_image: Any,
    *,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> Any:
    """The gradient of LRN."""
    grad, x, y = (
        jnp.asarray(v).astype(jnp.float32) for v in (input_grads, input_image, output_image)
    )
    norms = _lrn_norms(x, depth_radius, bias, alpha)
    through_norms = _neighbour_sums(grad * y / norms, depth_radius)
    direct = grad * jnp.exp(-beta * jnp.log(norms))
    return direct - (2 * alpha * beta) * x * through_norms


def lrn(
    input: Any,
    depth_radius: int = 5,
    bias: float = 1,
    alpha: float = 1,
    beta: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """Local response normalisation (Krizhevsky et al., 2012).

    ``input / (bias + alpha * sum(input ** 2)) ** beta``, the sum taken over the channels at
    most `depth_radius` away.

    Args:
      input: ``[batch, height, width, channels]``.
      depth_radius: How many channels on each side count.
      bias: Added before the power.
      alpha: The weight of the squares.
      beta: The exponent.
      name: The node's name.
    """
    return LRN(
        input,
        depth_radius=depth_radius,
        bias=float(bias),
        alpha=float(alpha),
        beta=float(beta),
        name=name,
    )


local_response_normalization = lrn
