"""Descriptions of tensors to come."""

from __future__ import annotations

import numpy as np

import millrace as tf


def test_a_spec_has_shape_type_and_name() -> None:
    spec = tf.TensorSpec([None, 2], tf.int32, "x")
    assert (spec.shape.as_list(), spec.dtype, spec.name) == ([None, 2], tf.int32, "x")
    assert repr(spec) == "TensorSpec(shape=(?, 2), dtype=tf.int32, name='x')"
    assert tf.TensorSpec([]).dtype == tf.float32
    assert tf.TensorSpec.from_spec(spec, "y").name == "y"


def test_specs_are_equal_when_they_say_the_same() -> None:
    assert tf.TensorSpec([None], tf.int32) == tf.TensorSpec([None], tf.int32)
    assert tf.TensorSpec(None) == tf.TensorSpec(None)
    assert tf.TensorSpec([None]) != tf.TensorSpec([2])
    assert tf.TensorSpec([2], name="a") != tf.TensorSpec([2], name="b")
    assert len({tf.TensorSpec([2]), tf.TensorSpec([2])}) == 1
    assert tf.SparseTensorSpec([2]) == tf.SparseTensorSpec([2])
    assert tf.SparseTensorSpec([2]) != tf.TensorSpec([2])
    assert isinstance(tf.SparseTensorSpec(), tf.TypeSpec)


def test_tensors_and_arrays_can_be_described_and_compared() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3, 2], name="x")
        assert tf.TensorSpec.from_tensor(x) == tf.TensorSpec([3, 2], tf.float32, "x")
        assert tf.TensorSpec([None, 2]).is_compatible_with(x)
        assert not tf.TensorSpec([None, 4]).is_compatible_with(x)
    assert tf.TensorSpec([2], tf.int64).is_compatible_with(np.zeros(2, np.int64))
    assert not tf.TensorSpec([2], tf.int32).is_compatible_with(np.zeros(2, np.int64))
