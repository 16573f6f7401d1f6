"""Small values of the host that become variables: the same as by a program, without one."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf


def dequeued(value, dtype=tf.int64, shape=()):
    queue = tf.FIFOQueue(10, dtype, [shape], shared_name="tokens")
    return queue.enqueue([value]), queue.dequeue()


def test_a_token_becomes_a_variable_without_a_program():
    put, token = dequeued(7)
    v = tf.Variable(tf.constant(0, tf.int64), name="local_step")
    assign, more = v.assign(token), v.assign_add(1)
    with tf.Session() as session:
        session.run(v.initializer)
        session.run([put])
        session.run(put)
        before = session._backend.xla_calls
        assert session.run(assign) == 7
        session.run(assign.op)
        assert session._backend.xla_calls == before
        assert session.run(v) == 7 and session.run(more) == 8 and session.run(v) == 8


def test_a_variable_without_a_value_gets_one_so():
    put, token = dequeued(7)
    v = tf.Variable(tf.constant(0, tf.int64), name="local_step")
    assign = v.assign(token)
    with tf.Session() as session:
        session.run(put)
        session.run(assign.op)
        assert session.run(v) == 7


def test_a_value_of_another_shape_is_refused_as_ever():
    queue = tf.FIFOQueue(10, tf.int64, shared_name="any")
    token = queue.dequeue()
    v = tf.Variable(np.zeros(3, np.int64))
    assign, put = tf.assign(v, token), queue.enqueue([np.zeros(2, np.int64)])
    with tf.Session() as session:
        session.run([v.initializer, put])
        with pytest.raises(tf.errors.InvalidArgumentError, match="lhs shape"):
            session.run(assign)


def test_what_is_assigned_does_not_follow_its_source():
    put, token = dequeued(np.arange(3), shape=(3,))
    v = tf.Variable(np.zeros(3, np.int64))
    assign = v.assign(token)
    with tf.Session() as session:
        session.run([v.initializer, put])
        found = session.run(assign)
        found += 5
        assert session.run(v).tolist() == [0, 1, 2]


def test_a_large_value_becomes_one_too():
    put, token = dequeued(np.arange(1000), shape=(1000,))
    v = tf.Variable(np.zeros(1000, np.int64))
    assign = v.assign(token)
    with tf.Session() as session:
        session.run([v.initializer, put])
        session.run(assign.op)
        assert session.run(v).tolist() == list(range(1000))
