"""How the system shares the cores among the tasks of one machine."""

from __future__ import annotations

import contextlib
import os


def do_not_interrupt() -> None:
    """Lets this thread, whenever it is woken, wait until whoever has the core comes to a stop.

    A ps that answers two workers, one after the other, is otherwise put aside by the first while
    the second still waits for its answer: it then begins a whole step later than it could. How
    much of the cores the thread gets in the long run stays as it is. What it starts from now on is
    like it. Nothing happens where the system knows no such threads, or somebody has given this one
    another place already.
    """
    if not hasattr(os, "SCHED_BATCH"):
        return
    with contextlib.suppress(OSError):
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
