"""Structures of graph values: what a branch or loop body takes and returns, as flat tensors.

Leaves are tensors, SparseTensors, IndexedSlices, TensorArrays, operations, None, and what
converts to a tensor.
"""

from __future__ import annotations

from typing import Any

from millrace.core import nest
from millrace.core.tensor_shape import TensorShape, as_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.operation import Operation
from millrace.graph.slices import IndexedSlices, SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.control_flow.tensor_array import TensorArray


class TensorLeaf:
    """A plain tensor."""

    def __init__(self, value: Any) -> None:
        self.tensors = [convert_to_tensor(value)]

    def rebuild(self, node: Any, tensors: list[Tensor]) -> Any:
        """The leaf made of other tensors."""
        return tensors[0]

    def invariant_shapes(self, shape: Any) -> list[TensorShape]:
        """Shapes of the tensors, from the shape given for the leaf."""
        return [as_shape(shape)]


class SparseLeaf(TensorLeaf):
    """A SparseTensor."""

    def __init__(self, value: SparseTensor) -> None:
        self.tensors = [value.indices, value.values, value.dense_shape]

    def rebuild(self, node: Any, tensors: list[Tensor]) -> Any:
        """The leaf made of other tensors."""
        return SparseTensor(*tensors)

    def invariant_shapes(self, shape: Any) -> list[TensorShape]:
        """Shapes of indices, values and dense_shape, from the shape of the latter."""
        rank = as_shape(shape).ndims
        sizes = as_shape(shape).sizes
        count = sizes[0] if sizes is not None and rank == 1 else None
        return [TensorShape([None, count]), TensorShape([None]), TensorShape([count])]


class SlicesLeaf(TensorLeaf):
    """An IndexedSlices."""

    def __init__(self, value: IndexedSlices) -> None:
        self.tensors = [value.values, value.indices]
        if value.dense_shape is not None:
            self.tensors.append(value.dense_shape)

    def rebuild(self, node: Any, tensors: list[Tensor]) -> Any:
        """The leaf made of other tensors."""
        return IndexedSlices(*tensors)

    def invariant_shapes(self, shape: Any) -> list[TensorShape]:
        """Shapes of values, indices and dense_shape, from the shape of the values."""
        values = as_shape(shape)
        first = values.sizes[0] if values.sizes else None
        return [values, TensorShape([first]), TensorShape([values.ndims])][: len(self.tensors)]


class ArrayLeaf(TensorLeaf):
    """A TensorArray: its flow stands for it."""

    def __init__(self, value: TensorArray) -> None:
        self._array = value
        self.tensors = [value.flow]

    def rebuild(self, node: Any, tensors: list[Tensor]) -> Any:
        """The leaf made of another flow."""
        return self._array._with_flow(tensors[0])

    def invariant_shapes(self, shape: Any) -> list[TensorShape]:
        """A flow is a scalar."""
        return [TensorShape([])]


class OperationLeaf:
    """An operation: it runs, and the node that ran it stands for it."""

    def __init__(self, operation: Operation | None) -> None:
        self.operation = operation
        self.tensors: list[Tensor] = []

    def rebuild(self, node: Any, tensors: list[Tensor]) -> Any:
        """The node, or None for None."""
        return None if self.operation is None else node

    def invariant_shapes(self, shape: Any) -> list[TensorShape]:
        """There is no tensor."""
        return []


def _leaf(value: Any) -> Any:
    if value is None or isinstance(value, Operation):
        return OperationLeaf(value)
    if isinstance(value, SparseTensor):
        return SparseLeaf(value)
    if isinstance(value, IndexedSlices):
        return SlicesLeaf(value)
    if isinstance(value, TensorArray):
        return ArrayLeaf(value)
    return TensorLeaf(value)


class Leaves:
    """The leaves of a structure.

    Attributes:
      kinds: A leaf object each.
      tensors: The tensors of all leaves, in order.
      operations: The operations among the leaves.
    """

    def __init__(self, structure: Any) -> None:
        self._structure = structure
        self.kinds = [_leaf(value) for value in nest.flatten(structure)]
        self.tensors: list[Tensor] = [t for kind in self.kinds for t in kind.tensors]
        self.operations = [
            kind.operation
            for kind in self.kinds
            if isinstance(kind, OperationLeaf) and kind.operation is not None
        ]

    def rebuild(self, node: Any, tensors: Any) -> Any:
        """The structure with other tensors in it."""
        values = []
        start = 0
        for kind in self.kinds:
            count = len(kind.tensors)
            values.append(kind.rebuild(node, list(tensors[start : start + count])))
            start += count
        return nest.pack_sequence_as(self._structure, values)

    def describe(self) -> str:
        """The kinds and types of the leaves, for error messages."""
        return ", ".join(
            f"{type(k).__name__}({', '.join(t.dtype.name for t in k.tensors)})" for k in self.kinds
        )
