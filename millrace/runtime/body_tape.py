"""Bodies of conditionals and loops on tier 0, as straight-line code.

A body gets a `Tape` the first time that it runs for its node: a loop calls it in each iteration,
and a step of a new shape takes the same one. What a tape does not give (a variable that the body
hands on) is looked up after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.graph.function import Function
from millrace.ops.random import philox
from millrace.passes.function_body import body_of
from millrace.passes.node import Node, is_array_handle, is_variable_edge
from millrace.runtime import kernel_call
from millrace.runtime.kernel_call import Services, form_of
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


class HostBody:
    """A body that is ready to be called many times in one step.

    Args:
      services: Those of the node.
      node: The conditional or loop.
      function: One of its functions.
      args: Arguments like those that it will be called with.
    """

    def __init__(self, services: Services, node: Node, function: Function, args: list[Any]) -> None:
        odd = frozenset(i for i, value in enumerate(args) if type(value) is not np.ndarray)
        tapes = form_of(node).tapes
        code: _Code | None = tapes.get((function.name, odd))
        if code is None:
            code = tapes[function.name, odd] = _Code(node, function, odd)
        self._code = code
        self._run = code.tape
        self._key: Any = None
        self._services = Services(services.state, rng=self._key_of, ctx=services.ctx, in_body=True)

    def __call__(self, args: list[Any], key: Any = None) -> list[Any]:
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

    def _key_of(self, node: Node) -> Any:
        if self._key is None:
            return None
        return philox.fold_in(self._key, kernel_call.key_number(node))


def prepared(services: Services, node: Node, function: Function, args: list[Any]) -> Any:
    """A body that is ready to be called; None if it is too long for a tape."""
    if len(body_of(node, function).nodes) > MAX_NODES:
        return None
    return HostBody(services, node, function, args)
