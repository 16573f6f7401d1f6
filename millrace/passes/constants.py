"""Constants: taken out of the order of execution, since their values are in the nodes."""

from __future__ import annotations

from millrace.graph import registry
from millrace.passes.frames import is_ruled
from millrace.passes.node import Edge, Node, Program
from millrace.passes.rendezvous import may_die


def detach_constants(program: Program) -> Program:
    """Takes constants out of the order: what one waited for, those that use it wait for.

    Where TensorFlow 1.x control flow rules, constants that wait for something stay: that says
    which branch they belong to.
    """
    stays = is_ruled(program)
    if not any(n.type == "Const" and not (stays and n.controls) for n in program.nodes):
        return program
    program = program.copy()
    kept = [n for n in program.nodes if n.type != "Const" or (stays and n.controls)]
    staying = set(kept)
    for node in kept:
        seen: set[Node] = set()
        controls = _controls_behind(node, staying, seen)
        for edge in node.inputs:
            if edge.node.type == "Const" and edge.node not in staying:
                controls.extend(_controls_behind(edge.node, staying, seen))
        node.controls = list(dict.fromkeys(controls))
    return program.with_nodes(kept)


def _controls_behind(node: Node, staying: set[Node], seen: set[Node]) -> list[Node]:
    found: list[Node] = []
    for control in node.controls:
        if control.type != "Const" or control in staying:
            found.append(control)
        elif control not in seen:
            seen.add(control)
            found.extend(_controls_behind(control, staying, seen))
    return found


def bind_waiting_constants(program: Program) -> Program:
    """Puts an Identity behind each constant that waits, so that it can be dead.

    For partitions that a master of TensorFlow has cut, which may receive dead values: a constant
    of a branch must not come alive there.
    """
    if not may_die(program) or not any(n.type == "Const" and n.controls for n in program.nodes):
        return program
    program = program.copy()
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
    for node in program.nodes:
        node.inputs = [Edge(copies.get(e.node, e.node), e.index) for e in node.inputs]
        node.controls = [copies.get(control, control) for control in node.controls]
    program.results = [Edge(copies.get(e.node, e.node), e.index) for e in program.results]
    program.targets = [copies.get(node, node) for node in program.targets]
    return program.with_nodes([*program.nodes, *copies.values()])
