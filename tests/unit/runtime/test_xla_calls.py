"""How many XLA programs a step calls: counted work, not time."""

from __future__ import annotations

import numpy as np

import millrace as tf


def calls_of(sess, fetches, feed=None):
    """XLA calls of one run after the first."""
    sess.run(fetches, feed)
    before = sess._backend.xla_calls
    sess.run(fetches, feed)
    return sess._backend.xla_calls - before


def test_forward_backward_and_update_of_an_mlp_are_one_call():
    x = tf.placeholder(tf.float32, [None, 8])
    y_ = tf.placeholder(tf.float32, [None, 3])
    hidden = tf.nn.relu(tf.matmul(x, tf.Variable(tf.ones([8, 5]))) + tf.Variable(tf.zeros([5])))
    logits = tf.matmul(hidden, tf.Variable(tf.ones([5, 3]))) + tf.Variable(tf.zeros([3]))
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=logits))
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(0.01).minimize(loss, global_step=step)
    feed = {x: np.ones([4, 8]), y_: np.eye(3)[[0, 1, 2, 0]]}
    with tf.Session() as sess:
        # Zeros and ones are stored as they are.
        assert calls_of(sess, tf.global_variables_initializer()) == 0
        assert calls_of(sess, [train, loss, step], feed) == 1


def test_a_fetched_constant_needs_no_call():
    with tf.Session() as sess:
        assert calls_of(sess, [tf.constant(1.0), tf.constant("a")]) == 0


def test_a_loop_of_known_length_and_its_gradient_are_part_of_the_call():
    x = tf.placeholder(tf.float32, [None, 4])
    w = tf.Variable(tf.ones([4, 4]))
    _, y = tf.while_loop(lambda i, _: i < 5, lambda i, y: (i + 1, tf.tanh(tf.matmul(y, w))), [0, x])
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(y))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert calls_of(sess, train, {x: np.ones([2, 4])}) == 1


def test_a_host_op_in_the_middle_makes_two_calls():
    x = tf.placeholder(tf.float32, [3])
    seen = tf.py_func(lambda v: v * 2, [x + 1.0], tf.float32)
    with tf.Session() as sess:
        assert calls_of(sess, tf.reduce_sum(seen), {x: [1.0, 2.0, 3.0]}) == 2


def test_grouping_only_waits_is_no_call():
    x = tf.placeholder(tf.float32, [3])
    done = tf.group(tf.py_func(lambda v: v, [x], tf.float32))
    with tf.Session() as sess:
        assert calls_of(sess, done, {x: [1.0, 2.0, 3.0]}) == 0
