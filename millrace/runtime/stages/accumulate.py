"""Stages that give gradients to several accumulators, or take from them; see
`passes.join_accumulators`.

No gradient is copied whose memory nobody else has: what came in a message of another task is
summed where it lies.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.ops.data_flow import accumulators, shared_state
from millrace.ops.data_flow.accumulators import Accumulator
from millrace.passes.join_accumulators import TAKE, JoinedNode
from millrace.passes.node import Edge, Node, is_variable_edge, variable_of
from millrace.passes.transfer import RECEIVE
from millrace.protocol.accumulator import Take
from millrace.protocol.attempt import Attempt
from millrace.runtime.cancellation import Cancellation
from millrace.runtime.found import Found
from millrace.runtime.future import Future
from millrace.runtime.kernel_call import StoredState, call_plainly, op_error
from millrace.runtime.stage import Value, positions_of
from millrace.runtime.stages.host import IN_MEMORY, flat_when_done, on_host
from millrace.runtime.step import Step

_ARRAY = {np.ndarray}


class Handles:
    """What nodes name that were absorbed: found again only when containers were cleared."""

    def __init__(self, makers: list[Node]) -> None:
        self._makers = makers
        self._found: Found[list[Value]] = Found()

    def get(self, step: Step) -> list[Value]:
        """The handles, in the order of their nodes."""
        return self._found.get(
            step.session,
            step.resources,
            lambda: [call_plainly(maker, [], step)[0] for maker in self._makers],
        )


class HandleStage:
    """One node that asks something of a queue or an accumulator whose node was absorbed."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.nodes = [node]
        self.may_block = node.definition.kind == "blocking"
        self.is_short = self.may_block or IN_MEMORY.search(node.type) is not None
        self.inputs = list(dict.fromkeys(node.inputs[1:]))
        self.outputs = [Edge(node, i) for i in range(len(node.output_types))]
        self._positions = positions_of(node.inputs[1:], self.inputs)
        self._handles = Handles([node.inputs[0].node])

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    def run(self, inputs: list[Value], step: Step) -> list[Value] | Future:
        """Runs the kernel; a blocking one may return a Future of its outputs."""
        values = [on_host(inputs[position]) for position in self._positions]
        outputs = call_plainly(self.node, [*self._handles.get(step), *values], step)
        return flat_when_done(self.node, outputs) if self.may_block else outputs


class _Stage:
    """What both stages share: the accumulators behind the handles."""

    is_short = True

    def __init__(self, node: JoinedNode) -> None:
        self.node = node
        self.nodes: list[Node] = [node]
        self.members = node.members
        variables = dict.fromkeys(edge for edge in node.inputs if is_variable_edge(edge))
        named = (variable_of(edge) for edge in variables)
        self._variables = [variable for variable in named if variable is not None]
        assert len(self._variables) == len(variables)
        self.inputs = [edge for edge in dict.fromkeys(node.inputs) if edge not in variables]
        #: In the order of `values`.
        self._sources = [*self.inputs, *variables]
        self.outputs = [Edge(node, i) for i in range(len(node.output_types))]
        self._handles = Handles([member.inputs[0].node for member in node.members])
        self._found: Found[list[Accumulator]] = Found()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    def values(self, inputs: list[Value], step: Step) -> list[Value]:
        """The inputs as NumPy arrays, and the variables as they are now."""
        values = list(map(on_host, inputs)) if set(map(type, inputs)) - _ARRAY else inputs
        if self._variables:
            stored = StoredState(step.resources)
            values = [*values, *map(stored.read, self._variables)]
        return values

    def accumulators(self, step: Step) -> list[Accumulator]:
        """The accumulators of the members.

        Raises:
          OpError: There is none, or it is of another type than the gradients.
        """
        return self._found.get(
            step.session,
            step.resources,
            lambda: [
                _accumulator(member, handle, step)
                for member, handle in zip(self.members, self._handles.get(step), strict=True)
            ],
        )


def _accumulator(member: Node, handle: object, step: Step) -> Accumulator:
    try:
        found: Accumulator = shared_state.find(Accumulator, step, handle)
        found.check_type(member.attrs["dtype"])
    except Exception as error:
        raise op_error(member, error) from None
    return found


class ApplyGradientsStage(_Stage):
    """Adds gradients to accumulators, all in one pass."""

    may_block = False

    def __init__(self, node: JoinedNode, use_count: Callable[[Edge], int]) -> None:
        super().__init__(node)
        positions = {edge: i for i, edge in enumerate(self._sources)}
        #: For each member: itself, whose gradient it has, the positions of its inputs, and whether
        #: its gradient came from another task for nobody else.
        self._parts = [
            (
                member,
                accumulators.contributor_of(member),
                [positions[edge] for edge in member.inputs[1:]],
                member.inputs[-1].node.definition is RECEIVE and use_count(member.inputs[-1]) == 1,
            )
            for member in node.members
        ]

    def run(self, inputs: list[Value], step: Step) -> list[Value]:
        """Applies; who waits for the gradients is told when all are there."""
        found = self.accumulators(step)
        values = self.values(inputs, step)
        settled: list[Attempt] = []
        local_step, last_position = 0, -1
        try:
            for i, (member, contributor, positions, is_last) in enumerate(self._parts):
                try:
                    if len(positions) != 2:  # sparse ones
                        handle = self._handles.get(step)[i]
                        arguments = [handle, *(values[position] for position in positions)]
                        call_plainly(member, arguments, step)
                        continue
                    if positions[0] != last_position:
                        last_position = positions[0]
                        local_step = accumulators.as_step(values[last_position], "local_step")
                    gradient = values[positions[1]]
                    is_own = is_last and getattr(type(gradient.base), "is_received", False)
                    if not is_own:
                        gradient = shared_state.kept(gradient)
                    accumulator = found[i]
                    with accumulator.lock:
                        settled += accumulator.state.apply(
                            gradient, local_step, contributor, is_own=is_own
                        )
                except Exception as error:
                    raise op_error(member, error) from None
        finally:
            if settled:
                shared_state.tell_all(settled)
        return []


class TakeGradientsStage(_Stage):
    """Takes from accumulators, and goes on when it has something from each."""

    may_block = True

    def __init__(self, node: JoinedNode) -> None:
        super().__init__(node)
        self._positions = positions_of([member.inputs[1] for member in node.members], self._sources)
        #: How many gradients each wants, once that is known: mostly constants say it.
        self._required: list[int] = []
        self._is_constant = all(member.inputs[1].node.type == "Const" for member in node.members)

    def _counts(self, values: Sequence[object]) -> list[int]:
        required: list[int] = []
        for member, position in zip(self.members, self._positions, strict=True):
            try:
                required.append(accumulators.required(values[position]))
            except Exception as error:
                raise op_error(member, error) from None
        if self._is_constant:
            self._required = required
        return required

    def run(self, inputs: list[Value], step: Step) -> list[Value] | Future:
        """The values of the outputs, or a Future of them."""
        found = self.accumulators(step)
        values = () if self._required else self.values(inputs, step)
        takes = [Take(required) for required in self._required or self._counts(values)]
        pending = _PendingTakes(self.members, found, takes, step)
        settled: list[Attempt] = []
        for accumulator, take in zip(found, takes, strict=True):
            take.waiter = pending
            if accumulator.noting is not None:
                take.events = accumulator.noting()
            with accumulator.lock:
                settled += accumulator.state.submit(take)
        future = pending.future
        if settled:
            shared_state.tell_all(settled)
            if future.done:
                outputs: list[Value] = future.result()
                return outputs
        pending.listen(step.cancellation)
        return future


def gradients_stage(
    node: Node, use_count: Callable[[Edge], int]
) -> ApplyGradientsStage | TakeGradientsStage:
    """The stage of a joined node.

    Args:
      node: A JoinedNode.
      use_count: How often a value is used in its program.
    """
    assert isinstance(node, JoinedNode)
    if node.definition is TAKE:
        return TakeGradientsStage(node)
    return ApplyGradientsStage(node, use_count)


class _PendingTakes:
    """The takes of one stage: tells the step when the last one has succeeded, or one failed.

    Attributes:
      future: Gets the outputs.
    """

    __slots__ = ("_accumulators", "_members", "_step", "_takes", "_token", "_told", "future")

    def __init__(
        self, members: list[Node], found: list[Accumulator], takes: list[Take], step: Step
    ) -> None:
        self._accumulators = found
        self._members = members
        self._takes = takes
        self._step = step
        #: Counts who was told; a thread of the interpreter cannot be interrupted in it.
        self._told = itertools.count(1)
        self.future = Future(functools.partial(accumulators.words, found, takes))
        self._token: int | None = None

    def listen(self, cancellation: Cancellation) -> None:
        """Has the takes cancelled with their step from now on."""
        self._token = token = cancellation.register(self._cancel)
        if token is None:
            self._cancel()
        elif self.future.done:  # The thread that did it may not have seen the token.
            cancellation.deregister(token)

    def _cancel(self) -> None:
        settled: list[Attempt] = []
        for accumulator, take in zip(self._accumulators, self._takes, strict=True):
            with accumulator.lock:
                settled += accumulator.state.cancel(take)
        if not self.future.done:
            self._give_back()
        shared_state.tell_all(settled)

    def _give_back(self) -> None:
        """The step gets nothing: who follows must find what some of its takes have got."""
        for accumulator, take in zip(self._accumulators, self._takes, strict=True):
            if take.done and take.error is None:
                with accumulator.lock:
                    settled = accumulator.state.give_back(take)
                shared_state.tell_all(settled)

    def tell(self, attempt: Attempt) -> None:
        """One of the takes has a value or an error."""
        attempt.waiter = None  # Else they would hold each other, and what was taken.
        is_last = next(self._told) == len(self._takes)
        if attempt.error is not None:
            position = next(i for i, take in enumerate(self._takes) if take is attempt)
            self.future.set_error(op_error(self._members[position], attempt.error))
        elif is_last:
            self._finish()
        else:
            return
        self._step.cancellation.deregister(self._token)

    def _finish(self) -> None:
        outputs: list[Any] = []
        try:
            for member, take in zip(self._members, self._takes, strict=True):
                if len(member.output_types) > 1:  # of a sparse one
                    outputs.extend(accumulators.conversion(member, self._step)(take.result()))
                else:
                    outputs.append(take.result())
        except Exception as error:
            self.future.set_error(error)
        else:
            self.future.set_result(outputs)
