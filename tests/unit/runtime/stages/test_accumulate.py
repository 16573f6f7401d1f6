"""Several accumulators in one step: what waits for whom, and who gets what."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import millrace as tf

SECONDS = 60


class Pair:
    """Two accumulators, what is pushed to each and both, and a step that takes from both."""

    def __init__(self, required=2, **options):
        self.x = tf.placeholder(tf.float32, None)
        self.step = tf.placeholder_with_default(np.int64(0), [])
        self.both = [
            tf.ConditionalAccumulator(tf.float32, [2], shared_name=name, **options)
            for name in ("left", "right")
        ]
        self.pushes = [
            a.apply_grad(self.x, self.step, name=f"push_{i}") for i, a in enumerate(self.both)
        ]
        self.push_both = tf.group(*self.pushes)
        self.taken = [a.take_grad(required) for a in self.both]
        self.counts = [a.num_accumulated() for a in self.both]

    def push(self, session, operation, value, step=0):
        session.run(operation, {self.x: [value, 2 * value], self.step: step})


def in_thread(function):
    """Runs it; gives the thread, and where its result will be."""
    found = []

    def run():
        try:
            found.append(function())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def test_a_step_gets_the_mean_of_each_and_stale_gradients_count_for_none():
    pair = Pair()
    with tf.Session() as session:
        for value in (1.0, 2.0):
            pair.push(session, pair.push_both, value)
        left, right = session.run(pair.taken)
        assert left.tolist() == right.tolist() == [1.5, 3.0]
        pair.push(session, pair.push_both, 100.0, step=0)
        for value in (3.0, 4.0):
            pair.push(session, pair.push_both, value, step=1)
        assert [v.tolist() for v in session.run(pair.taken)] == [[3.5, 7.0]] * 2


def test_what_was_pushed_stays_the_callers():
    pair = Pair(required=2)
    mine = [np.array([1.0, 2.0], np.float32), np.array([3.0, 4.0], np.float32)]
    with tf.Session() as session:
        for array in mine:
            session.run(pair.push_both, {pair.x: array})
            array += 0  # nobody may have made it read-only
        session.run(pair.taken)
    assert [array.tolist() for array in mine] == [[1.0, 2.0], [3.0, 4.0]]


def test_each_take_is_served_as_soon_as_its_own_accumulator_has_enough(until):
    pair = Pair(required=1)
    with tf.Session() as session:
        thread, found = in_thread(lambda: session.run(pair.taken))
        pair.push(session, pair.pushes[0], 1.0)
        until(lambda: session.run(pair.counts[0]) == 0)  # it was taken
        pair.push(session, pair.pushes[0], 50.0, step=1)  # of the next round
        assert session.run(pair.counts[0]) == 1 and not found
        pair.push(session, pair.pushes[1], 2.0)
        thread.join(SECONDS)
        assert [v.tolist() for v in found[0]] == [[1.0, 2.0], [2.0, 4.0]]


def test_a_step_that_gives_up_leaves_no_take_behind():
    pair = Pair(required=1)
    with tf.Session() as session:
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(pair.taken, options=tf.RunOptions(timeout_in_ms=100))
        pair.push(session, pair.push_both, 1.0)
        assert session.run(pair.counts) == [1, 1]
        assert [v.tolist() for v in session.run(pair.taken)] == [[1.0, 2.0]] * 2


def test_a_step_that_waits_ends_with_its_session(until):
    pair = Pair()
    session = tf.Session()
    thread, found = in_thread(lambda: session.run(pair.taken))
    until(lambda: session._backend._steps)
    session.close()
    thread.join(SECONDS)
    assert isinstance(found[0], tf.errors.CancelledError)


def test_an_error_names_the_operation_and_what_came_before_it_counts():
    left = tf.ConditionalAccumulator(tf.float32, [2], shared_name="left")
    right = tf.ConditionalAccumulator(tf.float32, None, shared_name="right")
    x = tf.placeholder(tf.float32, [2])
    y = tf.placeholder(tf.float32, None)
    pushes = [left.apply_grad(x, name="fits"), right.apply_grad(y, name="does_not")]
    counts = [left.num_accumulated(), right.num_accumulated()]
    with tf.Session() as session:
        session.run(pushes, {x: [1.0, 1.0], y: [1.0, 1.0]})
        with pytest.raises(tf.errors.InvalidArgumentError, match="does_not"):
            session.run(pushes, {x: [1.0, 1.0], y: [1.0]})
        assert session.run(counts) == [2, 1]


def test_a_wrong_number_of_gradients_names_the_operation():
    a, b = (tf.ConditionalAccumulator(tf.float32, [2], shared_name=n) for n in "ab")
    taken = [a.take_grad(1, name="one"), b.take_grad(0, name="none")]
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(taken)
    assert "num_required must be positive" in str(caught.value) and "none" in str(caught.value)


def test_a_take_that_sets_another_free_in_its_own_step_does_not_wait_for_it():
    a, b = (tf.ConditionalAccumulator(tf.float32, [2], shared_name=n) for n in "ab")
    hand_on = b.apply_grad(a.take_grad(1))
    start = a.apply_grad([1.0, 2.0])
    with tf.Session() as session:
        session.run(start)
        found = session.run([b.take_grad(1), hand_on], options=tf.RunOptions(timeout_in_ms=60000))
        assert found[0].tolist() == [1.0, 2.0]


def test_dense_and_sparse_gradients_are_applied_together():
    dense = tf.ConditionalAccumulator(tf.float32, [2], shared_name="dense")
    sparse = tf.SparseConditionalAccumulator(tf.float32, [None, 2], shared_name="sparse")
    x = tf.placeholder(tf.float32, [2])
    pushes = [dense.apply_grad(x), sparse.apply_grad([3, 1], tf.stack([x, 2 * x]))]
    taken = [dense.take_grad(2), *sparse.take_grad(2)]
    with tf.Session() as session:
        for value in ([1.0, 2.0], [3.0, 4.0]):
            session.run(pushes, {x: value})
        mean, indices, values, _ = session.run(taken)
        assert mean.tolist() == [2.0, 3.0]
        assert dict(zip(indices.tolist(), values.tolist(), strict=True)) == {
            1: [4.0, 6.0],
            3: [2.0, 3.0],
        }


def test_a_cleared_container_is_noticed():
    pair = Pair(required=1)
    with tf.Session() as session:
        pair.push(session, pair.push_both, 1.0)
        session._backend.reset(None)
        assert session.run(pair.counts) == [0, 0]
        pair.push(session, pair.push_both, 3.0)
        assert [v.tolist() for v in session.run(pair.taken)] == [[3.0, 6.0]] * 2


def test_rounds_leave_nothing_to_the_garbage_collector(left_by):
    """What was taken may lie in memory that another task waits to have back."""
    pair = Pair(required=1)
    with tf.Session() as session:

        def one_round() -> None:
            pair.push(session, pair.push_both, 1.0, step=99)
            session.run(pair.taken)

        for _ in range(3):
            one_round()
        left = left_by(one_round, 20)
        assert left.total() < 20, left  # not one object a round
