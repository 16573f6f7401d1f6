"""A process of a job: started, watched, restarted, stopped.

What it writes goes to its log, each line with the time at which it came.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import IO

from millrace.cli.job import Task
from millrace.platform.launcher import LAUNCHER

_TAIL_BYTES = 4096
#: What an Estimator says of an evaluation.
_METRICS = re.compile(r"Saving dict for global step (\d+): (?:global_step = \d+, )?(.*)")
_GRACE_SECONDS = 12.0
#: How often this task was started again.
RESTARTS = "MILLRACE_RESTARTS"
#: How long the last lines of a process that has ended may take to its log.
_LAST_LINES_SECONDS = 1.0
_TIME = "%Y-%m-%d %H:%M:%S "
_STAMP = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", re.MULTILINE)


def without_time(text: str) -> str:
    """Lines of a log as the task wrote them."""
    return _STAMP.sub("", text)


class TaskProcess:
    """One task's process, in a group of its own so that nothing of it can be left behind."""

    def __init__(self, task: Task, log_folder: Path) -> None:
        self.task = task
        self.log = log_folder / f"{task.name}.log"
        self.restarts = 0
        self.stopping = False
        self._process: subprocess.Popen[bytes] | None = None
        #: The last metrics of an evaluator.
        self._metrics = ""
        self._writer: threading.Thread | None = None

    def start(self) -> None:
        """Starts it; what it writes is added to its log."""
        out = self.log.open("ab")
        self._process = self._popen()
        assert self._process.stdout is not None
        self._writer = threading.Thread(
            target=_write_log, args=(self._process.stdout, out), daemon=True
        )
        self._writer.start()

    def _popen(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.task.command,
            # Open as long as the launcher is; a task behind ssh ends when it does.
            stdin=subprocess.PIPE if self.task.remote else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                **self.task.environment,
                LAUNCHER: str(os.getpid()),
                RESTARTS: str(self.restarts),
            },
            start_new_session=True,
        )

    @property
    def started(self) -> bool:
        """Whether it was started."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """The number of its process, if it was started."""
        return None if self._process is None else self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code, or None while it runs."""
        assert self._process is not None
        return self._process.poll()

    @property
    def state(self) -> str:
        """In a word."""
        if self.code is None:
            return "stopping" if self.stopping else "running"
        if self.code == 0:
            return "done"
        if self.stopping:
            return "stopped"
        return f"failed ({self.code})"

    def last_line(self) -> str:
        """The last line of the log; of an evaluator's, the last with metrics, if there is one."""
        try:
            with self.log.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - _TAIL_BYTES))
                text = file.read().decode(errors="replace").strip()
        except OSError:
            return ""
        if self.task.evaluates and (found := _METRICS.findall(text)):
            self._metrics = "step {}: {}".format(*found[-1])
        lines = text.splitlines()
        return self._metrics or (without_time(lines[-1]) if lines else "")

    def tail(self, count: int) -> list[str]:
        """The last lines of the log; when the process has ended, of all that it wrote."""
        if self._writer is not None and self.code is not None:
            self._writer.join(_LAST_LINES_SECONDS)
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return text.splitlines()[-count:]

    def signal(self, number: int) -> None:
        """Sends a signal to the process and all that it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def wait(self, seconds: float) -> bool:
        """Whether it ends within so many seconds."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, seconds))
            return True
        return False


def _write_log(lines: IO[bytes], out: IO[bytes]) -> None:
    with lines, out:
        for line in lines:
            out.write(time.strftime(_TIME).encode() + line)
            out.flush()


def stop_all(processes: list[TaskProcess], grace: float = _GRACE_SECONDS) -> None:
    """Ends processes: asks them to, and after `grace` seconds makes them.

    Servers are asked last: the chief needs them for its last checkpoint.
    """
    running = [p for p in processes if p.code is None]
    for process in running:
        process.stopping = True
    _stop_together([p for p in running if not p.task.serves], grace)
    _stop_together([p for p in running if p.task.serves], grace)
    for process in processes:
        process.signal(signal.SIGKILL)  # what a process started and left behind


def _stop_together(processes: list[TaskProcess], grace: float) -> None:
    for process in processes:
        process.signal(signal.SIGTERM)
    deadline = time.monotonic() + grace
    for process in processes:
        if not process.wait(deadline - time.monotonic()):
            process.signal(signal.SIGKILL)
            process.wait(grace)
