"""SparseTensors stored under numbers, so that queues of dense tensors can carry them.

`batch` enqueues the numbers and takes the tensors back when it dequeues. Taking removes.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, scalars, vector_of_unknown
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.data_flow import shared_state
from millrace.platform import limits

__all__: list[str] = []

#: What three small arrays take as Python objects.
_BYTES_PER_ROW = 512
#: Indices, values and dense shape of a SparseTensor.
Parts = tuple[Any, Any, Any]


class SparseMap:
    """SparseTensors by number."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._tensors: dict[int, Parts] = {}
        self._next = 0

    def add(self, tensors: list[Parts]) -> list[int]:
        """Puts tensors aside; their numbers."""
        with self._lock:
            numbers = list(range(self._next, self._next + len(tensors)))
            self._next += len(tensors)
            self._tensors.update(zip(numbers, tensors, strict=True))
        return numbers

    def take(self, numbers: list[int]) -> list[Parts]:
        """Takes tensors out.

        Raises:
          ValueError: There is no tensor of a number.
        """
        with self._lock:
            for number in numbers:
                if number not in self._tensors:
                    raise ValueError(f"Unable to find SparseTensor: {number} in map: {self._name}")
            return [self._tensors.pop(number) for number in numbers]


def _map(ctx: Any, node: Any) -> SparseMap:
    handle = shared_state.name_of(ctx, node, use_node_name=True)
    return shared_state.make(SparseMap, ctx, handle, lambda: SparseMap(handle.name))


def _check(indices: Any, values: Any, shape: Any) -> None:
    if indices.ndim != 2:
        raise ValueError(
            "Input indices should be a matrix but received shape "
            f"{shared_state.shape_text(indices.shape)}"
        )
    if values.ndim != 1 or len(values) != len(indices):
        raise ValueError(
            f"Number of values must match first dimension of indices. Got {values.size} values, "
            f"indices shape: {shared_state.shape_text(indices.shape)}"
        )
    if shape.ndim != 1 or len(shape) != indices.shape[1]:
        raise ValueError(
            f"Number of dimensions must match second dimension of indices. Got {shape.size} "
            f"dimensions, indices shape: {shared_state.shape_text(indices.shape)}"
        )


_NAMED = 'container: string = ""; shared_name: string = ""'


@op(
    "AddSparseToTensorsMap(sparse_indices: int64, sparse_values: T, sparse_shape: int64) -> "
    f"sparse_handle: int64 where T: type; {_NAMED}",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def AddSparseToTensorsMap(
    sparse_indices: Any, sparse_values: Any, sparse_shape: Any, *, ctx: Any, node: Any
) -> Any:
    """Puts a SparseTensor aside; its number."""
    _check(sparse_indices, sparse_values, sparse_shape)
    parts = tuple(shared_state.kept(part) for part in (sparse_indices, sparse_values, sparse_shape))
    return _map(ctx, node).add([parts])[0]


@op(
    "AddManySparseToTensorsMap(sparse_indices: int64, sparse_values: T, sparse_shape: int64) -> "
    f"sparse_handles: int64 where T: type; {_NAMED}",
    shape=vector_of_unknown,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def AddManySparseToTensorsMap(
    sparse_indices: Any, sparse_values: Any, sparse_shape: Any, *, ctx: Any, node: Any
) -> Any:
    """Puts the rows of a SparseTensor aside, each by itself; their numbers."""
    _check(sparse_indices, sparse_values, sparse_shape)
    if len(sparse_shape) < 2:
        raise ValueError(
            f"Rank of input SparseTensor should be > 1, but saw rank: {len(sparse_shape)}"
        )
    rows = sparse_indices[:, 0]
    count = int(sparse_shape[0])
    if rows.size and not 0 <= rows.min() <= rows.max() < count:
        raise ValueError(f"Row {rows.max()} is not one of the {count} rows of the SparseTensor")
    limits.LIST_ELEMENTS.check(count, "Rows of the SparseTensor")
    limits.check_array(count, _BYTES_PER_ROW, "the rows of the SparseTensor")
    order = np.argsort(rows, kind="stable")
    indices, values = sparse_indices[order, 1:], sparse_values[order]
    filled, starts = np.unique(rows[order], return_index=True)
    ends = [*starts[1:], len(rows)]
    inside = [slice(start, end) for start, end in zip(starts, ends, strict=True)]
    # As TensorFlow numbers them: rows without entries come last.
    parts = [*inside, *[slice(0)] * (count - len(inside))]
    added = _map(ctx, node).add(
        [(indices[p].copy(), values[p].copy(), sparse_shape[1:].copy()) for p in parts]
    )
    numbers = np.empty(count, np.int64)
    is_filled = np.zeros(count, bool)
    is_filled[filled] = True
    numbers[is_filled], numbers[~is_filled] = added[: len(filled)], added[len(filled) :]
    return numbers


def _taken_shapes(c: ShapeContext) -> list[TensorShape]:
    return [TensorShape([None, None]), TensorShape([None]), TensorShape([None])]


@op(
    "TakeManySparseFromTensorsMap(sparse_handles: int64) -> (sparse_indices: int64, "
    f"sparse_values: dtype, sparse_shape: int64) where dtype: type; {_NAMED}",
    shape=_taken_shapes,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def TakeManySparseFromTensorsMap(sparse_handles: Any, *, dtype: Any, ctx: Any, node: Any) -> Any:
    """Takes SparseTensors out, and stacks them into one."""
    if sparse_handles.ndim != 1:
        raise ValueError(
            "sparse_handles should be a vector but received shape "
            f"{shared_state.shape_text(sparse_handles.shape)}"
        )
    tensors = _map(ctx, node).take(sparse_handles.tolist())
    if not tensors:
        raise ValueError("Must have at least 1 serialized SparseTensor, but input has 0")
    ranks = {len(shape) for _, _, shape in tensors}
    if len(ranks) > 1:
        raise ValueError(f"Inconsistent rank across SparseTensors: {sorted(ranks)}")
    if any(values.dtype != tensors[0][1].dtype for _, values, _ in tensors):
        raise ValueError("The SparseTensors in the map are of different types")
    indices = np.concatenate(
        [
            np.concatenate([np.full((len(part), 1), row, np.int64), part], axis=1)
            for row, (part, _, _) in enumerate(tensors)
        ]
    )
    values = np.concatenate([values for _, values, _ in tensors])
    largest = np.max([shape for _, _, shape in tensors], axis=0)
    return indices, values, np.array([len(tensors), *largest], np.int64)


def add_sparse_to_tensors_map(tensor: SparseTensor, shared_name: str) -> Tensor:
    """Puts a SparseTensor aside in the map of that name; a scalar that stands for it."""
    return AddSparseToTensorsMap(
        tensor.indices, tensor.values, tensor.dense_shape, shared_name=shared_name
    )


def add_many_sparse_to_tensors_map(tensor: SparseTensor, shared_name: str) -> Tensor:
    """Puts the rows of a SparseTensor aside; a vector that stands for them."""
    return AddManySparseToTensorsMap(
        tensor.indices, tensor.values, tensor.dense_shape, shared_name=shared_name
    )


def take_many_sparse_from_tensors_map(
    handles: Tensor, dtype: DType, shared_name: str, rank: int | None = None
) -> SparseTensor:
    """The SparseTensors that `handles` stand for, stacked into one.

    Args:
      handles: A vector of numbers.
      dtype: The type of the values.
      shared_name: The map that they were put into.
      rank: The rank of the result, if known.
    """
    indices, values, shape = TakeManySparseFromTensorsMap(
        handles, dtype=dtype, shared_name=shared_name
    )
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)
