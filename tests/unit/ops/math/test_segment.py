"""Segments: gaps, numbers out of order or range, gradients with zeros and ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from tests.unit.ops.conftest import fed, run

DATA = [[1.0, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (tf.segment_sum, [[4, 6], [0, 0], [5, 6]]),
        (tf.segment_mean, [[2, 3], [0, 0], [5, 6]]),
        (tf.segment_prod, [[3, 8], [1, 1], [5, 6]]),
        (tf.segment_max, [[3, 4], [0, 0], [5, 6]]),
        (tf.segment_min, [[1, 2], [0, 0], [5, 6]]),
    ],
)
def test_numbers_without_rows_leave_neutral_rows(function: Any, expected: Any) -> None:
    assert run(function(fed(DATA), fed([0, 0, 2], np.int32))).tolist() == expected


@pytest.mark.parametrize(
    ("ids", "complaint"),
    [
        ([1, 0, 2], "segment ids are not increasing"),
        ([-1, 0, 1], "Segment id -1 out of range"),
        ([0, 1], "same size as dimension 0"),
    ],
)
def test_numbers_out_of_order_or_range_are_refused(ids: list[int], complaint: str) -> None:
    unknown = tf.placeholder_with_default(np.array(ids, np.int32), [None])
    with pytest.raises(tf.errors.InvalidArgumentError, match=complaint):
        run(tf.segment_sum(fed(DATA), unknown))


def test_segments_of_nothing_are_nothing() -> None:
    assert run(tf.segment_sum(fed(np.zeros([0, 2])), fed([], np.int32))).shape == (0, 2)


def test_negative_numbers_are_left_out_of_unsorted_segments() -> None:
    x = fed(DATA)
    total = tf.unsorted_segment_sum(x, [1, -1, 1], 3)
    assert run(total).tolist() == [[0, 0], [6, 8], [0, 0]]
    assert run(tf.gradients(total, x))[0].tolist() == [[1, 1], [0, 0], [1, 1]]


def test_a_number_beyond_the_last_segment_is_named() -> None:
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"segment_ids\[1\] = 7 is out of range \[0, 3\)"
    ):
        run(tf.unsorted_segment_sum(fed(DATA), fed([0, 7, 1], np.int32), 3))


def test_empty_unsorted_segments_hold_the_extreme_of_their_type() -> None:
    greatest = run(tf.unsorted_segment_max(fed([[1, 2]], np.int32), [1], 2))
    assert greatest.tolist() == [[-(2**31), -(2**31)], [1, 2]]
    least = run(tf.unsorted_segment_min(fed([1.0]), [0], 2))
    assert least.tolist() == [1, np.finfo(np.float32).max]


def test_numbers_may_have_several_axes() -> None:
    ids = fed([[1, 0], [0, 2]], np.int32)
    total = tf.unsorted_segment_sum(fed([[1.0, 2], [3, 4]]), ids, 3)
    assert total.shape == (3,)
    assert run(total).tolist() == [5, 1, 4]


def test_the_number_of_segments_may_be_fed() -> None:
    count = tf.placeholder(tf.int32, [])
    total = tf.unsorted_segment_sum(fed([1.0, 2]), [0, 1], count)
    with tf.Session() as session:
        assert session.run(total, {count: 2}).tolist() == [1, 2]
        assert session.run(total, {count: 4}).tolist() == [1, 2, 0, 0]


@pytest.mark.parametrize("function", [tf.segment_prod, "unsorted"])
def test_gradients_of_products_stand_zeros(function: Any) -> None:
    x, ids = fed([2.0, 3, 0, 5, 0, 0, 7]), tf.constant([0, 0, 1, 1, 2, 2, 2])
    product = tf.unsorted_segment_prod(x, ids, 3) if function == "unsorted" else function(x, ids)
    assert run(product).tolist() == [6, 0, 0]
    assert run(tf.gradients(product, x))[0].tolist() == [3, 2, 5, 0, 0, 0, 0]


def test_ties_share_the_gradient_of_a_segments_maximum() -> None:
    x, ids = fed([4.0, 4, 1, 2]), tf.constant([0, 0, 1, 1])
    assert run(tf.gradients(tf.segment_max(x, ids), x))[0].tolist() == [0.5, 0.5, 0, 1]
    (grad,) = tf.gradients(tf.unsorted_segment_max(x, ids, 2), x)
    assert run(grad).tolist() == [0.5, 0.5, 0, 1]


@pytest.mark.parametrize(
    ("function", "divisor"),
    [
        (tf.sparse_segment_sum, 1),
        (tf.sparse_segment_mean, 2),
        (tf.sparse_segment_sqrt_n, np.sqrt(2)),
    ],
)
@pytest.mark.parametrize("count", [None, 4])
def test_chosen_rows_are_combined_and_their_gradients_scattered(
    function: Any, divisor: float, count: int | None
) -> None:
    x, indices, ids = fed(DATA), fed([0, 2, 2], np.int32), fed([0, 0, 1], np.int32)
    total = function(x, indices, ids, num_segments=count)
    rows = np.zeros([count or 2, 2])
    rows[:2] = [[6 / divisor, 8 / divisor], [5, 6]]
    np.testing.assert_allclose(run(total), rows, rtol=1e-6)
    (grad,) = tf.gradients(total, x)
    share = 1 / divisor
    expected = [[share, share], [0, 0], [share + 1, share + 1]]
    np.testing.assert_allclose(run(grad), expected, rtol=1e-6)
    assert grad.op.type.endswith("Grad")


def test_sparse_gradients_are_indexed_slices_of_unique_rows() -> None:
    x = fed(DATA)
    total = tf.sparse_segment_sum(x, [2, 0, 2], [0, 0, 1], sparse_gradient=True)
    (grad,) = tf.gradients(total, x)
    assert isinstance(grad, tf.IndexedSlices)
    value = run(grad)
    assert value.indices.tolist() == [0, 2]
    assert value.values.tolist() == [[1, 1], [2, 2]]


def test_a_row_that_does_not_exist_is_named() -> None:
    for count in (None, 2):
        total = tf.sparse_segment_sum(
            fed(DATA), fed([0, 5], np.int32), fed([0, 1], np.int32), num_segments=count
        )
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] == 5 out of range"):
            run(total)


def test_second_derivatives_pass_through_chosen_rows() -> None:
    x = fed([1.0, 2, 3])
    total = tf.sparse_segment_sum(tf.square(x), [0, 2], [0, 1])
    (first,) = tf.gradients(tf.square(total), x)
    assert run(tf.gradients(first, x))[0].tolist() == [12, 0, 108]
