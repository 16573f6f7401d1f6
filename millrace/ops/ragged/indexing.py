"""``ragged[key]``: rows by number or slice, parts of rows, new axes.

An inner ragged dimension can be sliced, but has no single index: rows may be too short for it.
"""

from __future__ import annotations

from typing import Any

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.tensor import Tensor
from millrace.ops.array import fill, gather, shape
from millrace.ops.array.cast import cast
from millrace.ops.array.select import where
from millrace.ops.math import arithmetic, comparison
from millrace.ops.ragged.kernels import RaggedRange
from millrace.ops.ragged.ragged_tensor import RaggedTensor


def gather_rows(params: Any, rows: Tensor) -> Any:
    """Rows of a tensor or a ragged tensor by their numbers (a vector)."""
    if not isinstance(params, RaggedTensor):
        return gather.gather(params, rows)
    starts = gather.gather(params.row_starts(), rows)
    limits = gather.gather(params.row_limits(), rows)
    return _pieces(params.values, starts, limits, 1)


def _pieces(values: Any, starts: Tensor, limits: Tensor, step: Any) -> RaggedTensor:
    """The ragged tensor whose row i is ``values[starts[i]:limits[i]:step]``."""
    step = convert_to_tensor(step, dtype=starts.dtype)
    splits, places = RaggedRange(starts, limits, step, Tsplits=starts.dtype)
    splits.set_shape([None if starts.shape[0].value is None else starts.shape[0].value + 1])
    return RaggedTensor.from_row_splits(gather_rows(values, places), splits)


def get_item(ragged: RaggedTensor, key: Any) -> Any:
    """What ``ragged[key]`` is."""
    keys = list(key) if isinstance(key, list | tuple) else [key]
    return _outer(ragged, _without_ellipsis(keys, ragged))


RaggedTensor.__getitem__ = get_item


def _without_ellipsis(keys: list[Any], value: Any) -> list[Any]:
    if not any(key is Ellipsis for key in keys):
        return keys
    rank = value.shape.ndims
    if rank is None:
        raise ValueError("Ellipsis not supported for unknown shape RaggedTensors")
    at = next(i for i, key in enumerate(keys) if key is Ellipsis)
    used = sum(key is not None for key in keys) - 1
    return keys[:at] + [slice(None)] * (rank - used) + keys[at + 1 :]


def _plain(value: Any, keys: list[Any]) -> Any:
    return value[tuple(keys)] if keys else value


def _outer(value: Any, keys: list[Any]) -> Any:
    """Applies the keys of a value's first dimension and of those behind it."""
    if not isinstance(value, RaggedTensor):
        return _plain(value, keys)
    if not keys:
        return value
    key, *rest = keys
    if key is None:
        inner = _outer(value, rest)
        if not isinstance(inner, RaggedTensor):
            return shape.expand_dims(inner, 0)
        rows = inner.nrows()
        return RaggedTensor.from_row_lengths(inner, shape.expand_dims(rows, 0))
    if isinstance(key, slice):
        return _inner(_row_slice(value, key), rest)
    row = convert_to_tensor(key)
    if not row.dtype.is_integer:
        raise TypeError(f"Ragged tensor index must be an integer or a slice, got {key!r}")
    row = cast(row, value.row_splits.dtype)
    row = where(comparison.less(row, cast(0, row.dtype)), row + value.nrows(), row)
    start, limit = value.row_starts()[row], value.row_limits()[row]
    inside = value.values
    inside = (
        _row_slice(inside, slice(start, limit))
        if isinstance(inside, RaggedTensor)
        else (inside[start:limit])
    )
    return _outer(inside, rest)


def _row_slice(value: RaggedTensor, key: slice) -> RaggedTensor:
    if key == slice(None):
        return value
    if key.step is None or (isinstance(key.step, int) and key.step == 1):
        starts = value.row_starts()[key]
        limits = value.row_limits()[key]
        return _pieces(value.values, starts, limits, 1)
    return _pieces(value.values, value.row_starts()[key], value.row_limits()[key], 1)


def _inner(value: RaggedTensor, keys: list[Any]) -> Any:
    """Applies keys to the dimensions within the rows."""
    if not keys:
        return value
    key, *rest = keys
    if key is None:
        ones = fill.ones_like(value.row_lengths())
        return RaggedTensor.from_row_lengths(_inner(value, rest), ones)
    if not isinstance(key, slice):
        if isinstance(value.values, RaggedTensor) or value.shape[1].value is None:
            raise ValueError("Cannot index into an inner ragged dimension.")
    elif key != slice(None):
        value = _slice_each_row(value, key)
    if not rest:
        return value
    inner = value.values
    if isinstance(inner, RaggedTensor):
        return value.with_values(_inner(inner, rest))
    return value.with_values(_plain(inner, [slice(None), *rest]))


def _slice_each_row(value: RaggedTensor, key: slice) -> RaggedTensor:
    kind = value.row_splits.dtype
    step = 1 if key.step is None else key.step
    if not isinstance(step, int) or step == 0:
        raise ValueError("slice step of a ragged dimension must be a Python integer other than 0")
    starts, lengths = value.row_starts(), value.row_lengths()
    zero = convert_to_tensor(0, kind)
    lowest, highest = (zero, lengths) if step > 0 else (zero - 1, lengths - 1)

    def bound(given: Any, default: Any) -> Any:
        if given is None:
            return default
        place = cast(convert_to_tensor(given, dtypes.int64), kind)
        place = where(
            comparison.less(place + lengths * 0, zero), lengths + place, place + lengths * 0
        )
        return arithmetic.minimum(arithmetic.maximum(place, lowest), highest)

    first = bound(key.start, zero + lengths * 0 if step > 0 else highest)
    last = bound(key.stop, highest if step > 0 else lowest + lengths * 0)
    return _pieces(value.values, starts + first, starts + last, step)
