"""The whole story in seconds: a graph, a session, gradients, training, control flow, errors."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf


@pytest.fixture(autouse=True)
def fresh_graph():
    with tf.Graph().as_default():
        yield


def test_a_constant_comes_back_from_a_session():
    c = tf.constant("Hello, distributed TensorFlow!")
    with tf.Session() as sess:
        assert sess.run(c) == b"Hello, distributed TensorFlow!"


def test_a_graph_with_feeds_computes_and_differentiates():
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    y = tf.reduce_sum(tf.square(x) * [1.0, 10.0], axis=1)
    (dx,) = tf.gradients(y, x)
    assert y.shape.as_list() == [None]
    with tf.Session() as sess:
        value, slope = sess.run([y, dx], {x: [[1.0, 2.0], [3.0, 4.0]]})
    np.testing.assert_allclose(value, [41.0, 169.0])
    np.testing.assert_allclose(slope, [[2.0, 40.0], [6.0, 80.0]])


def test_a_linear_model_finds_its_weights_in_one_xla_call_a_step():
    x = tf.placeholder(tf.float32, [100])
    target = tf.placeholder(tf.float32, [100])
    w = tf.Variable(tf.zeros([1]))
    b = tf.Variable(tf.zeros([1]))
    loss = tf.reduce_mean(tf.square(w * x + b - target))
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss, global_step=step)
    data = np.linspace(0, 1, 100, dtype=np.float32)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(200):
            sess.run(train, {x: data, target: 0.1 * data + 0.3})
        assert sess.run(step) == 200
        calls = sess._backend.xla_calls
        sess.run(train, {x: data, target: 0.1 * data + 0.3})
        assert sess._backend.xla_calls == calls + 1
        np.testing.assert_allclose(sess.run([w, b]), [[0.1], [0.3]], atol=1e-3)


def test_loops_and_conditions_run_and_differentiate():
    x = tf.placeholder(tf.float32, [])
    _, power = tf.while_loop(lambda i, p: i < 3, lambda i, p: (i + 1, p * x), [0, 1.0])
    y = tf.cond(x > 0, lambda: power, lambda: -power)
    (dy,) = tf.gradients(y, x)
    with tf.Session() as sess:
        np.testing.assert_allclose(sess.run([y, dy], {x: 2.0}), [8.0, 12.0])
        np.testing.assert_allclose(sess.run([y, dy], {x: -2.0}), [8.0, -12.0])


def test_a_graph_survives_the_trip_through_graph_def():
    x = tf.placeholder(tf.float32, [3], name="x")
    tf.identity(tf.reduce_sum(x * 2.0), name="y")
    graph_def = tf.get_default_graph().as_graph_def()
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.import_graph_def(graph_def, name="")
        assert sess.run("y:0", {"x:0": [1.0, 2.0, 3.0]}) == 12.0


def test_mistakes_name_the_op_and_leave_the_session_usable():
    with pytest.raises(ValueError, match="Dimensions must be equal, but are 2 and 3"):
        tf.constant([1.0, 2.0]) + tf.constant([1.0, 2.0, 3.0])
    w = tf.Variable(1.0, name="weights")
    with tf.Session() as sess:
        with pytest.raises(tf.errors.FailedPreconditionError, match="weights"):
            sess.run(w)
        sess.run(w.initializer)
        assert sess.run(w) == 1.0
