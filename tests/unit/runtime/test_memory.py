"""Which calls are refused because their outputs cannot fit, and which are not looked at."""

import numpy as np
import pytest

import millrace as tf


@pytest.mark.parametrize("resource", [False, True])
def test_variables_and_queues_are_passed_by_what_they_are(resource):
    variable = tf.get_variable("v", [3], use_resource=resource)
    queue = tf.FIFOQueue(10, tf.float32, shapes=[[]])
    with tf.Session() as session:
        assert session.run(tf.report_uninitialized_variables()).tolist() == [b"v"]
        session.run([variable.initializer, queue.enqueue(1.0)])
        assert session.run([tf.is_variable_initialized(variable), queue.size()]) == [True, 1]
        assert session.run(queue.dequeue_many(1)).tolist() == [1]


def test_the_limit_can_be_set(monkeypatch):
    monkeypatch.setenv("MILLRACE_MAX_MEMORY_BYTES", "20M")
    size = tf.placeholder(tf.int32, [])
    made = tf.ones(tf.stack([size]), name="made")
    with tf.Session() as session:
        assert session.run(made, {size: 5_000_000}).nbytes == 20_000_000
        with pytest.raises(tf.errors.ResourceExhaustedError, match=r"made.*Fill|Fill.*made"):
            session.run(made, {size: 6_000_000})


def test_large_indices_are_not_taken_for_sizes(monkeypatch):
    """Numbers that do not decide a shape may be as large as they like."""
    monkeypatch.setenv("MILLRACE_MAX_MEMORY_BYTES", "20M")
    numbers = np.full(64, 10**9, np.int64)
    values = tf.placeholder_with_default(numbers, [64])
    with tf.Session() as session:
        assert session.run(tf.unique(values)).y.tolist() == [10**9]
        assert session.run(tf.reduce_sum(values * 2)) == 64 * 2 * 10**9
