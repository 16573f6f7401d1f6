"""What happens to a cut, as its state machines are told: typed, in the past tense.

`MasterCut` is told what happens to one cut, `TaskCuts` what happens to cuts on one task. What a
partition does on a task is not an event: it asks (`TaskCuts.enter`), since every update does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from millrace.core import errors

#: A step, whatever attempt of it: the client's number and the step's.
StepName = tuple[int, int]
#: The name of a task.
Task = str


class StepReport(NamedTuple):
    """What a task knows of a step that its client has not said to be over.

    Attributes:
      client: The client's number.
      step: The step's number.
      has_begun: Whether it has changed variables of the task.
      is_whole: Whether it has done there what it does.
      tasks: The tasks whose variables it changes.
      master: The address of its master.
    """

    client: int
    step: int
    has_begun: bool
    is_whole: bool
    tasks: tuple[Task, ...]
    master: str


class AdmittedStep(NamedTuple):
    """A step that a task lets go on and waits for, because it has begun on some task."""

    client: int
    step: int
    master: str


# -- Told to the cut's master ------------------------------------------------------------------


class CutRequested(NamedTuple):
    """Somebody wants the state of all tasks at one instant."""


class TaskClosed(NamedTuple):
    """A task lets no step begin to change variables.

    Attributes:
      task: The task.
      steps: What it knows of steps that may not be over.
      oldest: Of each client it knows: all steps before this one are over.
    """

    task: Task
    steps: Sequence[StepReport]
    oldest: Sequence[tuple[int, int]]


class TaskTaken(NamedTuple):
    """A task has taken its snapshot.

    Attributes:
      task: The task.
      torn: Steps that may be in it by half: their worker was lost, or they took too long.
    """

    task: Task
    torn: Sequence[StepName]


class TaskRefused(NamedTuple):
    """A task takes no part in the cut."""

    task: Task
    error: errors.OpError


class CutOverdue(NamedTuple):
    """The time of a cut is up."""

    number: int


class CutUsed(NamedTuple):
    """What the cut was for is done, or will not be."""


# -- Told to a task ----------------------------------------------------------------------------


class CloseRequested(NamedTuple):
    """A master begins a cut."""

    number: int
    master: str


class AdmitRequested(NamedTuple):
    """A master knows which steps are in the cut: some of them must still end on this task."""

    number: int
    master: str
    steps: Sequence[AdmittedStep]


class ReleaseRequested(NamedTuple):
    """A master needs a cut no more, or gives it up."""

    number: int


class MasterLost(NamedTuple):
    """The task of a master is gone."""

    master: str


MasterCutEvent = CutRequested | TaskClosed | TaskTaken | TaskRefused | CutOverdue | CutUsed
TaskCutEvent = CloseRequested | AdmitRequested | ReleaseRequested | MasterLost | CutOverdue
