"""Sorting along an axis, by TopKV2."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.graph import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.tensor import Tensor
from millrace.ops.array import layout as array_layout
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.math import comparison, numeric

__all__ = ["argsort", "sort"]


def sort(
    values: Any, axis: Any = -1, direction: str = "ASCENDING", name: str | None = None
) -> Tensor:
    """`values` sorted along an axis.

    Args:
      values: The tensor.
      axis: The axis; must be a constant.
      direction: ``ASCENDING`` or ``DESCENDING``.
      name: Name of the scope.

    Raises:
      ValueError: Another direction, or an axis that is not constant.
    """
    with name_scope(name, "sort"):
        return _sorted(values, axis, direction, want_indices=False)


def argsort(
    values: Any,
    axis: Any = -1,
    direction: str = "ASCENDING",
    stable: bool = False,
    name: str | None = None,
) -> Tensor:
    """The positions (int32) that would sort `values` along an axis.

    Equal elements keep their order, whether `stable` says so or not. Other arguments as in
    `sort`.
    """
    with name_scope(name, "argsort"):
        return _sorted(values, axis, direction, want_indices=True)


def _sorted(values: Any, axis: Any, direction: str, want_indices: bool) -> Tensor:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(
            "Argument `direction` should be one of ASCENDING, DESCENDING. Received: "
            f"direction={direction}"
        )
    place = constant_value.constant_value(convert_to_tensor(axis, name="axis"))
    if place is None:
        raise ValueError("axis must be a constant scalar")
    tensor: Any = convert_to_tensor(values)
    if direction == "DESCENDING":
        result, indices = _largest_first(tensor, int(place))
        return indices if want_indices else result
    # The order of the largest first of the mirrored values is that of the smallest first.
    result, indices = _largest_first(_mirrored(tensor), int(place))
    return indices if want_indices else _mirrored(result)


def _mirrored(values: Any) -> Any:
    """Values in the opposite order, without overflow; twice gives the values again."""
    dtype = values.dtype.base_dtype
    if dtype.is_unsigned:
        return np.array(dtype.max, dtype.as_numpy_dtype) - values
    if dtype.is_integer:
        return -values - np.array(1, dtype.as_numpy_dtype)
    return -values


def _largest_first(values: Any, axis: int) -> tuple[Tensor, Tensor]:
    count: Any = array_shape.shape(values)[axis]
    rank = values.shape.ndims
    if axis == -1 or (rank is not None and axis % rank == rank - 1):
        found = numeric.top_k(values, count)
        return found[0], found[1]
    if rank is not None:
        order: Any = np.arange(rank, dtype=np.int32)
        order[[axis, -1]] = order[[-1, axis]]
    else:
        number: Any = array_shape.rank(values)
        axes = numeric.range(number)
        place, last = axis % number, number - 1
        others = array_select.where_v2(comparison.equal(axes, last), place, axes)
        order = array_select.where_v2(comparison.equal(axes, place), last, others)
    # Swapping two axes is its own inverse.
    swap = convert_to_tensor(order, dtypes.int32, name="transposition")
    found = numeric.top_k(array_layout.transpose(values, swap), count)
    return array_layout.transpose(found[0], swap), array_layout.transpose(found[1], swap)
