"""The one way in which a thread waits for what others bring to its step.

The thread reads the channels that may bring it, where it can (`rpc.turns`), else it is told. While
it waits, another step of the same client may compute. A wait that lasts says what it waits for,
and none outlasts the step's deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from millrace.core import errors
from millrace.platform.wait_reporter import WaitReporter
from millrace.runtime import allotments
from millrace.runtime.step import Step


class Waiter:
    """Lets one thread wait until others have noted something; used again and again.

    A thread notes something before it calls `notify`, and the waiting thread looks for it again
    after it can be told: so nothing is missed.
    """

    __slots__ = ("_reporter", "_step", "_told")

    def __init__(self, step: Step) -> None:
        self._step = step
        #: Made when the thread does not read by itself.
        self._told: threading.Event | None = None
        self._reporter: WaitReporter | None = None

    def notify(self) -> None:
        """Tells the thread that something has come; called in any thread."""
        told = self._told
        if told is not None:
            told.set()
        if self._step.listener is not None:
            self._step.listener.wake()

    def wait(
        self, has_come: Callable[[], int], waits_for: Callable[[], str]
    ) -> errors.OpError | None:
        """Waits until something has come, or the step's deadline has passed.

        Args:
          has_come: Whether something has.
          waits_for: What is waited for, in words.

        Returns:
          The error, if the deadline has passed; every wait of the step was ended with it then.
        """
        step, reporter = self._step, self._reporter
        if reporter is None:
            reporter = self._reporter = WaitReporter("A step has waited")
        else:
            reporter.restart()
        while not has_come():
            seconds = reporter.seconds_left()
            if step.deadline is not None:
                seconds = min(seconds, max(0.0, step.deadline - time.monotonic()))
            self._pause(seconds, has_come, may_read=True)
            if has_come():
                break
            reporter.tell(lambda: waits_for() + step.why())
            if step.deadline is not None and time.monotonic() >= step.deadline:
                if step.cancellation.error is None:
                    error = errors.DeadlineExceededError(
                        None, None, f"Timed out waiting for notification: {waits_for()}"
                    )
                    step.cancellation.cancel(error)  # which ends this wait too
                    return error
                # It is ended already; what is still under way tells of itself.
                self._pause(reporter.seconds_left(), has_come, may_read=True)
        return None

    def wait_beside(self, has_come: Callable[[], int]) -> None:
        """Waits until something has come, beside a thread that watches the step's deadline."""
        while not has_come():
            self._pause(None, has_come, may_read=False)

    def _pause(self, seconds: float | None, has_come: Callable[[], int], *, may_read: bool) -> None:
        share = allotments.current()
        if share is not None:  # What comes may be of a step that needs a share.
            share.pause()
        listener = self._step.listener if may_read else None
        try:
            if listener is None or seconds is None:
                self._wait_to_be_told(seconds, has_come)
            elif not listener.wait(seconds, has_come):
                with listener.following():
                    self._wait_to_be_told(seconds, has_come)
        finally:
            if share is not None:
                share.resume()

    def _wait_to_be_told(self, seconds: float | None, has_come: Callable[[], int]) -> None:
        told = self._told
        if told is None:
            told = self._told = threading.Event()
        else:
            told.clear()
        if not has_come():
            told.wait(seconds)
