"""Vectors as sets and tables: unique, differences, partitions, stitching, searching.

Ops whose output shape depends on their values run on the host; they also take ``xp``, so that
they fold where their inputs are known while a program is traced (shape arithmetic in
TensorFlow's own gradients uses ListDiff and DynamicStitch).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from millrace.compiler.xla import jax, jnp
from millrace.core import dtypes, pieces
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, merge_shapes
from millrace.graph.slices import SparseTensor, SparseTensorValue
from millrace.graph.tensor import Tensor
from millrace.ops.array import gather as array_gather
from millrace.ops.array import shape as array_shape
from millrace.ops.array.first_positions import first_positions
from millrace.ops.array.rules import (
    bad_partition_text,
    partition_shapes_text,
    place_text,
    require_rank,
    require_rank_at_least,
    shape_text,
    zero_of,
)
from millrace.ops.math import numeric, reduction
from millrace.ops.strings import fingerprint as farm
from millrace.platform import limits

__all__ = [
    "dynamic_partition",
    "dynamic_stitch",
    "edit_distance",
    "fingerprint",
    "listdiff",
    "parallel_dynamic_stitch",
    "searchsorted",
    "setdiff1d",
    "unique",
    "unique_with_counts",
]


# -- Sets --------------------------------------------------------------------------------


class UniqueResult(NamedTuple):
    """Distinct values in the order in which they first occur, and where each value went."""

    y: Tensor
    idx: Tensor


class UniqueWithCountsResult(NamedTuple):
    """As `UniqueResult`, and how often each occurs."""

    y: Tensor
    idx: Tensor
    count: Tensor  # type: ignore[assignment]  # TensorFlow's name; hides tuple.count


class ListDiffResult(NamedTuple):
    """What is left, and where in `x` it was."""

    out: Tensor
    idx: Tensor


def _unique_shapes(c: ShapeContext) -> list[TensorShape]:
    require_rank(c.shape(0), 1)
    shapes = [TensorShape([None]), c.shape(0).with_rank(1), TensorShape([None])]
    return shapes[: c.output_count]


def _distinct(x: Any, axis: int = 0) -> tuple[Any, Any, Any]:
    """Distinct slices along an axis by first occurrence, the inverse, and the counts."""
    if x.shape[axis] == 0:
        return x, np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, first, inverse, counts = np.unique(
        x,
        axis=None if x.ndim == 1 else axis,
        return_index=True,
        return_inverse=True,
        return_counts=True,
        equal_nan=False,
    )
    # NumPy sorts the values; TensorFlow keeps the order of the input.
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return np.take(x, first[order], axis), rank[inverse.reshape(-1)], counts[order]


def _by_first_position(x: Any) -> tuple[Any, Any] | None:
    """As `_distinct`, without counts and without sorting; None where that cannot be."""
    first = first_positions(x)
    if first is None:
        return None
    is_first = first == np.arange(len(x), dtype=np.int32)
    rank = np.cumsum(is_first, dtype=np.int32) - 1
    return x[is_first], rank[first]


@op(
    "Unique(x: T) -> (y: T, idx: out_idx) where out_idx: index = int32",
    shape=_unique_shapes,
    gradient=NO_GRADIENT,
    host=True,
)
def Unique(x: Any, *, xp: Any) -> Any:
    """The distinct elements of a vector."""
    if x.ndim != 1:
        raise ValueError("unique expects a 1D vector.")
    return _by_first_position(x) or _distinct(x)[:2]


@op(
    "UniqueWithCounts(x: T) -> (y: T, idx: out_idx, count: out_idx) where out_idx: index = int32",
    shape=_unique_shapes,
    gradient=NO_GRADIENT,
    host=True,
)
def UniqueWithCounts(x: Any, *, xp: Any) -> Any:
    """The distinct elements of a vector, and how often each occurs."""
    if x.ndim != 1:
        raise ValueError("unique expects a 1D vector.")
    return _distinct(x)


def _unique_along_shapes(c: ShapeContext) -> list[TensorShape]:
    shapes = [unknown_shape(c.shape(0).ndims), TensorShape([None]), TensorShape([None])]
    return shapes[: c.output_count]


def _unique_axis(x: Any, axis: Any) -> int:
    if axis.size > 1:
        raise ValueError(f"axis does not support input tensors larger than 1 element: {axis}")
    if not axis.size:
        if x.ndim != 1:
            raise ValueError("unique expects a 1D vector.")
        return 0
    return int(axis.item()) % x.ndim


@op(
    "UniqueV2(x: T, axis: Taxis) -> (y: T, idx: out_idx) "
    "where Taxis: index = int64; out_idx: index = int32",
    shape=_unique_along_shapes,
    gradient=NO_GRADIENT,
    host=True,
)
def UniqueV2(x: Any, axis: Any, *, xp: Any) -> Any:
    """The distinct slices of a tensor along an axis."""
    return _distinct(x, _unique_axis(x, axis))[:2]


@op(
    "UniqueWithCountsV2(x: T, axis: Taxis) -> (y: T, idx: out_idx, count: out_idx) "
    "where Taxis: index = int64; out_idx: index = int32",
    shape=_unique_along_shapes,
    gradient=NO_GRADIENT,
    host=True,
)
def UniqueWithCountsV2(x: Any, axis: Any, *, xp: Any) -> Any:
    """The distinct slices of a tensor along an axis, and how often each occurs."""
    return _distinct(x, _unique_axis(x, axis))


def unique(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> UniqueResult:
    """The distinct elements of a vector, in the order in which they first occur.

    Returns:
      ``(y, idx)`` with ``x[i] == y[idx[i]]``.
    """
    return UniqueResult(*Unique(x, out_idx=out_idx, name=name))


def unique_with_counts(
    x: Any, out_idx: Any = dtypes.int32, name: str | None = None
) -> UniqueWithCountsResult:
    """As `unique`, with how often each element occurs: ``(y, idx, count)``."""
    return UniqueWithCountsResult(*UniqueWithCounts(x, out_idx=out_idx, name=name))


@op(
    "ListDiff(x: T, y: T) -> (out: T, idx: out_idx) where out_idx: index = int32",
    shape=lambda c: [TensorShape([None]), TensorShape([None])],
    gradient=NO_GRADIENT,
    host=True,
)
def ListDiff(x: Any, y: Any, *, xp: Any) -> Any:
    """The elements of `x` that are not in `y`."""
    for name, vector in (("x", x), ("y", y)):
        if vector.ndim != 1:
            raise ValueError(f"{name} should be a 1D vector.")
    if x.dtype != object:
        places = np.flatnonzero(~np.isin(x, y))
        return x[places], places
    gone: set[bytes] = set()
    for part in pieces.slices(len(y)):
        gone.update(y[part].tolist())
    stays = np.empty(len(x), bool)
    for part in pieces.slices(len(x)):
        stays[part] = [value not in gone for value in x[part].tolist()]
    places = np.flatnonzero(stays)
    return x[places], places


def setdiff1d(
    x: Any, y: Any, index_dtype: Any = dtypes.int32, name: str | None = None
) -> ListDiffResult:
    """The elements of the vector `x` that are not in `y`, and their places: ``(out, idx)``."""
    return ListDiffResult(*ListDiff(x, y, out_idx=index_dtype, name=name))


def listdiff(
    x: Any, y: Any, out_idx: Any = dtypes.int32, name: str | None = None
) -> ListDiffResult:
    """The old name of `setdiff1d`."""
    return ListDiffResult(*ListDiff(x, y, out_idx=out_idx, name=name))


# -- Partitions --------------------------------------------------------------------------


def _partition_shapes(c: ShapeContext) -> list[TensorShape]:
    data, partitions = c.shape(0), c.shape(1)
    count = c.attr("num_partitions")
    if data.sizes is None or partitions.sizes is None:
        return [unknown_shape()] * count
    depth = len(partitions.sizes)
    if depth > len(data.sizes):
        raise ValueError(partition_shapes_text(data.sizes, partitions.sizes))
    merge_shapes(TensorShape(data.sizes[:depth]), partitions)
    return [TensorShape([None, *data.sizes[depth:]])] * count


@op(
    "DynamicPartition(data: T, partitions: int32) -> outputs: num_partitions*T "
    "where num_partitions: int >= 1",
    shape=_partition_shapes,
    host=True,
)
def DynamicPartition(data: Any, partitions: Any, *, num_partitions: int, xp: Any) -> Any:
    """The slices of `data`, sorted into parts by number."""
    if data.shape[: partitions.ndim] != partitions.shape:
        raise ValueError(partition_shapes_text(data.shape, partitions.shape))
    if ((partitions < 0) | (partitions >= num_partitions)).any():
        raise ValueError(bad_partition_text(partitions, num_partitions))
    return [data[partitions == i] for i in range(num_partitions)]


@DynamicPartition.gradient
def _(op: Operation, *grads: Any) -> Any:
    data, partitions = op.inputs
    count = op.attrs["num_partitions"]
    shape = array_shape.shape(partitions)
    places = array_shape.reshape(numeric.range(reduction.reduce_prod(shape)), shape)
    parts = dynamic_partition(places, partitions, count)
    joined = parallel_dynamic_stitch(parts, list(grads))
    return [array_shape.reshape(joined, array_shape.shape(data)), None]


def dynamic_partition(
    data: Any, partitions: Any, num_partitions: int, name: str | None = None
) -> list[Tensor]:
    """Parts of `data`: slice i goes to part ``partitions[i]``.

    Args:
      data: The tensor.
      partitions: Numbers of parts; its shape is the front of that of `data`.
      num_partitions: How many parts.
      name: Name of the op.
    """
    result: list[Tensor] = DynamicPartition(
        data, partitions, num_partitions=num_partitions, name=name
    )
    return result


def _stitched_shape(c: ShapeContext) -> TensorShape:
    tail = unknown_shape()
    for indices, data in zip(c.shapes("indices"), c.shapes("data"), strict=True):
        if indices.sizes is None or data.sizes is None:
            continue
        depth = len(indices.sizes)
        merge_shapes(indices, TensorShape(data.sizes[:depth]))
        tail = merge_shapes(tail, TensorShape(data.sizes[depth:]))
    largest: int | None = -1
    for i in range(c.attr("N")):
        value = c.value(i)
        if value is None:
            largest = None
            break
        largest = max(largest if largest is not None else -1, int(value.max(initial=-1)))
    first = TensorShape([None if largest is None else largest + 1])
    return first.concatenate(tail)


def _stitch(indices: list[Any], data: list[Any]) -> Any:
    for i, (index, values) in enumerate(zip(indices, data, strict=True)):
        if values.shape[: index.ndim] != index.shape:
            raise ValueError(
                f"data[{i}].shape = {shape_text(values.shape)} does not start with "
                f"indices[{i}].shape = {shape_text(index.shape)}"
            )
        if values.shape[index.ndim :] != data[0].shape[indices[0].ndim :]:
            raise ValueError(
                f"Need data[0].shape[{indices[0].ndim}:] = data[{i}].shape[{index.ndim}:], got "
                f"data[0].shape = {shape_text(data[0].shape)}, data[{i}].shape = "
                f"{shape_text(values.shape)}, indices[0].shape = {shape_text(indices[0].shape)}, "
                f"indices[{i}].shape = {shape_text(index.shape)}"
            )
    count = 1 + max(int(index.max(initial=-1)) for index in indices)
    tail = data[0].shape[indices[0].ndim :]
    limits.check_array(count * math.prod(tail), data[0].itemsize, "the merged slices")
    if data[0].dtype == object:
        limits.STRING_ELEMENTS.check(count * math.prod(tail), "Elements of the merged slices")
    result = np.full((count, *tail), zero_of(data[0].dtype), data[0].dtype)
    for index, values in zip(indices, data, strict=True):
        flat = index.reshape(-1)
        if flat.size and flat.min() < 0:
            bad = int(np.argmax(flat < 0))
            raise ValueError(f"indices{place_text(index.shape, bad)} is out of range")
        result[flat] = values.reshape(flat.size, *tail)
    return result


@op(
    "DynamicStitch(indices: N*int32, data: N*T) -> merged: T where N: int >= 1",
    shape=_stitched_shape,
    host=True,
)
def DynamicStitch(indices: list[Any], data: list[Any], *, xp: Any) -> Any:
    """Slices put at the given places of one tensor; of several for a place the last stays."""
    return _stitch(indices, data)


@op(
    "ParallelDynamicStitch(indices: N*int32, data: N*T) -> merged: T where N: int >= 1",
    shape=_stitched_shape,
    host=True,
)
def ParallelDynamicStitch(indices: list[Any], data: list[Any], *, xp: Any) -> Any:
    """As `DynamicStitch`; which of several for a place stays is not said."""
    return _stitch(indices, data)


def _stitch_gradient(op: Operation, grad: Any) -> Any:
    count = op.attrs["N"]
    return [None] * count + [array_gather.gather(grad, i) for i in op.inputs[:count]]


DynamicStitch.gradient(_stitch_gradient)
ParallelDynamicStitch.gradient(_stitch_gradient)


def dynamic_stitch(indices: Any, data: Any, name: str | None = None) -> Tensor:
    """One tensor from slices: ``merged[indices[m][i]] = data[m][i]``.

    Args:
      indices: A list of integer tensors.
      data: A list of tensors; the shape of each begins with that of its indices.
      name: Name of the op.
    """
    result: Tensor = DynamicStitch(list(indices), list(data), name=name)
    return result


def parallel_dynamic_stitch(indices: Any, data: Any, name: str | None = None) -> Tensor:
    """As `dynamic_stitch`, for indices that do not repeat."""
    result: Tensor = ParallelDynamicStitch(list(indices), list(data), name=name)
    return result


# -- Searching ---------------------------------------------------------------------------


def _bounds(sorted_inputs: Any, values: Any, side: Any, xp: Any) -> Any:
    for name, x in (("sorted_inputs", sorted_inputs), ("values", values)):
        if x.ndim != 2:
            raise ValueError(f"{name} must be a matrix, got shape {shape_text(x.shape)}")
    if sorted_inputs.shape[0] != values.shape[0]:
        raise ValueError("Leading dim_size of both tensors must match.")
    if xp is np:
        rows = [np.searchsorted(s, v, side) for s, v in zip(sorted_inputs, values, strict=True)]
        return np.array(rows, np.int64).reshape(values.shape)
    return jax.vmap(lambda s, v: jnp.searchsorted(s, v, side=side))(
        jnp.asarray(sorted_inputs), jnp.asarray(values)
    )


def _searched_shape(c: ShapeContext) -> TensorShape:
    require_rank(c.shape(0), 2)
    require_rank(c.shape(1), 2)
    return c.shape(1)


@op(
    "LowerBound(sorted_inputs: T, values: T) -> output: out_type where out_type: index = int32",
    shape=_searched_shape,
    gradient=NO_GRADIENT,
)
def LowerBound(sorted_inputs: Any, values: Any, *, xp: Any) -> Any:
    """For each value the first place in its row that is not less."""
    return _bounds(sorted_inputs, values, "left", xp)


@op(
    "UpperBound(sorted_inputs: T, values: T) -> output: out_type where out_type: index = int32",
    shape=_searched_shape,
    gradient=NO_GRADIENT,
)
def UpperBound(sorted_inputs: Any, values: Any, *, xp: Any) -> Any:
    """For each value the first place in its row that is greater."""
    return _bounds(sorted_inputs, values, "right", xp)


def lower_bound(
    sorted_inputs: Any, values: Any, out_type: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """`searchsorted` on the left, for matrices."""
    result: Tensor = LowerBound(sorted_inputs, values, out_type=out_type, name=name)
    return result


def upper_bound(
    sorted_inputs: Any, values: Any, out_type: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """`searchsorted` on the right, for matrices."""
    result: Tensor = UpperBound(sorted_inputs, values, out_type=out_type, name=name)
    return result


def searchsorted(
    sorted_sequence: Any,
    values: Any,
    side: str = "left",
    out_type: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Where values would go in sorted rows to keep them sorted.

    Args:
      sorted_sequence: Rows sorted along the last dimension.
      values: What to look for; all but the last dimension as in `sorted_sequence`.
      side: ``left``: before equal elements; ``right``: behind them.
      out_type: int32 or int64.
      name: Name of the op.

    Raises:
      ValueError: `side` is something else.
    """
    if side not in ("left", "right"):
        raise ValueError(
            f"Argument `side` must be either 'right' or 'left'. Received: `side` = '{side}'."
        )
    row_size: Any = array_shape.shape(sorted_sequence)[-1]
    value_size: Any = array_shape.shape(values)[-1]
    rows = array_shape.reshape(sorted_sequence, [-1, row_size])
    wanted = array_shape.reshape(values, [-1, value_size])
    search = upper_bound if side == "right" else lower_bound
    return array_shape.reshape(search(rows, wanted, out_type, name), array_shape.shape(values))


# -- Comparing sequences -----------------------------------------------------------------


def _distance_shape(c: ShapeContext) -> TensorShape:
    shapes = [c.value("hypothesis_shape"), c.value("truth_shape")]
    lengths = [c.shape(name).sizes for name in ("hypothesis_shape", "truth_shape")]
    known = [sizes[0] for sizes in lengths if sizes is not None and sizes[0] is not None]
    if known and min(known) < 2:
        raise ValueError(
            "Input Hypothesis SparseTensors must have rank at least 2, but hypothesis_shape rank "
            f"is: {min(known)}"
        )
    if len(set(known)) > 1:
        raise ValueError(
            "Num elements of hypothesis_shape does not match truth_shape: "
            f"{known[0]} vs. {known[1]}"
        )
    if shapes[0] is None or shapes[1] is None:
        return unknown_shape(known[0] - 1 if known else None)
    return TensorShape([int(s) for s in np.maximum(shapes[0], shapes[1])[:-1]])


def _sequences(indices: Any, values: Any) -> dict[tuple[int, ...], list[Any]]:
    """The values of a sparse tensor by place, without the last coordinate."""
    found: dict[tuple[int, ...], list[Any]] = {}
    for place, value in zip(indices.tolist(), values.tolist(), strict=True):
        found.setdefault(tuple(place[:-1]), []).append(value)
    return found


def _levenshtein(source: list[Any], target: list[Any]) -> int:
    """How many insertions, deletions and replacements lead from one to the other."""
    previous = list(range(len(target) + 1))
    for i, wanted in enumerate(source, 1):
        row = [i]
        for j, found in enumerate(target, 1):
            row.append(min(previous[j] + 1, row[-1] + 1, previous[j - 1] + (wanted != found)))
        previous = row
    return previous[-1]


@op(
    "EditDistance(hypothesis_indices: int64, hypothesis_values: T, hypothesis_shape: int64, "
    "truth_indices: int64, truth_values: T, truth_shape: int64) -> output: float32 "
    "where normalize: bool = true",
    shape=_distance_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def EditDistance(
    hypothesis_indices: Any,
    hypothesis_values: Any,
    hypothesis_shape: Any,
    truth_indices: Any,
    truth_values: Any,
    truth_shape: Any,
    *,
    normalize: bool,
) -> Any:
    """The Levenshtein distance of each pair of sequences."""
    if hypothesis_shape.size != truth_shape.size:
        raise ValueError(
            "Expected hypothesis_shape.NumElements() == truth_shape.NumElements(), got "
            f"{hypothesis_shape.size} and {truth_shape.size}"
        )
    guesses = _sequences(hypothesis_indices, hypothesis_values)
    truths = _sequences(truth_indices, truth_values)
    result = np.zeros(np.maximum(hypothesis_shape, truth_shape)[:-1], np.float32)
    for place in {*guesses, *truths}:
        truth = truths.get(place, [])
        distance: float = _levenshtein(guesses.get(place, []), truth)
        if normalize:
            distance = distance / len(truth) if truth else np.inf
        result[place] = distance
    return result


def edit_distance(
    hypothesis: Any, truth: Any, normalize: bool = True, name: str | None = "edit_distance"
) -> Tensor:
    """The Levenshtein distance between sequences.

    Args:
      hypothesis: A SparseTensor of sequences (along its last dimension).
      truth: A SparseTensor of the right sequences.
      normalize: Whether distances are divided by the lengths of the right sequences.
      name: Name of the op.

    Raises:
      TypeError: One of them is no SparseTensor.
    """
    for label, value in (("Hypothesis", hypothesis), ("Truth", truth)):
        if not isinstance(value, SparseTensor | SparseTensorValue):
            raise TypeError(f"{label} must be a SparseTensor.")
    parts = [*_parts(hypothesis), *_parts(truth)]
    result: Tensor = EditDistance(*parts, normalize=normalize, name=name)
    return result


def _parts(value: Any) -> tuple[Any, Any, Any]:
    tensor = SparseTensor.from_value(value)
    return tensor.indices, tensor.values, tensor.dense_shape


def _fingerprint_shape(c: ShapeContext) -> TensorShape:
    require_rank_at_least(c.shape(0), 1)
    require_rank(c.shape(1), 0)
    method = c.value("method")
    if method is not None and method.item() != b"farmhash64":
        raise ValueError(f"Unsupported method: {method.item().decode()}")
    sizes = c.shape(0).sizes
    return TensorShape([None if sizes is None else sizes[0], 8])


@op(
    "Fingerprint(data: T, method: string) -> fingerprint: uint8",
    shape=_fingerprint_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def Fingerprint(data: Any, method: Any) -> Any:
    """A hash of each row that never changes."""
    if method.item() != b"farmhash64":
        raise ValueError(f"Unsupported method: {method.item().decode()}")
    count = data.shape[0]
    rows = data.reshape(count, -1)
    if data.dtype == object:
        hashes = farm.fingerprint64(list(rows.reshape(-1)))
        if data.ndim == 1:
            return hashes.astype("<u8").view(np.uint8).reshape(count, 8)
        # Rows of several strings: the hash of their hashes.
        rows = hashes.astype("<u8").reshape(rows.shape)
    encoded = [np.ascontiguousarray(row).tobytes() for row in rows]
    return farm.fingerprint64(encoded).astype("<u8").view(np.uint8).reshape(count, 8)


def fingerprint(data: Any, method: Any = "farmhash64", name: str | None = None) -> Tensor:
    """A hash (8 bytes) of each row of `data`, the same in every program and on every machine."""
    result: Tensor = Fingerprint(data, method, name=name)
    return result
