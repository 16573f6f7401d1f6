"""Special functions: error, gamma, beta, zeta and Bessel functions.

Kernels are those of JAX. Gradients are written out where TensorFlow's graphs have ops for
them, else they are `jax.vjp` of the kernel; orders and parameters (`a`, `b` of betainc) have
none, as in TensorFlow.
"""

from __future__ import annotations

import math
from typing import Any

from millrace.compiler.xla import jax, jnp, lax
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.operation import Operation
from millrace.graph.registry import JAX_GRADIENT, NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, broadcast, broadcast_shapes, unchanged
from millrace.graph.tensor import Tensor
from millrace.ops.math import arithmetic, elementwise, reduction
from millrace.ops.math.broadcasting import broadcasting, sum_to_inputs

__all__ = [
    "betainc", "digamma", "erf", "erfc", "igamma", "igammac", "lbeta", "lgamma", "polygamma",
    "zeta",
]  # fmt: skip

_FLOATS = "{bfloat16, float16, float32, float64}"
_WIDE = "{float32, float64}"


def _number(value: float, like: Any) -> Any:
    return convert_to_tensor(value, like.dtype.base_dtype)


# -- Error functions ---------------------------------------------------------------------


@op(f"Erf(x: T) -> y: T where T: {_FLOATS}", shape=unchanged)
def Erf(x: Any) -> Any:
    return lax.erf(jnp.asarray(x))


@op(f"Erfc(x: T) -> y: T where T: {_FLOATS}", shape=unchanged)
def Erfc(x: Any) -> Any:
    return lax.erfc(jnp.asarray(x))


def _bell(x: Any, factor: float) -> Any:
    """factor * exp(-x*x)."""
    return _number(factor, x) * elementwise.Exp(elementwise.Neg(elementwise.Square(x)))


@Erf.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad * _bell(op.inputs[0], 2 / math.sqrt(math.pi))


@Erfc.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad * _bell(op.inputs[0], -2 / math.sqrt(math.pi))


@op(f"Erfinv(x: T) -> y: T where T: {_FLOATS}", shape=unchanged)
def Erfinv(x: Any) -> Any:
    return lax.erf_inv(jnp.asarray(x))


@Erfinv.gradient
def _(op: Operation, grad: Any) -> Any:
    growth = elementwise.Exp(elementwise.Square(op.outputs[0]))
    return grad * _number(math.sqrt(math.pi) / 2, grad) * growth


@op(f"Ndtri(x: T) -> y: T where T: {_FLOATS}", shape=unchanged)
def Ndtri(x: Any) -> Any:
    return jax.scipy.special.ndtri(jnp.asarray(x))


@Ndtri.gradient
def _(op: Operation, grad: Any) -> Any:
    half_square = elementwise.Square(op.outputs[0]) / _number(2.0, grad)
    return grad * _number(math.sqrt(2 * math.pi), grad) * elementwise.Exp(half_square)


@dispatched
def erf(x: Any, name: str | None = None) -> Any:
    """The Gauss error function."""
    return elementwise.on_values(x, lambda values: Erf(values, name=name), name or "Erf")


@dispatched
def erfc(x: Any, name: str | None = None) -> Tensor:
    """1 - erf(x)."""
    return Erfc(x, name=name)


def erfinv(x: Any, name: str | None = None) -> Tensor:
    """The inverse of `erf`."""
    with name_scope(name, "erfinv", [x]):
        return Erfinv(x)


def ndtri(x: Any, name: str | None = None) -> Tensor:
    """The quantile function of the standard normal distribution."""
    with name_scope(name, "ndtri", [x]):
        return Ndtri(x)


def erfcinv(x: Any, name: str | None = None) -> Tensor:
    """The inverse of `erfc`."""
    with name_scope(name, "erfcinv", [x]):
        point: Any = convert_to_tensor(x, name="start")
        return -ndtri(0.5 * point) * math.sqrt(0.5)


# -- Gamma and its relatives -------------------------------------------------------------


@op(f"Lgamma(x: T) -> y: T where T: {_FLOATS}", shape=unchanged)
def Lgamma(x: Any) -> Any:
    return lax.lgamma(jnp.asarray(x))


@Lgamma.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad * Digamma(op.inputs[0])


@dispatched
def lgamma(x: Any, name: str | None = None) -> Tensor:
    """log(|gamma(x)|)."""
    return Lgamma(x, name=name)


@op(f"Digamma(x: T) -> y: T where T: {_FLOATS}", shape=unchanged)
def Digamma(x: Any) -> Any:
    return lax.digamma(jnp.asarray(x))


@Digamma.gradient
def _(op: Operation, grad: Any) -> Any:
    x = op.inputs[0]
    return grad * Polygamma(_number(1, x), x)


@dispatched
def digamma(x: Any, name: str | None = None) -> Tensor:
    """The derivative of `lgamma`."""
    return Digamma(x, name=name)


@op(f"Igamma(a: T, x: T) -> z: T where T: {_FLOATS}", shape=broadcast)
@broadcasting
def Igamma(a: Any, x: Any) -> Any:
    return lax.igamma(*jnp.broadcast_arrays(a, x))


@op(f"Igammac(a: T, x: T) -> z: T where T: {_FLOATS}", shape=broadcast)
@broadcasting
def Igammac(a: Any, x: Any) -> Any:
    return lax.igammac(*jnp.broadcast_arrays(a, x))


@op(
    f"IgammaGradA(a: T, x: T) -> z: T where T: {_WIDE}",
    shape=broadcast,
    gradient=NO_GRADIENT,
)
@broadcasting
def IgammaGradA(a: Any, x: Any) -> Any:
    return lax.igamma_grad_a(*jnp.broadcast_arrays(a, x))


def _igamma_slopes(a: Any, x: Any) -> tuple[Any, Any]:
    """The derivatives of igamma with respect to a and x."""
    density = elementwise.Exp(-x + (a - _number(1, a)) * elementwise.Log(x) - Lgamma(a))
    return IgammaGradA(a, x), density


@Igamma.gradient
def _(op: Operation, grad: Any) -> Any:
    a, x = op.inputs
    slope_a, slope_x = _igamma_slopes(a, x)
    return sum_to_inputs(a, x, slope_a * grad, slope_x * grad)


@Igammac.gradient
def _(op: Operation, grad: Any) -> Any:
    a, x = op.inputs
    slope_a, slope_x = _igamma_slopes(a, x)
    return sum_to_inputs(a, x, -slope_a * grad, -slope_x * grad)


def igamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """The lower regularized incomplete gamma function P(a, x)."""
    return Igamma(a, x, name=name)


def igammac(a: Any, x: Any, name: str | None = None) -> Tensor:
    """The upper regularized incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    return Igammac(a, x, name=name)


@op(f"Zeta(x: T, q: T) -> z: T where T: {_WIDE}", shape=broadcast)
@broadcasting
def Zeta(x: Any, q: Any) -> Any:
    return lax.zeta(*jnp.broadcast_arrays(x, q))


@Zeta.gradient
def _(op: Operation, grad: Any) -> Any:
    x: Any = op.inputs[0]
    q: Any = op.inputs[1]
    slope = -x * Zeta(x + _number(1, x), q)
    return None, sum_to_inputs(x, q, None, slope * grad)[1]


def zeta(x: Any, q: Any, name: str | None = None) -> Tensor:
    """The Hurwitz zeta function."""
    return Zeta(x, q, name=name)


@op(f"Polygamma(a: T, x: T) -> z: T where T: {_WIDE}", shape=broadcast)
@broadcasting
def Polygamma(a: Any, x: Any) -> Any:
    return lax.polygamma(*jnp.broadcast_arrays(a, x))


@Polygamma.gradient
def _(op: Operation, grad: Any) -> Any:
    a: Any = op.inputs[0]
    x: Any = op.inputs[1]
    slope = Polygamma(a + _number(1, a), x)
    return None, sum_to_inputs(a, x, None, slope * grad)[1]


def polygamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """The derivative of order `a` of `digamma`."""
    return Polygamma(a, x, name=name)


def _betainc_shape(c: ShapeContext) -> TensorShape:
    shape = TensorShape([])
    for tensor in c.inputs:
        shape = broadcast_shapes(shape, tensor.shape)
    return shape


@op(f"Betainc(a: T, b: T, x: T) -> z: T where T: {_WIDE}", shape=_betainc_shape)
def Betainc(a: Any, b: Any, x: Any) -> Any:
    return lax.betainc(*jnp.broadcast_arrays(a, b, x))


@Betainc.gradient
def _(op: Operation, grad: Any) -> Any:
    a, b, x = op.inputs
    ones = _number(1, a)
    # log of the beta function, then the density of the beta distribution.
    log_beta = Lgamma(a) + Lgamma(b) - Lgamma(arithmetic.AddV2(a, b))
    density = elementwise.Exp(
        arithmetic.Xlogy(arithmetic.Sub(a, ones), x)
        + arithmetic.Xlog1py(arithmetic.Sub(b, ones), elementwise.Neg(x))
        - log_beta
    )
    return None, None, sum_to_inputs(x, op.outputs[0], density * grad, None)[0]


def betainc(a: Any, b: Any, x: Any, name: str | None = None) -> Tensor:
    """The regularized incomplete beta function I_x(a, b)."""
    return Betainc(a, b, x, name=name)


def lbeta(x: Any, name: str | None = None) -> Tensor:
    """log(|B(x)|), the beta function of the entries along the last axis."""
    with name_scope(name, "lbeta", [x]):
        point = convert_to_tensor(x, name="x")
        products: Any = reduction.reduce_sum(Lgamma(point), -1)
        return products - Lgamma(reduction.reduce_sum(point, -1))


# -- Bessel functions --------------------------------------------------------------------


@op(f"BesselI0(x: T) -> y: T where T: {_FLOATS}", shape=unchanged, gradient=JAX_GRADIENT)
def BesselI0(x: Any) -> Any:
    return jax.scipy.special.i0(jnp.asarray(x))


@op(f"BesselI0e(x: T) -> y: T where T: {_FLOATS}", shape=unchanged, gradient=JAX_GRADIENT)
def BesselI0e(x: Any) -> Any:
    return lax.bessel_i0e(jnp.asarray(x))


@op(f"BesselI1(x: T) -> y: T where T: {_FLOATS}", shape=unchanged, gradient=JAX_GRADIENT)
def BesselI1(x: Any) -> Any:
    return jax.scipy.special.i1(jnp.asarray(x))


@op(f"BesselI1e(x: T) -> y: T where T: {_FLOATS}", shape=unchanged, gradient=JAX_GRADIENT)
def BesselI1e(x: Any) -> Any:
    return lax.bessel_i1e(jnp.asarray(x))


def bessel_i0(x: Any, name: str | None = None) -> Tensor:
    """The modified Bessel function of order 0."""
    with name_scope(name, "bessel_i0", [x]):
        return BesselI0(x)


def bessel_i0e(x: Any, name: str | None = None) -> Tensor:
    """exp(-|x|) * bessel_i0(x)."""
    with name_scope(name, "bessel_i0e", [x]):
        return BesselI0e(x)


def bessel_i1(x: Any, name: str | None = None) -> Tensor:
    """The modified Bessel function of order 1."""
    with name_scope(name, "bessel_i1", [x]):
        return BesselI1(x)


def bessel_i1e(x: Any, name: str | None = None) -> Tensor:
    """exp(-|x|) * bessel_i1(x)."""
    with name_scope(name, "bessel_i1e", [x]):
        return BesselI1e(x)


# -- Integrals ---------------------------------------------------------------------------


@op(f"Dawsn(x: T) -> y: T where T: {_FLOATS}", shape=unchanged, gradient=JAX_GRADIENT)
def Dawsn(x: Any) -> Any:
    return jax.scipy.special.dawsn(jnp.asarray(x))


@op(f"Expint(x: T) -> y: T where T: {_FLOATS}", shape=unchanged, gradient=JAX_GRADIENT)
def Expint(x: Any) -> Any:
    return jax.scipy.special.expi(jnp.asarray(x))


@op(f"FresnelSin(x: T) -> y: T where T: {_FLOATS}", shape=unchanged, gradient=JAX_GRADIENT)
def FresnelSin(x: Any) -> Any:
    return jax.scipy.special.fresnel(jnp.asarray(x))[0]


@op(f"FresnelCos(x: T) -> y: T where T: {_FLOATS}", shape=unchanged, gradient=JAX_GRADIENT)
def FresnelCos(x: Any) -> Any:
    return jax.scipy.special.fresnel(jnp.asarray(x))[1]


@op(f"Spence(x: T) -> y: T where T: {_FLOATS}", shape=unchanged, gradient=JAX_GRADIENT)
def Spence(x: Any) -> Any:
    return jax.scipy.special.spence(jnp.asarray(x))
