"""Functions of datasets: a program's Python function as a function of the graph's library.

What it uses of the graph around is captured: a variable through its handle, so that it is read when
the function runs; everything else by its value when the dataset is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.graph.defaults import get_default_graph
from millrace.graph.function import FuncGraph, Function, add_function, unique_function_name
from millrace.graph.tensor import Tensor
from millrace.ops.data import structure


class _DatasetFuncGraph(FuncGraph):
    """A function whose captured references are values: it may run long after their step."""

    def capture(self, tensor: Tensor) -> Tensor:
        """The inner tensor for an outer one."""
        if tensor.graph is self or not tensor.dtype._is_ref_dtype or tensor in self.captures:
            return super().capture(tensor)
        source = tensor
        if isinstance(self.outer, FuncGraph) and tensor.graph is not self.outer:
            source = self.outer.capture(tensor)
        name = source.op.name.split("/")[-1]
        inner = self.add_argument(source.dtype.base_dtype, source.shape, name)
        self.captures[tensor] = inner
        return inner


class TracedFunction:
    """A function that was traced.

    Attributes:
      function: For the attribute of a node.
      captured: The tensors of the graph around that it uses: inputs of the node.
      spec: The structure of its results.
      value: What the Python function returned.
    """

    def __init__(self, function: Function, captured: list[Tensor], spec: Any) -> None:
        self.function = function
        self.captured = captured
        self.spec = spec


def trace(
    call: Callable[..., Any],
    spec: Any,
    name: str,
    *,
    several: bool = False,
    state_spec: Any = None,
    convert: Callable[[Any], Any] | None = None,
) -> TracedFunction:
    """Traces a function of elements.

    Args:
      call: The Python function. A tuple is passed as several arguments.
      spec: The structure of elements.
      name: What it is for: "Dataset.map" and the like.
      several: Whether `spec` is a tuple of arguments, each as it is.
      state_spec: For functions of a state and an element: the structure of the state.
      convert: Changes what the function returned, before it is looked at.
    """
    if not callable(call):
        raise TypeError(f"{name}: expected a function, got {call!r}")
    outer = get_default_graph()
    label = getattr(call, "__name__", type(call).__name__).strip("<>") or "function"
    graph = _DatasetFuncGraph(
        unique_function_name(outer, f"{name.replace('.', '_')}_{label}"), outer
    )
    root = graph.root
    root._functions[graph.name] = None  # taken: functions inside get other names
    try:
        with graph.as_default():
            full = spec if state_spec is None else (state_spec, spec)
            types, shapes = structure.flat_types(full), structure.flat_shapes(full)
            tensors = [
                graph.add_argument(dtype, shape, f"args_{i}")
                for i, (dtype, shape) in enumerate(zip(types, shapes, strict=True))
            ]
            value = structure.from_tensors(full, tensors)
            if state_spec is not None or several or type(value) is tuple:
                result = call(*value)
            else:
                result = call(value)
            if convert is not None:
                result = convert(result)
            result = structure.normalized(result, packs_lists=True)
            result_spec = structure.specs_of(result)
            outputs = [graph.capture(t) for t in structure.to_tensors(result)]
    except BaseException:
        del root._functions[graph.name]
        raise
    function = Function(graph, outputs, _side_effects(graph, outputs))
    add_function(graph, function)
    return TracedFunction(function, list(graph.captures), result_spec)


def _side_effects(graph: FuncGraph, outputs: list[Tensor]) -> list[Any]:
    """Stateful operations that no output needs: they run all the same."""
    needed: set[Any] = set()
    pending = [tensor.op for tensor in outputs]
    while pending:
        op = pending.pop()
        if op not in needed:
            needed.add(op)
            pending += [tensor.op for tensor in op.inputs]
            pending += op.control_inputs
    return [
        op
        for op in graph.get_operations()
        if op not in needed and op.definition.is_stateful and op.type not in ("_Arg", "Placeholder")
    ]
