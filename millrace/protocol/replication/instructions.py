"""What the state machines of a task and its standby want done: in the imperative."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from millrace.protocol.replication.view import Member, View


class Release(NamedTuple):
    """Tell what was held back."""

    answer: Hashable


class SendSnapshot(NamedTuple):
    """Send a standby the state as it is now, then every change after it."""

    standby: Member


class Dismiss(NamedTuple):
    """Close the connection with a standby: it may ask again."""

    standby: Member
    reason: str


class ProposeView(NamedTuple):
    """Replace the view before this one in the register; tell what is there then."""

    view: View


class ReadView(NamedTuple):
    """Read the register; tell what is there."""


class Fence(NamedTuple):
    """Serve no more: another process is the primary. Nothing that is held is ever told."""

    view: View


class Acknowledge(NamedTuple):
    """Tell the primary that all changes up to this one are here."""

    sequence: int


class Apply(NamedTuple):
    """Apply a change, after those before it; tell when it is done."""

    sequence: int


class StartOver(NamedTuple):
    """Forget all state, and ask for a snapshot again."""

    reason: str


class Serve(NamedTuple):
    """Be the primary of the task from now on, under a new incarnation."""

    view: View


PrimaryInstruction = Release | SendSnapshot | Dismiss | ReadView | ProposeView | Fence
StandbyInstruction = Acknowledge | Apply | ReadView | ProposeView | StartOver | Serve
