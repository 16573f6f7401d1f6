"""Values of TensorArrays inside an XLA program: what is written where only the program knows."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf
from millrace.compiler.xla import jax, jnp
from millrace.ops.control_flow.tensor_array_value import TensorArrayValue


def blank(size, **options):
    return TensorArrayValue(np.float32, [None] * size, **options)


def lowered(size):
    """The program that scatters rows of zeros, and its gradient, for computed positions."""

    def loss(rows, indices):
        scattered = blank(size).scatter(indices, rows, dynamic_size=False)
        return jnp.sum(jnp.tanh(scattered.stacked()) ** 2)

    rows, indices = jnp.zeros((size, 3), jnp.float32), jnp.arange(size)
    return jax.jit(jax.value_and_grad(loss)).lower(rows, indices).as_text()


def test_a_program_that_scatters_has_the_same_length_for_any_number_of_rows():
    assert lowered(50).count("\n") == lowered(5).count("\n")
    assert lowered(50).count('"stablehlo.scatter"') <= 2


def scatter(array, indices, rows, dynamic_size=False):
    """By a program that knows the positions only when it runs."""
    program = jax.jit(lambda i, r: array.scatter(i, r, dynamic_size).stacked())
    return np.asarray(program(np.asarray(indices, np.int32), np.asarray(rows, np.float32)))


def test_rows_go_to_their_positions_and_the_others_are_zero():
    found = scatter(blank(4), [2, 0], [[1, 2], [3, 4]])
    np.testing.assert_array_equal(found, [[3, 4], [0, 0], [1, 2], [0, 0]])


def test_what_was_written_before_stays():
    array = TensorArrayValue(np.float32, [None, jnp.ones(2, jnp.float32), None])
    np.testing.assert_array_equal(scatter(array, [0], [[5, 6]]), [[5, 6], [1, 1], [0, 0]])


def test_gradients_add_up_also_where_positions_repeat():
    array = TensorArrayValue(np.float32, buffer=jnp.ones((2, 1), jnp.float32), is_gradient=True)
    np.testing.assert_array_equal(scatter(array, [1, 1], [[2], [3]]), [[1], [6]])


def test_an_array_that_may_grow_gets_place_for_the_rows():
    np.testing.assert_array_equal(scatter(blank(0), [1, 0], [[1], [2]], True), [[2], [1]])


def scattered(indices, size, dynamic_size):
    array = tf.TensorArray(tf.float32, size, dynamic_size=dynamic_size, element_shape=[])
    return array.scatter(indices, tf.constant([1.0, 2.0])).stack()


def test_a_fed_position_outside_of_the_array_is_an_error():
    indices = tf.placeholder(tf.int32, [2])
    result = scattered(indices, 3, False)
    with tf.Session() as sess:
        np.testing.assert_array_equal(sess.run(result, {indices: [2, 0]}), [2, 0, 1])
        with pytest.raises(tf.errors.InvalidArgumentError, match="7"):
            sess.run(result, {indices: [0, 7]})


def test_an_array_that_may_grow_grows_to_the_largest_fed_position():
    indices = tf.placeholder(tf.int32, [2])
    result = scattered(indices, 0, True)
    with tf.Session() as sess:
        np.testing.assert_array_equal(sess.run(result, {indices: [1, 0]}), [2, 1])
        np.testing.assert_array_equal(sess.run(result, {indices: [0, 3]}), [1, 0, 0, 2])
