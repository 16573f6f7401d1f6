"""Loops of TensorFlow 1.x whose nodes are bound to several tasks: each task runs its part of them.

Every task that has nodes of a frame gets a *clock* for it: a loop of its own (Enter, Merge,
Switch, NextIteration) that goes on while the frame's condition, sent by the task that has it, says
so. Values that cross in an iteration go one by one, tagged with the iteration (`LOOP_SEND`,
`LOOP_RECEIVE`). Both ends fire in every iteration, dead or alive, so that none waits in vain.

Invariants afterwards: what enters, goes round and leaves as one loop variable is on one task; no
edge within a frame joins two tasks; no handle has travelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from millrace.core import dtypes, errors
from millrace.graph import registry
from millrace.passes import frames
from millrace.passes.node import Edge, Node, Program, is_array_handle, variable_of
from millrace.passes.transfer import LIFE_SIGN, LOOP_RECEIVE, LOOP_SEND

#: Frames, outermost first.
Stack = tuple[str, ...]
_HANDS_ON = (
    frames.SWITCHES
    | frames.MERGES
    | frames.ENTERS
    | frames.EXITS
    | frames.NEXT_ITERATIONS
    | {"Identity", "RefIdentity", "AddN"}
)
_ARRAYS = ("TensorArray", "Stack")


class _Clock(NamedTuple):
    merge: Node
    #: Alive in every iteration whose body runs.
    alive: Edge


def handle_root(edge: Edge) -> Node | None:
    """The node that made the handle (of a resource, an array, a stack) behind an edge."""
    seen: set[Node] = set()
    while edge.node.type in _HANDS_ON and edge.node.inputs and edge.node not in seen:
        seen.add(edge.node)
        edge = edge.node.inputs[0]
    return edge.node


def settle_handles(order: Iterable[Node], task: dict[Node, str]) -> None:
    """Moves nodes that use a handle, or hand an array's contents on, to what is behind it."""
    #: Nodes whose values are contents of arrays.
    flows: dict[Node, str] = {}
    for _ in range(2):  # A Merge is before the NextIteration that comes back to it.
        for node in order:
            for edge in node.inputs:
                if edge.dtype.name == "resource" or is_array_handle(edge):
                    root = handle_root(edge)
                    if root is not None and root in task and node in task:
                        task[node] = task[root]
                        if node.type.startswith("TensorArray"):
                            flows[node] = task[root]
                elif node.type in _HANDS_ON and edge.node in flows and _is_flow(edge):
                    flows[node] = task[node] = flows[edge.node]
            if node.type == "TensorArrayV3" and node in task:
                flows[node] = task[node]


def _is_flow(edge: Edge) -> bool:
    if edge.node.type in ("TensorArrayV3", "TensorArrayGradV3"):
        return edge.index == 1
    makes = ("TensorArrayWriteV3", "TensorArrayScatterV3", "TensorArraySplitV3")
    return edge.node.type in makes or edge.node.type in _HANDS_ON


def groups_of_loops(order: list[Node]) -> dict[str, list[Node]]:
    """The nodes of each loop; loops that share a stack or an array count as one.

    The gradient of a loop pops what the loop has pushed, so both must be where the stack is.
    """
    loops = frames.outermost_frames(order)
    leader = {name: name for name in loops.values()}

    def root(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    users: dict[Node, str] = {}
    for node, loop in loops.items():
        if not node.type.startswith(_ARRAYS):
            continue
        for edge in node.inputs[:1]:
            made = handle_root(edge)
            if made is not None and made is not node:
                other = users.setdefault(made, loop)
                leader[root(loop)] = root(other)
    found: dict[str, list[Node]] = {}
    for node, loop in loops.items():
        found.setdefault(root(loop), []).append(node)
    return found


class LoopSplitter:
    """Splits loops of a placed program.

    Args:
      program: The program; nodes are added to it.
      task: Each node's task; is kept up.
      unique: Makes a name that no node has.
    """

    def __init__(
        self, program: Program, task: dict[Node, str], unique: Callable[[str], str]
    ) -> None:
        self._program = program
        self._task = task
        self._unique = unique
        self._order = frames.order(program)
        self._runs_in, self._makes_in = frames.frame_stacks(self._order)
        self._guards = frames.Guards(self._order)
        self._conditions: dict[Stack, Node] = {}
        self._enters: dict[Stack, list[Node]] = {}
        for node in self._order:
            if node.type == "LoopCond":
                self._conditions[self._runs_in[node]] = node
            if node.type in frames.ENTERS:
                self._enters.setdefault(self._makes_in[node], []).append(node)
        self._clocks: dict[tuple[Stack, str], _Clock] = {}
        self._copies: dict[tuple[Node, str], Node] = {}
        self._received: dict[tuple[Edge, str], Node] = {}
        self._signs: dict[Node, Edge] = {}

    def split(self, nodes: list[Node]) -> None:
        """Splits the loops that the nodes make up.

        Raises:
          UnimplementedError: A loop has no condition.
          InvalidArgumentError: A handle would have to go to another task.
        """
        for stack in sorted({self._runs_in[node] for node in nodes} - {()}):
            if stack not in self._conditions:
                raise errors.UnimplementedError(
                    None,
                    nodes[0].source,
                    f"The loop {stack[-1]} lies on several tasks, but has no LoopCond.",
                )
        self._settle(nodes)
        kept = self._copy_constant_enters(nodes)
        inside = {node for node in kept if self._runs_in[node]}
        for stack, task in sorted({(self._runs_in[node], self._task[node]) for node in inside}):
            self._clock(stack, task)
        for node in self._order:
            if node in inside:
                self._cut_inputs(node)

    def _settle(self, nodes: list[Node]) -> None:
        """Puts a loop variable where its Merge is, and reads of variables where these are."""
        for node in nodes:
            variable = variable_of(Edge(node, 0)) if node.type == "Identity" else None
            if variable is not None and variable in self._task:
                # It reads the variable in each iteration, not once before the loop.
                self._task[node] = self._task[variable]
            if node.type in frames.MERGES and any(
                edge.node.type in frames.NEXT_ITERATIONS for edge in node.inputs
            ):
                for edge in node.inputs:
                    self._task[edge.node] = self._task[node]
        for node in self._order:  # A Switch is after its Merge, an Exit after its Switch.
            if node in self._task and (node.type in frames.SWITCHES or node.type in frames.EXITS):
                source = node.inputs[0].node
                if self._runs_in[node] and (
                    node.type in frames.EXITS or source.type in frames.MERGES
                ):
                    self._task[node] = self._task[source]

    def _copy_constant_enters(self, nodes: list[Node]) -> list[Node]:
        """Lets what does not change enter wherever it is used, once instead of every time.

        Returns:
          The nodes that are still needed.
        """
        for node in nodes:
            for i, edge in enumerate(node.inputs):
                if _is_constant_enter(edge.node) and self._task[edge.node] != self._task[node]:
                    node.inputs[i] = Edge(self._copied(edge.node, self._task[node]), 0)
        wanted = {*self._program.targets, *(edge.node for edge in self._program.results)}
        gone: set[Node] = set()
        while True:
            used = {p for n in self._program.nodes if n not in gone for p in n.predecessors()}
            idle = {n for n in nodes if _is_constant_enter(n)} - used - wanted - gone
            if not idle:
                break
            gone |= idle
        self._program.nodes = [node for node in self._program.nodes if node not in gone]
        return [node for node in nodes if node not in gone]

    def _copied(self, enter: Node, task: str) -> Node:
        if self._task[enter] == task:
            return enter
        copy = self._copies.get((enter, task))
        if copy is None:
            source = enter.inputs[0]
            if _is_constant_enter(source.node):
                source = Edge(self._copied(source.node, task), 0)
            copy = self._copies[enter, task] = self._add(
                f"{enter.name}_copy",
                enter.type,
                dict(enter.attrs),
                [source],
                task,
                self._runs_in[enter],
                self._makes_in[enter],
                list(enter.controls),
            )
            if self._runs_in[enter]:
                self._cut_inputs(copy)
        return copy

    # -- Clocks ----------------------------------------------------------------------------

    def _clock(self, stack: Stack, task: str) -> _Clock:
        """The loop that counts a frame's iterations on a task."""
        found = self._clocks.get((stack, task))
        if found is not None:
            return found
        outer = stack[:-1]
        if outer:
            trigger = self._clock(outer, task).alive
        else:
            trigger = self._trigger(stack, task)
        like = self._enters[stack][0].attrs
        name = f"{stack[-1]}_clock"
        t = {"T": dtypes.int32}
        attrs = {
            **t,
            "frame_name": like["frame_name"],
            "is_constant": False,
            "parallel_iterations": like["parallel_iterations"],
        }
        enter = self._add(f"{name}_enter", "Enter", attrs, [trigger], task, outer, stack)
        merge = self._add(name, "Merge", {**t, "N": 2}, [Edge(enter, 0)], task, stack)
        # Known before its condition is: receives wait for the clock.
        placeholder = Edge(merge, 0)
        self._clocks[stack, task] = _Clock(merge, placeholder)
        condition = Edge(self._conditions[stack], 0)
        if self._task[condition.node] != task:
            condition = Edge(self._receive(condition, task, stack), 0)
        switch = self._add(f"{name}_switch", "Switch", t, [placeholder, condition], task, stack)
        alive = self._add(f"{name}_alive", "Identity", t, [Edge(switch, 1)], task, stack)
        again = self._add(f"{name}_next", "NextIteration", t, [Edge(alive, 0)], task, stack)
        merge.inputs.append(Edge(again, 0))
        clock = self._clocks[stack, task] = _Clock(merge, Edge(alive, 0))
        return clock

    def _trigger(self, stack: Stack, task: str) -> Edge:
        """What starts the clock of an outermost frame: dead if the loop lies in a dead branch."""
        constant = Node(
            self._unique(f"{stack[-1]}_clock_start"),
            registry.lookup("Const"),
            {"dtype": dtypes.int32, "value": np.int32(0)},
            device=task,
        )
        enters = self._enters[stack]
        if not any(self._guards.of_node(enter) for enter in enters):
            return Edge(constant, 0)
        for enter in enters:
            edge = enter.inputs[0]
            if self._guards.of_edge(edge) and not edge.dtype._is_ref_dtype:
                source = self._task.get(edge.node, task)
                rank = self._add(
                    f"{edge.node.name}_rank", "Rank", {"T": edge.dtype}, [edge], source
                )
                return Edge(rank, 0)
        raise errors.UnimplementedError(
            None,
            enters[0].source,
            f"The loop {stack[-1]} lies on several tasks and in a branch, but takes no value "
            "from the branch.",
        )

    # -- Transfers -------------------------------------------------------------------------

    def _cut_inputs(self, node: Node) -> None:
        task, stack = self._task[node], self._runs_in[node]
        for i, edge in enumerate(node.inputs):
            if self._makes_in.get(edge.node) and self._task[edge.node] != task:
                node.inputs[i] = Edge(self._receive(edge, task, stack), 0)
        for i, control in enumerate(node.controls):
            if self._makes_in.get(control) and self._task[control] != task:
                node.controls[i] = self._receive(self._sign(control), task, stack)
        node.controls = list(dict.fromkeys(node.controls))

    def _sign(self, control: Node) -> Edge:
        """A value that is dead if a node is."""
        sign = self._signs.get(control)
        if sign is None:
            stack = self._makes_in[control]
            made = self._add(
                f"{control.name}_life_sign",
                LIFE_SIGN.name,
                {},
                [],
                self._task[control],
                stack,
                stack,
                [control],
            )
            sign = self._signs[control] = Edge(made, 0)
        return sign

    def _receive(self, edge: Edge, task: str, stack: Stack) -> Node:
        """The node on a task that has the value of an edge, in each iteration."""
        found = self._received.get((edge, task))
        if found is not None:
            return found
        source = self._task[edge.node]
        if edge.dtype.base_dtype.name in ("resource", "variant") or is_array_handle(edge):
            raise errors.InvalidArgumentError(
                None,
                edge.node.source,
                f"{edge.name} is a handle ({edge.dtype.name}) that is used in a loop on {task}, "
                f"but what is behind it is on {source}. Place its users there too.",
            )
        key = -1 - len(self._received)  # Keys of messages outside of loops count upwards.
        attrs = {"T": edge.dtype.base_dtype, "key": key, "level": 0}
        self._add(
            f"{edge.node.name}_send",
            LOOP_SEND.name,
            {**attrs, "to": task.encode()},
            [edge],
            source,
            stack,
        )
        receive = self._received[edge, task] = self._add(
            f"{edge.node.name}_receive",
            LOOP_RECEIVE.name,
            {**attrs, "source": source.encode(), "name": edge.name.encode()},
            [],
            task,
            stack,
        )
        receive.controls = [self._clock(stack, task).merge]
        self._clock(stack, source)
        return receive

    def _add(
        self,
        name: str,
        op_type: str,
        attrs: Mapping[str, object],
        inputs: list[Edge],
        task: str,
        runs_in: Stack = (),
        makes_in: Stack | None = None,
        controls: Iterable[Node] = (),
    ) -> Node:
        node = Node(
            self._unique(name),
            registry.lookup(op_type),
            dict(attrs),
            inputs,
            list(controls),
            device=task,
            order=inputs[0].node.order if inputs else 0,
        )
        self._program.nodes.append(node)
        self._task[node] = task
        self._runs_in[node] = runs_in
        self._makes_in[node] = runs_in if makes_in is None else makes_in
        return node


def _is_constant_enter(node: Node) -> bool:
    """Whether it lets the same value into every iteration; what a reference names may change."""
    return node.type == "Enter" and bool(node.attrs["is_constant"])
