"""`tf.test.compute_gradient`: a right gradient has no error, a wrong one has."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import millrace as tf


@pytest.fixture(autouse=True)
def session() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_both_jacobians_are_elements_of_x_by_elements_of_y() -> None:
    x = tf.placeholder(tf.float64, [2])
    y = tf.stack([x[0] * x[1], x[0], tf.constant(1.0, tf.float64)])
    from_graph, numeric = tf.test.compute_gradient(
        x, [2], y, [3], x_init_value=np.array([3.0, 5.0])
    )
    np.testing.assert_allclose(from_graph, [[5, 1, 0], [3, 0, 0]])
    np.testing.assert_allclose(numeric, from_graph, atol=1e-9)


def test_a_wrong_gradient_shows() -> None:
    @tf.RegisterGradient("WrongSquareForTest")
    def _(op: Any, grad: Any) -> Any:
        return grad

    x = tf.placeholder(tf.float64, [2])
    with tf.get_default_graph().gradient_override_map({"Square": "WrongSquareForTest"}):
        wrong = tf.square(x)
    start = np.array([1.0, 2.0])
    assert tf.test.compute_gradient_error(x, [2], tf.square(x), [2], start) < 1e-9
    assert tf.test.compute_gradient_error(x, [2], wrong, [2], start) == pytest.approx(3, abs=1e-6)


def test_several_xs_give_a_pair_each() -> None:
    a, b = tf.placeholder(tf.float64, []), tf.placeholder(tf.float64, [])
    pairs = tf.test.compute_gradient([a, b], [[], []], a * b, [], x_init_value=[2.0, 7.0])
    assert [float(p[0][0, 0]) for p in pairs] == [7.0, 2.0]
    np.testing.assert_allclose([p[1][0, 0] for p in pairs], [7.0, 2.0])


def test_sparse_gradients_are_added_up() -> None:
    x = tf.placeholder(tf.float64, [3, 2])
    y = tf.gather(x, [2, 0, 2])
    assert tf.test.compute_gradient_error(x, [3, 2], y, [3, 2]) < 1e-9


def test_complex_numbers_count_twice() -> None:
    x = tf.placeholder(tf.complex128, [1])
    from_graph, numeric = tf.test.compute_gradient(
        x, [1], x * x, [1], x_init_value=np.array([2 + 3j])
    )
    assert from_graph.shape == (2, 2)
    np.testing.assert_allclose(from_graph, numeric, atol=1e-6)


def test_targets_run_first_and_extra_feeds_are_used() -> None:
    v = tf.Variable(np.float64(4.0))
    x, scale = tf.placeholder(tf.float64, []), tf.placeholder(tf.float64, [])
    from_graph, _ = tf.test.compute_gradient(
        x, [], x * v * scale, [], 1.0, init_targets=v.initializer, extra_feed_dict={scale: 2.0}
    )
    assert from_graph[0, 0] == 8.0


def test_a_y_that_does_not_depend_on_x_has_a_zero_jacobian() -> None:
    x = tf.placeholder(tf.float64, [2])
    from_graph, numeric = tf.test.compute_gradient(x, [2], tf.constant([1.0, 2.0]), [2])
    assert not from_graph.any() and not numeric.any()


def test_a_start_of_the_wrong_shape_is_refused() -> None:
    x = tf.placeholder(tf.float64, [2])
    with pytest.raises(ValueError, match="x_init_value has shape"):
        tf.test.compute_gradient(x, [2], x, [2], x_init_value=np.zeros(3))


def test_a_default_session_is_needed() -> None:
    x = tf.placeholder(tf.float64, [])
    errors: list[str] = []

    def in_a_thread_without_one() -> None:
        with pytest.raises(ValueError, match="needs a default session") as caught:
            tf.test.compute_gradient(x, [], x, [])
        errors.append(str(caught.value))

    thread = threading.Thread(target=in_a_thread_without_one)
    thread.start()
    thread.join()
    assert errors
