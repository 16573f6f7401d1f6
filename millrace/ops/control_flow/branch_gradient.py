"""The gradient of a conditional: a conditional of the gradients of its branches.

What the gradient of a branch needs of it, the forward conditional gives out as further results;
the branches that have no such value give an absent one. So no branch runs twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph import registry
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import get_default_graph
from millrace.graph.define import op
from millrace.graph.function import Function, add_function
from millrace.graph.gradient_walk import is_trainable, zeros_like
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.control_flow.backward_graph import BackwardGraph, alone, beside
from millrace.ops.control_flow.tensor_list_value import ABSENT
from millrace.ops.functions.traced_function import share_captures

__all__: list[str] = []


def _stated_shape(c: ShapeContext) -> TensorShape:
    shape: TensorShape = c.attr("shape")
    return shape


@op(
    "FakeParam() -> output: dtype where dtype: type; shape: shape",
    shape=_stated_shape,
    gradient=NO_GRADIENT,
)
def FakeParam(*, xp: Any) -> Any:
    """A value that is not there, and that nobody uses."""
    return ABSENT


def branch_gradient(op: Operation, *grads: Any) -> list[Any]:
    """The gradient rule of If and Case."""
    return _BranchGradient(op).build(list(grads))


class _BranchGradient:
    def __init__(self, op: Operation) -> None:
        self._op = op
        self._outer = get_default_graph()
        self._names = ["branches"] if "branches" in op.attrs else ["then_branch", "else_branch"]
        self._branches: list[Function] = (
            op.attrs["branches"]
            if "branches" in op.attrs
            else [op.attrs[name] for name in self._names]
        )
        self._outputs = [list(branch.outputs) for branch in self._branches]

    def build(self, grads: list[Any]) -> list[Any]:
        """The gradients of the conditional's inputs, given those of its results."""
        wanted = [
            i
            for i, grad in enumerate(grads)
            if grad is not None and is_trainable(self._op.outputs[i])
        ]
        result: list[Any] = [None] * len(self._op.inputs)
        xs = [i for i, t in enumerate(self._branches[0].inputs) if is_trainable(t)]
        if not wanted or not xs:
            return result
        graphs = []
        found: list[list[Any]] = []
        for which, branch in enumerate(self._branches):
            graph = self._graph(which, branch)
            with graph.as_default():
                given = [_captured(graph, grads[i]) for i in wanted]
                ys = [branch.outputs[i] for i in wanted]
                found.append(graph.gradients(ys, [branch.inputs[i] for i in xs], given))
            graphs.append(graph)
        reached = [k for k in range(len(xs)) if any(each[k] is not None for each in found)]
        if not reached:
            return result
        sparse = {k for k in reached if _are_alike([each[k] for each in found])}
        outputs = [
            self._results(graph, branch, xs, each, reached, sparse)
            for graph, branch, each in zip(graphs, self._branches, found, strict=True)
        ]
        self._extend()
        made = iter(self._conditional(graphs, outputs))
        for k in reached:
            place = xs[k] + 1
            if k in sparse:
                values, indices = next(made), next(made)
                result[place] = IndexedSlices(values, indices, _dense_shape(self._op.inputs[place]))
            else:
                result[place] = next(made)
        return result

    def _graph(self, which: int, branch: Function) -> BackwardGraph:
        positions = {tensor: i for i, tensor in enumerate(branch.inputs)}
        kept: dict[Tensor, Tensor] = {}

        def bring(tensor: Tensor) -> Tensor:
            position = positions.get(tensor)
            if position is not None:
                return graph.capture(self._op.inputs[position + 1])
            if tensor not in kept:
                kept[tensor] = self._given_out(which, tensor)
            return graph.capture(kept[tensor])

        graph = BackwardGraph("cond_grad", self._outer, branch.graph, bring)
        return graph

    def _given_out(self, which: int, tensor: Tensor) -> Tensor:
        """A tensor of a branch as a result of the conditional."""
        for i, other in enumerate(self._outputs[which]):
            if other is tensor:
                return self._op.outputs[i]
        dtype = tensor.dtype.base_dtype
        for i, branch in enumerate(self._branches):
            if i == which:
                self._outputs[i].append(tensor)
                continue
            with branch.graph.as_default(), alone(branch.graph):
                self._outputs[i].append(FakeParam(dtype=dtype, shape=unknown_shape()))
        shape = unknown_shape() if dtype != dtypes.variant else TensorShape([])
        (output,) = self._op._extend([], [(dtype, shape)], {})
        output._shape = tensor.shape
        output.handle_data = tensor.handle_data
        return output

    def _extend(self) -> None:
        """Lets the conditional give out what its gradient was found to need."""
        op = self._op
        functions = [
            Function(branch.graph, outputs, branch.controls)
            for branch, outputs in zip(self._branches, self._outputs, strict=True)
        ]
        for function in functions:
            add_function(op.graph, function)
        attrs: dict[str, Any] = {"Tout": [t.dtype.base_dtype for t in functions[0].outputs]}
        if len(self._names) == 1:
            attrs["branches"] = functions
        else:
            attrs.update(zip(self._names, functions, strict=True))
        if op.attrs.get("output_shapes"):
            attrs["output_shapes"] = [t.shape for t in op.outputs]
        op._extend([], [], attrs)

    def _results(
        self,
        graph: BackwardGraph,
        branch: Function,
        xs: Sequence[int],
        grads: Sequence[Any],
        reached: Sequence[int],
        sparse: set[int],
    ) -> list[Tensor]:
        """What the gradient of one branch returns."""
        results: list[Tensor] = []
        with graph.as_default():
            for k in reached:
                x, grad = branch.inputs[xs[k]], grads[k]
                if k in sparse:
                    results.extend((grad.values, cast.cast(grad.indices, dtypes.int64)))
                else:
                    results.append(zeros_like(x) if grad is None else convert_to_tensor(grad))
            return [graph.capture(tensor) for tensor in results]

    def _conditional(
        self, graphs: list[BackwardGraph], outputs: list[list[Tensor]]
    ) -> list[Tensor]:
        captures = share_captures(graphs)
        functions = [
            Function(graph, results) for graph, results in zip(graphs, outputs, strict=True)
        ]
        for function in functions:
            add_function(self._outer, function)
        keywords: dict[str, Any] = (
            {"branches": functions}
            if len(self._names) == 1
            else dict(zip(self._names, functions, strict=True))
        )
        op = self._op
        with beside(op):
            made: Operation = registry.lookup(op.type).operation(  # type: ignore[attr-defined]
                op.inputs[0],
                captures,
                Tout=[t.dtype.base_dtype for t in outputs[0]],
                name=f"{op.name.rpartition('/')[2]}_grad",
                **keywords,
            )
        return made.outputs


def _captured(graph: BackwardGraph, grad: Any) -> Tensor:
    return graph.capture(convert_to_tensor(grad))


def _are_alike(grads: list[Any]) -> bool:
    """Whether gradients are rows of a table, of as many in each branch."""
    return all(
        isinstance(grad, IndexedSlices)
        and grad.values.shape.sizes == grads[0].values.shape.sizes is not None
        for grad in grads
    )


def _dense_shape(tensor: Tensor) -> Any:
    if tensor.dtype.base_dtype == dtypes.resource:
        return registry.lookup("VariableShape")(tensor)  # type: ignore[operator]
    return registry.lookup("Shape")(tensor)  # type: ignore[operator]
