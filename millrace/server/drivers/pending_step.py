"""Performs what the rules say about one step over all its tasks, for the master of this one.

The client's thread runs the home partition, and then waits until the step is over: it reads what
the other tasks send, where it can (`rpc.turns`), else it is told. Messages and losses reach the
step in any thread. The rules are in `protocol.step.master`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millrace.core import errors
from millrace.core.value import Value
from millrace.graph.graph import Graph
from millrace.observe.observation import OBSERVED
from millrace.platform import logging, wait_reporter
from millrace.protocol.step import events, instructions
from millrace.protocol.step.master import MasterStep
from millrace.rpc.channel import Channel
from millrace.rpc.failed_node import explained
from millrace.rpc.message import Message, layout_of
from millrace.rpc.snapshot import Location, SnapshotReader
from millrace.rpc.turns import Listener
from millrace.runtime import allotments
from millrace.server.drivers import wire
from millrace.server.drivers.prepared_step import PreparedStep
from millrace.server.drivers.step_errors import as_op_error

if TYPE_CHECKING:
    from millrace.server.drivers.exchange import Exchange
    from millrace.server.peers import Peers
    from millrace.server.worker import Worker

#: Runs the home partition: its results, or it raises.
Home = Callable[[], list[Value]]
#: What an error of the home partition is for the client.
Explain = Callable[[BaseException], errors.OpError]


class PendingStep:
    """A step that is not over.

    Attributes:
      step: Its state machine.
      channels: To the tasks that take part.
      listener: Reads what they send, for the thread that waits for it; None when others do.
    """

    def __init__(
        self,
        number: int,
        prepared: PreparedStep,
        context: wire.RunContext,
        worker: Worker,
        peers: Peers,
        graph: Graph,
        ask: Callable[[str, int], str],
    ) -> None:
        """Makes a step.

        Args:
          number: Its number.
          prepared: What it is a run of.
          context: What the other tasks are told of this run.
          worker: Of this task.
          peers: The channels to the others.
          graph: The client's.
          ask: Says what another task's partition of the step waits for; may take a moment.
        """
        self.step = MasterStep(number, prepared.partitions)
        self._prepared = prepared
        self._context = context
        self._worker = worker
        self._peers = peers
        self._graph = graph
        self._ask = ask
        self._lock = threading.RLock()
        #: Made when a thread waits to be told, which reads no messages itself.
        self._told: threading.Condition | None = None
        #: How long the others have to stop, once the step has failed: until then.
        self._stop_at: float | None = None
        self._home: Home | None = None
        self._explain: Explain = as_op_error
        self.results: list[Value] = []
        self.channels: list[Channel] = []
        #: Since when the client's thread has nothing to do but wait; 0 before.
        self._waits_since = 0.0
        self.listener: Listener | None = None
        #: Of the home partition, if others run partitions too.
        self.exchange: Exchange | None = None

    # -- Events in, instructions out -------------------------------------------------------

    def tell(self, event: events.MasterEvent) -> None:
        """Something has happened: does what the rules say."""
        with self._lock:
            found = self.step.on(event)
        for instruction in found:
            if instruction is not instructions.PUBLISH:
                _PERFORM[type(instruction)](self, instruction)
            elif self._worker.snapshots.published:
                self._worker.snapshots.refresh()

    def read(self, key: int) -> list[Value] | None:
        """What the home partition waits for, if it can be read; else it is asked for."""
        with self._lock:
            found = self.step.on(events.ValuesWanted(self.step.number, key))
        for instruction in found:
            if type(instruction) is instructions.ReadPublished:
                return self._read_published(instruction)
            _PERFORM[type(instruction)](self, instruction)
        return None

    def _execute(self, instruction: instructions.Execute) -> None:
        number, home = instruction.step, self._home
        if home is None:  # of a partial run: the thread that feeds it goes on with it
            return
        error: errors.OpError | None = None
        try:
            self.results = home()
        except Exception as failure:
            error = self._explain(failure)
        except BaseException:  # Ctrl-C: the other tasks must not go on waiting.
            stopped = errors.CancelledError(None, None, "The step was interrupted.")
            self.tell(events.Cancelled(number, stopped))
            self.tell(events.PartitionFinished(number))
            self.wait(None)
            raise
        self.tell(events.PartitionFinished(number, error=error))

    def _send_run(self, instruction: instructions.SendRun) -> None:
        partition = instruction.partition
        try:
            self._peers.post(partition.peer, wire.run(instruction, self._context))
        except errors.OpError as error:
            self._not_sent(partition.peer, error)

    def _send_read(self, instruction: instructions.SendRead) -> None:
        self._send(instruction.partition.peer, wire.read(instruction))

    def _send_repeat(self, instruction: instructions.SendRepeat) -> None:
        self._send(instruction.partition.peer, wire.repeat(instruction))

    def _send_last_round(self, instruction: instructions.SendLastRound) -> None:
        self._send(instruction.partition.peer, wire.last_round(instruction))

    def _send_values(self, instruction: instructions.SendValues) -> None:
        self._peers.post(instruction.to, wire.values(instruction))  # or its op has failed

    def _send_cancel(self, instruction: instructions.SendCancel) -> None:
        # A task whose channel is closed has ended the step by itself.
        if self._peers.has_channel(instruction.to):
            self._send(instruction.to, wire.cancel(instruction))
        else:
            self._not_sent(instruction.to, instruction.error)

    def _send(self, peer: str, message: Message) -> None:
        try:
            self._peers.post(peer, message)
        except errors.OpError as error:
            self._not_sent(peer, error)

    def _not_sent(self, peer: str, error: errors.OpError) -> None:
        task = self._prepared.partitions.tasks[peer]
        self.tell(events.PartitionFinished(self.step.number, peer, error=naming_task(error, task)))

    def _read_published(self, instruction: instructions.ReadPublished) -> list[Value] | None:
        key = instruction.key
        channel, reader = self._prepared.readers[key]
        found = reader.take() if channel.is_open else None
        if found is None:
            self.tell(events.SnapshotMissed(key, not channel.is_open or reader.is_over))
        return found

    def _deliver(self, instruction: instructions.Deliver) -> None:
        self._worker.tell(events.ValuesArrived(*instruction))

    def _cancel(self, instruction: instructions.Cancel) -> None:
        self._worker.cancel(instruction.step, instruction.error)

    def _await_stop(self, instruction: instructions.AwaitStop) -> None:
        self._stop_at = time.monotonic() + instruction.seconds
        self._wake()

    def _answer(self, instruction: instructions.Reply | instructions.Fail) -> None:
        self._wake()

    def _wake(self) -> None:
        """Lets the thread that waits for the end look again."""
        with self._lock:
            if self._told is not None:
                self._told.notify_all()
        if self.listener is not None:
            self.listener.wake()

    # -- What other tasks say --------------------------------------------------------------

    def on_done(self, peer: str, message: Message) -> None:
        """A task says that its partition is over, or that what it has sent was lost."""
        error = None
        if OBSERVED.enabled and self._waits_since:
            task = self._prepared.partitions.tasks.get(peer, peer)
            OBSERVED.note_transfer(task, 0, time.monotonic() - self._waits_since)
        if message.key:
            task = self._prepared.partitions.tasks.get(peer, peer)
            text = message.text.decode(errors="replace")
            error = explained(message.key, f"From {task}:\n{text}", self._graph)
        self.tell(
            events.PartitionFinished(message.step, peer, message.tensors, error, message.text)
        )

    def on_published(self, channel: Channel, message: Message) -> None:
        """A task says, with variables that it was asked for, where they can be read."""
        partition = self._prepared.partitions.reads.get(message.key)
        if partition is None or channel.process is None:
            return
        kinds = [(tensor.dtype, tensor.shape) for tensor in message.tensors]
        try:
            location = Location.unpack(message.text)
            reader = SnapshotReader(channel.process, location, kinds, layout_of(message.tensors))
        except (OSError, ValueError) as error:
            logging.debug("%s publishes nothing: %s", partition.task, error)
            return
        self._prepared.readers[message.key] = channel, reader
        self.tell(events.VariablesPublished(message.key))

    # -- The client's thread ---------------------------------------------------------------

    def connect(self) -> None:
        """Makes sure that there is a channel to each task: one that is not there fails the step."""
        for partition in self._prepared.partitions.all:
            try:
                self.channels.append(self._peers.channel(partition.peer))
            except errors.OpError as error:
                self._not_sent(partition.peer, error)

    def run(self, home: Home, explain: Explain, deadline: float | None) -> None:
        """Runs the step to its end.

        Args:
          home: Runs the home partition.
          explain: Says why it has failed.
          deadline: When the step must be over, if ever.

        Raises:
          OpError: What ended it.
        """
        self._home, self._explain = home, explain
        try:
            self.tell(events.STEP_REQUESTED)
            if not self.step.is_over:
                self.wait(deadline)
        finally:
            self._home, self._explain = None, as_op_error
        if self.step.error is not None:
            raise self.step.error

    def wait(self, deadline: float | None, *, reports: bool = True) -> None:
        """Waits until the step is over; at its deadline it is ended.

        A wait for what is to come says so when it lasts, one for the end of what has failed not.

        Args:
          deadline: When the step must be over, if ever.
          reports: Whether a wait that lasts says so also when nobody tells why.
        """
        began = self._waits_since = time.monotonic()
        reporter: wait_reporter.WaitReporter | None = None
        step = self.step
        while not step.is_over:
            failed, stop_at = step.error is not None, self._stop_at
            end = stop_at if failed else deadline
            timeout = wait_reporter.FIRST_SECONDS if reporter is None else reporter.seconds_left()
            if end is not None:
                left = end - time.monotonic()
                if left <= 0:
                    self.tell(events.DeadlinePassed(step.number))
                    continue
                timeout = min(timeout, left)
            share = allotments.current()
            if share is not None:
                share.pause()
            try:
                self._pause(
                    timeout,
                    lambda stop_at=stop_at, failed=failed: (  # type: ignore[misc]
                        step.is_over
                        or self._stop_at is not stop_at
                        or (step.error is not None) is not failed
                    ),
                )
            finally:
                if share is not None:
                    share.resume()
            if step.is_over or step.error is not None:
                continue
            if reporter is None:
                reporter = wait_reporter.WaitReporter("A step has waited", since=began)
            if reporter.seconds_left():
                continue
            why = self.why()
            if why or reports:
                words = ", ".join(list(step.waiting.values())) + why
                reporter.tell(lambda words=words: words)  # type: ignore[misc]
            else:
                reporter.restart()  # Rounds go on.

    def linger(self, seconds: float) -> None:
        """Gives the step some time to end, and leaves it as it is then."""
        deadline = time.monotonic() + seconds
        while not self.step.is_over and (left := deadline - time.monotonic()) > 0:
            self._pause(left, lambda: self.step.is_over)

    def why(self) -> str:
        """What the other tasks wait for themselves, in words, as far as they tell."""
        number = self.step.number
        found = [(task, self._ask(peer, number)) for peer, task in list(self.step.waiting.items())]
        return "".join(f". There ({task}) it waits for {words}" for task, words in found if words)

    def _pause(self, timeout: float, has_changed: Callable[[], bool]) -> None:
        if self.listener is None:
            self._wait_to_be_told(timeout, has_changed)
        elif not self.listener.wait(timeout, has_changed):
            with self.listener.following():
                self._wait_to_be_told(timeout, has_changed)

    def _wait_to_be_told(self, timeout: float, has_changed: Callable[[], bool]) -> None:
        with self._lock:
            if self._told is None:
                self._told = threading.Condition(self._lock)
            if not has_changed():
                self._told.wait(timeout)


def naming_task(error: errors.OpError, task: str) -> errors.OpError:
    """The error, with the task that it is about."""
    if task in error.message:
        return error
    return errors.error_from_code(error.error_code, f"{task}: {error.message}")


_PERFORM: dict[type, Callable[[PendingStep, Any], Any]] = {
    instructions.Execute: PendingStep._execute,
    instructions.SendRun: PendingStep._send_run,
    instructions.SendRead: PendingStep._send_read,
    instructions.SendRepeat: PendingStep._send_repeat,
    instructions.SendLastRound: PendingStep._send_last_round,
    instructions.SendValues: PendingStep._send_values,
    instructions.SendCancel: PendingStep._send_cancel,
    instructions.Deliver: PendingStep._deliver,
    instructions.Cancel: PendingStep._cancel,
    instructions.AwaitStop: PendingStep._await_stop,
    instructions.Reply: PendingStep._answer,
    instructions.Fail: PendingStep._answer,
}
