"""What happens to a task and its standby, as their state machines are told: in the past tense."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from millrace.protocol.replication.view import Member, View


class AnswerReady(NamedTuple):
    """The primary could tell somebody something that depends on its state.

    Attributes:
      answer: What; only the driver looks into it.
    """

    answer: Hashable


class StandbyArrived(NamedTuple):
    """A process wants to become the standby."""

    standby: Member


class Acknowledged(NamedTuple):
    """A standby has all changes up to this one."""

    standby: Member
    sequence: int


class StandbyLost(NamedTuple):
    """Nothing more comes from a standby, or it asks for nothing more."""

    standby: Member


class PauseNoticed(NamedTuple):
    """This process was stopped for a while: another may be the primary by now."""


class MoveRequested(NamedTuple):
    """The standby is to take over in an orderly way."""


class ViewRead(NamedTuple):
    """The register holds this view: after a proposal, or because somebody says so."""

    view: View


class SnapshotReceived(NamedTuple):
    """The standby has the whole state as it was after this change."""

    sequence: int


class ChangeReceived(NamedTuple):
    """A change has arrived at the standby."""

    sequence: int


class ChangeApplied(NamedTuple):
    """The standby has applied a change."""

    sequence: int


class StateDiffered(NamedTuple):
    """The standby cannot apply a change, or its state is not the primary's."""

    reason: str


class PrimaryLost(NamedTuple):
    """Nothing more comes from the primary."""


PrimaryEvent = (
    AnswerReady
    | StandbyArrived
    | Acknowledged
    | StandbyLost
    | PauseNoticed
    | MoveRequested
    | ViewRead
)
StandbyEvent = (
    SnapshotReceived | ChangeReceived | ChangeApplied | StateDiffered | PrimaryLost | ViewRead
)
