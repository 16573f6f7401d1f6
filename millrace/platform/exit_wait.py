"""What a process waits for before it ends: threads that are inside XLA.

XLA cannot be interrupted, and a process that ends under a thread of it crashes. So the end of the
process waits for such threads, for a bounded time, and says so when that lasts.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable

from millrace.platform.wait_reporter import WaitReporter

#: XLA's compiler takes seconds. What takes longer than this is left, at the risk of a crash.
MOST_SECONDS = 60.0

_lock = threading.Lock()
_awaited: dict[threading.Event, Callable[[], str]] = {}


def begin(done: threading.Event, what: Callable[[], str]) -> None:
    """From now on the process does not end before `done` is set or `end` is called.

    Args:
      done: Is set when the thread has left XLA.
      what: Says what the thread does, for a wait that lasts.
    """
    with _lock:
        _awaited[done] = what


def end(done: threading.Event) -> None:
    """The thread has left XLA."""
    with _lock:
        _awaited.pop(done, None)


@atexit.register
def _wait() -> None:
    deadline = time.monotonic() + MOST_SECONDS
    reporter = WaitReporter("The process ends, and has waited")
    for done, what in list(_awaited.items()):
        while (left := deadline - time.monotonic()) > 0:
            if done.wait(min(max(reporter.seconds_left(), 0.01), left)):
                break
            reporter.tell(lambda what=what: f"{what()}, which cannot be stopped")  # type: ignore[misc]
