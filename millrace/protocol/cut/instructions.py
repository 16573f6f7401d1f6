"""What the state machines of a cut want done: typed, in the imperative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from millrace.core import errors
from millrace.protocol.cut.events import AdmittedStep, StepName, StepReport, Task

if TYPE_CHECKING:
    from millrace.protocol.cut.task import RunningPartition

# -- Of the cut's master -----------------------------------------------------------------------


class SendClose(NamedTuple):
    """Ask a task to let no step begin to change variables."""

    task: Task


class SendAdmit(NamedTuple):
    """Tell a task which steps to let go on, and to take its snapshot when they are done."""

    task: Task
    steps: Sequence[AdmittedStep]


class SendRelease(NamedTuple):
    """Tell a task that the cut is needed no more."""

    task: Task


class AwaitTasks(NamedTuple):
    """Tell, after so many seconds, that the cut is overdue."""

    seconds: float


class UseCut(NamedTuple):
    """Every task has its snapshot.

    Attributes:
      torn: Steps that may be in it by half.
    """

    torn: Sequence[StepName]


class FailCut(NamedTuple):
    """There will be no cut."""

    error: errors.OpError


# -- Of a task ---------------------------------------------------------------------------------


class SendClosed(NamedTuple):
    """Tell the cut's master what this task knows of steps."""

    number: int
    master: str
    steps: Sequence[StepReport]
    oldest: Sequence[tuple[int, int]]


class SendTaken(NamedTuple):
    """Tell the cut's master that the snapshot is taken."""

    number: int
    master: str
    torn: Sequence[StepName]


class SendRefused(NamedTuple):
    """Tell the cut's master that this task takes no part in it."""

    number: int
    master: str
    error: errors.OpError


class TakeSnapshot(NamedTuple):
    """Take the snapshot of a cut: nothing changes the variables now."""

    number: int


class DropSnapshot(NamedTuple):
    """Hold the snapshot of a cut no more."""

    number: int


class AwaitSteps(NamedTuple):
    """Tell, after so many seconds, that the cut is overdue."""

    number: int
    seconds: float


class Resume(NamedTuple):
    """Let a partition ask again whether it may change variables."""

    partition: RunningPartition


MasterCutInstruction = SendClose | SendAdmit | SendRelease | AwaitTasks | UseCut | FailCut
TaskCutInstruction = (
    SendClosed | SendTaken | SendRefused | TakeSnapshot | DropSnapshot | AwaitSteps | Resume
)
