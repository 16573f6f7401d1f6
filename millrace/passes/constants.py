"""Constants: taken out of the order of execution, since their values are in the nodes."""

from __future__ import annotations

from millrace.passes.node import Node, Program


def detach_constants(program: Program, *, but_waiting: bool = False) -> None:
    """Takes Const nodes out of the node list; what one waited for, its consumers wait for.

    Args:
      program: The program.
      but_waiting: Whether constants stay that wait for something: where TensorFlow 1.x control
        flow rules, that says which branch they belong to.
    """
    kept = [n for n in program.nodes if n.type != "Const" or (but_waiting and n.controls)]
    staying = set(kept)
    for node in kept:
        seen: set[Node] = set()
        controls = _controls_behind(node, staying, seen)
        for edge in node.inputs:
            if edge.node.type == "Const" and edge.node not in staying:
                controls.extend(_controls_behind(edge.node, staying, seen))
        node.controls = list(dict.fromkeys(controls))
    program.nodes = kept


def _controls_behind(node: Node, staying: set[Node], seen: set[Node]) -> list[Node]:
    found: list[Node] = []
    for control in node.controls:
        if control.type != "Const" or control in staying:
            found.append(control)
        elif control not in seen:
            seen.add(control)
            found.extend(_controls_behind(control, staying, seen))
    return found
