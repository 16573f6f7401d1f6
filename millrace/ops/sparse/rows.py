"""Entries of sparse tensors: chosen, filled in for empty rows, and ids that become indices."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.slices import SparseTensor, SparseTensorValue
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import gather as array_gather
from millrace.ops.array import identity as array_identity
from millrace.ops.array import join as array_join
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.array.rules import are_rows
from millrace.ops.sparse.sparse import as_sparse, sparse_reorder, sparse_tensor_to_dense
from millrace.platform import limits

__all__ = [
    "sparse_fill_empty_rows",
    "sparse_merge",
    "sparse_retain",
    "sparse_to_indicator",
]


def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """The entries for which a vector of truth values is true."""
    sparse = as_sparse(sp_input)
    chosen = convert_to_tensor(to_retain)
    chosen.shape.assert_has_rank(1)
    if sparse.values.shape.ndims is not None and chosen.shape.ndims is not None:
        sparse.values.shape[0].assert_is_compatible_with(chosen.shape[0])
    where = array_shape.reshape(array_select.where(chosen), [-1])
    return SparseTensor(
        array_gather.gather(sparse.indices, where),
        array_gather.gather(sparse.values, where),
        array_identity.identity(sparse.dense_shape),
    )


def _fill_shape(c: ShapeContext) -> list[TensorShape]:
    indices = c.shape("indices").with_rank(2)
    c.shape("values").assert_has_rank(1)
    sizes = c.shape("dense_shape").with_rank(1)
    c.shape("default_value").assert_has_rank(0)
    rank = indices[1].merge_with(sizes[0])
    known = c.value_as_shape("dense_shape")
    rows = known[0] if known.ndims else None
    return [
        TensorShape([None, rank]),
        TensorShape([None]),
        TensorShape([rows]),
        TensorShape([indices[0]]),
    ]


@op(
    "SparseFillEmptyRows(indices: int64, values: T, dense_shape: int64, default_value: T) -> "
    "(output_indices: int64, output_values: T, empty_row_indicator: bool, "
    "reverse_index_map: int64) where T: type",
    shape=_fill_shape,
    host=True,
)
def SparseFillEmptyRows(indices: Any, values: Any, dense_shape: Any, default_value: Any) -> Any:
    """Entries by row, with a default in column 0 of every row that had none."""
    rows = int(dense_shape[0])
    limits.check_array(rows, 8 * (indices.shape[1] + 7), "the filled rows")
    row = indices[:, 0]
    bad = () if are_rows(row, rows) else np.flatnonzero((row < 0) | (row >= rows))
    for i in bad:
        if rows == 0:
            raise ValueError(
                f"Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = {len(row)}"
            )
        wrong = f"{row[i]} < 0" if row[i] < 0 else f"{row[i]} >= {rows}"
        raise ValueError(f"indices({i}, 0) is invalid: {wrong}")
    empty = np.ones(rows, bool)
    empty[row] = False
    missing = np.flatnonzero(empty)
    if not len(missing) and bool((row[1:] >= row[:-1]).all()):
        return indices, values, empty, np.arange(len(row))
    all_rows = np.concatenate([row, missing])
    order = np.argsort(all_rows, kind="stable")
    new_indices = np.zeros((len(all_rows), indices.shape[1]), np.int64)
    new_indices[: len(row)] = indices
    new_indices[len(row) :, 0] = missing
    new_values = np.concatenate([values, np.full(len(missing), default_value, values.dtype)])
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return new_indices[order], new_values[order], empty, place[: len(row)]


def _fill_grad_shape(c: ShapeContext) -> list[TensorShape]:
    return [c.shape("reverse_index_map").with_rank(1), TensorShape([])]


@op(
    "SparseFillEmptyRowsGrad(reverse_index_map: int64, grad_values: T) -> "
    "(d_values: T, d_default_value: T) where T: type",
    shape=_fill_grad_shape,
    gradient=NO_GRADIENT,
)
def SparseFillEmptyRowsGrad(reverse_index_map: Any, grad_values: Any, *, xp: Any) -> Any:
    """Gradients of the entries that there were, and the sum of the others."""
    values_grad = xp.asarray(grad_values)[xp.asarray(reverse_index_map)]
    total = xp.sum(grad_values, dtype=grad_values.dtype)
    return values_grad, total - xp.sum(values_grad, dtype=grad_values.dtype)


@SparseFillEmptyRows.gradient
def _(op: Operation, indices_grad: Any, values_grad: Tensor, empty_grad: Any, map_grad: Any) -> Any:
    entries_grad, default_grad = SparseFillEmptyRowsGrad(op.outputs[3], values_grad)
    return None, entries_grad, None, default_grad


def sparse_fill_empty_rows(
    sp_input: Any, default_value: Any, name: str | None = None
) -> tuple[SparseTensor, Tensor]:
    """The SparseTensor with a default entry in rows that have none.

    Returns:
      The SparseTensor, and a vector that says which rows were empty.
    """
    sparse = as_sparse(sp_input)
    with name_scope(name, "SparseFillEmptyRows", [sparse.values]):
        default = convert_to_tensor(default_value, sparse.dtype)
        indices, values, empty, _ = SparseFillEmptyRows(
            sparse.indices, sparse.values, sparse.dense_shape, default
        )
        return SparseTensor(indices, values, sparse.dense_shape), empty


# -- Ids as indices -------------------------------------------------------------------------------


def sparse_merge(
    sp_ids: Any,
    sp_values: Any,
    vocab_size: Any,
    name: str | None = None,
    already_sorted: bool = False,
) -> SparseTensor:
    """A batch of ids and one of values as a SparseTensor with the ids as last dimension.

    Args:
      sp_ids: A SparseTensor of ids (or a list: one for each new dimension).
      sp_values: A SparseTensor of values, with the same indices.
      vocab_size: How many ids there are (or a list).
      name: The name scope.
      already_sorted: Whether the ids of each row are in order.

    Raises:
      TypeError: An argument has a wrong type.
      ValueError: The lists do not have the same length.
    """
    if isinstance(sp_ids, SparseTensor | SparseTensorValue):
        ids = [sp_ids]
        if not isinstance(vocab_size, Tensor | numbers.Integral):
            raise TypeError(
                f"vocab_size has to be a Tensor or Python int. Found {type(vocab_size)}"
            )
        sizes = [vocab_size]
    else:
        if not isinstance(sp_ids, Iterable):
            raise TypeError(
                f"sp_ids has to be a SparseTensor or list thereof. Found {type(sp_ids)}"
            )
        ids, sizes = list(sp_ids), vocab_size
        for size in sizes if isinstance(sizes, Iterable) else [sizes]:
            if not isinstance(size, Tensor | numbers.Integral) or not isinstance(sizes, Iterable):
                raise TypeError(
                    f"vocab_size has to be a list of Tensors or Python ints. Found {type(size)}"
                )
    if len(ids) != len(sizes):
        raise ValueError("sp_ids and vocab_size have to have equal lengths.")
    with name_scope(name, "SparseMerge", [sp_values.values]):
        parts = [as_sparse(part) for part in ids]
        return _merge(parts, as_sparse(sp_values), sizes, already_sorted)


def _merge(
    ids: list[SparseTensor], values: SparseTensor, vocab_sizes: Any, already_sorted: bool
) -> SparseTensor:
    columns = []
    for part in ids:
        column = part.values
        if part.dtype != dtypes.int64:
            column = cast.cast(column, dtypes.int64)
        columns.append(array_shape.expand_dims(column, axis=1))
    sizes = [cast.cast(size, dtypes.int64) for size in vocab_sizes]
    first_indices: Any = ids[0].indices
    first_shape: Any = ids[0].dense_shape
    indices = array_join.concat([first_indices[:, :-1], *columns], 1)
    shape = array_join.concat([first_shape[:-1], sizes], 0)
    result = SparseTensor(indices, values.values, shape)
    if already_sorted:
        return result
    ordered = sparse_reorder(result)
    return SparseTensor(ordered.indices, ordered.values, shape)


def sparse_to_indicator(sp_input: Any, vocab_size: Any, name: str | None = None) -> Tensor:
    """A dense tensor of truth values: which ids each row holds."""
    sparse = as_sparse(sp_input)
    with name_scope(name, "SparseToIndicator", [sparse.values]) as scope:
        counts: Any = array_shape.shape(sparse.indices)
        yes = array_fill.fill(array_shape.expand_dims(counts[0], 0), True)
        marked = SparseTensor(sparse.indices, yes, sparse.dense_shape)
        merged = sparse_merge(sparse, marked, vocab_size, name=scope)
        return sparse_tensor_to_dense(
            merged, default_value=False, validate_indices=False, name=scope
        )
