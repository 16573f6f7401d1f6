"""Running a plan: in one sweep when nothing blocks, else stage by stage as values arrive."""

from __future__ import annotations

import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from millrace.core import errors
from millrace.core.aligned import aligned
from millrace.core.dead import DEAD
from millrace.platform import file_access
from millrace.platform.patience import Patience
from millrace.runtime import allotments, step_stats
from millrace.runtime.awaited import wait_for
from millrace.runtime.deferred import Deferred
from millrace.runtime.kernel_call import flatten_outputs, op_error
from millrace.runtime.plan import Plan, host_value, takes_dead_values
from millrace.runtime.step import Step

#: Runs a function, now or later, in some thread.
Resume = Callable[[Callable[[], None]], object]


def _nobody(go_on: Callable[[], None]) -> None:
    """Whoever arrives after the end is not waited for."""


def run(plan: Plan, step: Step, feeds: Sequence[Any]) -> list[Any]:
    """Runs a whole plan in the calling thread and returns the results as NumPy arrays."""
    values = run_values(plan, step, feeds)
    step.wait_until_done()
    return [host_value(value) for value in values]


def run_values(plan: Plan, step: Step, feeds: Sequence[Any]) -> list[Any]:
    """Runs a whole plan in the calling thread; the results stay where they are."""
    if step.session.file_access is not file_access.confinement.access:
        with file_access.confined(step.session.file_access):
            return run_values(plan, step, feeds)
    values = plan.new_values()
    for slot, value, aligns in zip(plan.argument_slots, feeds, plan.aligns, strict=True):
        values[slot] = aligned(value) if aligns else value
    if not plan.blocks:
        _sweep(plan, step, values)
    elif plan.may_die:
        Execution(plan, step, values).wait()
    else:
        _sweep_and_wait(plan, step, values)
    return list(plan.take_results(values))


def run_without_waiting(plan: Plan, step: Step, feeds: Sequence[Any]) -> list[Any]:
    """Runs a whole plan of which it is known that nothing has to wait, though it might.

    Its exchange has all that it receives; the results stay where they are.
    """
    before = file_access.confine(step.session.file_access)
    try:
        values = plan.new_values()
        for slot, value in zip(plan.argument_slots, feeds, strict=True):
            values[slot] = value
        _sweep(plan, step, values)
    finally:
        file_access.confine(before)
    return list(plan.take_results(values))


def _sweep(plan: Plan, step: Step, values: list[Any]) -> None:
    is_traced = step.events is not None
    for take, (stage, _, given, flattens) in zip(plan.take_inputs, plan.in_order, strict=True):
        inputs = list(take(values))
        outputs = traced_run(stage, inputs, step) if is_traced else stage.run(inputs, step)
        if flattens:
            outputs = flatten_outputs(stage.node, outputs)
        for slot, value in zip(given, outputs, strict=True):
            values[slot] = value


def _sweep_and_wait(plan: Plan, step: Step, values: list[Any]) -> None:
    """Runs a plan in the order of its stages, as far as at most one of them waits at a time.

    Mostly that is all of it: what other tasks show is read where it is, and who has to wait for
    them does so at the end.
    """
    try:
        waiting, left = _sweep_what_can_run(plan, step, values, range(len(plan.stages)))
        while len(waiting) == 1:
            ((i, deferred),) = waiting.items()
            stage, _, given, flattens = plan.in_order[i]
            wait_for(deferred, step, stage)
            try:
                outputs = deferred.result()
                if flattens:
                    outputs = flatten_outputs(stage.node, outputs)
            except Exception as error:
                raise op_error(stage.node, error) from None
            for slot, value in zip(given, outputs, strict=True):
                values[slot] = value
            left.remove(i)
            waiting, left = _sweep_what_can_run(plan, step, values, sorted(left))
    except Exception as error:
        cancel_others(step, error)
        raise
    if left:
        execution = Execution(plan, step, values)
        execution.go_on_from(waiting, left)
        execution.wait()


def _sweep_what_can_run(
    plan: Plan, step: Step, values: list[Any], places: Iterable[int]
) -> tuple[dict[int, Deferred], set[int]]:
    """Runs all stages at these places that need not wait; those that do, and all left with them."""
    waiting: dict[int, Deferred] = {}
    left: set[int] = set()
    is_traced = step.events is not None
    for i in places:
        if left and not left.isdisjoint(plan.sources[i]):
            left.add(i)
            continue
        stage, _, given, flattens = plan.in_order[i]
        inputs = list(plan.take_inputs[i](values))
        outputs = traced_run(stage, inputs, step) if is_traced else stage.run(inputs, step)
        if type(outputs) is Deferred:
            waiting[i] = outputs
            left.add(i)
            continue
        if flattens:
            outputs = flatten_outputs(stage.node, outputs)
        for slot, value in zip(given, outputs, strict=True):
            values[slot] = value
    return waiting, left


def traced_run(stage: Any, inputs: list[Any], step: Step) -> Any:
    """Runs a stage and notes when, and of what sizes its outputs are."""
    start = time.time_ns()
    outputs = stage.run(inputs, step)
    if isinstance(outputs, Deferred):
        outputs.add_callback(lambda _: step_stats.note(stage, step, start, ()))
        return outputs
    for value in outputs:
        if hasattr(value, "block_until_ready"):
            value.block_until_ready()
    step_stats.note(stage, step, start, outputs)
    return outputs


def cancel_others(step: Step, error: BaseException) -> None:
    """Ends whatever else a step does, or others do for it, because an op of it has failed."""
    step.cancellation.cancel(
        errors.CancelledError(None, None, f"Another op of this step failed: {error}")
    )


class Execution:
    """One run of a plan whose stages may wait.

    Stages run in the thread that calls `advance`; completions of blocking kernels arrive
    from any thread and are only noted. A caller that stays is told by a condition (`wait`);
    after `drive` nobody stays, and an arrival finds itself a thread.
    """

    def __init__(self, plan: Plan, step: Step, values: list[Any] | None = None) -> None:
        """Makes one.

        Args:
          plan: The plan.
          step: What it is a step of.
          values: The values that are there already; None for the constants alone.
        """
        self.plan = plan
        self.step = step
        self._resume: Resume | None = None
        self._on_finished: Callable[[BaseException | None], None] | None = None
        self._driven = False
        self.values = plan.new_values() if values is None else values
        self._waits = list(plan.waits)
        self._done = [False] * len(plan.stages)
        self._ready = deque(plan.ready_at_once)
        self._arrived: deque[tuple[int, Deferred]] = deque()
        self._pending: dict[int, Deferred] = {}
        #: Stages that were dead; used only when the plan may die.
        self._dead: set[int] = set()
        self._remaining = len(plan.stages)
        self._lock = threading.RLock()
        #: Tells a caller that stays; made when one does.
        self._condition: threading.Condition | None = None
        self._patience: Patience | None = None
        self._error: BaseException | None = None

    def go_on_from(self, waiting: dict[int, Deferred], left: set[int]) -> None:
        """Goes on where others came to: they have run all stages but those that are left.

        Args:
          waiting: Those of them that have begun and wait.
          left: All of them; nothing that is left can run before one of these is done.
        """
        self._done = [i not in left for i in range(len(self._done))]
        self._waits = [len(left & self.plan.sources[i]) for i in range(len(self._done))]
        self._remaining = len(left)
        self._ready.clear()
        self._pending.update(waiting)
        for i, deferred in waiting.items():
            deferred.add_callback(functools.partial(self._arrive, i))

    def provide(self, argument: int, value: Any) -> None:
        """Gives the value of an argument."""
        self.values[self.plan.argument_slots[argument]] = value
        for follower in self.plan.argument_followers[argument]:
            self._release(follower)

    def _release(self, stage: int) -> None:
        self._waits[stage] -= 1
        if self._waits[stage] == 0:
            self._ready.append(stage)

    @property
    def finished(self) -> bool:
        """Whether every stage has run, or an error ended the step and nothing is pending."""
        return self._remaining == 0 or (self._error is not None and not self._pending)

    def advance(self) -> None:
        """Runs all stages that can run now."""
        confinement = file_access.confinement
        before = confinement.access
        confinement.access = self.step.session.file_access
        try:
            self._advance()
        finally:
            confinement.access = before

    def _advance(self) -> None:
        ready, arrived, step = self._ready, self._arrived, self.step
        while True:
            while arrived:  # Whoever adds to it wakes us, or finds that we still look again.
                self._finish(*arrived.popleft())
            if self._error is not None:
                ready.clear()
            if not ready:
                if not arrived:
                    return
                continue
            i = ready.popleft()
            plan = self.plan
            stage, values = plan.stages[i], self.values
            inputs = list(plan.take_inputs[i](values))
            if plan.may_die and self._is_dead(i, inputs):
                self._dead.add(i)
                self._store(i, [DEAD] * len(plan.stage_outputs[i]))
                continue
            try:
                if step.events is None:
                    outputs = stage.run(inputs, step)
                else:
                    outputs = traced_run(stage, inputs, step)
            except Exception as error:
                self._fail(error)
                continue
            if type(outputs) is Deferred:
                self._pending[i] = outputs
                outputs.add_callback(functools.partial(self._arrive, i))
                continue
            if plan.flattens[i]:
                outputs = flatten_outputs(stage.node, outputs)
            self._store(i, outputs)

    def _is_dead(self, i: int, inputs: list[Any]) -> bool:
        """Whether a stage must not run: it follows what is dead.

        All nodes of a stage wait for the same receives, so they are dead or alive together.
        """
        if takes_dead_values(self.plan.stages[i]):
            return False
        return any(value is DEAD for value in inputs) or not self._dead.isdisjoint(
            self.plan.sources[i]
        )

    def _arrive(self, i: int, deferred: Deferred) -> None:
        with self._lock:
            self._arrived.append((i, deferred))
            if self._resume is None:
                if self._condition is not None:
                    self._condition.notify_all()
                if self.step.listener is not None:
                    self.step.listener.wake()
                return
            if self._driven:
                return  # whoever advances now will look again
            self._driven = True
        self._resume(self._continue)

    def drive(self, resume: Resume, on_finished: Callable[[BaseException | None], None]) -> None:
        """Runs to the end without holding a thread while waiting.

        Args:
          resume: Calls the function that it is given, now or later, in some thread.
          on_finished: Called once at the end, with the error if there was one.
        """
        self._resume = resume
        self._on_finished = on_finished
        self._driven = True
        self._continue()

    def _continue(self) -> None:
        while True:
            try:
                self.advance()
            except Exception as error:
                # A mistake of ours, but whoever waits for the end of the step must hear of it.
                self._fail(error)
                break
            with self._lock:
                if self._remaining == 0 or self.finished:
                    break
                if not self._arrived:
                    self._driven = False
                    return
        on_finished = self._on_finished
        assert on_finished is not None
        # Both know this execution: without them its values go as soon as nobody needs them.
        self._on_finished = None
        self._resume = _nobody
        on_finished(self._error)

    def _finish(self, i: int, deferred: Deferred) -> None:
        self._pending.pop(i, None)
        stage = self.plan.stages[i]
        try:
            outputs = deferred.result()
            if self.plan.flattens[i]:
                outputs = flatten_outputs(stage.node, outputs)
        except Exception as error:
            self._fail(op_error(stage.node, error))
            return
        self._store(i, outputs)

    def _store(self, i: int, outputs: list[Any]) -> None:
        plan, values, waits = self.plan, self.values, self._waits
        for slot, value in zip(plan.stage_outputs[i], outputs, strict=True):
            values[slot] = value
        if plan.may_die and outputs and all(value is DEAD for value in outputs):
            self._dead.add(i)
        self._done[i] = True
        self._remaining -= 1
        for follower in plan.followers[i]:
            waits[follower] -= 1
            if waits[follower] == 0:
                self._ready.append(follower)

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
            cancel_others(self.step, error)

    def wait(self, stages: Sequence[int | None] | None = None) -> bool:
        """Runs until all (or the given) stages are done.

        Returns:
          False when the given stages cannot go on without arguments that are missing.

        Raises:
          DeadlineExceededError: The step's deadline passed.
          Exception: What a stage raised.
        """
        while True:
            self.advance()
            if self._error is not None and not self._pending:
                raise self._error
            if stages is None:
                if self._remaining == 0:
                    return True
            elif all(i is None or self._done[i] for i in stages):
                return True
            elif not self._pending:
                return False
            self._wait_for_arrival()

    def _wait_for_arrival(self) -> None:
        deadline, patience = self.step.deadline, self._patience
        if patience is None:
            patience = self._patience = Patience("A step has waited")
        timeout = patience.seconds_left()
        if deadline is not None:
            timeout = min(timeout, max(0.0, deadline - time.monotonic()))
        share = allotments.current()
        if share is not None:
            share.pause()
        listener = self.step.listener
        try:
            if listener is None:
                self._wait_to_be_told(timeout)
            elif not listener.wait(timeout, self._arrived.__len__):
                with listener.following():
                    self._wait_to_be_told(timeout)
        finally:
            if share is not None:
                share.resume()
        if self._arrived:
            patience.restart()
            return
        patience.tell(lambda: self.waits_for() + self.step.why())
        if deadline is not None and time.monotonic() >= deadline and self._error is None:
            self._error = errors.DeadlineExceededError(
                None, None, f"Timed out waiting for {self.waits_for()}"
            )
            self.step.cancellation.cancel(self._error)

    def _wait_to_be_told(self, timeout: float) -> None:
        with self._lock:
            if self._condition is None:
                self._condition = threading.Condition(self._lock)
            if not self._arrived:
                self._condition.wait(timeout)

    def waits_for(self) -> str:
        """The stages that wait now, and for what, in words."""
        return "; ".join(
            f"{self.plan.stages[i].name} ({d.waits_for or self.plan.stages[i].node.type})"
            for i, d in list(self._pending.items())
        )
