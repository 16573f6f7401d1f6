"""Asks the tasks of a job about once a second, for the page, in a thread of its own."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from millrace.core import errors
from millrace.data.event_file import FOLDERS_FILE
from millrace.observe import job_record
from millrace.observe.dashboard.history import History, TaskFacts
from millrace.observe.dashboard.scalars import ScalarFiles
from millrace.observe.job_record import JobRecord, NoJob, short_name
from millrace.rpc.service import Connection

_SECONDS = 1.0
_ASKS = 16


class JobWatcher:
    """Keeps the history of a job.

    Args:
      record: Gives the record of the job, as it is now.
    """

    def __init__(self, record: Callable[[], JobRecord]) -> None:
        self._record_now = record
        self._record = record()
        self._lock = threading.Lock()
        self._history = History()
        self._scalars = ScalarFiles()
        self._connections: dict[str, Connection] = {}
        self._over = threading.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor(_ASKS, "millrace dashboard")
        self._thread = threading.Thread(target=self._watch, name="millrace dashboard", daemon=True)

    def start(self) -> None:
        """Begins to ask."""
        self._thread.start()

    def close(self) -> None:
        """Asks no more."""
        self._over.set()
        self._thread.join()
        self._pool.shutdown()
        for connection in self._connections.values():
            connection.close()
        self._scalars.close()

    def state(self) -> dict[str, Any]:
        """What is known now."""
        record = self._record
        with self._lock:
            found = self._history.state()
            scalars = self._scalars.points()
        found["job"] = {
            "name": record.name,
            "launcher": record.launcher,
            "command": record.command,
            "folder": record.folder,
            "started": record.created,
            "last_step": record.last_step,
            "state": "running" if record.is_running else "ended",
            "exit_code": record.exit_code,
        }
        if found["global_step"] is None:
            found["global_step"] = record.global_step
        found["scalars"] = [
            {"run": run, "tag": tag, "points": points}
            for (run, tag), points in sorted(scalars.items())
        ]
        found["now"] = time.time()
        return found

    def log_of(self, task: str) -> Path | None:
        """The log of a task, if there is such a task and it has one."""
        with self._lock:
            name = self._history.logs().get(task)
        return Path(name) if name else None

    def _watch(self) -> None:
        while True:
            self.look()
            if self._over.wait(_SECONDS):
                return

    def look(self) -> None:
        """Asks every task once."""
        with contextlib.suppress(NoJob):
            self._record = self._record_now()
        facts = {
            short_name(name): TaskFacts(task.address, task.state, task.restarts, task.log)
            for name, task in self._record.tasks.items()
        }
        asked = {name: each.address for name, each in facts.items() if each.address}
        answers = dict(zip(asked, self._pool.map(self._ask, asked.values()), strict=True))
        with self._lock:
            self._history.add(time.time(), facts, answers)
            self._scalars.follow(_event_folders(self._record))

    def _ask(self, address: str) -> dict[str, Any] | str:
        if not self._record.is_running:
            return "the job is over"
        if address not in self._connections:
            self._connections[address] = Connection(address)
        try:
            answer = self._connections[address].status(timeout=2 * _SECONDS, observe=True)
            status: dict[str, Any] = json.loads(answer)
            return status
        except errors.OpError as error:
            return error.message
        except ValueError as error:
            return f"its answer makes no sense: {error}"


def reader_of(path: Path) -> Callable[[], JobRecord]:
    """Reads a job's record each time."""
    return lambda: job_record.load(path)


def _event_folders(record: JobRecord) -> list[str]:
    with contextlib.suppress(OSError):
        return (Path(record.folder) / FOLDERS_FILE).read_text().splitlines()
    return []
