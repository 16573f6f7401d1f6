"""Functions that are traced from Python code: the branches of conditionals, the parts of loops.

What the code uses of the graph around becomes an argument (a capture). The functions of one node
take the same captures in the same order; a function is finished, and does not change any more,
once these are complete.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millrace.graph.defaults import get_default_graph
from millrace.graph.function import FuncGraph, Function, add_function, unique_function_name
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.ops.control_flow.structures import Leaves


def traced(kind: str, call: Callable[[], Any]) -> TracedFunction:
    """Builds a function from what `call` does, capturing what it uses of the graph around."""
    outer = get_default_graph()
    graph = FuncGraph(unique_function_name(outer, kind), outer)
    # The name is taken now, so that functions built inside get others.
    root = graph.root
    root._functions[graph.name] = None
    with graph.as_default():
        structure = call()
        leaves = Leaves(structure)
    return TracedFunction(graph, structure, leaves)


class TracedFunction:
    """A function being built: its graph, and what its Python code returned."""

    def __init__(self, graph: FuncGraph, structure: Any, leaves: Leaves) -> None:
        self.graph = graph
        self.structure = structure
        self.leaves = leaves
        # What is returned as it was found outside is captured like any other use.
        leaves.tensors = [graph.capture(tensor) for tensor in leaves.tensors]
        for operation in leaves.operations:
            if operation.graph is not graph:
                graph.outer_controls.append(operation)
        leaves.operations = [o for o in leaves.operations if o.graph is graph]

    def finish(self) -> Function:
        """The function; what it captures must be complete."""
        function = Function(self.graph, self.leaves.tensors, self.leaves.operations)
        add_function(self.graph, function)
        return function


def share_captures(graphs: Sequence[FuncGraph]) -> list[Tensor]:
    """Makes functions take the same captured tensors in the same order, and returns them."""
    wanted: dict[Tensor, None] = {}
    for graph in graphs:
        wanted.update(dict.fromkeys(graph.captures))
    for graph in graphs:
        first = len(graph.arguments) - len(graph.captures)
        for tensor in wanted:
            graph.capture(tensor)
        graph.captures = {tensor: graph.captures[tensor] for tensor in wanted}
        graph.arguments[first:] = list(graph.captures.values())
    return list(wanted)


def outer_controls(graphs: Sequence[FuncGraph]) -> list[Operation]:
    """Operations around the functions that something inside must run after."""
    outer = graphs[0].outer
    found: dict[Operation, None] = {}
    for graph in graphs:
        for operation in graph.outer_controls:
            if operation.graph is outer:
                found[operation] = None
            elif isinstance(outer, FuncGraph):
                outer.outer_controls.append(operation)
    return list(found)
