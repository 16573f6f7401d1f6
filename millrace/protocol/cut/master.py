"""One cut over several tasks, as its master knows it: events in, instructions out.

First every task is asked to let no step begin to change its variables. Once all have, which steps
are in the cut is decided: those that have begun anywhere. Each task is told which of them must
still end there, waits for these and takes its snapshot.

Invariants: a cut ends once, by `UseCut` or `FailCut`; every task that was asked is told when the
cut is needed no more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from millrace.core import errors
from millrace.protocol.cut import events
from millrace.protocol.cut.events import AdmittedStep, MasterCutEvent, StepName, StepReport, Task
from millrace.protocol.cut.instructions import (
    AwaitTasks,
    FailCut,
    MasterCutInstruction,
    SendAdmit,
    SendClose,
    SendRelease,
    UseCut,
)
from millrace.protocol.cut.task import CUT_SECONDS

#: A cut that has not come about by then is given up; tasks that wait for steps end earlier.
MASTER_SECONDS = 2 * CUT_SECONDS


class MasterCut:
    """One cut.

    Args:
      number: Its number.
      tasks: The tasks whose state it is.
      oldest: Of clients that the master knows of: all steps before this one are over.

    Attributes:
      number: Its number.
      waiting: The tasks that have not answered the last question.
      is_over: Whether it was used, or has failed.
    """

    def __init__(
        self, number: int, tasks: Collection[Task], oldest: Sequence[tuple[int, int]] = ()
    ) -> None:
        self.number = number
        self._tasks = list(tasks)
        self.waiting = set(tasks)
        self.is_over = False
        self._asked = False
        #: What the tasks have said of each step; None once it is decided which are in the cut.
        self._known: dict[StepName, dict[Task, StepReport]] | None = {}
        #: Of each client the oldest step that may not be over.
        self._oldest: dict[int, int] = dict(oldest)
        self._torn: set[StepName] = set()

    def on(self, event: MasterCutEvent) -> list[MasterCutInstruction]:
        """Something has happened; what to do now, in this order."""
        return _RULES[type(event)](self, event)

    def _requested(self, event: events.CutRequested) -> list[MasterCutInstruction]:
        self._asked = True
        return [*(SendClose(task) for task in self._tasks), AwaitTasks(MASTER_SECONDS)]

    def _closed(self, event: events.TaskClosed) -> list[MasterCutInstruction]:
        if self.is_over or self._known is None or event.task not in self.waiting:
            return []
        self.waiting.remove(event.task)
        for report in event.steps:
            self._known.setdefault((report.client, report.step), {})[event.task] = report
        for client, oldest in event.oldest:
            self._oldest[client] = max(oldest, self._oldest.get(client, 0))
        if self.waiting:
            return []
        known, self._known = self._known, None
        self.waiting = set(self._tasks)
        missing: dict[Task, list[AdmittedStep]] = {task: [] for task in self._tasks}
        for (client, step), reports in known.items():
            # A step that is over for its client is over on every task.
            if step < self._oldest.get(client, 0):
                continue
            if not any(report.has_begun for report in reports.values()):
                continue
            said = next(iter(reports.values()))
            for task in {task for report in reports.values() for task in report.tasks} | {*reports}:
                if task in missing and not (task in reports and reports[task].is_whole):
                    missing[task].append(AdmittedStep(client, step, said.master))
        return [SendAdmit(task, steps) for task, steps in missing.items()]

    def _taken(self, event: events.TaskTaken) -> list[MasterCutInstruction]:
        if self.is_over or self._known is not None or event.task not in self.waiting:
            return []
        self.waiting.remove(event.task)
        self._torn.update(event.torn)
        if self.waiting:
            return []
        self.is_over = True
        return [UseCut(sorted(self._torn))]

    def _refused(self, event: events.TaskRefused) -> list[MasterCutInstruction]:
        return self._failed(event.error) if event.task in self._tasks else []

    def _overdue(self, event: events.CutOverdue) -> list[MasterCutInstruction]:
        names = ", ".join(sorted(self.waiting))
        return self._failed(
            errors.UnavailableError(
                None,
                None,
                f"No consistent cut was taken in {MASTER_SECONDS:.0f} s: {names} did not answer.",
            )
        )

    def _used(self, event: events.CutUsed) -> list[MasterCutInstruction]:
        self.is_over = True
        return self._release()

    def _failed(self, error: errors.OpError) -> list[MasterCutInstruction]:
        if self.is_over:
            return []
        self.is_over = True
        return [*self._release(), FailCut(error)]

    def _release(self) -> list[MasterCutInstruction]:
        if not self._asked:
            return []
        self._asked = False
        return [SendRelease(task) for task in self._tasks]


_Event = TypeVar("_Event", bound=MasterCutEvent)
_Rule = Callable[[MasterCut, _Event], list[MasterCutInstruction]]
_RULES: dict[type, _Rule] = {  # type: ignore[type-arg]
    events.CutRequested: MasterCut._requested,
    events.TaskClosed: MasterCut._closed,
    events.TaskTaken: MasterCut._taken,
    events.TaskRefused: MasterCut._refused,
    events.CutOverdue: MasterCut._overdue,
    events.CutUsed: MasterCut._used,
}
