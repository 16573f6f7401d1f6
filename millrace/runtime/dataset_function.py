"""The functions of a dataset, made ready to be called for every element.

A function whose ops all have NumPy kernels runs as a `Tape`: kernels one after the other, without
compiler or plan, which for small elements is what counts. Any other is a plan of its own, with
compiled stages where it can have them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from millrace.core import errors
from millrace.core.value import Value
from millrace.graph.function import Function
from millrace.passes.constants import detach_constants
from millrace.passes.frames import is_ruled
from millrace.passes.function_body import body_of, functions_of
from millrace.passes.grouping import order_nodes
from millrace.passes.inline import inline_calls
from millrace.passes.node import (
    Edge,
    Node,
    Program,
    is_array_handle,
    is_variable_edge,
    names_variable,
)
from millrace.passes.prune import prune
from millrace.runtime.kernel_call import Services, StoredState
from millrace.runtime.plan import Plan
from millrace.runtime.stage_program import random_key
from millrace.runtime.step import SessionState, Step
from millrace.runtime.tape import Tape

_TAPE_SPECIALS = frozenset(("xp", "node", "ctx", "check", "bind"))
#: Random ops that draw a few numbers without a compiler.
_DRAWS = frozenset(("RandomUniform", "RandomUniformInt"))
_CHOOSES = frozenset(("If", "StatelessIf"))


class Binder:
    """What a kernel gets as ``bind``: makes callables of the functions of its node.

    Args:
      node: The node.
      step: The step that makes the dataset; calls outlive it.
      make_plan: Makes a plan of a program.
    """

    __slots__ = ("_make_plan", "_node", "_step")

    def __init__(self, node: Node, step: Step, make_plan: Callable[[Program], Plan]) -> None:
        self._node, self._step, self._make_plan = node, step, make_plan

    def __call__(
        self, function: Function, captured: Sequence[object] = (), argument: str | None = None
    ) -> Callable[[Sequence[Value]], list[Value]]:
        """A function of the node as a callable from its arguments to its results.

        Args:
          function: The function, an attribute of the node.
          captured: Values of its last arguments.
          argument: The node's input that these come from: variables among them are read where
            they are used.

        Raises:
          NotFoundError: The function is not in the graph's library.
        """
        node, step = self._node, self._step
        if not isinstance(function, Function):
            raise errors.NotFoundError(
                None, node.source, f"Function {function.name} that {node.name} uses is not defined."
            )
        edges: list[Edge] = []
        if argument is not None:
            signature = node.definition.signature
            positions = signature.input_slices(node.attrs)
            position = positions[signature.input_index(argument)]
            assert isinstance(position, slice)
            edges = node.inputs[position]
        program = _program(node, function, edges)
        session = step.session.for_dataset()
        tape = FunctionTape.of(program, step.for_session(session), self._make_plan)
        values = list(captured)
        if tape is not None:
            return TapeCall(tape, values)
        plan = self._make_plan(program)

        def call_plan(arguments: Sequence[object]) -> list[Value]:
            results = step.for_session(session).run_plan(plan, [*arguments, *values])
            return [v if isinstance(v, np.ndarray) else np.asarray(v) for v in results]

        return call_plan


#: Types of ops whose kernels release the interpreter's lock, or wait, for most of their time.
_RELEASING = re.compile(r"Decode(Jpeg|Png|Bmp|Gif|Image|AndCrop)|Encode|ReadFile|PyFunc|Dataset")


class TapeCall:
    """A function that runs as a tape, with the values that it has captured.

    Attributes:
      holds_lock: Whether its calls hold the interpreter's lock all the time: side by side they
        would only get in each other's way.
    """

    __slots__ = ("_captured", "_run", "holds_lock")

    def __init__(self, tape: FunctionTape, captured: list[Value]) -> None:
        self._run, self._captured = tape.run, captured
        self.holds_lock = not any(_RELEASING.match(name) for name in tape.op_types)

    def __call__(self, arguments: Sequence[object]) -> list[Value]:
        """The results for these arguments."""
        return self._run([*arguments, *self._captured])


def _program(node: Node, function: Function, captured_edges: Sequence[Edge]) -> Program:
    program = inline_calls(prune(function.outputs, function.controls, function.inputs))
    first = len(program.arguments) - len(captured_edges)
    known = {
        inner: edge
        for inner, edge in zip(program.arguments[first:], captured_edges, strict=True)
        if names_variable(edge)
    }
    for each in program.nodes:
        each.name = f"{node.name}/{each.name}"
        if known:
            each.inputs = [known.get(e, e) for e in each.inputs]
    program.results = [known.get(e, e) for e in program.results]
    program = detach_constants(program)
    # Frames of TensorFlow 1.x may be cycles: the plan's passes come before the order.
    return program if is_ruled(program) else order_nodes(program)


def _can_tape(node: Node) -> bool:
    definition = node.definition
    if node.type in _CHOOSES:
        bodies = [body_of(node, function) for function in functions_of(node)]
        if not all(_can_tape(inner) for body in bodies for inner in body.nodes):
            return False
    elif node.type not in _DRAWS:
        if definition.kind == "pure":
            if not definition.runs_on_numpy:
                return False
        elif definition.kind != "host":
            return False
        if not _TAPE_SPECIALS.issuperset(definition.specials) or functions_of(node):
            return False
    return not any(is_variable_edge(e) or is_array_handle(e) for e in node.inputs) and not any(
        is_variable_edge(Edge(node, i)) or is_array_handle(Edge(node, i))
        for i in range(len(node.output_types))
    )


class FunctionTape:
    """A program as a tape, with what its kernels ask for."""

    def __init__(self, program: Program, step: Step, make_plan: Callable[[Program], Plan]) -> None:
        self._tape = Tape(program.nodes, program.arguments, program.results)
        self._services = Services(
            StoredState(step.resources),
            rng=lambda node: _draw_key(node, step.session),
            ctx=step,
            bind=lambda node: Binder(node, step, make_plan),
        )
        self.op_types = frozenset(node.type for node in program.nodes)

    @classmethod
    def of(
        cls, program: Program, step: Step, make_plan: Callable[[Program], Plan]
    ) -> FunctionTape | None:
        """The tape of a program, or None if some of it has no NumPy kernel."""
        if is_ruled(program) or not all(map(_can_tape, program.nodes)):
            return None
        return cls(program, step, make_plan)

    def run(self, arguments: Sequence[object]) -> list[Value]:
        """The results for these arguments."""
        return self._tape(arguments, self._services)


def _draw_key(node: Node, session: SessionState) -> Value:
    """The random key of one more execution."""
    return random_key(node, np.array(session.count_random(node), np.uint32))
