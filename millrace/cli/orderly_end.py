"""SIGTERM ends a task in order: the chief saves, no new steps, waits and loops end, exit code 143.

By default SIGTERM kills: a peer that waits for the task learns of it by a broken connection, and a
process that ends by way of the interpreter while a thread is inside XLA crashes. So a thread stops
the servers of the process, which tells all who wait, and ends the process where it stands. The main
thread may be inside XLA or its compiler: the signal reaches the thread through a pipe.

Schedulers send the signal to all tasks of a job at once. The chief needs the ps for its last
checkpoint: where they set MILLRACE_GRACE_SECONDS, a task that others use goes on serving until they
have ended, for so long at most.

A program that handles SIGTERM itself is left to do so, and so are processes that it forks.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import NoReturn

from millrace.platform import last_saves, logging
from millrace.server.server import running_servers

#: The exit code that a shell gives to a process that SIGTERM has ended.
TERMINATED = 128 + signal.SIGTERM
#: What a thread that forks has blocked before.
_mask = threading.local()
#: How long the servers have to end their steps.
_STOP_SECONDS = 2.0
#: How long a task goes on for the others' sake, and how often it looks whether it need.
GRACE = "MILLRACE_GRACE_SECONDS"
_SAVE_SECONDS = 10.0
_POLL_SECONDS = 0.1


def install() -> None:
    """Lets SIGTERM end this process in order, unless somebody handles it already."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(signal.SIGTERM, _park)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    os.register_at_fork(before=_hold, after_in_parent=_let, after_in_child=_forget)
    threading.Thread(target=_attend, args=(reading,), name="ends in order", daemon=True).start()


def _hold() -> None:
    """While the process forks: the signal is delivered once the child is a process of its own."""
    _mask.before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


def _let() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _mask.before)


def _forget() -> None:
    """In the child, which would write into the pipe of its parent."""
    if signal.getsignal(signal.SIGTERM) is _park:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _let()


def _park(number: int, frame: FrameType | None) -> None:
    """Keeps the main thread where it is: what it would do next is not wanted any more.

    But the last save may need what this thread holds: until then it goes on.
    """
    threading.Thread(target=_terminate, daemon=True).start()  # if the pipe is gone
    while not last_saves.are_due():
        threading.Event().wait()


def _attend(reading: int) -> None:
    while numbers := os.read(reading, 64):
        if signal.SIGTERM in numbers and signal.getsignal(signal.SIGTERM) is _park:
            _terminate()


def _terminate() -> None:
    """Does what is due before the end, and ends; the first caller does it."""
    if _terminating.acquire(blocking=False):  # for good
        _serve_until_unused(_grace(0.0))
        if last_saves.are_due():
            last_saves.save_all(_grace(_SAVE_SECONDS))
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)  # parks it
        end(TERMINATED)


def _grace(default: float) -> float:
    """How long the others may take; what is no number is told, and the default."""
    stated = os.environ.get(GRACE, "")
    try:
        return float(stated) if stated else default
    except ValueError:
        logging.warning("%s=%s is no number of seconds.", GRACE, stated)
        return default


def _serve_until_unused(seconds: float) -> None:
    """Lets other tasks, which have sessions here, end first."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(server.is_used for server in running_servers()):
        time.sleep(_POLL_SECONDS)


_terminating = threading.Lock()
_ending = threading.Lock()


def end(code: int) -> NoReturn:
    """Stops the servers of this process, and ends it here.

    No step begins any more, waits and loops end. But a program of XLA's that has begun cannot be
    stopped, nor can its compiler, and an interpreter that ends takes the ground from under their
    threads: the process would crash. So it does not end by way of the interpreter.
    """
    _ending.acquire()  # for good
    stopping = threading.Thread(target=_stop_all, name="stops the servers", daemon=True)
    stopping.start()
    stopping.join(_STOP_SECONDS)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _stop_all() -> None:
    for server in running_servers():
        server.stop()
