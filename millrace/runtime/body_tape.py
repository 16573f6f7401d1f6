"""Bodies of conditionals and loops on tier 0, as straight-line code.

A body gets a `Tape` the first time that it runs for its node: a loop calls it in each iteration,
and a step of a new shape takes the same one. What a tape does not give (a variable that the body
hands on) is looked up after it. A loop is one tape of condition and body (`HostLoop`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.core.value import Value
from millrace.graph.function import Function
from millrace.ops.control_flow.tensor_array_value import TensorArrayValue
from millrace.ops.control_flow.tensor_list_value import TensorList
from millrace.ops.random import philox
from millrace.passes.function_body import body_of
from millrace.passes.node import Node, is_array_handle, is_variable_edge
from millrace.runtime import kernel_call
from millrace.runtime.kernel_call import Services, form_of
from millrace.runtime.loop_tape import LoopTape, owned_arrays, stacks_of
from millrace.runtime.tape import MAX_NODES, Tape


class _Code:
    """The tape of a body, for arguments of which the same ones are arrays."""

    def __init__(self, node: Node, function: Function, odd: frozenset[int]) -> None:
        program = body_of(node, function)
        self.results = program.results
        self.made = [
            i
            for i, edge in enumerate(program.results)
            if not (is_array_handle(edge) or is_variable_edge(edge))
        ]
        self.is_whole = len(self.made) == len(program.results)
        outputs = [program.results[i] for i in self.made]
        self.tape = Tape(program.nodes, program.arguments, outputs, arrays=odd)


class _Keys:
    """The keys of the random ops of a body, from that of its call.

    Not a method of `HostBody`, which would then be part of a ring in every step.
    """

    of_call: Value = None

    def __call__(self, node: Node) -> Value:
        return None if self.of_call is None else _key_in_body(self.of_call, node)


class HostBody:
    """A body that is ready to be called many times in one step.

    Args:
      services: Those of the node.
      node: The conditional or loop.
      function: One of its functions.
      args: Arguments like those that it will be called with.
    """

    def __init__(
        self,
        services: Services,
        node: Node,
        function: Function,
        args: list[Value],
    ) -> None:
        odd = frozenset(i for i, value in enumerate(args) if type(value) is not np.ndarray)
        tapes = form_of(node).tapes
        code: _Code | None = tapes.get((function.name, odd))
        if code is None:
            code = tapes[function.name, odd] = _Code(node, function, odd)
        self._code = code
        self._run = code.tape
        self._keys = _Keys()
        self._services = Services(services.state, rng=self._keys, ctx=services.ctx, in_body=True)

    def __call__(self, args: list[Value], key: Value = None) -> list[Value]:
        """The results.

        Args:
          args: The arguments.
          key: A random key that all random ops inside derive theirs from.
        """
        self._keys.of_call = key
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


def _key_in_body(key: Value, node: Node) -> Value:
    """The random key of a node, derived from its body's."""
    return philox.fold_in(key, kernel_call.key_number(node))


class HostLoop:
    """A loop on the host.

    Lists that an iteration only pushes to, or only pops from, are Python lists while it runs, and
    arrays that it writes to are changed in place; see `loop_tape`.

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
        tapes = form_of(node).tapes
        programs = body_of(node, condition), body_of(node, body)
        found: tuple[frozenset[int], frozenset[int]] | None = tapes.get("in place")
        if found is None:
            found = tapes["in place"] = stacks_of(*programs), owned_arrays(*programs)
        self._lists = {
            i: values[i] for i in found[0] if type(values[i]) is TensorList and values[i].is_set
        }
        arrays = [i for i in found[1] if type(values[i]) is TensorArrayValue]
        self._values = list(values)
        for i, before in self._lists.items():
            self._values[i] = list(before.items)
        for i in arrays:
            self._values[i] = values[i].owned()
        odd = frozenset(i for i, value in enumerate(values) if type(value) is not np.ndarray)
        key = odd, frozenset(self._lists), frozenset(arrays)
        tape: LoopTape | None = tapes.get(key)
        if tape is None:
            tape = tapes[key] = LoopTape(*programs, *key)
        self._tape = tape
        self._keys = _Keys()
        self._services = Services(services.state, rng=self._keys, ctx=services.ctx, in_body=True)

    def run(self, key: Value, between: Callable[[], None]) -> list[Value]:
        """The last values of the loop's variables.

        Args:
          key: A random key that those of the iterations are derived from.
          between: Is called before each iteration; raises to end the loop.
        """
        keys = self._keys
        keys.of_call = key

        def ask() -> None:
            keys.of_call = key

        def begin(iteration: int) -> None:
            between()
            if key is not None:
                keys.of_call = philox.fold_in(key, iteration)

        state = self._tape.run(self._values, self._services, ask, begin)
        for i, before in self._lists.items():
            state[i] = before.with_items(state[i])
        return state


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
