"""Order and grouping: from a program's nodes to stages, each one XLA call or one host op.

Grouping must not make a step wait for what it itself produces. Two pure nodes share a stage
only when they wait for the same set of blocking nodes (a dequeue, a receive, a fed value of
a partial run) and have the same number of host nodes on their longest path. A path that
leaves a stage passes a host or blocking node, so it never comes back to it.

Where nodes run one by one on tier 0 first, host nodes that only compute are no reason to end a
stage: they are part of its straight-line code, and the stage is cut around them when it is worth
programs (`runtime/split_stage.py`).

What could run early, while others wait, but is little work, runs with what needs it: a call of
its own would cost more than it does.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from millrace.core import errors
from millrace.core.value import Attr
from millrace.graph.function import Function
from millrace.passes.node import Edge, Node, Program, is_variable, is_variable_edge
from millrace.passes.transfer import RECEIVE

#: Ops whose output is known once the shapes of their inputs are.
SHAPE_QUERIES = frozenset(("Shape", "ShapeN", "Size", "Rank", "VariableShape"))
#: Beginnings of the types of ops that are worth doing while a step waits.
_MUCH_WORK = ("MatMul", "BatchMatMul", "SparseTensorDenseMatMul", "Conv", "DepthwiseConv")


class Stage:
    """Nodes that run as one unit.

    Attributes:
      nodes: In the order of execution.
      compiled: Whether they are one XLA call; else it is a single host node.
      blocking: Whether it may wait for something outside this step.
      host_nodes: Those of a compiled stage that no XLA program can have.
    """

    __slots__ = ("blocking", "compiled", "host_nodes", "nodes")

    def __init__(self, nodes: list[Node], compiled: bool, blocking: bool = False) -> None:
        self.nodes = nodes
        self.host_nodes: set[Node] = set()
        self.compiled = compiled
        self.blocking = blocking

    def __repr__(self) -> str:
        kind = "compiled" if self.compiled else "blocking" if self.blocking else "host"
        return f"<Stage {kind} {[n.name for n in self.nodes]}>"


def writes_state(node: Node) -> bool:
    """Whether the node changes a variable."""
    return bool(node.definition.updates or node.definition.overwrites)


def topological_order(nodes: Iterable[Node]) -> list[Node]:
    """The nodes, each after those that it waits for.

    Among ready nodes the writers of variables come last, and else the order of creation
    decides: a read that nothing orders after a write sees the value from before it, as it
    nearly always does in TensorFlow.

    Raises:
      InvalidArgumentError: The nodes wait for each other in a circle.
    """
    members = dict.fromkeys(nodes)
    number = {node: i for i, node in enumerate(members)}
    waiting: dict[Node, int] = {}
    followers: dict[Node, list[Node]] = {node: [] for node in members}
    #: By name in the end, so that the order is the same in every process.
    ready: list[tuple[bool, int, str, int, Node]] = []
    for node in members:
        sources = {p for p in node.predecessors() if p in members}
        waiting[node] = len(sources)
        for source in sources:
            followers[source].append(node)
        if not sources:
            ready.append((writes_state(node), node.order, node.name, number[node], node))
    heapq.heapify(ready)
    ordered: list[Node] = []
    while ready:
        node = heapq.heappop(ready)[-1]
        ordered.append(node)
        for follower in followers[node]:
            waiting[follower] -= 1
            if not waiting[follower]:
                key = writes_state(follower), follower.order, follower.name, number[follower]
                heapq.heappush(ready, (*key, follower))
    if len(ordered) < len(members):
        stuck = sorted(n.name for n in members.keys() - set(ordered))
        raise errors.InvalidArgumentError(
            None,
            None,
            f"The graph has a cycle: {len(stuck)} nodes wait for each other, among them "
            f"{', '.join(stuck[:5])}. Only tf.while_loop may make cycles.",
        )
    return ordered


def is_folded(edge: Edge, known: dict[Edge, bool]) -> bool:
    """Whether a value is known once the shapes of all tensors are: while tracing."""
    pending = [edge]  # Not by recursion: a chain may be longer than Python's stack.
    while pending:
        current = pending[-1]
        if current in known:
            pending.pop()
            continue
        node = current.node
        if node.type == "Const" or node.type in SHAPE_QUERIES:
            known[current] = True
        elif not (_folds(node) and node.inputs) or any(
            known.get(source) is False for source in node.inputs
        ):
            known[current] = False
        elif unknown := [source for source in node.inputs if source not in known]:
            pending.append(unknown[0])
        else:
            known[current] = True
    return known[edge]


def _folds(node: Node) -> bool:
    return node.definition.is_foldable and "rng" not in node.definition.specials


def stages(
    program: Program,
    can_compile: Callable[[Node], bool],
    *,
    late_arguments: bool = False,
    can_join: Callable[[Node], bool] | None = None,
) -> list[Stage]:
    """Groups the nodes of an ordered program.

    Args:
      program: Its nodes must be in topological order.
      can_compile: Whether a node may be part of an XLA call.
      late_arguments: Whether fed values arrive one by one (a partial run): then nodes that
        need different ones do not share a stage.
      can_join: Whether a host node may be part of a stage all the same, and what decides a shape
        may be made in it: stages run node by node until it is worth cutting them. None if stages
        are compiled as they are.

    Returns:
      Stages in an order in which they can run one after the other if none blocks.
    """
    level: dict[Node, int] = {}
    #: The set of blocking nodes that a node waits for, as bits; includes the node itself.
    waits: dict[Node, int] = {}
    bits = 0
    if late_arguments:
        for edge in program.arguments:
            waits[edge.node] = 1 << bits
            bits += 1
    folded: dict[Edge, bool] = {}
    is_compiled = {node: can_compile(node) for node in program.nodes}
    joined: set[Node] = set()
    if can_join is not None:
        joined = {node for node, found in is_compiled.items() if not found and can_join(node)}
        is_compiled.update(dict.fromkeys(joined, True))
    idle = _idle_nodes(program, is_compiled)
    groups: dict[tuple[int, int], Stage] = {}
    groups_received: dict[bytes | None, int] = {}
    #: (depth, whether host, how many blocking nodes it waits for, position, stage). A compiled
    #: stage that reads another of the same depth waits for more than that one.
    entries: list[tuple[int, int, int, int, Stage]] = []
    for position, node in enumerate(program.nodes):
        if node in idle:
            continue
        compiled = is_compiled[node]
        static = static_positions(node) if compiled and can_join is None else ()
        depth, mask = 0, 0
        for i, edge in enumerate(node.inputs):
            source = edge.node
            mask |= waits.get(source, 0)
            hop = level.get(source, 0)
            if compiled and source in level:
                # A value made by the host, or one that decides this node's shape, must be
                # there before the stage starts.
                hop += not is_compiled[source] or (i in static and not is_folded(edge, folded))
            depth = max(depth, hop)
        for source in node.controls:
            mask |= waits.get(source, 0)
            hop = level.get(source, 0)
            depth = max(depth, hop + (compiled and not is_compiled.get(source, True)))
        level[node] = depth
        if compiled:
            stage = groups.get((mask, depth))
            if stage is None:
                stage = groups[mask, depth] = Stage([], compiled=True)
                entries.append((depth, 0, mask.bit_count(), position, stage))
            stage.nodes.append(node)
            if node in joined:
                stage.host_nodes.add(node)
        else:
            blocks = node.definition.kind == "blocking"
            if blocks:
                # What is received at one point of a step counts as one.
                group = node.attrs.get("group") if node.definition is RECEIVE else None
                if group is None or group not in groups_received:
                    groups_received[group] = bits
                    bits += 1
                mask |= 1 << groups_received[group]
            stage = Stage([node], compiled=False, blocking=blocks)
            entries.append((depth, 1, 0, position, stage))
        waits[node] = mask
    for stage in groups.values():
        if len(stage.nodes) == len(stage.host_nodes) == 1:
            stage.compiled, stage.host_nodes = False, set()
    entries.sort(key=lambda entry: entry[:4])
    ordered = [stage for *_, stage in entries]
    return ordered if late_arguments else _with_little_work_postponed(program, ordered)


def _idle_nodes(program: Program, is_compiled: dict[Node, bool]) -> set[Node]:
    """Nodes with nothing to do, which only name a variable, or its value where it is used.

    They are in no stage; without them a stage may be joined to the only one that needs it.
    """
    wanted = {edge.node for edge in program.results}
    idle: set[Node] = set()
    for node in program.nodes:
        if (
            is_compiled[node]
            and node not in wanted
            and all(source in idle for source in node.predecessors())
            and (is_variable(node) or (node.type == "Identity" and is_variable_edge(Edge(node, 0))))
        ):
            idle.add(node)
    return idle


def _with_little_work_postponed(program: Program, ordered: list[Stage]) -> list[Stage]:
    """The stages, where those of little work are joined to the only one that needs them."""
    home = {node: stage for stage in ordered for node in stage.nodes}
    users: dict[Stage, set[Stage | None]] = {stage: set() for stage in ordered}
    for stage in ordered:
        for node in stage.nodes:
            for source in node.predecessors():
                maker = home.get(source)
                if maker is not None and maker is not stage:
                    users[maker].add(stage)
    for node in (*(edge.node for edge in program.results), *program.targets):
        if node in home:
            users[home[node]].add(None)  # somebody outside
    joined: dict[Stage, Stage] = {}
    for stage in ordered:
        if len(users[stage]) == 1 and stage.compiled and all(map(_is_little_work, stage.nodes)):
            (user,) = users[stage]
            # What decides a shape over there must be there before.
            if user is not None and user.compiled and not _decides_shape(stage, user, home):
                joined[stage] = user
    for stage, user in joined.items():  # in order: a chain moves to its end
        user.nodes[:0] = stage.nodes
        user.host_nodes |= stage.host_nodes
    return [stage for stage in ordered if stage not in joined]


def _is_little_work(node: Node) -> bool:
    return (
        node.definition.is_pure
        and not node.type.startswith(_MUCH_WORK)
        and "rng" not in node.definition.specials
        and not any(_is_function(value) for value in node.attrs.values())
        and not any(is_variable_edge(edge) for edge in node.inputs)
        and not any(is_variable_edge(Edge(node, i)) for i in range(len(node.output_types)))
    )


def _is_function(value: Attr) -> bool:
    if isinstance(value, list):
        return any(isinstance(item, Function) for item in value)
    return isinstance(value, Function)


def _decides_shape(stage: Stage, user: Stage, home: dict[Node, Stage]) -> bool:
    folded: dict[Edge, bool] = {}
    return any(
        home.get(edge.node) is stage and not is_folded(edge, folded)
        for node in user.nodes
        for i, edge in enumerate(node.inputs)
        if i in static_positions(node)
    )


def static_positions(node: Node) -> set[int]:
    """Positions among the flattened inputs whose values the kernel needs while tracing."""
    definition = node.definition
    arguments: Iterable[int] = definition.static_inputs
    if definition.static_rule is not None:
        arguments = [definition.signature.input_index(n) for n in definition.static_rule(node)]
    elif not definition.is_pure and definition.is_foldable:
        arguments = range(len(definition.signature.inputs))
    if not arguments:
        return set()
    positions: set[int] = set()
    slices = definition.signature.input_slices(node.attrs)
    for i in arguments:
        found = slices[i]
        positions.update(range(found.start, found.stop) if isinstance(found, slice) else (found,))
    return positions
