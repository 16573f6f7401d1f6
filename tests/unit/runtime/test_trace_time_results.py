"""Stages that are run without a program: what is known anyway, and small integers on the host."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf
from millrace.runtime import host_integers, trace_time_results


def test_constants_are_assigned_without_compiling_anything(compiled: list[str]) -> None:
    large = np.arange(50_000, dtype=np.float32).reshape(250, 200)
    variables = [
        tf.Variable(tf.zeros([300, 7])),
        tf.Variable(tf.constant(3, tf.int64)),
        tf.Variable(large),
        tf.Variable([True, False]),
        tf.Variable(tf.cast(tf.fill([40, 40], 0.5), tf.bfloat16)),
        tf.get_variable("r", initializer=tf.ones([2, 0]), use_resource=True),
    ]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        values = sess.run(variables)
        assert compiled == []
    assert values[0].shape == (300, 7)
    assert not values[0].any()
    assert values[1] == 3
    assert values[1].dtype == np.int64
    np.testing.assert_array_equal(values[2], large)
    assert values[3].tolist() == [True, False]
    assert values[4].dtype == tf.bfloat16.as_numpy_dtype
    assert (values[4] == 0.5).all()
    assert values[5].shape == (2, 0)


def test_a_variable_does_not_share_its_changes_with_what_it_was_assigned() -> None:
    start = np.arange(50_000, dtype=np.float32)
    first, second = tf.Variable(start), tf.Variable(start)
    third = tf.Variable(first.initialized_value() * 0)
    more = [v.assign_add(tf.ones_like(v)).op for v in (first, second)]
    with tf.Session() as sess:
        sess.run([first.initializer, second.initializer])
        sess.run(third.initializer)
        before = sess.run([first, second])
        for _ in range(3):
            sess.run(more)
        np.testing.assert_array_equal(sess.run(first), start + 3)
        np.testing.assert_array_equal(sess.run(second), start + 3)
        for value in before:
            np.testing.assert_array_equal(value, start)
        sess.run(first.initializer)  # the constant is what it was
        np.testing.assert_array_equal(sess.run(first), start)
        np.testing.assert_array_equal(sess.run(second), start + 3)
    np.testing.assert_array_equal(start, np.arange(50_000, dtype=np.float32))


def test_one_constant_for_two_variables_is_two_values() -> None:
    constant = tf.constant(np.arange(50_000, dtype=np.float32))
    variables = [tf.Variable(constant), tf.Variable(constant)]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(variables[0].assign_add(constant))
        first, second = sess.run(variables)
    assert first[-1] == 2 * 49_999
    assert second[-1] == 49_999


def test_a_fed_value_is_assigned_without_compiling_anything(compiled: list[str]) -> None:
    x = tf.placeholder(tf.float32, [None])
    v = tf.Variable(tf.zeros([0]), validate_shape=False)
    with tf.Session() as sess:
        for length in (3, 5, 3):
            fed = np.arange(length, dtype=np.float32)
            sess.run(tf.assign(v, x, validate_shape=False).op, {x: fed})
            fed += 1  # the caller's own array
            assert sess.run(v).tolist() == list(range(length))
    assert compiled == []


def test_a_large_constant_is_filled_in_by_a_program(compiled: list[str]) -> None:
    v = tf.Variable(tf.zeros([trace_time_results.LARGEST_CONSTANT // 4 + 1]))
    with tf.Session() as sess:
        sess.run(v.initializer)
        assert len(compiled) == 1
        assert not sess.run(v).any()


def test_asking_which_variables_have_no_value_compiles_nothing(compiled: list[str]) -> None:
    variables = [tf.Variable(tf.zeros([3]), name=f"v{i}") for i in range(5)]
    missing = tf.report_uninitialized_variables()
    with tf.Session() as sess:
        assert sess.run(missing).tolist() == [b"v0", b"v1", b"v2", b"v3", b"v4"]
        sess.run([v.initializer for v in variables[:4]])
        assert sess.run(missing).tolist() == [b"v4"]
        sess.run(variables[4].initializer)
        assert sess.run(missing).tolist() == []
    assert compiled == []


def test_host_integers_that_go_on_being_run_get_a_program_with_the_same_results(
    compiled: list[str],
) -> None:
    x = tf.placeholder(tf.int32, [None])
    y = (x * x - 7) // 2 + tf.bitwise.left_shift(x, 1)
    found, counts = [], []
    with tf.Session() as sess:
        for _ in range(host_integers.RUNS + 2):
            found.append(sess.run(y, {x: [-3, 0, 2, 2**30]}).tolist())
            counts.append(len(compiled))
    assert counts == [0] * host_integers.RUNS + [1, 1]
    assert all(values == found[0] for values in found)


def test_floats_and_many_numbers_are_not_run_on_the_host(compiled: list[str]) -> None:
    x = tf.placeholder(tf.float32, [None])
    n = tf.placeholder(tf.int32, [None])
    with tf.Session() as sess:
        sess.run(x * 2.0, {x: [1.0]})
        assert len(compiled) == 1
        sess.run(n * 2, {n: np.arange(100_000)})
        assert len(compiled) == 2


def test_a_failed_check_of_host_integers_names_the_op() -> None:
    x = tf.placeholder(tf.int32, [None])
    checked = tf.gather(x, [5], name="taken")
    with (
        tf.Session() as sess,
        pytest.raises(tf.errors.InvalidArgumentError, match="taken"),
    ):
        sess.run(checked, {x: [1, 2]})
