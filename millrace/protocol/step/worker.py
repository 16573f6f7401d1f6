"""The partitions of steps on one task: events in, instructions out.

A step is heard of in any order. Values may come before the partition that takes them is asked for,
and after the step has ended; a step may be cancelled before it begins here. So a task remembers
the last steps that have ended, and drops what comes for them.

Invariants: a partition that was asked for is answered exactly once, by `Reply`, `Fail` or `Refuse`;
nothing waits for a step that has ended; no value is delivered to two; before anything is told that
depends on this task's variables, their snapshots are refreshed. If the task has a standby, all of
that waits until the standby has what was changed before (`Hold`).

No thread, clock or channel is here. A driver may call `on` from several threads, one at a time.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from millrace.core import errors
from millrace.protocol.step import events
from millrace.protocol.step.events import HOME, Key, PartitionFacts, Peer, TaskEvent
from millrace.protocol.step.instructions import (
    PUBLISH,
    Cancel,
    Deliver,
    EndWait,
    Execute,
    Fail,
    Hold,
    Instruction,
    Refuse,
    Reply,
    SendLost,
    SendValues,
    SendVariables,
)

#: How many steps that have ended are remembered, to drop what arrives for them.
_MAX_ENDED = 4096
#: Steps whose values are kept for others after this task's partition is over.
_MAX_KEPT = 1024
#: So many steps are remembered of those for which one other task was sent something.
_MAX_SENT = 64
#: What ops say of queues and variables that went away with their session.
_OF_WHAT_IS_GONE = (
    errors.NotFoundError,
    errors.OutOfRangeError,
    errors.FailedPreconditionError,
)


class PartitionStep:
    """One partition of a step on a task.

    Attributes:
      facts: Of the partition; None while nobody has asked for it.
      master: Whose master has; HOME for this task's own, or for one that is not a task.
      runs: Whether it runs.
      repeats: Whether it begins again when it is over.
      values: What has come for it and was not taken, by key.
      wanted: The keys of what it waits for.
      error: Why it is to stop, once it is.
    """

    __slots__ = (
        "error",
        "facts",
        "is_closed",
        "master",
        "repeats",
        "runs",
        "sources",
        "values",
        "wanted",
    )

    def __init__(self) -> None:
        self.facts: PartitionFacts | None = None
        self.master: Peer = HOME
        self.runs = False
        self.repeats = False
        self.values: dict[Key, Sequence[object]] = {}
        self.wanted: set[Key] = set()
        #: The tasks that have sent values.
        self.sources: set[Peer] = set()
        self.error: errors.OpError | None = None
        #: Whether its session was closed while it ran.
        self.is_closed = False

    def needs(self, peer: Peer) -> bool:
        """Whether it cannot end without a task."""
        facts = self.facts
        return self.runs and facts is not None and (self.master == peer or peer in facts.peers)

    def end_waits(self, step: int, error: errors.OpError) -> Iterator[EndWait]:
        """Lets nobody wait for values any more."""
        self.values.clear()
        wanted, self.wanted = self.wanted, set()
        return (EndWait(step, key, error) for key in wanted)


class TaskSteps:
    """All partitions of steps that one task knows of.

    Args:
      task: The task's name.

    Attributes:
      steps: What is known, by the step's number.
      has_standby: Whether what depends on this task's state is told only when a standby has it.
    """

    def __init__(self, task: str) -> None:
        self._task = task
        self.has_standby = False
        self.steps: dict[int, PartitionStep] = {}
        self._ended: OrderedDict[int, errors.OpError | None] = OrderedDict()
        self._kept: OrderedDict[int, None] = OrderedDict()
        #: The last steps for which each other task was sent something, with their masters. What is
        #: sent is lost with the connection if the other has not read it. While the partition that
        #: sent it runs, the loss fails it; afterwards only the master can.
        self._sent: dict[Peer, deque[tuple[int, Peer]]] = {}
        self._stopped: errors.OpError | None = None

    def on(self, event: TaskEvent) -> list[Instruction]:
        """Something has happened; what to do now, in this order."""
        return _RULES[type(event)](self, event)

    # -- What is known ---------------------------------------------------------------------

    @property
    def running(self) -> list[int]:
        """The steps whose partitions run here."""
        return [number for number, each in list(self.steps.items()) if each.runs]

    def is_running(self, step: int) -> bool:
        """Whether a partition of a step runs here."""
        found = self.steps.get(step)
        return found is not None and found.runs

    def needed(self) -> set[Peer]:
        """The tasks that running partitions cannot do without."""
        found: set[Peer] = set()
        for each in list(self.steps.values()):
            if each.runs and each.facts is not None:
                found.add(each.master)
                found |= each.facts.peers
        found.discard(HOME)
        return found

    # -- Beginning -------------------------------------------------------------------------

    def _begin(self, step: int, master: Peer, facts: PartitionFacts) -> errors.OpError | None:
        """Makes a partition known as one that runs; or says why it does not."""
        if self._stopped is not None:
            return self._stopped
        if step in self._ended:
            return self._ended[step] or _is_over()
        found = self.steps.get(step)
        if found is None:
            found = self.steps[step] = PartitionStep()
        elif found.facts is not None:
            return errors.InvalidArgumentError(
                None, None, f"Step {step} was asked for twice on {self._task}."
            )
        found.facts, found.master, found.runs = facts, master, True
        return None

    def _begun(self, event: events.PartitionBegun) -> list[Instruction]:
        refused = self._begin(event.step, HOME, event.facts)
        return [] if refused is None else [Refuse(event.step, refused)]

    def _run_requested(self, event: events.RunRequested) -> list[Instruction]:
        step, first, facts = event.step, event.first, event.facts
        refused = self._begin(step, event.master, facts)
        if refused is not None:
            return [Refuse(step, refused)]
        if first is None:
            return [Execute(step)]
        self.steps[step].values[first[0]] = first[1]
        return [Execute(step, event.is_quick and facts.awaits == first[0])]

    def _run_refused(self, event: events.RunRefused) -> list[Instruction]:
        step, error = event
        ended = [] if self.is_running(step) else self._forget(step, error)
        return [*ended, Refuse(step, error)]

    def _repetition_requested(self, event: events.RepetitionRequested) -> list[Instruction]:
        facts = event.facts
        assert facts is not None
        refused = self._begin(event.step, event.master, facts)
        if refused is not None:
            return [Refuse(event.step, refused)]
        self.steps[event.step].repeats = True
        return [Execute(event.step)]

    def _last_round_requested(self, event: events.LastRoundRequested) -> list[Instruction]:
        found = self.steps.get(event.step)
        if found is not None:
            found.repeats = False
        return []

    # -- Values ----------------------------------------------------------------------------

    def _wanted(self, event: events.ValuesWanted) -> list[Instruction]:
        step, key = event
        found = self.steps.get(step)
        if found is None:
            if step in self._ended:
                return [EndWait(step, key, self._ended[step] or _is_over())]
            found = self.steps[step] = PartitionStep()
        values = found.values.pop(key, None)
        if values is not None:
            return [Deliver(step, key, values)]
        if found.error is not None:
            return [EndWait(step, key, found.error)]
        found.wanted.add(key)
        return []

    def _arrived(self, event: events.ValuesArrived) -> list[Instruction]:
        step, key, values, source = event
        found = self.steps.get(step)
        if found is None:
            if step in self._ended:
                return []
            found = self.steps[step] = PartitionStep()
        elif found.error is not None:
            return []
        found.sources.add(source)
        if key in found.wanted:
            found.wanted.remove(key)
            return [Deliver(step, key, values)]
        found.values[key] = values
        return []

    def _wait_abandoned(self, event: events.WaitAbandoned) -> list[Instruction]:
        step, key = event
        found = self.steps.get(step)
        if found is None or key not in found.wanted:
            return []
        found.wanted.remove(key)
        if found.facts is None and not found.wanted and not found.values:
            del self.steps[step]
        return [EndWait(step, key, errors.CancelledError(None, None, "Nobody waits any more."))]

    def _made(self, event: events.ValuesMade) -> list[Instruction]:
        found = self.steps.get(event.step)
        # A master notices by itself that a connection of its own is lost.
        if found is not None and found.master not in (HOME, event.to):
            sent = self._sent.get(event.to)
            if sent is None:
                sent = self._sent[event.to] = deque(maxlen=_MAX_SENT)
            sent.append((event.step, found.master))
        return self._told(SendValues(*event))

    def _variables_read(self, event: events.VariablesRead) -> list[Instruction]:
        return self._told(SendVariables(*event))

    def _told(self, instruction: Instruction) -> list[Instruction]:
        """Tells others something that depends on this task's state."""
        if self.has_standby:
            return [Hold((PUBLISH, instruction))]
        return [PUBLISH, instruction]

    # -- Ending ----------------------------------------------------------------------------

    def _finished(self, event: events.PartitionFinished) -> list[Instruction]:
        step = event.step
        found = self.steps.get(step)
        if found is None or not found.runs:
            return []
        error = self._true_error(found, event.error)
        if error is None and found.repeats:
            if found.error is None:
                return [Execute(step)]
            error = found.error
        ended = self._forget(step, error)
        if error is not None:
            return [*ended, *self._told(Fail(step, error))]
        return [*ended, *self._told(Reply(step, event.values))]

    def _true_error(
        self, found: PartitionStep, error: errors.OpError | None
    ) -> errors.OpError | None:
        """What ended a partition: its ops may blame what has only followed."""
        if self._stopped is not None:
            return self._stopped  # Its variables went away under it.
        if found.is_closed and isinstance(error, _OF_WHAT_IS_GONE):
            return found.error or error  # Its queues did the same.
        return error

    def _ended_here(self, event: events.StepEnded) -> list[Instruction]:
        return self._forget(event.step, event.error)

    def _cancelled(self, event: events.Cancelled) -> list[Instruction]:
        step, error = event
        found = self.steps.get(step)
        if found is None or not found.runs:
            return self._forget(step, error)
        if found.error is not None:
            return []
        found.error = error
        return [*found.end_waits(step, error), Cancel(step, error)]

    def _forget(self, step: int, error: errors.OpError | None) -> list[Instruction]:
        """A step has ended here; what others may still ask of it is kept for a while."""
        found = self.steps.get(step)
        if found is not None and found.runs and error is None:
            assert found.facts is not None
            if found.facts.keeps_values:
                found.runs = False
                self._kept[step] = None
                if len(self._kept) <= _MAX_KEPT:
                    return []
                step, _ = self._kept.popitem(last=False)
                found = self.steps.get(step)
        self._kept.pop(step, None)
        if step not in self._ended:
            self._ended[step] = error
            if len(self._ended) > _MAX_ENDED:
                self._ended.popitem(last=False)
        if found is None:
            return []
        del self.steps[step]
        return list(found.end_waits(step, error or _is_over())) if found.wanted else []

    # -- Ends of more than one step --------------------------------------------------------

    def _peer_lost(self, event: events.PeerLost) -> list[Instruction]:
        peer, error = event
        instructions: list[Instruction] = []
        for step, found in list(self.steps.items()):
            if found.needs(peer):
                instructions += self._cancelled(events.Cancelled(step, error))
            elif found.facts is None and peer in found.sources:
                # Nobody has begun it: what was sent before the loss is not to be taken after it.
                del self.steps[step]
                instructions += found.end_waits(step, error)
        words = f"may be lost. {error.message}"
        for step, master in self._sent.pop(peer, ()):
            if master != peer and not self.is_running(step):
                lost = f"What {self._task} sent to {peer} for this step {words}"
                instructions.append(
                    SendLost(step, master, errors.UnavailableError(None, None, lost))
                )
        return instructions

    def _session_closed(self, event: events.SessionClosed) -> list[Instruction]:
        instructions: list[Instruction] = []
        for step, found in list(self.steps.items()):
            if found.runs and found.facts is not None and found.facts.session == event.session:
                found.is_closed = True
                instructions += self._cancelled(events.Cancelled(step, event.error))
        return instructions

    def _task_stopped(self, event: events.TaskStopped) -> list[Instruction]:
        self._stopped = event.error
        instructions: list[Instruction] = []
        for step in list(self.steps):
            instructions += self._cancelled(events.Cancelled(step, event.error))
        return instructions


def _is_over() -> errors.OpError:
    return errors.CancelledError(None, None, "The step is over.")


_Event = TypeVar("_Event", bound=TaskEvent)
_Rule = Callable[[TaskSteps, _Event], list[Instruction]]
_RULES: dict[type, _Rule] = {  # type: ignore[type-arg]
    events.PartitionBegun: TaskSteps._begun,
    events.RunRequested: TaskSteps._run_requested,
    events.RunRefused: TaskSteps._run_refused,
    events.RepetitionRequested: TaskSteps._repetition_requested,
    events.LastRoundRequested: TaskSteps._last_round_requested,
    events.ValuesWanted: TaskSteps._wanted,
    events.ValuesArrived: TaskSteps._arrived,
    events.WaitAbandoned: TaskSteps._wait_abandoned,
    events.ValuesMade: TaskSteps._made,
    events.VariablesRead: TaskSteps._variables_read,
    events.PartitionFinished: TaskSteps._finished,
    events.StepEnded: TaskSteps._ended_here,
    events.Cancelled: TaskSteps._cancelled,
    events.PeerLost: TaskSteps._peer_lost,
    events.SessionClosed: TaskSteps._session_closed,
    events.TaskStopped: TaskSteps._task_stopped,
}
