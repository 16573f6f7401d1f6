"""Loops of our own that use resource variables of the cluster's tasks."""

import numpy as np
import pytest

import millrace as tf

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


def recurrent(device_of_variables, device_of_loop, lengths):
    """A small LSTM, its loss and a training step."""
    x = np.random.RandomState(0).rand(6, 5, 3).astype(np.float32)

    def place(op):
        is_variable = op.type in ("VarHandleOp", "VariableV2")
        return device_of_variables if is_variable else device_of_loop

    with tf.device(place), tf.variable_scope("m", use_resource=True):
        cell = tf.nn.rnn_cell.BasicLSTMCell(4)
        init = tf.constant_initializer(0.1)
        with tf.variable_scope("rnn", initializer=init):
            _, state = tf.nn.dynamic_rnn(cell, x, sequence_length=lengths, dtype=tf.float32)
        loss = tf.reduce_sum(tf.square(state.h - 1.0))
        return loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)


def trajectory(target, devices, lengths):
    with tf.Graph().as_default():
        loss, train = recurrent(*devices, lengths)
        with tf.Session(target) as sess:
            sess.run(tf.global_variables_initializer())
            return [sess.run([loss, train])[0] for _ in range(5)]


@pytest.mark.parametrize("lengths", [None, [5, 3, 1, 5, 2, 4]], ids=["whole", "ragged"])
def test_a_recurrent_net_on_a_worker_learns_weights_on_a_ps(cluster, lengths):
    local = trajectory("", ("", ""), lengths)
    assert local[-1] < local[0]
    spread = trajectory(cluster.target("worker"), (PS, WORKER), lengths)
    np.testing.assert_allclose(spread, local, rtol=1e-5)


def long_recurrence(place, steps):
    """A net over many time steps whose inputs are made of weights: both have gradients."""
    x = np.random.RandomState(1).rand(2, steps, 3).astype(np.float32)
    init = tf.constant_initializer(0.2)
    with tf.device(place), tf.variable_scope("long", initializer=init):
        scaled = x * tf.get_variable("scale", [3])
        cell = tf.nn.rnn_cell.BasicRNNCell(4)
        outputs, _ = tf.nn.dynamic_rnn(cell, scaled, dtype=tf.float32)
        folded = tf.scan(lambda h, v: 0.5 * h + v, tf.transpose(scaled, [1, 0, 2]))
        loss = tf.reduce_mean(outputs) + tf.reduce_mean(folded)
        return [loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)]


def test_a_loop_of_many_time_steps_begins_on_a_cluster(cluster):
    """The compiler's time doubled with each time step: with 60 it would not have ended."""

    def place(op):
        return PS if op.type == "VariableV2" else WORKER

    def losses(target, device):
        with tf.Graph().as_default():
            fetches = long_recurrence(device, 60)
            with tf.Session(target) as sess:
                sess.run(tf.global_variables_initializer())
                return [sess.run(fetches)[0] for _ in range(3)]

    spread = losses(cluster.target("worker"), place)
    np.testing.assert_allclose(spread, losses("", None), rtol=1e-5)


def counting(body):
    """A loop of five rounds over a variable of the worker, which `body` is given."""
    with tf.device(WORKER), tf.variable_scope("c", use_resource=True):
        v = tf.get_variable("v", [], initializer=tf.constant_initializer(1.0))
        return v, tf.while_loop(lambda i, total: i < 5, body(v), [0, 0.0])


def test_a_variable_that_a_loop_changes_is_read_in_each_round(cluster):
    def body(v):
        def once(i, total):
            seen = v * 1.0
            with tf.control_dependencies([seen]):
                changed = v.assign_add(1.0, read_value=False)
            with tf.control_dependencies([changed]):
                return i + 1, total + seen

        return once

    v, (_, total) = counting(body)
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(v.initializer)
        assert sess.run(total) == 1 + 2 + 3 + 4 + 5
        assert sess.run(v) == 6


def test_a_condition_sees_what_the_body_changes(cluster):
    with tf.device(WORKER), tf.variable_scope("c", use_resource=True):
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer())

        def body(i):
            with tf.control_dependencies([v.assign_add(1.0, read_value=False)]):
                return i + 1

        rounds = tf.while_loop(lambda i: v < 4.0, body, [0])
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(v.initializer)
        assert sess.run(rounds) == 4


def test_a_branch_that_is_not_taken_may_read_a_variable_without_a_value(cluster):
    with tf.device(WORKER), tf.variable_scope("c", use_resource=True):
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
        value = tf.cond(tf.is_variable_initialized(v), lambda: v + 0.0, lambda: tf.constant(-1.0))
    with tf.Session(cluster.target("worker")) as sess:
        assert sess.run(value) == -1
