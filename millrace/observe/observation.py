"""What this process notes about its steps while somebody wants to know: times, waits, saves.

Everything else that is measured is counted anyway (`Server.status`, `tiers.COUNTS`). What is here
costs a clock's reading per step, so it is off until metrics are asked for. Nobody decides anything
by these figures.
"""

from __future__ import annotations

import bisect
import threading
from typing import NamedTuple

#: The port on which a task tells its metrics, or host:port; see `http`.
METRICS_PORT = "MILLRACE_METRICS_PORT"
#: Upper bounds of step times, in seconds: from a local step to one that waits for a straggler.
BOUNDS = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)


class Times:
    """How long something took, each time: counts by bound, and the sum."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * (len(BOUNDS) + 1)
        self._sum = 0.0
        self._last = 0.0

    def note(self, seconds: float) -> None:
        """One more."""
        with self._lock:
            self._counts[bisect.bisect_left(BOUNDS, seconds)] += 1
            self._sum += seconds
            self._last = seconds

    def read(self) -> tuple[list[int], float, float]:
        """Counts up to each bound and without one (cumulative), the sum, and the last."""
        with self._lock:
            total, found = 0, []
            for count in self._counts:
                total += count
                found.append(total)
            return found, self._sum, self._last


class Waits(NamedTuple):
    """What was waited for from one task: messages, seconds, bytes."""

    messages: int = 0
    seconds: float = 0.0
    num_bytes: int = 0


class Observation:
    """The notes of one process.

    Attributes:
      enabled: Whether anything is noted.
      steps: Times of `Session.run`.
      saves: Times of checkpoints.
    """

    def __init__(self) -> None:
        self.enabled = False
        self.steps = Times()
        self.saves = Times()
        self._lock = threading.Lock()
        self._waits: dict[str, Waits] = {}

    def note_transfer(self, source: str, num_bytes: int, seconds: float) -> None:
        """Values of another task have arrived, which a step has waited for."""
        with self._lock:
            old = self._waits.get(source, Waits())
            self._waits[source] = Waits(
                old.messages + 1, old.seconds + seconds, old.num_bytes + num_bytes
            )

    def waits(self) -> dict[str, Waits]:
        """What was waited for, by task."""
        with self._lock:
            return dict(self._waits)


#: Of this process.
OBSERVED = Observation()
