"""Waiting for one value in the thread that needs it: no books on what else waits, only the wait.

The thread reads the channels that may bring the value, where it can (`rpc.turns`), else it is told.
A wait that lasts says what it waits for, and none outlasts the step's deadline.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from millrace.core import errors
from millrace.platform import patience
from millrace.runtime import allotments
from millrace.runtime.deferred import Deferred
from millrace.runtime.step import Step


class _Arrival:
    """Is called with what was waited for, in any thread, and tells the one that waits."""

    __slots__ = ("_listener", "_told", "came")

    def __init__(self, listener: Any) -> None:
        self.came: list[Deferred] = []
        self._listener = listener
        #: Made when the thread does not read itself.
        self._told: threading.Event | None = None

    def __call__(self, deferred: Deferred) -> None:
        self.came.append(deferred)
        # Whoever is about to wait looks at `came` once more when others can tell him.
        if self._told is not None:
            self._told.set()
        if self._listener is not None:
            self._listener.wake()

    def wait(self, seconds: float) -> None:
        """Waits for it, not longer than so many seconds."""
        listener = self._listener
        if listener is None:
            self._wait_to_be_told(seconds)
        elif not listener.wait(seconds, self.came.__len__):
            with listener.following():
                self._wait_to_be_told(seconds)

    def _wait_to_be_told(self, seconds: float) -> None:
        if self._told is None:
            self._told = threading.Event()
        if not self.came:
            self._told.wait(seconds)


def wait_for(deferred: Deferred, step: Step, stage: Any) -> None:
    """Waits until it is set.

    Args:
      deferred: What is waited for.
      step: What it is a step of.
      stage: Which stage of it waits.

    Raises:
      DeadlineExceededError: The step's deadline passed before; everything else that the step does
        was ended then.
    """
    arrival = _Arrival(step.listener)
    deferred.add_callback(arrival)
    began, deadline = time.monotonic(), step.deadline
    speaker: patience.Patience | None = None
    failure: errors.OpError | None = None
    while not arrival.came:
        seconds = patience.FIRST_SECONDS if speaker is None else speaker.seconds_left()
        if deadline is not None:
            seconds = min(seconds, max(0.0, deadline - time.monotonic()))
        share = allotments.current()
        if share is not None:
            share.pause()
        try:
            arrival.wait(seconds)
        finally:
            if share is not None:
                share.resume()
        if arrival.came:
            break
        if speaker is None:
            speaker = patience.Patience("A step has waited", since=began)
        speaker.tell(lambda: _words(deferred, stage) + step.why())
        if deadline is not None and time.monotonic() >= deadline:
            failure = errors.DeadlineExceededError(
                None, None, f"Timed out waiting for {_words(deferred, stage)}"
            )
            step.cancellation.cancel(failure)  # which ends this wait too
            deadline = None
    if failure is not None:
        raise failure


def _words(deferred: Deferred, stage: Any) -> str:
    return f"{stage.name} ({deferred.waits_for or stage.node.type})"
