"""Waiting for something that another task must do, and saying so.

A wait polls. Without an interval it polls often, so that a waiting task notices within half a
second; with one it keeps to it. After five seconds, and then every ten, it says what it waits for,
for how long it has waited, and what to check: no wait of this package is silent. Time and sleep
come from a `Clock`, so that tests need neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from millrace.platform import logging

#: Pauses of a wait that has no interval of its own: the first, and the longest. Each is a fifth
#: longer than the one before, so that nobody is late by more than a fifth of the wait.
_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.02, 0.5, 1.2
#: When a wait first says what it waits for, and how often from then on.
_FIRST_WORD, _NEXT_WORDS = 5.0, 10.0
#: Shorter than this is not worth a sleep.
_INSTANT = 0.001


@dataclass(frozen=True)
class Clock:
    """The time, and how to let it pass.

    Attributes:
      now: Seconds that only grow.
      sleep: Sleeps for some seconds.
      wall: Seconds since 1970, for people and for event files.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    wall: Callable[[], float] = time.time


SYSTEM_CLOCK = Clock()


class Wait:
    """One wait, from the first look to the last."""

    def __init__(
        self, interval: float | None, limit: float | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Begins to wait.

        Args:
          interval: Seconds between looks; None to look often.
          limit: Seconds to wait at most; None for no limit.
          clock: The time.
        """
        self._interval = interval
        self._limit = float("inf") if limit is None else limit
        self._clock = clock
        self._began = clock.now()
        self._began_at = clock.wall()
        self._next_word = _FIRST_WORD
        self._quick_pause = _FIRST_PAUSE

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return self._clock.now() - self._began

    def pause(self, describe: Callable[[], str]) -> bool:
        """Sleeps until the next look.

        Args:
          describe: What is waited for and what to check; asked only when it is time to say it.

        Returns:
          Whether to look again. False if the limit is reached, or would be before the next look
          of a wait with an interval.
        """
        remaining = self._limit - self.seconds
        if self._interval is not None:
            pause = self._interval
            if pause > remaining:
                return False
        else:
            if remaining <= 0:
                return False
            pause = min(self._quick_pause, remaining)
            self._quick_pause = min(_GROWTH * self._quick_pause, _LONGEST_PAUSE)
        wake_up = self.seconds + pause
        self.speak(describe)
        while (left := wake_up - self.seconds) > _INSTANT:
            # A long pause is cut where something is to be said.
            self._clock.sleep(min(left, max(self._next_word - self.seconds, _INSTANT)))
            self.speak(describe)
        return True

    def speak(self, describe: Callable[[], str]) -> None:
        """Says what is waited for, if it is time to."""
        seconds = self.seconds
        if seconds < self._next_word:
            return
        self._next_word = seconds + _NEXT_WORDS
        since = time.strftime("%H:%M:%S", time.localtime(self._began_at))
        logging.warning("Waiting for %.0f s, since %s: %s", seconds, since, describe())
