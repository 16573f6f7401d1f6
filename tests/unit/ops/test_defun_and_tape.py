"""`Defun` and `tf.GradientTape` in graphs. The figures are TensorFlow 1.15.5's."""

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.ops.functions.defun import Defun


def _run(fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


def test_a_defun_gives_its_own_gradient() -> None:
    @Defun(python_grad_func=lambda op, grad: grad * 7.0)
    def double(x: Any) -> Any:
        return x * 2.0

    x = tf.constant([1.0, 2.0])
    y = double(x)
    assert _run([y, tf.gradients(y, x)[0]])[1].tolist() == [7, 7]


def test_a_defun_without_one_is_differentiated() -> None:
    @Defun(tf.float32, tf.float32)
    def both(x: Any, y: Any) -> Any:
        return x * y, x + y

    x = tf.constant([1.0, 2.0])
    product, total = both(x, x)
    values = _run([product, total, tf.gradients(product, x)[0]])
    assert [v.tolist() for v in values] == [[1, 4], [2, 4], [2, 4]]


def test_a_defun_counts_its_arguments() -> None:
    with pytest.raises(ValueError, match="1 arguments, and 2 types"):
        Defun(tf.float32, tf.float32)(lambda x: x)


def test_what_was_built_before_a_tape_is_constant_for_it() -> None:
    x = tf.get_variable("x", initializer=[1.0, 2.0], use_resource=True)
    before = x * 3.0
    with tf.GradientTape(persistent=True) as tape:
        y = tf.reduce_sum(x * x * before)
        z = x * x
    gradient, jacobian = tape.gradient(y, x), tape.jacobian(z, x)
    assert [v.name for v in tape.watched_variables()] == ["x:0"]
    values = _run([gradient, jacobian])
    assert values[0].tolist() == [6, 24]
    assert values[1].tolist() == [[2, 0], [0, 4]]


def test_a_tape_has_jacobians_of_batches() -> None:
    w = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        tape.watch(w)
        squares = w * w
    found = _run(tape.batch_jacobian(squares, w))
    assert np.array_equal(found, [[[2, 0], [0, 4]], [[6, 0], [0, 8]]])


def test_a_tape_is_used_once_unless_it_is_persistent() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)
    with pytest.raises(RuntimeError, match="once on non-persistent tapes"):
        tape.gradient(y, x)
