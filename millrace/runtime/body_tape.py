"""Bodies of conditionals and loops on tier 0, as straight-line code.

A body gets a `Tape` the first time that it runs for its node: a loop calls it in each iteration,
and a step of a new shape takes the same one. What a tape does not give (a variable that the body
hands on) is looked up after it. A loop runs its two tapes in turns (`HostLoop`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.core.value import Value
from millrace.graph.function import Function
from millrace.ops.control_flow.tensor_list_value import TensorList
from millrace.ops.random import philox
from millrace.passes.function_body import body_of
from millrace.passes.node import Edge, Node, Program, is_array_handle, is_variable_edge
from millrace.runtime import kernel_call
from millrace.runtime.kernel_call import Services, form_of
from millrace.runtime.tape import MAX_NODES, Tape


class _Code:
    """The tape of a body, for arguments of which the same ones are arrays."""

    def __init__(
        self, node: Node, function: Function, odd: frozenset[int], stacks: frozenset[int]
    ) -> None:
        program = body_of(node, function)
        self.results = program.results
        self.made = [
            i
            for i, edge in enumerate(program.results)
            if not (is_array_handle(edge) or is_variable_edge(edge))
        ]
        self.is_whole = len(self.made) == len(program.results)
        outputs = [program.results[i] for i in self.made]
        self.tape = Tape(program.nodes, program.arguments, outputs, arrays=odd, stacks=stacks)


class HostBody:
    """A body that is ready to be called many times in one step.

    Args:
      services: Those of the node.
      node: The conditional or loop.
      function: One of its functions.
      args: Arguments like those that it will be called with.
      stacks: Positions of arguments that are Python lists, which it changes.
    """

    def __init__(
        self,
        services: Services,
        node: Node,
        function: Function,
        args: list[Value],
        stacks: frozenset[int] = frozenset(),
    ) -> None:
        odd = frozenset(i for i, value in enumerate(args) if type(value) is not np.ndarray)
        tapes = form_of(node).tapes
        code: _Code | None = tapes.get((function.name, odd, stacks))
        if code is None:
            code = tapes[function.name, odd, stacks] = _Code(node, function, odd, stacks)
        self._code = code
        self._run = code.tape
        self._key: Any = None
        self._services = Services(services.state, rng=self._key_of, ctx=services.ctx, in_body=True)

    def __call__(self, args: list[Value], key: Value = None) -> list[Value]:
        """The results.

        Args:
          args: The arguments.
          key: A random key that all random ops inside derive theirs from.
        """
        self._key = key
        found = self._run(args, self._services)
        code = self._code
        if code.is_whole:
            return found
        results: list[Any] = [None] * len(code.results)
        for i, value in zip(code.made, found, strict=True):
            results[i] = value
        for i, edge in enumerate(code.results):
            if i not in code.made:
                results[i] = kernel_call.result_of(edge, {}, self._services.state)
        return results

    def _key_of(self, node: Node) -> Value:
        if self._key is None:
            return None
        return philox.fold_in(self._key, kernel_call.key_number(node))


class HostLoop:
    """A loop on the host.

    Lists that an iteration only pushes to, or only pops from, are Python lists while it runs.

    Args:
      services: Those of the node.
      node: The loop.
      condition: Its condition.
      body: Its body.
      values: The first values of its variables.
    """

    def __init__(
        self,
        services: Services,
        node: Node,
        condition: Function,
        body: Function,
        values: list[Value],
    ) -> None:
        form = form_of(node)
        found: frozenset[int] | None = form.tapes.get("stacks")
        if found is None:
            found = form.tapes["stacks"] = _stacks(body_of(node, condition), body_of(node, body))
        stacks = frozenset(
            i for i in found if isinstance(values[i], TensorList) and values[i].is_set
        )
        self._lists = {i: values[i] for i in stacks}
        self._state = list(values)
        for i, before in self._lists.items():
            self._state[i] = list(before.items)
        self._holds = HostBody(services, node, condition, self._state)
        self._advance = HostBody(services, node, body, self._state, stacks)

    def run(self, key: Value, between: Callable[[], None]) -> list[Value]:
        """The last values of the loop's variables.

        Args:
          key: A random key that those of the iterations are derived from.
          between: Is called before each iteration; raises to end the loop.
        """
        state, holds, advance = self._state, self._holds, self._advance
        iteration = 0
        while holds(state, key)[0]:
            between()
            state = advance(state, None if key is None else philox.fold_in(key, iteration))
            iteration += 1
        for i, before in self._lists.items():
            state[i] = before.with_items(state[i])
        return state


def _stacks(condition: Program, body: Program) -> frozenset[int]:
    """Loop variables that are lists which one node of the body pushes to or pops from."""
    users: dict[Edge, list[Node]] = {}
    for node in (*condition.nodes, *body.nodes):
        for edge in node.inputs:
            users.setdefault(edge, []).append(node)
    found = []
    for i, edge in enumerate(body.arguments):
        using = users.get(edge, [])
        if edge.dtype.name != "variant" or len(using) != 1 or condition.arguments[i] in users:
            continue
        (node,) = using
        after = Edge(node, 0)
        if (
            node.type in ("TensorListPushBack", "TensorListPopBack")
            and node.inputs[0] == edge
            and body.results[i] == after
            and body.results.count(after) == 1
            and after not in users
        ):
            found.append(i)
    return frozenset(found)


def prepared_loop(
    services: Services, node: Node, condition: Function, body: Function, values: list[Value]
) -> HostLoop | None:
    """A loop that is ready to run; None if its body is too long for a tape."""
    if len(body_of(node, body).nodes) > MAX_NODES:
        return None
    return HostLoop(services, node, condition, body, values)


def prepared(services: Services, node: Node, function: Function, args: list[Value]) -> Value:
    """A body that is ready to be called; None if it is too long for a tape."""
    if len(body_of(node, function).nodes) > MAX_NODES:
        return None
    return HostBody(services, node, function, args)
