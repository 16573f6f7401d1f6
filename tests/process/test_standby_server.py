"""`millrace server --standby-of`: a standby without a launcher, in processes of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import millrace as tf
from millrace.core import errors
from millrace.platform.ports import HeldPorts
from millrace.rpc.service import Connection

TIMEOUT_SECONDS = 120.0


class Job:
    """A ps, its standbys and a worker, whose server also keeps who serves."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held = HeldPorts(2)
        self.ps, self.worker = self._held.addresses
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, job: str, *more: str) -> None:
        cluster = json.dumps({"ps": [self.ps], "worker": [self.worker]})
        command = [sys.executable, "-m", "millrace", "server", "--cluster", cluster]
        environment = {**os.environ, "MILLRACE_VIEWS": self.worker}
        with (self._folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [*command, "--job", job, "--task", "0", *more],
                stdout=log,
                stderr=log,
                env=environment,
            )

    def phase(self, address: str) -> dict[str, Any]:
        connection = Connection(address)
        try:
            found: dict[str, Any] = json.loads(connection.status(2.0)).get("replica", {})
            return found
        except (errors.OpError, ValueError):
            return {}
        finally:
            connection.close()

    def until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"waited in vain: {what}\n{self.logs()}"
            time.sleep(0.05)

    def logs(self) -> str:
        return "\n".join(
            f"== {path.name}\n{path.read_text()[-2000:]}"
            for path in sorted(self._folder.glob("*.log"))
        )

    def close(self) -> None:
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        self._held.close()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    found = Job(tmp_path)
    yield found
    found.close()


def test_a_standby_takes_over_from_a_killed_server_with_queue_and_variable(job: Job) -> None:
    job.start("worker", "worker")
    job.start("ps", "ps")
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            v = tf.get_variable("v", initializer=0)
            queue = tf.FIFOQueue(10, [tf.int32], [[]], shared_name="q")
            add, put, taken = tf.assign_add(v, 1), queue.enqueue_many([[1, 2, 3]]), queue.dequeue()
        with tf.Session(f"grpc://{job.worker}") as session:
            session.run(tf.global_variables_initializer())
            session.run(put)
            assert session.run(taken) == 1
            assert session.run(add) == 1
            job.start("standby", "ps", "--standby-of", job.ps)
            job.until(lambda: job.phase(job.ps).get("phase") == "paired", "a standby is in step")
            standby = job.phase(job.ps)["standby"]
            assert session.run(add) == 2
            job.processes["ps"].kill()
            job.until(lambda: job.phase(standby).get("role") == "primary", "the standby serves")
            # A plain session gets one recoverable error.
            with pytest.raises(errors.RECOVERABLE):
                session.run(add)
        with tf.Session(f"grpc://{job.worker}") as session:
            assert session.run(taken) == 2
            found = session.run(add)
            # The step that failed was not acknowledged; it may have come before the end.
            assert found in (3, 4), found
        # The dead server's next process follows the one that serves.
        job.start("ps", "ps", "--standby-of", standby)
        job.until(lambda: job.phase(standby).get("phase") == "paired", "the next one is in step")


def test_a_standby_without_somebody_who_says_who_serves_is_refused(job: Job) -> None:
    command = [sys.executable, "-m", "millrace", "server", "--job", "ps", "--task", "0"]
    cluster = json.dumps({"ps": [job.ps], "worker": [job.worker]})
    environment = {k: v for k, v in os.environ.items() if k != "MILLRACE_VIEWS"}
    said = subprocess.run(
        [*command, "--cluster", cluster, "--standby-of", job.ps],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert said.returncode == 1
    assert "set MILLRACE_VIEWS to the address of another task" in said.stderr


def moved(job: Job, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "millrace", "move", "ps:0", *more, f"grpc://{job.worker}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)


def test_a_server_moves_while_it_trains_and_no_step_fails(job: Job) -> None:
    job.start("worker", "worker")
    job.start("ps", "ps")
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            step = tf.train.get_or_create_global_step()
            add = tf.assign_add(step, 1)
        with tf.train.MonitoredTrainingSession(f"grpc://{job.worker}") as session:
            assert session.run(add) == 1
            alone = moved(job)
            assert alone.returncode == 1 and "has no standby in step" in alone.stderr, alone
            job.start("standby", "ps", "--standby-of", job.ps)
            job.until(lambda: job.phase(job.ps).get("phase") == "paired", "a standby is in step")
            elsewhere = moved(job, "nowhere.example")
            assert elsewhere.returncode == 1 and "not on nowhere.example" in elsewhere.stderr
            with ThreadPoolExecutor() as pool:
                moving = pool.submit(moved, job)
                count = 1
                while not moving.done() or count < 20:
                    count += 1
                    assert session.run(add) == count
            assert moving.result().returncode == 0, (moving.result(), job.logs())
            assert f"was: {job.ps}" in moving.result().stdout
            assert session.run(add) == count + 1
        assert job.processes["ps"].wait(TIMEOUT_SECONDS) == 0, job.logs()
