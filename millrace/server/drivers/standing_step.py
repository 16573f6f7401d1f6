"""Steps that a task repeats by itself: its master asks once, and hears of the end.

The chief of synchronous training closes rounds, one step like the other, with nothing to feed and
nothing to fetch. Asking for each costs two messages and wakes a thread of the chief in the middle
of its own step. So the task that runs the step begins it anew when it is over, until it fails, is
cancelled, loses its master or is told to rest: whatever ends a step that runs ends this one too.

Only a step can stand whose work is all on one other task, and that has no deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from millrace.core import errors
from millrace.platform.wait_reporter import FIRST_SECONDS, WaitReporter
from millrace.rpc.channel import Channel
from millrace.rpc.message import Kind, Message
from millrace.runtime import executor
from millrace.runtime.step import Step
from millrace.server.drivers.distributed_step import Gathering, PreparedStep
from millrace.server.drivers.remote_part import RemotePart
from millrace.server.drivers.step_errors import cause_of
from millrace.server.worker import Worker
from millrace.server.worker_sessions import RegisteredGraph

if TYPE_CHECKING:
    from millrace.server.master_session import MasterSession

#: Tells a master that a step is over: its channel, the step's number, what ended it if not a wish.
Answer = Callable[[Channel, int, errors.OpError | None], None]


def can_stand(prepared: PreparedStep) -> bool:
    """Whether one other task can repeat a step alone."""
    return (
        len(prepared.remote) == 1
        and not prepared.fetches
        and not prepared.graph.plan.stages
        and not prepared.graph.arguments
        and not prepared.remote[0].part.arguments
    )


class StandingStep:
    """A step that another task repeats, as its master sees it."""

    def __init__(self, session: MasterSession, prepared: PreparedStep) -> None:
        """Makes one; `can_stand` must say that it can be.

        Args:
          session: The session that it is a step of.
          prepared: The step.
        """
        self._session = session
        self._prepared = prepared
        self._lock = threading.Lock()
        self._rests = False
        #: The number of the step while the other task repeats it.
        self._number: int | None = None

    @property
    def _remote(self) -> RemotePart:
        return self._prepared.remote[0]

    def run(self) -> None:
        """Has the step repeated; returns after `rest`, when the round that ran then is over.

        Raises:
          OpError: What ended it.
        """
        session, prepared = self._session, self._prepared
        number = session._master.new_number()
        step = Step(session._state.state, executor.run_values)
        session._begin(prepared, number, step)
        try:
            waiting = {self._remote.address: self._remote.part.task}
            gathering = session._master.gather(number, waiting, session.graph)
            try:
                self._start(number, gathering)
                self._wait(gathering)
                if gathering.error is not None:
                    session._abandon(prepared, number, gathering)
                    raise gathering.error
            finally:
                with self._lock:
                    self._number = None
                session._master.forget(number)
        finally:
            session._end(number)

    def _start(self, number: int, gathering: Gathering) -> None:
        remote = self._remote
        try:
            self._post(Message(Kind.REPEAT, number, remote.graph))
            with self._lock:
                self._number = number
                rests = self._rests
            if rests:
                self._post(Message(Kind.REST, number))
        except errors.OpError as error:
            gathering.answer(remote.address, None, error)

    def _post(self, message: Message) -> None:
        self._session._master.peers.channel(self._remote.address).send(message)

    def _wait(self, gathering: Gathering) -> None:
        """Waits to be told: the channel is left to threads whose steps need what it brings."""
        reporter = WaitReporter("A step has waited")
        while gathering.waiting and gathering.error is None:
            with gathering.condition:
                if gathering.waiting and gathering.error is None:
                    gathering.condition.wait(reporter.seconds_left())
            if reporter.seconds_left() or not gathering.waiting or gathering.error is not None:
                continue
            why = gathering.why()
            if why:
                words = self._remote.part.task + why
                reporter.tell(lambda words=words: words)  # type: ignore[misc]
            else:
                reporter.restart()  # Rounds go on.

    def rest(self) -> None:
        """Lets the round that runs be the last one; `run` then returns. From any thread."""
        with self._lock:
            self._rests = True
            number = self._number
        if number is not None:
            try:
                self._post(Message(Kind.REST, number))
            except errors.OpError:
                return  # The task is gone, and so is the step.


class StandingSteps:
    """The steps that a task repeats for others."""

    def __init__(self, worker: Worker, answer: Answer) -> None:
        self._worker = worker
        self._answer = answer
        self._standing: dict[int, _Repetition] = {}

    def repeat(self, channel: Channel, message: Message) -> None:
        """Another task's master wants a part repeated."""
        worker, number = self._worker, message.step
        try:
            graph = worker.sessions.graph(message.key)
            if graph.plan.argument_slots or graph.peers:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    "Only a part that is fed nothing and exchanges nothing can be repeated.",
                )
            step = Step(graph.session.state, executor.run_values)
            running = worker.begin(graph, number, step, channel.address)
        except errors.OpError as error:
            self._answer(channel, number, error)
            return

        def over(error: errors.OpError | None) -> None:
            del self._standing[number]
            self._answer(channel, number, error)

        repetition = self._standing[number] = _Repetition(worker, graph, number, step, over)
        running.waits_for = repetition.waits_for
        repetition.start()

    def rest(self, message: Message) -> None:
        """The round that runs is to be the last."""
        found = self._standing.get(message.step)
        if found is not None:
            found.rests = True


class _Repetition:
    """One part, repeated.

    A round begins when the one before is over and what it has set free has gone on. The step is
    the same in all of them, so that whoever cancels it ends it wherever it is.
    """

    def __init__(
        self,
        worker: Worker,
        graph: RegisteredGraph,
        number: int,
        step: Step,
        over: Callable[[errors.OpError | None], None],
    ) -> None:
        self._worker = worker
        self._graph = graph
        self._number = number
        self._step = step
        self._over = over
        self.rests = False
        self._resume: executor.Resume = graph.session.elsewhere
        self._execution: executor.Execution | None = None
        self._begun_at = 0.0

    def start(self) -> None:
        """Begins the first round; it may compile, which must not keep a transport waiting."""
        self._graph.session.elsewhere(self._begin_round)

    def _begin_round(self) -> None:
        step = self._step
        if step.cancellation.error is not None:
            self._end(step.cancellation.error)
            return
        self._begun_at = time.monotonic()
        self._execution = executor.Execution(self._graph.plan, step)
        self._execution.drive(self._resume, self._round_over)

    def waits_for(self) -> str:
        """What the round waits for, in words, if it has waited for long."""
        if self._execution is None or time.monotonic() < self._begun_at + FIRST_SECONDS:
            return ""
        return self._execution.waits_for()

    def _round_over(self, error: BaseException | None) -> None:
        self._execution = None  # and what it has taken
        step, worker = self._step, self._worker
        if error is None:
            try:
                step.wait_until_done()
            except Exception as failure:
                error = failure
        if error is not None or self.rests:
            self._end(error)
            return
        worker.count(step)
        step.forget_random()
        self._resume = worker.after_run(self._graph)
        self._resume(self._begin_round)

    def _end(self, error: BaseException | None) -> None:
        found = None if error is None else cause_of(error, self._step)
        self._over(self._worker.end_part(self._number, found))
