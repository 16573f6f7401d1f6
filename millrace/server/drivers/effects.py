"""Lets what a step changes on this task go through the task's record of applied steps.

The rules are in `protocol/step/applied_steps.py`; here are a lock, and the places in a plan where
state changes. A stage that changes state has its `run` replaced: the executor need not know.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.core import errors
from millrace.core.value import Value
from millrace.passes import schedule
from millrace.passes.function_body import bodies_of
from millrace.passes.node import Node
from millrace.protocol.step.applied_steps import (
    AppliedSteps,
    Effect,
    RunningAttempt,
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


class TaskRecord:
    """What the steps of all clients have changed on one task.

    Args:
      task: The task's name.
    """

    def __init__(self, task: str) -> None:
        self._task = task
        self._lock = threading.Lock()
        self._record = AppliedSteps()

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
        return EffectGate(self._task, self._lock, running)

    def replaced(self, variables: frozenset[str]) -> None:
        """Variables were given values that no numbered step has made."""
        with self._lock:
            self._record.replaced(variables)

    def watch(self, plan: Plan) -> bool:
        """Lets all that changes state in a plan go through the record; whether anything does."""
        found = False
        for stage in plan.stages:
            effect, overwritten = _effect_of(stage)
            if effect is None:
                continue
            found = True
            watched: Any = stage
            watched.run = functools.partial(self._run, stage.run, effect, overwritten)
        return found

    def _run(
        self,
        run: _Run,
        effect: Effect,
        overwritten: frozenset[str],
        inputs: list[Value],
        step: Step,
    ) -> list[Value] | Future:
        if step.record is not None:
            return step.record.run(effect, run, inputs, step)
        outputs = run(inputs, step)
        if overwritten:
            self.replaced(overwritten)
        return outputs


class EffectGate:
    """Decides for one attempt of a step which of its effects are applied."""

    __slots__ = ("_attempt", "_lock", "_task")

    def __init__(self, task: str, lock: threading.Lock, attempt: RunningAttempt) -> None:
        self._task = task
        self._lock = lock
        self._attempt = attempt

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


def _keep(value: Value) -> Value:
    """An output as the record keeps it: XLA's memory of one may go to the next update."""
    if isinstance(value, np.ndarray | VariableRef | bytes):
        return value
    return np.asarray(value) if hasattr(value, "__array__") else value


def _effect_of(stage: Stage) -> tuple[Effect | None, frozenset[str]]:
    """What a stage changes, if anything, and the variables that it sets without reading them."""
    nodes: list[Node] = list(stage.region.nodes if hasattr(stage, "region") else stage.nodes)
    changing = [node for node in nodes if _changes_state(node)]
    if not changing:
        return None, frozenset()
    written = VariableUse(changing, frozenset()).written
    variables = frozenset("/".join(variable_key(variable)) for variable in written)
    names = "\n".join(sorted(node.name for node in changing))
    digest = hashlib.blake2b(names.encode(), digest_size=8).hexdigest()
    effect = Effect(f"{changing[0].name} ({len(changing)}, {digest})", variables)
    overwrites = any(node.definition.overwrites for node in changing)
    return effect, variables if overwrites else frozenset()


def _changes_state(node: Node) -> bool:
    return (
        schedule.writes_state(node)
        or node.type in _ENQUEUES
        or any(_changes_state(inner) for body in bodies_of(node) for inner in body.nodes)
    )
