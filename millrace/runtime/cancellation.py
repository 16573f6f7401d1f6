"""Cancelling everything that a step waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable

from millrace.core import errors


class Cancellation:
    """Callbacks to call when a step is cancelled.

    Invariant: a callback registered before `cancel` is called exactly once unless it was
    deregistered; none can be registered after.
    """

    __slots__ = ("_callbacks", "_error", "_lock", "_tokens")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[], None]] = {}
        #: How many were given out.
        self._tokens = 0
        self._error: errors.OpError | None = None

    @property
    def error(self) -> errors.OpError | None:
        """Why the step was cancelled, or None."""
        return self._error

    def register(self, callback: Callable[[], None]) -> int | None:
        """A token for `deregister`; None (and no call) when already cancelled."""
        with self._lock:
            if self._error is not None:
                return None
            token = self._tokens = self._tokens + 1
            self._callbacks[token] = callback
            return token

    def deregister(self, token: int | None) -> None:
        """Forgets a callback."""
        if token is not None:
            with self._lock:
                self._callbacks.pop(token, None)

    def forget(self) -> None:
        """Calls nobody any more: the step is over, and callbacks often hold what holds this."""
        with self._lock:
            self._callbacks.clear()

    def cancel(self, error: errors.OpError | None = None) -> None:
        """Cancels; later calls do nothing."""
        with self._lock:
            if self._error is not None:
                return
            self._error = error or errors.CancelledError(None, None, "Step was cancelled.")
            callbacks, self._callbacks = list(self._callbacks.values()), {}
        for callback in callbacks:
            callback()
