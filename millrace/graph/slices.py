"""Composite values: IndexedSlices (a sparse gradient) and SparseTensor (COO)."""

from __future__ import annotations

from typing import Any, NamedTuple

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, as_shape
from millrace.graph.constant_value import constant_value_as_shape
from millrace.graph.convert import convert_to_tensor, is_tensor_like
from millrace.graph.defaults import name_scope
from millrace.graph.graph import Graph
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor


class IndexedSlicesValue(NamedTuple):
    """What fetching an IndexedSlices gives."""

    values: Any
    indices: Any
    dense_shape: Any


class IndexedSlices:
    """Slices ``values[i]`` of a larger tensor at positions ``indices[i]`` of axis 0.

    Positions may repeat: the slices then add up.
    """

    def __init__(self, values: Tensor, indices: Tensor, dense_shape: Tensor | None = None) -> None:
        self._values = values
        self._indices = indices
        self._dense_shape = dense_shape

    @property
    def values(self) -> Tensor:
        """The slices."""
        return self._values

    @property
    def indices(self) -> Tensor:
        """Where they belong."""
        return self._indices

    @property
    def dense_shape(self) -> Tensor | None:
        """The shape of the whole, if known."""
        return self._dense_shape

    @property
    def shape(self) -> TensorShape:
        """The static shape of the whole, as far as it is known."""
        if self._dense_shape is None:
            return TensorShape(None)
        return constant_value_as_shape(self._dense_shape)

    @property
    def name(self) -> str:
        """The name of the values tensor."""
        return self._values.name

    @property
    def device(self) -> str:
        """The device of the values."""
        return self._values.device

    @property
    def op(self) -> Operation:
        """The operation that makes the values."""
        return self._values.op

    @property
    def dtype(self) -> dtypes.DType:
        """The type of the values."""
        return self._values.dtype

    @property
    def graph(self) -> Graph:
        """The graph that the values belong to."""
        return self._values.graph

    def consumers(self) -> list[Operation]:
        """The operations that read the values."""
        return self._values.consumers()

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def __str__(self) -> str:
        shape = "" if self._dense_shape is None else f", dense_shape={self._dense_shape}"
        return f"IndexedSlices(indices={self._indices}, values={self._values}{shape})"


class SparseTensorValue(NamedTuple):
    """What fetching a SparseTensor gives, and what may be fed for one."""

    indices: Any
    values: Any
    dense_shape: Any


class SparseTensor:
    """A sparse tensor: `values[i]` at coordinates `indices[i]` of a tensor of `dense_shape`."""

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        with name_scope(None, "SparseTensor", [indices, values, dense_shape]):
            self._indices = convert_to_tensor(indices, dtypes.int64, name="indices")
            self._values = convert_to_tensor(values, name="values")
            self._dense_shape = convert_to_tensor(dense_shape, dtypes.int64, name="dense_shape")
        #: What is known of the shape besides the value of `dense_shape` (a placeholder's).
        self._static_shape = TensorShape(None)
        indices_shape = self._indices.shape.with_rank(2)
        values_shape = self._values.shape.with_rank(1)
        dense_shape_shape = self._dense_shape.shape.with_rank(1)
        indices_shape[0].merge_with(values_shape[0])
        indices_shape[1].merge_with(dense_shape_shape[0])

    @classmethod
    def from_value(cls, value: Any) -> SparseTensor:
        """A SparseTensor from a SparseTensorValue (or a SparseTensor, as it is)."""
        if isinstance(value, SparseTensor):
            return value
        if not isinstance(value, SparseTensorValue | tuple):
            raise TypeError(f"Neither a SparseTensor nor SparseTensorValue: {value}.")
        return cls(*value)

    @property
    def indices(self) -> Tensor:
        """Coordinates, int64 [N, rank]."""
        return self._indices

    @property
    def values(self) -> Tensor:
        """Values, [N]."""
        return self._values

    @property
    def dense_shape(self) -> Tensor:
        """Shape of the whole, int64 [rank]."""
        return self._dense_shape

    @property
    def shape(self) -> TensorShape:
        """The static shape, as far as it is known."""
        return constant_value_as_shape(self._dense_shape).merge_with(self._static_shape)

    def set_shape(self, shape: Any) -> None:
        """Merges what is known of the shape with `shape`."""
        self._static_shape = self._static_shape.merge_with(as_shape(shape))

    def get_shape(self) -> TensorShape:
        """The static shape, as far as it is known."""
        return self.shape

    @property
    def dtype(self) -> dtypes.DType:
        """The type of the values."""
        return self._values.dtype

    @property
    def op(self) -> Operation:
        """The operation that makes the values."""
        return self._values.op

    @property
    def name(self) -> str:
        """The name of the values tensor."""
        return self._values.name

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self._values.graph

    def consumers(self) -> list[Operation]:
        """The operations that read the values."""
        return self._values.consumers()

    def eval(self, feed_dict: Any = None, session: Any = None) -> SparseTensorValue:
        """Evaluates in `session` or the default session."""
        indices, values, dense_shape = (
            t.eval(feed_dict, session) for t in (self._indices, self._values, self._dense_shape)
        )
        return SparseTensorValue(indices, values, dense_shape)

    def __str__(self) -> str:
        return (
            f"SparseTensor(indices={self._indices}, values={self._values}, "
            f"dense_shape={self._dense_shape})"
        )


def convert_to_tensor_or_indexed_slices(
    value: Any, dtype: Any = None, name: str | None = None
) -> Any:
    """An IndexedSlices as it is, anything else as a tensor."""
    if isinstance(value, IndexedSlices):
        if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
            raise ValueError(
                f"Tensor conversion requested dtype {dtypes.as_dtype(dtype).name} for Tensor with "
                f"dtype {value.dtype.name}: {str(value)!r}"
            )
        return value
    return convert_to_tensor(value, dtype, name)


def convert_to_tensor_or_sparse_tensor(
    value: Any, dtype: Any = None, name: str | None = None
) -> Any:
    """A SparseTensor (or its value) as it is, anything else as a tensor."""
    if isinstance(value, SparseTensorValue):
        value = SparseTensor.from_value(value)
    if isinstance(value, SparseTensor):
        if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
            raise RuntimeError(
                f"Sparse dtype: requested = {dtypes.as_dtype(dtype).name}, actual = "
                f"{value.dtype.name}"
            )
        return value
    return convert_to_tensor(value, dtype, name)


def is_tensor(x: Any) -> bool:
    """Whether `x` is a tensor, a variable, a SparseTensor or an IndexedSlices."""
    return isinstance(x, SparseTensor | IndexedSlices) or is_tensor_like(x)
