"""Running a plan for somebody who does not stay: whoever brings what it waits for goes on with it.

Most parts that a task runs for others are chains: a stage that may wait has nothing beside it,
only before and after it. Such a part goes stage by stage and is anywhere at one place, so it needs
no books on what is ready, no lock, and nothing of an `executor.Execution` but its interface.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.platform import file_access
from millrace.runtime.deferred import Deferred
from millrace.runtime.executor import Execution, Resume, cancel_others, traced_run
from millrace.runtime.kernel_call import flatten_outputs, op_error
from millrace.runtime.plan import Plan
from millrace.runtime.step import Step


class Chain:
    """One run of a plan of which `is_chain` is true.

    It is never in two threads at once: it stops when a stage has to wait, as the last thing that
    its thread does with it, and goes on when that is over.
    """

    __slots__ = ("_at", "_on_finished", "_plan", "_resume", "_step", "_waiting", "values")

    def __init__(self, plan: Plan, step: Step) -> None:
        self._plan = plan
        self._step = step
        self.values = plan.new_values()
        #: The stage that runs, or waits.
        self._at = 0
        self._waiting: Deferred | None = None
        self._resume: Resume | None = None
        self._on_finished: Callable[[BaseException | None], None] | None = None

    def provide(self, argument: int, value: Any) -> None:
        """Gives the value of an argument."""
        self.values[self._plan.argument_slots[argument]] = value

    def drive(self, resume: Resume, on_finished: Callable[[BaseException | None], None]) -> None:
        """Runs to the end without holding a thread while waiting; as `Execution.drive`."""
        self._resume = resume
        self._on_finished = on_finished
        self._go_on()

    def _go_on(self) -> None:
        stages, step, values = self._plan.in_order, self._step, self.values
        confinement = file_access.confinement
        before = confinement.access
        confinement.access = step.session.file_access
        try:
            while self._at < len(stages):
                stage, _, given, flattens = stages[self._at]
                inputs = list(self._plan.take_inputs[self._at](values))
                if step.events is None:
                    outputs = stage.run(inputs, step)
                else:
                    outputs = traced_run(stage, inputs, step)
                if type(outputs) is Deferred:
                    self._waiting = outputs
                    outputs.add_callback(self._arrive)
                    return
                if flattens:
                    outputs = flatten_outputs(stage.node, outputs)
                for slot, value in zip(given, outputs, strict=True):
                    values[slot] = value
                self._at += 1
        except Exception as error:
            failure: Exception | None = error
        else:
            failure = None
        finally:
            confinement.access = before
        self._end(failure)

    def _arrive(self, deferred: Deferred) -> None:
        resume = self._resume
        assert resume is not None
        resume(self._take)

    def _take(self) -> None:
        deferred, self._waiting = self._waiting, None
        assert deferred is not None
        stage, _, given, flattens = self._plan.in_order[self._at]
        try:
            outputs = deferred.result()
            if flattens:
                outputs = flatten_outputs(stage.node, outputs)
        except Exception as error:
            self._end(op_error(stage.node, error))
            return
        values = self.values
        for slot, value in zip(given, outputs, strict=True):
            values[slot] = value
        self._at += 1
        self._go_on()

    def _end(self, error: BaseException | None) -> None:
        if error is not None:
            cancel_others(self._step, error)
        on_finished = self._on_finished
        assert on_finished is not None
        # Both know this chain: without them its values go as soon as nobody needs them.
        self._on_finished = self._resume = None
        on_finished(error)

    def waits_for(self) -> str:
        """The stage that waits now, and for what, in words."""
        deferred = self._waiting
        if deferred is None:
            return ""
        stage = self._plan.stages[self._at]
        return f"{stage.name} ({deferred.waits_for or stage.node.type})"


def execution(plan: Plan, step: Step) -> Chain | Execution:
    """One run of a plan, to be driven."""
    return Chain(plan, step) if plan.is_chain else Execution(plan, step)
