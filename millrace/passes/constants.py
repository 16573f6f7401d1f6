"""Constants: taken out of the order of execution, since their values are in the nodes."""

from __future__ import annotations

from millrace.graph import registry
from millrace.passes.node import Edge, Node, Program


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


def bind_waiting_constants(program: Program) -> None:
    """Puts an Identity behind each constant that waits: it is dead if what it waits for is.

    For parts that may receive dead values, where a constant of a branch must not come alive.
    """
    copies: dict[Node, Node] = {}
    for node in program.nodes:
        if node.type == "Const" and node.controls:
            copies[node] = Node(
                f"{node.name}/alive",
                registry.lookup("Identity"),
                {"T": node.output_types[0]},
                [Edge(node, 0)],
                node.controls,
                device=node.device,
                order=node.order,
            )
            node.controls = []
    if not copies:
        return
    for node in program.nodes:
        node.inputs = [Edge(copies.get(e.node, e.node), e.index) for e in node.inputs]
        node.controls = [copies.get(control, control) for control in node.controls]
    program.results = [Edge(copies.get(e.node, e.node), e.index) for e in program.results]
    program.targets = [copies.get(node, node) for node in program.targets]
    program.nodes = [*program.nodes, *copies.values()]
