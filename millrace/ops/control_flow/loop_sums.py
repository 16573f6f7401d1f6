"""Sums over a loop's iterations that are made once, behind the loop, instead of in each iteration.

The gradient of a matrix that all iterations use is the sum of a product per iteration,

    x[0]^T dy[0] + x[1]^T dy[1] + ...  =  [x[0]; x[1]; ...]^T [dy[0]; dy[1]; ...]

so the gradient's loop only keeps x and dy, and one large product follows it, which takes a third
of the time of many small ones and their sum. The same holds for sums over rows (of a bias), and
for rows of a table (IndexedSlices), which stay rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph import registry
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.function import FuncGraph
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.control_flow import tensor_list

_SCALAR = TensorShape([])


class _Join(NamedTuple):
    """A part of the gradient of loop variable `position`: what is made of joined lists."""

    position: int
    kind: str
    lists: list[int]
    dense_shape: Tensor | None


class Joins:
    """Which gradients are made behind a loop, and the lists that the loop carries for them.

    Attributes:
      lists: For each list the type of its elements, the loop's argument and what it becomes.
    """

    def __init__(self, graph: FuncGraph) -> None:
        self._graph = graph
        self.lists: list[tuple[dtypes.DType, Tensor, Tensor]] = []
        #: The shape of a row, for each list.
        self._widths: list[list[int]] = []
        self._places: dict[Tensor, int] = {}
        self._joins: list[_Join] = []

    def take(self, position: int, grad: Any, of: Tensor) -> Any:
        """Takes over what can be made behind the loop of the gradient of a loop variable.

        Args:
          position: The loop variable.
          grad: What an iteration adds to its gradient; may be None.
          of: What the loop variable is outside.

        Returns:
          What is left, to be added up in the loop; None for nothing.
        """
        if isinstance(grad, IndexedSlices):
            return grad if not self._take_rows(position, grad, of) else None
        if grad is None or not grad.shape.is_fully_defined():
            return grad
        if grad.op.type != "AddN":
            return None if self._take_one(position, grad) else grad
        left = [part for part in grad.op.inputs if not self._take_one(position, part)]
        if len(left) == len(grad.op.inputs):
            return grad
        if len(left) > 1:
            return registry.lookup("AddN")(left)  # type: ignore[operator]
        return left[0] if left else None

    def _take_one(self, position: int, grad: Tensor) -> bool:
        op = grad.op
        if op.type == "MatMul" and op.attrs["transpose_a"] and not op.attrs["transpose_b"]:
            widths = [[int(size)] for size in grad.shape.as_list() if size is not None]
            lists = [self._list(t, w) for t, w in zip(op.inputs, widths, strict=True)]
            self._joins.append(_Join(position, "product", lists, None))
        elif op.type == "BiasAddGrad" and op.attrs["data_format"] == b"NHWC":
            width = [int(size) for size in grad.shape.as_list() if size is not None]
            self._joins.append(_Join(position, "sum", [self._list(op.inputs[0], width)], None))
        elif (rows := _summed_rows(grad)) is not None:
            width = [int(size) for size in grad.shape.as_list() if size is not None]
            self._joins.append(_Join(position, "sum", [self._list(rows, width)], None))
        else:
            return False
        return True

    def _take_rows(self, position: int, grad: IndexedSlices, of: Tensor) -> bool:
        shape = of.handle_data[0] if of.handle_data is not None else of.shape
        if shape.ndims is None or not shape[1:].is_fully_defined():
            return False
        width = [int(size) for size in shape[1:].as_list() if size is not None]
        lists = [self._list(grad.values, width), self._list(grad.indices, [])]
        self._joins.append(_Join(position, "rows", lists, of))
        return True

    def _list(self, tensor: Tensor, width: list[int]) -> int:
        """The number of the list that keeps the values of a tensor."""
        tensor = self._graph.capture(tensor)
        place = self._places.get(tensor)
        if place is None or self._widths[place] != width:
            argument = self._graph.add_argument(dtypes.variant, _SCALAR, "joined")
            pushed = tensor_list.TensorListPushBack(argument, tensor)
            place = self._places[tensor] = len(self.lists)
            self.lists.append((tensor.dtype.base_dtype, argument, pushed))
            self._widths.append(width)
        return place

    def results(self, lists: list[Tensor]) -> dict[int, list[Any]]:
        """The gradients, given what the loop made of the lists; built around the loop."""
        joined: dict[int, Tensor] = {}
        found: dict[int, list[Any]] = {}
        for join in self._joins:
            for place in join.lists:
                if place not in joined:
                    joined[place] = self._joined(place, lists[place])
            values = [joined[place] for place in join.lists]
            found.setdefault(join.position, []).append(_made(join, values))
        return found

    def _joined(self, place: int, handle: Tensor) -> Tensor:
        width = self._widths[place]
        sizes = convert_to_tensor(width, dtypes.int32)
        made: Tensor = tensor_list.JoinedElements(handle, sizes, element_dtype=self.lists[place][0])
        made.set_shape([None, *width])
        return made


def _summed_rows(grad: Tensor) -> Tensor | None:
    """The rows whose sum a vector is; None if it is no such sum.

    That is how the gradient of a vector that was broadcast to rows is made.
    """
    op = grad.op
    if op.type == "Reshape":
        op = op.inputs[0].op
    if op.type != "Sum" or op.attrs["keep_dims"] or grad.shape.ndims != 1:
        return None
    rows, axes = op.inputs[0], constant_value(op.inputs[1])
    rank = rows.shape.ndims
    if (
        axes is None
        or rank is None
        or rank < 2
        or rows.shape[-1:].as_list() != grad.shape.as_list()
    ):
        return None
    summed = sorted(int(axis) % rank for axis in axes.ravel())
    return rows if summed == list(range(rank - 1)) else None


def _made(join: _Join, values: list[Tensor]) -> Any:
    if join.kind == "product":
        return registry.lookup("MatMul")(*values, transpose_a=True)  # type: ignore[operator]
    if join.kind == "sum":
        return registry.lookup("BiasAddGrad")(values[0])  # type: ignore[operator]
    assert join.dense_shape is not None
    is_handle = join.dense_shape.dtype.base_dtype == dtypes.resource
    shape = registry.lookup("VariableShape" if is_handle else "Shape")
    return IndexedSlices(values[0], values[1], shape(join.dense_shape))  # type: ignore[operator]
