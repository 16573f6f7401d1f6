"""Nodes that nobody needs any more, once a pass has put others in their place."""

from __future__ import annotations

from millrace.passes.node import Node, Program


def drop_unneeded(program: Program) -> Program:
    """The program without nodes that neither results nor targets wait for, directly or not."""
    users: dict[Node, int] = dict.fromkeys(program.nodes, 0)
    for node in program.nodes:
        for source in node.predecessors():
            users[source] = users.get(source, 0) + 1
    kept = {edge.node for edge in program.results} | set(program.targets)
    pending = [node for node in program.nodes if not users[node] and node not in kept]
    gone: set[Node] = set()
    while pending:
        node = pending.pop()
        gone.add(node)
        for source in node.predecessors():
            users[source] -= 1
            if not users[source] and source not in kept:
                pending.append(source)
    return program.with_nodes([node for node in program.nodes if node not in gone])
