"""A lock that steps take in the order in which they ask for it."""

from __future__ import annotations

from collections import deque

from millrace.core import errors
from millrace.protocol.attempt import Attempt


class MutexState:
    """Who holds a lock, and who waits for it.

    Invariant: somebody waits only while somebody holds it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_held = False
        self._waiting: deque[Attempt] = deque()

    # -- Events: each returns the attempts that it has settled -----------------------------

    def submit(self, attempt: Attempt) -> list[Attempt]:
        """Somebody asks for the lock."""
        if self.is_held:
            self._waiting.append(attempt)
            return []
        self.is_held = True
        attempt.succeed()
        return [attempt]

    def release(self) -> list[Attempt]:
        """The holder gives it back; the next one has it."""
        assert self.is_held
        if not self._waiting:
            self.is_held = False
            return []
        following = self._waiting.popleft()
        following.succeed()
        return [following]

    def cancel(self, attempt: Attempt) -> list[Attempt]:
        """Somebody does not want it any more."""
        if attempt.done:
            return []
        self._waiting.remove(attempt)
        attempt.fail(
            errors.CancelledError(None, None, f"Waiting for the lock {self.name} was cancelled")
        )
        return [attempt]

    def abandon(self) -> list[Attempt]:
        """The lock goes away."""
        settled = list(self._waiting)
        self._waiting.clear()
        for attempt in settled:
            attempt.fail(errors.CancelledError(None, None, f"The lock {self.name} was deleted"))
        return settled
