"""tf.compat.v2 where its functions are its own."""

from __future__ import annotations

import pytest

import millrace as tf


def test_a_name_scope_of_version_2_has_a_name_and_nothing_else() -> None:
    with tf.Graph().as_default():
        with tf.compat.v2.name_scope("outer") as scope:
            assert scope == "outer/"
            assert tf.zeros([], name="x").name == "outer/x:0"
        with pytest.raises(ValueError, match="must be a string"):
            tf.compat.v2.name_scope(None)
        with pytest.raises(TypeError):
            tf.compat.v2.name_scope("a", "b", [])


def test_gradients_of_version_2_are_those_of_version_1() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(3.0)
        (slope,) = tf.compat.v2.gradients(x * x, [x])
        assert session.run(slope) == 6.0


def test_a_module_takes_values_that_are_no_dependencies() -> None:
    with tf.Graph().as_default():
        assert tf.Module()._no_dependency([1]) == [1]


def test_a_loop_of_version_2_keeps_the_structure_of_one_variable() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        found = tf.compat.v2.while_loop(lambda i: i < 5, lambda i: [i + 1], [tf.constant(0)])
        assert session.run(found) == [5]
