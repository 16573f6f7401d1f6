"""The ops of ragged tensors that TensorFlow's graphs hold. All run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import shape as array_shape

__all__: list[str] = []

_SPLITS = "Tsplits: {int32, int64} = int64"


def _lengths_of(starts: Any, limits: Any, deltas: Any) -> Any:
    if np.any(deltas == 0):
        raise ValueError("Requires delta != 0")
    if np.issubdtype(np.asarray(deltas).dtype, np.floating):
        steps = np.ceil((limits - starts) / deltas)
    else:
        steps = -((starts - limits) // deltas)
    return np.maximum(steps, 0).astype(np.int64)


def _range_shapes(c: ShapeContext) -> list[TensorShape]:
    known = [c.shape(i) for i in range(3)]
    if any(each.ndims is None for each in known):
        return [TensorShape([None]), TensorShape([None])]
    rows = next((each[0].value for each in known if each.ndims), 1)
    return [TensorShape([None if rows is None else rows + 1]), TensorShape([None])]


@op(
    "RaggedRange(starts: T, limits: T, deltas: T) -> (rt_nested_splits: Tsplits, "
    "rt_dense_values: T) where T: {bfloat16, float32, float64, int32, int64} = int32; " + _SPLITS,
    shape=_range_shapes,
    gradient=NO_GRADIENT,
    host=True,
)
def RaggedRange(starts: Any, limits: Any, deltas: Any, *, Tsplits: Any) -> Any:
    """The rows ``start, start + delta, …`` below their limits, one after the other."""
    sizes = {np.shape(each)[0] for each in (starts, limits, deltas) if np.ndim(each)}
    if len(sizes) > 1:
        raise ValueError("starts, limits, and deltas must have the same shape")
    rows = sizes.pop() if sizes else 1
    starts, limits, deltas = (np.broadcast_to(each, [rows]) for each in (starts, limits, deltas))
    lengths = _lengths_of(starts, limits, deltas)
    splits = np.concatenate([[0], np.cumsum(lengths)]).astype(Tsplits.as_numpy_dtype)
    places = np.arange(splits[-1]) - np.repeat(splits[:-1], lengths)
    values = np.repeat(starts, lengths) + places.astype(starts.dtype) * np.repeat(deltas, lengths)
    return splits, values.astype(starts.dtype)


def _gathered_shapes(c: ShapeContext) -> list[TensorShape]:
    values = c.shape("params_dense_values")
    tail = values[1:] if values.ndims is not None else unknown_shape()
    dense = TensorShape([None]).concatenate(tail)
    return [TensorShape([None])] * (c.output_count - 1) + [dense]


@op(
    "RaggedGather(params_nested_splits: PARAMS_RAGGED_RANK*Tsplits, params_dense_values: Tvalues, "
    "indices: Tindices) -> (output_nested_splits: OUTPUT_RAGGED_RANK*Tsplits, "
    "output_dense_values: Tvalues) where Tindices: {int32, int64}; " + _SPLITS,
    shape=_gathered_shapes,
    gradient=NO_GRADIENT,
    host=True,
)
def RaggedGather(params_nested_splits: list[Any], params_dense_values: Any, indices: Any) -> Any:
    """Rows of a ragged tensor by their numbers."""
    indices = np.asarray(indices)
    rows = indices.reshape(-1)
    count = len(params_nested_splits[0]) - 1
    if np.any((rows < 0) | (rows >= count)):
        bad = int(rows[(rows < 0) | (rows >= count)][0])
        raise ValueError(f"indices = {bad} is not in [0, {count})")
    splits_type = params_nested_splits[0].dtype
    # Outer dimensions of the indices are regular rows.
    made = [
        np.arange(0, int(np.prod(indices.shape[: axis + 2])) + 1, indices.shape[axis + 1])
        for axis in range(indices.ndim - 1)
    ]
    for splits in params_nested_splits:
        lengths = splits[rows + 1] - splits[rows]
        new = np.concatenate([[0], np.cumsum(lengths)])
        made.append(new)
        rows = np.arange(new[-1]) - np.repeat(new[:-1], lengths) + np.repeat(splits[rows], lengths)
    return [*(each.astype(splits_type) for each in made), params_dense_values[rows]]


@op(
    "RaggedTensorToSparse(rt_nested_splits: RAGGED_RANK*Tsplits, rt_dense_values: T) -> "
    "(sparse_indices: int64, sparse_values: T, sparse_dense_shape: int64) where " + _SPLITS,
    shape=lambda c: [TensorShape([None, None]), TensorShape([None]), TensorShape([None])],
    host=True,
)
def RaggedTensorToSparse(rt_nested_splits: list[Any], rt_dense_values: Any) -> Any:
    """The same elements with their coordinates."""
    values = np.asarray(rt_dense_values)
    shape = [len(rt_nested_splits[0]) - 1]
    coordinates = np.arange(shape[0])[:, None]
    for splits in rt_nested_splits:
        lengths = np.diff(splits)
        if splits[0] != 0 or np.any(lengths < 0):
            raise ValueError("Invalid ragged splits: they must begin with 0 and never decrease")
        shape.append(int(lengths.max(initial=0)))
        places = np.arange(splits[-1]) - np.repeat(splits[:-1], lengths)
        coordinates = np.column_stack([np.repeat(coordinates, lengths, axis=0), places])
    if len(values) != len(coordinates):
        raise ValueError(
            f"The last split is {len(coordinates)}, and there are {len(values)} values"
        )
    inner = values.shape[1:]
    if inner:
        per_row = np.indices(inner).reshape(len(inner), -1).T
        coordinates = np.concatenate(
            [
                np.repeat(coordinates, len(per_row), axis=0),
                np.tile(per_row, (len(coordinates), 1)),
            ],
            axis=1,
        )
    whole = np.array([*shape, *inner], np.int64)
    return coordinates.astype(np.int64), values.reshape(-1), whole


@RaggedTensorToSparse.gradient
def _(forward: Operation, indices: Tensor, values: Tensor, shape: Tensor) -> list[Any]:
    dense = forward.inputs[-1]
    none: list[Any] = [None] * (len(forward.inputs) - 1)
    return [*none, array_shape.reshape(values, array_shape.shape(dense))]
