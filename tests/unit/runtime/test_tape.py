"""A tape does what its nodes do one by one, and says which of them failed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.runtime import host_run
from millrace.runtime.tape import Tape


@pytest.fixture(autouse=True)
def tapes(monkeypatch: pytest.MonkeyPatch) -> list[Tape]:
    """The tapes that a test's stages run on, from their first run on."""
    monkeypatch.setenv("MILLRACE_COMPILE", "never")
    monkeypatch.setattr(host_run, "RUNS_WITHOUT_TAPE", 0)
    made: list[Tape] = []

    class Noted(Tape):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(host_run, "Tape", Noted)
    return made


def test_a_tape_serves_all_shapes(tapes: list[Tape]) -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.reduce_sum(x * [1.0, 2.0, 3.0] + 1.0, 1)
    with tf.Session() as sess:
        for count in (1, 4, 2):
            assert sess.run(y, {x: np.ones((count, 3))}).tolist() == [9.0] * count
    assert len(tapes) == 1


def test_what_follows_from_constants_is_there_before_the_run(tapes: list[Tape]) -> None:
    x = tf.placeholder(tf.float32, [None])
    size = tf.constant(2) * 3
    with tf.Session() as sess:
        assert sess.run(x + tf.cast(size, tf.float32), {x: [1.0]}).tolist() == [7.0]
    assert tapes[0].source.count(" = k") == 1  # only the sum is left


def test_a_value_goes_after_its_last_use(tapes: list[Tape]) -> None:
    x = tf.placeholder(tf.float32, [None])
    with tf.Session() as sess:
        sess.run(tf.exp(tf.exp(x) + 1.0) + 1.0, {x: [1.0]})
    lines = tapes[0].source.splitlines()
    assert sum(line.startswith(" del ") for line in lines) == 4  # x and three results


def test_an_error_names_the_node_and_keeps_what_was_written_before_it() -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    v = tf.Variable([1.0, 2.0])
    with tf.control_dependencies([tf.assign(v, [5.0, 6.0])]):
        bad = tf.reshape(x, [3, -1], name="shaped")
    good = tf.Variable(0.0)
    late = tf.assign(good, tf.reduce_sum(bad))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"multiple of 3\s.*node shaped"):
            sess.run(late, {x: np.ones((2, 2))})
        assert sess.run(v).tolist() == [5.0, 6.0]
        assert sess.run(good) == 0.0


def test_operands_that_do_not_broadcast_are_refused_in_tensorflows_words() -> None:
    x, y = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
    words = r"Incompatible shapes: \[2\] vs. \[3\]\s.*node product"
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match=words):
        sess.run(tf.multiply(x, y, name="product"), {x: [1, 2], y: [1, 2, 3]})


@pytest.mark.parametrize("shapes", [((4, 3), (3,)), ((4, 1), (4, 3)), ((4, 3), (4, 3)), ((), (2,))])
def test_gradients_of_broadcast_operands_are_summed(shapes: Any, tapes: list[Tape]) -> None:
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    gradients = tf.gradients(x * y, [x, y])
    one, two = (np.arange(1.0, 1 + np.prod(s), dtype=np.float32).reshape(s) for s in shapes)
    with tf.Session() as sess:
        found = sess.run(gradients, {x: one, y: two})
    ones = np.ones(np.broadcast_shapes(*shapes), np.float32)
    for value, operand, other in zip(found, (one, two), (two, one), strict=True):
        wanted = ones * other
        axes = [
            i for i, n in enumerate((1,) * (ones.ndim - operand.ndim) + operand.shape) if n == 1
        ]
        np.testing.assert_allclose(value, wanted.sum(tuple(axes)).reshape(operand.shape))
    assert "sum_to" in tapes[0].source


def test_a_variable_that_is_read_again_after_an_update_has_the_new_value() -> None:
    v = tf.Variable([1.0, 2.0])
    before = v * 10.0
    with tf.control_dependencies([before, tf.assign_add(v, [1.0, 1.0])]):
        after = v * 10.0
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        old, new = sess.run([before, after])
    assert old.tolist() == [10.0, 20.0]
    assert new.tolist() == [20.0, 30.0]


def test_random_numbers_differ_from_run_to_run() -> None:
    tf.set_random_seed(3)
    drawn = tf.random_uniform([4]) + tf.random_normal([4])
    with tf.Session() as sess:
        one, two = sess.run(drawn), sess.run(drawn)
    assert one.tolist() != two.tolist()
