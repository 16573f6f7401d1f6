"""Running a plan: one loop over its stages, and nobody else loops over them.

An `Execution` is one run of a plan. It runs whatever can run, in the order of the plan, and notes
what other threads bring meanwhile. The thread that began it either stays until the end (`run`), or
leaves when something has to wait (`drive`): then the thread that brings what is waited for goes on
with it.
"""

from __future__ import annotations

import functools
import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from millrace.core import errors
from millrace.core.aligned import aligned
from millrace.core.dead import DEAD
from millrace.platform import file_access
from millrace.runtime import step_stats
from millrace.runtime.future import Future
from millrace.runtime.kernel_call import op_error
from millrace.runtime.plan import Plan, host_value
from millrace.runtime.stage import Stage, Value
from millrace.runtime.step import Step
from millrace.runtime.waiting import Waiter

#: Runs a function, now or later, in some thread.
Resume = Callable[[Callable[[], None]], object]
#: Is told the end of a run, and the error if there was one.
OnFinished = Callable[[BaseException | None], None]


def run(plan: Plan, step: Step, feeds: Sequence[object]) -> list[Value]:
    """Runs a whole plan in the calling thread and returns the results as NumPy arrays."""
    values = run_values(plan, step, feeds)
    step.wait_until_done()
    return [host_value(value) for value in values]


def run_values(plan: Plan, step: Step, feeds: Sequence[object]) -> list[Value]:
    """Runs a whole plan in the calling thread; the results stay where they are."""
    execution = Execution(plan, step)
    values = execution.values
    for slot, value, aligns in zip(plan.argument_slots, feeds, plan.aligns, strict=True):
        values[slot] = aligned(value) if aligns else value
    execution.wait()
    return list(plan.take_results(values))


def _nobody(go_on: Callable[[], None]) -> None:
    """What arrives after the end is dropped."""


class Execution:
    """One run of a plan, inline or resumable.

    Stages run in one thread at a time, that which calls `advance`. What blocking kernels were
    waiting for arrives in any thread and is only noted. Among stages that can run, the first in
    the plan does: so a run is the same whether something had to wait or not.

    Attributes:
      plan: The plan.
      step: What it is a step of.
      values: What was made so far, by slot.
    """

    __slots__ = (
        "_arrived",
        "_dead",
        "_error",
        "_is_driven",
        "_lock",
        "_on_finished",
        "_pending",
        "_ready",
        "_remaining",
        "_resume",
        "_waiter",
        "_waits",
        "plan",
        "step",
        "values",
    )

    def __init__(self, plan: Plan, step: Step) -> None:
        self.plan = plan
        self.step = step
        self.values = plan.new_values()
        #: For each stage how many others it still waits for; -1 when it is done.
        self._waits = plan.waits.copy()
        #: A heap of the stages that can run.
        self._ready = plan.ready_at_once.copy()
        self._remaining = len(plan.stages)
        #: Stages that have begun and wait, and what has come since somebody looked.
        self._pending: dict[int, Future] = {}
        self._arrived: deque[tuple[int, Future]] = deque()
        #: Stages that were dead; used only when the plan may die.
        self._dead: set[int] = set()
        self._error: BaseException | None = None
        #: Tells the thread that stays; made when it waits.
        self._waiter: Waiter | None = None
        #: For a run that nobody stays with: how it goes on, whom it tells of its end, and whether
        #: a thread is at it now, which is asked with the lock held.
        self._resume: Resume | None = None
        self._on_finished: OnFinished | None = None
        self._is_driven = False

    def provide(self, argument: int, value: object) -> None:
        """Gives the value of an argument."""
        self.values[self.plan.argument_slots[argument]] = value
        for follower in self.plan.argument_followers[argument]:
            self._release(follower)

    def _release(self, stage: int) -> None:
        self._waits[stage] -= 1
        if self._waits[stage] == 0:
            heapq.heappush(self._ready, stage)

    @property
    def finished(self) -> bool:
        """Whether every stage has run, or an error ended the step and nothing is pending."""
        return self._remaining == 0 or (self._error is not None and not self._pending)

    # -- The loop --------------------------------------------------------------------------

    def advance(self) -> None:
        """Runs all stages that can run now."""
        plan, step, values = self.plan, self.step, self.values
        ready, arrived = self._ready, self._arrived
        before = file_access.confine(step.session.file_access)
        try:
            while ready or arrived:
                while arrived:  # A thread that adds to it wakes us, or finds that we look again.
                    self._finish(*arrived.popleft())
                if self._error is None and step.cancellation.error is not None:
                    self._error = step.cancellation.error
                if self._error is not None:
                    ready.clear()
                if not ready:
                    continue
                i = heapq.heappop(ready)
                stage = plan.stages[i]
                inputs = list(plan.take_inputs[i](values))
                if plan.may_die and self._is_dead(i, inputs):
                    self._dead.add(i)
                    self._store(i, [DEAD] * len(plan.stage_outputs[i]))
                    continue
                try:
                    if step.events is None:
                        outputs = stage.run(inputs, step)
                    else:
                        outputs = _traced_run(stage, inputs, step)
                except Exception as error:
                    self._fail(error)
                    continue
                if isinstance(outputs, Future):
                    self._pending[i] = outputs
                    outputs.add_callback(functools.partial(self._arrive, i))
                else:
                    self._store(i, outputs)
        finally:
            file_access.confine(before)

    def _store(self, i: int, outputs: Sequence[object]) -> None:
        plan, values = self.plan, self.values
        for slot, value in zip(plan.stage_outputs[i], outputs, strict=True):
            values[slot] = value
        if plan.may_die and outputs and all(value is DEAD for value in outputs):
            self._dead.add(i)
        self._waits[i] = -1
        self._remaining -= 1
        for follower in plan.followers[i]:
            self._release(follower)

    def _finish(self, i: int, future: Future) -> None:
        """Takes what a stage waited for."""
        del self._pending[i]
        try:
            outputs = future.result()
        except Exception as error:
            self._fail(op_error(self.plan.stages[i].node, error))
            return
        self._store(i, outputs)

    def _fail(self, error: BaseException) -> None:
        """Ends whatever else the step does, or others do for it."""
        if self._error is None:
            self._error = error
            cancelled = errors.CancelledError(
                None, None, f"Another op of this step failed: {error}"
            )
            cancelled.__cause__ = error
            self.step.cancellation.cancel(cancelled)

    def _is_dead(self, i: int, inputs: list[Value]) -> bool:
        """Whether a stage must not run: it follows what is dead.

        All nodes of a stage wait for the same receives, so they are dead or alive together.
        """
        if self.plan.takes_dead[i]:
            return False
        return any(value is DEAD for value in inputs) or not self._dead.isdisjoint(
            self.plan.sources[i]
        )

    # -- Arrivals --------------------------------------------------------------------------

    def _arrive(self, i: int, future: Future) -> None:
        """Notes that a wait is over, in any thread."""
        self._arrived.append((i, future))
        resume = self._resume
        if resume is None:
            if self._waiter is not None:
                self._waiter.notify()
            return
        with self._lock:
            if self._is_driven:
                return  # The thread that is at it will look again.
            self._is_driven = True
        resume(self._continue)

    def wait(self, stages: Sequence[int | None] | None = None) -> bool:
        """Runs in this thread until all (or the given) stages are done.

        Returns:
          False when the given stages cannot go on without arguments that are missing.

        Raises:
          DeadlineExceededError: The step's deadline passed.
          Exception: What a stage raised.
        """
        self.advance()
        while True:
            if self._error is not None and not self._pending:
                raise self._error
            if stages is None:
                if self._remaining == 0:
                    return True
            elif all(i is None or self._waits[i] < 0 for i in stages):
                return True
            elif not self._pending:
                return False
            if self._waiter is None:
                self._waiter = Waiter(self.step)
            error = self._waiter.wait(self._arrived.__len__, self.waits_for)
            if error is not None and self._error is None:
                self._error = error
            self.advance()

    def drive(self, resume: Resume, on_finished: OnFinished) -> None:
        """Runs to the end without holding a thread while waiting.

        Args:
          resume: Calls the function that it is given, now or later, in some thread.
          on_finished: Called once at the end, with the error if there was one.
        """
        self._lock = threading.Lock()
        self._resume = resume
        self._on_finished = on_finished
        self._is_driven = True
        self._continue()

    def _continue(self) -> None:
        while True:
            try:
                self.advance()
            except Exception as error:
                # A mistake of ours, but the caller that waits for the end of the step must hear of
                # it.
                self._fail(error)
                break
            with self._lock:
                if self.finished:
                    break
                if not self._arrived:
                    self._is_driven = False
                    return
        on_finished = self._on_finished
        assert on_finished is not None
        # Both know this execution: without them its values go as soon as nobody needs them.
        self._on_finished = None
        self._resume = _nobody
        on_finished(self._error)

    def waits_for(self) -> str:
        """The stages that wait now, and for what, in words."""
        return "; ".join(
            f"{self.plan.stages[i].name} ({d.waits_for or self.plan.stages[i].node.type})"
            for i, d in list(self._pending.items())
        )


def _traced_run(stage: Stage, inputs: list[Value], step: Step) -> list[Value] | Future:
    """Runs a stage and notes when, and of what sizes its outputs are."""
    start = time.time_ns()
    outputs = stage.run(inputs, step)
    if isinstance(outputs, Future):
        outputs.add_callback(lambda _: step_stats.note(stage, step, start, []))
        return outputs
    for value in outputs:
        if hasattr(value, "block_until_ready"):
            value.block_until_ready()
    step_stats.note(stage, step, start, outputs)
    return outputs
