"""`tf.assign` to a slice of a variable."""

from __future__ import annotations

import pytest

import millrace as tf


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_slice_of_a_variable_can_be_assigned(use_resource: bool) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.get_variable(
            "v", [4], tf.int32, tf.zeros_initializer(), use_resource=use_resource
        )  # fmt: skip
        changed = tf.assign(v[1:3], [5, 6])
        sess.run(v.initializer)
        sess.run(changed)
        assert sess.run(v).tolist() == [0, 5, 6, 0]


def test_a_tensor_that_is_no_part_of_a_variable_cannot_be_assigned() -> None:
    with tf.Graph().as_default(), pytest.raises(TypeError, match="mutable tensor"):
        tf.assign(tf.constant([1, 2])[:1], [3])
