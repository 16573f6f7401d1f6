"""Runs a partition of a step that another task's master asked for: in which thread, and when.

A partition that waits holds no thread: what it waits for goes on with it on arrival. One that has
all it needs runs in the thread that read the message. The rules are in `protocol.step.worker`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from millrace.core import errors
from millrace.core.value import Value
from millrace.platform import limits
from millrace.platform.wait_reporter import FIRST_SECONDS
from millrace.protocol.step.events import Cancelled, PartitionFinished
from millrace.runtime import executor
from millrace.runtime.step import Step
from millrace.server.drivers.exchange import Exchange
from millrace.server.drivers.step_errors import cause_of
from millrace.server.drivers.wire import RunRequest
from millrace.server.worker_sessions import RegisteredGraph

if TYPE_CHECKING:
    from millrace.server.worker import Worker

#: What a partition takes of CPU time that is mostly Python, which one thread at a time runs anyway.
_SHORT_SECONDS = 0.001
#: Is told the step, its results (where they are), or the error.
OnDone = Callable[[Step | None, list[Value], errors.OpError | None], None]


class PartitionRun:
    """A partition of a step that is known here.

    Attributes:
      graph: The partition.
      number: The step.
      step: What its ops may touch.
      waits_for: Says what it waits for, if another task has asked for it.
      on_done: Is told its end.
    """

    __slots__ = (
        "_request",
        "_worker",
        "exchange",
        "graph",
        "is_quick",
        "number",
        "on_done",
        "step",
        "waits_for",
    )

    def __init__(
        self,
        worker: Worker,
        graph: RegisteredGraph,
        number: int,
        step: Step,
        request: RunRequest | None = None,
        on_done: OnDone = lambda step, results, error: None,
    ) -> None:
        self._worker = worker
        self._request = request
        self.graph = graph
        self.number = number
        self.step = step
        self.on_done = on_done
        self.waits_for: Callable[[], str] = str
        session = graph.session
        #: Whether the thread that reads its messages may run it.
        self.is_quick = session.runs_at_once and graph.has_run and graph.plan.is_quick
        step.exchange = self.exchange = Exchange(worker, graph, number, step.cancellation)

    def end_waits(self) -> None:
        """The step is cancelled. When one op fails, nobody sends what the others wait for."""
        error = self.step.cancellation.error
        assert error is not None
        self._worker.tell(Cancelled(self.number, error))

    def execute(self, at_once: bool) -> None:
        """Begins; returns at the end, or when it has to wait."""
        if at_once:
            self._worker.relay.deliver(self._run_at_once)
        else:
            self._drive()

    # -- With all that it needs ------------------------------------------------------------

    def _run_at_once(self) -> None:
        graph = self.graph
        alone = self._worker.short_partitions if graph.is_short else None
        if alone is not None:
            alone.acquire()
        try:
            start = time.thread_time()
            self._worker.tell(self.run_now())
            graph.is_short = time.thread_time() - start < _SHORT_SECONDS
        finally:
            if alone is not None:
                alone.release()

    def run_now(self) -> PartitionFinished:
        """Runs in this thread, and says how it went."""
        assert self._request is not None
        try:
            results = executor.run_values(self.graph.plan, self.step, self._request.feeds)
            self.step.wait_until_done()
        except Exception as failure:
            return PartitionFinished(self.number, error=cause_of(failure, self.step))
        return PartitionFinished(self.number, values=results)

    # -- With something to wait for --------------------------------------------------------

    def _drive(self) -> None:
        worker, step, graph = self._worker, self.step, self.graph
        assert self._request is not None
        self.step.cancellation.register(self.end_waits)
        execution = executor.Execution(graph.plan, step)
        for i, value in enumerate(self._request.feeds):
            execution.provide(i, value)

        def finished(error: BaseException | None) -> None:
            results: list[Value] = []
            if error is None:
                graph.has_run = True
                try:
                    results = list(graph.plan.take_results(execution.values))
                    step.wait_until_done()
                except Exception as failure:
                    error = failure
            found = None if error is None else cause_of(error, step)
            worker.tell(PartitionFinished(self.number, values=results, error=found))

        if self.is_quick:
            self.waits_for = execution.waits_for
            worker.relay.deliver(lambda: execution.drive(graph.session.resume, finished))
            return

        def start() -> None:
            if step.cancellation.error is not None:  # just before it had a share
                finished(step.cancellation.error)
                return
            self.waits_for = execution.waits_for
            execution.drive(graph.session.elsewhere, finished)

        client = graph.session.client
        self.waits_for = functools.partial(_turn_of, client)
        if not worker.allotments.run(client, start):
            return

        def give_up() -> None:
            if worker.allotments.forget(client, start):
                worker.resume_elsewhere(lambda: finished(step.cancellation.error))

        if step.cancellation.register(give_up) is None:
            give_up()  # It was cancelled before.


class RepeatedRun(PartitionRun):
    """A partition that is run again and again, without being asked.

    A round begins when the one before is over and what it has set free has gone on. The step is the
    same in all of them, so that cancelling it ends it wherever it is.
    """

    __slots__ = ("_begun_at", "_execution", "_resume")

    def __init__(
        self, worker: Worker, graph: RegisteredGraph, number: int, step: Step, on_done: OnDone
    ) -> None:
        super().__init__(worker, graph, number, step, None, on_done)
        self.waits_for = self._round_waits_for
        #: The first round may compile, which must not keep a transport waiting.
        self._resume: executor.Resume = graph.session.elsewhere
        self._execution: executor.Execution | None = None
        self._begun_at = 0.0

    def execute(self, at_once: bool) -> None:
        """Begins a round soon."""
        if not self._begun_at:
            self.step.cancellation.register(self.end_waits)
        self._resume(self._begin_round)

    def _begin_round(self) -> None:
        step = self.step
        if step.cancellation.error is not None:
            self._end(step.cancellation.error)
            return
        self._begun_at = time.monotonic()
        self._worker.open_gate(self.graph, step, None, "")
        self._execution = executor.Execution(self.graph.plan, step)
        self._execution.drive(self._resume, self._round_over)

    def _round_waits_for(self) -> str:
        """What the round waits for, in words, if it has waited for long."""
        if self._execution is None or time.monotonic() < self._begun_at + FIRST_SECONDS:
            return ""
        return self._execution.waits_for()

    def _round_over(self, error: BaseException | None) -> None:
        self._execution = None  # and what it has taken
        step, graph = self.step, self.graph
        if error is None:
            try:
                step.wait_until_done()
            except Exception as failure:
                error = failure
        if step.gate is not None:
            step.gate.over(error is None)
            step.gate = None
        if error is not None:
            self._end(error)
            return
        step.forget_random()
        graph.has_run = True
        session = graph.session
        here = session.runs_at_once and graph.plan.is_quick
        self._resume = session.resume if here else session.elsewhere
        self._worker.count(step)
        self._worker.tell(PartitionFinished(self.number))

    def _end(self, error: BaseException) -> None:
        self._worker.tell(PartitionFinished(self.number, error=cause_of(error, self.step)))


def _turn_of(client: str) -> str:
    """What a partition waits for that may not compute yet, in words."""
    limit = limits.COMPUTING_STEPS_PER_CLIENT
    return f"a share: {limit.value:.0f} {limit.what} ({client}; {limit.variable} raises it)"
