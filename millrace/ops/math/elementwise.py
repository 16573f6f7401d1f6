"""Functions of one number, applied to every element: roots, exponentials, angles, rounding.

Gradients use TensorFlow's named gradient ops (SqrtGrad, TanhGrad, ...) where its graphs have
them; these take the *output* of the forward op. For complex numbers a gradient is multiplied
by the conjugate of the derivative. Functions that only statisticians name are in
`special_functions`, parts of complex numbers in `complex_numbers`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.xla import jnp, lax
from millrace.core.dtypes import DType
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import get_default_graph, name_scope
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import merged, unchanged
from millrace.graph.slices import IndexedSlices, SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.math import arithmetic, complex_numbers
from millrace.ops.nn import activation

__all__ = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "complex_abs", "cos", "cosh",
    "exp", "expm1", "floor", "inv", "is_finite", "is_inf", "is_nan", "log", "log1p", "log_sigmoid",
    "neg", "negative", "reciprocal", "rint", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh",
    "sqrt", "square", "tan", "tanh",
]  # fmt: skip

FLOATS = "{bfloat16, float16, float32, float64}"
INEXACT = "{bfloat16, float16, float32, float64, complex64, complex128}"
SIGNED = "{bfloat16, float16, float32, float64, int8, int16, int32, int64}"
SIGNED_OR_COMPLEX = (
    "{bfloat16, float16, float32, float64, int8, int16, int32, int64, complex64, complex128}"
)


def _conj(x: Any) -> Any:
    return complex_numbers.conj(x)


def _number(value: float, like: Any) -> Tensor:
    """A constant of the type of a tensor."""
    dtype: DType = like.dtype.base_dtype
    return convert_to_tensor(value, dtype)


def on_values(x: Any, function: Any, spoiled_name: str | None = None) -> Any:
    """Applies a function that keeps zeros to a tensor, or to the values of a SparseTensor.

    Args:
      x: A tensor or SparseTensor.
      function: What to apply.
      spoiled_name: A name that is used up first for a SparseTensor: TensorFlow tries an ordinary
        tensor before it, so its node is ``Abs_1``.
    """
    if isinstance(x, SparseTensor):
        if spoiled_name is not None:
            get_default_graph().unique_name(spoiled_name)
        return SparseTensor(x.indices, function(x.values), x.dense_shape)
    return function(x)


# -- Sign and size -----------------------------------------------------------------------


@op(f"Abs(x: T) -> y: T where T: {SIGNED}", shape=unchanged)
def Abs(x: Any, *, xp: Any) -> Any:
    return xp.abs(x)


@Abs.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad * Sign(op.inputs[0])


@dispatched
def abs(x: Any, name: str | None = None) -> Any:
    """The absolute value; for complex numbers their modulus, a real tensor."""
    if isinstance(x, SparseTensor):
        return on_values(x, lambda values: _abs(values, name), name or "Abs")
    with name_scope(name, "Abs", [x]) as scope:
        return _abs(x, scope)


def _abs(x: Any, name: str | None) -> Tensor:
    tensor = convert_to_tensor(x, name="x")
    if tensor.dtype.is_complex:
        return complex_numbers.modulus(tensor, name)
    return Abs(tensor, name=name)


def complex_abs(x: Any, name: str | None = None) -> Any:
    """The old name of `abs` for complex numbers."""
    return abs(x, name=name)


@op(f"Neg(x: T) -> y: T where T: {SIGNED_OR_COMPLEX}", shape=unchanged)
def Neg(x: Any, *, xp: Any) -> Any:
    return xp.negative(x)


@Neg.gradient
def _(op: Operation, grad: Any) -> Any:
    return -grad


@dispatched
def negative(x: Any, name: str | None = None) -> Any:
    """-x."""
    if isinstance(x, IndexedSlices):
        return -x
    return on_values(x, lambda values: Neg(values, name=name), name or "Neg")


neg = negative


@op(f"Sign(x: T) -> y: T where T: {SIGNED_OR_COMPLEX}", shape=unchanged)
def Sign(x: Any, *, xp: Any) -> Any:
    return xp.sign(x)


@Sign.gradient
def _(op: Operation, grad: Any) -> Any:
    return array_fill.zeros_like(op.inputs[0])


@dispatched
def sign(x: Any, name: str | None = None) -> Any:
    """-1, 0 or 1; for complex numbers x / |x|."""
    x = x if isinstance(x, SparseTensor) else convert_to_tensor(x, name="x")
    if x.dtype.is_complex and isinstance(x, Tensor):
        size = cast.cast(complex_numbers.modulus(x), x.dtype.base_dtype)
        return arithmetic.DivNoNan(x, size, name=name)
    return on_values(x, lambda values: Sign(values, name=name))


# -- Reciprocals, squares and roots ------------------------------------------------------


def _one_over(x: Any, xp: Any) -> Any:
    if x.dtype.kind in "iu":
        # Integer division: only 1 and -1 have a reciprocal that is not 0.
        return xp.where(xp.abs(x) == 1, x, xp.zeros_like(x))
    return xp.reciprocal(x)


@op(f"Reciprocal(x: T) -> y: T where T: {SIGNED_OR_COMPLEX}", shape=unchanged)
def Reciprocal(x: Any, *, xp: Any) -> Any:
    return _one_over(x, xp)


@op(f"Inv(x: T) -> y: T where T: {SIGNED_OR_COMPLEX}", shape=unchanged)
def Inv(x: Any, *, xp: Any) -> Any:
    return _one_over(x, xp)


@op(f"ReciprocalGrad(y: T, dy: T) -> z: T where T: {INEXACT}", shape=merged)
def ReciprocalGrad(y: Any, dy: Any, *, xp: Any) -> Any:
    return -dy * xp.square(xp.conj(y))


@op(f"InvGrad(y: T, dy: T) -> z: T where T: {INEXACT}", shape=merged)
def InvGrad(y: Any, dy: Any, *, xp: Any) -> Any:
    return -dy * xp.square(xp.conj(y))


@Reciprocal.gradient
@Inv.gradient
def _(op: Operation, grad: Any) -> Any:
    return ReciprocalGrad(op.outputs[0], grad)


@ReciprocalGrad.gradient
@InvGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    y, dy = _conj(op.inputs[0]), op.inputs[1]
    return _conj(grad) * _number(-2.0, y) * dy * y, ReciprocalGrad(y, grad)


@dispatched
def reciprocal(x: Any, name: str | None = None) -> Tensor:
    """1 / x."""
    return Reciprocal(x, name=name)


def inv(x: Any, name: str | None = None) -> Tensor:
    """The old name of `reciprocal`."""
    return Inv(x, name=name)


@op(
    "Square(x: T) -> y: T where T: {bfloat16, float16, float32, float64, int8, int16, int32, "
    "int64, uint8, uint16, uint32, uint64, complex64, complex128}",
    shape=unchanged,
)
def Square(x: Any, *, xp: Any) -> Any:
    return xp.multiply(x, x)


@Square.gradient
def _(op: Operation, grad: Any) -> Any:
    x = _conj(op.inputs[0])
    return grad * (x * _number(2.0, x))


@dispatched
def square(x: Any, name: str | None = None) -> Any:
    """x * x."""
    return on_values(x, lambda values: Square(values, name=name), name or "Square")


@op(f"Sqrt(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Sqrt(x: Any, *, xp: Any) -> Any:
    return xp.sqrt(x)


@op(f"SqrtGrad(y: T, dy: T) -> z: T where T: {INEXACT}", shape=merged)
def SqrtGrad(y: Any, dy: Any, *, xp: Any) -> Any:
    return dy * xp.asarray(0.5, y.dtype) / xp.conj(y)


@Sqrt.gradient
def _(op: Operation, grad: Any) -> Any:
    return SqrtGrad(op.outputs[0], grad)


@SqrtGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    scaled = grad / op.inputs[0]
    return -_conj(scaled) * op.outputs[0], scaled * _number(0.5, scaled)


@dispatched
def sqrt(x: Any, name: str | None = None) -> Any:
    """The square root."""
    return on_values(x, lambda values: Sqrt(values, name=name), name or "Sqrt")


@op(f"Rsqrt(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Rsqrt(x: Any, *, xp: Any) -> Any:
    return lax.rsqrt(x) if xp is jnp else xp.reciprocal(xp.sqrt(x))


@op(f"RsqrtGrad(y: T, dy: T) -> z: T where T: {INEXACT}", shape=merged)
def RsqrtGrad(y: Any, dy: Any, *, xp: Any) -> Any:
    y = xp.conj(y)
    return xp.asarray(-0.5, y.dtype) * (dy * y) * (y * y)


@Rsqrt.gradient
def _(op: Operation, grad: Any) -> Any:
    return RsqrtGrad(op.outputs[0], grad)


@RsqrtGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    y, dy = _conj(op.inputs[0]), op.inputs[1]
    return _conj(grad) * _number(-1.5, y) * dy * Square(y), RsqrtGrad(y, grad)


@dispatched
def rsqrt(x: Any, name: str | None = None) -> Tensor:
    """1 / sqrt(x)."""
    return Rsqrt(x, name=name)


# -- Exponentials and logarithms ---------------------------------------------------------


@op(f"Exp(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Exp(x: Any, *, xp: Any) -> Any:
    return xp.exp(x)


@Exp.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad * _conj(op.outputs[0])


@dispatched
def exp(x: Any, name: str | None = None) -> Tensor:
    """e to the power of x."""
    return Exp(x, name=name)


@op(f"Expm1(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Expm1(x: Any, *, xp: Any) -> Any:
    return xp.expm1(x)


@Expm1.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad * Exp(_conj(op.inputs[0]))


@dispatched
def expm1(x: Any, name: str | None = None) -> Tensor:
    """exp(x) - 1, precise near 0."""
    return Expm1(x, name=name)


@op(f"Log(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Log(x: Any, *, xp: Any) -> Any:
    return xp.log(x)


@Log.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad * Reciprocal(_conj(op.inputs[0]))


@dispatched
def log(x: Any, name: str | None = None) -> Tensor:
    """The natural logarithm."""
    return Log(x, name=name)


@op(f"Log1p(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Log1p(x: Any, *, xp: Any) -> Any:
    return xp.log1p(x)


@Log1p.gradient
def _(op: Operation, grad: Any) -> Any:
    x = _conj(op.inputs[0])
    return grad * Reciprocal(_number(1.0, x) + x)


@dispatched
def log1p(x: Any, name: str | None = None) -> Tensor:
    """log(1 + x), precise near 0."""
    return Log1p(x, name=name)


@op(f"Sigmoid(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Sigmoid(x: Any, *, xp: Any) -> Any:
    if xp is jnp:
        return lax.logistic(x)
    one = xp.asarray(1, x.dtype)
    return one / (one + xp.exp(-x))


@Sigmoid.on_host
def _(node: Any, known: Any) -> Any:
    def sigmoid(x: Any) -> Any:
        if not x.ndim:
            return Sigmoid.kernel(x, xp=np)
        result = np.negative(x)
        np.exp(result, result)
        result += 1
        return np.reciprocal(result, result)

    return sigmoid


@op(f"SigmoidGrad(y: T, dy: T) -> z: T where T: {INEXACT}", shape=merged)
def SigmoidGrad(y: Any, dy: Any, *, xp: Any) -> Any:
    return dy * y * (xp.asarray(1, y.dtype) - y)


@SigmoidGrad.on_host
def _(node: Any, known: Any) -> Any:
    def sigmoid_grad(y: Any, dy: Any) -> Any:
        rest = 1 - y
        rest *= dy * y
        return rest

    return sigmoid_grad


@Sigmoid.gradient
def _(op: Operation, grad: Any) -> Any:
    return SigmoidGrad(_conj(op.outputs[0]), grad)


@SigmoidGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    y, dy = _conj(op.inputs[0]), _conj(op.inputs[1])
    part = grad * dy
    return part - _number(2.0, y) * part * y, SigmoidGrad(y, grad)


@dispatched
def sigmoid(x: Any, name: str | None = None) -> Tensor:
    """1 / (1 + exp(-x))."""
    return Sigmoid(x, name=name)


def log_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """log(sigmoid(x)), computed without overflow."""
    with name_scope(name, "LogSigmoid", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        return Neg(activation.softplus(Neg(x)), name=scope)


# -- Angles ------------------------------------------------------------------------------


@op(f"Sin(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Sin(x: Any, *, xp: Any) -> Any:
    return xp.sin(x)


@Sin.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad * Cos(_conj(op.inputs[0]))


@dispatched
def sin(x: Any, name: str | None = None) -> Tensor:
    """The sine."""
    return Sin(x, name=name)


@op(f"Cos(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Cos(x: Any, *, xp: Any) -> Any:
    return xp.cos(x)


@Cos.gradient
def _(op: Operation, grad: Any) -> Any:
    return -grad * Sin(_conj(op.inputs[0]))


@dispatched
def cos(x: Any, name: str | None = None) -> Tensor:
    """The cosine."""
    return Cos(x, name=name)


@op(f"Tan(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Tan(x: Any, *, xp: Any) -> Any:
    return xp.tan(x)


@Tan.gradient
def _(op: Operation, grad: Any) -> Any:
    return Square(Reciprocal(Cos(_conj(op.inputs[0])))) * grad


@dispatched
def tan(x: Any, name: str | None = None) -> Tensor:
    """The tangent."""
    return Tan(x, name=name)


@op(f"Asin(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Asin(x: Any, *, xp: Any) -> Any:
    return xp.arcsin(x)


def _cosine_of_arcsine(x: Any) -> Any:
    """sqrt(1 - x*x)."""
    return Sqrt(_number(1.0, x) - Square(x))


@Asin.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad * Reciprocal(_cosine_of_arcsine(_conj(op.inputs[0])))


@dispatched
def asin(x: Any, name: str | None = None) -> Tensor:
    """The inverse sine."""
    return Asin(x, name=name)


@op(f"Acos(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Acos(x: Any, *, xp: Any) -> Any:
    return xp.arccos(x)


@Acos.gradient
def _(op: Operation, grad: Any) -> Any:
    return -grad * Reciprocal(_cosine_of_arcsine(_conj(op.inputs[0])))


@dispatched
def acos(x: Any, name: str | None = None) -> Tensor:
    """The inverse cosine."""
    return Acos(x, name=name)


@op(f"Atan(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Atan(x: Any, *, xp: Any) -> Any:
    return xp.arctan(x)


@Atan.gradient
def _(op: Operation, grad: Any) -> Any:
    x = _conj(op.inputs[0])
    return grad * Reciprocal(_number(1.0, x) + Square(x))


@dispatched
def atan(x: Any, name: str | None = None) -> Tensor:
    """The inverse tangent."""
    return Atan(x, name=name)


# -- Hyperbolic functions ----------------------------------------------------------------


@op(f"Sinh(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Sinh(x: Any, *, xp: Any) -> Any:
    return xp.sinh(x)


@Sinh.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad * Cosh(_conj(op.inputs[0]))


@dispatched
def sinh(x: Any, name: str | None = None) -> Tensor:
    """The hyperbolic sine."""
    return Sinh(x, name=name)


@op(f"Cosh(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Cosh(x: Any, *, xp: Any) -> Any:
    return xp.cosh(x)


@Cosh.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad * Sinh(_conj(op.inputs[0]))


@dispatched
def cosh(x: Any, name: str | None = None) -> Tensor:
    """The hyperbolic cosine."""
    return Cosh(x, name=name)


@op(f"Tanh(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Tanh(x: Any, *, xp: Any) -> Any:
    return xp.tanh(x)


@op(f"TanhGrad(y: T, dy: T) -> z: T where T: {INEXACT}", shape=merged)
def TanhGrad(y: Any, dy: Any, *, xp: Any) -> Any:
    return dy * (xp.asarray(1, y.dtype) - y * y)


@TanhGrad.on_host
def _(node: Any, known: Any) -> Any:
    def tanh_grad(y: Any, dy: Any) -> Any:
        rest = 1 - y * y
        rest *= dy
        return rest

    return tanh_grad


@Tanh.gradient
def _(op: Operation, grad: Any) -> Any:
    return TanhGrad(_conj(op.outputs[0]), grad)


@TanhGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    y, dy = _conj(op.inputs[0]), _conj(op.inputs[1])
    return grad * _number(-2.0, y) * dy * y, TanhGrad(y, grad)


@dispatched
def tanh(x: Any, name: str | None = None) -> Any:
    """The hyperbolic tangent."""
    return on_values(x, lambda values: Tanh(values, name=name), name or "Tanh")


@op(f"Asinh(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Asinh(x: Any, *, xp: Any) -> Any:
    return xp.arcsinh(x)


@Asinh.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad / Cosh(_conj(op.outputs[0]))


@dispatched
def asinh(x: Any, name: str | None = None) -> Tensor:
    """The inverse hyperbolic sine."""
    return Asinh(x, name=name)


@op(f"Acosh(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Acosh(x: Any, *, xp: Any) -> Any:
    return xp.arccosh(x)


@Acosh.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad / Sinh(_conj(op.outputs[0]))


@dispatched
def acosh(x: Any, name: str | None = None) -> Tensor:
    """The inverse hyperbolic cosine."""
    return Acosh(x, name=name)


@op(f"Atanh(x: T) -> y: T where T: {INEXACT}", shape=unchanged)
def Atanh(x: Any, *, xp: Any) -> Any:
    return xp.arctanh(x)


@Atanh.gradient
def _(op: Operation, grad: Any) -> Any:
    x = _conj(op.inputs[0])
    return grad * Reciprocal(_number(1.0, x) - Square(x))


@dispatched
def atanh(x: Any, name: str | None = None) -> Tensor:
    """The inverse hyperbolic tangent."""
    return Atanh(x, name=name)


# -- Rounding and tests ------------------------------------------------------------------


@op(f"Floor(x: T) -> y: T where T: {FLOATS}", shape=unchanged, gradient=NO_GRADIENT)
def Floor(x: Any, *, xp: Any) -> Any:
    return xp.floor(x)


@dispatched
def floor(x: Any, name: str | None = None) -> Tensor:
    """The largest integer that is not greater."""
    return Floor(x, name=name)


@op(f"Ceil(x: T) -> y: T where T: {FLOATS}", shape=unchanged, gradient=NO_GRADIENT)
def Ceil(x: Any, *, xp: Any) -> Any:
    return xp.ceil(x)


@dispatched
def ceil(x: Any, name: str | None = None) -> Tensor:
    """The smallest integer that is not less."""
    return Ceil(x, name=name)


@op(f"Round(x: T) -> y: T where T: {SIGNED_OR_COMPLEX}", shape=unchanged, gradient=NO_GRADIENT)
def Round(x: Any, *, xp: Any) -> Any:
    return x if x.dtype.kind in "iu" else xp.round(x)


@dispatched
def round(x: Any, name: str | None = None) -> Tensor:
    """The nearest integer; halves go to the even one."""
    x = convert_to_tensor(x, name="x")
    if x.dtype.is_integer:
        return x
    return Round(x, name=name)


@op(f"Rint(x: T) -> y: T where T: {FLOATS}", shape=unchanged, gradient=NO_GRADIENT)
def Rint(x: Any, *, xp: Any) -> Any:
    return xp.rint(x)


def rint(x: Any, name: str | None = None) -> Tensor:
    """The nearest integer; halves go to the even one."""
    return Rint(x, name=name)


@op(f"IsNan(x: T) -> y: bool where T: {FLOATS}", shape=unchanged, gradient=NO_GRADIENT)
def IsNan(x: Any, *, xp: Any) -> Any:
    return xp.isnan(x)


@dispatched
def is_nan(x: Any, name: str | None = None) -> Tensor:
    """Which elements are NaN."""
    return IsNan(x, name=name)


@op(f"IsInf(x: T) -> y: bool where T: {FLOATS}", shape=unchanged, gradient=NO_GRADIENT)
def IsInf(x: Any, *, xp: Any) -> Any:
    return xp.isinf(x)


@dispatched
def is_inf(x: Any, name: str | None = None) -> Tensor:
    """Which elements are infinite."""
    return IsInf(x, name=name)


@op(f"IsFinite(x: T) -> y: bool where T: {FLOATS}", shape=unchanged, gradient=NO_GRADIENT)
def IsFinite(x: Any, *, xp: Any) -> Any:
    return xp.isfinite(x)


@dispatched
def is_finite(x: Any, name: str | None = None) -> Tensor:
    """Which elements are neither infinite nor NaN."""
    return IsFinite(x, name=name)


def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """1 / x, and 0 where x is 0."""
    with name_scope(name, "reciprocal_no_nan", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        one = convert_to_tensor(1, x.dtype.base_dtype, name="one")
        return arithmetic.DivNoNan(one, x, name=scope)


Tensor.overload("__neg__", negative)
Tensor.overload("__abs__", abs)
