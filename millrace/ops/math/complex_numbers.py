"""Complex numbers: putting them together, and taking them apart.

The public functions accept real tensors too and then add no node where none is needed
(`conj` and `real` of a real tensor are the tensor).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.xla import jnp, lax
from millrace.core import dtypes
from millrace.core.dtypes import DType
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import broadcast, unchanged
from millrace.graph.tensor import Tensor
from millrace.ops.array import fill as array_fill
from millrace.ops.array import select as array_select
from millrace.ops.math import arithmetic, elementwise
from millrace.ops.math.broadcasting import broadcasting, sum_to_inputs

__all__ = ["angle", "complex", "conj", "imag", "real"]

#: T and Tout of the ops that turn complex numbers into real ones.
_TO_REAL = "T: {complex64, complex128} = complex64; Tout: {float32, float64} = float32"


def _with_zero_imaginary_part(x: Any) -> Any:
    return complex(x, convert_to_tensor(0, x.dtype.base_dtype))


@op(
    "Complex(real: T, imag: T) -> out: Tout "
    "where T: {float32, float64} = float32; Tout: {complex64, complex128} = complex64",
    shape=broadcast,
)
@broadcasting
def Complex(real: Any, imag: Any, *, xp: Any) -> Any:
    if xp is jnp:
        return lax.complex(*jnp.broadcast_arrays(real, imag))
    # Adding real + 1j * imag would turn an infinite part into NaN.
    kind = np.complex128 if np.asarray(real).dtype == np.float64 else np.complex64
    result = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), kind)
    result.real, result.imag = real, imag
    return result


@Complex.gradient
def _(op: Operation, grad: Any) -> Any:
    return sum_to_inputs(op.inputs[0], op.inputs[1], real(grad), imag(grad))


@dispatched
def complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    """real + 1j * imag, of complex64 or complex128 after the type of the parts."""
    real = convert_to_tensor(real, name="real")
    imag = convert_to_tensor(imag, name="imag")
    with name_scope(name, "Complex", [real, imag]) as scope:
        types = real.dtype.base_dtype, imag.dtype.base_dtype
        if types == (dtypes.float64, dtypes.float64):
            return Complex(real, imag, Tout=dtypes.complex128, name=scope)
        if types == (dtypes.float32, dtypes.float32):
            return Complex(real, imag, Tout=dtypes.complex64, name=scope)
        raise TypeError(
            f"The `real` and `imag` components have incorrect types: {types[0].name} "
            f"{types[1].name}. They must be consistent, and one of "
            f"{[dtypes.float32, dtypes.float64]}"
        )


def _real_type(x: Tensor) -> DType:
    return x.dtype.base_dtype.real_dtype


@op(f"ComplexAbs(x: T) -> y: Tout where {_TO_REAL}", shape=unchanged)
def ComplexAbs(x: Any, *, xp: Any) -> Any:
    return xp.abs(x)


@ComplexAbs.gradient
def _(op: Operation, grad: Any) -> Any:
    size = _with_zero_imaginary_part(op.outputs[0])
    return arithmetic.div_no_nan(_with_zero_imaginary_part(grad) * op.inputs[0], size)


def modulus(x: Tensor, name: str | None = None) -> Tensor:
    """|x| of a complex tensor."""
    return ComplexAbs(x, Tout=_real_type(x), name=name)


@op(f"Real(input: T) -> output: Tout where {_TO_REAL}", shape=unchanged)
def Real(input: Any, *, xp: Any) -> Any:
    return xp.real(input)


@Real.gradient
def _(op: Operation, grad: Any) -> Any:
    return _with_zero_imaginary_part(grad)


@dispatched
def real(input: Any, name: str | None = None) -> Tensor:
    """The real part; of a real tensor, the tensor itself."""
    with name_scope(name, "Real", [input]) as scope:
        x = convert_to_tensor(input, name="input")
        if not x.dtype.is_complex:
            return x
        return Real(x, Tout=_real_type(x), name=scope)


@op(f"Imag(input: T) -> output: Tout where {_TO_REAL}", shape=unchanged)
def Imag(input: Any, *, xp: Any) -> Any:
    return xp.imag(input)


@Imag.gradient
def _(op: Operation, grad: Any) -> Any:
    return complex(convert_to_tensor(0, grad.dtype.base_dtype), grad)


@dispatched
def imag(input: Any, name: str | None = None) -> Tensor:
    """The imaginary part; of a real tensor, zeros."""
    with name_scope(name, "Imag", [input]) as scope:
        x = convert_to_tensor(input, name="input")
        if not x.dtype.is_complex:
            return array_fill.zeros_like(x)
        return Imag(x, Tout=_real_type(x), name=scope)


@op(f"Angle(input: T) -> output: Tout where {_TO_REAL}", shape=unchanged)
def Angle(input: Any, *, xp: Any) -> Any:
    return xp.angle(input)


@Angle.gradient
def _(op: Operation, grad: Any) -> Any:
    x = op.inputs[0]
    turned = elementwise.reciprocal(complex(imag(x), real(x)))
    return -_with_zero_imaginary_part(grad) * turned


@dispatched
def angle(input: Any, name: str | None = None) -> Tensor:
    """The argument of complex numbers; of real ones, 0 or pi."""
    with name_scope(name, "Angle", [input]) as scope:
        x = convert_to_tensor(input, name="input")
        if x.dtype.is_complex:
            return Angle(x, Tout=_real_type(x), name=scope)
        is_negative = x < convert_to_tensor(0, x.dtype.base_dtype)
        return array_select.where(
            is_negative, np.pi * array_fill.ones_like(x), array_fill.zeros_like(x)
        )


@op(
    "Conj(input: T) -> output: T where T: {complex64, complex128, variant} = complex64",
    shape=unchanged,
)
def Conj(input: Any, *, xp: Any) -> Any:
    return xp.conj(input)


@Conj.gradient
def _(op: Operation, grad: Any) -> Any:
    return conj(grad)


@dispatched
def conj(x: Any, name: str | None = None) -> Tensor:
    """The complex conjugate; of a real tensor, the tensor itself."""
    if isinstance(x, Tensor) and (x.dtype.is_floating or x.dtype.is_integer):
        return x
    with name_scope(name, "Conj", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        if x.dtype.is_complex or x.dtype == dtypes.variant:
            return Conj(x, name=scope)
        if x.dtype.is_floating or x.dtype.is_integer:
            return x
        raise TypeError(f"Expected numeric or variant tensor, got dtype {x.dtype!r}")
