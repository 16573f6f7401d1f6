"""From one placed program to one program a task, with transfers between them.

The *level* of a node is the number of transfers on the longest path to it. All values that one
task hands another, and that are made on one level after the same blocking nodes, travel in one
message. That cannot make a step wait for itself: what a message holds depends only on messages
of lower levels. A constant is not sent; the task that reads it has it.

A part that does nothing before it has heard from `home`, but say what its variables are, begins
with what `home` sends it (`late_part`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.core import dtypes, errors
from millrace.core.tensor_shape import TensorShape
from millrace.graph import registry
from millrace.passes import frames, schedule
from millrace.passes.constants import detach_constants
from millrace.passes.fewer_messages import after, dissolve_groups, is_little
from millrace.passes.function_body import bodies_of, functions_of
from millrace.passes.late_part import LatePartFinder
from millrace.passes.node import (
    Edge,
    Node,
    Program,
    is_array_handle,
    is_variable_edge,
    names_variable,
    variable_of,
)
from millrace.passes.split_loops import LoopSplitter, groups_of_loops, settle_handles
from millrace.passes.transfer import LIFE_SIGN, LOOP_RECEIVE, LOOP_SEND, RECEIVE, SEND

TaskOf = Callable[[str], str]


class Part:
    """What one task runs of a step.

    Attributes:
      task: The task.
      program: Its program.
      arguments: Positions, among the whole program's arguments, of this program's.
      results: Positions, among the whole program's results, of this program's.
      targets: The same for targets.
      sends_to: The tasks that it sends something to.
      last_key: The key of what it sends to `home` with the message that it is over, if it does.
      first_key: The key of what `home` sends it to begin with; None if it begins at once.
      read_keys: The keys of what it sends to `home` when asked for it.
    """

    def __init__(self, task: str) -> None:
        self.task = task
        self.program = Program([], [], [], [])
        self.arguments: list[int] = []
        self.results: list[int] = []
        self.targets: list[int] = []
        self.sends_to: list[str] = []
        self.last_key: int | None = None
        self.first_key: int | None = None
        self.read_keys: list[int] = []


def partition(
    program: Program, task_of: TaskOf, home: str, *, ends_at_home: bool = False
) -> dict[str, Part]:
    """Splits a program whose nodes have their devices.

    Args:
      program: The program; its nodes are used up.
      task_of: The task that a device belongs to.
      home: The task of the master; there is always a part for it.
      ends_at_home: Whether all arguments come in and all results go out at `home`, for a
        partial run; else each task is given what it needs and returns what it makes.

    Raises:
      UnimplementedError: A loop that needs state of several tasks has no condition.
      InvalidArgumentError: A handle would have to go to another task; a cycle.
    """
    return _Partitioner(program, task_of, home, ends_at_home).run()


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
    def __init__(self, program: Program, task_of: TaskOf, home: str, ends_at_home: bool) -> None:
        self._has_control_flow = frames.has_control_flow(program)
        detach_constants(program, but_waiting=self._has_control_flow)
        self._program = program
        self._home = home
        self._ends_at_home = ends_at_home
        self._task = {node: task_of(node.device) for node in program.nodes}
        self._arguments = {edge.node: i for i, edge in enumerate(program.arguments)}
        if ends_at_home:
            self._task.update(dict.fromkeys(self._arguments, home))
        self._level: dict[Node, int] = {}
        self._mask: dict[Node, int] = {}
        self._messages: dict[tuple[str, str, int, int], _Message] = {}
        self._names = {node.name for node in program.nodes}
        #: Sends of loops that lie on several tasks.
        self._loop_sends: list[tuple[str, Node]] = []

    def run(self) -> dict[str, Part]:
        program = self._program
        parts: dict[str, Part] = {self._home: Part(self._home)}
        if len({*self._task.values(), self._home}) > 1:
            self._cut()
        for node in program.nodes:
            task = self._task[node]
            parts.setdefault(task, Part(task)).program.nodes.append(node)
        self._hand_out(parts)
        for message in dict.fromkeys(self._messages.values()):
            assert message.send is not None and message.receive is not None
            sender, receiver = parts[message.source], parts[message.to]
            sender.program.nodes.append(message.send)
            sender.program.targets.append(message.send)
            if message.to not in sender.sends_to:
                sender.sends_to.append(message.to)
            receiver.program.nodes.append(message.receive)
            receiver.program.targets.append(message.receive)
        if not self._has_control_flow and not self._ends_at_home:
            for message in dict.fromkeys(self._messages.values()):
                if message.to == self._home and message.send is not None:
                    _send_with_the_end(parts[message.source], message.send)
            late = LatePartFinder((part.program for part in parts.values()), self._home)
            for task, part in parts.items():
                if task != self._home:
                    part.first_key, part.read_keys = late.begin_late(part.program)
        for task, send in self._loop_sends:
            parts[task].program.targets.append(send)
            to = send.attrs["to"].decode()
            if to not in parts[task].sends_to:
                parts[task].sends_to.append(to)
        return parts

    # -- Cutting ---------------------------------------------------------------------------

    def _cut(self) -> None:
        program = self._program
        if self._has_control_flow:
            self._settle_loops()
            order = frames.order(program)
            guards = frames.Guards(order)
        else:
            dissolve_groups(program)
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
        for node, control in control_crossings:
            message = self._message(control, self._task[node])
            assert message.receive is not None
            position = node.controls.index(control)
            node.controls[position] = (
                self._watch(message, control) if control in message.life_signs else message.receive
            )
        for node in order:
            node.controls = list(dict.fromkeys(node.controls))
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
                node.attrs["level"] = self._level[node]

    def _settle_loops(self) -> None:
        """Moves a loop to the one task whose state it needs, or splits it if there are several."""
        order = frames.order(self._program)
        settle_handles(order, self._task)
        loops = groups_of_loops(order)
        splitter: LoopSplitter | None = None
        for nodes in loops.values():
            bound = {self._task[node] for node in nodes if _holds_state(node)}
            if len(bound) > 1:
                if splitter is None:
                    splitter = LoopSplitter(self._program, self._task, self._unique)
                splitter.split(nodes)
                continue
            count = {t: sum(self._task[n] == t for n in nodes) for t in map(self._task.get, nodes)}
            task = next(iter(bound)) if bound else max(count, key=lambda t: count[t])
            assert task is not None
            for node in nodes:
                self._task[node] = task
        if splitter is not None:
            self._loop_sends = splitter.sends

    def _make_nodes(self, message: _Message, key: int, guards: Any) -> None:
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

    # -- Handing out -----------------------------------------------------------------------

    def _hand_out(self, parts: dict[str, Part]) -> None:
        """Gives each part its arguments, results and targets."""
        program = self._program
        for i, edge in enumerate(program.results):
            part = parts[self._task_of_made(edge.node)]
            part.results.append(i)
            part.program.results.append(edge)
        for i, node in enumerate(program.targets):
            part = parts[self._task_of_made(node)]
            part.targets.append(i)
            part.program.targets.append(node)
        for part in parts.values():
            if self._ends_at_home:
                used = set(self._arguments) if part.task == self._home else set()
            else:
                used = {e.node for node in part.program.nodes for e in node.inputs}
                used |= {e.node for e in part.program.results}
            for i, edge in enumerate(program.arguments):
                if edge.node in used:
                    part.arguments.append(i)
                    part.program.arguments.append(edge)

    def _task_of_made(self, node: Node) -> str:
        """Where a result comes from; arguments, constants and receives are at home."""
        return self._task.get(node, self._home)


def _send_with_the_end(part: Part, send: Node) -> None:
    """Lets a message to `home` go with the one that says that the part is over, if it is soon.

    Only when all that may take long, or wait, comes before it: else `home` might wait for the end
    of a part that waits for `home`.
    """
    before: set[Node] = set()
    pending = [send]
    while pending:
        for source in pending.pop().predecessors():
            if source not in before:
                before.add(source)
                pending.append(source)
    others = (
        node
        for node in part.program.nodes
        if node.definition is not SEND and (bodies_of(node) or not node.definition.is_pure)
    )
    if part.last_key is None and before.issuperset(others):
        part.last_key = send.attrs["key"]
        send.attrs["last"] = True


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


def _holds_state(node: Node) -> bool:
    return (
        node.definition.is_stateful
        or node.definition.kind == "blocking"
        or schedule.writes_state(node)
        or any(edge.dtype._is_ref_dtype or edge.dtype.name == "resource" for edge in node.inputs)
    ) and not node.type.startswith(("TensorArray", "Stack"))


def _static_shape(edge: Edge) -> TensorShape:
    """What the graph says of a value's shape."""
    source = edge.node.source
    if source is None or edge.index >= len(source.outputs):
        return TensorShape(None)
    return source.outputs[edge.index].shape
