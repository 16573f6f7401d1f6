"""Conditionals and loops that the host runs: branch by branch, iteration by iteration.

Used for bodies with state (variables that are written, queues), for loops whose variables change
shape, and for loops that keep values for their gradients when their length is only known as they
run. Bodies of plain arithmetic on NumPy run as straight-line code (`body_tape`); any other one is a
plan of its own, with compiled stages where it can have them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.compiler.xla import jax
from millrace.graph.function import Function
from millrace.ops.control_flow.loop_lowering import Stopped, stopped_by
from millrace.passes.function_body import (
    LOOPS,
    bodies_of,
    body_of,
    functions_of,
    is_random,
    loop_functions,
)
from millrace.passes.node import (
    Edge,
    Node,
    Program,
    is_array_handle,
    is_variable,
    is_variable_edge,
    names_variable,
    variable_of,
)
from millrace.platform import process_tuning
from millrace.runtime.kernel_call import Services, StoredState, call, run_branch, run_loop
from millrace.runtime.odd_values import ON_COLLECTIONS
from millrace.runtime.stage import Stage, Value
from millrace.runtime.step import Step
from millrace.runtime.tape import MAX_NODES

PlanFactory = Callable[[Program], Any]


def function_stage(node: Node, make_plan: PlanFactory) -> Stage:
    """The stage that runs a node's functions on the host."""
    if node.type == "VectorJacobianProduct":
        return CallGradientStage(node)
    if node.type in LOOPS:
        return LoopStage(node, make_plan)
    return BranchStage(node, make_plan)


class _FunctionStage:
    """What the stages below share: inputs, outputs, plans of bodies."""

    may_block = False
    #: A body may wait, and holds the thread meanwhile.
    is_short = False

    def __init__(self, node: Node, make_plan: PlanFactory | None = None) -> None:
        self.node = node
        self.nodes = [node]
        self.outputs = [Edge(node, i) for i in range(len(node.output_types))]
        self.inputs = [e for e in dict.fromkeys(node.inputs) if not is_variable_edge(e)]
        self._make_plan = make_plan
        self._plans: dict[str, Any] = {}
        #: Whether its bodies run as straight-line code.
        self._is_plain = _is_plain(node)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    def _all_inputs(self, inputs: list[Value], step: Step) -> list[Value]:
        """One value an input of the node; None for variables and TensorArray handles."""
        values = dict(zip(self.inputs, inputs, strict=True))
        state = StoredState(step.resources)
        found = []
        for edge in self.node.inputs:
            if is_variable_edge(edge) and not names_variable(edge):
                variable = variable_of(edge)
                assert variable is not None
                found.append(state.read(variable))
            else:
                found.append(values.get(edge))
        return found

    def _run_plainly(self, values: list[Value], step: Step) -> list[Value]:
        """Runs the node as straight-line code."""
        process_tuning.use_one_blas_thread()
        values = [
            value if type(value) is np.ndarray else jax.tree.map(np.asarray, value)
            for value in values
        ]
        run = run_loop if self.node.type in LOOPS else run_branch
        try:
            with stopped_by(step.cancellation.stop_words):
                return run(self.node, values, Services(StoredState(step.resources), ctx=step))
        except Stopped:
            error = step.cancellation.error
            assert error is not None
            raise error from None

    def _call(self, function: Function, args: list[Value], step: Step) -> list[Value]:
        plan = self._plans.get(function.name)
        if plan is None:
            assert self._make_plan is not None
            body = body_of(self.node, function)
            plan = self._plans[function.name] = self._make_plan(body)
        return step.run_plan(plan, args)


def _is_plain(node: Node) -> bool:
    """Whether a node's bodies only compute, on NumPy, with values that they are given."""
    if node.type not in (*LOOPS, "If") or is_random(node):
        return False
    nodes = [inner for body in bodies_of(node) for inner in body.nodes]
    if len(nodes) > MAX_NODES:
        return False
    return all(_is_plain(n) if functions_of(n) else _only_computes(n) for n in nodes)


def _only_computes(node: Node) -> bool:
    if any(is_variable_edge(edge) and not is_array_handle(edge) for edge in node.inputs):
        return False
    if node.type in ON_COLLECTIONS or node.type in ("Const", "FakeParam", "NoOp"):
        return True
    definition = node.definition
    return (
        definition.is_pure
        and definition.runs_on_numpy
        and not definition.is_stateful
        and not is_variable(node)
    )


class BranchStage(_FunctionStage):
    """An If or Case."""

    def run(self, inputs: list[Value], step: Step) -> list[Value]:
        """Runs the chosen branch."""
        values = self._all_inputs(inputs, step)
        if self._is_plain:
            return self._run_plainly(values, step)
        attrs = self.node.attrs
        if "branches" in attrs:
            index = int(np.asarray(values[0]))
            last = len(attrs["branches"]) - 1
            chosen = attrs["branches"][index if 0 <= index <= last else last]
        else:
            holds = bool(np.asarray(values[0]).reshape(()))
            chosen = attrs["then_branch"] if holds else attrs["else_branch"]
        return self._call(chosen, values[1:], step)


class LoopStage(_FunctionStage):
    """A While."""

    def run(self, inputs: list[Value], step: Step) -> list[Value]:
        """Runs iterations until the condition fails."""
        values = self._all_inputs(inputs, step)
        if self._is_plain:
            return self._run_plainly(values, step)
        condition, body = loop_functions(self.node)
        while bool(np.asarray(self._call(condition, values, step)[0]).reshape(())):
            if step.cancellation.error is not None:
                raise step.cancellation.error
            values = self._call(body, values, step)
            step.forget_random()
        return values


class CallGradientStage(_FunctionStage):
    """The gradient of a call of a function that is not part of a compiled stage."""

    def run(self, inputs: list[Value], step: Step) -> list[Value]:
        """Differentiates the function."""
        return call(
            self.node,
            [np.asarray(v) if v is not None else None for v in self._all_inputs(inputs, step)],
            Services(StoredState(step.resources), ctx=step),
        )
