"""Cuts a placed program at the borders of tasks, by transfers between them.

The *level* of a node is the number of transfers on the longest path to it. All values that one
task hands another, and that are made on one level after the same blocking nodes, travel in one
message. That cannot make a step wait for itself: what a message holds depends only on messages
of lower levels. A constant is not sent; the task that reads it has it.

The result is still one program; `partitions.split` takes it apart.
"""

from __future__ import annotations

from millrace.core import dtypes, errors
from millrace.core.device_spec import task_of
from millrace.core.tensor_shape import TensorShape
from millrace.graph import registry
from millrace.passes import frames, schedule
from millrace.passes.fewer_messages import after, is_little
from millrace.passes.function_body import bodies_of, functions_of
from millrace.passes.node import (
    Edge,
    Node,
    Program,
    is_array_handle,
    is_variable_edge,
    names_variable,
    variable_of,
)
from millrace.passes.transfer import LIFE_SIGN, LOOP_RECEIVE, LOOP_SEND, RECEIVE, SEND


def partition(program: Program) -> Program:
    """Puts sends and receives where a value goes from one task to another.

    Raises:
      InvalidArgumentError: A handle would have to go to another task; a cycle.
    """
    if len(program.tasks()) < 2 or any(n.definition in (SEND, RECEIVE) for n in program.nodes):
        return program
    return _Partitioner(program.copy()).run()


class _Message:
    """What goes from one task to another at one point."""

    def __init__(self, source: str, to: str, level: int, mask: int) -> None:
        self.source = source
        self.to = to
        self.level = level
        self.mask = mask
        self.edges: dict[Edge, int] = {}
        self.controls: dict[Node, None] = {}
        #: Of nodes in branches that something waits for: signs of life, and who looks at them.
        self.life_signs: dict[Node, Edge] = {}
        self.watches: dict[Node, Node] = {}
        self.send: Node | None = None
        self.receive: Node | None = None


class _Partitioner:
    def __init__(self, program: Program) -> None:
        self._has_control_flow = frames.has_control_flow(program)
        self._program = program
        self._home = program.setting.home
        #: Whether all arguments come in and all results go out at home.
        self._ends_at_home = program.setting.feeds_one_by_one
        self._task = {node: task_of(node.device) for node in program.nodes}
        self._arguments = {edge.node: i for i, edge in enumerate(program.arguments)}
        if self._ends_at_home:
            self._task.update(dict.fromkeys(self._arguments, self._home))
        self._level: dict[Node, int] = {}
        self._mask: dict[Node, int] = {}
        self._messages: dict[tuple[str, str, int, int], _Message] = {}
        self._names = {node.name for node in program.nodes}

    def run(self) -> Program:
        self._cut()
        transfers: list[Node] = []
        for message in dict.fromkeys(self._messages.values()):
            assert message.send is not None and message.receive is not None
            transfers += message.send, message.receive
        return self._program.with_nodes([*self._program.nodes, *transfers])

    def _cut(self) -> None:
        program = self._program
        if self._has_control_flow:
            order = frames.order(program)
            guards = frames.Guards(order)
        else:
            order = schedule.topological_order(program.nodes)
            guards = None
        self._measure(order)
        crossings: list[tuple[Node, int, Edge]] = []
        control_crossings: list[tuple[Node, Node]] = []
        for node in order:
            task = self._task[node]
            for i, edge in enumerate(node.inputs):
                if self._crosses(edge.node, task):
                    if _is_used_in_body(edge, node):
                        raise errors.InvalidArgumentError(
                            None,
                            node.source,
                            f"{node.name} ({node.type}) on {task} uses {edge.node.name} in a "
                            f"branch or loop, but that is on {self._task[edge.node]}. A branch or "
                            "loop runs on one task: where the state is that it uses, unless that "
                            "is on several, or something in it belongs to a place (files, Python, "
                            "printing). Use the value of a variable instead (v.read_value() before "
                            "it), or take one of the two out of it.",
                        )
                    crossings.append((node, i, edge))
                    self._message(edge.node, task).edges.setdefault(edge, -1)
            for control in node.controls:
                if self._crosses(control, task):
                    control_crossings.append((node, control))
                    self._message(control, task).controls[control] = None
        if self._ends_at_home:
            for edge in program.results:
                if self._crosses(edge.node, self._home):
                    self._message(edge.node, self._home).edges.setdefault(edge, -1)
            for node in program.targets:
                if self._crosses(node, self._home):
                    self._message(node, self._home).controls[node] = None
        if guards is None and not self._ends_at_home:
            self._postpone(order, crossings, control_crossings)
        for key, message in enumerate(dict.fromkeys(self._messages.values())):
            self._make_nodes(message, key, guards)
        for node, i, edge in crossings:
            node.inputs[i] = self._received(edge, self._task[node])
        waits_for: dict[tuple[Node, Node], Node] = {}
        for node, control in control_crossings:
            message = self._message(control, self._task[node])
            assert message.receive is not None
            waits_for[node, control] = (
                self._watch(message, control) if control in message.life_signs else message.receive
            )
        for node in order:
            controls = (waits_for.get((node, control), control) for control in node.controls)
            node.controls = list(dict.fromkeys(controls))
        if self._ends_at_home:
            program.results = [
                self._received(edge, self._home) if self._crosses(edge.node, self._home) else edge
                for edge in program.results
            ]
            program.targets = [
                self._receive_node(node) if self._crosses(node, self._home) else node
                for node in program.targets
            ]

    def _crosses(self, source: Node, task: str) -> bool:
        """Whether what `source` makes must travel to `task`."""
        return self._task.get(source, task) != task

    def _message(self, source: Node, to: str) -> _Message:
        key = (self._task[source], to, self._level.get(source, 0), self._mask.get(source, 0))
        message = self._messages.get(key)
        if message is None:
            message = self._messages[key] = _Message(*key)
        return message

    def _postpone(
        self,
        order: list[Node],
        crossings: list[tuple[Node, int, Edge]],
        control_crossings: list[tuple[Node, Node]],
    ) -> None:
        """Lets what is ready early travel with a later message, if only users of both use it.

        They wait for the later one anyway; and that one waits for all the blocking nodes that
        the early one does, so nobody waits for more than before. What is little is postponed
        too when its users only run after those of the later message.
        """
        users: dict[_Message, set[Node]] = {}
        for node, _, edge in crossings:
            users.setdefault(self._message(edge.node, self._task[node]), set()).add(node)
        for node, control in control_crossings:
            users.setdefault(self._message(control, self._task[node]), set()).add(node)
        by_level = sorted(self._messages.items(), key=lambda item: item[1].level)

        def suffices(early: _Message, late: _Message) -> bool:
            return users[early] <= users[late] or (
                all(map(is_little, early.edges)) and users[early] <= after(users[late], order)
            )

        for i, (key, early) in enumerate(by_level):
            for _, late in by_level[i + 1 :]:
                if (
                    (late.source, late.to) == (early.source, early.to)
                    and late.level > early.level
                    and not early.mask & ~late.mask
                    and suffices(early, late)
                    and self._stays_same(early, users[early], order)
                ):
                    late.edges = {**early.edges, **late.edges}
                    late.controls = {**early.controls, **late.controls}
                    self._messages[key] = late
                    users[late] |= users[early]
                    break

    def _stays_same(self, message: _Message, users: set[Node], order: list[Node]) -> bool:
        """Whether variables of a message are only written after its users have run."""
        variables = {variable_of(edge) for edge in message.edges if is_variable_edge(edge)}
        if not variables:
            return True
        if None in variables:
            return False
        after: set[Node] = set()
        for node in order:
            if not after.isdisjoint(node.predecessors()) or node in users:
                after.add(node)
            if node not in after and any(
                is_variable_edge(edge) and variable_of(edge) in variables
                for edge in (node.inputs if schedule.writes_state(node) or bodies_of(node) else ())
            ):
                return False
        return True

    def _received(self, edge: Edge, task: str) -> Edge:
        message = self._message(edge.node, task)
        assert message.receive is not None
        return Edge(message.receive, message.edges[edge])

    def _receive_node(self, node: Node) -> Node:
        receive = self._message(node, self._home).receive
        assert receive is not None
        return receive

    def _measure(self, order: list[Node]) -> None:
        """Levels and masks; a loop is on one level as a whole."""
        loops = frames.outermost_frames(order)
        bits = 0
        for i, argument in enumerate(self._arguments):
            self._level[argument] = 0
            self._mask[argument] = 1 << i if self._ends_at_home else 0
        if self._ends_at_home:
            bits = len(self._arguments)
        own: dict[Node, int] = {}
        for node in order:
            if _may_wait(node):
                own[node] = 1 << bits
                bits += 1
        changed = True
        by_loop: dict[str, tuple[int, int]] = {}
        while changed:
            changed = False
            for node in order:
                level, mask = 0, own.get(node, 0)
                task = self._task[node]
                for source in node.predecessors():
                    if source in self._level:
                        hop = self._task.get(source, task) != task
                        level = max(level, self._level[source] + hop)
                        mask |= self._mask[source]
                loop = loops.get(node)
                if loop is not None:
                    known = by_loop.get(loop, (0, 0))
                    level, mask = max(level, known[0]), mask | known[1]
                    if (level, mask) != known:
                        by_loop[loop] = (level, mask)
                        changed = True
                self._level[node], self._mask[node] = level, mask
        for node in order:
            if node.definition in (LOOP_SEND, LOOP_RECEIVE):
                node.attrs = {**node.attrs, "level": self._level[node]}

    def _make_nodes(self, message: _Message, key: int, guards: frames.Guards | None) -> None:
        source, to = message.source, message.to
        guard_texts: dict[Edge, bytes] = {}
        if guards is not None:
            for control in list(message.controls):
                if guards.of_node(control):
                    sign = self._send_life_sign(message, control)
                    guard_texts[sign] = guards.text(Edge(control, -1))
        for i, edge in enumerate(message.edges):
            if is_array_handle(edge) or (
                edge.dtype.base_dtype.name in ("resource", "variant")
                or (edge.dtype._is_ref_dtype and not names_variable(edge))
            ):
                raise errors.InvalidArgumentError(
                    None,
                    edge.node.source,
                    f"{edge.name} is a handle ({edge.dtype.name}) that is used on {to}, but what "
                    f"is behind it is on {source}. Place its users there too.",
                )
            message.edges[edge] = i
        types = [edge.dtype.base_dtype for edge in message.edges]
        shapes = [_static_shape(edge) for edge in message.edges]
        message.send = Node(
            self._unique(f"send_{key}"),
            SEND,
            {
                "T": types,
                "to": to.encode(),
                "key": key,
                "last": False,
                "on_request": False,
                "shapes": shapes,
            },
            list(message.edges),
            list(message.controls),
            device=source,
            order=-1,
        )
        message.receive = Node(
            self._unique(f"receive_{key}"),
            RECEIVE,
            {
                "T": types,
                "source": source.encode(),
                "key": key,
                "group": f"{message.level}/{message.mask:x}".encode(),
                "level": message.level + 1,
                "names": [edge.name.encode() for edge in message.edges],
                "guards": [
                    b"" if guards is None else guard_texts.get(edge) or guards.text(edge)
                    for edge in message.edges
                ],
                "shapes": shapes,
            },
            device=to,
            order=-1,
        )

    def _send_life_sign(self, message: _Message, control: Node) -> Edge:
        """For a control edge out of a branch: a value that is dead if the branch is."""
        sign = Node(
            self._unique(f"{control.name}_life_sign"),
            LIFE_SIGN,
            {},
            controls=[control],
            device=message.source,
            order=control.order,
        )
        self._program.nodes.append(sign)
        self._task[sign] = message.source
        del message.controls[control]
        message.life_signs[control] = Edge(sign, 0)
        message.edges[Edge(sign, 0)] = -1
        return Edge(sign, 0)

    def _watch(self, message: _Message, control: Node) -> Node:
        """The node at the receiving side that stands for `control`, and is dead if it is."""
        watch = message.watches.get(control)
        if watch is None:
            assert message.receive is not None
            sign = message.life_signs[control]
            watch = message.watches[control] = Node(
                self._unique(f"{control.name}_watch"),
                registry.lookup("Identity"),
                {"T": dtypes.int32},
                [Edge(message.receive, message.edges[sign])],
                device=message.to,
                order=control.order,
            )
            self._program.nodes.append(watch)
            self._task[watch] = message.to
        return watch

    def _unique(self, name: str) -> str:
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name


def _may_wait(node: Node) -> bool:
    if node.definition.kind == "blocking":
        return node.definition is not LOOP_RECEIVE  # What it waits for is in its loop.
    return any(_may_wait(inner) for body in bodies_of(node) for inner in body.nodes)


def _is_used_in_body(edge: Edge, node: Node) -> bool:
    """Whether a function that the node calls uses the state behind a handle, not its value."""
    if not functions_of(node):
        return False
    if edge.dtype.name == "resource":
        return True
    return edge.dtype._is_ref_dtype and any(
        used.dtype._is_ref_dtype and used.node.name == edge.node.name
        for body in bodies_of(node)
        for inner in body.nodes
        for used in inner.inputs
    )


def _static_shape(edge: Edge) -> TensorShape:
    """What the graph says of a value's shape."""
    source = edge.node.source
    if source is None or edge.index >= len(source.outputs):
        return TensorShape(None)
    return source.outputs[edge.index].shape
