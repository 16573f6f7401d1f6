"""The worker of a task: runs its parts of steps.

A part is registered once (`worker_sessions.py`) and run many times. A part that another task's
master asked for holds no thread while it waits: what it waits for goes on with it on arrival. A
step that runs here ends exactly once, whoever ends it: its results, its failure, a lost task, its
session's or the server's end.

It knows no transport and no service: it posts messages and is told what arrived.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from millrace.core import errors
from millrace.observe import holdings
from millrace.platform import limits
from millrace.rpc.channel import Channel
from millrace.rpc.message import Message
from millrace.runtime import executor
from millrace.runtime.allotments import Allotments
from millrace.runtime.cancellation import CLOSED_WHILE_RUNNING, Cancellation
from millrace.runtime.deferred import Deferred
from millrace.runtime.kernel_call import StoredState, op_error
from millrace.runtime.mailbox import Mailbox
from millrace.runtime.resources import ResourceStore, VariableSlot
from millrace.runtime.step import Step
from millrace.server.drivers.boards import Boards
from millrace.server.drivers.effects import TaskRecord
from millrace.server.drivers.exchange import Exchange
from millrace.server.drivers.relay import Relay
from millrace.server.drivers.remote_part import Post, RunRequest
from millrace.server.drivers.sent_steps import SentSteps
from millrace.server.drivers.step_errors import cause_of
from millrace.server.transfer_log import TransferLog
from millrace.server.worker_sessions import RegisteredGraph, WorkerSession, WorkerSessions

#: A master that has begun no step here for so many seconds is not watched any more.
_WATCHED_SECONDS = 60.0
#: Steps of TensorFlow's masters whose values are kept after this task's part is over.
_MAX_KEPT_STEPS = 1024
#: What ops say of queues and variables that went away with their session.
_OF_WHAT_IS_GONE = (
    errors.NotFoundError,
    errors.OutOfRangeError,
    errors.FailedPreconditionError,
)
#: What a part takes of CPU time that is mostly Python, which one thread at a time runs anyway.
_SHORT_SECONDS = 0.001
#: Is told the step, its results (where they are), or the error.
OnDone = Callable[[Step | None, list[Any], errors.OpError | None], None]
#: Fetches what another task has for a step: address, step, key, what ends the wait.
Fetch = Callable[[str, int, str, Cancellation], Deferred]


class RunningPart:
    """A part of a step that is known here.

    Attributes:
      waits_for: Says what it waits for, if it was asked for by another task.
    """

    __slots__ = ("graph", "master", "step", "waits_for")

    def __init__(self, graph: RegisteredGraph, step: Step, master: str) -> None:
        self.graph = graph
        self.step = step
        self.master = master
        self.waits_for: Callable[[], str] = str


class Worker:
    """Runs the parts of steps that fall to this task.

    Attributes:
      task: The task's name.
      resources: What sessions share.
      sessions: The sessions of masters, and their graphs.
      sent: For which steps other tasks were sent something.
    """

    def __init__(self, task: str, post: Post, threads: Any) -> None:
        self.task = task
        self.post = post
        self.resources = ResourceStore()
        self.mailbox = Mailbox()
        #: What arrived in the last steps, when somebody has asked for a log.
        self.transfers = TransferLog()
        self._threads = threads
        #: What tasks on this machine may read of the variables here.
        self.boards = Boards()
        # A session may be collected as garbage, and be closed then, while its thread is in here.
        self._lock = threading.RLock()
        self._running: dict[int, RunningPart] = {}
        #: When each other task's master has last begun or ended something here: what it does
        #: between reading variables and sending gradients is a step, of which nothing runs here.
        self._heard_of: dict[str, float] = {}
        self._relay = Relay(self.resume_elsewhere)
        #: Held while a short part runs: threads that fight for the interpreter in
        #: the middle of such parts take twice as long as one after the other.
        self._turn = threading.Lock()
        #: How many steps and parts of steps of each client compute here at a time.
        self.allotments = Allotments(limits.COMPUTING_STEPS_PER_CLIENT.value, self.resume_elsewhere)
        self.sessions = WorkerSessions(
            task, self.resources, self._lock, self.allotments, self._relay, self._cancel_steps_of
        )
        #: What numbered steps have changed here: one that is repeated changes it once.
        self.record = TaskRecord(task)
        self.sessions.watch_effects = self.record.watch
        self.sent = SentSteps(task, post)
        #: Set by the server.
        self.fetch_tensor: Fetch
        self._kept: OrderedDict[int, None] = OrderedDict()
        #: Steps that were run, and XLA programs that they called.
        self.steps = 0
        self.xla_calls = 0

    def begin(self, graph: RegisteredGraph, number: int, step: Step, master: str) -> RunningPart:
        """Makes a step known, so that values find it and cancellation ends it.

        Raises:
          OpError: The step has failed elsewhere already.
        """
        step.exchange = Exchange(self, graph, number, step.cancellation)
        running = RunningPart(graph, step, master)
        with self._lock:
            if self.sessions.stopped:
                raise self.sessions.stopped_error()
            self._running[number] = running
        # Whoever cancelled it before it could be found has told the mailbox.
        ended = self.mailbox.error_of(number)
        if ended is not None:
            self._running.pop(number, None)
            raise ended
        # When one op of the part fails, nobody sends what the others wait for.
        step.cancellation.register(lambda: self.mailbox.end(number, step.cancellation.error))
        return running

    def waits(self, number: int) -> str:
        """What the part of a step waits for here, in words; empty if there is none."""
        running = self._running.get(number)
        return "" if running is None else running.waits_for()

    def is_running(self, number: int) -> bool:
        """Whether a part of a step runs here."""
        return number in self._running

    def cancel_if_running(self, number: int) -> None:
        """Ends a step that nobody waits for any more."""
        if self.is_running(number):
            self.cancel(number, errors.CancelledError(None, None, "The caller is gone."))

    def end(self, number: int, error: errors.OpError | None = None) -> None:
        """Forgets a step."""
        self.boards.refresh()
        with self._lock:
            running = self._running.pop(number, None)
            if running is not None:
                self.steps += 1
                self.xla_calls += running.step.xla_calls
            if running is not None and running.graph.has_rendezvous and error is None:
                # Others may still ask for its values, until the master says that it is over.
                self._kept[number] = None
                ended = []
                while len(self._kept) > _MAX_KEPT_STEPS:
                    ended.append(self._kept.popitem(last=False)[0])
            else:
                ended = [number]
        for each in ended:
            self.mailbox.end(each, error)
        if running is not None:
            running.step.cancellation.forget()

    def cancel(self, number: int, error: errors.OpError) -> None:
        """Ends every wait of a step, also of one that is not known yet."""
        with self._lock:
            self._kept.pop(number, None)
        self.mailbox.end(number, error)
        running = self._running.get(number)
        if running is not None:
            running.step.cancellation.cancel(error)

    def run(
        self,
        graph_number: int,
        number: int,
        master: str,
        request: RunRequest,
        on_done: OnDone,
    ) -> None:
        """Runs a part for the master of another task; returns at once or when it has to wait.

        Args:
          graph_number: Which part.
          number: The step.
          master: The address of the master's task.
          request: What it is run with.
          on_done: Is told the end.
        """
        feeds = request.feeds
        try:
            graph = self.sessions.graph(graph_number)
            if len(feeds) != len(graph.plan.argument_slots):
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"{len(graph.plan.argument_slots)} values expected, got {len(feeds)}",
                )
            runs_at_once = graph.session.runs_at_once and master != ""
            quick = runs_at_once and graph.has_run and graph.plan.is_quick
            step = Step(graph.session.state, executor.run_values, trace=request.trace)
            if request.attempt is not None and graph.changes_state:
                step.record = self.record.begin(request.attempt)
            first = request.first
            if first is not None:
                self._heard_of[master] = time.monotonic()
            if quick and first is not None and graph.only_receives == first[0]:
                self._relay.deliver(
                    lambda: self._run_at_once(graph, number, step, request, on_done)
                )
                return
            running = self.begin(graph, number, step, master)
            step.exchange.given = first
        except errors.OpError as error:
            self.mailbox.end(number, error)  # Nobody takes what other tasks send for it.
            on_done(None, [], error)
            return
        execution = executor.Execution(graph.plan, step)
        for i, value in enumerate(feeds):
            execution.provide(i, value)

        def finished(error: BaseException | None) -> None:
            results: list[Any] = []
            if error is None:
                graph.has_run = True
                try:
                    results = list(graph.plan.take_results(execution.values))
                    step.wait_until_done()
                except Exception as failure:
                    error = failure
            found = None if error is None else cause_of(error, step)
            on_done(step, results, self.end_part(number, found))

        if quick:
            running.waits_for = execution.waits_for
            self._relay.deliver(lambda: execution.drive(graph.session.resume, finished))
            return

        def start() -> None:
            if step.cancellation.error is not None:  # just before its turn came
                finished(step.cancellation.error)
                return
            running.waits_for = execution.waits_for
            execution.drive(graph.session.elsewhere, finished)

        running.waits_for = functools.partial(_turn_of, graph.session.client)
        client = graph.session.client
        if not self.allotments.run(client, start):
            return

        def give_up() -> None:
            if self.allotments.forget(client, start):
                self.resume_elsewhere(lambda: finished(step.cancellation.error))

        if step.cancellation.register(give_up) is None:
            give_up()  # It was cancelled before.

    def _run_at_once(
        self,
        graph: RegisteredGraph,
        number: int,
        step: Step,
        request: RunRequest,
        on_done: OnDone,
    ) -> None:
        """Runs a part that has all it needs: it need not be found by what it would wait for."""
        turn = self._turn if graph.is_short else None
        if turn is not None:
            turn.acquire()
        try:
            start = time.thread_time()
            results, error = self._run_now(graph, number, step, request)
            self.boards.refresh()
            self.count(step)
            on_done(step, results, error)
            graph.is_short = time.thread_time() - start < _SHORT_SECONDS
        finally:
            if turn is not None:
                turn.release()

    def _run_now(
        self,
        graph: RegisteredGraph,
        number: int,
        step: Step,
        request: RunRequest,
    ) -> tuple[list[Any], errors.OpError | None]:
        """A part's results, and its error."""
        exchange = step.exchange = Exchange(self, graph, number, step.cancellation)
        exchange.given = request.first
        results: list[Any] = []
        error: errors.OpError | None = None
        try:
            if self.sessions.stopped:
                raise self.sessions.stopped_error()
            results = executor.run_values(graph.plan, step, request.feeds)
            step.wait_until_done()
        except Exception as failure:
            error = cause_of(failure, step)
        if self.sessions.stopped:
            error = self.sessions.stopped_error()
        return results, error

    def read(self, graph_number: int, key: int, channel: Channel) -> tuple[list[Any], bytes | None]:
        """Variables that another task's part of a step asks for, as they are now.

        Returns:
          Their values, and what tells that task where they are shown, if they are.

        Raises:
          AbortedError: This task does not know the graph.
          FailedPreconditionError: A variable has no value.
        """
        graph = self.sessions.graph(graph_number)
        self._heard_of[channel.address] = time.monotonic()
        stage = graph.reads.get(key)
        if stage is None:
            raise errors.InvalidArgumentError(
                None, None, f"Graph {graph_number} has nothing to read under the key {key}."
            )
        try:
            resources = graph.session.state.resources
            return stage.values(resources), self.boards.offer(channel, stage, resources)
        except Exception as error:
            raise op_error(stage.node, error) from None

    def end_part(self, number: int, error: errors.OpError | None) -> errors.OpError | None:
        """Forgets a step that another task's master asked for; the error to tell it."""
        if self.sessions.stopped:
            # Its variables went away under it: what it says of them, or failed of, is not so.
            error = self.sessions.stopped_error()
        elif isinstance(error, _OF_WHAT_IS_GONE):
            running = self._running.get(number)
            if running is not None and running.graph.session.is_closed:
                error = running.step.cancellation.error or error  # Its queues did the same.
        self.end(number, error)
        return error

    def after_run(self, graph: RegisteredGraph) -> executor.Resume:
        """How a part goes on that has run before."""
        graph.has_run = True
        session = graph.session
        at_once = session.runs_at_once and graph.plan.is_quick
        return session.resume if at_once else session.elsewhere

    def count(self, step: Step) -> None:
        """Counts a step that goes on to be repeated."""
        with self._lock:
            self.steps += 1
            self.xla_calls += step.xla_calls
            step.xla_calls = 0

    def resume_elsewhere(self, go_on: Callable[[], None]) -> None:
        """Goes on with a part in another thread."""
        try:
            self._threads.submit(go_on)
        except RuntimeError:
            go_on()  # The server has stopped: all that is left to do is to end the step.

    def deliver(self, message: Message, source: str) -> None:
        """Takes values that another task sent; called in a transport's thread."""
        key = (message.key, message.text) if message.text else message.key
        self._relay.deliver(
            lambda: self.mailbox.deliver(message.step, key, message.tensors, source)
        )

    def needed(self) -> set[str]:
        """The addresses of the tasks that running parts wait for, and of masters at work."""
        earliest = time.monotonic() - _WATCHED_SECONDS
        with self._lock:
            running = list(self._running.values())
            self._heard_of = {m: at for m, at in self._heard_of.items() if at > earliest}
            found = {each.master for each in running} | {*self._heard_of}
        for graph in {each.graph for each in running}:
            found |= graph.peers
        return found

    def lost(self, address: str, error: errors.OpError) -> None:
        """The task at an address is gone: fails the steps that need it."""
        with self._lock:
            numbers = [
                number
                for number, running in self._running.items()
                if running.master == address or address in running.graph.peers
            ]
            known = set(self._running)
        for number in numbers:
            self.cancel(number, error)
        self.mailbox.forget_source(address, known)
        in_vain = self.sent.take_ended(address, known)
        if in_vain:
            self.resume_elsewhere(lambda: self.sent.tell_in_vain(in_vain, address, error))

    def lost_master(self, address: str) -> None:
        """The task at an address is gone for good: forgets the sessions of its master."""
        self._heard_of.pop(address, None)
        for handle in self.sessions.sessions_of(address):
            self.sessions.delete_session(handle)

    def clear(self, containers: Iterable[str]) -> None:
        """Drops resource containers, the default one when none is named."""
        self.resources.clear(list(containers) or None)

    def status(self) -> dict[str, Any]:
        """What it holds and has done, in plain values."""
        variables = []
        global_step = None
        for container, name, slot in self.resources.all_of(VariableSlot):
            value = StoredState.read_slot(slot)
            if value is None:
                continue
            variables.append(
                {
                    "name": name,
                    "container": container,
                    "dtype": str(value.dtype),
                    "shape": list(value.shape),
                    "bytes": int(value.nbytes),
                }
            )
            if name == "global_step" and not value.shape:
                global_step = value
        with self._lock:
            return {
                "steps": self.steps,
                "running_steps": len(self._running),
                "xla_calls": self.xla_calls,
                "graphs": len(self.sessions.graphs),
                "variables": variables,
                "global_step": None if global_step is None else int(global_step),
                "published": len(self.boards),
                **holdings.of(self.resources),
            }

    def close(self) -> None:
        """Cancels everything and drops all state."""
        error = self.sessions.stopped_error()
        with self._lock:
            self.sessions.stopped = True
            numbers = list(self._running)
        for number in numbers:
            self.cancel(number, error)
        self.sessions.close()
        self.boards.close()
        self.resources.clear_all()

    def _cancel_steps_of(self, session: WorkerSession) -> None:
        with self._lock:
            numbers = [n for n, r in self._running.items() if r.graph.session is session]
        for number in numbers:
            self.cancel(number, errors.CancelledError(None, None, CLOSED_WHILE_RUNNING))


def _turn_of(client: str) -> str:
    """What a part waits for that may not compute yet, in words."""
    limit = limits.COMPUTING_STEPS_PER_CLIENT
    return f"its turn: {limit.value:.0f} {limit.what} ({client}; {limit.variable} raises it)"
