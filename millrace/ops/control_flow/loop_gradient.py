"""The gradient of a loop: a loop that goes through its iterations backwards.

The forward loop keeps what the gradient of its body needs of each iteration: for each such tensor
it carries a list, on which its body pushes the value. The gradient's loop pops them. So the
gradient works for any number of iterations, also one that only the run shows, and needs no second
run of the loop. Loop variables that no iteration changes are not kept, and their gradients add up
over the iterations. Names and ops are those of TensorFlow's v2 loops.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph import registry
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import get_default_graph
from millrace.graph.function import FuncGraph, Function, add_function, unique_function_name
from millrace.graph.gradient_walk import add_gradients, is_trainable, zeros_like
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.ops.control_flow import tensor_list
from millrace.ops.control_flow.backward_graph import (
    BackwardGraph,
    alone,
    beside,
    reached_inputs,
    value_kind,
)
from millrace.ops.control_flow.loop_sums import Joins
from millrace.ops.functions.traced_function import share_captures

__all__: list[str] = []

_SCALAR = TensorShape([])
#: Ops that give an array of the form of the one that they take, by the position of that one.
_SAME_FORM = {"TensorArrayWriteV3": 3, "TensorArrayScatterV3": 3, "Identity": 0}


class _Variable(NamedTuple):
    """A variable of the gradient's loop: where it starts, and what an iteration makes of it."""

    start: Tensor
    argument: Tensor
    result: Tensor


def while_gradient(op: Operation, *grads: Any) -> list[Any]:
    """The gradient rule of While."""
    found = _LoopGradient(op).build(list(grads))
    # What the loop keeps now came in after the walk had looked.
    return found + [None] * (len(op.inputs) - len(found))


class _LoopGradient:
    def __init__(self, op: Operation) -> None:
        self._op = op
        self._outer = get_default_graph()
        self._body: Function = op.attrs["body"]
        self._kept = _Kept.of(op)
        self._unchanged = [
            o is i for o, i in zip(self._body.outputs, self._body.inputs, strict=True)
        ]
        self._positions = {tensor: i for i, tensor in enumerate(self._body.inputs)}
        self._graph = BackwardGraph(
            "while_grad_body", self._outer, self._body.graph, self._bring, self._form_of
        )
        self._joins = Joins(self._graph)
        #: Lists of kept values: where each is among the loop's variables, and its way through here.
        self._lists: list[tuple[int, Tensor, Tensor]] = []

    def build(self, grads: list[Any]) -> list[Any]:
        """The gradients of the loop's inputs, given those of its outputs."""
        result: list[Any] = [None] * len(self._op.inputs)
        active = self._active(grads)
        carried = [i for i in sorted(active) if not self._unchanged[i]]
        summed = [i for i in sorted(active) if self._unchanged[i]]
        if not carried:
            return [grads[i] if self._unchanged[i] else None for i in range(len(result))]
        graph, body = self._graph, self._body
        remaining = graph.add_argument(dtypes.int32, _SCALAR, "remaining")
        given = [self._argument(i, "grad") for i in carried]
        with graph.as_default():
            less = remaining - 1
            xs = [body.inputs[i] for i in (*carried, *summed)]
            found = graph.gradients([body.outputs[i] for i in carried], xs, given)
            outputs = [
                zeros_like(argument) if grad is None else graph.capture(convert_to_tensor(grad))
                for argument, grad in zip(given, found, strict=False)
            ]
            sums: dict[int, tuple[Tensor, Tensor]] = {}
            for i, grad in zip(summed, found[len(carried) :], strict=True):
                rest = self._joins.take(i, grad, self._op.inputs[i])
                if rest is not None:
                    total = self._argument(i, "sum")
                    sums[i] = total, _sum(total, convert_to_tensor(rest))
        self._kept.extend()
        variables = [_Variable(self._kept.count_output, remaining, less)]
        for i, argument, output in zip(carried, given, outputs, strict=True):
            start = _start(grads[i], self._op.outputs[i])
            variables.append(_Variable(start, argument, output))
        for i, (argument, output) in sums.items():
            start = _start(grads[i], self._op.inputs[i])
            variables.append(_Variable(start, argument, output))
        for place, argument, output in self._lists:
            variables.append(_Variable(self._op.outputs[place], argument, output))
        first_join = len(variables)
        with beside(self._op):
            for dtype, argument, output in self._joins.lists:
                empty = tensor_list.EmptyTensorList(
                    tensor_list.UNKNOWN_SHAPE, -1, element_dtype=dtype
                )
                variables.append(_Variable(empty, argument, output))
        made = self._loop(variables)
        for k, i in enumerate((*carried, *sums), 1):
            result[i] = made[k]
        with beside(self._op):
            joined = self._joins.results(made[first_join:])
        for i in range(len(result)):
            parts = [result[i], *joined.get(i, ())]
            if self._unchanged[i] and i not in sums:
                parts.append(grads[i])
            parts = [part for part in parts if part is not None]
            result[i] = add_gradients(parts) if len(parts) > 1 else next(iter(parts), None)
        return result

    def _active(self, grads: list[Any]) -> set[int]:
        """Loop variables that have a gradient in some iteration."""
        outputs = self._op.outputs
        pending = [i for i, g in enumerate(grads) if g is not None and is_trainable(outputs[i])]
        active: set[int] = set()
        while pending:
            i = pending.pop()
            if i in active:
                continue
            active.add(i)
            pending.extend(reached_inputs(self._body, self._body.outputs[i]))
        return active

    def _argument(self, i: int, kind: str) -> Tensor:
        dtype, shape = value_kind(self._body.inputs[i])
        if dtype == dtypes.variant:
            shape = _SCALAR
        return self._graph.add_argument(dtype, shape, kind)

    def _bring(self, tensor: Tensor) -> Tensor:
        """The value that a tensor of the body had in the iteration that is differentiated."""
        position = self._positions.get(tensor)
        if position is not None and self._unchanged[position]:
            return self._graph.capture(self._op.inputs[position])
        place = self._kept.place(tensor)
        argument = self._graph.add_argument(dtypes.variant, _SCALAR, "kept")
        rest, value = tensor_list.TensorListPopBack(
            argument, tensor_list.UNKNOWN_SHAPE, element_dtype=tensor.dtype.base_dtype
        )
        value.set_shape(tensor.shape)
        value.handle_data = tensor.handle_data
        self._lists.append((place, argument, rest))
        return value

    def _form_of(self, tensor: Tensor) -> Tensor | None:
        """What the loop gives for an array that its body changes: it has the array's form."""
        while tensor.op.type in _SAME_FORM:
            tensor = tensor.op.inputs[_SAME_FORM[tensor.op.type]]
        position = self._positions.get(tensor)
        is_flow = tensor.dtype == dtypes.float32 and tensor.shape.ndims == 0
        if position is None or not is_flow or not _is_array(self._body.outputs[position]):
            return None
        return self._op.outputs[position]

    def _loop(self, variables: list[_Variable]) -> list[Tensor]:
        condition = FuncGraph(unique_function_name(self._outer, "while_grad_cond"), self._outer)
        condition.root._functions[condition.name] = None
        for variable in variables:
            argument = variable.argument
            condition.add_argument(argument.dtype, argument.shape, argument.op.name)
        with condition.as_default():
            goes_on = condition.arguments[0] > 0
        graph = self._graph
        rest = [t for t in graph.arguments if t not in {v.argument for v in variables}]
        assert rest == list(graph.captures.values()), "An argument is no loop variable"
        graph.arguments[:] = [*(v.argument for v in variables), *rest]
        captures = share_captures([condition, graph])
        results = [*(v.result for v in variables), *graph.captures.values()]
        functions = [Function(condition, [goes_on]), Function(graph, results)]
        for function in functions:
            add_function(self._outer, function)
        op = self._op
        keywords = {"_shapes_vary": True} if op.attrs.get("_shapes_vary", False) else {}
        with beside(op):
            made: Operation = registry.lookup("While").operation(  # type: ignore[attr-defined]
                [*(v.start for v in variables), *captures],
                cond=functions[0],
                body=functions[1],
                output_shapes=[
                    *(v.argument.shape for v in variables),
                    *(t.shape for t in captures),
                ],
                parallel_iterations=op.attrs["parallel_iterations"],
                name=f"{op.name.rpartition('/')[2]}_grad",
                **keywords,
            )
        return made.outputs[: len(variables)]


def _start(grad: Any, like: Tensor) -> Tensor:
    return zeros_like(like) if grad is None else convert_to_tensor(grad)


def _is_array(tensor: Tensor) -> bool:
    return tensor.op.type in _SAME_FORM or tensor.op.type == "While"


def _sum(total: Tensor, grad: Tensor) -> Tensor:
    """The sum so far and what an iteration adds.

    To an array of gradients it is written, where it was to be written to an empty one.
    """
    if grad.op.type in ("_AddToElement", "_AddToElements"):
        start = grad.op.inputs[0]
        if start.op.type == "_EmptyGradientArray" and len(start._consumers) == 1:
            grad.op._update_input(0, total)
            return grad
    if grad.op.type == "AddN" and total.dtype == dtypes.float32 and total.shape.ndims == 0:
        for part in grad.op.inputs:
            total = _sum(total, part)
        return total
    return registry.lookup("AddV2" if total.dtype != dtypes.variant else "AddN")(  # type: ignore[operator]
        *((total, grad) if total.dtype != dtypes.variant else ([total, grad],))
    )


class _Kept:
    """What a loop keeps of its iterations for its gradients: lists that it carries.

    Kept by the loop's body (`FuncGraph.kept`), so that a second gradient finds them.
    """

    def __init__(self, op: Operation) -> None:
        self._op = op
        self._places: dict[Tensor | None, int] = {}
        self._new: list[tuple[Tensor, Tensor, Tensor]] = []

    @staticmethod
    def of(op: Operation) -> _Kept:
        """What a loop keeps."""
        body: FuncGraph = op.attrs["body"].graph
        kept = body.kept
        if kept is None:
            kept = body.kept = _Kept(op)
            kept._add_count()
        assert isinstance(kept, _Kept)
        return kept

    @property
    def count_output(self) -> Tensor:
        """The number of iterations that the loop has made."""
        return self._op.outputs[self._places[None]]

    def place(self, tensor: Tensor) -> int:
        """The position of the loop variable that keeps the values of a tensor of the body."""
        place = self._places.get(tensor)
        if place is None:
            dtype = tensor.dtype.base_dtype
            with self._op.graph.as_default(), alone(self._op.graph), beside(self._op):
                start = tensor_list.EmptyTensorList(
                    tensor_list.UNKNOWN_SHAPE, -1, element_dtype=dtype
                )
            argument, body = self._argument(start, "kept")
            with body.as_default(), alone(body):
                result = tensor_list.TensorListPushBack(argument, tensor)
            place = self._places[tensor] = self._note(start, argument, result)
        return place

    def _add_count(self) -> None:
        with self._op.graph.as_default(), alone(self._op.graph), beside(self._op):
            start = convert_to_tensor(0, name="loop_counter")
        argument, body = self._argument(start, "loop_counter")
        with body.as_default(), alone(body):
            result = argument + 1
        self._places[None] = self._note(start, argument, result)

    def _argument(self, start: Tensor, name: str) -> tuple[Tensor, FuncGraph]:
        body: FuncGraph = self._op.attrs["body"].graph
        self._op.attrs["cond"].graph.add_argument(start.dtype, _SCALAR, name)
        return body.add_argument(start.dtype, _SCALAR, name), body

    def _note(self, start: Tensor, argument: Tensor, result: Tensor) -> int:
        self._new.append((start, argument, result))
        return len(self._op.inputs) + len(self._new) - 1

    def extend(self) -> None:
        """Gives the loop the variables that were added."""
        op = self._op
        starts = [start for start, _, _ in self._new]
        results = [result for _, _, result in self._new]
        self._new.clear()
        if not starts:
            return
        condition, body = op.attrs["cond"], op.attrs["body"]
        functions = [
            Function(condition.graph, condition.outputs, condition.controls),
            Function(body.graph, [*body.outputs, *results], body.controls),
        ]
        for function in functions:
            add_function(op.graph, function)
        shapes = op.attrs["output_shapes"] or [t.shape for t in op.outputs]
        op._extend(
            starts,
            [(start.dtype, _SCALAR) for start in starts],
            {
                "cond": functions[0],
                "body": functions[1],
                "T": [*op.attrs["T"], *(start.dtype for start in starts)],
                "output_shapes": [*shapes, *[_SCALAR] * len(starts)],
            },
        )
