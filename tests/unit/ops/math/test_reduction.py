"""Reductions: axes, empty inputs, integer and NaN rules, gradients of unknown shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from tests.unit.ops.conftest import fed, run

EMPTY = np.zeros((2, 0))


@pytest.mark.parametrize(
    ("function", "kind", "expected"),
    [
        (tf.reduce_sum, np.float32, 0),
        (tf.reduce_prod, np.float32, 1),
        (tf.reduce_max, np.float32, -np.inf),
        (tf.reduce_min, np.float32, np.inf),
        (tf.reduce_max, np.int32, -(2**31)),
        (tf.reduce_min, np.uint8, 255),
        (tf.reduce_mean, np.int32, 0),
        (tf.reduce_any, np.bool_, False),
        (tf.reduce_all, np.bool_, True),
    ],
)
def test_a_reduction_of_nothing_gives_the_neutral_element(
    function: Any, kind: Any, expected: Any
) -> None:
    assert run(function(fed(EMPTY, kind), 1)).tolist() == [expected, expected]
    assert run(function(fed(EMPTY, kind), 0)).shape == (0,)


def test_the_mean_of_nothing_is_nan() -> None:
    assert np.isnan(run(tf.reduce_mean(fed([]))))


def test_integer_means_are_rounded_towards_zero_and_do_not_overflow() -> None:
    assert run(tf.reduce_mean(fed([1, 2, 2, -4, -4], np.int32))) == 0
    assert run(tf.reduce_mean(fed([-1, -1, -1, 0], np.int32))) == 0
    assert run(tf.reduce_mean(fed([100, 100, 100], np.uint8))) == 100


def test_integer_sums_wrap_in_their_own_type() -> None:
    total = run(tf.reduce_sum(fed([200, 100], np.uint8)))
    assert (total, total.dtype) == (44, np.uint8)
    assert run(tf.reduce_sum(tf.constant([200, 100], tf.uint8))) == 44


def test_the_mean_of_half_precision_numbers_fits_where_their_sum_does_not() -> None:
    assert run(tf.reduce_mean(fed(np.full(1000, 100), np.float16))) == 100


def test_nan_is_contagious_in_extremes() -> None:
    for place in range(3):
        value = [1.0, 2.0, 3.0]
        value[place] = np.nan
        assert np.isnan(run(tf.reduce_max(fed(value))))
        assert np.isnan(run(tf.reduce_min(fed(value))))


def test_positions_of_extremes_pass_over_nan() -> None:
    assert run(tf.argmax(fed([np.nan, 1, 5]))) == 2
    assert run(tf.argmin(fed([np.nan, 1, 5]))) == 1
    assert run(tf.argmax(tf.constant([1.0, np.nan, 5.0]))) == 2


def test_of_equal_elements_the_first_is_the_extreme() -> None:
    assert run(tf.argmax(fed([1, 5, 5], np.int32))) == 1
    assert run(tf.argmin(fed([True, False, False], np.bool_))) == 1


def test_the_position_in_an_empty_axis_is_refused() -> None:
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"Reduction axis 1 is empty in shape \[2,0\]"
    ):
        run(tf.argmax(fed(EMPTY), 1))
    assert run(tf.argmax(fed(EMPTY), 0)).shape == (0,)


def test_positions_have_the_type_that_is_asked_for() -> None:
    assert tf.argmax(fed([1])).dtype == tf.int64
    assert run(tf.argmax(fed([1, 2]), output_type=tf.int32)).dtype == np.int32


def test_an_axis_out_of_range_is_refused_while_building_or_running() -> None:
    with pytest.raises(ValueError, match="Invalid reduction dimension 2 for input with 2"):
        tf.reduce_sum(fed([[1]]), 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid reduction dimension"):
        run(tf.reduce_sum(fed([[1]], shape=None), 2))
    with pytest.raises(tf.errors.InvalidArgumentError, match="range .-1, 1., but got 3"):
        run(tf.argmax(fed([1]), tf.placeholder_with_default(3, [])))


def test_an_argument_and_its_old_name_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="Cannot specify both 'axis' and 'reduction_indices'"):
        tf.reduce_sum(fed([1]), axis=0, reduction_indices=0)
    with pytest.raises(ValueError, match="'keepdims' and 'keep_dims'"):
        tf.reduce_max(fed([1]), keepdims=True, keep_dims=True)


def test_all_axes_of_a_known_rank_are_a_constant() -> None:
    result = tf.reduce_sum(tf.placeholder(tf.float32, [None, 3]))
    assert [op.type for op in tf.get_default_graph().get_operations()] == [
        "Placeholder",
        "Const",
        "Sum",
    ]
    assert result.shape == ()


@pytest.mark.parametrize("shape", [[2, 3], [None, 3], [2, None], [None, None], None])
@pytest.mark.parametrize(
    ("axis", "count"), [(None, 6), (0, 2), (1, 3), ([0, 1], 6), ([-1], 3), ([], 1)]
)
@pytest.mark.parametrize("keepdims", [True, False])
def test_gradients_reach_every_element_however_little_is_known_of_the_shape(
    shape: Any, axis: Any, count: int, keepdims: bool
) -> None:
    x = fed([[1.0, 2, 3], [4, 5, 6]], shape=shape)
    weights = [[1.0, 2, 3], [4, 5, 6]]
    total = tf.reduce_sum(x, axis, keepdims=keepdims)
    assert run(tf.gradients(total, x))[0].tolist() == np.ones([2, 3]).tolist()
    mean = tf.reduce_mean(x * weights, axis, keepdims=keepdims)
    expected = np.array(weights, np.float32) / count
    np.testing.assert_allclose(run(tf.gradients(mean, x))[0], expected, rtol=1e-6)


def test_axes_that_are_fed_have_gradients() -> None:
    x, axes = fed([[1.0, 2], [3, 4]]), tf.placeholder(tf.int32, [None])
    (grad,) = tf.gradients(tf.square(tf.reduce_sum(x, axes)), x)
    with tf.Session() as session:
        assert session.run(grad, {axes: [0]}).tolist() == [[8, 12], [8, 12]]
        assert session.run(grad, {axes: [-1]}).tolist() == [[6, 6], [14, 14]]
        assert session.run(grad, {axes: [0, 1]}).tolist() == [[20, 20], [20, 20]]


def test_ties_share_the_gradient_of_an_extreme() -> None:
    x = fed([[1, 3, 3], [2, 0, 1]])
    grad = run(tf.gradients(tf.reduce_max(x, 1), x))[0]
    assert grad.tolist() == [[0, 0.5, 0.5], [1, 0, 0]]


def test_the_gradient_of_a_product_stands_zeros() -> None:
    x = fed([[0, 2, 3], [0, 0, 5]])
    assert run(tf.gradients(tf.reduce_prod(x, 1), x))[0].tolist() == [[6, 0, 0], [0, 0, 0]]


def test_log_sum_exp_neither_overflows_nor_loses_infinities() -> None:
    assert run(tf.reduce_logsumexp(fed([1000.0, 1000.0]))) == pytest.approx(1000 + np.log(2))
    assert run(tf.reduce_logsumexp(fed([-np.inf, -np.inf]))) == -np.inf
    assert run(tf.reduce_logsumexp(fed([np.inf, 0.0]))) == np.inf


def test_variances_of_integers_are_refused() -> None:
    assert run(tf.math.reduce_variance(fed([1, 3]))) == 1
    assert run(tf.math.reduce_std(fed([1, 3]))) == 1
    with pytest.raises(TypeError, match="must be either real or complex"):
        tf.math.reduce_variance(fed([1, 3], np.int32))


def test_nonzero_elements_are_counted_in_strings_and_bools() -> None:
    assert run(tf.count_nonzero(tf.constant(["", "a"]))) == 1
    assert run(tf.count_nonzero(fed([True, False], np.bool_), dtype=tf.int32)).dtype == np.int32


def test_running_sums_and_products_go_both_ways() -> None:
    x = fed([1, 2, 3])
    assert run(tf.cumsum(x)).tolist() == [1, 3, 6]
    assert run(tf.cumsum(x, exclusive=True)).tolist() == [0, 1, 3]
    assert run(tf.cumsum(x, reverse=True)).tolist() == [6, 5, 3]
    assert run(tf.cumsum(x, exclusive=True, reverse=True)).tolist() == [5, 3, 0]
    assert run(tf.cumprod(x, exclusive=True, reverse=True)).tolist() == [6, 3, 1]
    assert run(tf.cumsum(fed([200, 100], np.uint8))).tolist() == [200, 44]
    with pytest.raises(tf.errors.InvalidArgumentError, match="scan axis in the range"):
        run(tf.cumsum(x, 1))
