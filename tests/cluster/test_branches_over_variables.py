"""Branches and loops of our own that use state of another task, as TensorFlow runs them."""

import numpy as np
import pytest

import millrace as tf

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"
KINDS = pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])


def variable(use_resource, name="v", device=PS):
    with tf.device(device):
        return tf.get_variable(name, initializer=tf.constant([1.0, 2.0]), use_resource=use_resource)


@KINDS
def test_a_branch_reads_a_variable_of_another_task(any_cluster, use_resource):
    v = variable(use_resource)
    p = tf.placeholder(tf.bool, [])
    with tf.device(WORKER):
        y = tf.cond(p, lambda: v.read_value() * 2.0, lambda: v.read_value() - 1.0)
        (gradient,) = tf.gradients(y, v)
    with tf.Session(any_cluster.target("worker")) as sess:
        sess.run(v.initializer)
        for taken, value, slope in ((True, [2, 4], [2, 2]), (False, [0, 1], [1, 1])):
            found = sess.run([y, gradient], {p: taken})
            np.testing.assert_array_equal(found, [value, slope])


@KINDS
def test_only_the_branch_that_is_taken_writes(any_cluster, use_resource):
    v = variable(use_resource)
    p = tf.placeholder(tf.bool, [])
    with tf.device(WORKER):
        added = tf.constant([1.0, 1.0]) * 3.0
        y = tf.cond(
            p, lambda: tf.identity(v.assign_add(added)), lambda: tf.identity(v.read_value())
        )
    with tf.Session(any_cluster.target("worker")) as sess:
        sess.run(v.initializer)
        for taken, value in ((True, [4, 5]), (False, [4, 5]), (True, [7, 8])):
            np.testing.assert_array_equal(sess.run(y, {p: taken}), value)
            np.testing.assert_array_equal(sess.run(v), value)


@KINDS
def test_a_variable_is_trained_through_a_branch(any_cluster, use_resource):
    v = variable(use_resource)
    p = tf.placeholder(tf.bool, [])
    with tf.device(WORKER):
        loss = tf.cond(p, lambda: tf.reduce_sum(v * v), lambda: tf.reduce_sum(v))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session(any_cluster.target("worker")) as sess:
        sess.run(v.initializer)
        losses = [sess.run([loss, train], {p: taken})[0] for taken in (True, False, True)]
        np.testing.assert_allclose(losses, [5.0, 2.4, 2.74], rtol=1e-6)
        np.testing.assert_allclose(sess.run(v), [0.56, 1.2], rtol=1e-6)


def test_a_branch_that_is_not_taken_may_read_a_variable_of_another_task_without_a_value(cluster):
    v = variable(True)
    with tf.device(WORKER):
        y = tf.cond(
            tf.is_variable_initialized(v), lambda: v.read_value(), lambda: tf.constant([7.0, 7.0])
        )
    with tf.Session(cluster.target("worker")) as sess:
        assert sess.run(y).tolist() == [7, 7]
        sess.run(v.initializer)
        assert sess.run(y).tolist() == [1, 2]


def test_a_loop_changes_a_variable_of_another_task(any_cluster):
    v = variable(True)
    with tf.device(WORKER):

        def body(i):
            with tf.control_dependencies([v.assign_add([1.0, 1.0], read_value=False)]):
                return i + 1

        rounds = tf.while_loop(lambda i: i < 4, body, [0])
    with tf.Session(any_cluster.target("worker")) as sess:
        sess.run(v.initializer)
        assert sess.run(rounds) == 4
        assert sess.run(v).tolist() == [5, 6]


def test_a_branch_puts_into_a_queue_of_another_task(any_cluster):
    with tf.device(PS):
        queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]])
    p = tf.placeholder(tf.bool, [])
    with tf.device(WORKER):
        put = tf.cond(p, lambda: tf.group(queue.enqueue(3.0)), tf.no_op)
    with tf.Session(any_cluster.target("worker")) as sess:
        sess.run(put, {p: False})
        assert sess.run(queue.size()) == 0
        sess.run(put, {p: True})
        assert sess.run(queue.dequeue()) == 3.0


def test_a_branch_with_state_of_two_tasks_is_refused_in_words(cluster):
    v, w = variable(True), variable(True, "w", "/job:worker/task:1")
    with tf.device(WORKER):
        y = tf.cond(
            tf.reduce_sum(w) > 0.0,
            lambda: v.assign_add(w.assign_add([1.0, 1.0])),
            lambda: tf.zeros([2]),
        )
    with tf.Session(cluster.target("worker")) as sess:
        sess.run([v.initializer, w.initializer])
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"uses [vw] in a.*runs on one task"
        ):
            sess.run(y)
        assert sess.run(v).tolist() == [1, 2]


def test_a_branch_that_calls_python_stays_with_its_process(cluster):
    v = variable(True)
    with tf.device(WORKER):
        y = tf.cond(
            tf.constant([True])[0],
            lambda: v.assign_add(tf.py_func(lambda: np.ones(2, np.float32), [], tf.float32)),
            lambda: tf.zeros([2]),
        )
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(v.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match="before it"):
            sess.run(y)
