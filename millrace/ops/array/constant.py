"""Constants and placeholders, and what turns Python values into tensors.

The lowest of the op modules: it must not need another one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core import dtypes, errors
from millrace.core.convert import to_ndarray
from millrace.core.tensor_shape import Dimension, TensorShape, as_shape
from millrace.graph.convert import register_tensor_conversion_function
from millrace.graph.defaults import get_default_graph
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, from_attr
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor

__all__ = ["constant", "placeholder", "placeholder_with_default", "sparse_placeholder"]


def _const_shape(c: ShapeContext) -> TensorShape:
    return TensorShape(c.attr("value").shape)


@op(
    "Const() -> output: dtype where value: tensor; dtype: type",
    shape=_const_shape,
    gradient=NO_GRADIENT,
)
def Const(*, value: Any, xp: Any) -> Any:
    """A value that is part of the graph."""
    return value


def constant(
    value: Any,
    dtype: Any = None,
    shape: Any = None,
    name: str = "Const",
    verify_shape: bool = False,
) -> Tensor:
    """A constant tensor.

    Args:
      value: A Python value or NumPy array.
      dtype: Its type; told from the value when None.
      shape: Its shape; a single value or a shorter list is extended with its last entry.
      name: The node's name.
      verify_shape: Whether `shape` must be that of the value.
    """
    array = to_ndarray(value, dtype, None if verify_shape else _sizes(shape), compact=True)
    if verify_shape and shape is not None and array.shape != _sizes(shape):
        raise TypeError(f"Expected Tensor's shape: {_sizes(shape)}, got {array.shape}.")
    kind = dtypes.as_dtype(dtype).base_dtype if dtype is not None else dtypes.as_dtype(array.dtype)
    graph = get_default_graph()
    node = graph.create_op("Const", [], name=name, attrs={"value": array, "dtype": kind})
    return node.outputs[0]


def _sizes(shape: Any) -> tuple[int, ...] | None:
    if shape is None:
        return None
    wanted = as_shape(shape)
    wanted.assert_is_fully_defined()
    return tuple(size for size in wanted.as_list() if size is not None)


@op(
    "Placeholder() -> output: dtype where dtype: type; shape: shape = ?",
    shape=from_attr("shape"),
    gradient=NO_GRADIENT,
    host=True,
)
def Placeholder(*, dtype: Any, shape: Any, node: Any) -> Any:
    """A value that must be fed."""
    raise errors.InvalidArgumentError(
        None,
        node.source,
        f"You must feed a value for placeholder tensor '{node.name}' with dtype {dtype.name}"
        + (f" and shape {shape}" if shape.ndims is not None else ""),
    )


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """A tensor whose value must be fed in every `Session.run` that needs it."""
    result: Tensor = Placeholder(dtype=dtype, shape=as_shape(shape), name=name)
    return result


@op(
    "PlaceholderV2() -> output: dtype where dtype: type; shape: shape",
    shape=from_attr("shape"),
    gradient=NO_GRADIENT,
    host=True,
)
def PlaceholderV2(*, dtype: Any, shape: Any, node: Any) -> Any:
    """A value that must be fed; the form of a few old graphs."""
    return Placeholder.kernel(dtype=dtype, shape=shape, node=node)


def _default_shape(c: ShapeContext) -> TensorShape:
    stated = as_shape(c.attr("shape"))
    c.shape(0).merge_with(stated)
    # A feed need not have the shape of the default, so that shape says nothing.
    return stated


# Not dual: a feed may replace the value, so it must never fold into a static shape.
@op(
    "PlaceholderWithDefault(input: dtype) -> output: dtype where dtype: type; shape: shape",
    shape=_default_shape,
)
def PlaceholderWithDefault(input: Any) -> Any:
    """The default, where nothing is fed."""
    return input


@PlaceholderWithDefault.gradient
def _(op: Operation, grad: Tensor) -> Any:
    return grad


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """A tensor whose value may be fed; `input` where it is not."""
    result: Tensor = PlaceholderWithDefault(input, shape=as_shape(shape), name=name)
    return result


def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """A SparseTensor whose parts must be fed (the shape only where `shape` does not say it).

    Args:
      dtype: The type of the values.
      shape: The dense shape: known, partly known, or a tensor.
      name: Prefix of the placeholders' names.
    """

    def part(which: str) -> str | None:
        return None if name is None else f"{name}/{which}"

    static: Any = None
    if shape is None:
        rank = None
        dense_shape = placeholder(dtypes.int64, [None], part("shape"))
    else:
        if isinstance(shape, Tensor):
            default = shape
            rank = shape.shape.sizes[0] if shape.shape.sizes else None
        else:
            static = as_shape(shape)
            rank = static.ndims
            sizes = [-1 if size is None else size for size in static.as_list()]
            default = constant(sizes, dtypes.int64, name=part("shape_default") or "shape_default")
        dense_shape = placeholder_with_default(default, default.shape, part("shape"))
    values = placeholder(dtype, [None], part("values"))
    indices = placeholder(dtypes.int64, [None, rank], part("indices"))
    result = SparseTensor(indices, values, dense_shape)
    if static is not None:
        result._static_shape = static
    return result


def _constant_from(
    value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False
) -> Any:
    return constant(value, dtype, name=name or "Const")


def _shape_from(
    value: TensorShape, dtype: Any = None, name: str | None = None, as_ref: bool = False
) -> Any:
    if not value.is_fully_defined():
        raise ValueError(f"Cannot convert a partially known TensorShape to a Tensor: {value}")
    sizes = [size for size in value.as_list() if size is not None]
    kind = dtypes.as_dtype(dtype) if dtype is not None else dtypes.int32
    if kind not in (dtypes.int32, dtypes.int64):
        raise TypeError(f"Cannot convert a TensorShape to dtype: {kind.name}")
    if dtype is None and any(size >= 1 << 31 for size in sizes):
        kind = dtypes.int64
    return constant(sizes, kind, name=name or "shape_as_tensor")


def _dimension_from(
    value: Dimension, dtype: Any = None, name: str | None = None, as_ref: bool = False
) -> Any:
    if value.value is None:
        raise ValueError(f"Cannot convert an unknown Dimension to a Tensor: {value}")
    return constant(value.value, dtype or dtypes.int32, name=name or "shape_as_tensor")


register_tensor_conversion_function((int, float, bool, complex, str, bytes), _constant_from, 100)
register_tensor_conversion_function((np.ndarray, np.generic), _constant_from, 100)
register_tensor_conversion_function(object, _constant_from, 200)
register_tensor_conversion_function(TensorShape, _shape_from, 90)
register_tensor_conversion_function(Dimension, _dimension_from, 90)
