"""On which tier each compiled stage of a run was computed, so that another task can do the same.

NumPy and XLA round differently. A task that forwards what it runs to a standby notes the tiers, in
the order in which the stages ran; the standby plays them back, and gets the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator

HOST = "n"
PROGRAM = "x"


class TierChoices:
    """What one run of a stage, and of the stages inside it, has chosen.

    Args:
      played: What another task has chosen; None to note what is chosen here.
    """

    __slots__ = ("_played", "noted")

    def __init__(self, played: str | None = None) -> None:
        self.noted: list[str] = []
        self._played: Iterator[str] | None = None if played is None else iter(played)

    @property
    def is_played(self) -> bool:
        """Whether it says which tier to take."""
        return self._played is not None

    def next(self) -> str:
        """The tier that the next stage takes."""
        assert self._played is not None
        return next(self._played, HOST)

    def note(self, tier: str) -> None:
        """A stage has been computed on this tier."""
        self.noted.append(tier)
