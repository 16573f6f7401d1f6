"""The worker of a task: performs what the rules say about partitions of steps on it.

A partition is registered once (`worker_sessions.py`) and run many times. What happens to its steps
goes into one state machine (`protocol.step.worker`), under one lock; what comes out is performed
here, without it: runs begin and end, waits end, messages leave.

It knows no transport and no service: it posts messages and is told what arrived.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from millrace.core import errors
from millrace.core.value import JsonObject, Value
from millrace.observe import holdings
from millrace.platform import limits
from millrace.protocol.cut import events as cut_events
from millrace.protocol.cut.instructions import SendRefused
from millrace.protocol.step import events, instructions
from millrace.protocol.step.applied_steps import StepAttempt
from millrace.protocol.step.worker import TaskSteps
from millrace.rpc.channel import Channel
from millrace.rpc.message import Message
from millrace.rpc.service import CachedThreads
from millrace.runtime import executor
from millrace.runtime.allotments import Allotments
from millrace.runtime.cancellation import CLOSED_WHILE_RUNNING, Cancellation
from millrace.runtime.future import Future
from millrace.runtime.kernel_call import StoredState, op_error
from millrace.runtime.resources import ResourceStore, VariableSlot
from millrace.runtime.step import Step
from millrace.server.drivers import cut_wire, wire
from millrace.server.drivers.cuts import Cuts
from millrace.server.drivers.effects import TaskRecord
from millrace.server.drivers.exchange import Exchange
from millrace.server.drivers.partition_run import OnDone, PartitionRun, RepeatedRun
from millrace.server.drivers.relay import Relay
from millrace.server.drivers.snapshots import Snapshots
from millrace.server.drivers.wire import RunRequest
from millrace.server.transfer_log import TransferLog
from millrace.server.worker_sessions import RegisteredGraph, WorkerSession, WorkerSessions

#: A master that has begun no step here for so many seconds is not watched any more.
_WATCHED_SECONDS = 60.0
#: How often a step that waits for the standby looks whether the server has stopped.
_SAFE_SECONDS = 0.2
#: Fetches what another task has for a step: address, step, key, what ends the wait.
Fetch = Callable[[str, int, str, Cancellation], Future]
#: Sends a message to the task at an address.
Post = Callable[[str, Message], None]


class Worker:
    """Runs the partitions of steps that fall to this task.

    Attributes:
      task: The task's name.
      post: Sends a message to the task at an address.
      resources: What sessions share.
      sessions: The sessions of masters, and their graphs.
      partitions: The state machine of all steps that are known here.
    """

    def __init__(self, task: str, post: Post, threads: CachedThreads) -> None:
        self.task = task
        self.post = post
        self.resources = ResourceStore()
        #: What arrived in the last steps, when somebody has asked for a log.
        self.transfers = TransferLog()
        self._threads = threads
        #: What tasks on this machine may read of the variables here.
        self.snapshots = Snapshots()
        # A session may be collected as garbage, and be closed then, while its thread is in here.
        self._lock = threading.RLock()
        self.partitions = TaskSteps(task)
        self._runs: dict[int, PartitionRun] = {}
        #: What the partitions wait for, by step and key.
        self._waits: dict[tuple[int, events.Key], Future] = {}
        #: When each other task's master has last begun or ended something here: what it does
        #: between reading variables and sending gradients is a step, of which nothing runs here.
        self._heard_of: dict[str, float] = {}
        self.relay = Relay(self.resume_elsewhere)
        #: Held while a short partition runs: threads that fight for the interpreter in
        #: the middle of such partitions take twice as long as one after the other.
        self.short_partitions = threading.Lock()
        #: How many steps and partitions of each client compute here at a time.
        self.allotments = Allotments(limits.COMPUTING_STEPS_PER_CLIENT.value, self.resume_elsewhere)
        self.sessions = WorkerSessions(
            task, self.resources, self._lock, self.allotments, self.relay, self._cancel_steps_of
        )
        #: What numbered steps have changed here: one that is repeated changes it once.
        self.record = TaskRecord(task)
        self.sessions.watch_effects = self.record.watch
        #: Does something once the standby has all that was changed here; set with the first one.
        self.hold: Callable[[Callable[[], None]], None] = lambda go_on: go_on()
        #: Told which containers were dropped; None for the default one.
        self.on_cleared: Callable[[list[str] | None], None] = lambda containers: None
        #: Holds changes of variables back while a cut is taken.
        self.cuts = Cuts(task, self.resume_elsewhere)
        #: Set by the server.
        self.fetch_tensor: Fetch
        #: Steps that were run, and XLA programs that they called.
        self.steps = 0
        self.xla_calls = 0

    # -- Events in, instructions out -------------------------------------------------------

    def decide(self, event: events.TaskEvent) -> list[instructions.Instruction]:
        """Something has happened: what the rules say is to be done."""
        with self._lock:
            return self.partitions.on(event)

    def perform(self, instruction: instructions.Instruction) -> None:
        """Does what the rules say."""
        _PERFORM[type(instruction)](self, instruction)

    def tell(self, event: events.TaskEvent) -> None:
        """Something has happened: does what the rules say."""
        with self._lock:
            found = self.partitions.on(event)
        for instruction in found:
            if instruction is not instructions.PUBLISH:
                _PERFORM[type(instruction)](self, instruction)
            elif self.snapshots.published:
                self.snapshots.refresh()

    def take(self, number: int, key: events.Key, waits_for: str) -> list[Value] | Future:
        """The values of a step under a key, or what will have them.

        Raises:
          OpError: The step is over.
        """
        with self._lock:
            found = self.partitions.on(events.ValuesWanted(number, key))
            if not found:
                future = self._waits[number, key] = Future(waits_for)
                return future
        (told,) = found
        if isinstance(told, instructions.EndWait):
            raise told.error
        assert isinstance(told, instructions.Deliver)
        values: list[Value] = told.values  # type: ignore[assignment]
        return values

    def _execute(self, instruction: instructions.Execute) -> None:
        self._runs[instruction.step].execute(instruction.at_once)

    def _deliver(self, instruction: instructions.Deliver) -> None:
        step, key, values = instruction
        self._waits.pop((step, key)).set_result(values)

    def _end_wait(self, instruction: instructions.EndWait) -> None:
        step, key, error = instruction
        self._waits.pop((step, key)).set_error(error)

    def _cancel(self, instruction: instructions.Cancel) -> None:
        run = self._runs.get(instruction.step)
        if run is not None:
            run.step.cancellation.cancel(instruction.error)

    def _publish(self, instruction: instructions.Publish) -> None:
        self.snapshots.refresh()

    def _hold(self, instruction: instructions.Hold) -> None:
        def go_on() -> None:
            for each in instruction.instructions:
                _PERFORM[type(each)](self, each)

        self.hold(go_on)

    def wait_until_safe(self) -> None:
        """Waits until the standby of this task, if it has one, has all that was changed here."""
        if self.partitions.has_standby:
            safe = threading.Event()
            self.hold(safe.set)
            while not safe.wait(_SAFE_SECONDS):
                self.sessions.check_serves()

    def _send_values(self, instruction: instructions.SendValues) -> None:
        self.post(instruction.to, wire.values(instruction))

    def _send_lost(self, instruction: instructions.SendLost) -> None:
        def send() -> None:
            with contextlib.suppress(errors.OpError):
                self.post(instruction.to, wire.end(instruction.step, instruction.error))

        self.resume_elsewhere(send)  # It may have to dial.

    def _reply(self, instruction: instructions.Reply) -> None:
        step = self._forget(instruction.step, True)
        self._runs.pop(instruction.step).on_done(step, list(instruction.values), None)

    def _fail(self, instruction: instructions.Fail) -> None:
        step = self._forget(instruction.step, False)
        self._runs.pop(instruction.step).on_done(step, [], instruction.error)

    def _forget(self, number: int, is_done: bool) -> Step:
        step = self._runs[number].step
        if step.gate is not None:
            step.gate.over(is_done)
        with self._lock:
            self.steps += 1
            self.xla_calls += step.xla_calls
        step.cancellation.forget()
        return step

    # -- Partitions ------------------------------------------------------------------------

    def run(
        self,
        graph_number: int,
        number: int,
        master: str,
        request: RunRequest,
        on_done: OnDone,
    ) -> None:
        """Runs a partition for another task's master; returns at once or when it has to wait.

        Args:
          graph_number: Which partition.
          number: The step.
          master: The address of the master's task.
          request: What it is run with.
          on_done: Is told the end.
        """
        feeds, first = request.feeds, request.first
        try:
            graph = self.sessions.graph(graph_number)
            if len(feeds) != len(graph.plan.argument_slots):
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"{len(graph.plan.argument_slots)} values expected, got {len(feeds)}",
                )
            step = Step(graph.session.state, executor.run_values, trace=request.trace)
            attempt = request.attempt
            if attempt is not None and attempt.attempt and graph.changes:
                step.record = self.record.begin(attempt)
            if request.cut is not None:
                step.resources = self.cuts.snapshot(request.cut)
        except errors.OpError as error:
            self._begin(events.RunRefused(number, error), None, on_done)
            return
        self.open_gate(graph, step, attempt, master)
        if first is not None:
            self._heard_of[master] = time.monotonic()
        run = PartitionRun(self, graph, number, step, request, on_done)
        if master == "":
            run.is_quick = False  # Its caller waits in a thread of its own.
        elif run.is_quick and step.gate is not None and first and first[0] == graph.facts.awaits:
            # Else it would wait in the thread that brings the end of the wait.
            run.is_quick = step.gate.try_enter()
        event = events.RunRequested(number, master, graph.facts, first, run.is_quick)
        self._begin(event, run, on_done)

    def repeat(self, graph_number: int, number: int, master: str, on_done: OnDone) -> None:
        """Runs a partition again and again, until it fails, is cancelled or told to stop."""
        try:
            graph = self.sessions.graph(graph_number)
            if graph.plan.argument_slots or graph.peers:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    "Only a partition that is fed nothing and exchanges nothing can be repeated.",
                )
        except errors.OpError as error:
            self._begin(events.RunRefused(number, error), None, on_done)
            return
        step = Step(graph.session.state, executor.run_values)
        run = RepeatedRun(self, graph, number, step, on_done)
        self._begin(events.RepetitionRequested(number, master, graph.facts), run, on_done)

    def _begin(self, event: events.TaskEvent, run: PartitionRun | None, on_done: OnDone) -> None:
        with self._lock:
            found = self.partitions.on(event)
            last = found[-1]
            if run is not None and isinstance(last, instructions.Execute):
                self._runs[run.number] = run
        for instruction in found:
            if isinstance(instruction, instructions.Refuse):
                if run is not None and run.step.gate is not None:
                    run.step.gate.over(False)
                on_done(None, [], instruction.error)
            else:
                _PERFORM[type(instruction)](self, instruction)

    def begin(self, graph: RegisteredGraph, number: int, step: Step) -> Exchange:
        """Makes known that this task's own master runs its partition of a step.

        Returns:
          How the partition reaches the other tasks.

        Raises:
          OpError: The step has failed already.
        """
        run = PartitionRun(self, graph, number, step)
        with self._lock:
            for refused in self.partitions.on(events.PartitionBegun(number, graph.facts)):
                assert isinstance(refused, instructions.Refuse)
                raise refused.error
            self._runs[number] = run
        step.cancellation.register(run.end_waits)
        return run.exchange

    def open_gate(
        self, graph: RegisteredGraph, step: Step, attempt: StepAttempt | None, master: str
    ) -> None:
        """Gives a run of a partition its gate, if a cut may have to hold it back."""
        if graph.changes_variables or graph.writing_tasks:
            step.gate = self.cuts.begin(attempt, graph.writing_tasks, master)

    def on_cut(self, message: Message, master: str, send: Callable[[Message], None]) -> None:
        """The master of a cut says something.

        Args:
          message: What it says.
          master: The address of its task.
          send: Sends it an answer.

        Raises:
          OpError: It makes no sense, or names a session that is not known here.
        """

        def answer(instruction: Value) -> None:
            send(cut_wire.answer(instruction))

        event, handle = cut_wire.task_event(message, master)
        if isinstance(event, cut_events.CloseRequested):
            try:
                store = self.sessions.session(handle).state.resources
            except errors.OpError as error:
                answer(SendRefused(event.number, master, error))
                return
            self.cuts.close_for(event, store, answer)
        else:
            self.cuts.tell(event, answer)

    def end(self, number: int, is_done: bool = True) -> None:
        """Forgets a step that this task's own master has run."""
        self.tell(events.StepEnded(number))
        run = self._runs.get(number)
        if run is not None:
            self._forget(number, is_done)
            self._runs.pop(number, None)

    def cancel(self, number: int, error: errors.OpError) -> None:
        """Ends every wait of a step, also of one that is not known yet."""
        self.tell(events.Cancelled(number, error))

    def waits(self, number: int) -> str:
        """What the partition of a step waits for here, in words; empty if there is none."""
        run = self._runs.get(number)
        return "" if run is None else run.waits_for()

    def waits_of_steps(self) -> dict[int, str]:
        """What every step that is known here waits for, in words; empty if it computes."""
        with self._lock:
            runs = list(self._runs.items())
            waits = [(number, deferred) for (number, _), deferred in self._waits.items()]
        found = {number: run.waits_for() for number, run in runs}
        for number, deferred in waits:
            found[number] = found.get(number) or deferred.waits_for
        return found

    def is_running(self, number: int) -> bool:
        """Whether a partition of a step runs here."""
        return self.partitions.is_running(number)

    def cancel_if_running(self, number: int) -> None:
        """Ends a step that nobody waits for any more."""
        if self.is_running(number):
            self.cancel(number, errors.CancelledError(None, None, "The caller is gone."))

    def read(self, graph_number: int, key: int, channel: Channel) -> tuple[list[Value], bytes]:
        """Variables that another task's partition of a step asks for, as they are now.

        Returns:
          Their values, and what tells that task where it can read them; empty if nowhere.

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
            return stage.values(resources), self.snapshots.offer(channel, stage, resources) or b""
        except Exception as error:
            raise op_error(stage.node, error) from None

    def count(self, step: Step) -> None:
        """Counts a round of a step that is repeated."""
        with self._lock:
            self.steps += 1
            self.xla_calls += step.xla_calls
            step.xla_calls = 0

    def resume_elsewhere(self, go_on: Callable[[], None]) -> None:
        """Goes on with a partition in another thread."""
        try:
            self._threads.submit(go_on)
        except RuntimeError:
            go_on()  # The server has stopped: all that is left to do is to end the step.

    def deliver(self, message: Message, source: str) -> None:
        """Takes values that another task sent; called in a transport's thread."""
        key = (message.key, message.text) if message.text else message.key
        arrived = events.ValuesArrived(message.step, key, message.tensors, source)
        self.relay.deliver(lambda: self.tell(arrived))

    # -- Other tasks, sessions and the end -------------------------------------------------

    def needed(self) -> set[str]:
        """The addresses of the tasks that running partitions wait for, and of masters at work."""
        earliest = time.monotonic() - _WATCHED_SECONDS
        with self._lock:
            self._heard_of = {m: at for m, at in self._heard_of.items() if at > earliest}
            return self.partitions.needed() | {*self._heard_of}

    def lost(self, address: str, error: errors.OpError) -> None:
        """The task at an address is gone: fails the steps that need it."""
        self.tell(events.PeerLost(address, error))
        self.cuts.tell(cut_events.MasterLost(address))

    def lost_master(self, address: str) -> None:
        """The task at an address is gone for good: forgets the sessions of its master."""
        self._heard_of.pop(address, None)
        for handle in self.sessions.sessions_of(address):
            self.sessions.delete_session(handle)

    def clear(self, containers: Iterable[str]) -> None:
        """Drops resource containers, the default one when none is named."""
        dropped = list(containers) or None
        self.resources.clear(dropped)
        self.on_cleared(dropped)

    def status(self) -> JsonObject:
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
                "running_steps": len(self.partitions.running),
                "xla_calls": self.xla_calls,
                "graphs": len(self.sessions.graphs),
                "variables": variables,
                "global_step": None if global_step is None else int(global_step),
                "published": len(self.snapshots),
                **holdings.of(self.resources),
            }

    def close(self) -> None:
        """Cancels everything and drops all state."""
        self.sessions.stopped = True
        self.tell(events.TaskStopped(self.sessions.stopped_error()))
        self.sessions.close()
        self.cuts.close()
        self.snapshots.close()
        self.resources.clear_all()

    def _cancel_steps_of(self, session: WorkerSession) -> None:
        closed = errors.CancelledError(None, None, CLOSED_WHILE_RUNNING)
        self.tell(events.SessionClosed(session.handle, closed))
        self.cuts.forget(session.handle)


_PERFORM: dict[type, Callable[[Worker, Any], None]] = {
    instructions.Execute: Worker._execute,
    instructions.Deliver: Worker._deliver,
    instructions.EndWait: Worker._end_wait,
    instructions.Cancel: Worker._cancel,
    instructions.Publish: Worker._publish,
    instructions.SendValues: Worker._send_values,
    instructions.SendLost: Worker._send_lost,
    instructions.Reply: Worker._reply,
    instructions.Fail: Worker._fail,
    instructions.Hold: Worker._hold,
}
