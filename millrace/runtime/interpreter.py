"""Runs a region of TensorFlow 1.x control flow, node by node.

The rules are those of TensorFlow's executor. A value is alive or dead. A node fires when all
of its inputs have arrived, and is dead if one of them is; a Merge fires at its first live
input. Enter takes a value into the first iteration of a frame, NextIteration into the next
one, Exit back to where the frame was entered from.
"""

from __future__ import annotations

import collections
import threading
from collections import deque
from typing import Any

import numpy as np

from millrace.core.dead import DEAD
from millrace.ops.xla import jax
from millrace.passes.frames import (
    ENTERS,
    EXITS,
    MERGES,
    NEXT_ITERATIONS,
    SWITCHES,
    Region,
    innermost_frames,
)
from millrace.passes.node import Edge, Node, variable_of
from millrace.runtime.compiled_stage import random_key
from millrace.runtime.deferred import Deferred
from millrace.runtime.kernel_call import (
    Services,
    StoredState,
    VariableRef,
    call,
    flatten_outputs,
    op_error,
    reference_positions,
)


class _Frame:
    """One run of a loop: its iterations, and the iteration of the outer frame it belongs to."""

    def __init__(self, name: str, parent: _Frame | None, parent_iteration: int) -> None:
        self.name = name
        self.parent = parent
        self.parent_iteration = parent_iteration
        self.iterations: dict[int, _Iteration] = {}
        self.children: dict[tuple[str, int], _Frame] = {}
        #: Values of constant Enters: the same in every iteration.
        self.constants: list[tuple[Node, Any]] = []
        #: Exits that only ever were dead so far.
        self.dead_exits: set[Node] = set()
        self.live_exits: set[Node] = set()


class _Iteration:
    """What has arrived in one iteration of a frame."""

    def __init__(self) -> None:
        self.values: dict[Edge, Any] = {}
        self.waiting: dict[Node, int] = {}
        self.dead: set[Node] = set()
        self.fired: set[Node] = set()


class RegionStage:
    """The stage of a region node."""

    blocking = False

    def __init__(self, node: Node) -> None:
        region: Region = node.attrs["region"]
        self.node = node
        self.nodes = [node]
        self.region = region
        outside: list[Edge] = node.attrs["outside"]
        pairs = [
            (inner, outer)
            for inner, outer in zip(outside, node.inputs, strict=True)
            if variable_of(inner) is None
        ]
        self._outside = [inner for inner, _ in pairs]
        self.inputs = [outer for _, outer in pairs]
        self.outputs = [Edge(node, i) for i in range(len(region.outputs))]
        inside = set(region.nodes)
        self.followers: dict[Node, list[tuple[Node, Edge | None]]] = {n: [] for n in inside}
        self.counts: dict[Node, int] = {}
        for member in region.nodes:
            count = 0
            for edge in member.inputs:
                if edge.node in inside:
                    self.followers[edge.node].append((member, edge))
                    count += 1
            for control in member.controls:
                if control in inside:
                    self.followers[control].append((member, None))
                    count += 1
            self.counts[member] = count
        #: How many nodes run in one iteration of each frame.
        self.sizes = collections.Counter(innermost_frames(region.nodes).values())

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    def run(self, inputs: list[Any], step: Any) -> list[Any]:
        """Interprets the region once."""
        values = dict(zip(self._outside, inputs, strict=True))
        return _Interpretation(self, values, step).run()


class _Interpretation:
    def __init__(self, stage: RegionStage, outside: dict[Edge, Any], step: Any) -> None:
        self._stage = stage
        self._outside = outside
        self._step = step
        self._state = StoredState(step.resources)
        self._services = Services(
            self._state,
            rng=lambda node: random_key(node, step.session.count_random(node)),
            ctx=step,
        )
        self._root = _Frame("", None, 0)
        self._root.iterations[0] = _Iteration()
        self._ready: deque[tuple[Node, _Frame, int]] = deque()

    def run(self) -> list[Any]:
        """The values of the region's outputs."""
        for node, count in self._stage.counts.items():
            if count == 0 or (node.type in MERGES and self._has_live_outside(node)):
                self._ready.append((node, self._root, 0))
        while True:
            while self._ready:
                node, frame, number = self._ready.popleft()
                self._fire(node, frame, number)
            if not self._release_dead_exits(self._root):
                break
        values = self._root.iterations[0].values
        results = []
        for edge in self._stage.region.outputs:
            value = values.get(edge, DEAD)
            results.append(value.read() if isinstance(value, VariableRef) else value)
        return results

    def _has_live_outside(self, node: Node) -> bool:
        """Whether a Merge need not wait: a live input was there before the region began."""
        return any(self._outside.get(edge, DEAD) is not DEAD for edge in node.inputs)

    def _fire(self, node: Node, frame: _Frame, number: int) -> None:
        iteration = frame.iterations[number]
        if node in iteration.fired:
            return
        iteration.fired.add(node)
        if self._step.cancellation.error is not None:
            raise self._step.cancellation.error
        inputs = [self._value(edge, iteration) for edge in node.inputs]
        if node.type in MERGES:
            outputs = self._merge(inputs)
        elif node.type != "ControlTrigger" and (
            node in iteration.dead or any(value is DEAD for value in inputs)
        ):
            outputs = [DEAD] * max(1, len(node.output_types))
        elif node.type in SWITCHES:
            chosen = bool(np.asarray(inputs[1]).reshape(()))
            outputs = [inputs[0] if chosen == bool(i) else DEAD for i in (0, 1)]
        elif node.type in ENTERS | EXITS | NEXT_ITERATIONS:
            outputs = [inputs[0]]
        else:
            outputs = self._call(node, inputs)
        self._propagate(node, outputs, frame, number)
        if frame.parent is not None and len(iteration.fired) == self._stage.sizes[frame.name]:
            # Every node of the iteration has run: nothing can ask for its values any more.
            frame.iterations.pop(number, None)

    def _value(self, edge: Edge, iteration: _Iteration) -> Any:
        if edge in iteration.values:
            return iteration.values[edge]
        if edge in self._outside:
            return self._outside[edge]
        if edge.node.type == "Const" and edge.node not in self._stage.counts:
            return edge.node.attrs["value"]  # One of a branch is dead until the branch is taken.
        variable = variable_of(edge)
        if variable is not None:
            return VariableRef(self._state, variable)
        return DEAD

    def _merge(self, inputs: list[Any]) -> list[Any]:
        for i, value in enumerate(inputs):
            if value is not DEAD:
                return [value, np.array(i, np.int32)]
        return [DEAD, DEAD]

    def _call(self, node: Node, inputs: list[Any]) -> list[Any]:
        by_identity = reference_positions(node)
        values = []
        for i, value in enumerate(inputs):
            if isinstance(value, VariableRef) and i not in by_identity:
                if node.inputs[i].dtype.name != "resource":
                    value = value.read()
            elif not isinstance(value, VariableRef) and not node.definition.is_pure:
                value = value if type(value) is np.ndarray else jax.tree.map(np.asarray, value)
            values.append(value)
        result = call(node, values, self._services)
        if isinstance(result, Deferred):
            result = self._wait(node, result)
        elif node.definition.kind == "blocking":
            result = flatten_outputs(node, result)
        return result or [None]

    def _wait(self, node: Node, deferred: Deferred) -> list[Any]:
        arrived = threading.Event()
        deferred.add_callback(lambda _: arrived.set())
        arrived.wait()
        try:
            return flatten_outputs(node, deferred.result())
        except Exception as error:
            raise op_error(node, error) from error

    def _propagate(self, node: Node, outputs: list[Any], frame: _Frame, number: int) -> None:
        target, target_number = frame, number
        dead = all(value is DEAD for value in outputs) and bool(outputs)
        if node.type in ENTERS:
            target, target_number = self._child(frame, number, node), 0
            if node.attrs["is_constant"]:
                target.constants.append((node, outputs[0]))
                for i in list(target.iterations):
                    self._deliver(node, outputs, target, i)
                return
        elif node.type in EXITS:
            if dead:
                frame.dead_exits.add(node)
                return
            frame.live_exits.add(node)
            assert frame.parent is not None
            target, target_number = frame.parent, frame.parent_iteration
        elif node.type in NEXT_ITERATIONS:
            if dead:
                return
            target_number = number + 1
            self._begin(frame, target_number)
        self._deliver(node, outputs, target, target_number)

    def _child(self, frame: _Frame, number: int, enter: Node) -> _Frame:
        key = (enter.attrs["frame_name"].decode(), number)
        child = frame.children.get(key)
        if child is None:
            child = frame.children[key] = _Frame(key[0], frame, number)
            child.iterations[0] = _Iteration()
        return child

    def _begin(self, frame: _Frame, number: int) -> None:
        if number in frame.iterations:
            return
        frame.iterations[number] = _Iteration()
        for enter, value in frame.constants:
            self._deliver(enter, [value], frame, number)

    def _deliver(self, node: Node, outputs: list[Any], frame: _Frame, number: int) -> None:
        iteration = frame.iterations[number]
        for i, value in enumerate(outputs[: len(node.output_types)]):
            iteration.values[Edge(node, i)] = value
        node_dead = bool(outputs) and all(value is DEAD for value in outputs)
        for follower, edge in self._stage.followers[node]:
            value = iteration.values[edge] if edge is not None else None
            is_dead = value is DEAD if edge is not None else node_dead
            self._arrive(follower, edge is not None, is_dead, frame, number)

    def _arrive(self, node: Node, is_data: bool, is_dead: bool, frame: _Frame, number: int) -> None:
        iteration = frame.iterations[number]
        if node not in iteration.waiting:
            iteration.waiting[node] = self._stage.counts[node]
        iteration.waiting[node] -= 1
        if node.type in MERGES:
            if not is_data:
                pass
            elif not is_dead or self._only_dead(node, iteration):
                self._ready.append((node, frame, number))
            return
        if is_dead:
            iteration.dead.add(node)
        if iteration.waiting[node] == 0:
            self._ready.append((node, frame, number))

    def _only_dead(self, node: Node, iteration: _Iteration) -> bool:
        """Whether every input that can come in this iteration is there, and dead."""
        for edge in node.inputs:
            if edge.node.type in NEXT_ITERATIONS:
                continue
            if self._value_or_none(edge, iteration) is not DEAD:
                return False
        return True

    def _value_or_none(self, edge: Edge, iteration: _Iteration) -> Any:
        if edge in iteration.values:
            return iteration.values[edge]
        return self._outside.get(edge)

    def _release_dead_exits(self, frame: _Frame) -> bool:
        """Hands on exits of loops that were never entered alive; innermost loops first."""
        for child in frame.children.values():
            if self._release_dead_exits(child):
                return True
        if frame.parent is None:
            return False
        dead = frame.dead_exits - frame.live_exits
        if not dead:
            return False
        frame.live_exits |= dead
        for node in dead:
            self._deliver(node, [DEAD], frame.parent, frame.parent_iteration)
        return True
