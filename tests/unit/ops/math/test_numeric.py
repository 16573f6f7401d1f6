"""Ranges, top-k, counting and clipping: sizes, ties, bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.ops.math.clip import ClipByValue
from millrace.ops.math.numeric import bucketize, nth_element
from tests.unit.ops.conftest import fed, run


def test_the_length_of_a_range_is_told_in_its_own_precision() -> None:
    numbers = run(tf.range(0.1, 1.1, 0.1))
    assert numbers.shape == (10,)
    assert numbers.dtype == np.float32
    assert run(tf.range(3, 0, -2)).tolist() == [3, 1]
    assert run(tf.range(0, 5, 2, dtype=tf.int64)).dtype == np.int64
    assert tf.range(2.5).dtype == tf.float32


def test_a_limit_that_is_fed_decides_the_length() -> None:
    limit = tf.placeholder(tf.int32, [])
    numbers = tf.range(limit)
    assert numbers.shape.as_list() == [None]
    for n in (0, 3, 5):
        assert run(numbers, {limit: n}).tolist() == list(range(n))


@pytest.mark.parametrize(
    ("bounds", "complaint"),
    [
        ((0, 3, 0), "Requires delta != 0"),
        ((3, 0, 1), "Requires start <= limit when delta > 0: 3/0"),
        ((0, 3, -1), "Requires start >= limit when delta < 0: 0/3"),
    ],
)
def test_ranges_that_never_end_are_refused(bounds: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        tf.range(*bounds)
    unknown = [fed(bound, np.int32) for bound in bounds]
    with pytest.raises(tf.errors.InvalidArgumentError, match=complaint):
        run(tf.range(*unknown))


def test_both_ends_of_a_linspace_are_exact() -> None:
    numbers = run(tf.linspace(0.1, 0.7, 7))
    assert numbers[0] == np.float32(0.1)
    assert numbers[-1] == np.float32(0.7)
    assert run(tf.linspace(3.0, 9.0, 1)).tolist() == [3]
    assert run(tf.linspace(0, 4, 3)).tolist() == [0, 2, 4]


def test_a_linspace_between_tensors_runs_along_an_axis() -> None:
    first, last = fed([0, 1]), fed([1, 3])
    assert run(tf.linspace(first, last, 3)).tolist() == [[0, 1], [0.5, 2], [1, 3]]
    assert run(tf.linspace(first, last, 3, axis=-1)).tolist() == [[0, 0.5, 1], [1, 2, 3]]


def test_of_equal_entries_the_first_comes_first() -> None:
    values, indices = run(tf.nn.top_k(fed([[1, 5, 5, 3]]), 3))
    assert (values.tolist(), indices.tolist()) == ([[5, 5, 3]], [[1, 2, 3]])


def test_gradients_of_the_greatest_entries_go_where_they_came_from() -> None:
    x = fed([[1, 9, 5], [7, 2, 8]])
    top = tf.nn.top_k(x, 2).values * [[1.0, 2], [3, 4]]
    assert run(tf.gradients(top, x))[0].tolist() == [[0, 1, 2], [4, 0, 3]]


def test_more_entries_than_there_are_cannot_be_greatest() -> None:
    with pytest.raises(ValueError, match="last dimension >= k = 3 but is 2"):
        tf.nn.top_k(fed([1, 2]), 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Had 2, needed 3"):
        run(tf.nn.top_k(fed([1, 2]), tf.placeholder_with_default(3, [])))


def test_targets_count_as_found_with_ties_but_not_beside_infinity() -> None:
    predictions = fed([[1, 5, 5, 3], [1, 2, 3, 4], [np.nan, 1, 2, 3], [np.inf, 1, 2, 3]])
    targets = fed([1, 9, 1, 0], np.int32)
    assert run(tf.nn.in_top_k(predictions, targets, 1)).tolist() == [True, False, False, False]


def test_the_nth_entry_counts_from_either_end() -> None:
    x = fed([[3, 1, 2, 2]])
    assert run(nth_element(x, 0)).tolist() == [1]
    smallest = nth_element(x, 1, reverse=True)
    assert run(smallest).tolist() == [2]
    assert run(tf.gradients(smallest, x))[0].tolist() == [[0, 0, 0.5, 0.5]]


def test_numbers_are_counted_up_to_a_length() -> None:
    x = fed([1, 1, 5], np.int32)
    assert run(tf.bincount(x)).tolist() == [0, 2, 0, 0, 0, 1]
    assert run(tf.bincount(x, maxlength=3)).tolist() == [0, 2, 0]
    assert run(tf.bincount(x, minlength=8)).shape == (8,)
    assert run(tf.bincount(x, weights=[0.5, 1, 2])).tolist() == [0, 1.5, 0, 0, 0, 2]
    assert run(tf.bincount(fed([], np.int32))).shape == (0,)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be non-negative"):
        run(tf.bincount(fed([1, -1], np.int32)))


def test_values_outside_of_a_histogram_go_into_its_outermost_bins() -> None:
    values = fed([-1.0, 0.0, 1.5, 2.0, 5.0, 15])
    assert run(tf.histogram_fixed_width(values, [0.0, 5.0], nbins=5)).tolist() == [2, 1, 1, 0, 2]
    bins = tf.histogram_fixed_width_bins(values, [0.0, 5.0], nbins=5)
    assert run(bins).tolist() == [0, 0, 1, 2, 4, 4]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"but got '\[5, 0\]'"):
        run(tf.histogram_fixed_width(values, fed([5.0, 0.0]), nbins=5))


def test_mistakes_are_counted_by_class() -> None:
    matrix = tf.confusion_matrix(fed([0, 1, 1], np.int32), fed([0, 1, 0], np.int32), num_classes=2)
    assert matrix.shape == (2, 2)
    assert run(matrix).tolist() == [[1, 0], [1, 1]]
    for labels, complaint in (([2], "`labels` out of bound"), ([-1], "negative values")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=complaint):
            run(tf.confusion_matrix(fed(labels, np.int32), fed([0], np.int32), num_classes=2))


def test_flat_positions_become_coordinates() -> None:
    assert run(tf.unravel_index(fed([5, 1], np.int32), [2, 3])).tolist() == [[1, 0], [2, 1]]
    assert run(tf.unravel_index(5, [2, 3])).tolist() == [1, 2]
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of bound"):
        run(tf.unravel_index(fed([6], np.int32), [2, 3]))


def test_a_boundary_belongs_to_the_bucket_above_it() -> None:
    assert run(bucketize(fed([-5, 0, 9.9, 10, 100]), [0, 10, 100])).tolist() == [0, 1, 1, 2, 3]


def test_clipping_is_a_minimum_and_then_a_maximum() -> None:
    x = fed([1, 5, 3])
    assert run(tf.clip_by_value(x, 2.0, 4.0)).tolist() == [2, 4, 3]
    assert run(ClipByValue(x, 4.0, 2.0)).tolist() == [4, 4, 4]
    low, high = fed([2, 2, 2]), fed(4.0)
    grads = run(tf.gradients(ClipByValue(x, low, high), [x, low, high]))
    assert [g.tolist() for g in grads] == [[0, 0, 1], [1, 0, 0], 1]
    with pytest.raises(ValueError, match="incompatible"):
        tf.clip_by_value(x, [[1.0], [2.0]], 4.0)


def test_the_gradient_of_clipping_zeros_by_norm_is_finite() -> None:
    x = fed([0.0, 0.0])
    clipped = tf.clip_by_norm(x, 1.0)
    assert run(clipped).tolist() == [0, 0]
    assert np.isfinite(run(tf.gradients(clipped, x))[0]).all()


def test_clipping_by_global_norm_scales_all_and_keeps_none() -> None:
    clipped, norm = tf.clip_by_global_norm([fed([3.0]), None, fed([4.0])], 2.5)
    assert clipped[1] is None
    assert run([clipped[0], clipped[2], norm]) == [[1.5], [2.0], 5.0]
    infinite, _ = tf.clip_by_global_norm([fed([np.inf, 1])], 1.0)
    assert np.isnan(run(infinite[0])).all()
    with pytest.raises(TypeError, match="should be a sequence of tensors"):
        tf.clip_by_global_norm(fed([1.0]), 1.0)


def test_clipped_slices_stay_slices() -> None:
    slices = tf.IndexedSlices(fed([[3.0, 4.0]]), tf.constant([2]), tf.constant([5, 2]))
    clipped = tf.clip_by_norm(slices, 1.0)
    assert isinstance(clipped, tf.IndexedSlices)
    np.testing.assert_allclose(run(clipped).values, [[0.6, 0.8]], rtol=1e-6)
    assert run(tf.clip_by_value(slices, 0.0, 3.5)).values.tolist() == [[3, 3.5]]
