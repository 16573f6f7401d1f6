"""Gradients of loops whose length the run decides, with what programs put into them.

The expected numbers are TensorFlow 2.21's, except for second derivatives, which it refuses; those
are worked out by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import millrace as tf


@pytest.fixture(autouse=True)
def _graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def _run(fetches: Any, feed: dict[Any, Any]) -> Any:
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run(fetches, feed)


def _power(x: Any, n: Any, step: Callable[[Any, Any], Any] | None = None) -> Any:
    """x times x, n times."""
    multiply = step or (lambda i, y: y * x)
    return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, multiply(i, y)), [0, x])[1]


def _inputs() -> tuple[Any, Any]:
    return tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, [])


def test_a_loop_in_a_loop() -> None:
    x, n = _inputs()

    def outer(i: Any, y: Any) -> Any:
        return i + 1, tf.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z * x), [0, y])[1]

    y = tf.while_loop(lambda i, y: i < n, outer, [0, x])[1]
    assert _run([y, tf.gradients(y, x)[0]], {x: 2.0, n: 3}) == [16.0, 32.0]


def test_a_loop_in_a_conditional() -> None:
    x, n = _inputs()
    y = tf.cond(x > 1.0, lambda: _power(x, n), lambda: x)
    gradient = tf.gradients(y, x)[0]
    assert _run([y, gradient], {x: 2.0, n: 3}) == [16.0, 32.0]
    assert _run([y, gradient], {x: 0.5, n: 3}) == [0.5, 1.0]


def test_a_long_loop_in_a_conditional_keeps_few_states() -> None:
    x, n = _inputs()
    y = tf.cond(n > 0, lambda: _power(x, n), lambda: x)
    length = 1000
    value = 1.0005
    expected = (length + 1) * value**length
    got = _run(tf.gradients(y, x)[0], {x: value, n: length})
    np.testing.assert_allclose(got, expected, rtol=1e-4)


def test_second_derivatives() -> None:
    x, n = _inputs()
    gradient = tf.gradients(_power(x, n), x)[0]
    assert _run([gradient, tf.gradients(gradient, x)[0]], {x: 2.0, n: 3}) == [32.0, 48.0]


def test_resource_variables_of_a_loop_of_unknown_length() -> None:
    n = tf.placeholder(tf.int32, [])
    w = tf.get_variable("w", initializer=[[0.9, 0.9], [0.9, 0.9]], use_resource=True)
    y = tf.while_loop(
        lambda i, y: i < n, lambda i, y: (i + 1, tf.matmul(y, w)), [0, tf.constant([[1.0, 2.0]])]
    )[1]
    got = _run(tf.gradients(tf.reduce_sum(y), w)[0], {n: 3})
    np.testing.assert_allclose(got, [[12.96, 12.96], [16.2, 16.2]], rtol=1e-5)


def test_the_gradient_sees_a_variables_value_of_this_step() -> None:
    n = tf.placeholder(tf.int32, [])
    w = tf.get_variable("w", initializer=2.0, use_resource=True)
    y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * w), [0, 1.0])[1]
    gradient = tf.gradients(y, w)[0]
    with tf.Session() as sess:
        sess.run(w.initializer)
        assert sess.run(gradient, {n: 2}) == 4.0
        sess.run(w.assign(5.0))
        assert sess.run(gradient, {n: 2}) == 10.0


def test_a_body_that_changes_another_variable_changes_it_once() -> None:
    n = tf.placeholder(tf.int32, [])
    w = tf.get_variable("w", initializer=1.0, use_resource=True)
    count = tf.get_variable("count", initializer=0.0, use_resource=True)

    def body(i: Any, y: Any) -> Any:
        with tf.control_dependencies([count.assign_add(1.0)]):
            return i + 1, y * w + 0.5

    y = tf.while_loop(lambda i, y: i < n, body, [0, tf.constant(2.0)])[1]
    gradient = tf.gradients(y, w)[0]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run([y, gradient], {n: 3}) == [3.5, 7.5]
        assert sess.run(count) == 3.0


def test_the_gradient_of_a_body_that_changes_what_it_reads_uses_what_each_iteration_read() -> None:
    n = tf.placeholder(tf.int32, [])
    w = tf.get_variable("w", initializer=1.0, use_resource=True)

    def body(i: Any, y: Any) -> Any:
        with tf.control_dependencies([w.assign_add(1.0)]):
            return i + 1, y * w.read_value()

    y = tf.while_loop(lambda i, y: i < n, body, [0, tf.constant(2.0)])[1]
    assert _run([y, tf.gradients(y, w)[0]], {n: 3}) == [48.0, 48 / 2 + 48 / 3 + 48 / 4]


def test_python_in_the_body() -> None:
    x, n = _inputs()

    def step(i: Any, y: Any) -> Any:
        doubled = tf.py_func(lambda a: np.float32(a * 2), [tf.stop_gradient(y)], tf.float32)
        doubled.set_shape([])
        return y * x + doubled

    y = _power(x, n, step)
    assert _run([y, tf.gradients(y, x)[0]], {x: 2.0, n: 2}) == [32.0, 16.0]


def test_random_numbers_in_the_body_are_those_of_the_forward_pass() -> None:
    x, n = _inputs()
    y = _power(x, n, lambda i, y: y * tf.random_uniform([], 0.5, 1.5))
    value, gradient = _run([y, tf.gradients(y, x)[0]], {x: 2.0, n: 5})
    np.testing.assert_allclose(gradient, value / 2.0, rtol=1e-5)


def test_shapes_that_depend_on_data_in_a_branch_of_the_body() -> None:
    x, n = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [])

    def body(i: Any, y: Any) -> Any:
        masked = lambda: tf.reduce_sum(tf.boolean_mask(x, x > 1.5)) + y  # noqa: E731
        return i + 1, tf.cond(tf.equal(i, 1), masked, lambda: y * 2.0)

    y = tf.while_loop(lambda i, y: i < n, body, [0, tf.reduce_sum(x)])[1]
    value, gradient = _run([y, tf.gradients(y, x)[0]], {x: [1.0, 2.0, 3.0], n: 3})
    assert value == 34.0
    assert gradient.tolist() == [4.0, 6.0, 6.0]


def test_stop_gradient_holds_inside_bodies() -> None:
    x, n = _inputs()
    y = _power(x, n, lambda i, y: y * x + tf.stop_gradient(y))
    assert _run(tf.gradients(y, x)[0], {x: 2.0, n: 2}) == 14.0
    z = tf.cond(x > 0.0, lambda: x * tf.stop_gradient(x), lambda: x)
    assert _run(tf.gradients(z, x)[0], {x: 1.5}) == 1.5


def test_shape_invariants_may_be_specs_and_shapes_may_grow() -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    y = tf.while_loop(
        lambda i, y: i < 3,
        lambda i, y: (i + 1, tf.concat([y, x], 0)),
        [tf.constant(0), x],
        shape_invariants=[tf.TensorSpec([], tf.int32), tf.TensorSpec([None, 2], tf.float32)],
    )[1]
    loss = tf.reduce_sum(y * y)
    value, gradient = _run([loss, tf.gradients(loss, x)[0]], {x: [[1.0, 2.0]]})
    assert value == 20.0
    assert gradient.tolist() == [[8.0, 16.0]]


def test_a_gradient_of_its_own_inside_a_body_is_used() -> None:
    @tf.custom_gradient
    def square(a: Any) -> Any:
        return a * a, lambda grad: grad * 100.0

    x, n = _inputs()
    chosen = tf.cond(x > 0.0, lambda: square(x), lambda: x)
    repeated = _power(x, n, lambda i, y: tf.cond(i > 1, lambda: square(y), lambda: y))
    for y, value in ((chosen, 9.0), (repeated, 81.0)):
        feed = {x: 3.0, n: 4}
        scale = 100.0 if y is chosen else 100.0 * 100.0
        assert _run([y, tf.gradients(y, x)[0]], feed) == [value, scale]
