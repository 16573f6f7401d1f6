"""Moving averages: their names, their collections, and restoring them into their variables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import millrace as tf


def test_averages_are_named_after_what_they_average() -> None:
    with tf.variable_scope("s"):
        v = tf.get_variable("v", [2])
    tensor = tf.ones([2], name="tensor")
    average = tf.train.ExponentialMovingAverage(0.9, name="avg")
    assert average.average(v) is None
    assert average.average_name(v) == "s/v/avg"
    average.apply([v, tensor])
    assert average.average(v).op.name == average.average_name(v) == "s/v/avg"
    assert average.average(tensor).op.name == "tensor/avg"
    assert tf.moving_average_variables() == [v]
    assert average.average(v) not in tf.trainable_variables()
    assert average.average(v) in tf.global_variables()


def test_an_average_stands_beside_its_variable_and_so_does_its_first_value() -> None:
    with tf.device("/job:ps/task:1"):
        v = tf.Variable([1.0], name="v")
    with tf.device("/job:worker"):
        average = tf.train.ExponentialMovingAverage(0.9)
        average.apply([v])
    slot = average.average(v)
    assert slot.device == "/job:ps/task:1"
    # It looks into the variable, which another task could not do.
    assert slot.initializer.inputs[1].op.device == "/job:ps/task:1"


def test_the_decay_grows_with_the_number_of_updates() -> None:
    count = tf.Variable(0, trainable=False)
    v = tf.Variable(10.0)
    average = tf.train.ExponentialMovingAverage(0.99, num_updates=count)
    apply = average.apply([v])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(v.assign(20.0))
        session.run(apply)
        # Of the old value stays min(0.99, (1 + 0) / (10 + 0)).
        np.testing.assert_allclose(session.run(average.average(v)), 19.0, rtol=1e-6)


@pytest.mark.parametrize(("zero_debias", "expected"), [(False, 0.2), (True, 2.0)])
def test_averages_of_tensors_begin_at_zero_and_can_be_corrected_for_it(
    zero_debias: bool, expected: float
) -> None:
    tensor = tf.constant([2.0])
    average = tf.train.ExponentialMovingAverage(0.9, zero_debias=zero_debias)
    apply = average.apply([tensor])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(apply)
        np.testing.assert_allclose(session.run(average.average(tensor)), [expected], rtol=1e-5)


def test_a_saver_restores_averages_into_their_variables(tmp_path: Path) -> None:
    v = tf.Variable([1.0], name="v")
    frozen = tf.Variable([5.0], name="frozen", trainable=False)
    average = tf.train.ExponentialMovingAverage(0.5)
    apply = average.apply([v])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(v.assign([3.0]))
        session.run(apply)
        path = tf.train.Saver().save(session, str(tmp_path / "model"))

    with tf.Graph().as_default():
        v = tf.Variable([0.0], name="v")
        frozen = tf.Variable([0.0], name="frozen", trainable=False)
        names = tf.train.ExponentialMovingAverage(0.5).variables_to_restore()
        assert names == {"v/ExponentialMovingAverage": v, "frozen": frozen}
        with tf.Session() as session:
            tf.train.Saver(names).restore(session, path)
            assert session.run([v, frozen])[0].tolist() == [2]
            assert session.run(frozen).tolist() == [5]


def test_only_floating_variables_have_averages() -> None:
    with pytest.raises(TypeError, match="must be half, float, or double: count:0"):
        tf.train.ExponentialMovingAverage(0.5).apply([tf.Variable(1, name="count")])
