"""Which values of a program may be no NumPy arrays: TensorArrays, lists, variables, absent ones.

A tape calls kernels on arrays directly, and asks about everything else in each run. What a loop or
conditional gives depends on what it is given and on its bodies, so they are followed.
"""

from __future__ import annotations

from collections.abc import Container

from millrace.graph.function import Function
from millrace.passes.function_body import (
    FIRST_ARGUMENT,
    LOOPS,
    body_of,
    functions_of,
    loop_functions,
)
from millrace.passes.node import (
    Edge,
    Node,
    is_array_handle,
    is_variable_edge,
    names_variable,
    variable_of,
)

#: Ops that take one element, or several, out of an array or list of tensors.
TAKING = frozenset(
    (
        "TensorArrayReadV3",
        "TensorArrayGatherV3",
        "TensorArraySizeV3",
        "TensorListPopBack",
        "_GradientOfElement",
        "_GradientsOfElements",
        "_JoinedElements",
    )
)
#: Ops whose kernels take and give arrays and lists of tensors as they are.
ON_COLLECTIONS = TAKING | {
    "EmptyTensorList",
    "TensorArrayScatterV3",
    "TensorArrayV3",
    "TensorArrayWriteV3",
    "TensorListPushBack",
    "_AddToElement",
    "_AddToElements",
    "_EmptyGradientArray",
}
_BRANCHING = frozenset(("If", "StatelessIf", "Case", "StatelessCase"))


def odd_outputs(node: Node, odd: Container[Edge]) -> list[Edge]:
    """The outputs of a node that may be no arrays, given the values before it that may be none."""
    edges = [Edge(node, i) for i in range(len(node.output_types))]
    inputs = [edge in odd or (_is_handle(edge) and not _is_read(edge)) for edge in node.inputs]
    if node.type in TAKING:
        return [edge for edge in edges if edge.dtype.name == "variant"]
    if node.type in LOOPS:
        found = _loop(node, inputs)
        return [edge for edge in edges if edge.index in found]
    if node.type in _BRANCHING:
        given = inputs[FIRST_ARGUMENT[node.type] :]
        branches = [_results(node, function, given) for function in functions_of(node)]
        found = {i for branch in branches for i, is_odd in enumerate(branch) if is_odd}
        return [edge for edge in edges if edge.index in found]
    if (
        any(edge in odd for edge in node.inputs)
        or functions_of(node)
        or node.type in ON_COLLECTIONS
        or node.type.startswith("TensorArray")
        or node.type == "FakeParam"
    ):
        return edges
    return [edge for edge in edges if edge.dtype.name in ("variant", "resource")]


def _is_handle(edge: Edge) -> bool:
    return is_array_handle(edge) or is_variable_edge(edge)


def _is_read(edge: Edge) -> bool:
    """Whether who uses a variable's edge is given the variable's value."""
    return not names_variable(edge) and variable_of(edge) is not None


def _loop(node: Node, given: list[bool]) -> set[int]:
    """Positions of loop variables that may be no arrays in some iteration."""
    _, body = loop_functions(node)
    state = list(given)
    while True:
        after = [a or b for a, b in zip(state, _results(node, body, state), strict=True)]
        if after == state:
            return {i for i, is_odd in enumerate(state) if is_odd}
        state = after


def _results(node: Node, function: Function, given: list[bool]) -> list[bool]:
    program = body_of(node, function)
    odd = {edge for edge, is_odd in zip(program.arguments, given, strict=True) if is_odd}
    for inner in program.nodes:
        odd.update(odd_outputs(inner, odd))
    return [
        edge in odd or (_is_handle(edge) and edge not in program.arguments)
        for edge in program.results
    ]
