"""Activation functions and their named gradient ops.

Elementwise, so XLA fuses them with what stands before and after. The gradient ops of Elu and
Selu take the *output* of the forward op, those of the others its input.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.operation import Operation
from millrace.graph.registry import JAX_GRADIENT
from millrace.graph.shape_inference import merged, unchanged
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import join as array_join
from millrace.ops.array import select as array_select
from millrace.ops.math import arithmetic, elementwise

__all__ = [
    "crelu",
    "elu",
    "leaky_relu",
    "relu",
    "relu6",
    "selu",
    "silu",
    "softplus",
    "softsign",
    "swish",
]

_FLOATS = "{float16, bfloat16, float32, float64}"
_LEAKY_ATTRS = f"alpha: float = 0.20000000298023224; T: {_FLOATS} = float32"
_RELU_TYPES = (
    "{float32, float64, int32, uint8, int16, int8, int64, bfloat16, uint16, float16, uint32, "
    "uint64, qint8}"
)

# The fixed point of Klambauer et al., "Self-Normalizing Neural Networks" (2017), appendix A1.
_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_SCALE_ALPHA = 1.7580993408473768599402175208123


# -- Relu --------------------------------------------------------------------------------


@op(f"Relu(features: T) -> activations: T where T: {_RELU_TYPES}", shape=unchanged)
def Relu(features: Any, *, xp: Any) -> Any:
    return xp.maximum(features, xp.zeros((), features.dtype))


@Relu.on_host
def _(node: Any, known: Any) -> Any:
    zero = node.output_types[0].as_numpy_dtype(0)
    return lambda features: np.maximum(features, zero)


@Relu.gradient
def _(op: Operation, grad: Any) -> Any:
    return ReluGrad(grad, op.outputs[0])


@op("ReluGrad(gradients: T, features: T) -> backprops: T where T: real", shape=merged)
def ReluGrad(gradients: Any, features: Any, *, xp: Any) -> Any:
    return xp.where(features > 0, gradients, xp.zeros((), gradients.dtype))


@ReluGrad.on_host
def _(node: Any, known: Any) -> Any:
    if node.output_types[0].name not in ("float32", "float64"):
        return None
    # A product would make NaN of an infinite gradient.
    zero = node.output_types[0].as_numpy_dtype(0)

    def relu_grad(gradients: Any, features: Any) -> Any:
        result = np.where(features > zero, gradients, zero)
        if result.shape != gradients.shape:
            raise ValueError("Shapes differ")
        return result

    return relu_grad


@ReluGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    x = op.inputs[1]
    return ReluGrad(grad, x), array_fill.zeros_like(x)


@dispatched
def relu(features: Any, name: str | None = None) -> Tensor:
    """max(features, 0)."""
    return Relu(features, name=name)


@op("Relu6(features: T) -> activations: T where T: real", shape=unchanged)
def Relu6(features: Any, *, xp: Any) -> Any:
    return xp.clip(features, xp.zeros((), features.dtype), xp.asarray(6, features.dtype))


@Relu6.gradient
def _(op: Operation, grad: Any) -> Any:
    return Relu6Grad(grad, op.outputs[0])


@op("Relu6Grad(gradients: T, features: T) -> backprops: T where T: real", shape=merged)
def Relu6Grad(gradients: Any, features: Any, *, xp: Any) -> Any:
    inside = (features > 0) & (features < 6)
    return xp.where(inside, gradients, xp.zeros((), gradients.dtype))


@Relu6Grad.gradient
def _(op: Operation, grad: Any) -> Any:
    x = op.inputs[1]
    return Relu6Grad(grad, x), array_fill.zeros_like(x)


@dispatched
def relu6(features: Any, name: str | None = None) -> Tensor:
    """min(max(features, 0), 6)."""
    with name_scope(name, "Relu6", [features]) as scope:
        return Relu6(convert_to_tensor(features, name="features"), name=scope)


def crelu(features: Any, name: str | None = None, axis: int = -1) -> Tensor:
    """relu of the features and of their negatives, joined along `axis`."""
    with name_scope(name, "CRelu", [features]) as scope:
        features = convert_to_tensor(features, name="features")
        both = array_join.concat([features, elementwise.negative(features)], axis, name=scope)
        return relu(both)


@op(
    f"LeakyRelu(features: T) -> activations: T where {_LEAKY_ATTRS}",
    shape=unchanged,
)
def LeakyRelu(features: Any, *, alpha: float, xp: Any) -> Any:
    # An attribute is a float32, whatever the features are.
    return xp.where(
        features > 0, features, features * xp.asarray(np.float32(alpha), features.dtype)
    )


@LeakyRelu.gradient
def _(op: Operation, grad: Any) -> Any:
    return LeakyReluGrad(grad, op.inputs[0], alpha=op.attrs["alpha"])


@op(
    f"LeakyReluGrad(gradients: T, features: T) -> backprops: T where {_LEAKY_ATTRS}",
    shape=merged,
)
def LeakyReluGrad(gradients: Any, features: Any, *, alpha: float, xp: Any) -> Any:
    return xp.where(
        features > 0, gradients, gradients * xp.asarray(np.float32(alpha), gradients.dtype)
    )


@LeakyReluGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    x = op.inputs[1]
    return LeakyReluGrad(grad, x, alpha=op.attrs["alpha"]), array_fill.zeros_like(x)


def leaky_relu(features: Any, alpha: Any = 0.2, name: str | None = None) -> Tensor:
    """features where positive, else alpha * features."""
    with name_scope(name, "LeakyRelu", [features, alpha]) as scope:
        features = convert_to_tensor(features, name="features")
        if features.dtype.is_integer:
            features = cast.cast(features, dtypes.float32)
        if isinstance(alpha, Tensor):  # an attribute cannot be a tensor; before 1.12 it could
            return arithmetic.maximum(alpha * features, features, name=scope)
        return LeakyRelu(features, alpha=alpha, name=scope)


# -- Exponential units -------------------------------------------------------------------


@op(f"Elu(features: T) -> activations: T where T: {_FLOATS}", shape=unchanged)
def Elu(features: Any, *, xp: Any) -> Any:
    return xp.where(features < 0, xp.expm1(features), features)


@Elu.gradient
def _(op: Operation, grad: Any) -> Any:
    return EluGrad(grad, op.outputs[0])


@op(f"EluGrad(gradients: T, outputs: T) -> backprops: T where T: {_FLOATS}", shape=merged)
def EluGrad(gradients: Any, outputs: Any, *, xp: Any) -> Any:
    return xp.where(outputs < 0, (outputs + xp.ones((), outputs.dtype)) * gradients, gradients)


@EluGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    gradients, outputs = op.inputs
    return EluGrad(grad, outputs), _where_negative(outputs, grad * gradients)


@op(f"Selu(features: T) -> activations: T where T: {_FLOATS}", shape=unchanged)
def Selu(features: Any, *, xp: Any) -> Any:
    scale = xp.asarray(_SELU_SCALE, features.dtype)
    scale_alpha = xp.asarray(_SELU_SCALE_ALPHA, features.dtype)
    return xp.where(features < 0, scale_alpha * xp.expm1(features), scale * features)


@Selu.gradient
def _(op: Operation, grad: Any) -> Any:
    return SeluGrad(grad, op.outputs[0])


@op(f"SeluGrad(gradients: T, outputs: T) -> backprops: T where T: {_FLOATS}", shape=merged)
def SeluGrad(gradients: Any, outputs: Any, *, xp: Any) -> Any:
    scale = xp.asarray(_SELU_SCALE, outputs.dtype)
    scale_alpha = xp.asarray(_SELU_SCALE_ALPHA, outputs.dtype)
    return xp.where(outputs < 0, gradients * (outputs + scale_alpha), gradients * scale)


@SeluGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    gradients, outputs = op.inputs
    return SeluGrad(grad, outputs), _where_negative(outputs, grad * gradients)


def _where_negative(outputs: Any, value: Any) -> Tensor:
    return array_select.where(outputs < 0, value, array_fill.zeros_like(outputs))


def elu(features: Any, name: str | None = None) -> Tensor:
    """features where not negative, else exp(features) - 1."""
    return Elu(features, name=name)


def selu(features: Any, name: str | None = None) -> Tensor:
    """The scaled `elu` whose activations keep mean 0 and variance 1 through layers."""
    return Selu(features, name=name)


# -- Soft ones ---------------------------------------------------------------------------


@op(f"Softplus(features: T) -> activations: T where T: {_FLOATS}", shape=unchanged)
def Softplus(features: Any, *, xp: Any) -> Any:
    # log(1 + exp(x)) without overflow for large x.
    return xp.maximum(features, xp.zeros((), features.dtype)) + xp.log1p(xp.exp(-xp.abs(features)))


@Softplus.gradient
def _(op: Operation, grad: Any) -> Any:
    return SoftplusGrad(grad, op.inputs[0])


@op(f"SoftplusGrad(gradients: T, features: T) -> backprops: T where T: {_FLOATS}", shape=merged)
def SoftplusGrad(gradients: Any, features: Any, *, xp: Any) -> Any:
    return gradients * elementwise.Sigmoid.kernel(features, xp=xp)


@SoftplusGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    dy: Any
    x: Any
    dy, x = op.inputs
    curvature: Any = elementwise.exp(-x)
    curvature = curvature + 2.0 + elementwise.exp(x)
    return SoftplusGrad(grad, x), grad * dy / curvature


@dispatched
def softplus(features: Any, name: str | None = None) -> Tensor:
    """log(exp(features) + 1)."""
    return Softplus(features, name=name)


@op(f"Softsign(features: T) -> activations: T where T: {_FLOATS}", shape=unchanged)
def Softsign(features: Any, *, xp: Any) -> Any:
    return features / (xp.ones((), features.dtype) + xp.abs(features))


@Softsign.gradient
def _(op: Operation, grad: Any) -> Any:
    return SoftsignGrad(grad, op.inputs[0])


@op(
    f"SoftsignGrad(gradients: T, features: T) -> backprops: T where T: {_FLOATS}",
    shape=merged,
    gradient=JAX_GRADIENT,
)
def SoftsignGrad(gradients: Any, features: Any, *, xp: Any) -> Any:
    return gradients / xp.square(xp.ones((), features.dtype) + xp.abs(features))


def softsign(features: Any, name: str | None = None) -> Tensor:
    """features / (|features| + 1)."""
    return Softsign(features, name=name)


def swish(features: Any, beta: Any = 1.0) -> Tensor:
    """features * sigmoid(beta * features)."""
    features = convert_to_tensor(features, name="features")
    beta = convert_to_tensor(beta, features.dtype.base_dtype, name="beta")
    return features * elementwise.sigmoid(beta * features)


silu = swish
