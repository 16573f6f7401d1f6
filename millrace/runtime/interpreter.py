"""Runs a region of TensorFlow 1.x control flow, node by node.

The rules are those of TensorFlow's executor. A value is alive or dead. A node fires when all
of its inputs have arrived, and is dead if one of them is; a Merge fires at its first live
input. Enter takes a value into the first iteration of a frame, NextIteration into the next
one, Exit back to where the frame was entered from. No more than ``parallel_iterations`` of a
frame are under way at once.

What waits (a dequeue, a value of another task) holds nothing else up. A region in which something
may wait has a thread of its own.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import threading
from collections import deque
from typing import Any

import numpy as np

from millrace.compiler.xla import jax
from millrace.core import errors
from millrace.core.dead import DEAD
from millrace.passes import rendezvous
from millrace.passes.frames import (
    ENTERS,
    EXITS,
    MERGES,
    NEXT_ITERATIONS,
    SWITCHES,
    WAITING_REGION,
    Region,
    innermost_frames,
)
from millrace.passes.node import Edge, Node, variable_of
from millrace.passes.transfer import LOOP_RECEIVE, LOOP_SEND
from millrace.platform import file_access
from millrace.runtime import allotments
from millrace.runtime.compiled_stage import random_key
from millrace.runtime.future import Future
from millrace.runtime.kernel_call import (
    Services,
    StoredState,
    VariableRef,
    call,
    flatten_outputs,
    op_error,
    reference_positions,
)
from millrace.runtime.stage import Value
from millrace.runtime.step import Step
from millrace.runtime.waiting import Waiter


class _Frame:
    """One run of a loop: its iterations, and the iteration of the outer frame it belongs to."""

    def __init__(self, name: str, parent: _Frame | None, parent_iteration: int) -> None:
        self.name = name
        self.parent = parent
        self.parent_iteration = parent_iteration
        #: What TensorFlow calls it in the keys of transfers.
        self.number = 0
        if parent is not None:
            self.number = rendezvous.inner_frame(parent.number, parent_iteration, name.encode())
        self.iterations: dict[int, _Iteration] = {}
        self.children: dict[tuple[str, int], _Frame] = {}
        #: Values of constant Enters: the same in every iteration.
        self.constants: list[tuple[Node, Any]] = []
        #: Exits that only ever were dead so far.
        self.dead_exits: set[Node] = set()
        self.live_exits: set[Node] = set()
        #: How many iterations may be under way, and the first one that is.
        self.limit = 1
        self.oldest = 0
        #: What goes into an iteration that may not begin yet: node, outputs, iteration.
        self.held: list[tuple[Node, list[Any], int]] = []

    def path(self, number: int) -> bytes:
        """Tells an iteration of this run of the loop from all others of the step."""
        if self.parent is None:
            return b""
        return b"%s/%d" % (self.parent.path(self.parent_iteration), number)


class _Iteration:
    """What has arrived in one iteration of a frame."""

    def __init__(self) -> None:
        self.values: dict[Edge, Any] = {}
        self.waiting: dict[Node, int] = {}
        self.dead: set[Node] = set()
        self.fired: set[Node] = set()
        #: How many nodes have run and handed on what they made.
        self.done = 0
        #: Names of the loops that were entered from here, and of those that go on.
        self.entered: set[str] = set()
        self.inner: set[str] = set()


class RegionStage:
    """The stage of a region node."""

    is_short = False

    def __init__(self, node: Node) -> None:
        region: Region = node.attrs["region"]
        self.may_block = node.definition is WAITING_REGION
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

    def run(self, inputs: list[Value], step: Step) -> list[Value] | Future:
        """Interprets the region once."""
        values = dict(zip(self._outside, inputs, strict=True))
        interpretation = _Interpretation(self, values, step)
        if not self.may_block:
            return interpretation.run()
        future = Future(f"the end of {', '.join(self.loops) or 'a branch'}")
        share = allotments.current()

        def interpret() -> None:
            try:
                computing = contextlib.nullcontext() if share is None else share.renewed()
                with computing, file_access.confined(step.session.file_access):
                    results = interpretation.run()
            except Exception as error:
                future.set_error(error)
            else:
                future.set_result(results)

        threading.Thread(target=interpret, name="millrace loop", daemon=True).start()
        return future

    @property
    def loops(self) -> list[str]:
        """The names of its loops."""
        return sorted(name for name in self.sizes if name)


class _Interpretation:
    def __init__(self, stage: RegionStage, outside: dict[Edge, Value], step: Step) -> None:
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
        #: How many nodes wait, and those whose wait is over.
        self._pending = 0
        self._arrived: deque[tuple[Node, _Frame, int, Future]] = deque()
        self._waiter = Waiter(step)

    def run(self) -> list[Value]:
        """The values of the region's outputs."""
        for node, count in self._stage.counts.items():
            if count == 0 or (node.type in MERGES and self._has_live_outside(node)):
                self._ready.append((node, self._root, 0))
        while True:
            while self._ready:
                node, frame, number = self._ready.popleft()
                self._fire(node, frame, number)
            if self._pending:
                self._take_arrival()
            elif not self._release_held(self._root) and not self._release_dead_exits(self._root):
                break
        values = self._root.iterations[0].values
        results = []
        for edge in self._stage.region.outputs:
            value = values.get(edge, DEAD)
            if isinstance(value, VariableRef) and edge not in self._stage.region.references:
                value = value.read()
            results.append(value)
        return results

    def _has_live_outside(self, node: Node) -> bool:
        """Whether a Merge need not wait: a live input was there before the region began."""
        return any(self._outside.get(edge, DEAD) is not DEAD for edge in node.inputs)

    def _take_arrival(self) -> None:
        self._waiter.wait_beside(self._arrived.__len__)
        node, frame, number, future = self._arrived.popleft()
        self._pending -= 1
        try:
            outputs = future.result()
            if node.definition is not LOOP_RECEIVE:  # A dead value has no type to be held to.
                outputs = flatten_outputs(node, outputs)
        except Exception as error:
            raise op_error(node, error) from error
        self._finish(node, outputs or [None], frame, number)

    def _fire(self, node: Node, frame: _Frame, number: int) -> None:
        iteration = frame.iterations.get(number)
        if iteration is None or node in iteration.fired:
            return
        iteration.fired.add(node)
        if self._step.cancellation.error is not None:
            raise self._step.cancellation.error
        inputs = [self._value(edge, iteration) for edge in node.inputs]
        outputs: list[Any] | Future
        if node.type in MERGES:
            outputs = self._merge(inputs)
        elif node.definition is LOOP_SEND:
            self._send(node, inputs[0] if node not in iteration.dead else DEAD, frame, number)
            outputs = [None]
        elif node.definition is LOOP_RECEIVE:
            source, key = node.attrs["source"].decode(), node.attrs["key"]
            found = self._step.exchange.receive(source, key, frame.path(number))
            outputs = found if isinstance(found, Future) else list(found)
        elif node.definition in rendezvous.SENDS:
            value = DEAD if node in iteration.dead else inputs[0]
            key = rendezvous.key_of(node, frame.number, number)
            self._step.exchange.put(node, key, value)
            outputs = [None]
        elif node.definition in rendezvous.RECEIVES:
            key = rendezvous.key_of(node, frame.number, number)
            found = self._step.exchange.fetch(node, key)
            outputs = found if isinstance(found, Future) else [found]
        elif node.type != "ControlTrigger" and (
            node in iteration.dead or any(value is DEAD for value in inputs)
        ):
            outputs = [DEAD] * max(1, len(node.output_types))
        elif node.type in SWITCHES:
            chosen = bool(_scalar(node, inputs[1]))
            outputs = [inputs[0] if chosen == bool(i) else DEAD for i in (0, 1)]
        elif node.type in ENTERS | EXITS | NEXT_ITERATIONS:
            outputs = [inputs[0]]
        else:
            outputs = self._call(node, inputs)
        if isinstance(outputs, Future):
            self._pending += 1
            outputs.add_callback(functools.partial(self._come, node, frame, number))
        else:
            self._finish(node, outputs, frame, number)

    def _come(self, node: Node, frame: _Frame, number: int, done: Future) -> None:
        """Notes that a node's wait is over, in any thread."""
        self._arrived.append((node, frame, number, done))
        self._waiter.notify()

    def _send(self, node: Node, value: object, frame: _Frame, number: int) -> None:
        if isinstance(value, VariableRef):
            value = value.read()
        if value is not DEAD:
            value = np.asarray(value)
        to, key = node.attrs["to"].decode(), node.attrs["key"]
        self._step.exchange.send(to, key, [value], frame.path(number))

    def _finish(self, node: Node, outputs: list[Value], frame: _Frame, number: int) -> None:
        """Hands on what a node has made."""
        self._propagate(node, outputs, frame, number)
        frame.iterations[number].done += 1
        self._end_if_complete(frame, number)

    def _end_if_complete(self, frame: _Frame, number: int) -> None:
        """Forgets an iteration in which every node has run: nobody can ask for its values."""
        iteration = frame.iterations.get(number)
        if (
            frame.parent is None
            or iteration is None
            or iteration.done < self._stage.sizes[frame.name]
            or iteration.inner
        ):
            return
        del frame.iterations[number]
        while frame.oldest not in frame.iterations and frame.oldest <= number:
            frame.oldest += 1
        self._let_begin(frame)
        if not frame.iterations:
            self._release_exits_of(frame)
            del frame.parent.children[frame.name, frame.parent_iteration]
            frame.parent.iterations[frame.parent_iteration].inner.discard(frame.name)
            self._end_if_complete(frame.parent, frame.parent_iteration)

    def _let_begin(self, frame: _Frame) -> None:
        """Hands on what was held back for iterations that may begin now."""
        held, frame.held = frame.held, []
        for node, outputs, number in held:
            self._go_on(node, outputs, frame, number)

    def _go_on(self, node: Node, outputs: list[Value], frame: _Frame, number: int) -> None:
        """Takes a value into an iteration, now or when there may be one more."""
        if number - frame.oldest >= frame.limit:
            frame.held.append((node, outputs, number))
            return
        self._begin(frame, number)
        self._deliver(node, outputs, frame, number)

    def _release_held(self, frame: _Frame) -> bool:
        """Lets iterations begin although others have not ended, when nothing else goes on."""
        if any(self._release_held(child) for child in list(frame.children.values())):
            return True
        if not frame.held:
            return False
        frame.limit += 1
        self._let_begin(frame)
        return True

    def _value(self, edge: Edge, iteration: _Iteration) -> Value:
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

    def _merge(self, inputs: list[Value]) -> list[Value]:
        for i, value in enumerate(inputs):
            if value is not DEAD:
                return [value, np.array(i, np.int32)]
        return [DEAD, DEAD]

    def _call(self, node: Node, inputs: list[Value]) -> list[Value] | Future:
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
        if isinstance(result, Future):
            return result
        if node.definition.kind == "blocking":
            result = flatten_outputs(node, result)
        return result or [None]

    def _propagate(self, node: Node, outputs: list[Value], frame: _Frame, number: int) -> None:
        target, target_number = frame, number
        dead = all(value is DEAD for value in outputs) and bool(outputs)
        if node.type in ENTERS:
            child = self._child(frame, number, node)
            if child is None:
                return  # Nothing in the loop needs the value, and the loop is over.
            target, target_number = child, 0
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
            if frame.parent is None:
                raise errors.InvalidArgumentError(
                    None, node.source, f"{node.name} ({node.type}) is in no loop that it could end"
                )
            target, target_number = frame.parent, frame.parent_iteration
        elif node.type in NEXT_ITERATIONS:
            if dead:
                return
            self._go_on(node, outputs, frame, number + 1)
            return
        self._deliver(node, outputs, target, target_number)

    def _child(self, frame: _Frame, number: int, enter: Node) -> _Frame | None:
        key = (enter.attrs["frame_name"].decode(), number)
        child = frame.children.get(key)
        iteration = frame.iterations[number]
        if child is None:
            if key[0] in iteration.entered:
                return None
            iteration.entered.add(key[0])
            iteration.inner.add(key[0])
            child = frame.children[key] = _Frame(key[0], frame, number)
            child.limit = max(1, enter.attrs["parallel_iterations"])
            child.iterations[0] = _Iteration()
        return child

    def _begin(self, frame: _Frame, number: int) -> None:
        if number in frame.iterations:
            return
        frame.iterations[number] = _Iteration()
        for enter, value in frame.constants:
            self._deliver(enter, [value], frame, number)

    def _deliver(self, node: Node, outputs: list[Value], frame: _Frame, number: int) -> None:
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
            if node.definition is LOOP_SEND or node.definition in rendezvous.SENDS:
                # At once: what a variable holds now is meant, and somebody waits for it.
                self._ready.appendleft((node, frame, number))
            else:
                self._ready.append((node, frame, number))

    def _only_dead(self, node: Node, iteration: _Iteration) -> bool:
        """Whether every input that can come in this iteration is there, and dead."""
        for edge in node.inputs:
            if edge.node.type in NEXT_ITERATIONS:
                continue
            if self._value_or_none(edge, iteration) is not DEAD:
                return False
        return True

    def _value_or_none(self, edge: Edge, iteration: _Iteration) -> Value:
        if edge in iteration.values:
            return iteration.values[edge]
        return self._outside.get(edge)

    def _release_dead_exits(self, frame: _Frame) -> bool:
        """Hands on exits of loops that were never entered alive; innermost loops first."""
        for child in list(frame.children.values()):
            if self._release_dead_exits(child):
                return True
        return self._release_exits_of(frame)

    def _release_exits_of(self, frame: _Frame) -> bool:
        """Hands on the exits of a loop that has ended and never let them out alive."""
        dead = frame.dead_exits - frame.live_exits
        if frame.parent is None or not dead:
            return False
        frame.live_exits |= dead
        for node in dead:
            self._deliver(node, [DEAD], frame.parent, frame.parent_iteration)
        return True


def _scalar(node: Node, predicate: object) -> Value:
    """The predicate of a switch.

    Raises:
      InvalidArgumentError: It is no scalar.
    """
    value = np.asarray(predicate)
    if value.ndim:
        raise errors.InvalidArgumentError(
            None,
            node.source,
            f"The predicate of {node.name} ({node.type}) must be a scalar, but has shape "
            f"{list(value.shape)}",
        )
    return value
