"""`tf.function` in a graph."""

from __future__ import annotations

from typing import Any

import pytest

import millrace as tf


def test_a_decorated_function_builds_its_operations() -> None:
    @tf.function
    def twice(x: Any) -> Any:
        """Doubles."""
        return x * 2.0

    with tf.Graph().as_default(), tf.Session() as sess:
        assert sess.run(twice(tf.constant(3.0))) == 6.0
    assert twice.__doc__ == "Doubles."


def test_what_it_changes_happens_with_its_result_in_order() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.get_variable("v", initializer=1.0, use_resource=True)

        @tf.function
        def update(x: Any) -> Any:
            v.assign(x)
            v.assign_add(10.0)
            return x + 1.0, v.read_value()

        result = update(tf.constant(5.0))
        sess.run(v.initializer)
        assert sess.run(result) == (6.0, 15.0)
        assert sess.run(v) == 15.0


def test_a_method_can_be_one() -> None:
    class Model:
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def call(self, x: Any) -> Any:
            return tf.reduce_sum(x)

    with tf.Graph().as_default(), tf.Session() as sess:
        assert sess.run(Model().call(tf.constant([1.0, 2.0]))) == 3.0


def test_an_argument_that_does_not_fit_the_signature_is_refused() -> None:
    @tf.function(input_signature=[tf.TensorSpec([2], tf.float32)])
    def first(x: Any) -> Any:
        return x[0]

    with tf.Graph().as_default(), pytest.raises(ValueError, match="input_signature"):
        first(tf.constant([1, 2]))
