"""Conditionals and loops that the host runs: branch by branch, iteration by iteration.

Each body is a plan of its own, with compiled stages where it can have them. Used for bodies
with state (variables that are written, queues), for loops whose variables change shape, and
for gradients of loops whose length is only known as they run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.compiler.xla import jax, jnp
from millrace.graph.function import Function
from millrace.ops.control_flow.tensor_array_value import like
from millrace.passes.function_body import LOOPS, body_of, forward_type, loop_functions
from millrace.passes.node import (
    Edge,
    Node,
    Program,
    is_array_handle,
    is_variable_edge,
    names_variable,
    variable_of,
)
from millrace.runtime import tiers
from millrace.runtime.kernel_call import Services, StoredState, call
from millrace.runtime.traced_kernel import NumpyFunction

PlanFactory = Callable[[Program], Any]


def function_stage(node: Node, make_plan: PlanFactory) -> Any:
    """The stage that runs a node's functions on the host."""
    if node.type == "VectorJacobianProduct":
        if forward_type(node) in LOOPS:
            return LoopGradientStage(node)
        return ConditionalGradientStage(node)
    if node.type in LOOPS:
        return LoopStage(node, make_plan)
    return BranchStage(node, make_plan)


class _FunctionStage:
    """What the stages below share: inputs, outputs, plans of bodies."""

    blocking = False

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

    def _all_inputs(self, inputs: list[Any], step: Any) -> list[Any]:
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

    def _call(self, function: Function, args: list[Any], step: Any) -> list[Any]:
        plan = self._plans.get(function.name)
        if plan is None:
            assert self._make_plan is not None
            body = body_of(self.node, function)
            plan = self._plans[function.name] = self._make_plan(body)
        return step.run_plan(plan, args)  # type: ignore[no-any-return]


class BranchStage(_FunctionStage):
    """An If or Case."""

    def run(self, inputs: list[Any], step: Any) -> list[Any]:
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

    def run(self, inputs: list[Any], step: Any) -> list[Any]:
        """Runs iterations until the condition fails."""
        values = self._all_inputs(inputs, step)
        condition, body = loop_functions(self.node)
        while bool(np.asarray(self._call(condition, values, step)[0]).reshape(())):
            if step.cancellation.error is not None:
                raise step.cancellation.error
            values = self._call(body, values, step)
            step.forget_random()
        return values


class ConditionalGradientStage(_FunctionStage):
    """The gradient of a conditional that is not part of a compiled stage."""

    def run(self, inputs: list[Any], step: Any) -> list[Any]:
        """Differentiates the branch that was taken."""
        return call(
            self.node,
            [np.asarray(v) if v is not None else None for v in self._all_inputs(inputs, step)],
            Services(StoredState(step.resources), ctx=step),
        )


class LoopGradientStage(_FunctionStage):
    """The gradient of a loop whose length is only known as it runs.

    Runs the loop again and keeps the variables of every iteration, then goes through the
    iterations backwards with the compiled gradient of the body.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._compiled: tuple[Any, Any, Any] | None = None
        #: Whether an array gets longer as it is written: then positions must be known.
        self._grows = any(
            is_array_handle(edge) and edge.node.attrs["dynamic_size"] for edge in node.inputs
        )

    def run(self, inputs: list[Any], step: Any) -> list[Any]:
        """The gradients of the loop's inputs."""
        node = self.node
        places = node.definition.signature.input_slices(node.attrs)
        values = self._all_inputs(inputs, step)
        loop_inputs, grads = values[places[0]], values[places[2]]
        wrt: list[int] = node.attrs["wrt"]
        holds, advance, pull_back = self._programs(step, wrt)
        states = []
        state = [jax.tree.map(jnp.asarray, v) for v in loop_inputs]
        while bool(holds(state)):
            states.append(state)
            state = advance(state)
        total = {i: jax.tree.map(jnp.zeros_like, state[i]) for i in wrt}
        for position, grad in zip(node.attrs["grad_outputs"], grads, strict=True):
            if position in total:
                total[position] = like(jax.tree.map(jnp.asarray, grad), state[position])
        for before in reversed(states):
            total = dict(zip(wrt, pull_back(before, [total[i] for i in wrt]), strict=True))
        return [total[i] for i in wrt]

    def _programs(self, step: Any, wrt: list[int]) -> tuple[Any, Any, Any]:
        if self._compiled is None:
            condition, body = loop_functions(self.node)
            services = Services(StoredState(step.resources), ctx=step)
            invoke = services.special("invoke", self.node, False)

            def holds(state: list[Any]) -> Any:
                return invoke(condition, state)[0][0]

            def advance(state: list[Any]) -> list[Any]:
                return [jax.tree.map(jnp.asarray, v) for v in invoke(body, state)[0]]

            def pull_back(state: list[Any], cotangents: list[Any]) -> Any:
                def forward(*chosen: Any) -> list[Any]:
                    values = list(state)
                    for i, value in zip(wrt, chosen, strict=True):
                        values[i] = value
                    outputs = advance(values)
                    return [outputs[i] for i in wrt]

                return jax.vjp(forward, *(state[i] for i in wrt))[1](cotangents)

            self._compiled = holds, advance, pull_back
            if not self._grows:
                ready = jax.jit if tiers.mode() is tiers.Mode.NOW else NumpyFunction
                self._compiled = ready(holds), ready(advance), ready(pull_back)
        return self._compiled
