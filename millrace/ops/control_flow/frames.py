"""Control flow as TensorFlow 1.x clients write it: Switch, Merge, Enter, Exit, stacks.

Millrace's own `cond` and `while_loop` build functional ops; these are for graphs that come
from elsewhere. The runtime's interpreter decides which of them fire; their kernels only pass
values on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core import errors
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, none, scalars, unchanged
from millrace.graph.tensor import Tensor

__all__: list[str] = []


def _switch(data: Any, pred: Any, *, xp: Any) -> Any:
    raise AssertionError("run by the interpreter")


Switch = op(
    "Switch(data: T, pred: bool) -> (output_false: T, output_true: T)", shape=unchanged, host=True
)(_switch)
RefSwitch = op(
    "RefSwitch(data: ref(T), pred: bool) -> (output_false: ref(T), output_true: ref(T))",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)(_switch)


@Switch.gradient
def _(op: Operation, false_grad: Tensor, true_grad: Tensor) -> Any:
    return [Merge([false_grad, true_grad])[0], None]


def _merge_shapes(c: ShapeContext) -> list[TensorShape]:
    shape = c.inputs[0].shape
    for tensor in c.inputs[1:]:
        if shape.ndims is None or tensor.shape.ndims != shape.ndims:
            shape = unknown_shape()
            break
        assert shape.sizes is not None
        assert tensor.shape.sizes is not None
        shape = TensorShape(
            [a if a == b else None for a, b in zip(shape.sizes, tensor.shape.sizes, strict=True)]
        )
    return [shape, TensorShape([])]


def _merge(inputs: list[Any], *, xp: Any) -> Any:
    raise AssertionError("run by the interpreter")


Merge = op("Merge(inputs: N*T) -> (output: T, value_index: int32)", shape=_merge_shapes, host=True)(
    _merge
)
RefMerge = op(
    "RefMerge(inputs: ref(N*T)) -> (output: ref(T), value_index: int32)",
    shape=_merge_shapes,
    gradient=NO_GRADIENT,
    host=True,
)(_merge)


@Merge.gradient
def _(op: Operation, grad: Tensor, _index: Any) -> Any:
    # In a conditional, input i came through output i of a Switch on the same predicate.
    for tensor in op.inputs:
        source = tensor.op
        while source.inputs and source.type != "Switch":
            source = source.inputs[0].op
        if source.type == "Switch":
            return list(Switch(grad, source.inputs[1]))
    raise LookupError(f"Merge '{op.name}' does not end a conditional: it has no gradient")


def _pass(data: Any, *, xp: Any) -> Any:
    return data


_ENTER = " where frame_name: string; is_constant: bool = false; parallel_iterations: int = 10"
Enter = op(
    f"Enter(data: T) -> output: T{_ENTER}", shape=unchanged, gradient=NO_GRADIENT, host=True
)(_pass)
RefEnter = op(
    f"RefEnter(data: ref(T)) -> output: ref(T){_ENTER}",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)(_pass)
Exit = op("Exit(data: T) -> output: T", shape=unchanged, gradient=NO_GRADIENT, host=True)(_pass)
RefExit = op(
    "RefExit(data: ref(T)) -> output: ref(T)", shape=unchanged, gradient=NO_GRADIENT, host=True
)(_pass)
NextIteration = op(
    "NextIteration(data: T) -> output: T", shape=unchanged, gradient=NO_GRADIENT, host=True
)(_pass)
RefNextIteration = op(
    "RefNextIteration(data: ref(T)) -> output: ref(T)",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)(_pass)
LoopCond = op(
    "LoopCond(input: bool) -> output: bool", shape=unchanged, gradient=NO_GRADIENT, host=True
)(lambda input, *, xp: input)


@op("ControlTrigger()", shape=none, gradient=NO_GRADIENT)
def ControlTrigger(*, xp: Any) -> None:
    """Runs even when what it waits for is dead."""


@op(
    "RefSelect(index: int32, inputs: ref(N*T)) -> output: ref(T)",
    shape=lambda c: c.inputs[1].shape,
    gradient=NO_GRADIENT,
    host=True,
)
def RefSelect(index: Any, inputs: list[Any]) -> Any:
    """One of several variables."""
    position = int(index)
    if not 0 <= position < len(inputs):
        raise ValueError(f"Index must be in the range [0, {len(inputs)}) but got {position}")
    return inputs[position]


@op(
    'Abort() where error_msg: string = ""; exit_without_error: bool = false',
    shape=none,
    gradient=NO_GRADIENT,
    host=True,
)
def Abort(*, error_msg: bytes, exit_without_error: bool) -> None:
    """Ends the step with an error (TensorFlow ends the process; a server must not)."""
    if not exit_without_error:
        raise errors.AbortedError(None, None, error_msg.decode() or "Abort was run")


# -- Stacks: what a gradient loop pops was pushed by the forward loop --------------------


class Stack:
    """Values of one step, last in, first out."""

    def __init__(self, limit: int) -> None:
        self.items: list[Any] = []
        self._limit = limit

    def push(self, value: Any) -> None:
        """Adds a value."""
        if 0 <= self._limit <= len(self.items):
            raise ValueError(f"Stack overflowed its max_size ({self._limit})")
        self.items.append(value)

    def pop(self) -> Any:
        """Takes the newest value."""
        if not self.items:
            raise ValueError("Stack is empty when calling Pop()")
        return self.items.pop()


@op(
    'StackV2(max_size: int32) -> handle: resource where elem_type: type; stack_name: string = ""',
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def StackV2(max_size: Any) -> Any:
    """A new stack."""
    handle = np.empty((), object)
    handle[()] = Stack(int(max_size))
    return handle


@op(
    "StackPushV2(handle: resource, elem: T) -> output: T where swap_memory: bool = false",
    shape=lambda c: c.inputs[1].shape,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def StackPushV2(handle: Any, elem: Any) -> Any:
    """Pushes, and hands the value on."""
    handle[()].push(elem)
    return elem


@op(
    "StackPopV2(handle: resource) -> elem: elem_type where elem_type: type",
    shape=lambda c: unknown_shape(),
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def StackPopV2(handle: Any) -> Any:
    """Pops."""
    return handle[()].pop()


@op("StackCloseV2(handle: resource)", shape=none, gradient=NO_GRADIENT, host=True, stateful=True)
def StackCloseV2(handle: Any) -> None:
    """Drops what is left."""
    handle[()].items.clear()


def _handle_shape(c: ShapeContext) -> TensorShape:
    return TensorShape([2])


# The old forms: the handle is a reference to strings, which hides the stack itself.


@op(
    'Stack() -> handle: ref(string) where elem_type: type; stack_name: string = ""',
    shape=_handle_shape,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def StackV1() -> Any:
    """A new stack without a limit."""
    handle = np.empty((2,), object)
    handle[:] = Stack(-1)
    return handle


@op(
    "StackPush(handle: ref(string), elem: T) -> output: T where swap_memory: bool = false",
    shape=lambda c: c.inputs[1].shape,
    gradient=NO_GRADIENT,
    host=True,
)
def StackPush(handle: Any, elem: Any) -> Any:
    """Pushes, and hands the value on."""
    handle[0].push(elem)
    return elem


@op(
    "StackPop(handle: ref(string)) -> elem: elem_type where elem_type: type",
    shape=lambda c: unknown_shape(),
    gradient=NO_GRADIENT,
    host=True,
)
def StackPop(handle: Any) -> Any:
    """Pops."""
    return handle[0].pop()


@op("StackClose(handle: ref(string))", shape=none, gradient=NO_GRADIENT, host=True)
def StackClose(handle: Any) -> None:
    """Drops what is left."""
    handle[0].items.clear()


@op(
    "TensorArrayGradV3(handle: resource, flow_in: float32) -> (grad_handle: resource, "
    "flow_out: float32) where source: string",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def TensorArrayGradV3(handle: Any, flow_in: Any) -> Any:
    """The array of gradients that goes with an array; writes to it add up."""
    gradient = np.empty((), object)
    gradient[()] = handle[()]._replace(is_gradient=True)
    return gradient, flow_in
