"""Counters of the host: the same as by a program, without one."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_a_counter_needs_no_program(resource: bool, dtype: tf.DType) -> None:
    v = tf.get_variable("v", initializer=tf.constant(5, dtype), use_resource=resource)
    more, less = v.assign_add(2), v.assign_sub(1)
    with tf.Session() as session:
        session.run(v.initializer)
        before = session._backend.xla_calls
        for _ in range(3):
            session.run(more.op)
        session.run(less.op)
        assert session._backend.xla_calls == before
        found = session.run(v)
        assert found == 10 and found.dtype == dtype.as_numpy_dtype
        assert session.run(more) == 12


def test_a_counter_goes_round_at_the_end_of_its_type() -> None:
    v = tf.Variable(np.int32(2**31 - 1))
    more = v.assign_add(1)
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(more.op)
        assert session.run(v) == -(2**31)


def test_a_counter_without_a_value_is_an_error() -> None:
    v = tf.Variable(np.int64(0), name="steps")
    more = v.assign_add(1)
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value steps"),
    ):
        session.run(more.op)


def test_programs_take_a_counter_that_was_counted() -> None:
    v = tf.Variable(np.int64(3))
    more, square = v.assign_add(1), v * v
    assigned = v.assign(square + 1)
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(more.op)
        assert session.run(square) == 16
        assert session.run(assigned) == 17
        session.run(more.op)
        assert session.run(v) == 18
