"""Who is the primary of a task, and who is in step with it: the value that both ends agree on.

A view is kept in a register that changes by compare-and-set only, and each has a number one higher
than the one that it replaces. So of a primary that wants to go on alone and a standby that wants to
take over, one succeeds.
"""

from __future__ import annotations

import json
from typing import NamedTuple


class Member(NamedTuple):
    """One process that has been, or is, a replica of a task.

    Attributes:
      address: Where it listens.
      incarnation: Of that process: another one at the same address knows nothing.
    """

    address: str
    incarnation: int


class View(NamedTuple):
    """Who serves a task, and who has all that it has acknowledged.

    Attributes:
      number: One more than that of the view before.
      primary: Who serves.
      standby: Who may take over; None while the primary is alone.
    """

    number: int
    primary: Member
    standby: Member | None = None

    def followed_by(self, primary: Member, standby: Member | None = None) -> View:
        """The next view."""
        return View(self.number + 1, primary, standby)

    def encode(self) -> bytes:
        """It as bytes."""
        standby = None if self.standby is None else list(self.standby)
        return json.dumps([self.number, list(self.primary), standby]).encode()

    @classmethod
    def decode(cls, data: bytes) -> View:
        """The view that bytes tell of.

        Raises:
          ValueError: They tell of none.
        """
        try:
            number, primary, standby = json.loads(data)
            return cls(int(number), _member(primary), None if standby is None else _member(standby))
        except (ValueError, TypeError) as error:
            raise ValueError(f"This is no view of a task's replicas: {error}") from None


def _member(told: object) -> Member:
    if not isinstance(told, list) or len(told) != 2:
        raise ValueError(f"{told!r} names no process")
    return Member(str(told[0]), int(told[1]))
