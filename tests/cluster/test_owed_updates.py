"""A ps that answers before its update is made: who hears of a step finds the step's update."""

import time

import numpy as np
import pytest

import millrace as tf
from millrace.cli.status import ask
from millrace.runtime import compiled_stage
from millrace.runtime.compiled_stage import CompiledStage
from millrace.server.boards import Boards

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"
SIZE = 10_000


@pytest.fixture
def owed(monkeypatch):
    """What becomes of the updates that are owed: their number, and what happens before each."""

    class Owed:
        count = 0

        def before(self):
            pass

    owe, made = CompiledStage.owe, Owed()

    def watched(self, inputs, step):
        update = owe(self, inputs, step)
        if update is None:
            return None

        def make():
            made.count += 1
            try:
                made.before()
            finally:
                update()

        return make

    monkeypatch.setattr(CompiledStage, "owe", watched)
    return made


class Training:
    """Gradient descent by one worker: each step takes one from a variable of the ps."""

    def __init__(self, cluster):
        with tf.device(PS):
            self.v = tf.get_variable("v", initializer=np.zeros(SIZE, np.float32))
            self.step = tf.train.get_or_create_global_step()
        with tf.device(WORKER):
            self.seen = tf.reduce_max(self.v * 1.0)
            gradient = self.v * 0.0 + 1.0
        optimizer = tf.train.GradientDescentOptimizer(1.0)
        self.train = optimizer.apply_gradients([(gradient, self.v)], self.step)
        self.cluster = cluster


@pytest.fixture
def training(make_cluster, monkeypatch):
    monkeypatch.setenv("MILLRACE_SPIN", "1")
    monkeypatch.setattr(compiled_stage, "_LONG_SECONDS", 60.0)  # however busy the machine is
    return Training(make_cluster({"ps": 1, "worker": 1}, "socket"))


@pytest.fixture
def session(training):
    with tf.Session(training.cluster.target("worker")) as made:
        made.run(tf.global_variables_initializer())
        for _ in range(5):
            made.run([training.train, training.seen])
        yield made


def test_a_step_reads_what_the_step_before_has_made(training, session, owed):
    for i in range(5, 60):
        assert session.run([training.seen, training.train])[0] == -i
    assert owed.count == 55
    assert session.run(training.step) == 60


def test_whoever_reads_after_the_answer_finds_the_update(training, session, owed):
    owed.before = lambda: time.sleep(0.02)
    with tf.Session(training.cluster.target("ps")) as other:
        other.run(training.v)
        for i in range(6, 16):
            session.run([training.train, training.seen])
            if i % 2:
                assert other.run(training.v)[0] == -i
            else:
                status = ask(training.cluster.spec["ps"][0])
                assert status["global_step"] == i
    assert owed.count == 10


def test_the_worker_itself_waits_for_an_update_that_takes_long(training, session, owed):
    owed.before = lambda: time.sleep(0.02)  # longer than it looks out
    for i in range(5, 15):
        assert session.run([training.seen, training.train])[0] == -i
    assert owed.count == 10


def test_an_update_that_fails_after_the_answer_ends_the_connection(training, session, owed):
    def fail():
        raise MemoryError("none left")

    owed.before = fail
    session.run([training.train, training.seen])
    with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError)):
        session.run([training.train, training.seen])


def test_a_large_answer_follows_the_update(training, session, owed):
    for i in range(5, 15):
        found = session.run([training.seen, training.train, training.v])
        assert found[0] == -i
        assert found[2].shape == (SIZE,)


def test_where_tasks_share_cores_the_answer_follows_the_update(make_cluster, monkeypatch, owed):
    monkeypatch.setenv("MILLRACE_SPIN", "0")
    training = Training(make_cluster({"ps": 1, "worker": 1}, "socket"))
    with tf.Session(training.cluster.target("worker")) as session:
        session.run(tf.global_variables_initializer())
        for i in range(10):
            assert session.run([training.seen, training.train])[0] == -i
    assert owed.count == 0


def test_a_traced_step_tells_of_its_update(training, session, owed):
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    session.run([training.train, training.seen], options=options, run_metadata=metadata)
    on_ps = [d for d in metadata.step_stats.dev_stats if "job:ps" in d.device]
    assert any(
        "XLA" in n.timeline_label or "stage" in n.node_name for d in on_ps for n in d.node_stats
    )
    assert owed.count == 0


def test_with_two_workers_nobody_waits_for_the_others_update(make_cluster, monkeypatch, owed):
    monkeypatch.setenv("MILLRACE_SPIN", "1")
    monkeypatch.setattr(compiled_stage, "_LONG_SECONDS", 60.0)
    cluster = make_cluster({"ps": 1, "worker": 2}, "socket")
    training = Training(cluster)
    with tf.device("/job:worker/task:1"):
        gradient = training.v * 0.0 + 1.0
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    other = optimizer.apply_gradients([(gradient, training.v)], training.step)
    owing = []
    owe = Boards.owe
    monkeypatch.setattr(Boards, "owe", lambda self: owing.append(self) or owe(self))
    with (
        tf.Session(cluster.target("worker", 0)) as one,
        tf.Session(cluster.target("worker", 1)) as two,
    ):
        one.run(tf.global_variables_initializer())
        for i in range(0, 20, 2):
            assert one.run([training.seen, training.train])[0] == -i
            two.run(other)
    assert owed.count == 0 and not owing
