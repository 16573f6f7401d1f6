"""What is written down of a job while it runs: `job.json`, beside its logs.

A launcher writes it, and every command that takes a job reads it: `status`, `stop`, `logs`,
`doctor`. A link to each is kept in one folder of the user's, so that a job is found by its name,
and the newest without one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import time
from pathlib import Path
from typing import Any

from millrace.platform.atomic_file import write_atomically

FILE = "job.json"
#: The states of a job.
RUNNING, ENDED = "running", "ended"


class NoJob(LookupError):
    """There is no such job: a sentence that says so."""


@dataclasses.dataclass
class TaskRecord:
    """One task: where it serves, its process here and how that stands, its log."""

    address: str = ""
    pid: int | None = None
    host: str = ""
    log: str = ""
    serves: bool = False
    state: str = ""
    restarts: int = 0


@dataclasses.dataclass
class JobRecord:
    """A job.

    Attributes:
      name: What people call it.
      folder: Where its logs and this record are.
      launcher: How its tasks were started: ``local``, ``ssh``, ``slurm``, ...
      command: The program and its arguments.
      created: When it began, in seconds since the epoch.
      pid: The launcher's process.
      tasks: By name.
      variables: What a client must have in its environment; files, never secrets.
      state: RUNNING or ENDED.
      exit_code: After the end.
      global_step: After the end, if it is known.
      identifier: What the scheduler calls it.
      last_step: The global step at which training ends, if it is known.
    """

    name: str
    folder: str
    launcher: str
    command: list[str]
    created: float = dataclasses.field(default_factory=time.time)
    pid: int | None = None
    tasks: dict[str, TaskRecord] = dataclasses.field(default_factory=dict)
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    state: str = RUNNING
    exit_code: int | None = None
    global_step: int | None = None
    identifier: str = ""
    last_step: int | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self.folder) / FILE

    @property
    def is_running(self) -> bool:
        """Whether it has not ended; a launcher of this machine that is gone has."""
        if self.state != RUNNING:
            return False
        return self.pid is None or Path(f"/proc/{self.pid}").exists()

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses of the tasks that serve, by name."""
        return {name: task.address for name, task in self.tasks.items() if task.address}

    def save(self) -> None:
        """Writes the record, and the link to it."""
        text = json.dumps(dataclasses.asdict(self), indent=2) + "\n"
        write_atomically(str(self.path), text.encode())
        with contextlib.suppress(OSError):  # a home that cannot be written is no reason to fail
            registry().mkdir(parents=True, exist_ok=True)
            link = registry() / self.name
            link.unlink(missing_ok=True)
            link.symlink_to(self.path.absolute())


def load(path: Path) -> JobRecord:
    """Reads a record.

    Raises:
      NoJob: There is none, or it is none.
    """
    try:
        values: dict[str, Any] = json.loads(path.read_text())
        tasks = {name: TaskRecord(**each) for name, each in values.pop("tasks").items()}
        return JobRecord(tasks=tasks, **values)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise NoJob(f"{path} is no record of a job: {error}") from None


def find(name: str | None = None) -> JobRecord:
    """A job by its name, its folder or its record; the newest when nothing is said.

    Raises:
      NoJob: There is none.
    """
    if name is None:
        known = sorted(_links(), key=_age)
        if not known:
            raise NoJob("no job is known here; name one of its tasks: grpc://host:port")
        return load(known[-1])
    for path in (Path(name) / FILE, Path(name), registry() / name):
        if path.is_file():
            return load(path)
    names = sorted((path.name for path in _links()), key=lambda each: _age(registry() / each))
    newest = ", ".join(names[-3:])
    raise NoJob(f"there is no job {name}" + (f"; the newest are {newest}" if newest else ""))


def name_for(script: str) -> str:
    """A name for a new job: the program's, and the time."""
    stem = re.sub(r"[^\w.-]+", "-", Path(script).stem) or "job"
    name = f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    number = 1
    while (registry() / name).is_symlink() and number < 1000:
        number += 1
        name = f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}-{number}"
    return name


def short_name(task: str) -> str:
    """``ps:0`` for ``ps-0``: as people say it, and as it fits."""
    job, _, index = task.rpartition("-")
    return f"{job}:{index}" if job and index.isdigit() else task


def registry() -> Path:
    """The folder of links."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "millrace" / "jobs"


def _links() -> list[Path]:
    """The links whose records are still there; the others are removed."""
    found = []
    with contextlib.suppress(OSError):
        for link in registry().iterdir():
            if link.is_file():
                found.append(link)
            elif link.is_symlink():
                link.unlink()
    return found


def _age(path: Path) -> float:
    with contextlib.suppress(OSError, NoJob):
        return load(path).created
    return 0.0
