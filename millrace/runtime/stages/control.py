"""Conditionals and loops that the host runs: branch by branch, iteration by iteration.

Each body is a plan of its own, with compiled stages where it can have them. Used for bodies
with state (variables that are written, queues), for loops whose variables change shape, and
for loops that keep values for their gradients when their length is only known as they run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.graph.function import Function
from millrace.passes.function_body import (
    LOOPS,
    body_of,
    loop_functions,
)
from millrace.passes.node import (
    Edge,
    Node,
    Program,
    is_variable_edge,
    names_variable,
    variable_of,
)
from millrace.runtime.kernel_call import Services, StoredState, call
from millrace.runtime.stage import Stage, Value
from millrace.runtime.step import Step

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

    def _call(self, function: Function, args: list[Value], step: Step) -> list[Value]:
        plan = self._plans.get(function.name)
        if plan is None:
            assert self._make_plan is not None
            body = body_of(self.node, function)
            plan = self._plans[function.name] = self._make_plan(body)
        return step.run_plan(plan, args)


class BranchStage(_FunctionStage):
    """An If or Case."""

    def run(self, inputs: list[Value], step: Step) -> list[Value]:
        """Runs the chosen branch."""
        values = self._all_inputs(inputs, step)
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
