"""Which parts of a step need not begin before the master's task has something for them.

A parameter server's part of a training step says what its variables are, waits for gradients,
and updates. Asked to begin when the gradients are there, in the message that brings them, it has
nothing to wait for; and what its variables are, the master's task can ask for, or read by itself.

That must not make a step wait for itself. So a part begins late only if all that it does for
others comes after the message that it begins with; or is to send variables to a third task, where
that message does not depend on them.
"""

from __future__ import annotations

from collections.abc import Iterable

from millrace.passes import schedule
from millrace.passes.function_body import bodies_of
from millrace.passes.node import Node, Program, is_variable_edge, variable_of
from millrace.passes.transfer import RECEIVE, SEND


class LatePartFinder:
    """Finds the parts of a step that can begin late."""

    def __init__(self, programs: Iterable[Program], home: str) -> None:
        """Looks at a step.

        Args:
          programs: All its parts.
          home: The task of the master.
        """
        self._home = home
        self._sends = {
            node.attrs["key"]: node
            for program in programs
            for node in program.nodes
            if node.definition is SEND
        }

    def begin_late(self, program: Program) -> tuple[int | None, list[int]]:
        """Lets a part begin with a message from `home`, if it can.

        Args:
          program: The part. Sends that are made on request are marked so.

        Returns:
          The key of that message, or None; and the keys of what is sent on request.
        """
        home = self._home
        told = [node for node in program.nodes if _sends_variables(node)]
        reads = [node for node in told if node.attrs["to"].decode() == home]
        busy = {node for node in program.nodes if not _is_idle(node)}.difference(reads)
        for node in program.nodes:
            if node.definition is not RECEIVE or node.attrs["source"].decode() != home:
                continue
            early = busy - _after(node, program.nodes)
            # What waits for others that wait for the message comes after it, too.
            early = {late for late in early if node not in self._before(late)}
            if early <= {*told} and early.isdisjoint(self._before(self._sends[node.attrs["key"]])):
                for send in reads:
                    send.attrs["on_request"] = True
                return node.attrs["key"], [send.attrs["key"] for send in reads]
        return None, []

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
        and all(map(_is_idle, _before(node)))
    )


def _is_idle(node: Node) -> bool:
    """Whether nobody can tell when a node runs: it only computes, names something, or waits."""
    if node.definition is RECEIVE:
        return True
    if node.definition.kind == "blocking" or bodies_of(node) or schedule.writes_state(node):
        return False
    return node.definition.is_pure or not (node.inputs or node.controls)


def _before(last: Node) -> set[Node]:
    """All that a node waits for."""
    found: set[Node] = set()
    pending = [last]
    while pending:
        for node in pending.pop().predecessors():
            if node not in found:
                found.add(node)
                pending.append(node)
    return found


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
