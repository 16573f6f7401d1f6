"""Finding the parts of a program that TensorFlow 1.x control flow rules: regions.

In such a part a value may be dead (its branch was not taken) and a node may run many times
(once an iteration). Each region becomes one node, which the runtime's interpreter runs.
What lies outside of loops and of branches stays outside and is compiled as ever.
"""

from __future__ import annotations

from collections.abc import Iterable

from millrace.graph import registry
from millrace.graph.signature import parse
from millrace.passes import rendezvous
from millrace.passes.node import Edge, Node, Program
from millrace.passes.transfer import LOOP_RECEIVE, LOOP_SEND, RECEIVE, SEND

SWITCHES = frozenset(("Switch", "RefSwitch"))
MERGES = frozenset(("Merge", "RefMerge"))
ENTERS = frozenset(("Enter", "RefEnter"))
EXITS = frozenset(("Exit", "RefExit"))
NEXT_ITERATIONS = frozenset(("NextIteration", "RefNextIteration"))
_CONTROL_FLOW = SWITCHES | MERGES | ENTERS | EXITS | NEXT_ITERATIONS | {"LoopCond"}
#: Ops on arrays and stacks pass their handles around as values wherever these occur.
_KEPT_TOGETHER = ("TensorArray", "Stack")
_TRIGGERS = _CONTROL_FLOW | {"TensorArrayGradV3"}

REGION = registry.OpDefinition(
    parse("_Region(inputs: [Tin]) -> outputs: [Tout]"),
    shape_rule=lambda c: None,
    kernel=lambda inputs: inputs,
    kind="host",
    gradient=registry.NO_GRADIENT,
)
#: A region in which something may wait.
WAITING_REGION = registry.OpDefinition(
    parse("_WaitingRegion(inputs: [Tin]) -> outputs: [Tout]"),
    shape_rule=lambda c: None,
    kernel=lambda inputs: inputs,
    kind="blocking",
    gradient=registry.NO_GRADIENT,
)
_REGIONS = (REGION, WAITING_REGION)
_TRANSFERS_IN_LOOPS = (LOOP_SEND, LOOP_RECEIVE)


class Region:
    """The nodes of a region, kept in the attribute ``region`` of its node.

    Attributes:
      references: Outputs that are wanted as variables, not as their values: by other regions.
    """

    def __init__(self, nodes: list[Node], outputs: list[Edge], references: set[Edge]) -> None:
        self.nodes = nodes
        self.outputs = outputs
        self.references = references


def has_control_flow(program: Program) -> bool:
    """Whether something in the program may be dead or run many times."""
    return any(
        node.type in _TRIGGERS or (node.definition is RECEIVE and any(node.attrs["guards"]))
        for node in program.nodes
    )


def is_ruled(program: Program) -> bool:
    """Whether the program has TensorFlow 1.x control flow itself, in no region."""
    return any(node.type in _TRIGGERS for node in program.nodes)


def control_flow_regions(program: Program) -> Program:
    """Replaces each region that TensorFlow 1.x control flow rules by one node."""
    if not has_control_flow(program) or any(n.definition in _REGIONS for n in program.nodes):
        return program
    program = program.copy()
    _Collapser(program).run()
    return program


def order(program: Program) -> list[Node]:
    """The nodes of a program in topological order, loops cut at their back edges."""
    nodes = dict.fromkeys(program.nodes)
    waiting: dict[Node, int] = {}
    followers: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        for source in _sources(node):
            if source in nodes:
                followers[source].append(node)
        waiting[node] = sum(s in nodes for s in _forward_sources(node))
    ready = sorted((n for n, w in waiting.items() if not w), key=lambda n: n.order)
    found: list[Node] = []
    while ready:
        node = ready.pop()
        found.append(node)
        if node.type in NEXT_ITERATIONS:
            continue
        for follower in followers[node]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                ready.append(follower)
    return found


#: A branch: the name of the tensor that decides, and which of the two it is.
_Branch = tuple[str, int]


class Guards:
    """In which branches each value is made: it is dead unless all of them are taken."""

    def __init__(self, order: list[Node]) -> None:
        self._of_edge: dict[Edge, frozenset[_Branch]] = {}
        self._of_node: dict[Node, frozenset[_Branch]] = {}
        frame = outermost_frames(order)
        entries: dict[str, frozenset[_Branch]] = {}
        for node in order:
            own: set[_Branch] = set()
            for edge in node.inputs:
                own |= self.of_edge(edge)
            for control in node.controls:
                own |= self.of_node(control)
            if node.type in MERGES:
                own = {g for g in own if (g[0], 1 - g[1]) not in own}
            if node.type in EXITS:
                own = set(entries.get(frame.get(node, ""), frozenset()))
            if node.type in ENTERS:
                name = frame[node]
                entries[name] = entries.get(name, frozenset()) | own
            found = self._of_node[node] = frozenset(own)
            if node.type in SWITCHES and node not in frame:
                decides = _root_name(node.inputs[1])
                for branch in (0, 1):
                    self._of_edge[Edge(node, branch)] = found | {(decides, branch)}
            if node.definition is RECEIVE:
                for i, text in enumerate(node.attrs["guards"]):
                    self._of_edge[Edge(node, i)] = _parse_guards(text)

    def of_node(self, node: Node) -> frozenset[_Branch]:
        """The branches in which a node runs."""
        return self._of_node.get(node, frozenset())

    def of_edge(self, edge: Edge) -> frozenset[_Branch]:
        """The branches in which a value is made."""
        found = self._of_edge.get(edge)
        return self.of_node(edge.node) if found is None else found

    def text(self, edge: Edge) -> bytes:
        """`of_edge` as an attribute of a receive."""
        return b",".join(b"%s=%d" % (n.encode(), b) for n, b in sorted(self.of_edge(edge)))


def _parse_guards(text: bytes) -> frozenset[_Branch]:
    pairs = (part.rpartition("=") for part in text.decode().split(",") if part)
    return frozenset((name, int(branch)) for name, _, branch in pairs)


class _Collapser:
    def __init__(self, program: Program) -> None:
        self._program = program

    def run(self) -> None:
        """Finds members, groups them by level, and puts a region node for each group."""
        nodes = order(self._program)
        if any(n.definition in rendezvous.SENDS + rendezvous.RECEIVES for n in nodes):
            # Cut by a master of TensorFlow, which tells nothing of what waits for what: so nothing
            # may be kept waiting that could run.
            self._replace(set(nodes), dict.fromkeys(nodes, 0), {0: nodes})
            return
        frame = outermost_frames(nodes)
        members = self._members(frame, nodes)
        # A loop that other tasks have parts of is a region of its own: it must not keep back what
        # those parts wait for.
        shared = {frame[n] for n in nodes if n.definition in _TRANSFERS_IN_LOOPS and n in frame}
        loop = {n: name if name in shared else "" for n, name in frame.items()}
        level = self._levels(members, frame, loop, nodes)
        numbers: dict[tuple[int, str], int] = {}
        for key in sorted({(level[n], loop.get(n, "")) for n in nodes if n in members}):
            numbers[key] = len(numbers)
        number = {n: numbers[level[n], loop.get(n, "")] for n in nodes if n in members}
        groups: dict[int, list[Node]] = {}
        for node in nodes:
            if node in members:
                groups.setdefault(number[node], []).append(node)
        self._replace(members, number, groups)

    def _members(self, frame: dict[Node, str], order: list[Node]) -> set[Node]:
        guards = Guards(order)
        has_frames = bool(frame) or any(n.type == "TensorArrayGradV3" for n in order)
        return {
            node
            for node in order
            if node.definition is not SEND
            and (
                guards.of_node(node)
                or node in frame
                or node.type in _CONTROL_FLOW
                or (has_frames and node.type.startswith(_KEPT_TOGETHER))
            )
        }

    def _levels(
        self,
        members: set[Node],
        frame: dict[Node, str],
        shared: dict[Node, str],
        order: list[Node],
    ) -> dict[Node, int]:
        """How many regions lie before each node; all of one loop are on one level."""
        # What follows a transfer comes after what precedes it: on its way back, a value may have
        # passed another task.
        transfers = (RECEIVE, *_TRANSFERS_IN_LOOPS)
        level = {
            node: node.attrs["level"] << 20 if node.definition in transfers else 0 for node in order
        }
        changed = True
        while changed:
            changed = False
            by_frame: dict[str, int] = {}
            for node in order:
                value = level[node]
                for source in _forward_sources(node):
                    if source in level:
                        hop = (source in members and node not in members) or (
                            shared.get(source, "") != shared.get(node, "")
                        )
                        value = max(value, level[source] + hop)
                name = frame.get(node)
                if name is not None:
                    value = max(value, by_frame.get(name, 0))
                    by_frame[name] = value
                if value != level[node]:
                    level[node] = value
                    changed = True
            for node in order:
                name = frame.get(node)
                if name is not None and level[node] < by_frame[name]:
                    level[node] = by_frame[name]
                    changed = True
        return level

    def _replace(
        self, members: set[Node], number: dict[Node, int], groups: dict[int, list[Node]]
    ) -> None:
        program = self._program
        wanted: dict[Edge, None] = {}
        as_values: set[Edge] = set(program.results)
        for node in program.nodes:
            for edge in node.inputs:
                if edge.node in members and (
                    node not in members or number[node] != number[edge.node]
                ):
                    wanted[edge] = None
                if node not in members:
                    as_values.add(edge)
        for edge in program.results:
            if edge.node in members:
                wanted[edge] = None
        references = {
            edge for edge in wanted if edge.dtype._is_ref_dtype or edge.dtype.name == "resource"
        } - as_values
        region_nodes: dict[int, Node] = {}
        new_edge: dict[Edge, Edge] = {}
        for group, nodes in sorted(groups.items()):
            outputs = [edge for edge in wanted if number[edge.node] == group]
            waits = any(node.definition.kind == "blocking" for node in nodes)
            node = Node(
                f"_region_{group}",
                WAITING_REGION if waits else REGION,
                {
                    "Tin": [],
                    "Tout": [edge.dtype.base_dtype for edge in outputs],
                    "region": Region(nodes, outputs, references.intersection(outputs)),
                },
                order=min(n.order for n in nodes),
                device=nodes[0].device,
            )
            region_nodes[group] = node
            for i, edge in enumerate(outputs):
                new_edge[edge] = Edge(node, i)
        for group, nodes in groups.items():
            region_node = region_nodes[group]
            inside = set(nodes)
            inputs: dict[Edge, None] = {}
            controls: dict[Node, None] = {}
            for node in nodes:
                for edge in node.inputs:
                    if edge.node not in inside:
                        inputs[edge] = None
                for control in node.controls:
                    if control not in inside:
                        outer = region_nodes[number[control]] if control in members else control
                        controls[outer] = None
            region_node.inputs = [new_edge.get(edge, edge) for edge in inputs]
            region_node.attrs["Tin"] = [edge.dtype.base_dtype for edge in inputs]
            region_node.attrs["outside"] = list(inputs)
            region_node.controls = list(controls)
        kept = [node for node in program.nodes if node not in members]
        for node in kept:
            node.inputs = [new_edge.get(edge, edge) for edge in node.inputs]
            node.controls = list(
                dict.fromkeys(region_nodes[number[c]] if c in members else c for c in node.controls)
            )
        program.nodes = [*kept, *region_nodes.values()]
        program.results = [new_edge.get(edge, edge) for edge in program.results]
        program.targets = [region_nodes[number[n]] if n in members else n for n in program.targets]


def frame_stacks(
    order: list[Node],
) -> tuple[dict[Node, tuple[str, ...]], dict[Node, tuple[str, ...]]]:
    """The frames, outermost first, that each node runs in, and those that its outputs are in.

    An Enter's output is further in than the Enter. `order` is topological.
    """
    after: dict[Node, tuple[str, ...]] = {}
    stacks: dict[Node, tuple[str, ...]] = {}
    for node in order:
        stack: tuple[str, ...] = ()
        for source in _forward_sources(node):
            stack = max(stack, after.get(source, ()), key=len)
        stacks[node] = after[node] = stack
        if node.type in ENTERS:
            after[node] = (*stack, node.attrs["frame_name"].decode())
        elif node.type in EXITS:
            after[node] = stack[:-1]
    return stacks, after


def innermost_frames(order: list[Node]) -> dict[Node, str]:
    """The frame whose iterations each node runs in; an empty name outside of loops."""
    return {node: stack[-1] if stack else "" for node, stack in frame_stacks(order)[0].items()}


def outermost_frames(order: list[Node]) -> dict[Node, str]:
    """The outermost loop of each node that is part of one, Enters included."""
    found = {node: stack[0] for node, stack in frame_stacks(order)[0].items() if stack}
    for node in order:
        if node.type in ENTERS and node not in found:
            found[node] = node.attrs["frame_name"].decode()
    return found


def _sources(node: Node) -> Iterable[Node]:
    return dict.fromkeys(node.predecessors())


def _forward_sources(node: Node) -> Iterable[Node]:
    """What a node waits for, but for the back edges of loops."""
    return [s for s in _sources(node) if s.type not in NEXT_ITERATIONS or node.type not in MERGES]


def _root_name(edge: Edge) -> str:
    """The name of the tensor that an edge hands on, wherever that was made."""
    while edge.node.type == "Identity":
        edge = edge.node.inputs[0]
    if edge.node.definition is RECEIVE:
        return str(edge.node.attrs["names"][edge.index].decode())
    return edge.name
