"""A variable's own dtype, a reference type, wherever a program may hand it on."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf

FLOAT, INT = tf.float32._as_ref, tf.int32._as_ref

#: Public functions that take a type, each called with a reference type.
CALLS = {
    "cast": lambda: tf.cast([1, 2], FLOAT),
    "constant": lambda: tf.constant([1.0, 2.0], FLOAT),
    "convert_to_tensor": lambda: tf.convert_to_tensor([1.0], dtype=FLOAT),
    "convert_to_tensor of a tensor": lambda: tf.convert_to_tensor(tf.ones([2]), dtype=FLOAT),
    "decode_raw": lambda: tf.decode_raw(["aaaa"], FLOAT),
    "eye": lambda: tf.eye(2, dtype=FLOAT),
    "one_hot": lambda: tf.one_hot([1], 2, dtype=FLOAT),
    "ones": lambda: tf.ones([2], FLOAT),
    "ones_like": lambda: tf.ones_like([1], dtype=FLOAT),
    "placeholder": lambda: tf.placeholder(FLOAT, [2]),
    "py_func": lambda: tf.py_func(lambda: np.float32(1), [], FLOAT),
    "queue": lambda: tf.FIFOQueue(2, [FLOAT]).dequeue(),
    "random_normal": lambda: tf.random_normal([2], dtype=FLOAT),
    "random_uniform": lambda: tf.random_uniform([2], dtype=FLOAT),
    "stateless_random_uniform": lambda: tf.random.stateless_uniform([2], [1, 2], dtype=FLOAT),
    "string_to_number": lambda: tf.string_to_number(["1"], FLOAT),
    "TensorArray": lambda: tf.TensorArray(FLOAT, 2).unstack([1.0, 2.0]).stack(),
    "truncated_normal": lambda: tf.truncated_normal([2], dtype=FLOAT),
    "zeros": lambda: tf.zeros([2], FLOAT),
    "zeros_like": lambda: tf.zeros_like([1], dtype=FLOAT),
    "bincount": lambda: tf.cast(tf.bincount([1], dtype=INT), tf.float32),
    "multinomial": lambda: tf.cast(tf.multinomial([[1.0]], 2, output_dtype=INT), tf.float32),
    "range": lambda: tf.cast(tf.range(3, dtype=INT), tf.float32),
    "shape": lambda: tf.cast(tf.shape([1], out_type=INT), tf.float32),
}
INITIALIZERS = [
    "constant_initializer",
    "glorot_normal_initializer",
    "glorot_uniform_initializer",
    "ones_initializer",
    "orthogonal_initializer",
    "random_normal_initializer",
    "random_uniform_initializer",
    "truncated_normal_initializer",
    "uniform_unit_scaling_initializer",
    "variance_scaling_initializer",
    "zeros_initializer",
]


@pytest.mark.parametrize("name", CALLS)
def test_a_reference_type_gives_what_its_base_type_gives(name):
    assert CALLS[name]().dtype == tf.float32


@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializers_take_reference_types_when_they_are_made_and_when_they_are_called(name):
    make = getattr(tf, name)
    assert make(dtype=FLOAT)([2, 2]).dtype == tf.float32
    assert make()([2, 2], dtype=FLOAT).dtype == tf.float32


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("make", [tf.get_variable, tf.get_local_variable])
def test_a_variable_can_have_the_type_of_another(make, use_resource):
    first = tf.get_variable("first", [2], use_resource=False)
    assert first.dtype == FLOAT
    second = make("second", [2], dtype=first.dtype, use_resource=use_resource)
    slot = make("slot", initializer=tf.zeros([2], first.dtype), use_resource=use_resource)
    assert second.dtype.base_dtype == slot.dtype.base_dtype == tf.float32
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        np.testing.assert_array_equal(sess.run(second * slot), [0, 0])


def test_parts_of_a_variable_can_have_the_type_of_another():
    first = tf.get_variable("first", [2], use_resource=False)
    partitioner = tf.fixed_size_partitioner(2)
    whole = tf.get_variable("parts", [4], dtype=first.dtype, partitioner=partitioner)
    assert tf.convert_to_tensor(whole).dtype == tf.float32
