"""What has happened in this process that people want to know of: saved, restored, elected.

A short, bounded list that a task's status carries. Nobody decides anything by it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import NamedTuple

_KEPT = 50


class Event(NamedTuple):
    """Something that happened.

    Attributes:
      number: Counts up in one process, so that a reader sees which are new.
      time: In seconds since the epoch.
      kind: In one word: ``saved``, ``restored``, ``elected``, ``promoted``.
      text: In a sentence.
    """

    number: int
    time: float
    kind: str
    text: str


class EventLog:
    """The last events."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[Event] = deque(maxlen=_KEPT)
        self._count = 0

    def note(self, kind: str, text: str) -> None:
        """One more."""
        with self._lock:
            self._count += 1
            self._events.append(Event(self._count, time.time(), kind, text))

    def read(self) -> list[Event]:
        """Those that are kept, the oldest first."""
        with self._lock:
            return list(self._events)


#: Of this process.
EVENTS = EventLog()
