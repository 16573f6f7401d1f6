"""Lets what a step changes on this task go through the task's record of applied steps.

The rules are in `protocol/step/applied_steps.py`; here are a lock, and the places in a plan where
state changes. A stage that changes state has its `run` replaced: the executor need not know.

A task that has a standby makes its changes one after the other, and each is forwarded with its
entry in the record (`Journal`): nothing can be in one and not in the other.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from millrace.core import errors
from millrace.core.value import Value
from millrace.ops.data_flow.accumulators import BEGINS_ROUND, IF_PRESENT
from millrace.passes import schedule
from millrace.passes.function_body import bodies_of
from millrace.passes.node import Node
from millrace.protocol.step.applied_steps import (
    AppliedSteps,
    Effect,
    RunningAttempt,
    State,
    StepAttempt,
    Verdict,
)
from millrace.runtime.compiled_stage import VariableUse
from millrace.runtime.future import Future
from millrace.runtime.kernel_call import VariableRef, variable_key
from millrace.runtime.plan import Plan
from millrace.runtime.stage import Stage
from millrace.runtime.step import Step

#: Runs a stage: its inputs and its step in, its outputs out.
_Run = Callable[[list[Value], Step], list[Value] | Future]
_ENQUEUES = frozenset(
    ("QueueEnqueue", "QueueEnqueueMany", "QueueEnqueueV2", "QueueEnqueueManyV2", "Stage")
)
#: What changes a queue, an accumulator or a table, which a standby follows by its events.
_RESOURCES = re.compile(
    r"^(Resource|Sparse)?Accumulator(ApplyGradient|TakeGradient|SetGlobalStep)$"
    r"|^_(Apply|Take)Gradients$|^Queue(Enqueue|Dequeue|Close)"
    r"|^LookupTable(Insert|Remove|Import)|^InitializeTable"
)


class ChangingStage(NamedTuple):
    """A stage of a plan that changes state.

    Attributes:
      place: Where it is in the plan.
      run: Runs it, whatever the record says.
      effect: Its name in the record.
      overwritten: The variables that it sets without reading them.
      may_block: Whether it may wait: then nobody else waits for it.
      is_of_resources: Whether it changes queues, accumulators or tables, and no variables. What its
        effect calls variables is these, then.
    """

    place: int
    run: _Run
    effect: Effect
    overwritten: frozenset[str]
    may_block: bool
    is_of_resources: bool = False


class ResourceNotes(Protocol):
    """Collects what happens to queues, accumulators and tables."""

    def change(self) -> contextlib.AbstractContextManager[list[Value]]:
        """A step changes some of them."""

    def elsewhere(self) -> contextlib.AbstractContextManager[None]:
        """This thread holds what such a change may wait for."""


class Journal(Protocol):
    """Orders the changes of a task, and forwards them."""

    def change(self, stage: ChangingStage, graph: int, inputs: list[Value], step: Step) -> Value:
        """Runs a stage; nobody else changes anything meanwhile."""

    def settled(self, stage: ChangingStage, graph: int, step: Step, outputs: list[Value]) -> None:
        """A stage that had to wait has changed what it changes."""

    @property
    def resources(self) -> ResourceNotes:
        """Collects what happens to queues, accumulators and tables."""

    def noted(
        self, stage: ChangingStage, step: Step, happened: list[Value], outputs: list[Value] | None
    ) -> None:
        """A stage has changed queues, accumulators or tables; None: it failed after all."""

    @property
    def order(self) -> threading.RLock:
        """Held while anything changes."""


class TaskRecord:
    """What the steps of all clients have changed on one task.

    Args:
      task: The task's name.
    """

    def __init__(self, task: str) -> None:
        self._task = task
        self._lock = threading.Lock()
        self._record = AppliedSteps()
        #: Who orders and forwards changes, if the task has or had a standby.
        self._journal: Journal | None = None
        #: How many changes are under way that nobody orders.
        self._unordered = 0
        self._is_ordered = threading.Condition(self._lock)

    def order_changes(self, journal: Journal) -> None:
        """Lets changes be made one after the other from now on; waits for those under way."""
        with self._is_ordered:
            self._journal = journal
            self._is_ordered.wait_for(lambda: self._unordered == 0)

    def as_state(self) -> State:
        """The record as a plain value."""
        with self._lock:
            return self._record.as_state()

    def set_state(self, state: State) -> None:
        """Takes over the record of another task."""
        with self._lock:
            self._record = AppliedSteps.from_state(state)

    def follow(self, attempt: StepAttempt, effect: Effect, outputs: list[Value]) -> None:
        """Notes what another task's record says, and this task has just done."""
        kept = list(map(_keep, outputs))
        with self._lock:
            self._record.follow(attempt, effect, kept)

    def begin(self, attempt: StepAttempt) -> EffectGate:
        """An attempt of a step begins.

        Raises:
          AbortedError: A later one has begun already.
        """
        with self._lock:
            running = self._record.begin(attempt)
        if running is None:
            raise errors.AbortedError(
                None,
                None,
                f"Attempt {attempt.attempt} of step {attempt.step} comes too late: {self._task} "
                "knows of a later one, or that the step is over.",
            )
        return EffectGate(self._task, self._lock, running, attempt)

    def replaced(self, variables: frozenset[str]) -> None:
        """Variables were given values that no numbered step has made."""
        with self._lock:
            self._record.replaced(variables)

    def watch(self, plan: Plan, graph: int) -> dict[int, ChangingStage]:
        """Lets all that changes state in a plan go through the record; the stages that do."""
        found = changing_stages(plan, self._journal is not None)
        for i, changing in found.items():
            watched: Any = plan.stages[i]
            watched.run = functools.partial(self._run, changing, graph)
        return found

    def _run(self, stage: ChangingStage, graph: int, inputs: list[Value], step: Step) -> Value:
        if step.gate is not None and stage.effect.variables and not stage.is_of_resources:
            apply = functools.partial(self._apply, stage, graph, inputs, step)
            held = step.gate.enter(apply, step)
            if held is not None:
                return held
        return self._apply(stage, graph, inputs, step)

    def _apply(self, stage: ChangingStage, graph: int, inputs: list[Value], step: Step) -> Value:
        with self._lock:
            journal = self._journal
            if journal is None:
                self._unordered += 1
        if journal is not None:
            return self._run_in_order(journal, stage, graph, inputs, step)
        try:
            return self._recorded(stage, stage.run, inputs, step)
        finally:
            with self._is_ordered:
                self._unordered -= 1
                if not self._unordered and self._journal is not None:
                    self._is_ordered.notify_all()

    def _recorded(self, stage: ChangingStage, run: _Run, inputs: list[Value], step: Step) -> Value:
        if step.record is not None:
            return step.record.run(stage.effect, run, inputs, step)
        outputs = run(inputs, step)
        if stage.overwritten:
            self.replaced(stage.overwritten)
        return outputs

    def _run_in_order(
        self, journal: Journal, stage: ChangingStage, graph: int, inputs: list[Value], step: Step
    ) -> Value:
        if stage.is_of_resources:
            return self._run_noted(journal, stage, inputs, step)
        if not stage.may_block:
            run = functools.partial(journal.change, stage, graph)
            # The change and its entry in the record are one.
            with journal.order, journal.resources.elsewhere():
                return self._recorded(stage, run, inputs, step)
        outputs = self._recorded(stage, stage.run, inputs, step)

        def tell(made: Value) -> None:
            if type(made) is not Future:
                journal.settled(stage, graph, step, made)
            elif not made.failed:
                journal.settled(stage, graph, step, made.result())

        if type(outputs) is Future:
            outputs.add_callback(tell)
        else:
            tell(outputs)
        return outputs

    def _run_noted(
        self, journal: Journal, stage: ChangingStage, inputs: list[Value], step: Step
    ) -> Value:
        """Runs a stage that changes resources; what happens is told when it has its outputs."""
        with journal.resources.change() as happened:
            outputs = self._recorded(stage, stage.run, inputs, step)
            if type(outputs) is not Future:
                journal.noted(stage, step, happened, outputs)
                return outputs

        def tell(made: Future) -> None:
            journal.noted(stage, step, happened, None if made.failed else made.result())

        outputs.add_callback(tell)
        return outputs


class EffectGate:
    """Decides for one attempt of a step which of its effects are applied."""

    __slots__ = ("_attempt", "_lock", "_task", "attempt")

    def __init__(
        self, task: str, lock: threading.Lock, running: RunningAttempt, attempt: StepAttempt
    ) -> None:
        self._task = task
        self._lock = lock
        self._attempt = running
        #: Which attempt of which step it is.
        self.attempt = attempt

    def claim(self, effect: Effect) -> Verdict:
        """What is to be done about an effect."""
        with self._lock:
            return self._attempt.claim(effect)

    def applied(self, effect: Effect, outputs: list[Value]) -> None:
        """An effect was applied."""
        kept = list(map(_keep, outputs)) if outputs else []
        with self._lock:
            self._attempt.applied(effect, kept)

    def failed(self, effect: Effect) -> None:
        """An effect was not applied."""
        with self._lock:
            self._attempt.failed(effect)

    def run(
        self, effect: Effect, run: _Run, inputs: list[Value], step: Step
    ) -> list[Value] | Future:
        """Runs a stage, or hands out what it has made in an earlier attempt.

        Raises:
          AbortedError: A later attempt has begun, or an earlier one is not over.
        """
        verdict = self.claim(effect)
        if verdict is Verdict.REPLAY:
            return list(self._attempt.outputs(effect))
        if verdict is not Verdict.APPLY:
            why = (
                "an earlier attempt of it is still being applied there"
                if verdict is Verdict.WAIT
                else "a later attempt of it has begun there"
            )
            raise errors.AbortedError(
                None, None, f"This attempt of a step changes nothing on {self._task}: {why}."
            )
        try:
            outputs = run(inputs, step)
        except BaseException:
            self.failed(effect)
            raise
        if isinstance(outputs, Future):
            outputs.add_callback(functools.partial(self._settle, effect))
        else:
            self.applied(effect, outputs)
        return outputs

    def _settle(self, effect: Effect, done: Future) -> None:
        if done.failed:
            self.failed(effect)
        else:
            self.applied(effect, done.result())


def changing_stages(plan: Plan, with_resources: bool = False) -> dict[int, ChangingStage]:
    """The stages of a plan that change state, by their places.

    Args:
      plan: The plan.
      with_resources: Whether all that changes queues, accumulators and tables counts.
    """
    found: dict[int, ChangingStage] = {}
    for i, stage in enumerate(plan.stages):
        if with_resources and (changed := _change_of_resources(i, stage)) is not None:
            found[i] = changed
            continue
        effect, overwritten = _effect_of(stage)
        if effect is not None:
            found[i] = ChangingStage(i, stage.run, effect, overwritten, stage.may_block)
    return found


def _keep(value: object) -> Value:
    """An output as the record keeps it: XLA's memory of one may go to the next update."""
    if isinstance(value, np.ndarray | VariableRef | bytes):
        return value
    return np.asarray(value) if hasattr(value, "__array__") else value


def _effect_of(stage: Stage) -> tuple[Effect | None, frozenset[str]]:
    """What a stage changes, if anything, and the variables that it sets without reading them."""
    nodes: list[Node] = list(stage.region.nodes if hasattr(stage, "region") else stage.nodes)
    changing = [node for node in nodes if changes_state(node)]
    if not changing:
        return None, frozenset()
    written = VariableUse(changing, frozenset()).written
    variables = frozenset("/".join(variable_key(variable)) for variable in written)
    names = "\n".join(sorted(node.name for node in changing))
    digest = hashlib.blake2b(names.encode(), digest_size=8).hexdigest()
    effect = Effect(f"{changing[0].name} ({len(changing)}, {digest})", variables)
    overwrites = any(node.definition.overwrites for node in changing)
    return effect, variables if overwrites else frozenset()


def _change_of_resources(place: int, stage: Stage) -> ChangingStage | None:
    """What a stage changes, if that is a queue, an accumulator or a table; else None."""
    nodes: list[Node] = list(() if hasattr(stage, "region") else stage.nodes)
    if len(nodes) != 1 or not _RESOURCES.match(nodes[0].type):
        return None
    (node,) = nodes
    members: list[Node] = getattr(node, "members", nodes)
    changed = frozenset(_name_of(member.inputs[0].node) for member in members)
    begins_anew = node.attrs.get(BEGINS_ROUND) or node.attrs.get(IF_PRESENT)
    effect = Effect(f"{node.type} {node.name}", changed)
    overwritten = changed if begins_anew else frozenset()
    return ChangingStage(place, stage.run, effect, overwritten, stage.may_block, True)


def _name_of(maker: Node) -> str:
    """What effects call the resource that a node makes."""
    container, name = (maker.attrs.get(a, b"").decode() for a in ("container", "shared_name"))
    return f"resource {container}/{name or maker.name}"


def changes_variables(node: Node) -> bool:
    """Whether a node changes variables."""
    return schedule.writes_state(node) or any(
        changes_variables(inner) for body in bodies_of(node) for inner in body.nodes
    )


def changes_state(node: Node) -> bool:
    """Whether a node changes state that outlives its step."""
    return (
        schedule.writes_state(node)
        or node.type in _ENQUEUES
        or any(changes_state(inner) for body in bodies_of(node) for inner in body.nodes)
    )
