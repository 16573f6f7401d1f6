"""What happens to a step, as its state machines are told: typed, in the past tense.

`MasterStep` is told what happens to one step of a session, `TaskSteps` what happens to the
partitions of steps on one task. Some events concern both: then each is told. Errors, values and
addresses are the drivers'; nothing here is looked into beyond what the rules need.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from millrace.core import errors

#: Tells the values of a step apart.
Key = Hashable
#: The address of a task.
Peer = str
#: The peer of what happens to a machine's own partition.
HOME: Peer = ""


class PartitionFacts(NamedTuple):
    """What the rules need to know of a partition that is registered with a task.

    Attributes:
      session: The name of the session that it belongs to.
      peers: The tasks that it exchanges values with.
      awaits: The key of the one thing that it waits for; None if there is none, or more.
      keeps_values: Whether others fetch what it has made, until its master ends the step.
    """

    session: str
    peers: frozenset[Peer] = frozenset()
    awaits: Key | None = None
    keeps_values: bool = False


# -- Of one step, told to its master -----------------------------------------------------------


class StepRequested(NamedTuple):
    """The client wants the step to run."""


STEP_REQUESTED = StepRequested()


class RepetitionRequested(NamedTuple):
    """A step is to be repeated by the one task that runs it, until it fails or is ended.

    Attributes:
      step: The step.
      master: Who asks, at the task that is asked.
      facts: Of its partition there.
    """

    step: int
    master: Peer = HOME
    facts: PartitionFacts | None = None


class LastRoundRequested(NamedTuple):
    """The round of a repeated step that runs now is to be the last."""

    step: int


class SnapshotMissed(NamedTuple):
    """The master's task cannot read variables in shared memory.

    Attributes:
      key: Of the variables.
      is_gone: Whether it never will again.
    """

    key: int
    is_gone: bool


class VariablesPublished(NamedTuple):
    """A task has said where variables can be read in shared memory from now on."""

    key: int


class DeadlinePassed(NamedTuple):
    """The time of a step is up, or that which its tasks had to stop."""

    step: int


# -- Of both sides -----------------------------------------------------------------------------


class ValuesWanted(NamedTuple):
    """A partition waits for values."""

    step: int
    key: Key


class ValuesMade(NamedTuple):
    """A partition has values for another task.

    Attributes:
      step: The step.
      to: The other task.
      key: What tells them apart.
      tag: Which iteration of a loop they are of; empty outside loops.
      values: The values.
    """

    step: int
    to: Peer
    key: int
    tag: bytes
    values: Sequence[object]


class PartitionFinished(NamedTuple):
    """A partition is over, or will never be.

    Attributes:
      step: The step.
      peer: Whose; HOME for the machine's own.
      values: Its results, then what it sends with the end.
      error: What ended it, if not its last op.
      trace: When its stages ran, serialized, if that was asked for.
    """

    step: int
    peer: Peer = HOME
    values: Sequence[object] = ()
    error: errors.OpError | None = None
    trace: bytes = b""


class Cancelled(NamedTuple):
    """The step is to end, whatever it does."""

    step: int
    error: errors.OpError


class PeerLost(NamedTuple):
    """A task is gone: what it was sent may be lost, and nothing more comes from it."""

    peer: Peer
    error: errors.OpError


# -- Of the partitions on a task ---------------------------------------------------------------


class PartitionBegun(NamedTuple):
    """The master of this task begins its own partition of a step."""

    step: int
    facts: PartitionFacts


class RunRequested(NamedTuple):
    """Another task's master wants a partition run.

    Attributes:
      step: The step.
      master: Who asks.
      facts: Of the partition.
      first: The key and the values of what it begins with, if it was deferred.
      is_quick: Whether it may run in the thread that reads messages.
    """

    step: int
    master: Peer
    facts: PartitionFacts
    first: tuple[Key, Sequence[object]] | None = None
    is_quick: bool = False


class RunRefused(NamedTuple):
    """A partition was asked for that cannot run: no such graph, or other values than it takes."""

    step: int
    error: errors.OpError


class ValuesArrived(NamedTuple):
    """Another task has sent values for a step, which may not have begun, or be over."""

    step: int
    key: Key
    values: Sequence[object]
    source: Peer = HOME


class WaitAbandoned(NamedTuple):
    """The task that waited for values is gone."""

    step: int
    key: Key


class VariablesRead(NamedTuple):
    """A task has asked for variables, and these are they.

    Attributes:
      step: The step that it asked for.
      to: The task.
      key: What tells them apart.
      values: The variables.
      location: Where they can be read in shared memory from now on; empty if nowhere.
    """

    step: int
    to: Peer
    key: int
    values: Sequence[object]
    location: bytes


class StepEnded(NamedTuple):
    """The master of this task has ended a step: its own partition is forgotten."""

    step: int
    error: errors.OpError | None = None


class SessionClosed(NamedTuple):
    """A session is over, and its steps with it."""

    session: str
    error: errors.OpError


class TaskStopped(NamedTuple):
    """The task serves no more."""

    error: errors.OpError


MasterEvent = (
    StepRequested
    | RepetitionRequested
    | LastRoundRequested
    | ValuesWanted
    | ValuesMade
    | SnapshotMissed
    | VariablesPublished
    | PartitionFinished
    | PeerLost
    | Cancelled
    | DeadlinePassed
)
TaskEvent = (
    PartitionBegun
    | RunRequested
    | RunRefused
    | RepetitionRequested
    | LastRoundRequested
    | ValuesWanted
    | ValuesMade
    | ValuesArrived
    | WaitAbandoned
    | VariablesRead
    | PartitionFinished
    | PeerLost
    | Cancelled
    | StepEnded
    | SessionClosed
    | TaskStopped
)
