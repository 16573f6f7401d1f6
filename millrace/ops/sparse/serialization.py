"""Sparse tensors as strings: three TensorProto messages each. Host kernels.

A whole SparseTensor is a vector of three strings, a minibatch a matrix with a row an example;
queues of sparse values carry such rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_proto import make_ndarray, make_tensor_proto
from millrace.core.tensor_shape import TensorShape
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.sparse.sparse import as_sparse, unknown_sparse
from millrace.ops.strings.conversion import type_name
from millrace.ops.strings.string_arrays import strings
from millrace.platform import limits

__all__ = ["deserialize_many_sparse", "serialize_many_sparse", "serialize_sparse"]


def _messages(indices: Any, values: Any, shape: Any, kind: dtypes.DType) -> list[bytes]:
    return [
        make_tensor_proto(indices, dtype=dtypes.int64).SerializeToString(),
        make_tensor_proto(values, dtype=kind).SerializeToString(),
        make_tensor_proto(shape, dtype=dtypes.int64).SerializeToString(),
    ]


def _as_variants(indices: Any, values: Any, shape: Any) -> Any:
    """The three arrays as they are: what travels inside one task needs no messages."""
    cells = np.empty(3, object)
    cells[:] = np.asarray(indices), np.asarray(values), np.asarray(shape)
    return cells


def _whole_shape(c: ShapeContext) -> TensorShape:
    return TensorShape([3])


@op(
    "SerializeSparse(sparse_indices: int64, sparse_values: T, sparse_shape: int64) -> "
    "serialized_sparse: out_type where T: type; out_type: {string, variant} = string",
    shape=_whole_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def SerializeSparse(
    sparse_indices: Any, sparse_values: Any, sparse_shape: Any, *, T: Any, out_type: Any
) -> Any:
    """A sparse tensor as three strings, or three variants."""
    if out_type == dtypes.variant:
        return _as_variants(sparse_indices, sparse_values, sparse_shape)
    return strings(_messages(sparse_indices, sparse_values, sparse_shape, T))


def _rows_shape(c: ShapeContext) -> TensorShape:
    return TensorShape([None, 3])


@op(
    "SerializeManySparse(sparse_indices: int64, sparse_values: T, sparse_shape: int64) -> "
    "serialized_sparse: out_type where T: type; out_type: {string, variant} = string",
    shape=_rows_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def SerializeManySparse(
    sparse_indices: Any, sparse_values: Any, sparse_shape: Any, *, T: Any, out_type: Any
) -> Any:
    """The rows of a sparse tensor, each as three strings, or three variants."""
    rank = len(sparse_shape)
    if rank < 2:
        raise ValueError(f"Rank of input SparseTensor should be > 1, but saw rank: {rank}")
    count = int(sparse_shape[0])
    limits.STRING_ELEMENTS.check(3 * count, "Strings of the serialized rows")
    order = np.argsort(sparse_indices[:, 0], kind="stable")
    rows = sparse_indices[order, 0]
    if len(rows) and (rows[0] < 0 or rows[-1] >= count):
        raise ValueError(f"Received unexpected row {rows[-1]} of a minibatch of {count}")
    bounds = np.searchsorted(rows, np.arange(count + 1))
    if out_type == dtypes.variant:
        cells = np.empty((count, 3), object)
        for i in range(count):
            part = order[bounds[i] : bounds[i + 1]]
            cells[i] = _as_variants(sparse_indices[part, 1:], sparse_values[part], sparse_shape[1:])
        return cells
    result: list[bytes] = []
    for i in range(count):
        part = order[bounds[i] : bounds[i + 1]]
        result += _messages(sparse_indices[part, 1:], sparse_values[part], sparse_shape[1:], T)
    return strings(result, (count, 3))


def _parse(cells: Any, kind: dtypes.DType, row: int) -> tuple[Any, Any, Any]:
    if isinstance(cells[0], np.ndarray):
        indices, values, shape = cells
        return indices, values, shape
    messages = []
    for cell in cells:
        message = type(make_tensor_proto(0))()
        try:
            message.ParseFromString(cell)
        except Exception:
            raise ValueError(f"Could not parse serialized_sparse[{row}] as a TensorProto") from None
        messages.append(message)
    indices, values, shape = (make_ndarray(message) for message in messages)
    if messages[1].dtype != kind.as_datatype_enum:
        found = type_name(dtypes.as_dtype(messages[1].dtype))
        raise ValueError(
            f"Requested SparseTensor of type {type_name(kind)} but SparseTensor[{row}]."
            f"values.dtype() == {found}"
        )
    if indices.ndim != 2 or values.ndim != 1 or shape.ndim != 1:
        raise ValueError(f"serialized_sparse[{row}] does not hold a SparseTensor")
    return indices, values, shape


def _stacked(rows: Any, kind: dtypes.DType) -> tuple[Any, Any, Any]:
    """Serialized sparse tensors as one with a dimension more."""
    indices, values = [], []
    most: Any = None
    for i, cells in enumerate(rows):
        part, entries, shape = _parse(cells, kind, i)
        if most is not None and len(most) != len(shape):
            raise ValueError(
                f"Inconsistent shape across SparseTensors: rank prior to SparseTensor[{i}] was: "
                f"{len(most)} but rank of SparseTensor[{i}] is: {len(shape)}"
            )
        most = shape if most is None else np.maximum(most, shape)
        number = np.full((len(part), 1), i, np.int64)
        indices.append(np.concatenate([number, part], axis=1))
        values.append(entries)
    if most is None:
        raise ValueError("There are no serialized SparseTensors: their rank cannot be known")
    shape = np.concatenate([[len(rows)], most]).astype(np.int64)
    return np.concatenate(indices), np.concatenate(values), shape


def _serialized_shape(c: ShapeContext) -> list[TensorShape]:
    shape = c.shape("serialized_sparse")
    if c.op.type == "DeserializeManySparse":
        shape = shape.with_rank(2)
    if shape.ndims:
        width = shape.as_list()[-1]
        if width not in (None, 3):
            raise ValueError(f"Dimension must be 3 but is {width}")
    return unknown_sparse()


_OUT = "(sparse_indices: int64, sparse_values: dtype, sparse_shape: int64) where dtype: type"


@op(
    f"DeserializeManySparse(serialized_sparse: string) -> {_OUT}",
    shape=_serialized_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def DeserializeManySparse(serialized_sparse: Any, *, dtype: Any) -> Any:
    """A minibatch of serialized sparse tensors as one, with a first dimension of examples."""
    if serialized_sparse.ndim != 2 or serialized_sparse.shape[1] != 3:
        raise ValueError(
            f"Serialized sparse should have 3 columns but has shape {list(serialized_sparse.shape)}"
        )
    return _stacked(serialized_sparse, dtype)


@op(
    "DeserializeSparse(serialized_sparse: Tserialized) -> "
    f"{_OUT}; Tserialized: {{string, variant}} = string",
    shape=_serialized_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def DeserializeSparse(serialized_sparse: Any, *, dtype: Any) -> Any:
    """Serialized sparse tensors as one, with the dimensions that the strings had in front."""
    if serialized_sparse.ndim == 1:
        return _parse(serialized_sparse, dtype, 0)
    outer = serialized_sparse.shape[:-1]
    indices, values, shape = _stacked(serialized_sparse.reshape(-1, 3), dtype)
    front = np.stack(np.unravel_index(indices[:, 0], outer), axis=1)
    return (
        np.concatenate([front, indices[:, 1:]], axis=1),
        values,
        np.concatenate([outer, shape[1:]]).astype(np.int64),
    )


def serialize_sparse(
    sp_input: Any, name: str | None = None, out_type: Any = dtypes.string
) -> Tensor:
    """A SparseTensor as a vector of three strings."""
    sparse = as_sparse(sp_input)
    return SerializeSparse(
        sparse.indices, sparse.values, sparse.dense_shape, out_type=out_type, name=name
    )


def serialize_many_sparse(
    sp_input: Any, name: str | None = None, out_type: Any = dtypes.string
) -> Tensor:
    """The rows of a SparseTensor as a matrix of strings with three columns."""
    sparse = as_sparse(sp_input)
    return SerializeManySparse(
        sparse.indices, sparse.values, sparse.dense_shape, out_type=out_type, name=name
    )


def deserialize_many_sparse(
    serialized_sparse: Any, dtype: Any, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """The SparseTensor of a minibatch of serialized ones.

    Args:
      serialized_sparse: [N, 3] strings.
      dtype: Type of the values.
      rank: Rank of the result, where known.
      name: The operation's name.
    """
    return _deserialized(DeserializeManySparse, serialized_sparse, dtype, rank, name)


def deserialize_sparse(
    serialized_sparse: Any, dtype: Any, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """The SparseTensor of serialized ones, with the dimensions that the strings have in front."""
    return _deserialized(DeserializeSparse, serialized_sparse, dtype, rank, name)


def _deserialized(
    op_type: Any, serialized: Any, dtype: Any, rank: int | None, name: str | None
) -> SparseTensor:
    indices, values, shape = op_type(serialized, dtype=dtype, name=name)
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)
