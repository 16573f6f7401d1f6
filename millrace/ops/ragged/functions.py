"""Functions of ragged tensors: reductions, joins, rows by number, masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.tensor import Tensor
from millrace.ops.array import fill, gather, join, select, shape
from millrace.ops.array.cast import cast
from millrace.ops.array.order import argsort
from millrace.ops.math import arithmetic, numeric, reduction, segment
from millrace.ops.ragged import indexing
from millrace.ops.ragged.ragged_tensor import RaggedTensor, is_ragged, segment_ids_to_row_splits


def as_ragged(value: Any, like: RaggedTensor | None = None) -> Any:
    """A ragged tensor (or the value of one), or a tensor."""
    if isinstance(value, RaggedTensor):
        return value
    if is_ragged(value):
        return RaggedTensor.from_nested_row_splits(value.flat_values, value.nested_row_splits)
    made = convert_to_tensor(value)
    if like is not None and made.shape.ndims is not None and made.shape.ndims > 1:
        return RaggedTensor.from_tensor(made, row_splits_dtype=like.row_splits.dtype)
    return made


# -- Reductions ----------------------------------------------------------------------------


def _reducing(whole: Callable[..., Any], by_segment: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(
        input_tensor: Any, axis: Any = None, keepdims: Any = None, name: str | None = None, **_: Any
    ) -> Any:
        ragged = as_ragged(input_tensor)
        if keepdims:
            raise ValueError("keepdims=True is not supported for RaggedTensors.")
        with name_scope(name, "RaggedReduce"):
            if axis is None:
                return whole(ragged.flat_values)
            if isinstance(axis, list | tuple):
                rank = ragged.shape.ndims
                found = ragged
                for each in sorted((a % rank if a < 0 else a for a in axis), reverse=True):
                    found = reduce(found, each) if is_ragged(found) else whole(found, axis=each)
                return found
            axis = axis + ragged.shape.ndims if axis < 0 else axis
            return one_axis(ragged, axis)

    def one_axis(ragged: RaggedTensor, axis: int) -> Any:
        values = ragged.values
        if axis > 1:
            inner = (
                one_axis(values, axis - 1) if is_ragged(values) else whole(values, axis=axis - 1)
            )
            return ragged.with_values(inner)
        if axis == 1:
            return segments(values, ragged.value_rowids(), ragged.nrows())
        rows = ragged.value_rowids()
        columns = numeric.range(ragged.row_splits[-1]) - gather.gather(ragged.row_starts(), rows)
        lengths = ragged.row_lengths()
        zero = convert_to_tensor(0, lengths.dtype)
        count = arithmetic.maximum(reduction.reduce_max(lengths), zero)
        return segments(values, columns, count)

    def segments(values: Any, ids: Tensor, count: Tensor) -> Any:
        if not is_ragged(values):
            return by_segment(values, ids, count)
        # Rows of one segment are added element by element: each place gets a number of its own.
        lengths = values.row_lengths()
        zero = convert_to_tensor(0, lengths.dtype)
        widths = arithmetic.maximum(segment.unsorted_segment_max(lengths, ids, count), zero)
        made = RaggedTensor.from_row_lengths(numeric.range(reduction.reduce_sum(widths)), widths)
        rows = values.value_rowids()
        columns = numeric.range(values.row_splits[-1]) - gather.gather(values.row_starts(), rows)
        places = gather.gather(made.row_starts(), gather.gather(ids, rows)) + columns
        return made.with_values(segments(values.values, places, reduction.reduce_sum(widths)))

    return reduce


def _mean_by_segment(values: Tensor, ids: Tensor, count: Tensor) -> Tensor:
    total = segment.unsorted_segment_sum(values, ids, count)
    number = segment.unsorted_segment_sum(fill.ones_like(values), ids, count)
    return arithmetic.divide(total, number)


def _logical(by_segment: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(values: Tensor, ids: Tensor, count: Tensor) -> Tensor:
        return cast(by_segment(cast(values, dtypes.int32), ids, count), dtypes.bool)

    return reduce


def _any_by_segment(values: Tensor, ids: Tensor, count: Tensor) -> Tensor:
    zero = convert_to_tensor(0)
    return arithmetic.maximum(segment.unsorted_segment_max(values, ids, count), zero)


reduce_sum = _reducing(reduction.reduce_sum, segment.unsorted_segment_sum)
reduce_prod = _reducing(reduction.reduce_prod, segment.unsorted_segment_prod)
reduce_max = _reducing(reduction.reduce_max, segment.unsorted_segment_max)
reduce_min = _reducing(reduction.reduce_min, segment.unsorted_segment_min)
reduce_mean = _reducing(reduction.reduce_mean, _mean_by_segment)
reduce_any = _reducing(reduction.reduce_any, _logical(_any_by_segment))
reduce_all = _reducing(reduction.reduce_all, _logical(segment.unsorted_segment_prod))


# -- Joins ---------------------------------------------------------------------------------


def concat(values: Any, axis: int, name: str | None = None) -> Any:
    """Joins ragged tensors along a dimension."""
    with name_scope(name, "RaggedConcat"):
        parts = _alike(values)
        if not any(isinstance(each, RaggedTensor) for each in parts):
            return join.concat(parts, axis)
        rank = next((p.shape.ndims for p in parts if p.shape.ndims is not None), None)
        axis = axis + rank if axis < 0 and rank is not None else axis
        return _joined(parts, axis)


def _alike(values: Any) -> list[Any]:
    """The values, ragged where one of them is, and of one number of ragged dimensions."""
    parts = [as_ragged(each) for each in values]
    depths = [p.ragged_rank if isinstance(p, RaggedTensor) else 0 for p in parts]
    deepest = max(depths)
    if not deepest:
        return parts
    kind = next(p for p in parts if isinstance(p, RaggedTensor)).row_splits.dtype
    made = []
    for part, depth in zip(parts, depths, strict=True):
        if depth == 0 and (part.shape.ndims or 2) > 1:
            part = RaggedTensor.from_tensor(part, ragged_rank=deepest, row_splits_dtype=kind)
        made.append(part)
    return made


def _joined(parts: list[Any], axis: int) -> Any:
    if axis == 0:
        inner = _joined_values([each.values for each in parts])
        lengths = join.concat([each.row_lengths() for each in parts], 0)
        return RaggedTensor.from_row_lengths(inner, lengths)
    if axis == 1:
        count = len(parts)
        below = _joined(parts, 0)
        rows = parts[0].nrows()
        order = shape.reshape(
            join.stack([numeric.range(rows) + i * rows for i in range(count)], axis=1), [-1]
        )
        mixed = indexing.gather_rows(below, order)
        return RaggedTensor.from_row_splits(mixed.values, mixed.row_splits[::count])
    inner_parts = [each.values for each in parts]
    if isinstance(inner_parts[0], RaggedTensor):
        return parts[0].with_values(_joined(inner_parts, axis - 1))
    return parts[0].with_values(join.concat(inner_parts, axis - 1))


def _joined_values(values: list[Any]) -> Any:
    if isinstance(values[0], RaggedTensor):
        return _joined(values, 0)
    return join.concat(values, 0)


def stack(values: Any, axis: int = 0, name: str | None = None) -> Any:
    """Joins ragged tensors along a new dimension."""
    with name_scope(name, "RaggedStack"):
        parts = [
            as_ragged(each) for each in (values if isinstance(values, list | tuple) else [values])
        ]
        if len({p.shape.ndims for p in parts}) == 1 and parts[0].shape.ndims == 0:
            return join.stack(parts)
        if axis == 0:
            rows = [
                p.nrows()
                if isinstance(p, RaggedTensor)
                else shape.shape(p, out_type=dtypes.int64)[0]
                for p in parts
            ]
            joined = concat(parts, 0)
            return RaggedTensor.from_row_lengths(joined, join.stack(rows))
        return concat([expand_dims(each, axis) for each in parts], axis)


def expand_dims(
    input: Any, axis: int | None = None, name: str | None = None, dim: Any = None
) -> Any:
    """A new dimension of length 1."""
    axis = dim if axis is None else axis
    ragged = as_ragged(input)
    if not isinstance(ragged, RaggedTensor):
        return shape.expand_dims(ragged, axis)
    with name_scope(name, "RaggedExpandDims"):
        if axis is not None and axis < 0:
            axis += (ragged.shape.ndims or 0) + 1
        if axis == 0:
            return ragged[None]
        if axis == 1:
            ones = fill.ones_like(ragged.row_lengths())
            return RaggedTensor.from_row_lengths(ragged, ones)
        assert axis is not None
        return ragged.with_values(expand_dims(ragged.values, axis - 1))


# -- Rows and masks ------------------------------------------------------------------------


def gather_ragged(
    params: Any, indices: Any, validate_indices: Any = None, name: str | None = None,
    axis: Any = None, batch_dims: int = 0,
) -> Any:  # fmt: skip
    """Rows by their numbers; the numbers may be ragged themselves."""
    if axis not in (None, 0) or batch_dims:
        raise ValueError("gather of RaggedTensors takes axis 0 and no batch_dims")
    with name_scope(name, "RaggedGather"):
        params, indices = as_ragged(params), as_ragged(indices)
        if isinstance(indices, RaggedTensor):
            return indices.with_values(gather_ragged(params, indices.values))
        if indices.shape.ndims == 0:
            return params[indices]
        if indices.shape.ndims not in (None, 1):
            return gather_ragged(params, RaggedTensor.from_tensor(indices))
        return indexing.gather_rows(params, indices)


def boolean_mask(data: Any, mask: Any, name: str | None = None) -> Any:
    """The elements (or rows) where a mask is true.

    Args:
      data: A tensor or ragged tensor.
      mask: Booleans of the form of data's first dimensions.
      name: A name for the operation.
    """
    with name_scope(name, "RaggedMask"):
        data, mask = as_ragged(data), as_ragged(mask)
        if mask.dtype != dtypes.bool:
            raise TypeError("mask must be bool")
        if not isinstance(mask, RaggedTensor):
            if mask.shape.ndims == 0:
                raise ValueError("mask cannot be scalar.")
            if mask.shape.ndims == 1:
                if not isinstance(data, RaggedTensor):
                    return select.boolean_mask(data, mask)
                rows = shape.reshape(select.where(mask), [-1])
                return indexing.gather_rows(data, cast(rows, data.row_splits.dtype))
            mask = RaggedTensor.from_tensor(mask)
        if not isinstance(data, RaggedTensor):
            data = RaggedTensor.from_tensor(data, row_splits_dtype=mask.row_splits.dtype)
        kind = data.row_splits.dtype
        if isinstance(mask.values, RaggedTensor) or (mask.values.shape.ndims or 1) > 1:
            return data.with_values(boolean_mask(data.values, mask.values))
        lengths = reduce_sum(mask.with_values(cast(mask.values, kind)), axis=1)
        return RaggedTensor.from_row_lengths(boolean_mask(data.values, mask.values), lengths)


def stack_dynamic_partitions(
    data: Any, partitions: Any, num_partitions: Any, name: str | None = None
) -> RaggedTensor:
    """The rows that have each number, one ragged row per number."""
    with name_scope(name, "SegmentStack"):
        values = as_ragged(data)
        numbers = as_ragged(partitions)
        while isinstance(numbers, RaggedTensor):
            values, numbers = values.values, numbers.values
        rank = numbers.shape.ndims
        if rank is None:
            raise ValueError("partitions must have known rank.")
        if rank == 0:
            return RaggedTensor.from_value_rowids(
                shape.expand_dims(values, 0) if not is_ragged(values) else values[None],
                shape.reshape(cast(numbers, dtypes.int64), [1]),
                num_partitions,
            )
        if rank > 1:
            tail = shape.shape(values)[rank:]
            values = shape.reshape(values, join.concat([[-1], tail], 0))
            numbers = shape.reshape(numbers, [-1])
        numbers = cast(numbers, dtypes.int64)
        order = argsort(numbers, stable=True)
        ids = gather.gather(numbers, order)
        count = cast(num_partitions, dtypes.int64)
        splits = segment_ids_to_row_splits(ids, count)
        return RaggedTensor.from_row_splits(indexing.gather_rows(values, order), splits)


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Elements of x where a condition holds, else of y; or the places where it holds."""
    with name_scope(name, "RaggedWhere"):
        condition = as_ragged(condition)
        if x is None:
            if not isinstance(condition, RaggedTensor):
                return select.where(condition)
            coordinates = condition.with_flat_values(cast(condition.flat_values, dtypes.int32))
            sparse = coordinates.to_sparse()
            return select.boolean_mask(sparse.indices, cast(sparse.values, dtypes.bool))
        x, y = as_ragged(x), as_ragged(y)
        if not isinstance(condition, RaggedTensor):
            rows = select.where(
                condition, numeric.range(x.nrows()), numeric.range(y.nrows()) + x.nrows()
            )
            return indexing.gather_rows(concat([x, y], 0), rows)
        return condition.with_flat_values(
            select.where(condition.flat_values, x.flat_values, y.flat_values)
        )
