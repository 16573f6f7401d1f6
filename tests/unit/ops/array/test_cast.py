"""Casts: what does not fit, what saturates, what is left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from tests.unit.ops.conftest import fed, run

ODD = [-1.5, 300.75, 1e10, np.nan, np.inf, -1e10]


# What TensorFlow 2.21 gives on x86-64 for the floats above.
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (tf.int8, [-1, 44, 0, 0, 0, 0]),
        (tf.uint8, [255, 44, 0, 0, 0, 0]),
        (tf.int16, [-1, 300, 0, 0, 0, 0]),
        (tf.int32, [-1, 300] + [-(2**31)] * 4),
        (tf.int64, [-1, 300, 10**10, -(2**63), -(2**63), -(10**10)]),
        (tf.uint32, [2**32 - 1, 300, 1410065408, 0, 0, 2884901888]),
        (tf.uint64, [2**64 - 1, 300, 10**10, 2**63, 2**63, 18446744063709551616]),
        (tf.bool, [True] * 6),
    ],
)
@pytest.mark.parametrize("constant", [True, False])
def test_floats_that_do_not_fit_become_what_x86_makes_of_them(
    kind: Any, expected: list[int], constant: bool
) -> None:
    x = tf.constant(ODD, tf.float32) if constant else fed(ODD)
    assert run(tf.cast(x, kind)).tolist() == expected


def test_integers_that_do_not_fit_wrap() -> None:
    assert run(tf.cast(fed([300, -1], np.int32), tf.uint8)).tolist() == [44, 255]


def test_saturating_casts_clip_first() -> None:
    assert run(tf.saturate_cast(fed([-7.0, 3.2, 300.0]), tf.uint8)).tolist() == [0, 3, 255]
    # 2**31 - 1 is no float32: the greatest that fits is 128 less.
    assert run(tf.saturate_cast(fed([1e10, -1e10]), tf.int32)).tolist() == [2**31 - 128, -(2**31)]
    assert run(tf.saturate_cast(fed([-1, 2**40], np.int64), tf.uint32)).tolist() == [0, 2**32 - 1]


def test_a_cast_to_the_same_type_adds_no_node() -> None:
    x = fed([1.0])
    assert tf.cast(x, tf.float32) is x
    assert tf.to_float(x) is x


def test_casts_keep_the_form_of_sparse_values() -> None:
    sparse = tf.SparseTensor([[0]], fed([1.5]), [3])
    slices = tf.IndexedSlices(fed([1.5]), tf.constant([0]))
    assert tf.cast(sparse, tf.int32).dtype == tf.int32
    assert run(tf.cast(slices, tf.int32)).values.tolist() == [1]


def test_gradients_are_cast_back_and_end_at_integers() -> None:
    x = fed([1.5])
    (grad,) = tf.gradients(tf.cast(x, tf.float64) * 2.0, x)
    assert grad.dtype == tf.float32
    assert tf.gradients(tf.cast(tf.cast(x, tf.int32), tf.float32), x) == [None]


def test_strings_are_not_cast() -> None:
    with pytest.raises(tf.errors.UnimplementedError, match="Cast string to int32 is not supported"):
        run(tf.cast(tf.constant(["1"]), tf.int32))
