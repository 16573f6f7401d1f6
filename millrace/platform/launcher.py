"""The launcher that started this process: when it ends, so does this, even if it was killed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time

#: Set for the processes of a job: the process id of their launcher, or how else it is seen to end.
LAUNCHER = "MILLRACE_LAUNCHER"
#: The launcher is on another machine: it is gone when the standard input ends.
BY_STANDARD_INPUT = "standard input"
_GRACE_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1


def end_with_launcher() -> None:
    """Lets this process end when the launcher that started it does, even if that is killed."""
    launcher = os.environ.pop(LAUNCHER, "")
    if launcher == BY_STANDARD_INPUT:
        threading.Thread(target=_end_with_standard_input, daemon=True).start()
        return
    if not launcher or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(launcher):
        raise SystemExit("the launcher of this task is gone")  # before we could ask to be told


def _end_with_standard_input() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    # Not the whole group: it may have children that a handler of SIGTERM wants to end itself.
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_SECONDS)
    os._exit(1)
