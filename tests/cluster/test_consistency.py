"""The consistency dial on real servers: the bound holds while workers are slow by chance."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest

import millrace as tf
from millrace.cli.main import main

WORKERS, STEPS = 3, 25


class Job:
    """Workers that train in threads, each as slow as chance wants it."""

    def __init__(self, cluster: Any, consistency: str | None) -> None:
        self.cluster = cluster
        self.made = [0] * WORKERS
        self.leads: list[int] = []
        self.failures: list[BaseException] = []
        self.go = threading.Event()
        self._lock = threading.Lock()
        self._joined = threading.Barrier(WORKERS)
        self._ended: set[int] = set()
        self._threads = [
            threading.Thread(target=self._work, args=(i, consistency)) for i in range(WORKERS)
        ]

    def _work(self, index: int, consistency: str | None) -> None:
        chance = random.Random(index)
        try:
            with tf.Graph().as_default():
                with tf.device("/job:ps/task:0"):
                    step = tf.train.get_or_create_global_step()
                train = tf.assign_add(step, 1)
                hooks = [] if consistency is None else [tf.train.ConsistencyHook(consistency)]
                with tf.train.MonitoredTrainingSession(
                    self.cluster.target("worker", index), is_chief=index == 0, hooks=hooks
                ) as session:
                    self._joined.wait(60)
                    while self.made[index] < STEPS:
                        session.run(train)
                        with self._lock:
                            self.made[index] += 1
                            others = [n for i, n in enumerate(self.made) if i not in self._ended]
                            self.leads.append(self.made[index] - min(others))
                        time.sleep(chance.random() * (0.02 if index == 1 else 0.002))
                    with self._lock:
                        self._ended.add(index)
        except BaseException as error:
            self.failures.append(error)
            self._joined.abort()

    def run(self) -> None:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()
        assert not self.failures
        assert self.made == [STEPS] * WORKERS


@pytest.mark.parametrize(("dial", "bound"), [("ssp:3", 3), ("sync", 1)])
def test_no_worker_is_further_ahead_than_the_dial_says(
    dial: str, bound: int, make_cluster: Any
) -> None:
    job = Job(make_cluster({"ps": 1, "worker": WORKERS}), dial)
    job.run()
    # The first step of a worker is made before the others have joined.
    assert max(job.leads[WORKERS:]) <= bound + 1


def test_the_dial_of_a_running_job_is_shown_and_turned(
    make_cluster: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = make_cluster({"ps": 1, "worker": WORKERS})
    Job(cluster, None).run()
    address = f"grpc://{cluster.spec['ps'][0]}"
    assert main(["consistency", "ssp:4", address]) == 0
    assert "consistency ssp:4" in capsys.readouterr().out
    assert main(["consistency", "ssp:none", address]) == 2
    assert "async, ssp:K, backup:B or sync" in capsys.readouterr().err
    job = Job(cluster, None)
    job.run()
    assert max(job.leads[WORKERS:]) <= 5


def test_a_synchronous_program_refuses_the_dial(
    make_cluster: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = make_cluster({"ps": 1, "worker": WORKERS})
    keeper = cluster["ps", 0]._clocks
    keeper.answer(b'{"worker": "w", "run": "1", "steps": 0, "synchronous": true}')
    address = f"grpc://{cluster.spec['ps'][0]}"
    assert main(["consistency", "ssp:4", address]) == 1
    assert "trains synchronously already" in capsys.readouterr().err
    assert main(["consistency", "async", "grpc://127.0.0.1:1"]) == 1
