"""The graph of a gradient's body, which uses tensors of the forward body as if they were around it.

A gradient rule takes tensors of the op that it differentiates. In a body these belong to another
run of another function: `bring` says how such a tensor gets here (a loop keeps the values of all
iterations, a branch gives them out). Little is brought: constants are written again, and of a
tensor whose shape is all that is wanted, the forward body gives the shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape
from millrace.graph import gradient_walk
from millrace.graph.defaults import get_default_graph
from millrace.graph.function import FuncGraph, Function, unique_function_name
from millrace.graph.graph import Graph
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor

#: Ops whose result is small and known once the shapes of their inputs are.
_SHAPES = frozenset(("Shape", "ShapeN", "Size", "Rank"))
#: Ops that begin an array of gradients: they only look at the form of the array.
_FORMS = frozenset(("_EmptyGradientArray", "ZerosLike"))


class BackwardGraph(FuncGraph):
    """A function's graph that captures tensors of the graphs around it, and of `forward`.

    Attributes:
      forward: The graph of the body that is differentiated.
    """

    def __init__(
        self,
        kind: str,
        outer: Graph,
        forward: FuncGraph,
        bring: Callable[[Tensor], Tensor],
        form_of: Callable[[Tensor], Tensor | None] = lambda tensor: None,
    ) -> None:
        """A new graph.

        Args:
          kind: What its name begins with.
          outer: The graph around it.
          forward: The graph of the body that is differentiated.
          bring: The tensor here for one of `forward`.
          form_of: A tensor around with the form of an array of `forward`, if there is one.
        """
        super().__init__(unique_function_name(outer, kind), outer)
        self.root._functions[self.name] = None  # The name is taken.
        self.forward = forward
        self._bring = bring
        self._form_of = form_of
        self._brought: dict[Tensor, Tensor] = {}

    def is_inside(self, graph: Graph) -> bool:
        """As in `FuncGraph`; tensors of the forward body can be used here too."""
        return graph is self.forward or super().is_inside(graph)

    def capture(self, tensor: Tensor) -> Tensor:
        """The tensor here for one around, or for one of the forward body."""
        if tensor.graph is not self.forward:
            return super().capture(tensor)
        found = self._brought.get(tensor)
        if found is None:
            with self.as_default(), self.control_dependencies(None), self.name_scope(None):
                if tensor.op.type == "Const":
                    found = super().create_op("Const", [], attrs=dict(tensor.op.attrs)).outputs[0]
                else:
                    found = self._bring(tensor)
            self._brought[tensor] = found
        return found

    def create_op(
        self, op_type: str, inputs: Sequence[Tensor], *args: Any, **keywords: Any
    ) -> Operation:
        """As in `Graph`; what only looks at shapes of the forward body is computed there."""
        if op_type in _SHAPES and inputs and all(self._is_far(t) for t in inputs):
            with self.forward.as_default(), self.forward.control_dependencies(None):
                return self.forward.create_op(op_type, inputs, *args, **keywords)
        if op_type in _FORMS and inputs[0].graph is self.forward:
            form = self._form_of(inputs[0])
            inputs = inputs if form is None else [form]
        return super().create_op(op_type, inputs, *args, **keywords)

    def _is_far(self, tensor: Tensor) -> bool:
        """Whether a tensor is one of the forward body that nobody has needed here yet."""
        return tensor.graph is self.forward and tensor not in self._brought

    def gradients(
        self, ys: Sequence[Tensor], xs: Sequence[Tensor], grad_ys: Sequence[Any]
    ) -> list[Any]:
        """The gradients of tensors of the forward body, built here."""
        return gradient_walk.gradients(
            ys,
            xs,
            grad_ys,
            name="gradients",
            colocate_gradients_with_ops=False,
            gate_gradients=False,
            aggregation_method=None,
            stop_gradients=(),
            graph=self,
        )


def beside(op: Operation) -> Any:
    """The scope for what must be on the device of an operation."""
    graph = get_default_graph()
    return graph.colocate_with(op if op.graph is graph else None, ignore_existing=True)


def alone(graph: Graph) -> Any:
    """The scope for what waits for nothing."""
    return graph.control_dependencies(None)


def value_kind(tensor: Tensor) -> tuple[DType, TensorShape]:
    """Type and shape of a tensor's value, and so of its gradient; for a resource its variable's."""
    if tensor.handle_data is not None:
        shape, dtype = tensor.handle_data
        return dtype.base_dtype, shape
    return tensor.dtype.base_dtype, tensor.shape


def reached_inputs(function: Function, output: Tensor) -> set[int]:
    """Positions of the arguments from which gradients of `output` differ from zero."""
    positions = {tensor: i for i, tensor in enumerate(function.inputs)}
    found: set[int] = set()
    seen: set[Tensor] = set()
    pending = [output]
    while pending:
        tensor = pending.pop()
        if tensor in seen or not gradient_walk.is_trainable(tensor):
            continue
        seen.add(tensor)
        if tensor in positions:
            found.add(positions[tensor])
        elif not gradient_walk.has_no_gradient(tensor.op):
            pending.extend(tensor.op.inputs)
    return found
