"""Runs a step so that its caller is answered at its deadline, and when Ctrl-C comes.

What computes holds its thread: a call of XLA's comes back when it is done. So a step that must be
answered in time computes in a thread of its own, and the caller waits beside it. (Ctrl-C ends a
loop that Python runs by itself: it needs no thread.) At the deadline
the step is cancelled. Stages that have not begun do not begin, and loops end within an iteration
(`ops/control_flow/loop_lowering.py`). A program of XLA's without a loop runs to its end: the error
says so, and until then its client computes nothing else (`Unfinished`).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from millrace.core import errors
from millrace.core.value import Value
from millrace.platform import exit_wait
from millrace.platform.wait_reporter import WaitReporter
from millrace.runtime import allotments, executor
from millrace.runtime.plan import Plan
from millrace.runtime.step import Step

#: How long a step that is cancelled may take to end before its caller is answered nevertheless.
_STOP_SECONDS = 0.5
#: A step that waits, and does not compute, has so long to say what it has waited for.
_TELL_SECONDS = 0.05
#: How many ops of a program are named.
_NAMED_OPS = 3


class Unfinished:
    """Computations of one client that go on although their steps are over."""

    def __init__(self) -> None:
        self._running: set[_Computation] = set()

    def add(self, computation: _Computation) -> None:
        """The caller of a computation has been answered before its end."""
        self._running.add(computation)
        exit_wait.begin(computation.done, computation.what)

        def forget() -> None:
            self._running.discard(computation)
            exit_wait.end(computation.done)

        computation.when_done(forget)

    def wait(self, step: Step) -> None:
        """Waits until there is none.

        Raises:
          DeadlineExceededError: There is one at the step's deadline.
          OpError: The step was cancelled.
        """
        if not self._running:
            return
        reporter = WaitReporter("A step has waited")
        for computation in list(self._running):
            while not computation.done.wait(_within(step, min(0.1, reporter.seconds_left()))):
                if step.cancellation.error is not None:
                    raise step.cancellation.error
                if step.deadline is not None and time.monotonic() >= step.deadline:
                    raise errors.DeadlineExceededError(
                        None,
                        None,
                        f"Timed out waiting for notification: {computation.what()} of an earlier "
                        "step, which was cancelled but cannot be stopped.",
                    )
                reporter.tell(
                    lambda c=computation: (  # type: ignore[misc]
                        f"{c.what()} of an earlier step, which was cancelled but cannot be "
                        "stopped. Check whether it can be made smaller"
                    )
                )


class _Computation:
    """A step that computes in a thread of its own."""

    def __init__(self, plan: Plan, step: Step, feeds: Sequence[object]) -> None:
        self._plan = plan
        self._step = step
        self._feeds = feeds
        self._lock = threading.Lock()
        self._then: Callable[[], None] | None = None
        self.done = threading.Event()
        self.results: list[Any] = []
        self.error: BaseException | None = None
        share = allotments.current()
        if share is not None:
            share.keep()
        self._thread = threading.Thread(
            target=self._run, args=(share,), name="millrace computes", daemon=True
        )

    def start(self) -> None:
        """Begins. Ctrl-C may come before this returns."""
        self._thread.start()

    @property
    def goes_on(self) -> bool:
        """Whether it has begun, and computes for a while after it was told to stop."""
        return not self.done.wait(_STOP_SECONDS) and self._thread.ident is not None

    def _run(self, share: allotments.Share | None) -> None:
        with allotments.sharing(share):
            try:
                self.results = executor.run(self._plan, self._step, self._feeds)
            except BaseException as error:
                self.error = error
            with self._lock:
                self.done.set()
                then = self._then
        if then is not None:
            then()

    def when_done(self, then: Callable[[], None]) -> None:
        """Calls a function at the end, or at once if that is past."""
        with self._lock:
            if not self.done.is_set():
                self._then = then
                return
        then()

    def what(self) -> str:
        """What it computes now, in words, as far as its thread shows."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        while frame is not None:
            stage = frame.f_locals.get("self")
            nodes = getattr(stage, "nodes", None)
            if frame.f_code.co_name == "run" and nodes:
                names = [f"{node.name} ({node.type})" for node in nodes[:_NAMED_OPS]]
                more = len(nodes) - len(names)
                return ", ".join(names) + (f" and {more} more ops" if more else "")
            frame = frame.f_back
        return "a computation"


def run(plan: Plan, step: Step, feeds: Sequence[object], unfinished: Unfinished) -> list[Value]:
    """As `executor.run`, but answers at the step's deadline whatever computes.

    Args:
      plan: The plan.
      step: The step.
      feeds: The values of the plan's arguments.
      unfinished: What goes on of earlier steps of the same client.

    Raises:
      DeadlineExceededError: The step's deadline has passed.
      OpError: As `executor.run`.
    """
    unfinished.wait(step)
    in_main = plan.may_hold_its_thread and threading.current_thread() is threading.main_thread()
    if step.deadline is None and not in_main:
        return executor.run(plan, step, feeds)
    computation = _Computation(plan, step, feeds)
    try:
        computation.start()
        left = _within(step)
        if not computation.done.wait(None if left is None else left + _TELL_SECONDS):
            step.cancellation.cancel(
                errors.DeadlineExceededError(
                    None, None, f"Timed out waiting for notification: {computation.what()}"
                )
            )
    except BaseException:  # Ctrl-C
        step.cancellation.cancel(errors.CancelledError(None, None, "The step was interrupted."))
        if computation.goes_on:
            unfinished.add(computation)
        raise
    if computation.goes_on:
        unfinished.add(computation)
        error = step.cancellation.error
        assert error is not None
        raise errors.error_from_code(
            error.error_code,
            f"{error.message}: a program of XLA's that has begun cannot be stopped. It goes on, "
            "and until it ends this client computes nothing else.",
        )
    if computation.error is not None:
        cause = step.cancellation.error
        if isinstance(computation.error, errors.CancelledError) and cause is not None:
            raise cause from None  # An op that was cancelled says only that it was.
        raise computation.error
    return computation.results


def _within(step: Step, seconds: float | None = None) -> float | None:
    """How long to wait at most: until the step's deadline, or so many seconds."""
    if step.deadline is None:
        return seconds
    left = max(0.0, step.deadline - time.monotonic())
    return left if seconds is None else min(seconds, left)
