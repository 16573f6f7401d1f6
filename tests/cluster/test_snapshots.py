"""Reading variables of a task on this machine without asking it: when, and that nothing is old."""

import numpy as np
import pytest

import millrace as tf

PS, WORKER, OTHER = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"


class Training:
    """A variable on the ps, and a step of each worker that moves it by what it has read."""

    def __init__(self, shape=(64, 64)):
        with tf.device(PS):
            self.v = tf.Variable(np.ones(shape, np.float32), name="v")
        self.steps = []
        for worker in (WORKER, OTHER):
            with tf.device(worker):
                self.amount = tf.placeholder_with_default(0.0, [])
                read = self.v * 1.0
                delta = read * 0.0 + self.amount
                seen = tf.reduce_max(read)
            self.steps.append((tf.assign_add(self.v, delta).op, seen, self.amount))

    def step(self, sess, worker, amount):
        """Moves the variable, and returns what it was before, as the step has read it."""
        update, seen, given = self.steps[worker]
        return float(sess.run([seen, update], {given: amount})[0])


def messages(cluster, job, index=0):
    traffic = cluster[job, index].peers.traffic()
    return sum(each.messages_sent + each.messages_received for each in traffic.values())


@pytest.fixture
def training(make_cluster):
    made = Training()
    made.cluster = make_cluster({"ps": 1, "worker": 2}, "socket")
    return made


@pytest.fixture
def sessions(training):
    with (
        tf.Session(training.cluster.target("worker", 0)) as one,
        tf.Session(training.cluster.target("worker", 1)) as other,
    ):
        one.run(training.v.initializer)
        yield one, other


def test_a_step_that_is_repeated_needs_two_messages(training, sessions):
    one, _ = sessions
    for _ in range(5):
        training.step(one, 0, 1.0)
    before = messages(training.cluster, "worker")
    for _ in range(10):
        training.step(one, 0, 1.0)
    assert messages(training.cluster, "worker") - before == 20
    assert training.step(one, 0, 0.0) == 16.0


def test_the_updates_of_others_are_seen_at_once(training, sessions):
    expected = 1.0
    for i in range(30):
        assert training.step(sessions[i % 2], i % 2, i) == expected
        expected += i


def test_an_assignment_by_a_third_client_is_seen_at_once(training, sessions):
    value = tf.placeholder(tf.float32, [64, 64])
    assign = tf.assign(training.v, value)
    with tf.Session(training.cluster.target("ps")) as third:
        for i in range(20):
            third.run(assign.op, {value: np.full((64, 64), i, np.float32)})
            assert training.step(sessions[i % 2], i % 2, 0.5) == i


def test_what_is_not_read_any_more_is_not_shown_until_it_is_read_again(training, sessions):
    one, other = sessions
    for _ in range(5):
        training.step(one, 0, 1.0)
    (shown,) = training.cluster["ps", 0].worker.snapshots.published.values()
    add = tf.assign_add(training.v, tf.ones([64, 64])).op
    for _ in range(30):
        other.run(add)
    count = shown._snapshot._version
    for _ in range(30):
        other.run(add)
    assert shown._snapshot._version == count
    assert training.step(one, 0, 0.0) == 66.0
    before = messages(training.cluster, "worker")
    assert training.step(one, 0, 1.0) == 66.0
    assert training.step(one, 0, 0.0) == 67.0
    assert messages(training.cluster, "worker") - before == 4


def test_a_variable_that_gets_another_shape_is_read_in_that_shape(make_cluster):
    cluster = make_cluster({"ps": 1, "worker": 1}, "socket")
    with tf.device(PS):
        v = tf.Variable(np.ones(8, np.float32), validate_shape=False)
        longer = tf.assign(v, np.ones(9, np.float32), validate_shape=False)
    with tf.device(WORKER):
        total = tf.reduce_sum(v * 1.0)
        update = tf.assign_add(v, tf.zeros_like(v) + total * 0.0).op
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(v.initializer)
        assert [sess.run([total, update])[0] for _ in range(5)] == [8.0] * 5
        sess.run(longer.op)
        assert [sess.run([total, update])[0] for _ in range(5)] == [9.0] * 5


def test_a_variable_that_was_reset_is_not_initialised_for_readers(training, sessions):
    one, _ = sessions
    for _ in range(5):
        training.step(one, 0, 1.0)
    training.cluster["ps", 0].worker.clear([])
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value v"):
        training.step(one, 0, 1.0)
    one.run(training.v.initializer)
    assert [training.step(one, 0, 1.0) for _ in range(5)] == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_reader_that_is_gone_leaves_no_board(training, sessions, until):
    one, _ = sessions
    for i in range(10):
        training.step(sessions[i % 2], i % 2, 1.0)
    snapshots = training.cluster["ps", 0].worker.snapshots
    (shown,) = snapshots.published.values()
    assert len(shown.readers) == 2
    training.cluster["worker", 1].stop()
    until(lambda: len(shown.readers) == 1)
    for _ in range(5):
        training.step(one, 0, 1.0)
    training.cluster["worker", 0].stop()
    until(lambda: not snapshots.published)


def test_a_step_that_fails_before_it_sends_is_not_waited_for(make_cluster, until):
    cluster = make_cluster({"ps": 1, "worker": 1}, "socket")
    training = Training((4,))
    _, seen, _ = training.steps[0]
    with tf.device(WORKER), tf.control_dependencies([tf.assert_less(seen, 3.0)]):
        delta = tf.fill([4], seen)
    careful = tf.assign_add(training.v, delta).op
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(training.v.initializer)
        sess.run(careful)
        sess.run(careful)
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError):
                sess.run(careful)
        assert not cluster.busy()
        assert sess.run(training.v).tolist() == [4.0] * 4


@pytest.mark.parametrize("way", ["in-process", "grpc"])
def test_tasks_that_share_no_memory_are_asked(make_cluster, way):
    cluster = make_cluster({"ps": 1, "worker": 2}, way)
    training = Training((4,))
    with (
        tf.Session(cluster.target("worker", 0)) as one,
        tf.Session(cluster.target("worker", 1)) as other,
    ):
        one.run(training.v.initializer)
        found = [training.step((one, other)[i % 2], i % 2, 1.0) for i in range(8)]
    assert found == [1.0 + i for i in range(8)]
    assert not cluster["ps", 0].worker.snapshots.published
