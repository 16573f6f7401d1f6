"""Tensors filled with one value: fill, zeros, ones and their relatives."""

from __future__ import annotations

import functools
import math
import numbers
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, unchanged
from millrace.graph.tensor import Tensor
from millrace.ops.array import shape as array_shape
from millrace.ops.array.constant import constant
from millrace.ops.array.rules import require_rank, zero_of
from millrace.ops.math import reduction

__all__ = ["fill", "ones", "ones_like", "zeros", "zeros_like"]

#: Larger fills are a Fill node, not a constant in the graph.
_MAX_CONSTANT = 1000


def _fill_shape(c: ShapeContext) -> TensorShape:
    require_rank(c.shape("value"), 0)
    require_rank(c.shape("dims"), 1)
    value = c.value("dims")
    if value is not None and (value < 0).any():
        raise ValueError(f"Fill dimensions must be >= 0, but are {value.tolist()}")
    shape = c.value_as_shape("dims")
    return unknown_shape() if shape.sizes is None else shape


@op(
    "Fill(dims: index_type, value: T) -> output: T where index_type: index = int32",
    shape=_fill_shape,
    static=("dims",),
)
def Fill(dims: Any, value: Any, *, xp: Any) -> Any:
    """A tensor of the given shape, filled with a scalar."""
    if dims.ndim != 1:
        raise ValueError(f"dims must represent a vector, got shape {list(dims.shape)}")
    if value.ndim:
        raise ValueError(f"value must represent a scalar, got shape {list(value.shape)}")
    sizes = [int(s) for s in np.ravel(dims)]
    if any(s < 0 for s in sizes):
        raise ValueError(f"Fill dimensions must be >= 0, but are {sizes}")
    # On the host a view of one element: a large one must not become a literal of a program.
    return xp.broadcast_to(value, sizes)


@Fill.on_host
def _(node: Any, known: Any) -> Any:
    whole = functools.partial(node.definition.kernel, xp=np)

    def fill(dims: Any, value: Any) -> Any:
        if dims.ndim != 1 or value.ndim or math.prod(dims.tolist()) > array_shape.SMALL_COPY:
            return whole(dims, value)
        result = np.empty(dims.tolist(), value.dtype)
        result[...] = value
        return result

    return fill


@Fill.gradient
def _(op: Operation, grad: Any) -> Any:
    return [None, reduction.reduce_sum(grad)]


def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """A tensor of shape `dims`, filled with the scalar `value`."""
    result: Tensor = Fill(dims, value, name=name)
    return result


@op("ZerosLike(x: T) -> y: T", shape=unchanged, gradient=NO_GRADIENT)
def ZerosLike(x: Any, *, xp: Any) -> Any:
    """Zeros in the shape of the input; empty strings for strings."""
    return xp.broadcast_to(np.array(zero_of(x.dtype), x.dtype), x.shape)


@ZerosLike.on_host
def _(node: Any, known: Any) -> Any:
    if node.output_types[0].base_dtype.name in ("string", "variant", "resource"):
        return None
    return lambda x: np.zeros(x.shape, x.dtype)


@op(
    "OnesLike(x: T) -> y: T where T: {bfloat16, float16, float32, float64, int8, uint8, int16, "
    "uint16, int32, uint32, int64, uint64, complex64, complex128, bool}",
    shape=unchanged,
    gradient=NO_GRADIENT,
)
def OnesLike(x: Any, *, xp: Any) -> Any:
    """Ones in the shape of the input."""
    return xp.broadcast_to(np.ones((), x.dtype), x.shape)


@op(
    "Empty(shape: int32) -> output: dtype where dtype: type; init: bool = false",
    shape=lambda c: c.value_as_shape("shape"),
    static=("shape",),
    gradient=NO_GRADIENT,
    stateful=True,
)
def Empty(shape: Any, *, dtype: Any) -> Any:
    """A tensor whose values do not matter: zeros here."""
    kind = object if dtype == dtypes.string else dtype.as_numpy_dtype
    return np.full([int(s) for s in shape], zero_of(kind), kind)


def _zero_or_one(number: int, dtype: DType) -> Any:
    if dtype == dtypes.bool:
        return bool(number)
    if dtype == dtypes.string:
        if number:
            raise TypeError("tf.ones does not make strings")
        return ""
    return number


def _filled(number: int, shape: Any, dtype: Any, name: str | None, default_name: str) -> Tensor:
    """The common part of `zeros` and `ones`: a constant if small and known, else Fill."""
    kind = dtypes.as_dtype(dtype).base_dtype
    value = _zero_or_one(number, kind)
    with name_scope(name, default_name, [shape]) as scope:
        dims = shape
        if not isinstance(shape, Tensor):
            sizes = _static_sizes(shape)
            if sizes is None:
                dims = convert_to_tensor(shape, dtypes.int32)
            else:
                if np.prod(sizes, dtype=np.float64) < _MAX_CONSTANT and not _is_one_size(shape):
                    return constant(value, kind, sizes, name=scope)
                # As a TensorShape: int64 where a size needs it.
                dims = convert_to_tensor(TensorShape(sizes))
        if dims.shape.ndims in (None, 0):
            dims = array_shape.reshape(dims, [-1])
        result: Tensor = Fill(dims, constant(value, kind), name=scope)
        return result


def _is_one_size(shape: Any) -> bool:
    return isinstance(shape, numbers.Integral)


def _static_sizes(shape: Any) -> list[int] | None:
    """The sizes if they are all known numbers; None where tensors are among them."""
    try:
        sizes = TensorShape(shape).sizes
    except (TypeError, ValueError):
        return None
    return None if sizes is None or None in sizes else [int(s) for s in sizes if s is not None]


def zeros(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """A tensor of zeros (False, or empty strings, by type).

    Args:
      shape: A list of sizes, a TensorShape, or an integer tensor.
      dtype: Its type.
      name: Name of the op.
    """
    return _filled(0, shape, dtype, name, "zeros")


def ones(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """A tensor of ones; arguments as in `zeros`."""
    return _filled(1, shape, dtype, name, "ones")


@dispatched
def zeros_like(
    tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True
) -> Tensor:
    """Zeros in the shape of `tensor`.

    Args:
      tensor: The tensor.
      dtype: The type of the zeros; that of `tensor` when None.
      name: Name of the op.
      optimize: Whether a shape that is known becomes a constant.
    """
    with name_scope(name, "zeros_like", [tensor]) as scope:
        source = convert_to_tensor(tensor, name="tensor")
        kind = source.dtype.base_dtype if dtype is None else dtypes.as_dtype(dtype).base_dtype
        if optimize and source.shape.is_fully_defined() and kind != dtypes.variant:
            return zeros(source.shape, kind, name=scope)
        if kind not in (source.dtype.base_dtype, dtypes.variant):
            return zeros(array_shape.shape_of(source, None, None, optimize), kind, name=scope)
        result: Tensor = ZerosLike(source, name=scope)
        return result


@dispatched
def ones_like(
    tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True
) -> Tensor:
    """Ones in the shape of `tensor`; arguments as in `zeros_like`."""
    with name_scope(name, "ones_like", [tensor]) as scope:
        source = convert_to_tensor(tensor, name="tensor")
        kind = source.dtype.base_dtype if dtype is None else dtypes.as_dtype(dtype).base_dtype
        if optimize and source.shape.is_fully_defined():
            with name_scope("Shape"):
                shape = convert_to_tensor(source.shape)
        else:
            shape = array_shape.shape_of(source, None, None, optimize)
        result = ones(shape, kind, name=scope)
        result.set_shape(source.shape)
        return result
