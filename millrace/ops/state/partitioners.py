"""Partitioners: how many parts a variable is cut into, along which axis.

A partitioner is a function ``(shape, dtype) -> list`` with the number of parts along each
axis; at most one of them is more than 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, as_shape
from millrace.ops.state import variable_scope

__all__ = [
    "create_partitioned_variables",
    "fixed_size_partitioner",
    "min_max_variable_partitioner",
    "variable_axis_size_partitioner",
]

Partitioner = Callable[..., list[int]]


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Partitioner:
    """Cuts every variable into `num_shards` parts along `axis` (fewer if it is shorter)."""

    def partitioner(shape: TensorShape, **_: Any) -> list[int]:
        sizes = _checked_sizes(shape)
        parts = [1] * len(sizes)
        parts[axis] = min(num_shards, sizes[axis])
        return parts

    return partitioner


def variable_axis_size_partitioner(
    max_shard_bytes: int,
    axis: int = 0,
    bytes_per_string_element: int = 16,
    max_shards: int | None = None,
) -> Partitioner:
    """Cuts variables so that no part is larger than `max_shard_bytes`.

    Args:
      max_shard_bytes: The most that a part may hold.
      axis: The axis to cut along.
      bytes_per_string_element: What a string is taken to need.
      max_shards: The most parts, or None.
    """
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError("Both max_shard_bytes and bytes_per_string_element must be positive.")
    if max_shards and max_shards < 1:
        raise ValueError("max_shards must be positive.")

    def partitioner(shape: TensorShape, dtype: Any) -> list[int]:
        sizes = _checked_sizes(shape)
        element = _element_bytes(dtype, bytes_per_string_element)
        parts = [1] * len(sizes)
        bytes_per_slice = math.prod(sizes) // sizes[axis] * element
        # A part holds at least one slice, however large that is.
        slices_per_shard = max(1, math.floor(max_shard_bytes / max(1, bytes_per_slice)))
        shards = math.ceil(sizes[axis] / slices_per_shard)
        if max_shards:
            shards = min(max_shards, shards)
        parts[axis] = shards
        return parts

    return partitioner


def min_max_variable_partitioner(
    max_partitions: int = 1,
    axis: int = 0,
    min_slice_size: int = 256 << 10,
    bytes_per_string_element: int = 16,
) -> Partitioner:
    """Cuts variables into at most `max_partitions` parts of at least `min_slice_size` bytes."""

    def partitioner(shape: TensorShape, dtype: Any) -> list[int]:
        if axis >= len(shape):
            raise ValueError(
                f"Cannot partition variable along axis {axis} when shape is only {shape}"
            )
        sizes = _checked_sizes(shape)
        total = math.prod(sizes) * _element_bytes(dtype, bytes_per_string_element)
        parts = [1] * len(sizes)
        wanted = math.ceil(total / min_slice_size)
        parts[axis] = max(1, min(sizes[axis], max_partitions, wanted))
        return parts

    return partitioner


def _checked_sizes(shape: Any) -> list[int]:
    if not isinstance(shape, TensorShape):
        raise ValueError(f"shape is not a TensorShape: {shape}")
    if not shape.is_fully_defined():
        raise ValueError(f"shape is not fully defined: {shape}")
    return [int(size or 0) for size in shape.as_list()]


def _element_bytes(dtype: Any, bytes_per_string_element: int) -> int:
    kind = dtypes.as_dtype(dtype)
    if kind.base_dtype == dtypes.string:
        return bytes_per_string_element
    return int(kind.size)


def create_partitioned_variables(
    shape: Any,
    slicing: Sequence[int],
    initializer: Any,
    dtype: Any = dtypes.float32,
    trainable: bool = True,
    collections: Any = None,
    name: str | None = None,
    reuse: Any = None,
) -> list[Any]:
    """The parts of a new variable that is cut into `slicing[i]` parts along axis i.

    Older than partitioners; ``tf.get_variable(..., partitioner=...)`` is the way now.
    """
    sizes = as_shape(shape)
    if len(sizes) != len(slicing):
        raise ValueError(
            f"The 'shape' and 'slicing' of a new Partitioned Variable must have the length: "
            f"shape: {shape}, slicing: {slicing}"
        )
    if len(slicing) < 1:
        raise ValueError("A new Partitioned Variable must have at least one dimension.")

    def partitioner(**_: Any) -> list[int]:
        return list(slicing)

    with variable_scope.variable_scope(name, "PartitionedVariable", reuse=reuse):
        whole = variable_scope._get_partitioned_variable(
            name=None,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            trainable=trainable,
            partitioner=partitioner,
            collections=collections,
        )
        return list(whole)
