"""Comparisons, logic and bits."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf
from millrace.ops.math.comparison import Equal, NotEqual, PopulationCount
from tests.unit.ops.conftest import fed, run


def test_shapes_that_do_not_broadcast_are_unequal_only_where_that_is_asked_for() -> None:
    x, y = fed([1, 2]), fed([1, 2, 3])
    with pytest.raises(ValueError, match="Dimensions must be equal, but are 2 and 3"):
        tf.equal(x, y)
    assert run(Equal(x, y, incompatible_shape_error=False)).tolist() is False
    assert run(NotEqual(x, y, incompatible_shape_error=False)).tolist() is True
    assert Equal(x, x, incompatible_shape_error=False).shape == (2,)


def test_nan_equals_nothing() -> None:
    x = fed([np.nan])
    assert not run(tf.equal(x, x)).any()
    assert run(tf.not_equal(x, x)).all()


def test_strings_and_bools_compare() -> None:
    assert run(tf.equal(tf.constant(["a", "b"]), "a")).tolist() == [True, False]
    assert run(tf.not_equal(fed([True, False], np.bool_), True)).tolist() == [False, True]


def test_the_equality_of_tensors_is_identity() -> None:
    x = fed([1])
    assert x == x
    assert {x: 1}[x] == 1


def test_logical_operators_name_their_nodes_as_tensorflow_does() -> None:
    x = tf.placeholder(tf.bool, [2])
    for expression in (x & x, x | x, ~x, x ^ x):
        assert expression.dtype == tf.bool
    names = [op.name for op in tf.get_default_graph().get_operations()][1:]
    assert names == [
        "and", "or", "LogicalNot", "xor/LogicalOr", "xor/LogicalAnd", "xor/LogicalNot", "xor",
    ]  # fmt: skip


def test_operators_on_integers_work_on_their_bits() -> None:
    x, y = fed([12, 10], np.int32), fed([10, 3], np.int32)
    assert run(x & y).tolist() == [8, 2]
    assert run(x | y).tolist() == [14, 11]
    assert run(x ^ y).tolist() == [6, 9]
    assert run(~x).tolist() == [-13, -11]
    with pytest.raises(TypeError, match="DataType float32 not in list of allowed values"):
        fed([1]) & fed([1])


@pytest.mark.parametrize("constant", [True, False])
def test_shifts_beyond_the_width_of_the_type_are_clamped(constant: bool) -> None:
    def made(value: list[int]) -> tf.Tensor:
        return tf.constant(value) if constant else fed(value, np.int32)

    left = tf.bitwise.left_shift(made([1, 1, 1]), made([31, 40, -1]))
    assert run(left).tolist() == [-(2**31), -(2**31), 1]
    right = tf.bitwise.right_shift(made([-8, 8, -8]), made([1, 32, 40]))
    assert run(right).tolist() == [-4, 0, -1]


@pytest.mark.parametrize("constant", [True, False])
def test_set_bits_are_counted_in_twos_complement(constant: bool) -> None:
    value = np.array([-1, 0, 5], np.int16)
    x = tf.constant(value) if constant else fed(value, np.int16)
    assert run(PopulationCount(x)).tolist() == [16, 0, 2]


def test_comparisons_have_no_gradient() -> None:
    x = fed([1.0])
    assert tf.gradients(tf.cast(x > 0.0, tf.float32), x) == [None]
