"""Saying what is waited for when a wait lasts, since when, and what to check."""

from __future__ import annotations

import time
from collections.abc import Callable

from millrace.platform import logging

#: A wait is silent for this long, then says so, and again after every further interval.
FIRST_SECONDS = 5.0
INTERVAL_SECONDS = 10.0


class WaitReporter:
    """One wait: when it has to speak next, and the words."""

    def __init__(
        self,
        what: str,
        clock: Callable[[], float] = time.monotonic,
        since: float | None = None,
    ) -> None:
        """Begins a wait.

        Args:
          what: Who waits, as the words begin.
          clock: The time.
          since: When the wait began, if not now: most are over before they need an object.
        """
        self._what = what
        self._clock = clock
        self._since = clock() if since is None else since
        self._next = self._since + FIRST_SECONDS

    def restart(self) -> None:
        """Something happened: the wait begins again."""
        self._since = self._clock()
        self._next = self._since + FIRST_SECONDS

    def seconds_left(self) -> float:
        """How long to wait at most before `tell` has something to say."""
        return max(0.0, self._next - self._clock())

    def tell(self, waits_for: Callable[[], str]) -> None:
        """Says what is waited for, if it is time to."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + INTERVAL_SECONDS
        waited, words = now - self._since, waits_for()
        since = time.strftime("%H:%M:%S", time.localtime(time.time() - waited))
        # Some waits know better what is missing.
        advice = (
            "" if "heck " in words else " Check that it runs, can be reached, and what it logs."
        )
        logging.warning("%s %.0f s for %s (since %s).%s", self._what, waited, words, since, advice)
