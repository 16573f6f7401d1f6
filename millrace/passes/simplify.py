"""Work that need not be done: computed twice, or for nobody.

Programs that build gradients have much of both. Each look-up of the same ids sorts them again for
its own table; and an optimizer lets all gradients of an op wait for each other, so that those
with respect to constants and fed values are computed only to be waited for. TensorFlow's own
optimizer of graphs leaves both out, with the same exceptions: what draws, changes or checks
something stays.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from millrace.core.value import Attr
from millrace.passes.frames import REGION, WAITING_REGION, has_control_flow
from millrace.passes.function_body import functions_of
from millrace.passes.node import Edge, Node, Program, is_variable, is_variable_edge
from millrace.passes.schedule import topological_order, writes_state

#: Larger constants are not compared.
_MOST_BYTES = 1024
#: What kernels of nodes that give the same whenever they are given the same may ask for.
_HARMLESS = frozenset(("xp", "node", "check"))
#: Attributes that say nothing of what a node computes.
_IDLE_ATTRS = frozenset(("_class", "_output_shapes", "use_locking"))


def share_repeated(program: Program) -> Program:
    """Lets nodes that compute the same from the same share one of them."""
    if _has_old_loops(program):
        return program
    fixed = {edge.node for edge in program.arguments} | set(program.targets)
    first: dict[Hashable, Node] = {}
    instead: dict[Node, Node] = {}
    for node in topological_order(program.nodes):
        if node in fixed or not _repeats(node):
            continue
        key = _key_of(node, instead)
        if key is not None:
            found = first.setdefault(key, node)
            if found is not node:
                instead[node] = found
    if not instead:
        return program
    shared = program.copy()
    copies = dict(zip(program.nodes, shared.nodes, strict=True))
    replaced = {copies[node]: copies[found] for node, found in instead.items()}
    kept = [node for node in shared.nodes if node not in replaced]
    for node in kept:
        node.rewire(replaced)
        node.controls = list(dict.fromkeys(node.controls))
    shared.nodes = kept
    shared.results = [Edge(replaced.get(e.node, e.node), e.index) for e in shared.results]
    return shared


def drop_unused(program: Program) -> Program:
    """Drops nodes whose values nobody uses: who waited for them waits for what they waited for."""
    if _has_old_loops(program):
        return program
    kept = {edge.node for edge in (*program.results, *program.arguments)} | set(program.targets)
    used: dict[Node, int] = dict.fromkeys(program.nodes, 0)
    for node in program.nodes:
        for edge in node.inputs:
            used[edge.node] = used.get(edge.node, 0) + 1
    gone: set[Node] = set()
    for node in reversed(topological_order(program.nodes)):
        if used[node] or node in kept or not _is_idle(node):
            continue
        gone.add(node)
        for edge in node.inputs:
            used[edge.node] -= 1
    if not gone:
        return program
    smaller = program.copy()
    copies = dict(zip(program.nodes, smaller.nodes, strict=True))
    lost = {copies[node] for node in gone}
    members = set(smaller.nodes)
    sources: dict[Node, list[Node]] = {}
    for node in topological_order(smaller.nodes):
        if any(control in lost for control in node.controls) or node in lost:
            before = node.predecessors() if node in lost else node.controls
            found: dict[Node, None] = {}
            for source in before:
                if source in lost:
                    found.update(dict.fromkeys(sources[source]))
                elif source in members and not _is_there(source):
                    found[source] = None
            sources[node] = list(found)
            if node not in lost:
                node.controls = sources[node]
    smaller.nodes = [node for node in smaller.nodes if node not in lost]
    return smaller


def _has_old_loops(program: Program) -> bool:
    """Whether it has TensorFlow 1.x control flow: its regions know the edges that they take."""
    regions = (REGION, WAITING_REGION)
    return has_control_flow(program) or any(n.definition in regions for n in program.nodes)


def _is_there(node: Node) -> bool:
    """Whether nobody need wait for a node."""
    return not node.controls and (node.type == "Const" or is_variable(node))


def _computes(node: Node) -> bool:
    """Whether a node only computes values."""
    definition = node.definition
    return (
        (definition.is_pure or (definition.is_foldable and bool(node.inputs)))
        and not definition.is_stateful
        and _HARMLESS.issuperset(definition.specials)
        and bool(node.output_types)
        and not writes_state(node)
        and not is_variable(node)
        and not functions_of(node)
        and all(dtype.name not in ("resource", "variant") for dtype in node.output_types)
        and not any(is_variable_edge(Edge(node, i)) for i in range(len(node.output_types)))
    )


def _repeats(node: Node) -> bool:
    """Whether a node gives the same whenever it is given the same."""
    return _computes(node) and not any(
        is_variable_edge(edge) or edge.dtype.name in ("resource", "variant") for edge in node.inputs
    )


def _is_idle(node: Node) -> bool:
    """Whether a node does nothing but give values, and says nothing of those that it is given."""
    return _computes(node) and "check" not in node.definition.specials


def _key_of(node: Node, instead: dict[Node, Node]) -> Hashable | None:
    attrs = []
    for name, value in sorted(node.attrs.items()):
        if name not in _IDLE_ATTRS:
            form = _comparable(value)
            if form is None:
                return None
            attrs.append((name, form))
    inputs = tuple(_input_key(edge, instead) for edge in node.inputs)
    controls = frozenset(instead.get(control, control) for control in node.controls)
    return node.type, node.device, tuple(attrs), inputs, controls


def _input_key(edge: Edge, instead: dict[Node, Node]) -> Hashable:
    """What is equal for equal values; constants lie around a program, each by itself."""
    if edge.node.type == "Const" and not edge.node.controls:
        value = _comparable(edge.node.attrs["value"])
        if value is not None:
            return value
    return Edge(instead.get(edge.node, edge.node), edge.index)


def _comparable(value: Attr) -> Hashable | None:
    """An attribute as something that is equal only to its like; None if there is no such form."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject or value.nbytes > _MOST_BYTES:
            return None
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list):
        parts: tuple[Any, ...] = tuple(_comparable(item) for item in value)
        return None if None in parts else ("list", parts)
    if isinstance(value, bool | int | float | bytes | str):
        return type(value).__name__, repr(value)
    text = type(value).__name__
    return (text, repr(value)) if text in ("DType", "TensorShape") else None
