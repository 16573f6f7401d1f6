"""What the state machines of a step want done: typed, in the imperative.

A driver performs the instructions of an event in their order, without a lock. What cannot be
performed is an event again: a message that cannot be sent is the end of the partition that it was
for. `server.drivers.wire` says which message each `Send…` is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from millrace.core import errors
from millrace.protocol.step.events import Key, Peer
from millrace.protocol.step.remote_partitions import RemotePartition

# -- To be sent --------------------------------------------------------------------------------


class SendRun(NamedTuple):
    """Ask a task to run its partition.

    Attributes:
      step: The step.
      partition: The partition.
      first: The values that it begins with, if it was deferred.
    """

    step: int
    partition: RemotePartition
    first: Sequence[object] | None = None


class SendRead(NamedTuple):
    """Ask a task for variables of its partition."""

    step: int
    partition: RemotePartition
    key: int


class SendRepeat(NamedTuple):
    """Ask a task to run its partition again and again."""

    step: int
    partition: RemotePartition


class SendLastRound(NamedTuple):
    """Tell a task that the round that it runs is the last."""

    step: int
    partition: RemotePartition


class SendCancel(NamedTuple):
    """Tell a task that the step has failed elsewhere."""

    step: int
    to: Peer
    error: errors.OpError


class SendValues(NamedTuple):
    """Send values to a task.

    Attributes:
      step: The step.
      to: The task.
      key: What tells them apart.
      tag: Which iteration of a loop they are of.
      values: The values.
    """

    step: int
    to: Peer
    key: int
    tag: bytes
    values: Sequence[object]


class SendVariables(NamedTuple):
    """Send variables that a task has asked for, and where it can read them from now on."""

    step: int
    to: Peer
    key: int
    values: Sequence[object]
    location: bytes


class SendLost(NamedTuple):
    """Tell a master that what was sent to a task for its step may never have arrived."""

    step: int
    to: Peer
    error: errors.OpError


# -- To be done here ---------------------------------------------------------------------------


class Execute(NamedTuple):
    """Run this task's partition of a step, and tell its end.

    Attributes:
      step: The step.
      at_once: Whether it has all that it waits for, and runs in this thread.
    """

    step: int
    at_once: bool = False


class ReadPublished(NamedTuple):
    """Read variables in shared memory; tell if that cannot be."""

    step: int
    partition: RemotePartition
    key: int


class Deliver(NamedTuple):
    """Give values to the partition that waits for them."""

    step: int
    key: Key
    values: Sequence[object]


class EndWait(NamedTuple):
    """Let a partition wait no more for values: there will be none."""

    step: int
    key: Key
    error: errors.OpError


class Cancel(NamedTuple):
    """Stop this task's partition of a step."""

    step: int
    error: errors.OpError


class Publish(NamedTuple):
    """Write what has changed to the snapshots in shared memory, before anything is told of it."""


class AwaitStop(NamedTuple):
    """Tell, after so many seconds, that the other tasks have had time enough to stop."""

    step: int
    seconds: float


class Reply(NamedTuple):
    """Answer the caller: the step, or the partition, has come to its end."""

    step: int
    values: Sequence[object] = ()


class Fail(NamedTuple):
    """Answer the caller that it has failed; once, and instead of `Reply`."""

    step: int
    error: errors.OpError


class Refuse(NamedTuple):
    """Answer that a partition does not even begin; what runs here is not touched."""

    step: int
    error: errors.OpError


class Hold(NamedTuple):
    """Do this once the standby of this task has all that was changed here so far."""

    instructions: tuple[Instruction, ...]


PUBLISH = Publish()

Instruction = (
    SendRun
    | SendRead
    | SendRepeat
    | SendLastRound
    | SendCancel
    | SendValues
    | SendVariables
    | SendLost
    | Execute
    | ReadPublished
    | Deliver
    | EndWait
    | Cancel
    | Publish
    | AwaitStop
    | Reply
    | Fail
    | Refuse
    | Hold
)
