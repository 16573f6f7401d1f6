"""How many random schedules each protocol gets, in pieces that test processes share.

`MILLRACE_SCHEDULES` says how many there are of all protocols together; `make schedules` sets it.
"""

from __future__ import annotations

import os

#: So many are one test: small enough that the cores end at about the same time.
_PIECE = 125


def seeds(few: int, share: float) -> list[range]:
    """The seeds of one test, in pieces.

    Args:
      few: How many the suite tries.
      share: Which share of all schedules it gets otherwise.
    """
    asked = os.environ.get("MILLRACE_SCHEDULES")
    count = max(1, round(int(asked) * share)) if asked else few
    return [range(i, min(i + _PIECE, count)) for i in range(0, count, _PIECE)]


def named(piece: range) -> str:
    """A piece in the name of its test."""
    return f"{piece.start}-{piece.stop - 1}"
