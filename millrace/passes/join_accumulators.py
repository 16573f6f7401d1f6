"""One node for what a step does to several accumulators at one point, and handles without nodes.

Synchronous training gives every variable an accumulator. What a step applies to them, or takes
from them, it applies or takes together; a node for each would cost more than the sums do.

Joining must not make a step wait for what it itself produces:

- Applies are joined when they wait for the same blocking nodes, so the joined node waits for
  nothing that one of them did not wait for.
- Takes are joined when, besides that, whatever acts on the world after one of them acts after all
  of them; only updates of variables may follow some of them, and then happen together. Each take
  still gets its gradients as soon as its own accumulator has enough.
- Both need the same number of joined nodes on the longest path to them, so no circle is made.

A node that only names an accumulator or a queue is absorbed by the nodes that use it, if all of
them look it up themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from millrace.graph import registry
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.signature import parse
from millrace.passes.function_body import bodies_of
from millrace.passes.node import Edge, Node, Program, is_variable_edge, variable_of
from millrace.passes.rendezvous import may_die
from millrace.passes.schedule import topological_order
from millrace.passes.transfer import RECEIVE

#: Adds gradients to accumulators.
APPLY = registry.OpDefinition(
    parse("_ApplyGradients(inputs: [T]) where T: list(type) >= 0"),
    shape_rule=lambda c: None,
    kernel=lambda inputs: (),
    kind="host",
    is_stateful=True,
    gradient=NO_GRADIENT,
)
#: Waits for gradients in accumulators, and takes them.
TAKE = registry.OpDefinition(
    parse(
        "_TakeGradients(inputs: [T]) -> outputs: [U] where T: list(type) >= 0; U: list(type) >= 0"
    ),
    shape_rule=lambda c: None,
    kernel=lambda inputs: (),
    kind="blocking",
    is_stateful=True,
    gradient=NO_GRADIENT,
)

_APPLIES = frozenset(
    (
        "AccumulatorApplyGradient",
        "ResourceAccumulatorApplyGradient",
        "SparseAccumulatorApplyGradient",
    )
)
_TAKES = frozenset(
    ("AccumulatorTakeGradient", "ResourceAccumulatorTakeGradient", "SparseAccumulatorTakeGradient")
)
#: Nodes whose only output is the handle of something that they name.
_MAKERS = re.compile(r"^(Resource|Sparse)?ConditionalAccumulator$|^[A-Za-z]+Queue(V2)?$")
#: Nodes that find what a handle names each time they run, and take no variable.
_USERS = re.compile(r"^Queue[A-Z]|Accumulator[A-Z]")


class JoinedNode(Node):
    """Stands for several nodes of a program.

    Attributes:
      members: The nodes; their inputs without the handles are this one's, one after the other,
        and so are their outputs.
    """

    __slots__ = ("members",)

    def __init__(self, members: list[Node]) -> None:
        first = members[0]
        takes = first.type in _TAKES
        inputs = [edge for member in members for edge in member.inputs[1:]]
        attrs: dict[str, Any] = {"T": [edge.dtype.base_dtype for edge in inputs]}
        if takes:
            attrs["U"] = [dtype for member in members for dtype in member.output_types]
        controls = [c for m in members for c in (*m.controls, *m.inputs[0].node.controls)]
        super().__init__(
            f"{first.name}_and_{len(members) - 1}_more" if len(members) > 1 else first.name,
            TAKE if takes else APPLY,
            attrs,
            inputs,
            list(dict.fromkeys(controls)),
            device=first.device,
            order=first.order,
            source=first.source,
        )
        self.members = members

    def copy(self) -> Node:
        """As any node's; the members are copied too."""
        made = super().copy()
        assert isinstance(made, JoinedNode)
        made.members = [member.copy() for member in self.members]
        return made

    def rewire(self, copies: Mapping[Node, Node]) -> None:
        """As any node's; so do the members."""
        super().rewire(copies)
        for member in self.members:
            member.rewire(copies)


def join_accumulators(program: Program) -> Program:
    """Joins what a step gives to several accumulators, or takes from them, at one point.

    The program's nodes must be in topological order.
    """
    if not _may_be_joined(program) or not any(map(_is_candidate, program.nodes)):
        return program
    program = program.copy()
    groups = _groups(program)
    moved: dict[Edge, Edge] = {}
    stands_for: dict[Node, Node] = {}
    for members in groups:
        joined = JoinedNode(members)
        outputs = 0
        for member in members:
            stands_for[member] = joined
            for i in range(len(member.output_types)):
                moved[Edge(member, i)] = Edge(joined, outputs)
                outputs += 1
    nodes: dict[Node, None] = dict.fromkeys(stands_for.get(n, n) for n in program.nodes)
    for node in (*nodes, *stands_for):
        node.inputs = [moved.get(edge, edge) for edge in node.inputs]
        node.controls = list(dict.fromkeys(stands_for.get(c, c) for c in node.controls))
    program.nodes = list(nodes)
    program.results = [moved.get(edge, edge) for edge in program.results]
    program.targets = [stands_for.get(node, node) for node in program.targets]
    makers = {member.inputs[0].node for members in groups for member in members}
    used = [n for n in program.nodes if n not in makers or _is_used(n, program)]
    return program.with_nodes(topological_order(used))


def _may_be_joined(program: Program) -> bool:
    """Whether all stages of a program can tell what they wait for before it runs."""
    return not may_die(program) and not program.setting.feeds_one_by_one


def _is_used(maker: Node, program: Program) -> bool:
    """Whether somebody needs the node besides those that make the handle themselves."""
    return any(edge.node is maker for edge in program.results) or any(
        maker in node.predecessors() for node in program.nodes
    )


def _groups(program: Program) -> list[list[Node]]:
    """The nodes that can be joined, by what they are joined to."""
    candidates = [node for node in program.nodes if _is_candidate(node)]
    if not candidates:
        return []
    bit = {node: 1 << i for i, node in enumerate(candidates)}
    waits: dict[Node, int] = {}
    depths: dict[Node, int] = {}
    #: The candidates that come before a node, as bits.
    before: dict[Node, int] = {}
    received: dict[Any, int] = {}
    bits = 0
    found: dict[Any, list[Node]] = {}
    for node in program.nodes:
        mask, depth, earlier = 0, 0, 0
        for source in node.predecessors():
            mask |= waits.get(source, 0)
            depth = max(depth, depths.get(source, 0))
            earlier |= before.get(source, 0) | bit.get(source, 0)
        before[node] = earlier
        if node in bit:
            kind = node.type in _TAKES
            found.setdefault((kind, mask, depth, node.device), []).append(node)
            depth += 1
        if node.definition.kind == "blocking" or bodies_of(node):
            group = node.attrs.get("group") if node.definition is RECEIVE else node
            mask |= 1 << received.setdefault(group, bits)
            bits += 1
        waits[node], depths[node] = mask, depth
    groups: list[list[Node]] = []
    for (takes, *_), members in found.items():
        if takes and not _act_after_all(program, members, bit, before):
            groups.extend([member] for member in members)
        else:
            groups.append(members)
    return groups


def _is_candidate(node: Node) -> bool:
    return (
        (node.type in _APPLIES or node.type in _TAKES)
        and _MAKERS.match(node.inputs[0].node.type) is not None
        and not any(_is_unknown_variable(edge) for edge in node.inputs[1:])
    )


def _is_unknown_variable(edge: Edge) -> bool:
    return is_variable_edge(edge) and variable_of(edge) is None


def _act_after_all(
    program: Program, members: list[Node], bit: dict[Node, int], before: dict[Node, int]
) -> bool:
    """Whether what acts after one of the nodes, other than on variables, does so after all."""
    everyone = sum(bit[member] for member in members)
    return all(
        node.definition.is_pure or before[node] & everyone in (0, everyone)
        for node in program.nodes
    )


def absorb_handles(program: Program) -> Program:
    """Takes out nodes that only name a queue or an accumulator: those that use it look it up."""
    makers = _absorbable(program) if _may_be_joined(program) else set()
    if makers.isdisjoint(program.nodes):
        return program
    program = program.copy()
    makers = _absorbable(program)
    for node in program.nodes:
        if node.inputs and node.inputs[0].node in makers:
            waited = node.inputs[0].node.controls
            node.controls = list(dict.fromkeys([*node.controls, *waited]))
    kept = [node for node in program.nodes if node not in makers]
    return program.with_nodes(topological_order(kept))


def _absorbable(program: Program) -> set[Node]:
    """The nodes that only name something, for users that can find it by themselves."""
    used = {edge.node for node in program.nodes for edge in node.inputs}
    makers = {n for n in used if _MAKERS.match(n.type) and not n.inputs}
    makers -= {edge.node for edge in program.results}
    for node in program.nodes:
        makers.difference_update(node.controls)
        looks_up = _USERS.search(node.type) is not None and not any(
            is_variable_edge(edge) for edge in node.inputs[1:]
        )
        for i, edge in enumerate(node.inputs):
            if edge.node in makers and not (looks_up and i == 0):
                makers.discard(edge.node)
    return makers


def absorbed_handles(program: Program) -> set[Node]:
    """The nodes that `absorb_handles` has taken out of a program."""
    return _absorbable(program).difference(program.nodes)
