"""The standby of a task: receives its changes in order, applies them, and takes over once.

Invariants: changes are applied in order and without gaps; nothing is acknowledged any more once the
primary was given up; it serves only when the register names it as the primary and all that it has
received is applied.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TypeVar

from millrace.protocol.replication import events
from millrace.protocol.replication.events import StandbyEvent
from millrace.protocol.replication.instructions import (
    Acknowledge,
    Apply,
    ProposeView,
    ReadView,
    Serve,
    StandbyInstruction,
    StartOver,
)
from millrace.protocol.replication.view import Member, View


class Phase(enum.Enum):
    """How far a standby has come."""

    EMPTY = "empty"  # it waits for a snapshot
    FOLLOWING = "following"
    ALONE = "alone"  # the primary is lost, and the register says who goes on
    PROMOTED = "promoted"  # the register names it; what it has received is being applied
    SERVING = "serving"
    OVER = "over"  # it has to start over


class Standby:
    """One process that follows the primary of a task.

    Args:
      me: This process.

    Attributes:
      received: The last change that is here.
      applied: The last change that is applied.
      phase: How far it has come.
    """

    def __init__(self, me: Member) -> None:
        self._me = me
        self.received = 0
        self.applied = 0
        self.phase = Phase.EMPTY
        self._view: View | None = None

    def on(self, event: StandbyEvent) -> list[StandbyInstruction]:
        """Something has happened; what to do now, in this order."""
        if self.phase in (Phase.SERVING, Phase.OVER):
            return []
        return _RULES[type(event)](self, event)

    def _snapshot_received(self, event: events.SnapshotReceived) -> list[StandbyInstruction]:
        if self.phase is not Phase.EMPTY:
            return []
        self.phase = Phase.FOLLOWING
        self.received = self.applied = event.sequence
        return [Acknowledge(event.sequence)]

    def _change_received(self, event: events.ChangeReceived) -> list[StandbyInstruction]:
        if self.phase is not Phase.FOLLOWING:
            return []
        number = event.sequence
        if number <= self.received:
            return [Acknowledge(self.received)]
        if number > self.received + 1:
            return self._start_over(f"change {number} came after {self.received}")
        self.received = number
        return [Acknowledge(number), Apply(number)]

    def _change_applied(self, event: events.ChangeApplied) -> list[StandbyInstruction]:
        assert event.sequence == self.applied + 1, (event.sequence, self.applied)
        self.applied = event.sequence
        return self._served_when_ready()

    def _state_differed(self, event: events.StateDiffered) -> list[StandbyInstruction]:
        return self._start_over(event.reason)

    def _start_over(self, reason: str) -> list[StandbyInstruction]:
        self.phase = Phase.OVER
        return [StartOver(reason)]

    def _primary_lost(self, event: events.PrimaryLost) -> list[StandbyInstruction]:
        if self.phase is Phase.EMPTY:
            return self._start_over("the primary was lost before it had sent its state")
        if self.phase is not Phase.FOLLOWING:
            return []
        self.phase = Phase.ALONE
        return [ReadView()]

    def _view_read(self, event: events.ViewRead) -> list[StandbyInstruction]:
        view = event.view
        if self._view is not None and view.number < self._view.number:
            return []
        self._view = view
        if view.primary == self._me:
            self.phase = Phase.PROMOTED
            return self._served_when_ready()
        if self.phase is not Phase.ALONE:
            return []
        if view.standby == self._me:
            return [ProposeView(view.followed_by(self._me))]
        return self._start_over("the primary goes on without this standby")

    def _served_when_ready(self) -> list[StandbyInstruction]:
        if self.phase is not Phase.PROMOTED or self.applied < self.received:
            return []
        self.phase = Phase.SERVING
        assert self._view is not None
        return [Serve(self._view)]


_Event = TypeVar("_Event", bound=StandbyEvent)
_Rule = Callable[[Standby, _Event], list[StandbyInstruction]]
_RULES: dict[type, _Rule] = {  # type: ignore[type-arg]
    events.SnapshotReceived: Standby._snapshot_received,
    events.ChangeReceived: Standby._change_received,
    events.ChangeApplied: Standby._change_applied,
    events.StateDiffered: Standby._state_differed,
    events.PrimaryLost: Standby._primary_lost,
    events.ViewRead: Standby._view_read,
}
