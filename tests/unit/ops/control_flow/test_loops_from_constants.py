"""Loops that begin with constants, and whose bodies make what only the run knows."""

import pytest

import millrace as tf


def until_random_is_large():
    return tf.while_loop(
        lambda x: x < 0.9, lambda x: tf.random_uniform([], seed=1) + 0 * x, [tf.constant(0.0)]
    )


def loop_in_a_loop():
    return tf.while_loop(
        lambda x: x < 5.0,
        lambda x: tf.while_loop(lambda y: y < 2.0, lambda y: y + 1, [x * 0]) + x,
        [tf.constant(1.0)],
    )


@pytest.mark.parametrize("when", ["now", "never"])
@pytest.mark.parametrize(
    ("loop", "holds"),
    [(until_random_is_large, lambda x: 0.9 <= x < 1), (loop_in_a_loop, lambda x: x == 5)],
)
def test_the_loop_ends_as_its_condition_says(monkeypatch, loop, holds, when):
    monkeypatch.setenv("MILLRACE_COMPILE", when)
    with tf.Graph().as_default(), tf.Session() as session:
        assert holds(session.run(loop()))
