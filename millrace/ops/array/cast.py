"""Changes of element type: Cast, and the functions named after what they cast to.

A float outside of the range of an integer type is undefined in C++; this module does what
TensorFlow's kernels do on x86: int32 and int64 give their least value, smaller types wrap
around after a cast to int32. XLA alone would saturate, and make 0 of NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.dtypes import DType
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import unchanged
from millrace.graph.slices import IndexedSlices, SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.math import clip, complex_numbers
from millrace.platform import logging

__all__ = [
    "cast", "saturate_cast", "to_bfloat16", "to_complex64", "to_complex128", "to_double",
    "to_float", "to_int32", "to_int64",
]  # fmt: skip

#: The signed integer that a float is cast to on its way to another integer type.
_STOPOVER = {
    **dict.fromkeys(("int8", "uint8", "int16", "uint16", "int32"), np.int32),
    **dict.fromkeys(("uint32", "int64", "uint64"), np.int64),
}


def _float_to_integer(x: Any, target: DType, xp: Any) -> Any:
    stopover: Any = _STOPOVER[target.name]
    info = np.iinfo(stopover)
    limit = xp.asarray(-float(info.min), x.dtype)
    fits = (x >= -limit) & (x < limit)
    result = xp.where(fits, x.astype(stopover), info.min).astype(target.as_numpy_dtype)
    if target is dtypes.uint64:
        is_large = (x >= limit) & (x < xp.asarray(2.0**64, x.dtype))
        result = xp.where(is_large, x.astype(np.uint64), result)
    return result


@op(
    "Cast(x: SrcT) -> y: DstT where SrcT: type; DstT: type; Truncate: bool = false",
    shape=unchanged,
)
def Cast(x: Any, *, xp: Any, SrcT: DType, DstT: DType, Truncate: bool) -> Any:
    if "string" in (SrcT.name, DstT.name):
        raise NotImplementedError(f"Cast {SrcT.name} to {DstT.name} is not supported")
    if Truncate and DstT.is_floating and SrcT.is_floating and DstT.size < SrcT.size:
        raise NotImplementedError(
            f"Cast {SrcT.name} to {DstT.name} with Truncate is not supported: it rounds only"
        )
    if SrcT.is_complex and not DstT.is_complex:
        x = xp.not_equal(x, xp.zeros((), x.dtype)) if DstT.is_bool else xp.real(x)
    if DstT.name in _STOPOVER and not (SrcT.is_integer or SrcT.is_bool):
        return _float_to_integer(x, DstT, xp)
    return x.astype(DstT.as_numpy_dtype)


@Cast.gradient
def _(op: Operation, grad: Any) -> Any:
    source, target = op.inputs[0].dtype.base_dtype, grad.dtype.base_dtype
    if all(t.is_floating or t.is_complex for t in (source, target)):
        return cast(grad, source)
    return None


@dispatched
def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """`x` with elements of another type.

    A tensor that has the type already is returned as it is. Complex numbers lose their
    imaginary part when cast to real ones.

    Args:
      x: A tensor, SparseTensor or IndexedSlices.
      dtype: The type wanted.
      name: The node's name.
    """
    wanted = dtypes.as_dtype(dtype).base_dtype
    if isinstance(x, Tensor) and x.dtype == wanted:
        return x
    with name_scope(name, "Cast", [x]) as scope:
        if isinstance(x, SparseTensor):
            return SparseTensor(x.indices, cast(x.values, wanted, name=scope), x.dense_shape)
        if isinstance(x, IndexedSlices):
            values = cast(x.values, wanted, name=scope)
            return IndexedSlices(values, x.indices, x.dense_shape)
        x = convert_to_tensor(x, name="x")
        if x.dtype.is_complex and wanted.is_floating:
            logging.warn(
                f"You are casting an input of type {x.dtype.name} to an incompatible dtype "
                f"{wanted.name}. This will discard the imaginary part and may not be what you "
                "intended."
            )
        if x.dtype.base_dtype == wanted:
            return x
        return Cast(x, DstT=wanted, name=scope)


@dispatched
def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Tensor:
    """`cast`, after clipping to what the new type can hold."""
    with name_scope(name, "saturate_cast", [value]) as scope:
        x = convert_to_tensor(value, name="value")
        target, source = dtypes.as_dtype(dtype).base_dtype, x.dtype.base_dtype
        if source.is_complex and not target.is_complex:
            x = complex_numbers.real(x)
            source = x.dtype.base_dtype
        if not (target.is_complex or target.is_bool or source.is_complex or source.is_bool):
            low, high = _common_range(source, target)
            x = clip.ClipByValue(
                x, convert_to_tensor(low, source), convert_to_tensor(high, source), name="clamp"
            )
        return cast(x, target, name=scope)


def _common_range(source: DType, target: DType) -> tuple[Any, Any]:
    """The least and the greatest value of `source` that `target` can hold too."""
    low, high = max(source.min, target.min), min(source.max, target.max)
    kind = source.as_numpy_dtype
    if source.is_floating and target.is_integer:
        # The bound as a float may round to a number that the integer type does not have.
        if float(kind(high)) > int(target.max):
            high = np.nextafter(kind(high), kind(0), dtype=kind)
        if float(kind(low)) < int(target.min):
            low = np.nextafter(kind(low), kind(0), dtype=kind)
    return kind(low), kind(high)


@dispatched
def to_float(x: Any, name: str = "ToFloat") -> Any:
    """Casts to float32."""
    return cast(x, dtypes.float32, name=name)


@dispatched
def to_double(x: Any, name: str = "ToDouble") -> Any:
    """Casts to float64."""
    return cast(x, dtypes.float64, name=name)


@dispatched
def to_int32(x: Any, name: str = "ToInt32") -> Any:
    """Casts to int32."""
    return cast(x, dtypes.int32, name=name)


@dispatched
def to_int64(x: Any, name: str = "ToInt64") -> Any:
    """Casts to int64."""
    return cast(x, dtypes.int64, name=name)


def to_bfloat16(x: Any, name: str = "ToBFloat16") -> Any:
    """Casts to bfloat16."""
    return cast(x, dtypes.bfloat16, name=name)


def to_complex64(x: Any, name: str = "ToComplex64") -> Any:
    """Casts to complex64."""
    return cast(x, dtypes.complex64, name=name)


def to_complex128(x: Any, name: str = "ToComplex128") -> Any:
    """Casts to complex128."""
    return cast(x, dtypes.complex128, name=name)
