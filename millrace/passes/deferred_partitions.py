"""Which partitions of a step need not begin before the master's task has something for them.

A parameter server's partition of a training step says what its variables are, waits for gradients,
and updates. Asked to begin when the gradients are there, in the message that brings them, it has
nothing to wait for; and what its variables are, the master's task can ask for, or read by itself.

That must not make a step wait for itself. So a partition is deferred only if all that it does for
others comes after the message that it begins with; or is to send variables to a third task, where
that message does not depend on them.
"""

from __future__ import annotations

from millrace.core.device_spec import task_of
from millrace.passes import schedule
from millrace.passes.frames import has_control_flow
from millrace.passes.function_body import bodies_of
from millrace.passes.node import Node, Program, ancestors, is_variable_edge, variable_of
from millrace.passes.transfer import BEGINS, RECEIVE, SEND


def defer_partitions(program: Program) -> Program:
    """Lets a partition begin with a message from the master's task, where nobody can tell."""
    setting = program.setting
    if setting.feeds_one_by_one or setting.reads_cut or has_control_flow(program):
        return program
    first, on_request = _deferred(program)
    if not first:
        return program
    program = program.copy()
    for node in program.nodes:
        if node.definition is RECEIVE and node.attrs["key"] in first:
            node.attrs = {**node.attrs, BEGINS: True}
        elif node.definition is SEND and node.attrs["key"] in on_request:
            node.attrs = {**node.attrs, "on_request": True}
    return program


def _deferred(program: Program) -> tuple[set[int], set[int]]:
    """The keys of the messages that partitions begin with, and of what they send on request."""
    home = program.setting.home
    by_task: dict[str, list[Node]] = {}
    for node in program.nodes:
        by_task.setdefault(task_of(node.device), []).append(node)
    finder = _Finder(program, home)
    first: set[int] = set()
    on_request: set[int] = set()
    for task, nodes in by_task.items():
        found = finder.find(nodes) if task != home else None
        if found is not None:
            first.add(found[0])
            on_request.update(found[1])
    return first, on_request


class _Finder:
    """Finds the partitions of a step that can begin late."""

    def __init__(self, program: Program, home: str) -> None:
        self._home = home
        self._sends = {n.attrs["key"]: n for n in program.nodes if n.definition is SEND}

    def find(self, nodes: list[Node]) -> tuple[int, list[int]] | None:
        """What a partition begins with, if it can be deferred.

        Args:
          nodes: All nodes of the partition.

        Returns:
          The key of the message from home, and the keys of what is sent on request; or None.
        """
        told = [node for node in nodes if _sends_variables(node)]
        reads = [node for node in told if node.attrs["to"].decode() == self._home]
        busy = {node for node in nodes if not _is_idle(node)}.difference(reads)
        for node in nodes:
            if node.definition is not RECEIVE or node.attrs["source"].decode() != self._home:
                continue
            early = busy - _after(node, nodes)
            # What waits for others that wait for the message comes after it, too.
            early = {each for each in early if node not in self._before(each)}
            if early <= {*told} and early.isdisjoint(self._before(self._sends[node.attrs["key"]])):
                return node.attrs["key"], [send.attrs["key"] for send in reads]
        return None

    def _before(self, last: Node) -> set[Node]:
        """All that a node waits for, on any task."""
        found: set[Node] = set()
        pending = [last]
        while pending:
            node = pending.pop()
            sources = set(node.predecessors())
            if node.definition is RECEIVE:
                sources.add(self._sends[node.attrs["key"]])
            for source in sources - found:
                found.add(source)
                pending.append(source)
        return found


def _sends_variables(node: Node) -> bool:
    """Whether a node does nothing but send variables, whatever else is done."""
    return (
        node.definition is SEND
        and not node.attrs["last"]
        and not node.controls
        and all(
            is_variable_edge(edge)
            and variable_of(edge) is not None
            and edge.dtype.name not in ("resource", "variant")
            for edge in node.inputs
        )
        and all(map(_is_idle, ancestors(node)))
    )


def _is_idle(node: Node) -> bool:
    """Whether nobody can tell when a node runs: it only computes, names something, or waits."""
    if node.definition is RECEIVE:
        return True
    if node.definition.kind == "blocking" or bodies_of(node) or schedule.writes_state(node):
        return False
    return node.definition.is_pure or not (node.inputs or node.controls)


def _after(first: Node, nodes: list[Node]) -> set[Node]:
    """All that waits for a node."""
    followers: dict[Node, list[Node]] = {}
    for node in nodes:
        for source in node.predecessors():
            followers.setdefault(source, []).append(node)
    found: set[Node] = set()
    pending = [first]
    while pending:
        for node in followers.get(pending.pop(), ()):
            if node not in found:
                found.add(node)
                pending.append(node)
    return found
