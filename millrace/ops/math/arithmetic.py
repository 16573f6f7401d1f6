"""Functions of two numbers, with broadcasting, and the operators of tensors that mean them.

No type is promoted: both sides must have one type, and a Python value takes the type of the
tensor beside it. Integers wrap; division by an integer zero fails the step. The operators
are attached to `Tensor` at the end of the file, each under TensorFlow's name for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.compiler.xla import jnp, lax
from millrace.core import dtypes
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape, as_shape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import broadcast, merged
from millrace.graph.slices import IndexedSlices, convert_to_tensor_or_indexed_slices
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import identity as array_identity
from millrace.ops.array import select as array_select
from millrace.ops.math import comparison, complex_numbers, elementwise
from millrace.ops.math.broadcasting import broadcasting, overload_pair, shape_text, sum_to_inputs

__all__ = [
    "accumulate_n", "add", "add_n", "atan2", "div", "div_no_nan", "divide", "floor_div",
    "floordiv", "floormod", "maximum", "minimum", "mod", "mul", "multiply", "pow", "realdiv",
    "scalar_mul", "squared_difference", "sub", "subtract", "truediv", "truncatediv",
    "truncatemod",
]  # fmt: skip

_FLOATS = "{bfloat16, float16, float32, float64}"
_DIVIDABLE = (
    "{bfloat16, float16, float32, float64, uint8, int8, uint16, int16, int32, uint32, uint64, "
    "int64, complex64, complex128}"
)
_ORDERED = (
    "{bfloat16, float16, float32, float64, int8, uint8, int16, uint16, int32, uint32, int64, "
    "uint64}"
)
_NO_NAN = "{float16, bfloat16, float32, float64, complex64, complex128}"


def _conj(x: Any) -> Any:
    return complex_numbers.conj(x)


def _is_integer(x: Any) -> bool:
    return x.dtype.kind in "iu"


# -- Sums, differences, products ---------------------------------------------------------


@op(
    "AddV2(x: T, y: T) -> z: T where T: {bfloat16, float16, float32, float64, uint8, uint16, "
    "uint32, uint64, int8, int16, int32, int64, complex64, complex128}",
    shape=broadcast,
)
@broadcasting
def AddV2(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.add(x, y)


@op(
    "Add(x: T, y: T) -> z: T where T: {bfloat16, float16, float32, float64, uint8, int8, int16, "
    "int32, int64, complex64, complex128, string}",
    shape=broadcast,
)
@broadcasting
def Add(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.add(x, y)


@AddV2.gradient
@Add.gradient
def _(op: Operation, grad: Any) -> Any:
    return sum_to_inputs(op.inputs[0], op.inputs[1], grad, grad)


@dispatched
def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x + y; strings are joined."""
    with name_scope(name, "Add", [x, y]) as scope:
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, preferred_dtype=x.dtype.base_dtype, name="y")
        kind = Add if x.dtype.base_dtype == dtypes.string else AddV2
        return kind(x, y, name=scope)


@op(
    "Sub(x: T, y: T) -> z: T where T: {bfloat16, float16, float32, float64, uint8, int8, uint16, "
    "int16, int32, int64, complex64, complex128, uint32, uint64}",
    shape=broadcast,
)
@broadcasting
def Sub(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.subtract(x, y)


@Sub.gradient
def _(op: Operation, grad: Any) -> Any:
    return sum_to_inputs(op.inputs[0], op.inputs[1], grad, -grad)


@dispatched
def subtract(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x - y."""
    return Sub(x, y, name=name)


sub = subtract


@op(
    "Mul(x: T, y: T) -> z: T where T: {bfloat16, float16, float32, float64, uint8, int8, uint16, "
    "int16, int32, uint32, uint64, int64, complex64, complex128}",
    shape=broadcast,
)
@broadcasting
def Mul(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.multiply(x, y)


@Mul.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs
    return sum_to_inputs(x, y, Mul(grad, _conj(y)), Mul(_conj(x), grad))


@dispatched
def multiply(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x * y, element by element."""
    return Mul(x, y, name=name)


mul = multiply


@op(
    "MulNoNan(x: T, y: T) -> z: T where T: {bfloat16, float16, float32, float64, complex64, "
    "complex128}",
    shape=broadcast,
)
@broadcasting
def MulNoNan(x: Any, y: Any, *, xp: Any) -> Any:
    zero = xp.zeros((), y.dtype)
    return xp.where(xp.equal(y, zero), zero, xp.multiply(x, y))


@MulNoNan.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs
    return sum_to_inputs(x, y, MulNoNan(grad, y), MulNoNan(x, grad))


def multiply_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x * y, and 0 where y is 0, even if x is NaN or infinite there."""
    with name_scope(name, "multiply_no_nan", [x, y]) as scope:
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, name="y", dtype=x.dtype.base_dtype)
        return MulNoNan(x, y, name=scope)


@op(
    "SquaredDifference(x: T, y: T) -> z: T where T: {bfloat16, float16, float32, float64, int32, "
    "int64, complex64, complex128}",
    shape=broadcast,
)
@broadcasting
def SquaredDifference(x: Any, y: Any, *, xp: Any) -> Any:
    difference = xp.subtract(x, y)
    return difference * xp.conj(difference)


@SquaredDifference.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs
    part = scalar_mul(2.0, grad) * Sub(x, y)
    return sum_to_inputs(x, y, part, -part)


@dispatched
def squared_difference(x: Any, y: Any, name: str | None = None) -> Tensor:
    """(x - y) * (x - y)."""
    return SquaredDifference(x, y, name=name)


# -- Quotients ---------------------------------------------------------------------------


def _refuse_zero(x: Any, y: Any, xp: Any, check: Any) -> None:
    # Nothing is divided where one side is empty.
    if _is_integer(y) and x.size and y.size:
        if type(y) is np.ndarray and y.all():
            return
        check(xp.not_equal(y, 0), "Integer division by zero")


def _truncated_quotient(x: Any, y: Any, xp: Any) -> Any:
    if not _is_integer(x):
        return xp.trunc(xp.divide(x, y))
    if xp is jnp:
        return lax.div(*jnp.broadcast_arrays(x, y))
    quotient = xp.floor_divide(x, y)
    rounded_down = (quotient * y != x) & ((x < 0) != (y < 0))
    return quotient + rounded_down.astype(quotient.dtype)


@op(f"RealDiv(x: T, y: T) -> z: T where T: {_DIVIDABLE}", shape=broadcast)
@broadcasting
def RealDiv(x: Any, y: Any, *, xp: Any, check: Any) -> Any:
    _refuse_zero(x, y, xp, check)
    return _truncated_quotient(x, y, xp) if _is_integer(x) else xp.divide(x, y)


@op(f"Div(x: T, y: T) -> z: T where T: {_DIVIDABLE}", shape=broadcast)
@broadcasting
def Div(x: Any, y: Any, *, xp: Any, check: Any) -> Any:
    _refuse_zero(x, y, xp, check)
    return _truncated_quotient(x, y, xp) if _is_integer(x) else xp.divide(x, y)


@RealDiv.gradient
@Div.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs
    over = _conj(y)
    grad_y = grad * RealDiv(RealDiv(-_conj(x), over), over)
    return sum_to_inputs(x, y, RealDiv(grad, over), grad_y)


@dispatched
def realdiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y of floating-point or complex numbers."""
    return RealDiv(x, y, name=name)


#: The type in which `truediv` divides; None where it needs no cast.
_QUOTIENT_TYPES: dict[DType, DType | None] = {
    dtypes.uint8: dtypes.float32,
    dtypes.int8: dtypes.float32,
    dtypes.uint16: dtypes.float32,
    dtypes.int16: dtypes.float32,
    dtypes.uint32: dtypes.float64,
    dtypes.int32: dtypes.float64,
    dtypes.uint64: dtypes.float64,
    dtypes.int64: dtypes.float64,
    dtypes.bfloat16: None,
    dtypes.float16: None,
    dtypes.float32: None,
    dtypes.float64: None,
    dtypes.complex64: None,
    dtypes.complex128: None,
}


@dispatched
def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as Python 3 means it: integers are cast to float first.

    int8 to uint16 divide as float32, wider integers as float64.

    Raises:
      TypeError: The types differ, or are no numbers.
    """
    with name_scope(name, "truediv", [x, y]) as scope:
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, preferred_dtype=x.dtype.base_dtype, name="y")
        kind, other = x.dtype.base_dtype, y.dtype.base_dtype
        if kind != other:
            raise TypeError(f"`x` and `y` must have the same dtype, got {kind!r} != {other!r}.")
        if kind not in _QUOTIENT_TYPES:
            known = ", ".join(repr(t) for t in _QUOTIENT_TYPES)
            raise TypeError(f"Invalid dtype {kind!r} in __truediv__. Expected one of {{{known}}}.")
        target = _QUOTIENT_TYPES[kind]
        if target is not None:
            x, y = cast.cast(x, target), cast.cast(y, target)
        return RealDiv(x, y, name=scope)


@dispatched
def divide(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as Python 3 means it; see `truediv`."""
    return truediv(x, y, name=name)


@dispatched
def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as Python 2 means it: integers are divided and rounded down."""
    with name_scope(name, "div", [x, y]) as scope:
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, dtype=x.dtype.base_dtype, name="y")
        inexact = x.dtype.is_floating or x.dtype.is_complex
        return (RealDiv if inexact else FloorDiv)(x, y, name=scope)


@op(f"FloorDiv(x: T, y: T) -> z: T where T: {_DIVIDABLE}", shape=broadcast, gradient=NO_GRADIENT)
@broadcasting
def FloorDiv(x: Any, y: Any, *, xp: Any, check: Any) -> Any:
    _refuse_zero(x, y, xp, check)
    return xp.floor_divide(x, y) if _is_integer(x) else xp.floor(xp.divide(x, y))


@dispatched
def floordiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y rounded down; in the type of x and y."""
    with name_scope(name, "floordiv", [x, y]) as scope:
        return FloorDiv(x, y, name=scope)


@dispatched
def floor_div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y rounded down; in the type of x and y."""
    return FloorDiv(x, y, name=name)


@op(
    f"TruncateDiv(x: T, y: T) -> z: T where T: {_DIVIDABLE}",
    shape=broadcast,
    gradient=NO_GRADIENT,
)
@broadcasting
def TruncateDiv(x: Any, y: Any, *, xp: Any, check: Any) -> Any:
    _refuse_zero(x, y, xp, check)
    return _truncated_quotient(x, y, xp)


@dispatched
def truncatediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y rounded towards 0, as C divides integers."""
    return TruncateDiv(x, y, name=name)


@op(
    "DivNoNan(x: T, y: T) -> z: T where T: {float16, float32, bfloat16, float64, complex64, "
    "complex128}",
    shape=broadcast,
)
@broadcasting
def DivNoNan(x: Any, y: Any, *, xp: Any) -> Any:
    zero = xp.zeros((), y.dtype)
    is_zero = xp.equal(y, zero)
    return xp.where(is_zero, zero, xp.divide(x, xp.where(is_zero, xp.ones((), y.dtype), y)))


@DivNoNan.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs
    over = _conj(y)
    grad_y = grad * DivNoNan(DivNoNan(-_conj(x), over), over)
    return sum_to_inputs(x, y, DivNoNan(grad, over), grad_y)


def div_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y, and 0 where y is 0."""
    with name_scope(name, "div_no_nan", [x, y]) as scope:
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, name="y", dtype=x.dtype.base_dtype)
        return DivNoNan(x, y, name=scope)


# -- Remainders --------------------------------------------------------------------------


@op(
    "FloorMod(x: T, y: T) -> z: T where T: {int8, int16, int32, int64, uint8, uint16, uint32, "
    "uint64, bfloat16, float16, float32, float64}",
    shape=broadcast,
)
@broadcasting
def FloorMod(x: Any, y: Any, *, xp: Any, check: Any) -> Any:
    _refuse_zero(x, y, xp, check)
    if _is_integer(x):
        return xp.remainder(x, y)
    rest = xp.fmod(x, y)
    return xp.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


@FloorMod.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs
    return sum_to_inputs(x, y, grad, grad * elementwise.Neg(FloorDiv(x, y)))


@dispatched
def floormod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The remainder of `floordiv`; it has the sign of y."""
    return FloorMod(x, y, name=name)


mod = floormod


@op(
    "Mod(x: T, y: T) -> z: T where T: {int32, int64, float16, float16, bfloat16, float32, float64}",
    shape=broadcast,
)
@broadcasting
def Mod(x: Any, y: Any, *, xp: Any, check: Any) -> Any:
    """The remainder as C has it, in graphs of old clients."""
    _refuse_zero(x, y, xp, check)
    return xp.fmod(x, y)


@op(
    "TruncateMod(x: T, y: T) -> z: T where T: {int32, int64, bfloat16, float16, float32, float64}",
    shape=broadcast,
)
@broadcasting
def TruncateMod(x: Any, y: Any, *, xp: Any, check: Any) -> Any:
    _refuse_zero(x, y, xp, check)
    return xp.fmod(x, y)


@Mod.gradient
@TruncateMod.gradient
def _(op: Operation, grad: Any) -> Any:
    # TensorFlow defines none: better to say so than to train on with zeros.
    raise LookupError(
        f"No gradient defined for operation '{op.name}' (op type: {op.type}). Use tf.floormod, "
        "whose gradient is defined, or tf.stop_gradient."
    )


@dispatched
def truncatemod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The remainder of `truncatediv`; it has the sign of x."""
    return TruncateMod(x, y, name=name)


# -- Powers, extremes, angles ------------------------------------------------------------


@op(
    "Pow(x: T, y: T) -> z: T where T: {bfloat16, float32, float16, float64, int8, int16, int32, "
    "int64, complex64, complex128}",
    shape=broadcast,
)
@broadcasting
def Pow(x: Any, y: Any, *, xp: Any, check: Any) -> Any:
    if _is_integer(y):
        check(xp.greater_equal(y, 0), "Integers to negative integer powers are not allowed")
        # A negative exponent must not raise before the check is reported.
        y = xp.maximum(y, 0)
    return xp.power(x, y)


@Pow.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs
    base, exponent = _conj(x), _conj(y)
    one, zero = (convert_to_tensor(v, x.dtype.base_dtype) for v in (1, 0))
    grad_x = grad * exponent * Pow(base, Sub(exponent, one))
    # Where the logarithm does not exist the exponent has no influence that could be told.
    has_log = _has_logarithm(base, zero)
    logs = array_select.where(
        has_log,
        elementwise.Log(array_select.where(has_log, base, array_fill.ones_like(x))),
        array_fill.zeros_like(x),
    )
    return sum_to_inputs(x, y, grad_x, grad * _conj(op.outputs[0]) * logs)


def _has_logarithm(base: Any, zero: Tensor) -> Any:
    return comparison.not_equal(base, zero) if base.dtype.is_complex else base > zero


@dispatched
def pow(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x to the power of y."""
    with name_scope(name, "Pow", [x]) as scope:
        return Pow(x, y, name=scope)


@op(f"Maximum(x: T, y: T) -> z: T where T: {_ORDERED}", shape=broadcast)
@broadcasting
def Maximum(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.maximum(x, y)


@op(f"Minimum(x: T, y: T) -> z: T where T: {_ORDERED}", shape=broadcast)
@broadcasting
def Minimum(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.minimum(x, y)


def _gradient_of_choice(op: Operation, grad: Any, chosen: Any) -> Any:
    """The gradient goes to x where `chosen`, to y elsewhere."""
    zero = array_fill.zeros_like(grad)
    return sum_to_inputs(
        op.inputs[0],
        op.inputs[1],
        array_select.where_v2(chosen, grad, zero),
        array_select.where_v2(chosen, zero, grad),
    )


@Maximum.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs
    return _gradient_of_choice(op, grad, x >= y)


@Minimum.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs
    return _gradient_of_choice(op, grad, x <= y)


@dispatched
def maximum(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The greater of x and y; NaN if one of them is NaN."""
    return Maximum(x, y, name=name)


@dispatched
def minimum(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The lesser of x and y; NaN if one of them is NaN."""
    return Minimum(x, y, name=name)


@op(f"Atan2(y: T, x: T) -> z: T where T: {_FLOATS}", shape=broadcast)
@broadcasting
def Atan2(y: Any, x: Any, *, xp: Any) -> Any:
    return xp.arctan2(y, x)


@Atan2.gradient
def _(op: Operation, grad: Any) -> Any:
    y, x = op.inputs
    scaled = grad / AddV2(elementwise.Square(y), elementwise.Square(x))
    return sum_to_inputs(y, x, Mul(x, scaled), Mul(elementwise.Neg(y), scaled))


@dispatched
def atan2(y: Any, x: Any, name: str | None = None) -> Tensor:
    """The angle of the point (x, y)."""
    return Atan2(y, x, name=name)


@op(
    "NextAfter(x1: T, x2: T) -> output: T where T: {float64, float32} = float32",
    shape=broadcast,
)
@broadcasting
def NextAfter(x1: Any, x2: Any, *, xp: Any) -> Any:
    return xp.nextafter(x1, x2)


@NextAfter.gradient
def _(op: Operation, grad: Any) -> Any:
    return sum_to_inputs(op.inputs[0], op.inputs[1], grad, array_fill.zeros_like(grad))


def nextafter(x1: Any, x2: Any, name: str | None = None) -> Tensor:
    """The number after x1 in the direction of x2."""
    return NextAfter(x1, x2, name=name)


# -- Products and quotients that are 0 where x is ----------------------------------------


def _where_x_is_zero(x: Any, otherwise: Any, xp: Any) -> Any:
    zero = xp.zeros((), x.dtype)
    return xp.where(xp.equal(x, zero), zero, otherwise)


@op(f"Xdivy(x: T, y: T) -> z: T where T: {_NO_NAN}", shape=broadcast)
@broadcasting
def Xdivy(x: Any, y: Any, *, xp: Any) -> Any:
    return _where_x_is_zero(x, xp.divide(x, y), xp)


@op(f"Xlogy(x: T, y: T) -> z: T where T: {_NO_NAN}", shape=broadcast)
@broadcasting
def Xlogy(x: Any, y: Any, *, xp: Any) -> Any:
    return _where_x_is_zero(x, xp.multiply(x, xp.log(y)), xp)


@op(f"Xlog1py(x: T, y: T) -> z: T where T: {_NO_NAN}", shape=broadcast)
@broadcasting
def Xlog1py(x: Any, y: Any, *, xp: Any) -> Any:
    return _where_x_is_zero(x, xp.multiply(x, xp.log1p(y)), xp)


def _is_not_zero(x: Tensor) -> Any:
    """1 where x is not 0, else 0; in the type of x."""
    zero = convert_to_tensor(0, x.dtype.base_dtype)
    return cast.cast(comparison.not_equal(x, zero), x.dtype.base_dtype)


@Xdivy.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs
    grad_y = Xdivy(elementwise.Neg(x), elementwise.Square(y)) * grad
    return sum_to_inputs(x, y, Xdivy(_is_not_zero(x), y) * grad, grad_y)


@Xlogy.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs
    return sum_to_inputs(x, y, Xlogy(_is_not_zero(x), y) * grad, Xdivy(x, y) * grad)


@Xlog1py.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs
    one = convert_to_tensor(1, y.dtype.base_dtype)
    grad_y = Xdivy(x, AddV2(y, one)) * grad
    return sum_to_inputs(x, y, Xlog1py(_is_not_zero(x), y) * grad, grad_y)


def xdivy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y, and 0 where x is 0."""
    with name_scope(name, "xdivy", [x]):
        return Xdivy(x, y)


def xlogy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x * log(y), and 0 where x is 0."""
    return Xlogy(x, y, name=name)


def xlog1py(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x * log(1 + y), and 0 where x is 0."""
    with name_scope(name, "xlog1py", [x]):
        return Xlog1py(x, y)


# -- Sums of lists, and a scalar times anything ------------------------------------------


def _add_all(inputs: list[Any], name: str, kind: str) -> Any:
    total = inputs[0]
    for i, item in enumerate(inputs[1:], 1):
        if item.shape != inputs[0].shape:
            raise ValueError(
                f"Inputs to operation {name} of type {kind} must have the same size and shape.  "
                f"Input 0: {shape_text(inputs[0].shape)} != input {i}: {shape_text(item.shape)}"
            )
        total = total + item
    return total


@op(
    "AddN(inputs: N*T) -> sum: T where N: int >= 1; T: {float32, float64, int32, uint8, int16, "
    "int8, complex64, int64, qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, "
    "complex128, float16, uint32, uint64, variant}",
    shape=merged,
)
def AddN(inputs: list[Any], *, xp: Any, node: Any) -> Any:
    return _add_all(inputs, node.name, "AddN")


@AddN.on_host
def _(node: Any, known: Any) -> Any:
    def add_n(inputs: list[Any]) -> Any:
        first = inputs[0]
        if len(inputs) == 1:
            return first
        shape = first.shape
        for value in inputs:
            if value.shape != shape:
                raise ValueError("AddN: the shapes differ")
        total = np.add(first, inputs[1])
        for value in inputs[2:]:
            total += value
        return total

    return add_n


def _accumulated_shape(c: Any) -> TensorShape:
    shape: TensorShape = as_shape(c.attr("shape"))
    return shape


@op(
    "AccumulateNV2(inputs: N*T) -> sum: T where N: int >= 1; T: number; shape: shape",
    shape=_accumulated_shape,
)
def AccumulateNV2(inputs: list[Any], *, xp: Any, node: Any) -> Any:
    return _add_all(inputs, node.name, "AccumulateNV2")


@AddN.gradient
@AccumulateNV2.gradient
def _(op: Operation, grad: Any) -> Any:
    return [grad] * len(op.inputs)


@dispatched
def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """The sum of a list of tensors of one shape.

    Args:
      inputs: Tensors; IndexedSlices among them are made dense.
      name: The node's name.

    Raises:
      ValueError: The list is empty, or shapes differ.
    """
    message = (
        "Inputs must be an iterable of at least one Tensor/IndexedSlices with the same dtype and "
        "shape."
    )
    if isinstance(inputs, Tensor):
        raise ValueError(message)
    items = [convert_to_tensor_or_indexed_slices(item) for item in inputs]
    if not items:
        raise ValueError(message)
    dense = [convert_to_tensor(item) for item in items]
    if len(dense) == 1:
        return array_identity.identity(dense[0], name=name) if name else dense[0]
    return AddN(dense, name=name)


def accumulate_n(
    inputs: Sequence[Any], shape: Any = None, tensor_dtype: Any = None, name: str | None = None
) -> Tensor:
    """The sum of a list of tensors of one shape.

    Args:
      inputs: The tensors.
      shape: The shape that they must have.
      tensor_dtype: The type that they must have.
      name: The node's name.

    Raises:
      ValueError: The list is empty, or shapes or types differ.
    """
    message = "inputs must be a list of at least one Tensor with the same dtype and shape"
    if not isinstance(inputs, list | tuple) or not inputs:
        raise ValueError(message)
    tensors = [convert_to_tensor(item) for item in inputs]
    kind = tensors[0].dtype.base_dtype
    if any(t.dtype.base_dtype != kind for t in tensors):
        raise ValueError(message)
    if tensor_dtype is not None and dtypes.as_dtype(tensor_dtype).base_dtype != kind:
        raise TypeError(
            f"The `tensor_dtype` argument is {tensor_dtype}, but `input` is of type {kind.name}. "
            "These must be equal. Try casting the input to the desired type."
        )
    common = unknown_shape() if shape is None else as_shape(shape)
    for tensor in tensors:
        common = common.merge_with(tensor.shape)
    if len(tensors) == 1:
        return array_identity.identity(tensors[0], name=name) if name else tensors[0]
    return AddN(tensors, name=name)


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """A scalar times a tensor or IndexedSlices (which stays one).

    Raises:
      ValueError: `scalar` is no scalar.
    """
    base = x.dtype.base_dtype if isinstance(getattr(x, "dtype", None), DType) else None
    factor = convert_to_tensor(scalar, dtype=base, name="scalar")
    if factor.shape.ndims not in (None, 0):
        raise ValueError(f"The input scalar must be a 0-D value. Received shape {factor.shape}.")
    if isinstance(x, IndexedSlices):
        return IndexedSlices(Mul(factor, x.values, name=name), x.indices, x.dense_shape)
    return Mul(factor, x, name=name)


# -- Operators ---------------------------------------------------------------------------


for _operator, _function, _name in (
    ("add", add, "add"),
    ("sub", subtract, "sub"),
    ("mul", multiply, "mul"),
    ("div", div, "div"),
    ("truediv", truediv, "truediv"),
    ("floordiv", floordiv, "floordiv"),
    ("mod", floormod, "mod"),
    ("pow", pow, "pow"),
):
    overload_pair(_operator, _function, _name)
