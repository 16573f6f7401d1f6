"""Tasks as processes that report in lines, for the benchmarks that start clusters."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pathlib
import queue
import signal
import socket
import subprocess
import threading
from typing import Any

from rich.console import Console

HERE = pathlib.Path(__file__).parent
#: How long a cluster may take to become warm, or a worker to report.
TIMEOUT = 180.0


#: They hold ports for servers that start later: see millrace/platform/ports.py.
_HOLDERS: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Ports that nobody else is given while this process runs."""
    ports = []
    for _ in range(count):
        holder = socket.socket()
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        _HOLDERS.append(holder)
        ports.append(holder.getsockname()[1])
    return ports


def environment_of(library: str) -> dict[str, str]:
    """The environment in which a library's tasks run: what a user would have."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    # TensorFlow's bytecode is there already; Millrace's must be allowed to be.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPATH"] = str(HERE.parent) if library == "millrace" else ""
    if library == "pytorch":
        environment.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does for several processes
    return environment


def wide_console() -> Console:
    """A console on which the tables fit, also where the output goes to a file."""
    console = Console()
    return console if console.is_terminal else Console(width=120)


#: prctl's number for the signal that a process gets when the one that started it is gone.
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """However a benchmark is ended, its tasks end with it: also those that are stopped."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Task:
    """One process of a cluster; its lines that begin with @ are reports.

    It may be wrapped: what was started then only waits for the process that is meant.
    """

    def __init__(self, command: list[str], environment: dict[str, str], log: Any) -> None:
        self.log = log
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            text=True, env=environment, cwd=HERE, preexec_fn=_end_with_parent, process_group=0,
        )  # fmt: skip
        self._reports: queue.Queue[dict | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            if line.startswith("@"):
                self._reports.put(json.loads(line[1:]))
        self._reports.put(None)

    @property
    def has_news(self) -> bool:
        """Whether `report` has something to give, or to raise, at once."""
        return not self._reports.empty()

    def report(self) -> dict:
        """The next report of this task.

        Raises:
          RuntimeError: It ended, or was silent for too long; with the end of its log.
        """
        try:
            found = self._reports.get(timeout=TIMEOUT)
        except queue.Empty:
            found = None
        if found is None:
            self.log.flush()
            text = pathlib.Path(self.log.name).read_text(errors="replace")
            raise RuntimeError(
                f"{' '.join(self.process.args[1:5])} did not report:\n{text[-2500:]}"
            )
        return found

    def ask(self) -> None:
        """Asks for a report on how far it is."""
        self.process.stdin.write("step\n")
        self.process.stdin.flush()

    def signal(self, number: int) -> None:
        """Sends a signal to the process, and to what it is wrapped in."""
        os.killpg(self.process.pid, number)

    @property
    def _pid(self) -> int:
        """The process itself: the only child of what wraps it, if something does."""
        pid = self.process.pid
        command = pathlib.Path(f"/proc/{pid}/comm").read_text()
        while command.strip() in ("ip", "unshare"):
            (child,) = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            pid = int(child)
            command = pathlib.Path(f"/proc/{pid}/comm").read_text()
        return pid

    def peak_bytes(self) -> int:
        """The largest resident set so far."""
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{self._pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        return 0

    def cpu_seconds(self) -> float:
        """The CPU time of all its threads so far."""
        text = pathlib.Path(f"/proc/{self._pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()  # The name before it may hold anything.
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)  # which a stopped one hears, too
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                stream.close()
