"""The chief dies, or is only stopped: another worker goes on writing checkpoints, and only he."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import millrace as tf
from millrace.platform.ports import HeldPorts

PROGRAM = Path(__file__).parent / "programs" / "elected_trainer.py"
SECONDS = 180.0
CHIEF = re.compile(r"This task is the chief now, for term (\d+)")


class Job:
    """One ps and some workers, each a process with a log."""

    def __init__(self, folder: Path, workers: int, elect: str, *options: str) -> None:
        self._held = HeldPorts(1 + workers)
        ps, *others = self._held.addresses
        self.model = folder / "model"
        self._folder = folder
        self._options = [
            f"--ps_hosts={ps}",
            f"--worker_hosts={','.join(others)}",
            f"--folder={self.model}",
            *options,
        ]
        self._environment = {**os.environ, "MILLRACE_ELECT": elect, "MILLRACE_FSYNC": "0"}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, job: str, task: int, *options: str) -> None:
        name = f"{job}-{task}"
        command = [sys.executable, "-u", str(PROGRAM), f"--job_name={job}", f"--task_index={task}"]
        with self.log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*command, *self._options, *options],
                stdout=log,
                stderr=log,
                env=self._environment,
            )

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def said(self, name: str) -> str:
        return self.log(name).read_text(errors="replace")

    def terms(self, name: str) -> list[int]:
        return [int(token) for token in CHIEF.findall(self.said(name))]

    def chief(self) -> tuple[int, str]:
        """The latest term and who said that it is his."""
        return max(
            ((term, name) for name in self.processes for term in self.terms(name)),
            default=(0, ""),
        )

    def step(self) -> int:
        """The step of the newest checkpoint; -1 if there is none."""
        path = tf.train.latest_checkpoint(str(self.model))
        return -1 if path is None else int(path.rpartition("-")[2])

    def wait_for(self, condition: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + SECONDS
        while not (found := condition()):
            failed = [n for n, p in self.processes.items() if (p.poll() or 0) > 0]
            if time.monotonic() > deadline or failed:
                pytest.fail(f"{what} ({', '.join(failed) or 'nobody'} failed)\n{self.logs()}")
            time.sleep(0.02)
        return found

    def logs(self) -> str:
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')[-2500:]}"
            for path in sorted(self._folder.glob("*.log"))
        )

    def signal(self, name: str, number: int) -> None:
        self.processes[name].send_signal(number)

    def finish(self, *names: str) -> None:
        for name in names:
            try:
                code = self.processes[name].wait(SECONDS)
            except subprocess.TimeoutExpired:
                code = None
            assert code == 0, f"{name} ended with {code}\n{self.logs()}"

    def kill(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        self._held.close()


@pytest.fixture
def start_job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def start(workers: int, elect: str, *options: str) -> Job:
        jobs.append(Job(tmp_path, workers, elect, *options))
        return jobs[-1]

    yield start
    for job in jobs:
        job.kill()


def test_when_the_chief_is_killed_another_worker_goes_on_and_he_returns_as_a_worker(
    start_job: Callable[..., Job],
) -> None:
    job = start_job(2, "builtin?lease=5")
    job.start("ps", 0)
    for task in range(2):
        job.start("worker", task)
    # The program takes worker 0 for the chief, and so he is to begin with.
    job.wait_for(lambda: job.step() >= 20, "no checkpoints were written")
    term, chief = job.chief()
    other = {"worker-0": "worker-1", "worker-1": "worker-0"}[chief]
    job.signal(chief, signal.SIGKILL)
    job.processes[chief].wait()
    before = job.step()
    job.wait_for(lambda: job.chief()[0] > term, "nobody followed the chief")
    job.wait_for(lambda: job.step() > before + 20, "the new chief wrote no checkpoints")
    # He went on with the model that there was.
    steps = [int(each) for each in re.findall(r"^step (\d+)$", job.said(other), re.MULTILINE)]
    assert steps == sorted(steps)
    job.start("worker", int(chief[-1]))
    job.wait_for(
        lambda: re.search(r"The chief is the task", job.said(chief)), "he did not see a chief"
    )
    seen = job.step()
    job.wait_for(lambda: job.step() > seen + 20, "checkpoints ended when the old chief returned")


def test_a_chief_that_was_stopped_in_a_commit_cannot_finish_it(
    start_job: Callable[..., Job],
) -> None:
    """At the worst moment; tests/unit/training/test_fence.py stops one at every other."""
    job = start_job(2, "builtin?lease=2.5", "--steps=300", "--stop_in_rename")
    job.start("ps", 0)
    for task in range(2):
        job.start("worker", task)
    names = ("worker-0", "worker-1")
    old = job.wait_for(
        lambda: next((name for name in names if "stops itself" in job.said(name)), None),
        "no chief stopped itself",
    )
    term, before = max(job.terms(old)), job.step()
    job.wait_for(lambda: job.step() > before + 20, "the new chief wrote no checkpoints")
    job.signal(old, signal.SIGCONT)
    job.wait_for(
        lambda: "No checkpoint is written into" in job.said(old), "the old chief was not refused"
    )
    # He goes on as a worker, to the end.
    job.finish(*names)
    assert job.step() >= 300
    assert not list(job.model.glob("*.pending"))
    (new,) = {*names} - {old}
    assert max(job.terms(new)) > term


def test_rounds_of_synchronous_training_are_closed_by_the_new_chief(
    start_job: Callable[..., Job],
) -> None:
    job = start_job(2, "builtin?lease=5", "--sync", "--steps=100", "--elect")
    job.start("ps", 0)
    for task in range(2):
        job.start("worker", task)
    job.wait_for(lambda: job.step() >= 20, "no checkpoints were written")
    _, chief = job.chief()
    job.signal(chief, signal.SIGKILL)
    job.processes[chief].wait()
    # The other one pushes in his stead, too.
    job.finish(*({"worker-0", "worker-1"} - {chief}))
    assert job.step() == 100


def test_a_supervisor_goes_on_with_checkpoints_when_the_chief_dies(
    start_job: Callable[..., Job],
) -> None:
    job = start_job(2, "builtin?lease=5", "--supervisor")
    job.start("ps", 0)
    for task in range(2):
        job.start("worker", task)
    job.wait_for(lambda: job.step() > 0, "no checkpoints were written")
    term, chief = job.chief()
    job.signal(chief, signal.SIGKILL)
    job.processes[chief].wait()
    before = job.step()
    job.wait_for(lambda: job.step() > before, "the new chief wrote no checkpoints")
    assert job.chief()[0] > term
