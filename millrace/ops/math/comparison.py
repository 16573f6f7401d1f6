"""Comparisons, logic and bits: functions of two tensors that give truth values or integers.

None of them has a gradient. `Tensor.__eq__` stays identity, as in TensorFlow 1: tensors are
keys of dictionaries.
"""

from __future__ import annotations

from typing import Any

from millrace.compiler.xla import jnp, lax
from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import (
    ShapeContext,
    broadcast,
    broadcast_shapes,
    merged,
    unchanged,
)
from millrace.graph.tensor import Tensor
from millrace.ops.math.broadcasting import (
    broadcasting,
    can_broadcast,
    overload_pair,
    require_broadcast,
)

__all__ = [
    "approximate_equal", "equal", "greater", "greater_equal", "less", "less_equal", "logical_and",
    "logical_not", "logical_or", "logical_xor", "not_equal",
]  # fmt: skip

_INTEGERS = "{int8, int16, int32, int64, uint8, uint16, uint32, uint64}"


# -- Comparisons -------------------------------------------------------------------------


def _equality_shape(c: ShapeContext) -> TensorShape:
    x, y = c.shape(0), c.shape(1)
    if c.attr("incompatible_shape_error"):
        return broadcast_shapes(x, y)
    # Shapes that do not broadcast give one scalar: that may be told only in the run.
    if not (x.is_fully_defined() and y.is_fully_defined()):
        return unknown_shape()
    try:
        return broadcast_shapes(x, y)
    except ValueError:
        return TensorShape([])


@op(
    "Equal(x: T, y: T) -> z: bool where T: type; incompatible_shape_error: bool = true",
    shape=_equality_shape,
    gradient=NO_GRADIENT,
)
def Equal(x: Any, y: Any, *, xp: Any, incompatible_shape_error: bool) -> Any:
    if not incompatible_shape_error and not can_broadcast(x.shape, y.shape):
        return xp.asarray(False)
    require_broadcast(x.shape, y.shape)
    return xp.equal(x, y)


@op(
    "NotEqual(x: T, y: T) -> z: bool where T: type; incompatible_shape_error: bool = true",
    shape=_equality_shape,
    gradient=NO_GRADIENT,
)
def NotEqual(x: Any, y: Any, *, xp: Any, incompatible_shape_error: bool) -> Any:
    if not incompatible_shape_error and not can_broadcast(x.shape, y.shape):
        return xp.asarray(True)
    require_broadcast(x.shape, y.shape)
    return xp.not_equal(x, y)


@dispatched
def equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x == y, element by element."""
    return Equal(x, y, name=name)


@dispatched
def not_equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x != y, element by element."""
    return NotEqual(x, y, name=name)


@op("Less(x: T, y: T) -> z: bool where T: real", shape=broadcast, gradient=NO_GRADIENT)
@broadcasting
def Less(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.less(x, y)


@dispatched
def less(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x < y, element by element."""
    return Less(x, y, name=name)


@op("LessEqual(x: T, y: T) -> z: bool where T: real", shape=broadcast, gradient=NO_GRADIENT)
@broadcasting
def LessEqual(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.less_equal(x, y)


@dispatched
def less_equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x <= y, element by element."""
    return LessEqual(x, y, name=name)


@op("Greater(x: T, y: T) -> z: bool where T: real", shape=broadcast, gradient=NO_GRADIENT)
@broadcasting
def Greater(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.greater(x, y)


@dispatched
def greater(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x > y, element by element."""
    return Greater(x, y, name=name)


@op("GreaterEqual(x: T, y: T) -> z: bool where T: real", shape=broadcast, gradient=NO_GRADIENT)
@broadcasting
def GreaterEqual(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.greater_equal(x, y)


@dispatched
def greater_equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x >= y, element by element."""
    return GreaterEqual(x, y, name=name)


@op(
    "ApproximateEqual(x: T, y: T) -> z: bool "
    "where T: number; tolerance: float = 9.999999747378752e-06",
    shape=merged,
    gradient=NO_GRADIENT,
)
def ApproximateEqual(x: Any, y: Any, *, xp: Any, tolerance: float) -> Any:
    return xp.less(xp.abs(xp.subtract(x, y)), tolerance)


def approximate_equal(x: Any, y: Any, tolerance: float = 1e-5, name: str | None = None) -> Tensor:
    """|x - y| < tolerance, element by element."""
    return ApproximateEqual(x, y, tolerance=tolerance, name=name)


# -- Logic -------------------------------------------------------------------------------


@op("LogicalNot(x: bool) -> y: bool", shape=unchanged, gradient=NO_GRADIENT)
def LogicalNot(x: Any, *, xp: Any) -> Any:
    return xp.logical_not(x)


@dispatched
def logical_not(x: Any, name: str | None = None) -> Tensor:
    """not x."""
    return LogicalNot(x, name=name)


@op("LogicalAnd(x: bool, y: bool) -> z: bool", shape=broadcast, gradient=NO_GRADIENT)
@broadcasting
def LogicalAnd(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.logical_and(x, y)


@dispatched
def logical_and(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x and y."""
    return LogicalAnd(x, y, name=name)


@op("LogicalOr(x: bool, y: bool) -> z: bool", shape=broadcast, gradient=NO_GRADIENT)
@broadcasting
def LogicalOr(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.logical_or(x, y)


@dispatched
def logical_or(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x or y."""
    return LogicalOr(x, y, name=name)


@dispatched
def logical_xor(x: Any, y: Any, name: str = "LogicalXor") -> Tensor:
    """Whether exactly one of x and y is true."""
    return LogicalAnd(LogicalOr(x, y), LogicalNot(LogicalAnd(x, y)), name=name)


# -- Bits --------------------------------------------------------------------------------


@op(f"BitwiseAnd(x: T, y: T) -> z: T where T: {_INTEGERS}", shape=broadcast, gradient=NO_GRADIENT)
@broadcasting
def BitwiseAnd(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.bitwise_and(x, y)


def bitwise_and(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The bits that are set in both."""
    return BitwiseAnd(x, y, name=name)


@op(f"BitwiseOr(x: T, y: T) -> z: T where T: {_INTEGERS}", shape=broadcast, gradient=NO_GRADIENT)
@broadcasting
def BitwiseOr(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.bitwise_or(x, y)


def bitwise_or(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The bits that are set in one or both."""
    return BitwiseOr(x, y, name=name)


@op(f"BitwiseXor(x: T, y: T) -> z: T where T: {_INTEGERS}", shape=broadcast, gradient=NO_GRADIENT)
@broadcasting
def BitwiseXor(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.bitwise_xor(x, y)


def bitwise_xor(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The bits that are set in one but not in the other."""
    return BitwiseXor(x, y, name=name)


@op(f"Invert(x: T) -> y: T where T: {_INTEGERS}", shape=unchanged, gradient=NO_GRADIENT)
def Invert(x: Any, *, xp: Any) -> Any:
    return xp.invert(x)


def invert(x: Any, name: str | None = None) -> Tensor:
    """Every bit flipped."""
    return Invert(x, name=name)


def _shift_count(x: Any, y: Any, xp: Any) -> Any:
    """Counts outside of the width of the type are undefined in C; TensorFlow clamps them."""
    bits = x.dtype.itemsize * 8
    return xp.clip(y, 0, bits - 1)


@op(f"LeftShift(x: T, y: T) -> z: T where T: {_INTEGERS}", shape=broadcast, gradient=NO_GRADIENT)
@broadcasting
def LeftShift(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.left_shift(x, _shift_count(x, y, xp))


def left_shift(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x with its bits moved up by y places."""
    return LeftShift(x, y, name=name)


@op(f"RightShift(x: T, y: T) -> z: T where T: {_INTEGERS}", shape=broadcast, gradient=NO_GRADIENT)
@broadcasting
def RightShift(x: Any, y: Any, *, xp: Any) -> Any:
    return xp.right_shift(x, _shift_count(x, y, xp))


def right_shift(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x with its bits moved down by y places; the sign stays."""
    return RightShift(x, y, name=name)


@op(
    f"PopulationCount(x: T) -> y: uint8 where T: {_INTEGERS}",
    shape=unchanged,
    gradient=NO_GRADIENT,
)
def PopulationCount(x: Any, *, xp: Any) -> Any:
    if xp is jnp:
        return lax.population_count(x)
    # NumPy counts the bits of the absolute value.
    return xp.bitwise_count(x.view(f"u{x.dtype.itemsize}"))


# -- Operators ---------------------------------------------------------------------------


def _and(x: Any, y: Any, name: str) -> Any:
    if convert_to_tensor(x).dtype.base_dtype == dtypes.bool:
        return logical_and(x, y, name)
    return bitwise_and(x, y)


def _or(x: Any, y: Any, name: str) -> Any:
    if convert_to_tensor(x).dtype.base_dtype == dtypes.bool:
        return logical_or(x, y, name)
    return bitwise_or(x, y)


def _xor(x: Any, y: Any, name: str) -> Any:
    if convert_to_tensor(x).dtype.base_dtype == dtypes.bool:
        return logical_xor(x, y, name)
    return bitwise_xor(x, y)


def _invert(x: Any) -> Any:
    return (logical_not if x.dtype.base_dtype == dtypes.bool else invert)(x)


overload_pair("and", _and, "and")
overload_pair("or", _or, "or")
overload_pair("xor", _xor, "xor")
Tensor.overload("__invert__", _invert)
Tensor.overload("__lt__", less)
Tensor.overload("__le__", less_equal)
Tensor.overload("__gt__", greater)
Tensor.overload("__ge__", greater_equal)
