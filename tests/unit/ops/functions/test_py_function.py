"""`tf.py_function`: a Python function on values that have `numpy()`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf


def test_its_arguments_have_numpy_and_its_results_are_converted() -> None:
    seen: list[Any] = []

    def twice(x: Any, word: Any) -> Any:
        seen.append((type(x.numpy()), word.numpy()))
        return (x.numpy() * 2).astype("float64")

    y = tf.py_function(twice, [tf.constant([1.0, 2.0]), tf.constant(b"w")], tf.float32)
    with tf.Session() as sess:
        np.testing.assert_array_equal(sess.run(y), [2.0, 4.0])
    assert seen == [(np.ndarray, b"w")]
    assert y.op.type == "EagerPyFunc"


def test_several_results_are_a_list() -> None:
    a, b = tf.py_function(lambda x: (x + 1, b"z"), [tf.constant(3)], [tf.int32, tf.string])
    with tf.Session() as sess:
        assert sess.run([a, b]) == [4, b"z"]


def test_a_tensor_of_a_graph_as_result_says_that_there_is_no_eager_execution() -> None:
    y = tf.py_function(lambda x: tf.square(x), [tf.constant(3.0)], tf.float32)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="no eager"):
        sess.run(y)
