"""`tf.ragged.constant`, `placeholder`, `range`: ragged tensors from nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.ops.array.cast import cast
from millrace.ops.array.constant import constant as dense_constant
from millrace.ops.array.constant import placeholder as dense_placeholder
from millrace.ops.ragged.kernels import RaggedRange
from millrace.ops.ragged.ragged_tensor import RaggedTensor, RaggedTensorValue


def constant(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = dtypes.int64,
) -> Any:
    """A ragged tensor of nested lists.

    Args:
      pylist: Nested lists, tuples or arrays.
      dtype: The type of the values.
      ragged_rank: How many dimensions are ragged; all but the last if None.
      inner_shape: The shape of an innermost value.
      name: A name for the operation.
      row_splits_dtype: int32 or int64.

    Raises:
      ValueError: The lists are of different depths, or not of the wanted form.
    """
    with name_scope(name, "RaggedConstant"):
        values, splits = _rows_of(pylist, ragged_rank, inner_shape)
        flat = (
            dense_constant(values, dtype=dtype, name="flat_values")
            if dtype is not None
            else (convert_to_tensor(values, name="flat_values"))
        )
        kind = dtypes.as_dtype(row_splits_dtype)
        if not splits:
            return flat
        return RaggedTensor.from_nested_row_splits(
            flat, [dense_constant(each, dtype=kind) for each in splits]
        )


def constant_value(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    row_splits_dtype: Any = "int64",
) -> Any:
    """As `constant`, a `RaggedTensorValue`."""
    values, splits = _rows_of(pylist, ragged_rank, inner_shape)
    kind = dtypes.as_dtype(row_splits_dtype).as_numpy_dtype
    made: Any = np.array(values, dtype=None if dtype is None else np.dtype(dtype))
    for each in reversed(splits):
        made = RaggedTensorValue(made, np.array(each, dtype=kind))
    return made


def _rows_of(pylist: Any, ragged_rank: int | None, inner_shape: Any) -> tuple[Any, list[Any]]:
    """(the innermost values, the splits of each ragged dimension) of nested lists."""
    if ragged_rank is not None and ragged_rank < 0:
        raise ValueError(f"Invalid ragged_rank={ragged_rank}: must be nonnegative")
    depth, least = _depths(pylist)
    if depth is not None and least is not None and least > depth:
        raise ValueError(
            f"Invalid pylist={pylist!r}: empty list nesting is greater than scalar nesting"
        )
    total = depth if depth is not None else (least or 1)
    inner = tuple(inner_shape) if inner_shape is not None else None
    if ragged_rank is None:
        ragged_rank = max(0, total - 1 - (len(inner) if inner is not None else 0))
    if depth == 0 or not isinstance(pylist, list | tuple | np.ndarray):
        if ragged_rank:
            raise ValueError(
                f"Invalid pylist={pylist!r}: incompatible with ragged_rank={ragged_rank}"
            )
        return pylist, []
    if ragged_rank >= total:
        raise ValueError(f"Invalid pylist={pylist!r}: incompatible with ragged_rank={ragged_rank}")
    splits, level = [], pylist
    for _ in range(ragged_rank):
        splits.append(np.concatenate([[0], np.cumsum([len(row) for row in level], dtype=np.int64)]))
        level = [value for row in level for value in row]
    values = list(level)
    if inner is not None and not values:
        return np.zeros((0, *inner), np.float32), splits
    if not values:
        return np.zeros((0,), np.float32), splits
    array = np.array(values) if not _has_strings(values) else np.array(values, dtype=object)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    elif array.dtype == np.int64 and not isinstance(pylist, np.ndarray) and _fits_int32(array):
        array = array.astype(np.int32)
    if inner is not None and array.shape[1:] != inner:
        raise ValueError(f"inner_shape is {inner}, and the values have {array.shape[1:]}")
    return array, splits


def _fits_int32(array: Any) -> bool:
    return bool(array.size == 0 or (abs(array) < 2**31).all())


def _has_strings(values: Any) -> bool:
    first = values
    while isinstance(first, list | tuple) and first:
        first = first[0]
    return isinstance(first, str | bytes)


def _depths(value: Any) -> tuple[int | None, int | None]:
    """(how deep scalars lie, how deep empty lists reach), None where there are none."""
    if isinstance(value, np.ndarray):
        return (value.ndim, None) if value.size else (None, value.ndim)
    if not isinstance(value, list | tuple):
        return 0, None
    if not value:
        return None, 1
    found = [_depths(each) for each in value]
    scalar = {depth for depth, _ in found if depth is not None}
    if len(scalar) > 1:
        raise ValueError("all scalar values must have the same nesting depth")
    empty = [least for _, least in found if least is not None]
    return (scalar.pop() + 1 if scalar else None), (max(empty) + 1 if empty else None)


def placeholder(
    dtype: Any, ragged_rank: int, value_shape: Any = None, name: str | None = None
) -> Any:
    """A ragged tensor that is fed.

    Args:
      dtype: The type of the values.
      ragged_rank: How many dimensions are ragged.
      value_shape: The shape of an innermost value.
      name: A name for the operation.
    """
    if ragged_rank == 0:
        return dense_placeholder(dtype, value_shape, name)
    with name_scope(name, "RaggedPlaceholder"):
        inner = TensorShape([None]).concatenate(TensorShape(value_shape))
        made: Any = dense_placeholder(dtype, inner, "flat_values")
        for i in reversed(range(ragged_rank)):
            splits = dense_placeholder(dtypes.int64, [None], f"row_splits_{i}")
            made = RaggedTensor.from_row_splits(made, splits)
        return made


def ragged_range(
    starts: Any,
    limits: Any = None,
    deltas: Any = 1,
    dtype: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = dtypes.int64,
) -> RaggedTensor:
    """The rows ``start, start + delta, …`` below their limits.

    Args:
      starts: Scalar or vector; the limits if `limits` is None, and rows begin with 0.
      limits: Scalar or vector.
      deltas: Scalar or vector.
      dtype: The type of the values.
      name: A name for the operation.
      row_splits_dtype: int32 or int64.
    """
    if limits is None:
        starts, limits = 0, starts
    with name_scope(name, "RaggedRange", [starts, limits, deltas]):
        tensors = [convert_to_tensor(each, dtype=dtype) for each in (starts, limits, deltas)]
        if dtype is None:
            order = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64]
            widest = max((each.dtype for each in tensors), key=order.index)
            tensors = [cast(each, widest) for each in tensors]
        splits, values = RaggedRange(*tensors, Tsplits=dtypes.as_dtype(row_splits_dtype))
        return RaggedTensor.from_row_splits(values, splits)
