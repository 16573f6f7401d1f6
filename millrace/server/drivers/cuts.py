"""Performs what the rules say about cuts on this task: holds updates back, takes snapshots.

The rules are in `protocol.cut.task`. Every run of a partition that changes variables has a
`PartitionGate`; the first change goes through it. Where it may not pass, the stage waits as one
that blocks does, without a thread, and is run when the task is open again.
"""

from __future__ import annotations

import functools
import hashlib
import threading
import time
from collections.abc import Callable
from typing import Any

from millrace.core import errors
from millrace.platform import file_access, logging
from millrace.protocol.cut import events, instructions
from millrace.protocol.cut.task import RunningPartition, TaskCuts
from millrace.protocol.step.applied_steps import StepAttempt
from millrace.runtime import store_snapshot
from millrace.runtime.future import Future
from millrace.runtime.resources import ResourceStore
from millrace.runtime.step import Step
from millrace.runtime.store_snapshot import StoreSnapshot

#: Runs a stage and returns its outputs.
RunStage = Callable[[], Any]
#: Sends an answer to a cut's master.
Answer = Callable[
    [instructions.SendClosed | instructions.SendTaken | instructions.SendRefused], None
]
_ANSWERS = (instructions.SendClosed, instructions.SendTaken, instructions.SendRefused)


def client_of(session: str) -> int:
    """The number under which a session's steps are known that nobody repeats."""
    digest = hashlib.blake2b(session.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


class PartitionGate:
    """Where a run of a partition passes before it changes variables."""

    __slots__ = ("_cuts", "_partition")

    def __init__(self, cuts: Cuts, partition: RunningPartition) -> None:
        self._cuts = cuts
        self._partition = partition

    def try_enter(self) -> bool:
        """Whether it may change variables now."""
        return self._partition.has_entered or self._cuts.enter(self._partition)

    def enter(self, run: RunStage, step: Step) -> Future | None:
        """None if it may change variables now; else what will have the outputs of the stage.

        Args:
          run: Runs the stage.
          step: What it is a stage of.
        """
        if self._partition.has_entered:
            return None
        return self._cuts.enter_or_wait(self._partition, run, step)

    def over(self, is_done: bool) -> None:
        """The run has ended."""
        self._cuts.over(self._partition, is_done)


class Cuts:
    """The cuts of one task.

    Args:
      task: The task's name.
      elsewhere: Calls a function in another thread.

    Attributes:
      taken: How many snapshots were taken.
      closed_seconds: How long the task was closed for them.
    """

    def __init__(self, task: str, elsewhere: Callable[[Callable[[], None]], None]) -> None:
        self._task = task
        self._elsewhere = elsewhere
        self._lock = threading.RLock()
        self._rules = TaskCuts(task)
        self._stores: dict[int, ResourceStore] = {}
        self._answers: dict[int, Answer] = {}
        self._snapshots: dict[int, StoreSnapshot] = {}
        self._timers: dict[int, threading.Timer] = {}
        #: What to do when a partition that is held may ask again.
        self._waiting: dict[RunningPartition, list[Callable[[], None]]] = {}
        self._closed_at = 0.0
        self.taken = 0
        self.closed_seconds = 0.0

    # -- Partitions ------------------------------------------------------------------------

    def begin(
        self, attempt: StepAttempt | None, tasks: tuple[str, ...], master: str
    ) -> PartitionGate:
        """A partition begins; see `TaskCuts.begin`."""
        with self._lock:
            return PartitionGate(self, self._rules.begin(attempt, tasks, master))

    def enter(self, partition: RunningPartition) -> bool:
        """Whether a partition may change variables now."""
        with self._lock:
            return self._rules.enter(partition)

    def enter_or_wait(
        self, partition: RunningPartition, run: RunStage, step: Step
    ) -> Future | None:
        """As `PartitionGate.enter`."""
        with self._lock:
            if self._rules.enter(partition):
                return None
            held = Future("the cut of a checkpoint that is being saved")
            go_on = functools.partial(self._go_on, partition, run, step, held)
            self._waiting.setdefault(partition, []).append(go_on)

        def cancel() -> None:
            held.set_error(step.cancellation.error or errors.CancelledError(None, None, "It ends."))

        if step.cancellation.register(cancel) is None:
            cancel()
        return held

    def _go_on(self, partition: RunningPartition, run: RunStage, step: Step, held: Future) -> None:
        if held.done:  # It was cancelled meanwhile.
            return
        with self._lock:
            if not self._rules.enter(partition):
                go_on = functools.partial(self._go_on, partition, run, step, held)
                self._waiting.setdefault(partition, []).append(go_on)
                return
        before = file_access.confine(step.session.file_access)
        try:
            outputs = run()
        except Exception as error:
            held.set_error(error)
            return
        finally:
            file_access.confine(before)
        if isinstance(outputs, Future):
            outputs.add_callback(lambda done: _hand_on(done, held))
        else:
            held.set_result(outputs)

    def over(self, partition: RunningPartition, is_done: bool) -> None:
        """A run of a partition has ended."""
        with self._lock:
            self._waiting.pop(partition, None)
            found = self._perform(self._rules.over(partition, is_done))
        _call(found)

    def forget(self, session: str) -> None:
        """A session is over, and with it those of its steps that nobody repeats."""
        with self._lock:
            found = self._perform(self._rules.forget(client_of(session)))
        _call(found)

    # -- Cuts ------------------------------------------------------------------------------

    def close_for(self, event: events.CloseRequested, store: ResourceStore, answer: Answer) -> None:
        """A master begins a cut.

        Args:
          event: Says so.
          store: What it is a cut of.
          answer: Answers the master.
        """
        with self._lock:
            self._stores[event.number] = store
            self._answers[event.number] = answer
            was_closed = self._rules.is_closed
            found = self._rules.on(event)
            if not was_closed:
                self._closed_at = time.monotonic()
            answers = self._perform(found)
            if was_closed:
                self._forget(event.number)
        _call(answers)

    def tell(self, event: events.TaskCutEvent, answer: Answer | None = None) -> None:
        """Something has happened to a cut."""
        with self._lock:
            if answer is not None and isinstance(event, events.AdmitRequested):
                self._answers.setdefault(event.number, answer)
            answers = self._perform(self._rules.on(event))
            if isinstance(event, events.ReleaseRequested):
                self._forget(event.number)
        _call(answers)

    def snapshot(self, number: int) -> StoreSnapshot:
        """The snapshot of a cut.

        Raises:
          AbortedError: There is none any more.
        """
        with self._lock:
            found = self._snapshots.get(number)
        if found is None:
            raise errors.AbortedError(
                None, None, f"{self._task} does not hold the snapshot of cut {number} any more."
            )
        return found

    def close(self) -> None:
        """The task serves no more."""
        with self._lock:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()
            for snapshot in self._snapshots.values():
                snapshot.release()
            self._snapshots.clear()
            self._stores.clear()
            self._answers.clear()

    def _perform(self, found: list[instructions.TaskCutInstruction]) -> list[Callable[[], None]]:
        """Does what the rules say, with the lock held; what to call then, without it."""
        answers: list[Callable[[], None]] = []
        for each in found:
            if isinstance(each, instructions.TakeSnapshot):
                self._snapshots[each.number] = store_snapshot.take(self._stores[each.number])
                self.taken += 1
                self.closed_seconds += time.monotonic() - self._closed_at
            elif isinstance(each, instructions.DropSnapshot):
                snapshot = self._snapshots.pop(each.number, None)
                if snapshot is not None:
                    snapshot.release()
            elif isinstance(each, instructions.Resume):
                for go_on in self._waiting.pop(each.partition, ()):
                    self._elsewhere(go_on)
            elif isinstance(each, instructions.AwaitSteps):
                tell = functools.partial(self.tell, events.CutOverdue(each.number))
                timer = self._timers[each.number] = threading.Timer(each.seconds, tell)
                timer.daemon = True
                timer.start()
            else:
                assert isinstance(each, _ANSWERS)
                if not isinstance(each, instructions.SendClosed):
                    self._stop_timer(each.number)
                answer = self._answers.get(each.number)
                if answer is not None:
                    answers.append(functools.partial(_answer, answer, each))
        return answers

    def _stop_timer(self, number: int) -> None:
        timer = self._timers.pop(number, None)
        if timer is not None:
            timer.cancel()

    def _forget(self, number: int) -> None:
        self._stop_timer(number)
        self._stores.pop(number, None)
        self._answers.pop(number, None)


def _answer(
    answer: Answer,
    instruction: instructions.SendClosed | instructions.SendTaken | instructions.SendRefused,
) -> None:
    try:
        answer(instruction)
    except errors.OpError as error:
        logging.debug("The master of a cut was not answered: %s", error)


def _call(answers: list[Callable[[], None]]) -> None:
    for answer in answers:
        answer()


def _hand_on(done: Future, held: Future) -> None:
    try:
        held.set_result(done.result())
    except Exception as error:
        held.set_error(error)
