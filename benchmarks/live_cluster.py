"""A cluster of processes that trains one workload, and can be stopped and continued.

Two libraries are compared fairly on a machine whose speed changes from minute to minute only if
they take short turns: each has its cluster, and while one of them runs, the others are stopped.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import signal
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cluster_workloads import WORKLOADS
from processes import Task, environment_of, free_ports
from virtual_hosts import VirtualHosts

#: From when a cluster runs again to when it is measured: caches, connections, spinning.
SETTLING_SECONDS = 0.3


def hosts_of(ps: int, workers: int) -> dict[str, list[str]]:
    """Addresses for the tasks of a cluster, by job."""
    return by_job([f"127.0.0.1:{port}" for port in free_ports(ps + workers)], ps)


def by_job(addresses: Sequence[str], ps: int) -> dict[str, list[str]]:
    """Addresses by job: the first ones are those of ps tasks."""
    return {"ps": list(addresses[:ps]), "worker": list(addresses[ps:])}


def commands(
    python: str, library: str, name: str, hosts: Mapping[str, Sequence[str]]
) -> dict[str, list[list[str]]]:
    """What starts the tasks of a cluster, by job."""
    if library == "pytorch":
        port, ranks = hosts["worker"][0].rpartition(":")[2], len(hosts["worker"])
        line = [python, "pytorch_workload.py", name, port]
        return {"worker": [[*line, str(rank), str(ranks)] for rank in range(ranks)]}
    line = [python, "cluster_workloads.py", library, name]
    return {
        job: [[*line, job, str(i), json.dumps(hosts)] for i in range(len(places))]
        for job, places in hosts.items()
    }


class Turn(NamedTuple):
    """What one task of a cluster saw while it ran: global steps per second, and their number."""

    rate: float
    steps: int


class LiveCluster:
    """The tasks of one workload on one library, from their start to their end.

    Attributes:
      hosts: The addresses, by job.
      tasks: The processes, by job.
      start_seconds: From the start of the processes to the first step of the first worker.
    """

    def __init__(
        self,
        python: str,
        library: str,
        name: str,
        *,
        size: tuple[int, int] | None = None,
        environment: Mapping[str, str] | None = None,
        on: VirtualHosts | None = None,
    ) -> None:
        """Starts the tasks and waits until all workers train.

        Args:
          python: The interpreter.
          library: What it trains with.
          name: Of the workload.
          size: How many ps and workers, if not as many as the workload says.
          environment: In which its tasks run; what a user would have, if none is given.
          on: One host for each task, the ps tasks first; all on this machine if None.

        Raises:
          RuntimeError: A task has failed.
        """
        workload = WORKLOADS[name]
        ps, workers = size or (workload.ps, workload.workers)
        self.hosts = by_job(on.addresses, ps) if on else hosts_of(ps, workers)
        self.tasks: dict[str, list[Task]] = {"ps": [], "worker": []}
        self._stack = contextlib.ExitStack()
        folder = pathlib.Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        began = time.time()
        try:
            for job, lines in commands(python, library, name, self.hosts).items():
                for index, line in enumerate(lines):
                    path = folder / f"{job}{index}"
                    log = self._stack.enter_context(path.open("w"))
                    place = index if job == "ps" else ps + index
                    within = on.within(place) if on else ()
                    task = Task([*within, *line], {**(environment or environment_of(library))}, log)
                    self._stack.callback(task.end)
                    self.tasks[job].append(task)
            firsts = [worker.report()["first_step"] for worker in self.tasks["worker"]]
        except BaseException:
            self.end()
            raise
        self.start_seconds = min(firsts) - began

    def __enter__(self) -> LiveCluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """Ends the tasks."""
        self._stack.close()

    def _signal(self, number: int) -> None:
        for task in (*self.tasks["worker"], *self.tasks["ps"]):
            task.signal(number)

    def stop(self) -> None:
        """Lets nothing of it run until `go_on`."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Lets it run again."""
        self._signal(signal.SIGCONT)

    def loss(self) -> float | None:
        """The mean loss around the step at which losses are compared; waits for it."""
        losses = [worker.report()["loss"] for worker in self.tasks["worker"]]
        known = [loss for loss in losses if loss is not None]
        return statistics.mean(known) if known else None

    def measure(self, seconds: float) -> Turn:
        """What it does in so many seconds; it must run."""
        before = self._progress()
        time.sleep(seconds)
        after = self._progress()
        steps = after["step"] - before["step"]
        return Turn(steps / max(after["at"] - before["at"], 1e-9), steps)

    def _progress(self) -> dict:
        """The last global step that its first worker saw, and when."""
        chief = self.tasks["worker"][0]
        chief.ask()
        return chief.report()

    def turn(self, seconds: float) -> Turn:
        """Lets a stopped cluster run, settle and be measured, and stops it again."""
        self.go_on()
        try:
            time.sleep(SETTLING_SECONDS)
            return self.measure(seconds)
        finally:
            self.stop()

    def ps_bytes(self) -> int:
        """The largest resident set that one of its ps had."""
        return max((ps.peak_bytes() for ps in self.tasks["ps"]), default=0)
