"""Monitored training on servers in one process: a worker that waits, a ps that restarts."""

import threading
import time

import numpy as np
import pytest

import millrace as tf
from millrace.platform.ports import HeldPorts

SECONDS = 60.0
MARK = 7


def until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come to hold"
        time.sleep(0.01)


class Job:
    """One ps and two workers, which train in threads of this process."""

    def __init__(self, folder):
        self.held = HeldPorts(3)
        ps, *workers = self.held.addresses
        self.cluster = tf.train.ClusterSpec({"ps": [ps], "worker": workers})
        self.folder = folder
        self.ps = self.start_ps()
        self.workers = [tf.train.Server(self.cluster, "worker", i) for i in range(2)]
        #: The global steps that each worker saw, and when it was ready.
        self.steps = {0: [], 1: []}
        self.ready_at = {}
        #: What each worker found in a variable that it sets once, before its first step.
        self.marks = {0: [], 1: []}
        self.errors = []
        self.stop = threading.Event()
        self.threads = []

    def start_ps(self):
        return tf.train.Server(self.cluster, "ps", 0)

    def begin(self, task):
        thread = threading.Thread(target=self._train, args=(task,), daemon=True)
        self.threads.append(thread)
        thread.start()

    def _train(self, task):
        try:
            with tf.Graph().as_default():
                self._train_in_graph(task)
        except Exception as error:
            self.errors.append(error)

    def _train_in_graph(self, task):
        device = f"/job:worker/task:{task}"
        setter = tf.train.replica_device_setter(cluster=self.cluster, worker_device=device)
        with tf.device(setter):
            w = tf.get_variable("w", [10, 2])
            mark = tf.get_variable("mark", [], tf.int32, tf.zeros_initializer(), trainable=False)
            x = tf.placeholder(tf.float32, [None, 10])
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0))
            step = tf.train.get_or_create_global_step()
            train = tf.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=step)
            set_mark = tf.assign(mark, MARK)
        with tf.train.MonitoredTrainingSession(
            master=self.workers[task].target,
            is_chief=task == 0,
            checkpoint_dir=str(self.folder),
            save_checkpoint_steps=5,
        ) as session:
            self.ready_at[task] = time.monotonic()
            session.run(set_mark)  # once: a session that recovers does not come here again
            while not session.should_stop() and not self.stop.is_set():
                now, found, _ = session.run([step, mark, train], {x: np.ones([4, 10])})
                self.steps[task].append(int(now))
                self.marks[task].append(int(found))

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(SECONDS)
        assert not any(thread.is_alive() for thread in self.threads)
        for server in (*self.workers, self.ps):
            server.stop()
        self.raise_error()

    def raise_error(self):
        if self.errors:
            raise self.errors[0]

    def until(self, condition):
        def holds():
            self.raise_error()  # or the cause would stay unknown
            return condition()

        until(holds)


@pytest.fixture
def job(tmp_path):
    job = Job(tmp_path)
    yield job
    job.end()
    job.held.close()
    tf.summary.FileWriterCache.clear()


def test_a_worker_that_waits_is_there_when_the_chief_is(job):
    job.begin(1)
    job.begin(0)
    job.until(lambda: len(job.steps[0]) >= 5 and len(job.steps[1]) >= 5)
    # TensorFlow's worker would look again after 30 seconds.
    assert job.ready_at[1] - job.ready_at[0] < 25
    assert (job.folder / "checkpoint").exists()


def test_training_goes_on_from_the_checkpoint_when_a_ps_restarts(job):
    job.begin(0)
    job.begin(1)
    job.until(lambda: job.steps[0] and job.steps[0][-1] >= 20 and job.steps[1])
    job.ps.stop()
    before = {task: len(steps) for task, steps in job.steps.items()}
    job.ps = job.start_ps()
    job.until(lambda: all(len(job.steps[task]) > before[task] + 5 for task in (0, 1)))
    # Initialised again, the variable would be zero, and nobody would set it again.
    assert {*job.marks[0], *job.marks[1]} == {MARK}
