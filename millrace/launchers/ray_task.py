"""One task of a job, as an actor of Ray: a process beside it, its lines in Ray's logs.

Loaded on the nodes. The actor finds a port of its node, then starts `millrace task` there, which
finds its place in the variables that it is given. It ends with the actor, even when that is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence

from millrace.platform.launcher import LAUNCHER
from millrace.platform.ports import HeldPorts

_GRACE_SECONDS = 10.0
_LAST_LINES = 12


class RayTask:
    """A task's process on this node.

    Args:
      name: ``worker:0``, which Ray puts before each line of its log.
      host: The address of this node that other nodes reach.
    """

    def __init__(self, name: str, host: str) -> None:
        self._name = name
        self._held = HeldPorts(1, host)
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._last: deque[str] = deque(maxlen=_LAST_LINES)

    def __repr__(self) -> str:
        return self._name

    def address(self) -> str:
        """Where the task will serve."""
        return self._held.addresses[0]

    def run(self, arguments: Sequence[str], variables: Mapping[str, str]) -> int:
        """Runs the task to its end; its exit code, as a shell tells it."""
        with self._lock:
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-m", "millrace", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={**os.environ, **variables, LAUNCHER: str(os.getpid())},
            )
        process = self._process
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._last.append(line.rstrip())
                print(line, end="", flush=True)
        code = process.wait()
        return code if code >= 0 else 128 - code

    def last_lines(self) -> list[str]:
        """What the task wrote last."""
        return list(self._last)

    def stop(self) -> None:
        """Ends the task: asks it to, and after some seconds makes it."""
        with self._lock:
            process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
