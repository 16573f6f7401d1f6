"""Cancelling everything that a step waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from millrace.core import errors
from millrace.core.aligned import empty

#: A loop looks at one after the other, so that no compiler can look before the loop instead.
STOP_WORDS = 16

#: What a step is told that was under way when its session was closed.
CLOSED_WHILE_RUNNING = (
    "Step was cancelled by an explicit call to `Session::Close()`. Session has been closed."
)


class Cancellation:
    """Callbacks to call when a step is cancelled.

    Invariant: a callback registered before `cancel` is called exactly once unless it was
    deregistered; none can be registered after.
    """

    __slots__ = ("_callbacks", "_error", "_lock", "_stop_words", "_tokens")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[], object]] = {}
        #: How many were given out.
        self._tokens = 0
        self._error: errors.OpError | None = None
        self._stop_words: np.ndarray | None = None

    @property
    def stop_words(self) -> np.ndarray:
        """Memory that loops of XLA programs look at: not 0 once the step is cancelled.

        It is aligned so that XLA on a CPU uses it where it is, and a loop that runs sees a change.
        """
        with self._lock:
            if self._stop_words is None:
                self._stop_words = empty((STOP_WORDS,), np.int32)
                self._stop_words[:] = self._error is not None
            return self._stop_words

    @property
    def error(self) -> errors.OpError | None:
        """Why the step was cancelled, or None."""
        return self._error

    def register(self, callback: Callable[[], object]) -> int | None:
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
            if self._stop_words is not None:
                self._stop_words[:] = 1
            callbacks, self._callbacks = list(self._callbacks.values()), {}
        for callback in callbacks:
            callback()
