"""Slicing: Python's index expressions against NumPy, and what stays dynamic when compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.ops.array import slicing as array_slicing

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


def traces(session: tf.Session, fetches: list[Any], feeds: list[dict[Any, Any]]) -> int:
    """Runs one plan for each feed and returns how often its stages were traced."""
    order = list(feeds[0])
    prepared = session._backend.prepare(fetches, [], order)
    for feed in feeds:
        values = [np.asarray(feed[t], t.dtype.as_numpy_dtype) for t in order]
        session._backend.run(prepared, values, None, None)
    stages = [s for s in prepared.plan.stages if hasattr(s, "programs")]
    return sum(stage.programs.counts.compiles for stage in stages)


INDICES = [
    np.s_[1],
    np.s_[-1, -1, -1],
    np.s_[1:],
    np.s_[:-1, ::2],
    np.s_[::-1, ::-2, 3:0:-2],
    np.s_[..., 2],
    np.s_[0, ..., 1:3],
    np.s_[:, None, 1, None],
    np.s_[None, ..., None],
    np.s_[5:, 1],
    np.s_[2:1],
    np.s_[-100:100, 3:-5:-1],
    np.s_[1:2, ..., None, ::3],
    np.s_[...],
]


def test_index_expressions_mean_what_they_mean_in_numpy() -> None:
    x = tf.placeholder(tf.float32, [3, 4, 5])
    loose = tf.placeholder_with_default(x, [None, None, None])
    slices = [x[index] for index in INDICES]
    gradients = tf.gradients([s * s for s in slices], x)
    lone = [tf.gradients(s * s, x)[0] for s in slices]
    with tf.Session() as session:
        found = session.run([slices, [loose[i] for i in INDICES], lone, gradients], {x: X})
    for index, tight, open_shape, gradient, tensor in zip(
        INDICES, found[0], found[1], found[2], slices, strict=True
    ):
        np.testing.assert_array_equal(tight, X[index], err_msg=str(index))
        np.testing.assert_array_equal(open_shape, X[index], err_msg=str(index))
        assert tensor.shape.as_list() == list(X[index].shape), index
        expected = np.zeros_like(X)
        expected[index] = 2 * X[index]
        np.testing.assert_array_equal(gradient, expected, err_msg=str(index))


def test_static_shapes_of_slices_of_partly_known_tensors() -> None:
    x = tf.placeholder(tf.float32, [None, 4, 5])
    assert x[1].shape.as_list() == [4, 5]
    assert x[:, 1:3].shape.as_list() == [None, 2, 5]
    assert x[1:3].shape.as_list() == [None, 4, 5]
    assert x[3:3].shape.as_list() == [0, 4, 5]
    assert x[..., None].shape.as_list() == [None, 4, 5, 1]
    assert tf.placeholder(tf.float32)[0].shape.ndims is None


def test_a_tensor_as_index_is_not_compiled_again_for_each_value() -> None:
    x, i = tf.placeholder(tf.float32, [3, 4, 5]), tf.placeholder(tf.int32, [])
    row, mixed, window = x[i], x[i, 1:3, ..., None], tf.slice(x, [i, 0, 1], [1, -1, 2])
    gradient = tf.gradients([row, mixed, window], x)[0]
    with tf.Session() as session:
        feeds = [{x: X, i: k} for k in (0, 1, 2)]
        assert traces(session, [row, mixed, window, gradient], feeds) == 1
        for k in (0, 2):
            found = session.run([row, mixed, window, gradient], {x: X, i: k})
            expected = np.zeros_like(X)
            expected[k] += 1
            expected[k, 1:3] += 1
            expected[k, :, 1:3] += 1
            np.testing.assert_array_equal(found[0], X[k])
            np.testing.assert_array_equal(found[1], X[k, 1:3, ..., None])
            np.testing.assert_array_equal(found[2], X[k : k + 1, :, 1:3])
            np.testing.assert_array_equal(found[3], expected)
        np.testing.assert_array_equal(session.run(row, {x: X, i: -1}), X[-1])


def test_a_range_between_tensors_decides_the_shape() -> None:
    x, i = tf.placeholder(tf.float32, [3, 4, 5]), tf.placeholder(tf.int64, [])
    part = x[i : i + 2]
    gradient = tf.gradients(part, x)[0]
    with tf.Session() as session:
        for k in (0, 1, 2):
            found = session.run([part, gradient], {x: X, i: k})
            np.testing.assert_array_equal(found[0], X[k : k + 2])
            assert found[1].sum() == X[k : k + 2].size


def test_an_index_past_the_end_fails_the_step_and_names_the_dimension() -> None:
    x, i = tf.placeholder(tf.float32, [3, 4]), tf.placeholder(tf.int32, [])
    picked, window = x[:, i], tf.slice(x, [i, 0], [2, 2])
    with tf.Session() as session:
        values = np.ones([3, 4])
        with pytest.raises(tf.errors.InvalidArgumentError, match="slice index 4 of dimension 1"):
            session.run(picked, {x: values, i: 4})
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"size\[0\] in \[0, 1\]"):
            session.run(window, {x: values, i: 2})
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"begin\[0\] in \[0, 3\]"):
            session.run(window, {x: values, i: -1})
        assert session.run(picked, {x: values, i: 3}).sum() == 3


def test_strings_are_sliced_on_the_host() -> None:
    words = tf.placeholder(tf.string, [None, None])
    i = tf.placeholder(tf.int32, [])
    with tf.Session() as session:
        table = [["a", "b", "c"], ["d", "e", "f"]]
        found = session.run([words[i, ::-1], words[:, 1], words[0, 0]], {words: table, i: 1})
    assert found[0].tolist() == [b"f", b"e", b"d"]
    assert found[1].tolist() == [b"b", b"e"]
    assert found[2] == b"a"


@pytest.mark.parametrize("index", [1.0, "a", [0.5], (1, "b"), np.array([1, 2])])
def test_other_indices_are_refused(index: Any) -> None:
    with pytest.raises(TypeError, match="Only integers, slices"):
        tf.zeros([3, 4])[index]


def test_a_bool_tensor_or_array_as_index_is_a_mask() -> None:
    x = tf.constant([[1.0, -2.0], [-3.0, 4.0]])
    with tf.Session() as session:
        assert session.run(x[x > 0]).tolist() == [1, 4]
        assert session.run(x[np.array([False, True])]).tolist() == [[-3, 4]]
    with pytest.raises(ValueError, match="mask cannot be scalar"):
        x[True]


def test_two_ellipses_and_a_zero_step_are_refused() -> None:
    x = tf.zeros([3, 4])
    with pytest.raises(ValueError, match="Multiple ellipses"):
        x[..., ...]
    with pytest.raises(ValueError, match="must be non-zero"):
        x[::0]


def test_a_slice_of_a_tensor_can_be_replaced() -> None:
    x = tf.placeholder(tf.float32, [3, 4])
    value = tf.placeholder(tf.float32, [])
    bounds = ([2, 0], [0, 4], [-1, 2])
    changed = array_slicing.TensorStridedSliceUpdate(x, *bounds, value)
    gradients = tf.gradients(changed * changed, [x, value])
    with tf.Session() as session:
        found = session.run([changed, gradients], {x: np.ones([3, 4]), value: 5.0})
    expected = np.ones([3, 4])
    expected[2:0:-1, 0:4:2] = 5
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1][0], np.where(expected == 5, 0, 2))
    assert found[1][1] == 4 * 2 * 5


def test_the_gradient_of_a_gradient_of_a_slice_is_a_slice() -> None:
    x, i = tf.placeholder(tf.float32, [4]), tf.placeholder(tf.int32, [])
    first = tf.gradients(tf.slice(x, [i], [2]) ** 3, x)[0]
    second = tf.gradients(first, x)[0]
    with tf.Session() as session:
        found = session.run(second, {x: [1.0, 2.0, 3.0, 4.0], i: 1})
    np.testing.assert_allclose(found, [0, 12, 18, 0])
