"""Asynchronous and synchronous training on real processes: two ps tasks, three workers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.platform.ports import HeldPorts

PROGRAM = Path(__file__).parent / "programs" / "linear_trainer.py"
SECONDS = 240
PS, WORKERS = 2, 3


class Cluster:
    """The processes of one training run, with their output in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held = HeldPorts(PS + WORKERS)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def train(self, *options: str, own: dict[int, list[str]] | None = None) -> list[dict]:
        """Runs all tasks and returns what each worker printed.

        Args:
          *options: For all tasks.
          own: More options for some workers.
        """
        addresses = self._held.addresses
        shared = ["--ps", ",".join(addresses[:PS]), "--workers", ",".join(addresses[PS:]), *options]
        for task in range(PS):
            self._start("ps", task, shared)
        for task in range(WORKERS):
            self._start("worker", task, [*shared, *(own or {}).get(task, [])])
        results = [self._result(f"worker{task}") for task in range(WORKERS)]
        for task in range(PS):  # They learn that the job is over, and end by themselves.
            code = self._running[f"ps{task}"].wait(SECONDS)
            assert code == 0, f"ps{task} ended with {code}:\n{self.logs()}"
        return results

    def _start(self, job: str, task: int, options: list[str]) -> None:
        name = f"{job}{task}"
        with open(self._folder / f"{name}.log", "wb") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, str(PROGRAM), job, str(task), *options], stdout=log, stderr=log
            )

    def _result(self, name: str) -> dict:
        try:
            code = self._running[name].wait(SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        assert code == 0, f"{name} ended with {code}:\n{self.logs()}"
        said = (self._folder / f"{name}.log").read_text().splitlines()
        # Its server may have a word to say of the others, which end at the same time.
        return json.loads([line for line in said if line.startswith("{")][-1])

    def logs(self) -> str:
        return "\n".join(
            f"== {path.name}\n{path.read_text()[-3000:]}"
            for path in sorted(self._folder.glob("*.log"))
        )

    def kill(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()
        self._held.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    processes = Cluster(tmp_path)
    yield processes
    processes.kill()


def test_asynchronous_workers_share_the_steps_and_converge(cluster: Cluster) -> None:
    workers = cluster.train("--steps", "60")
    assert sum(w["batches"] for w in workers) >= 60
    assert min(w["loss"] for w in workers) < 0.5


def test_synchronous_workers_count_rounds_and_converge(cluster: Cluster) -> None:
    workers = cluster.train("--sync", "--steps", "40")
    # A round has a batch of each: the step is not the sum of the batches. Who is slow sees fewer
    # rounds than there are, and the end may come between a batch and what the worker says of it.
    last = max(workers, key=lambda w: w["step"])
    assert 38 <= last["step"] <= 41
    assert sum(w["batches"] for w in workers) >= 39 * WORKERS
    assert last["loss"] < 0.5


def test_backup_workers_let_rounds_end_without_the_slowest(cluster: Cluster) -> None:
    workers = cluster.train("--sync", "--aggregate", "2", "--steps", "40")
    assert max(w["step"] for w in workers) >= 38
    assert min(w["loss"] for w in workers) < 0.5


def test_the_others_go_on_when_the_data_of_a_worker_end(cluster: Cluster) -> None:
    workers = cluster.train("--sync", "--steps", "30", own={2: ["--batches", "5"]})
    assert workers[2]["batches"] == 5
    assert max(w["step"] for w in workers[:2]) >= 28
    # All rounds had three batches, of which the third worker gave five.
    assert sum(w["batches"] for w in workers[:2]) >= 28 * WORKERS - 5


def test_the_workers_end_when_the_data_of_the_chief_end(cluster: Cluster) -> None:
    workers = cluster.train("--sync", "--steps", "1000", own={0: ["--batches", "5"]})
    assert workers[0]["batches"] == 5
    assert all(w["step"] < 500 for w in workers)
