"""Which incarnation of each task counts: events in, verdicts out.

Each process of a task draws a random number, its incarnation. When a task is met with a new one,
the one before is over for good: what still speaks in its name is refused, even a process that was
cut off and does not know that it was replaced. A task that was lost and returns with the same
incarnation is welcome, but what it began before is over.
"""

from __future__ import annotations

import enum
from collections import OrderedDict

#: Incarnations that are over and remembered; nobody restarts a task that often within a job.
_MAX_OVER = 4096


class Verdict(enum.Enum):
    """What a task is when it is met."""

    NEW = "new"  # met for the first time
    KNOWN = "known"  # the incarnation that was met before
    RETURNED = "returned"  # the same incarnation, but it was lost meanwhile
    RESTARTED = "restarted"  # a new incarnation; the one before is over
    REFUSED = "refused"  # an incarnation that is over


class Membership:
    """The tasks that one task has met, by address."""

    def __init__(self) -> None:
        self._lives: dict[str, int] = {}
        self._lost: set[str] = set()
        self._over: OrderedDict[tuple[str, int], None] = OrderedDict()

    def met(self, address: str, incarnation: int) -> Verdict:
        """A task introduces itself."""
        if self.is_over(address, incarnation):
            return Verdict.REFUSED
        before = self._lives.get(address)
        was_lost = address in self._lost
        self._lives[address] = incarnation
        self._lost.discard(address)
        if before is None:
            return Verdict.NEW
        if before == incarnation:
            return Verdict.RETURNED if was_lost else Verdict.KNOWN
        self._over[address, before] = None
        while len(self._over) > _MAX_OVER:
            self._over.popitem(last=False)
        return Verdict.RESTARTED

    def lost(self, address: str) -> None:
        """A task was given up."""
        if address in self._lives:
            self._lost.add(address)

    def is_over(self, address: str, incarnation: int) -> bool:
        """Whether an incarnation was followed by another."""
        return (address, incarnation) in self._over
