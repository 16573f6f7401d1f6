"""Branches and loops that use state of another task: they go there.

A node that calls functions runs them where it is. In TensorFlow only what takes a handle runs where
the state behind it is, and the rest of the branch elsewhere; here all of it goes, so that nothing
of a branch has to travel while it runs. The results are the same, as long as nothing in it belongs
to the place: files, a process's Python, its terminal. What uses state of several tasks stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millrace.core.device_spec import DeviceSpec
from millrace.graph.function import Function
from millrace.passes.function_body import functions_of
from millrace.passes.inline import inline_calls
from millrace.passes.node import Edge, Node, is_array_handle, is_variable
from millrace.passes.prune import prune

#: Ops without state of their own that give something else on another machine.
_OF_THE_PLACE = frozenset(("ReadFile", "MatchingFiles", "PyFuncStateless"))


def follow_handles(nodes: Sequence[Node]) -> None:
    """Moves nodes that have their devices to the task whose state their functions use."""
    moved: set[Node] = set()
    found = [node for node in nodes if functions_of(node) and _follow(node, _is_handle)]
    while found:
        moved.update(found)
        # Values that cannot travel, as of a branch for its gradient.
        found = [
            node
            for node in nodes
            if node not in moved
            and _follow(node, lambda edge: edge.dtype.name == "variant" and edge.node in moved)
        ]


def _follow(node: Node, leads: Callable[[Edge], bool]) -> bool:
    """Moves a node after those of its inputs that lead; whether it was elsewhere, and could go."""
    devices = {edge.node.device for edge in node.inputs if leads(edge)} - {""}
    tasks = {_task(device) for device in devices}
    if len(tasks) != 1 or _task(node.device) in tasks or not _is_free(node):
        return False
    node.device = min(devices)
    return True


def _task(device: str) -> tuple[str | None, int | None, int | None]:
    spec = DeviceSpec.from_string(device)
    return spec.job, spec.replica, spec.task


def _is_handle(edge: Edge) -> bool:
    is_state = edge.dtype._is_ref_dtype or edge.dtype.name == "resource"
    return is_state and not is_array_handle(edge)


def _can_move(function: Function) -> bool:
    body = inline_calls(prune(function.outputs, function.controls, function.inputs))
    return all(map(_is_free, body.nodes))


def _is_free(node: Node) -> bool:
    """Whether a node in a function does the same elsewhere, given the state that it uses."""
    functions = functions_of(node)
    if functions:
        return all(map(_can_move, functions))
    if is_variable(node) or node.type in _OF_THE_PLACE:
        return False
    definition = node.definition
    return definition.is_pure or not definition.is_stateful or any(map(_is_handle, node.inputs))
