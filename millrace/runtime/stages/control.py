"""Conditionals and loops that the host runs: branch by branch, iteration by iteration.

Each body is a plan of its own, with compiled stages where it can have them. Used for bodies
with state (variables that are written, queues), for loops whose variables change shape, and
for gradients of loops whose length is only known as they run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from millrace.compiler import budget
from millrace.compiler.xla import jax, jnp
from millrace.core import errors
from millrace.graph.function import Function
from millrace.ops.control_flow.tensor_array_value import like
from millrace.ops.random import philox
from millrace.passes.function_body import (
    LOOPS,
    bodies_of,
    body_of,
    forward_type,
    is_first_gradient,
    is_random,
    loop_functions,
    slice_of,
)
from millrace.passes.node import (
    Edge,
    Node,
    Program,
    is_array_handle,
    is_variable_edge,
    names_variable,
    variable_of,
)
from millrace.passes.schedule import writes_state
from millrace.runtime import tiers
from millrace.runtime.kernel_call import Services, StoredState, call
from millrace.runtime.stage import Stage, Value
from millrace.runtime.stage_program import random_key
from millrace.runtime.step import Step
from millrace.runtime.traced_kernel import NumpyFunction

PlanFactory = Callable[[Program], Any]


def function_stage(node: Node, make_plan: PlanFactory) -> Stage:
    """The stage that runs a node's functions on the host."""
    if node.type == "VectorJacobianProduct":
        if forward_type(node) in LOOPS and is_first_gradient(node):
            return LoopGradientStage(node)
        return ConditionalGradientStage(node)
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


class ConditionalGradientStage(_FunctionStage):
    """The gradient of a conditional, or of a gradient, that is not part of a compiled stage."""

    def run(self, inputs: list[Value], step: Step) -> list[Value]:
        """Differentiates the branch that was taken."""
        return call(
            self.node,
            [np.asarray(v) if v is not None else None for v in self._all_inputs(inputs, step)],
            Services(StoredState(step.resources), ctx=step),
        )


class LoopGradientStage(_FunctionStage):
    """The gradient of a loop whose length is only known as it runs.

    Runs the loop again and keeps the variables of every iteration, then goes through the
    iterations backwards with the compiled gradient of the body. Of the body only what its results
    are computed from runs again: what it changed besides, the loop itself has changed.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._compiled: tuple[Any, Any, Any] | None = None
        _refuse_what_runs_once(node)
        #: Tensors of resource type among the loop's inputs, by position, and their variables.
        first: slice = node.definition.signature.input_slices(node.attrs)[0]  # type: ignore[assignment]
        self._variables = {
            i: variable
            for i, edge in enumerate(node.inputs[first])
            if names_variable(edge) and (variable := variable_of(edge)) is not None
        }
        #: Whether the body must see its numbers: it is then not compiled. An array that gets
        #: longer as it is written is one reason, a kernel on the host another.
        self._needs_values = any(
            is_array_handle(edge) and edge.node.attrs["dynamic_size"] for edge in node.inputs
        ) or any(_runs_on_host(body) for body in bodies_of(node))

    def run(self, inputs: list[Value], step: Step) -> list[Value]:
        """The gradients of the loop's inputs."""
        node = self.node
        positions = node.definition.signature.input_slices(node.attrs)
        values = self._all_inputs(inputs, step)
        loop_inputs, grads = values[positions[0]], values[positions[2]]
        wrt: list[int] = node.attrs["wrt"]
        holds, advance, pull_back = self._programs(step, wrt)
        key = random_key(node, step.random_counters([node])[0]) if is_random(node) else None
        if isinstance(key, philox.HostKey) and not self._needs_values:
            key = philox.key_of_words(jnp.asarray(key.words))  # It goes into programs.
        stored = StoredState(step.resources)
        state = [None if v is None else jax.tree.map(jnp.asarray, v) for v in loop_inputs]
        for i, variable in self._variables.items():
            state[i] = jnp.asarray(stored.read(variable))
        states: list[tuple[list[Any], Any]] = []
        while bool(holds(state, key)):
            if step.cancellation.error is not None:
                raise step.cancellation.error
            inner = None if key is None else philox.fold_in(key, len(states))
            states.append((state, inner))
            state = advance(state, inner)
        total = {i: jax.tree.map(jnp.zeros_like, state[i]) for i in wrt}
        for position, grad in zip(node.attrs["grad_outputs"], grads, strict=True):
            if position in total:
                total[position] = like(jax.tree.map(jnp.asarray, grad), state[position])
        for before, inner in reversed(states):
            total = dict(zip(wrt, pull_back(before, inner, [total[i] for i in wrt]), strict=True))
        return [total[i] for i in wrt]

    def _programs(self, step: Step, wrt: list[int]) -> tuple[Value, Value, Value]:
        if self._compiled is None:
            condition, body = loop_functions(self.node)
            in_programs = not self._needs_values
            services = Services(StoredState(step.resources), ctx=step, traced=in_programs)
            invoker = services.special("invoke", self.node, False)
            results = [i for i in range(len(body.outputs)) if i not in self._variables]

            def invoke(
                function: Function, state: list[Value], key: Value, wanted: list[int]
            ) -> Value:
                # A variable's value is part of the state; inside, reading it finds that value.
                values = {v: state[i] for i, v in self._variables.items()}
                arguments = [None if i in self._variables else v for i, v in enumerate(state)]
                return invoker.overriding(values)(
                    function, arguments, key, only=wanted, controls=False
                )[0]

            def holds(state: list[Value], key: Value) -> Value:
                return invoke(condition, state, key, [0])[0]

            def advance(state: list[Value], key: Value) -> list[Value]:
                outputs = invoke(body, state, key, results)
                return [
                    state[i] if i in self._variables else jax.tree.map(jnp.asarray, value)
                    for i, value in enumerate(outputs)
                ]

            def pull_back(state: list[Value], key: Value, cotangents: list[Value]) -> Value:
                def forward(*chosen: Value) -> list[Value]:
                    values = list(state)
                    for i, value in zip(wrt, chosen, strict=True):
                        values[i] = value
                    outputs = advance(values, key)
                    return [outputs[i] for i in wrt]

                return jax.vjp(forward, *(state[i] for i in wrt))[1](cotangents)

            self._compiled = holds, advance, pull_back
            if in_programs:
                ready: Any = NumpyFunction
                if tiers.mode() is tiers.Mode.NOW:
                    inner = [self.node, *_inner_nodes(body_of(self.node, body))]
                    ready = functools.partial(budget.jitted, name=self.name, nodes=inner)
                self._compiled = ready(holds), ready(advance), ready(pull_back)
        return self._compiled


def _inner_nodes(body: Program) -> Iterator[Node]:
    """The nodes of a body, and of the bodies that these call."""
    for node in body.nodes:
        yield node
        for inner in bodies_of(node):
            yield from _inner_nodes(inner)


def _runs_on_host(body: Program) -> bool:
    return any(not node.definition.is_pure for node in _inner_nodes(body))


def _refuse_what_runs_once(node: Node) -> None:
    """Raises for a loop that computes its results with what it changes: it cannot run again."""
    body = body_of(node, loop_functions(node)[1])
    written = {
        variable_of(edge)
        for each in body.nodes
        if writes_state(each)
        for edge in each.inputs
        if is_variable_edge(edge)
    }
    for each in slice_of(body, body.results, controls=False):
        if writes_state(each) or any(
            variable_of(edge) in written for edge in each.inputs if is_variable_edge(edge)
        ):
            raise errors.UnimplementedError(
                None,
                node.source,
                f"The gradient of the loop {node.attrs['forward_name'].decode()} needs the values "
                f"that {each.name} ({each.type}) had in each iteration, and the loop changes that "
                "variable: pass what is differentiated as a loop variable, or put "
                "tf.stop_gradient around the read",
            )
