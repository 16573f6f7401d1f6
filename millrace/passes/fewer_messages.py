"""What need not be said between tasks, or not by itself.

A group (a NoOp that waits for many) is nothing to run. Where it lies on a task of its own, word
would go to that task and from there to what waits for the group: so those wait for its members
instead. And what is little and ready early, but used only after what the same task sends later,
may travel with that.
"""

from __future__ import annotations

import numpy as np

from millrace.passes.frames import has_control_flow
from millrace.passes.node import Edge, Node, Program

#: More bytes are sent as soon as they are there.
_LITTLE = 64 << 10


def dissolve_groups(program: Program) -> Program:
    """Lets nodes wait for the members of a group, where that makes no more edges than there are."""
    if len(program.tasks()) < 2 or has_control_flow(program):
        return program
    if not any(node.type == "NoOp" and node.controls for node in program.nodes):
        return program
    program = program.copy()
    kept = {*program.targets, *(edge.node for edge in program.results)}
    followers: dict[Node, list[Node]] = {}
    for node in program.nodes:
        for control in node.controls:
            followers.setdefault(control, []).append(node)
    gone: set[Node] = set()
    for node in program.nodes:
        if node.type != "NoOp" or node in kept or not node.controls:
            continue
        users = followers.get(node, [])
        if len(users) > 1 and len(node.controls) > 1:
            continue
        gone.add(node)
        for user in users:
            controls = [c for c in user.controls if c is not node]
            user.controls = list(dict.fromkeys([*controls, *node.controls]))
        for control in node.controls:
            followers[control] = [u for u in followers[control] if u is not node] + users
    return program.with_nodes([node for node in program.nodes if node not in gone])


def after(nodes: set[Node], order: list[Node]) -> set[Node]:
    """The nodes, and all that wait for one of them.

    Args:
      nodes: The nodes.
      order: The program's nodes, in topological order.
    """
    found: set[Node] = set()
    for node in order:
        if node in nodes or not found.isdisjoint(node.predecessors()):
            found.add(node)
    return found


def is_little(edge: Edge) -> bool:
    """Whether a value surely has few bytes."""
    source = edge.node.source
    if source is None or edge.index >= len(source.outputs):
        return False
    count = source.outputs[edge.index].shape.num_elements()
    dtype = edge.dtype.base_dtype
    if count is None or dtype.name in ("string", "resource", "variant"):
        return False
    return bool(count * np.dtype(dtype.as_numpy_dtype).itemsize <= _LITTLE)
