"""Constants: taken out of the order of execution, since their values are in the nodes."""

from __future__ import annotations

from millrace.passes.node import Node, Program


def detach_constants(program: Program) -> None:
    """Takes Const nodes out of the node list; what one waited for, its consumers wait for."""
    kept = [node for node in program.nodes if node.type != "Const"]
    for node in kept:
        seen: set[Node] = set()
        controls = _controls_behind(node, seen)
        for edge in node.inputs:
            if edge.node.type == "Const" and edge.node.controls:
                controls.extend(_controls_behind(edge.node, seen))
        node.controls = list(dict.fromkeys(controls))
    program.nodes = kept


def _controls_behind(node: Node, seen: set[Node]) -> list[Node]:
    found: list[Node] = []
    for control in node.controls:
        if control.type != "Const":
            found.append(control)
        elif control not in seen:
            seen.add(control)
            found.extend(_controls_behind(control, seen))
    return found
