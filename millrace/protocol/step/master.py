"""One step of a session over all its tasks, as its master knows it: events in, instructions out.

The master's own task runs a partition too, its *home* partition, which takes what the others send
and sends what they begin with. The first error wins. It stops the home partition and the others,
which get a moment to say that they have stopped; then the client is answered.

Invariants: a step is answered exactly once, by `Reply` or `Fail`, and only when its home partition
is over; a deferred partition is asked to run at most once, and never after an error; before
anything is told that depends on this task's variables, their snapshots are refreshed.

No thread, clock or channel is here. A driver may call `on` from several threads, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from millrace.core import errors
from millrace.protocol.step import events
from millrace.protocol.step.events import HOME, MasterEvent, PartitionFinished, Peer
from millrace.protocol.step.instructions import (
    PUBLISH,
    AwaitStop,
    Cancel,
    Deliver,
    Execute,
    Fail,
    Instruction,
    ReadPublished,
    Reply,
    SendCancel,
    SendLastRound,
    SendRead,
    SendRepeat,
    SendRun,
    SendValues,
)
from millrace.protocol.step.remote_partitions import RemotePartitions

#: How long the tasks of a failed step have to say that they have stopped.
STOP_SECONDS = 2.0
#: The same at a deadline: the client is to be answered now.
DEADLINE_STOP_SECONDS = 0.5


class MasterStep:
    """One step.

    Args:
      number: The step's number.
      partitions: What other tasks run of it.

    Attributes:
      number: The step's number.
      waiting: The tasks that have not answered, by address.
      unbegun: The addresses of those among them that have not been asked to run.
      answers: What the others have answered, by address.
      error: What ended the step, if not its last partition.
      is_over: Whether the client was answered.
    """

    __slots__ = (
        "_has_begun",
        "_has_home",
        "_is_last_round",
        "_may_wait",
        "_partitions",
        "answers",
        "error",
        "is_over",
        "number",
        "unbegun",
        "waiting",
    )

    def __init__(self, number: int, partitions: RemotePartitions) -> None:
        self.number = number
        self._partitions = partitions
        self.waiting = partitions.tasks.copy()
        self.unbegun = {*partitions.tasks}
        self.answers: dict[Peer, PartitionFinished] = {}
        self.error: errors.OpError | None = None
        self.is_over = False
        #: Whether any task was asked to run.
        self._has_begun = False
        #: Whether the home partition runs.
        self._has_home = False
        #: Whether the tasks of a failed step may still be waited for.
        self._may_wait = True
        #: Whether the repeated step is to end before it has begun.
        self._is_last_round = False

    @property
    def runs_at_home(self) -> bool:
        """Whether the home partition is not over."""
        return self._has_home

    def on(self, event: MasterEvent) -> list[Instruction]:
        """Something has happened; what to do now, in this order."""
        return _RULES[type(event)](self, event)

    # -- Beginning -------------------------------------------------------------------------

    def _requested(self, event: events.StepRequested) -> list[Instruction]:
        if self.error is not None:
            return []
        self._has_home = True
        number = self.number
        asked: list[Instruction] = []
        for partition in self._partitions.immediate:
            self._has_begun = True
            self.unbegun.discard(partition.peer)
            asked.append(SendRun(number, partition))
        asked.append(Execute(number))
        return asked

    def _repetition_requested(self, event: events.RepetitionRequested) -> list[Instruction]:
        if self.error is not None:
            return []
        (partition,) = self._partitions.all
        asked: list[Instruction] = [SendRepeat(self.number, partition)]
        if self._is_last_round:
            asked.append(SendLastRound(self.number, partition))
        self.unbegun.clear()
        self._has_begun = True
        return asked

    def _last_round_requested(self, event: events.LastRoundRequested) -> list[Instruction]:
        (partition,) = self._partitions.all
        if partition.peer in self.unbegun:
            self._is_last_round = True
            return []
        return [SendLastRound(self.number, partition)] if self.waiting else []

    # -- What the home partition takes and gives -------------------------------------------

    def _wanted(self, event: events.ValuesWanted) -> list[Instruction]:
        key = event.key
        partition = self._partitions.reads.get(key)  # type: ignore[call-overload]
        if partition is None:
            return []
        assert isinstance(key, int)
        if key in self._partitions.published:
            return [ReadPublished(self.number, partition, key)]
        return [SendRead(self.number, partition, key)]

    def _snapshot_missed(self, event: events.SnapshotMissed) -> list[Instruction]:
        if event.is_gone:
            self._partitions.published.discard(event.key)
        return [SendRead(self.number, self._partitions.reads[event.key], event.key)]

    def _published(self, event: events.VariablesPublished) -> list[Instruction]:
        if event.key in self._partitions.reads:
            self._partitions.published.add(event.key)
        return []

    def _made(self, event: events.ValuesMade) -> list[Instruction]:
        if self.error is not None:
            return []  # Nobody is to begin with it any more.
        partition = self._partitions.deferred.get(event.key)
        if partition is None:
            return [PUBLISH, SendValues(*event)]
        self._has_begun = True
        self.unbegun.discard(partition.peer)
        return [PUBLISH, SendRun(self.number, partition, event.values)]

    # -- Ending ----------------------------------------------------------------------------

    def _finished(self, event: PartitionFinished) -> list[Instruction]:
        peer, error = event.peer, event.error
        if peer == HOME:
            self._has_home = False
            if error is not None:
                return self._failed(error)
            return [] if self.waiting and self.error is None else self._answer()
        if self.waiting.pop(peer, None) is None:
            # It had said that it is done: what it has sent was lost since.
            return [] if error is None else self._failed(error)
        self.unbegun.discard(peer)
        if error is not None:
            return self._failed(error)
        self.answers[peer] = event
        last = self._partitions.last.get(peer)
        # Mostly there are others to wait for.
        over = [] if self.waiting or self._has_home else self._answer()
        if last is not None:
            over.insert(0, Deliver(self.number, last[1], event.values[last[0] :]))
        return over

    def _peer_lost(self, event: events.PeerLost) -> list[Instruction]:
        if event.peer not in self.waiting:
            return []
        return self._finished(PartitionFinished(self.number, event.peer, error=event.error))

    def _cancelled(self, event: events.Cancelled) -> list[Instruction]:
        return self._failed(event.error)

    def _deadline_passed(self, event: events.DeadlinePassed) -> list[Instruction]:
        if self.error is not None:
            self._may_wait = False
            return self._answer()
        names = ", ".join(self.waiting.values())
        return self._failed(
            errors.DeadlineExceededError(None, None, f"Timed out waiting for notification: {names}")
        )

    def _failed(self, error: errors.OpError) -> list[Instruction]:
        if self.is_over or self.error is not None:
            return self._answer()
        self.error = error
        # A task that has not begun is not waited for. It is told all the same, unless nobody has
        # begun who may have sent it something: that is not to be kept for a step that never comes.
        number = self.number
        told: list[Instruction] = []
        if self._has_begun:
            told += [SendCancel(number, peer, error) for peer in self.waiting]
        for peer in self.unbegun:
            del self.waiting[peer]
        self.unbegun.clear()
        if self._has_home:
            told.append(Cancel(number, error))
        if self.waiting:
            late = isinstance(error, errors.DeadlineExceededError)
            told.append(AwaitStop(number, DEADLINE_STOP_SECONDS if late else STOP_SECONDS))
        return told + self._answer()

    def _answer(self) -> list[Instruction]:
        """Answers the client, if it is time."""
        if self._has_home or self.is_over:
            return []
        if self.waiting and (self.error is None or self._may_wait):
            return []
        self.is_over = True
        if self.error is not None:
            return [PUBLISH, Fail(self.number, self.error)]
        return [PUBLISH, Reply(self.number)]


_Event = TypeVar("_Event", bound=MasterEvent)
_Rule = Callable[[MasterStep, _Event], list[Instruction]]
_RULES: dict[type, _Rule] = {  # type: ignore[type-arg]
    events.StepRequested: MasterStep._requested,
    events.RepetitionRequested: MasterStep._repetition_requested,
    events.LastRoundRequested: MasterStep._last_round_requested,
    events.ValuesWanted: MasterStep._wanted,
    events.SnapshotMissed: MasterStep._snapshot_missed,
    events.VariablesPublished: MasterStep._published,
    events.ValuesMade: MasterStep._made,
    PartitionFinished: MasterStep._finished,
    events.PeerLost: MasterStep._peer_lost,
    events.Cancelled: MasterStep._cancelled,
    events.DeadlinePassed: MasterStep._deadline_passed,
}
