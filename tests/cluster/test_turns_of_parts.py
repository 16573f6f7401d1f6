"""Parts that several workers ask a ps for at once: short ones run one after the other."""

import threading
import time
import types

import numpy as np
import pytest

import millrace as tf
from millrace.server.drivers import partition_run
from millrace.server.drivers.partition_run import PartitionRun

PS = "/job:ps/task:0"
STEPS = 20


class Watched:
    """How many parts run at a time; each stays until another one has come, or for a moment."""

    def __init__(self, monkeypatch):
        self.most = 0
        self.count = 0
        self._now = 0
        self._changed = threading.Condition()
        run = PartitionRun.run_now

        def watched(partition):
            with self._changed:
                self.count += 1
                self._now += 1
                self.most = max(self.most, self._now)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._now > 1, 0.02)
            try:
                return run(partition)
            finally:
                with self._changed:
                    self._now -= 1

        monkeypatch.setattr(PartitionRun, "run_now", watched)


def train_at_once(cluster, monkeypatch):
    """Two workers that take one from a variable again and again; what it is in the end."""
    with tf.device(PS):
        v = tf.get_variable("v", initializer=np.zeros(1000, np.float32))
    steps = []
    for worker in range(2):
        with tf.device(f"/job:worker/task:{worker}"):
            gradient = v * 0.0 + 1.0
        steps.append(tf.train.GradientDescentOptimizer(1.0).apply_gradients([(gradient, v)]))
    sessions = [tf.Session(cluster.target("worker", worker)) for worker in range(2)]
    sessions[0].run(tf.global_variables_initializer())

    def train(worker):
        for _ in range(STEPS):
            sessions[worker].run(steps[worker])

    for worker in range(2):
        train(worker)  # They know by then how long their parts take.
    watched = Watched(monkeypatch)
    threads = [threading.Thread(target=train, args=(worker,)) for worker in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sessions[0].run(v)[0] == -4 * STEPS
    for session in sessions:
        session.close()
    assert watched.count == 2 * STEPS
    return watched.most


@pytest.mark.parametrize(("limit", "at_once"), [(60.0, 1), (0.0, 2)])
def test_short_parts_run_one_after_the_other_and_long_ones_beside_each_other(
    make_cluster, monkeypatch, limit, at_once
):
    monkeypatch.setenv("MILLRACE_SPIN", "0")
    monkeypatch.setattr(partition_run, "_SHORT_SECONDS", limit)
    cluster = make_cluster({"ps": 1, "worker": 2}, "socket")
    assert train_at_once(cluster, monkeypatch) == at_once


def test_what_counts_is_the_time_of_the_processor(make_cluster, monkeypatch):
    """A part that waits for 5 ms and computes for none is short where the limit is 4 ms."""
    run = PartitionRun.run_now

    def slow(partition):
        time.sleep(0.005)
        return run(partition)

    # Under load a part may really compute for longer: the clock of the processor stands.
    clocks = types.SimpleNamespace(**{**vars(time), "thread_time": lambda: 0.0})
    monkeypatch.setattr(partition_run, "time", clocks)
    monkeypatch.setattr(PartitionRun, "run_now", slow)
    monkeypatch.setattr(partition_run, "_SHORT_SECONDS", 0.004)
    monkeypatch.setenv("MILLRACE_SPIN", "0")
    cluster = make_cluster({"ps": 1, "worker": 2}, "socket")
    assert train_at_once(cluster, monkeypatch) == 1
