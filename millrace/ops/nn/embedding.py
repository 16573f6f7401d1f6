"""Embedding lookups: rows of a table, or of a table that is spread over several tensors.

A row is gathered where its part of the table is (on its parameter server), so that only the
rows that are asked for travel. Gradients are IndexedSlices of those rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import colocate_with, name_scope
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import gather as array_gather
from millrace.ops.array import identity as array_identity
from millrace.ops.array import join as array_join
from millrace.ops.array import layout as array_layout
from millrace.ops.array import select as array_select
from millrace.ops.array import sets as array_sets
from millrace.ops.array import shape as array_shape
from millrace.ops.array import slicing as array_slicing
from millrace.ops.math import arithmetic, clip, comparison, elementwise, numeric, reduction, segment
from millrace.ops.sparse import rows as sparse_rows
from millrace.ops.sparse import segment as sparse_segment
from millrace.ops.sparse import sparse
from millrace.ops.state import partitioned_variable
from millrace.platform import logging

__all__ = ["embedding_lookup", "embedding_lookup_sparse", "safe_embedding_lookup_sparse"]


def _parts(params: Any) -> list[Any]:
    """The tensors or variables that a table consists of."""
    if params is None:
        raise ValueError("params must be specified")
    is_several = isinstance(params, list | tuple | partitioned_variable.PartitionedVariable)
    parts = list(params) if is_several else [params]
    if not parts:
        raise ValueError("Length of params is currently 0. Need at least one param.")
    return [
        part if hasattr(part, "op") else convert_to_tensor(part, name="params") for part in parts
    ]


def _gather(params: Any, ids: Any, name: str | None = None) -> Any:
    return array_gather.gather(params, ids, name=name)


def _clip(rows: Any, ids: Tensor, max_norm: Any) -> Any:
    """Scales rows whose L2 norm is above `max_norm` down to it."""
    if max_norm is None:
        return rows
    if ids.shape.ndims is not None and rows.shape.ndims is not None:
        axes: Any = list(range(ids.shape.ndims, rows.shape.ndims))
    else:
        axes = numeric.range(array_shape.rank(ids), array_shape.rank(rows))
    return clip.clip_by_norm(rows, max_norm, axes=axes)


def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: Any = None,
) -> Any:
    """Rows of an embedding table.

    Args:
      params: The table: a tensor or variable, or a list of them, or a partitioned variable.
      ids: Row numbers, int32 or int64, of any shape.
      partition_strategy: How rows are spread over several params: ``"mod"`` (row i is in part
        ``i % n``) or ``"div"`` (each part has consecutive rows).
      name: The name scope.
      validate_indices: Accepted for compatibility.
      max_norm: Rows with a larger L2 norm are scaled down to it.

    Returns:
      A tensor of shape ``shape(ids) + shape(params)[1:]``.

    Raises:
      ValueError: No params, or an unknown strategy.
    """
    parts = _parts(params)
    with name_scope(name, "embedding_lookup", [*parts, ids]) as scope:
        count = len(parts)
        ids = convert_to_tensor(ids, name="ids")
        if count == 1:
            with colocate_with(_op_of(parts[0])):
                rows = _clip(_gather(parts[0], ids, scope), ids, max_norm)
            # What follows is not tied to where the table is.
            return array_identity.identity(rows)
        if partition_strategy not in ("mod", "div"):
            raise ValueError(
                f"Unrecognized partition strategy: {partition_strategy}."
                "Must be one of either `mod` or `div`."
            )
        flat: Any = array_shape.reshape(ids, [-1])
        places = numeric.range(array_shape.size(flat))
        if partition_strategy == "mod":
            owner, local = flat % count, flat // count
        else:
            owner, local = _consecutive(parts, flat)
        owner = cast.cast(owner, dtypes.int32)
        local_ids = array_sets.dynamic_partition(local, owner, count)
        local_places = array_sets.dynamic_partition(places, owner, count)
        gathered = []
        for part, wanted in zip(parts, local_ids, strict=True):
            with colocate_with(_op_of(part)):
                gathered.append(_gather(part, wanted))
        rows = array_sets.parallel_dynamic_stitch(local_places, gathered, name=scope)
        row_shape = _row_shape(parts)
        if row_shape.is_fully_defined():
            inner: Any = row_shape.as_list()
        else:
            inner = array_shape.shape(parts[0])[1:]
        rows = array_shape.reshape(rows, array_join.concat([array_shape.shape(ids), inner], 0))
        rows.set_shape(ids.shape.concatenate(row_shape))
        return _clip(rows, ids, max_norm)


def _op_of(part: Any) -> Any:
    """The operation that a table (or a part of one) is: a variable's own, not that of a read."""
    return getattr(part, "op", part)


def _row_shape(parts: Sequence[Any]) -> TensorShape:
    shape = unknown_shape()
    for part in parts:
        own = part.shape if hasattr(part, "shape") else convert_to_tensor(part).shape
        if own.ndims is not None:
            shape = shape.merge_with(own[1:])
    return shape


def _consecutive(parts: list[Any], flat: Any) -> tuple[Any, Any]:
    """Which part holds each row, and where, when the first ``total % n`` parts have one more."""
    count = len(parts)
    sizes = [part.shape.sizes[0] if part.shape.sizes else None for part in parts]
    total: Any
    if None not in sizes:
        total = convert_to_tensor(sum(size or 0 for size in sizes), flat.dtype.base_dtype)
    else:
        lengths = []
        for part, size in zip(parts, sizes, strict=True):
            if size is not None:
                lengths.append(convert_to_tensor(size))
            else:
                with colocate_with(_op_of(part)):
                    lengths.append(array_shape.shape(part)[0])
        total = reduction.reduce_sum(cast.cast(array_join.stack(lengths), flat.dtype.base_dtype))
    each, extras = total // count, total % count
    owner = arithmetic.maximum(flat // (each + 1), (flat - extras) // each)
    local = array_select.where(owner < extras, flat % (each + 1), (flat - extras) % each)
    return owner, local


def embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: Any = None,
    allow_fast_lookup: bool = False,
) -> Any:
    """Looks up the ids of each row of a sparse matrix and combines their embeddings.

    Args:
      params: The table, as for `embedding_lookup`.
      sp_ids: A SparseTensor of ids, ``[batch, any]``; no row may be empty.
      sp_weights: A SparseTensor of weights with the same indices, or None for ones.
      partition_strategy: As for `embedding_lookup`.
      name: The name scope.
      combiner: ``"sum"``, ``"mean"`` (divided by the sum of the weights; the default) or
        ``"sqrtn"`` (divided by the root of the sum of their squares).
      max_norm: As for `embedding_lookup`.
      allow_fast_lookup: Accepted for compatibility.

    Returns:
      A dense tensor with a row for each row of `sp_ids`.

    Raises:
      TypeError: `sp_ids` or `sp_weights` is no SparseTensor.
      ValueError: An unknown combiner, or shapes that differ.
    """
    if combiner is None:
        logging.warning('The default value of combiner will change from "mean" to "sqrtn".')
        combiner = "mean"
    if combiner not in ("mean", "sqrtn", "sum"):
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner}")
    if not isinstance(sp_ids, SparseTensor):
        raise TypeError(f"sp_ids must be SparseTensor, got {type(sp_ids)}")
    if sp_weights is not None:
        if not isinstance(sp_weights, SparseTensor):
            raise TypeError(
                f"sp_weights must be either None or SparseTensor,got {type(sp_weights)}"
            )
        sp_ids.values.shape.assert_is_compatible_with(sp_weights.values.shape)
        sp_ids.indices.shape.assert_is_compatible_with(sp_weights.indices.shape)
        sp_ids.dense_shape.shape.assert_is_compatible_with(sp_weights.dense_shape.shape)
    parts = _parts(params)
    with name_scope(name, "embedding_lookup_sparse", [*parts, sp_ids.indices]) as scope:
        rows: Any = sp_ids.indices[:, 0]
        if rows.dtype != dtypes.int32:
            rows = cast.cast(rows, dtypes.int32)
        ids, places = array_sets.unique(sp_ids.values)
        found = embedding_lookup(
            parts, ids, partition_strategy=partition_strategy, max_norm=max_norm
        )
        if sp_weights is None:
            combine = {
                "sum": sparse_segment.sparse_segment_sum,
                "mean": sparse_segment.sparse_segment_mean,
                "sqrtn": sparse_segment.sparse_segment_sqrt_n,
            }[combiner]
            return combine(found, places, rows, name=scope)
        return _weighted(found, places, rows, sp_weights.values, combiner, scope)


def _weighted(found: Any, places: Any, rows: Any, weights: Any, combiner: str, scope: str) -> Any:
    if weights.dtype.base_dtype != found.dtype.base_dtype:
        weights = cast.cast(weights, found.dtype.base_dtype)
    each = array_gather.gather(found, places)
    # One weight a row, shaped so that it multiplies the whole row.
    ones = array_fill.fill(array_shape.expand_dims(array_shape.rank(each) - 1, 0), 1)
    shape_before = each.shape
    column: Any = array_shape.reshape(
        weights, array_join.concat([array_shape.shape(weights), ones], 0)
    )
    if shape_before.ndims is not None and weights.shape.ndims is not None:
        column.set_shape(weights.shape.concatenate([1] * (shape_before.ndims - 1)))
    each = each * column
    each.set_shape(shape_before)
    if combiner == "sum":
        return segment.segment_sum(each, rows, name=scope)
    total = segment.segment_sum(each, rows)
    if combiner == "mean":
        return arithmetic.div_no_nan(total, segment.segment_sum(column, rows), name=scope)
    squares = segment.segment_sum(arithmetic.pow(column, 2), rows)
    return arithmetic.div_no_nan(total, elementwise.sqrt(squares), name=scope)


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: str | None = "mean",
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: Any = None,
    allow_fast_lookup: bool = False,
) -> Any:
    """`embedding_lookup_sparse` that copes with empty rows, negative ids and no weight.

    Args:
      embedding_weights: The table, as for `embedding_lookup`.
      sparse_ids: A SparseTensor of ids, ``[d0, ..., dn]``; negative ids are left out.
      sparse_weights: A SparseTensor of weights with the same indices, or None for ones;
        ids whose weight is not positive are left out, unless the combiner is a sum.
      combiner: As for `embedding_lookup_sparse`.
      default_id: The id that stands for an empty row; zeros do when None.
      name: The name scope.
      partition_strategy: As for `embedding_lookup`.
      max_norm: As for `embedding_lookup`.
      allow_fast_lookup: Accepted for compatibility.

    Returns:
      A dense tensor ``[d0, ..., dn-1, embedding]``.
    """
    if embedding_weights is None:
        raise ValueError(f"Missing embedding_weights {embedding_weights}.")
    parts = _parts(embedding_weights)
    if sparse_weights is not None:
        own = parts[0].dtype.base_dtype
        if sparse_weights.values.dtype.base_dtype != own:
            raise TypeError(
                f"sparse_weights have type {sparse_weights.values.dtype.base_dtype.name}, "
                f"the embeddings {own.name}"
            )
    with name_scope(name, "embedding_lookup", [*parts, sparse_ids.indices]) as scope:
        original = sparse_ids.dense_shape
        rank_shape = original.shape
        rank = rank_shape.sizes[0] if rank_shape.sizes else None
        dimensions: Any = array_shape.size(original) if rank is None else rank
        flat_shape = array_join.stack(
            [
                reduction.reduce_prod(array_slicing.slice(original, [0], [dimensions - 1])),
                array_gather.gather(original, dimensions - 1),
            ]
        )
        sparse_ids = sparse.sparse_reshape(sparse_ids, flat_shape)
        if sparse_weights is not None:
            sparse_weights = SparseTensor(
                sparse_ids.indices, sparse_weights.values, sparse_ids.dense_shape
            )
        valid: Any = comparison.greater_equal(sparse_ids.values, 0)
        if sparse_weights is not None and combiner != "sum":
            valid = valid & comparison.greater(sparse_weights.values, 0)
        sparse_ids = sparse_rows.sparse_retain(sparse_ids, valid)
        if sparse_weights is not None:
            sparse_weights = sparse_rows.sparse_retain(sparse_weights, valid)
        sparse_ids, is_empty = sparse_rows.sparse_fill_empty_rows(sparse_ids, default_id or 0)
        if sparse_weights is not None:
            sparse_weights, _ = sparse_rows.sparse_fill_empty_rows(sparse_weights, 1.0)
        result = embedding_lookup_sparse(
            parts,
            sparse_ids,
            sparse_weights,
            combiner=combiner,
            partition_strategy=partition_strategy,
            name=None if default_id is None else scope,
            max_norm=max_norm,
        )
        if default_id is None:
            width = array_shape.shape(result)[1]
            hidden = array_layout.tile(
                array_shape.reshape(is_empty, [-1, 1]), array_join.stack([1, width])
            )
            result = array_select.where(hidden, array_fill.zeros_like(result), result, name=scope)
        outer = array_slicing.slice(cast.cast(original, dtypes.int32), [0], [dimensions - 1])
        inner = array_slicing.slice(array_shape.shape(result), [1], [-1])
        final = array_shape.reshape(result, array_join.concat([outer, inner], 0))
        if rank is not None:
            final.set_shape(unknown_shape(int(np.int64(rank)) - 1).concatenate(result.shape[1:]))
        return final
