"""How far ahead of the slowest worker another one may be: the rule of the consistency dial.

A worker has a clock: the steps that it has made. Before each step it asks whether it may. The dial
says how far its clock may be ahead of the slowest one's when that step is done:

    async       however far
    ssp:K       K steps, at most (stale synchronous parallel)
    sync        1 step: workers go in step
    backup:B    1 step ahead of all but the B slowest, which nobody waits for

A worker that joins begins where the slowest one is: nobody waits for what it never did.

Pure: no thread, clock of the wall or channel.
"""

from __future__ import annotations

from typing import NamedTuple

ASYNC, SSP, BACKUP, SYNC = "async", "ssp", "backup", "sync"
FORMS = "async, ssp:K, backup:B or sync"


class Dial(NamedTuple):
    """A position of the dial.

    Attributes:
      kind: ASYNC, SSP, BACKUP or SYNC.
      number: K of SSP, B of BACKUP.
    """

    kind: str = ASYNC
    number: int = 0

    @classmethod
    def parse(cls, text: str) -> Dial:
        """The position that a text names.

        Raises:
          ValueError: It names none.
        """
        kind, colon, rest = text.strip().partition(":")
        if kind in (ASYNC, SYNC) and not colon:
            return cls(kind)
        if kind in (SSP, BACKUP) and rest.isdecimal() and int(rest) >= 1:
            return cls(kind, int(rest))
        raise ValueError(
            f"{text!r} is no consistency: it is {FORMS}, with K and B whole numbers from 1 on."
        )

    def __str__(self) -> str:
        return f"{self.kind}:{self.number}" if self.kind in (SSP, BACKUP) else self.kind

    @property
    def lead(self) -> int:
        """How far ahead a worker may be when its step is done."""
        return self.number if self.kind == SSP else 1

    @property
    def left_behind(self) -> int:
        """How many of the slowest are not waited for."""
        return self.number if self.kind == BACKUP else 0


class Clocks:
    """The clocks of all workers that train.

    Attributes:
      dial: The dial's position.
    """

    def __init__(self, dial: Dial | None = None) -> None:
        self.dial = dial or Dial()
        self._clocks: dict[str, int] = {}

    def __contains__(self, worker: str) -> bool:
        return worker in self._clocks

    def __getitem__(self, worker: str) -> int:
        return self._clocks[worker]

    def join(self, worker: str) -> None:
        """A worker begins, where the slowest one is."""
        others = [clock for name, clock in self._clocks.items() if name != worker]
        self._clocks[worker] = min(others, default=0)

    def step(self, worker: str, steps: int = 1) -> None:
        """A worker has made steps."""
        self._clocks[worker] += steps

    def leave(self, worker: str) -> None:
        """A worker trains no more: nobody waits for it."""
        self._clocks.pop(worker, None)

    def _slowest(self) -> int | None:
        """The clock that counts as the slowest; None if nobody is to be waited for."""
        behind = self.dial.left_behind
        clocks = sorted(self._clocks.values())
        return clocks[behind] if behind < len(clocks) else None

    def may_step(self, worker: str) -> bool:
        """Whether a worker may make its next step now."""
        if self.dial.kind == ASYNC:
            return True
        slowest = self._slowest()
        return slowest is None or self._clocks[worker] + 1 - slowest <= self.dial.lead

    def waits_for(self, worker: str) -> list[str]:
        """The workers that one waits for."""
        slowest = self._slowest()
        if self.may_step(worker) or slowest is None:
            return []
        late = [name for name, clock in self._clocks.items() if clock <= slowest]
        # Of those that are not waited for, it is the last ones.
        late.sort(key=self._clocks.__getitem__)
        return late[self.dial.left_behind :]
