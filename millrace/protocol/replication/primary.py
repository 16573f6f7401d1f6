"""The primary of a task: numbers its changes, and holds answers until they are safe.

Invariants: an answer is told only when every change before it is at the standby, or when the
register says that there is none; a primary that is not in the view tells nothing any more; nobody
is in the view as a standby who lacks a change of which anybody was told; a process that was stopped
tells nothing before it has looked whether it is the primary still.

The last is why answers begin to wait before a standby is proposed (`JOINING`), not after.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Hashable
from typing import TypeVar

from millrace.protocol.replication import events
from millrace.protocol.replication.events import PrimaryEvent
from millrace.protocol.replication.instructions import (
    Dismiss,
    Fence,
    PrimaryInstruction,
    ProposeView,
    ReadView,
    Release,
    SendSnapshot,
)
from millrace.protocol.replication.view import Member, View

#: A standby that lacks no more changes than this is about to be in step.
_NEARLY = 64


class Phase(enum.Enum):
    """How a primary stands with its standby."""

    ALONE = "alone"
    FOLLOWED = "followed"  # a standby catches up; answers do not wait for it
    JOINING = "joining"  # it has nearly all, and answers wait for it; then it is proposed
    PAIRED = "paired"  # it is in the view
    PARTING = "parting"  # it is lost, and may have taken over
    MOVING = "moving"  # it is to take over
    FENCED = "fenced"  # another process is the primary


_WAITING = frozenset((Phase.JOINING, Phase.PAIRED, Phase.PARTING, Phase.MOVING, Phase.FENCED))


class Primary:
    """One process that serves a task.

    Args:
      me: This process.
      view: The view in which it is the primary.

    Attributes:
      sequence: The number of the last change.
      acknowledged: The last change that the standby has.
      phase: How it stands with its standby.
      standby: That, in whatever phase; None when alone.
    """

    def __init__(self, me: Member, view: View) -> None:
        self._me = me
        self.view = view
        self.sequence = 0
        self.acknowledged = 0
        self.phase = Phase.ALONE
        self.standby: Member | None = None
        #: Which change the standby must have before it is proposed; None once it was proposed.
        self._joins_at: int | None = None
        #: Whether it was stopped, and has not read the register since.
        self._doubts = False
        self._held: deque[tuple[int, Hashable]] = deque()

    def changed(self) -> int:
        """The state changes; the number of the change."""
        self.sequence += 1
        return self.sequence

    @property
    def answers_wait(self) -> bool:
        """Whether an answer that is ready now would have to wait."""
        if self.phase not in _WAITING:
            return False
        behind = self.acknowledged < self.sequence
        return behind or self._doubts or self.phase is not Phase.PAIRED

    def on(self, event: PrimaryEvent) -> list[PrimaryInstruction]:
        """Something has happened; what to do now, in this order."""
        if self.phase is Phase.FENCED:
            return []
        return _RULES[type(event)](self, event)

    # -- Answers ---------------------------------------------------------------------------

    def _answer_ready(self, event: events.AnswerReady) -> list[PrimaryInstruction]:
        if not self.answers_wait:
            return [Release(event.answer)]
        self._held.append((self.sequence, event.answer))
        return self._released()

    def _released(self) -> list[PrimaryInstruction]:
        """What need not be held any more."""
        found: list[PrimaryInstruction] = []
        if self.phase in (Phase.PARTING, Phase.FENCED) or self._doubts:
            return found
        waits = self.phase in _WAITING
        while self._held and (not waits or self._held[0][0] <= self.acknowledged):
            found.append(Release(self._held.popleft()[1]))
        return found

    def _acknowledged(self, event: events.Acknowledged) -> list[PrimaryInstruction]:
        if event.standby != self.standby or self.phase in (Phase.ALONE, Phase.PARTING):
            return []
        self.acknowledged = max(self.acknowledged, event.sequence)
        if self.phase is Phase.FOLLOWED and self.sequence - self.acknowledged <= _NEARLY:
            self.phase = Phase.JOINING
            self._joins_at = self.sequence
        found = self._released()
        if self._joins_at is not None and self.acknowledged >= self._joins_at:
            self._joins_at = None
            found.append(ProposeView(self.view.followed_by(self._me, self.standby)))
        return [*found, *self._moved_on()]

    # -- Standbys --------------------------------------------------------------------------

    def _standby_arrived(self, event: events.StandbyArrived) -> list[PrimaryInstruction]:
        if self.phase is not Phase.ALONE:
            reason = "the task has a standby" if event.standby != self.standby else "asked twice"
            return [Dismiss(event.standby, reason)]
        self.phase, self.standby = Phase.FOLLOWED, event.standby
        self.acknowledged = 0
        return [SendSnapshot(event.standby)]

    def _standby_lost(self, event: events.StandbyLost) -> list[PrimaryInstruction]:
        if event.standby != self.standby or self.phase in (Phase.ALONE, Phase.PARTING):
            return []
        if self.phase is Phase.FOLLOWED or self._joins_at is not None:
            return self._go_on_alone()  # Nobody has proposed it.
        self.phase = Phase.PARTING
        return [ProposeView(self.view.followed_by(self._me))]

    def _go_on_alone(self) -> list[PrimaryInstruction]:
        self.phase, self.standby, self._joins_at = Phase.ALONE, None, None
        return self._released()

    def _pause_noticed(self, event: events.PauseNoticed) -> list[PrimaryInstruction]:
        if self.phase not in _WAITING or self._joins_at is not None:
            return []  # Nobody else can be the primary.
        self._doubts = True
        return [ReadView()]

    def _move_requested(self, event: events.MoveRequested) -> list[PrimaryInstruction]:
        if self.phase is not Phase.PAIRED:
            return []
        self.phase = Phase.MOVING
        return self._moved_on()

    def _moved_on(self) -> list[PrimaryInstruction]:
        """Once the standby has everything, hands the task over to it."""
        if self.phase is not Phase.MOVING or self.acknowledged < self.sequence:
            return []
        assert self.standby is not None
        return [*self._released(), ProposeView(self.view.followed_by(self.standby))]

    # -- Views -----------------------------------------------------------------------------

    def _view_read(self, event: events.ViewRead) -> list[PrimaryInstruction]:
        view = event.view
        if view.number < self.view.number:
            return []  # Somebody was slow to tell.
        self.view = view
        self._doubts = False
        if view.primary != self._me:
            self.phase = Phase.FENCED
            self._held.clear()
            return [Fence(view)]
        if self.phase is Phase.PARTING:
            if view.standby is None:
                return self._go_on_alone()
            # Our own proposal of it came first.
            return [ProposeView(view.followed_by(self._me))]
        if self.phase is Phase.JOINING and self._joins_at is None:
            if view.standby == self.standby:
                self.phase = Phase.PAIRED
                return self._released()
            return [ProposeView(view.followed_by(self._me, self.standby))]
        return self._moved_on() or self._released()


_Event = TypeVar("_Event", bound=PrimaryEvent)
_Rule = Callable[[Primary, _Event], list[PrimaryInstruction]]
_RULES: dict[type, _Rule] = {  # type: ignore[type-arg]
    events.AnswerReady: Primary._answer_ready,
    events.StandbyArrived: Primary._standby_arrived,
    events.Acknowledged: Primary._acknowledged,
    events.StandbyLost: Primary._standby_lost,
    events.PauseNoticed: Primary._pause_noticed,
    events.MoveRequested: Primary._move_requested,
    events.ViewRead: Primary._view_read,
}
