"""Cuts on one task: which steps may change its variables now, and when its snapshot is taken.

While a cut is being taken, the task is *closed*: a step that has changed none of its variables must
wait before it changes the first, unless the cut's master has admitted it. One that has begun to
change them goes on. When all that began or was admitted is done, nothing changes any variable: that
is when the snapshot is taken, and the task is open again.

A task remembers, of each client, the steps that are not over for the client: one that is done here
may not have begun elsewhere.

Invariants: a snapshot has all that a step changes here, or nothing of it, unless the step is named
as torn; a task is closed for at most `CUT_SECONDS`; a partition that waits is resumed once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from millrace.core import errors
from millrace.protocol.cut import events
from millrace.protocol.cut.events import StepName, StepReport, Task, TaskCutEvent
from millrace.protocol.cut.instructions import (
    AwaitSteps,
    DropSnapshot,
    Resume,
    SendClosed,
    SendRefused,
    SendTaken,
    TakeSnapshot,
    TaskCutInstruction,
)
from millrace.protocol.step.applied_steps import MAX_CLIENTS, StepAttempt

#: So long a task stays closed: then it goes on, with its snapshot or without.
CUT_SECONDS = 5.0


class _Step:
    """A step that may not be over for its client."""

    __slots__ = ("has_begun", "is_whole", "master", "tasks")

    def __init__(self, tasks: tuple[Task, ...], master: str) -> None:
        self.tasks = tasks
        self.master = master
        self.has_begun = False
        self.is_whole = False


class _Client:
    __slots__ = ("oldest", "steps")

    def __init__(self) -> None:
        self.oldest = 0
        self.steps: dict[int, _Step] = {}


class RunningPartition:
    """A run of a partition that changes variables of this task, or of a step that does elsewhere.

    Attributes:
      name: Its step; None where nobody else knows of it.
      has_entered: Whether it may change variables.
    """

    __slots__ = ("has_entered", "may_repeat", "name", "step")

    def __init__(self, name: StepName | None, step: _Step | None, may_repeat: bool) -> None:
        self.name = name
        self.step = step
        self.may_repeat = may_repeat
        self.has_entered = False


class _Cut:
    """A cut that is being taken."""

    __slots__ = ("admitted", "master", "number", "torn")

    def __init__(self, number: int, master: str) -> None:
        self.number = number
        self.master = master
        #: The steps that must still end here, with their masters; None until they are known.
        self.admitted: dict[StepName, str] | None = None
        self.torn: set[StepName] = set()


class TaskCuts:
    """All cuts that a task takes part in.

    Args:
      task: The task's name.
      max_clients: So many are remembered; those that were silent for longest are forgotten.
    """

    def __init__(self, task: Task, max_clients: int = MAX_CLIENTS) -> None:
        self._task = task
        self._max_clients = max_clients
        self._clients: OrderedDict[int, _Client] = OrderedDict()
        #: Partitions that have entered and are not over.
        self._inside = 0
        self._cut: _Cut | None = None
        self._held: list[RunningPartition] = []
        #: Masters that were lost and not heard of since.
        self._lost: set[str] = set()
        #: Cuts whose snapshots are held, with their masters.
        self._taken: dict[int, str] = {}

    @property
    def is_closed(self) -> bool:
        """Whether a cut is being taken."""
        return self._cut is not None

    # -- What partitions ask and tell ------------------------------------------------------

    def begin(
        self, attempt: StepAttempt | None, tasks: tuple[Task, ...], master: str
    ) -> RunningPartition:
        """A partition begins.

        Args:
          attempt: Which step it is of; None for one that changes nothing elsewhere.
          tasks: The tasks whose variables the step changes.
          master: The address of its master.
        """
        if attempt is None:
            return RunningPartition(None, None, False)
        self._lost.discard(master)
        number = attempt.client
        client = self._clients.get(number)
        if client is None:
            client = self._clients[number] = _Client()
            if len(self._clients) > self._max_clients:
                self._clients.popitem(last=False)
        else:
            self._clients.move_to_end(number)
        if attempt.oldest > client.oldest:
            client.oldest = attempt.oldest
            for over in [step for step in client.steps if step < attempt.oldest]:
                del client.steps[over]
        step = client.steps.get(attempt.step)
        if step is None:
            step = client.steps[attempt.step] = _Step(tasks, master)
        return RunningPartition((number, attempt.step), step, attempt.attempt > 0)

    def enter(self, partition: RunningPartition) -> bool:
        """Whether a partition may change variables now; else it is resumed when it may."""
        if partition.has_entered:
            return True
        cut, step = self._cut, partition.step
        if cut is not None and not (
            (step is not None and step.has_begun)
            or (cut.admitted is not None and partition.name in cut.admitted)
        ):
            if partition not in self._held:
                self._held.append(partition)
            return False
        partition.has_entered = True
        self._inside += 1
        if step is not None:
            step.has_begun = True
        return True

    def over(self, partition: RunningPartition, is_done: bool) -> list[TaskCutInstruction]:
        """A partition has ended.

        Args:
          partition: The partition.
          is_done: Whether it has done all that it does.
        """
        if partition in self._held:
            self._held.remove(partition)
        step, entered = partition.step, partition.has_entered
        if step is not None and (is_done or (entered and not partition.may_repeat)):
            step.is_whole = True
            if not is_done and self._cut is not None and partition.name is not None:
                self._cut.torn.add(partition.name)  # Nobody will do the rest of it.
        if entered:
            partition.has_entered = False
            self._inside -= 1
        return self._take() if self._cut is not None else []

    def forget(self, client: int) -> list[TaskCutInstruction]:
        """A client is over: what is missing of its steps never comes."""
        found = self._clients.pop(client, None)
        cut = self._cut
        if found is None or cut is None or cut.admitted is None:
            return []
        for name in [name for name in cut.admitted if name[0] == client]:
            del cut.admitted[name]
            if not (name[1] in found.steps and found.steps[name[1]].is_whole):
                cut.torn.add(name)
        return self._take()

    # -- What masters and the clock tell ---------------------------------------------------

    def on(self, event: TaskCutEvent) -> list[TaskCutInstruction]:
        """Something has happened; what to do now, in this order."""
        return _RULES[type(event)](self, event)

    def _close(self, event: events.CloseRequested) -> list[TaskCutInstruction]:
        number, master = event
        if self._cut is not None:
            return [self._refusal(number, master, "another cut is being taken")]
        self._cut = _Cut(number, master)
        reports = [
            StepReport(client, number, step.has_begun, step.is_whole, step.tasks, step.master)
            for client, known in self._clients.items()
            for number, step in known.steps.items()
            if step.has_begun or step.is_whole
        ]
        oldest = [(client, known.oldest) for client, known in self._clients.items()]
        return [SendClosed(number, master, reports, oldest), AwaitSteps(number, CUT_SECONDS)]

    def _admit(self, event: events.AdmitRequested) -> list[TaskCutInstruction]:
        cut = self._cut
        if cut is None or cut.number != event.number:
            return [self._refusal(event.number, event.master, "its time is up")]
        cut.admitted = {(step.client, step.step): step.master for step in event.steps}
        for master in self._lost.intersection(cut.admitted.values()):
            self._give_up(cut, master)
        free = [each for each in self._held if each.name in cut.admitted]
        self._held = [each for each in self._held if each.name not in cut.admitted]
        return [*map(Resume, free), *self._take()]

    def _take(self, is_overdue: bool = False) -> list[TaskCutInstruction]:
        """Takes the snapshot, if it is time."""
        cut = self._cut
        if cut is None or cut.admitted is None:
            return []
        missing = [name for name in cut.admitted if not self._is_whole(name)]
        if is_overdue:
            cut.torn.update(missing)
        elif missing or self._inside:
            return []
        self._taken[cut.number] = cut.master
        taken = SendTaken(cut.number, cut.master, sorted(cut.torn))
        return [TakeSnapshot(cut.number), taken, *self._open()]

    def _is_whole(self, name: StepName) -> bool:
        number, step = name
        client = self._clients.get(number)
        if client is None:
            return False
        found = client.steps.get(step)
        return step < client.oldest or (found is not None and found.is_whole)

    def _open(self) -> list[TaskCutInstruction]:
        self._cut = None
        held, self._held = self._held, []
        return [*map(Resume, held)]

    def _overdue(self, event: events.CutOverdue) -> list[TaskCutInstruction]:
        cut = self._cut
        if cut is None or cut.number != event.number:
            return []
        if cut.admitted is None:  # Its master says nothing.
            return self._open()
        return self._take(is_overdue=True)

    def _release(self, event: events.ReleaseRequested) -> list[TaskCutInstruction]:
        number = event.number
        is_open = self._cut is not None and self._cut.number == number
        dropped = self._taken.pop(number, None) is not None
        return [
            *([DropSnapshot(number)] if dropped else []),
            *(self._open() if is_open else []),
        ]

    def _master_lost(self, event: events.MasterLost) -> list[TaskCutInstruction]:
        master, cut = event.master, self._cut
        # None of its steps goes on: what is missing of them nobody waits for any more.
        self._lost.add(master)
        for client in self._clients.values():
            for number in [n for n, step in client.steps.items() if step.master == master]:
                del client.steps[number]
        done: list[TaskCutInstruction] = []
        for number in [n for n, of in self._taken.items() if of == master]:
            del self._taken[number]
            done.append(DropSnapshot(number))
        if cut is None:
            return done
        if cut.master == master:
            return done + self._open()
        self._give_up(cut, master)
        return done + self._take()

    def _give_up(self, cut: _Cut, master: str) -> None:
        """Waits no more for the steps of a master."""
        if cut.admitted is None:
            return
        gone = [name for name, of in cut.admitted.items() if of == master]
        for name in gone:
            del cut.admitted[name]
            if not self._is_whole(name):
                cut.torn.add(name)

    def _refusal(self, number: int, master: str, why: str) -> SendRefused:
        text = f"{self._task} takes no part in a consistent cut: {why}."
        return SendRefused(number, master, errors.UnavailableError(None, None, text))


_Event = TypeVar("_Event", bound=TaskCutEvent)
_Rule = Callable[[TaskCuts, _Event], list[TaskCutInstruction]]
_RULES: dict[type, _Rule] = {  # type: ignore[type-arg]
    events.CloseRequested: TaskCuts._close,
    events.AdmitRequested: TaskCuts._admit,
    events.ReleaseRequested: TaskCuts._release,
    events.MasterLost: TaskCuts._master_lost,
    events.CutOverdue: TaskCuts._overdue,
}
