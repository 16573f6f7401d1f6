"""Gather and scatter: against NumPy, bad indices, and sparse gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.graph.slices import IndexedSlices


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetches, feed)


TABLE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("indices", "axis", "batch_dims", "expected"),
    [
        ([1, 0, 1], 0, 0, TABLE[[1, 0, 1]]),
        ([[2, 2], [0, 1]], 1, 0, TABLE[:, [[2, 2], [0, 1]]]),
        (3, -1, 0, TABLE[..., 3]),
        ([[0, 2], [1, 1]], 1, 1, np.stack([TABLE[0][[0, 2]], TABLE[1][[1, 1]]])),
        ([[3, 0], [1, 2]], 2, 1, np.stack([TABLE[0][:, [3, 0]], TABLE[1][:, [1, 2]]])),
        (
            [[[1], [0], [3]], [[2], [2], [0]]],
            2,
            -1,
            np.take_along_axis(TABLE, np.array([[[1], [0], [3]], [[2], [2], [0]]]), 2),
        ),
    ],
)
def test_gather_and_its_gradient(
    indices: Any, axis: int, batch_dims: int, expected: np.ndarray
) -> None:
    x = tf.placeholder(tf.float32, [None, 3, None])
    picked = tf.gather(x, indices, axis=axis, batch_dims=batch_dims)
    weights = np.arange(expected.size, dtype=np.float32).reshape(expected.shape) + 1
    gradient = tf.gradients(picked, x, grad_ys=tf.constant(weights))[0]
    assert isinstance(gradient, IndexedSlices) == (axis == 0)
    found = run([picked, tf.convert_to_tensor(gradient)], {x: TABLE})
    np.testing.assert_array_equal(found[0], expected)
    # The gradient puts each weight where its element came from.
    assert found[1].sum() == weights.sum()
    inner = (found[1] * TABLE).sum()
    np.testing.assert_allclose(inner, (weights * expected).sum())


def test_a_gather_along_an_axis_that_is_fed() -> None:
    x, axis = tf.placeholder(tf.float32), tf.placeholder(tf.int32, [])
    picked = tf.gather(x, [1, 1], axis=axis)
    gradient = tf.gradients(picked, x)[0]
    with tf.Session() as session:
        for k in (0, 1, 2, -1):
            found = session.run([picked, gradient], {x: TABLE, axis: k})
            np.testing.assert_array_equal(found[0], np.take(TABLE, [1, 1], k))
            expected = np.zeros_like(TABLE)
            np.moveaxis(expected, k, 0)[1] = 2
            np.testing.assert_array_equal(found[1], expected)


@pytest.mark.parametrize(
    ("indices", "where"), [([[0, 3]], r"\[0,1\] = 3"), (-1, " = -1"), ([1, 2, 9], r"\[2\] = 9")]
)
def test_a_bad_index_fails_the_step_and_says_where_it_is(indices: Any, where: str) -> None:
    x, i = tf.placeholder(tf.float32, [3, 2]), tf.placeholder(tf.int32)
    message = rf"indices{where} is not in \[0, 3\)"
    picked = tf.gather(x, i)
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match=message) as info:
            session.run(picked, {x: np.ones([3, 2]), i: indices})
        assert "GatherV2" in str(info.value)
        assert session.run(picked, {x: np.ones([3, 2]), i: [2]}).tolist() == [[1, 1]]


def test_bad_coordinates_are_named() -> None:
    x, i = tf.placeholder(tf.float32, [3, 2]), tf.placeholder(tf.int32, [None, None])
    message = r"indices\[1\] = \[0, 2\] does not index into param shape \[3,2\]"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run(tf.gather_nd(x, i), {x: np.ones([3, 2]), i: [[0, 0], [0, 2]]})
    message = r"indices\[0\] = \[5\] does not index into shape \[3\]"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run(tf.scatter_nd(i, [1.0], [3]), {i: [[5]]})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[-1\] does not index"):
        run(tf.tensor_scatter_update([1.0, 2.0], i, [9.0]), {i: [[-1]]})


def test_small_index_types_reach_every_row_of_a_long_table() -> None:
    table = np.arange(70_000, dtype=np.float32)
    x, i = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int16, [None])
    assert run(tf.gather(x, i), {x: table, i: [32_767, 0]}).tolist() == [32_767, 0]
    picked = tf.gather_nd(x, tf.expand_dims(i, 1))
    assert run(picked, {x: table, i: [32_767]}).tolist() == [32_767]


def test_gather_of_strings() -> None:
    words = tf.placeholder(tf.string, [None])
    found = run([tf.gather(words, [1, 0]), tf.gather_nd(words, [[1]])], {words: ["a", "b"]})
    assert found[0].tolist() == [b"b", b"a"]
    assert found[1].tolist() == [b"b"]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"is not in \[0, 2\)"):
        run(tf.gather(words, [2]), {words: ["a", "b"]})


def test_gather_nd_takes_elements_rows_and_batches() -> None:
    x = tf.placeholder(tf.float32, [2, 3, 4])
    cases = [
        (tf.gather_nd(x, [[0, 1, 2], [1, 2, 3]]), TABLE[[0, 1], [1, 2], [2, 3]]),
        (tf.gather_nd(x, [[1], [0]]), TABLE[[1, 0]]),
        (tf.gather_nd(x, np.zeros([2, 0], np.int32)), np.stack([TABLE, TABLE])),
        (tf.gather_nd(x, [[[2, 1]], [[0, 0]]], batch_dims=1), [[TABLE[0, 2, 1]], [TABLE[1, 0, 0]]]),
        (tf.batch_gather(x, [[2, 0], [1, 1]]), np.stack([TABLE[0][[2, 0]], TABLE[1][[1, 1]]])),
    ]
    found = run([fetch for fetch, _ in cases], {x: TABLE})
    for value, (fetch, expected) in zip(found, cases, strict=True):
        np.testing.assert_array_equal(value, expected)
        assert fetch.shape.as_list() == list(np.shape(expected))


def test_rows_by_single_coordinates_have_a_sparse_gradient() -> None:
    x = tf.placeholder(tf.float32, [3, 2])
    rows = tf.gradients(tf.gather_nd(x, [[2], [0]]), x)[0]
    elements = tf.gradients(tf.gather_nd(x, [[2, 1]]), x)[0]
    assert isinstance(rows, IndexedSlices)
    assert not isinstance(elements, IndexedSlices)
    assert run(elements, {x: np.ones([3, 2])}).tolist() == [[0, 0], [0, 0], [0, 1]]


def test_scatters_combine_as_they_say() -> None:
    x = np.array([5.0, 5.0, 5.0, 5.0], np.float32)
    places, updates = [[0], [2], [2]], [1.0, 9.0, 3.0]
    found = run(
        {
            "add": tf.tensor_scatter_add(x, places, updates),
            "sub": tf.tensor_scatter_sub(x, places, updates),
            "min": tf.tensor_scatter_min(x, places, updates),
            "max": tf.tensor_scatter_max(x, places, updates),
            "update": tf.tensor_scatter_update(x, [[0], [3]], [1.0, 9.0]),
            "zeros": tf.scatter_nd(places, updates, [4]),
            "whole": tf.scatter_nd(np.zeros([2, 0], np.int32), [[1.0, 2.0], [3.0, 4.0]], [2]),
            "flags": tf.scatter_nd([[1], [1]], [True, True], [3]),
            "words": tf.tensor_scatter_update(["a", "b"], [[1]], ["z"]),
        }
    )
    assert found["add"].tolist() == [6, 5, 17, 5]
    assert found["sub"].tolist() == [4, 5, -7, 5]
    assert found["min"].tolist() == [1, 5, 3, 5]
    assert found["max"].tolist() == [5, 5, 9, 5]
    assert found["update"].tolist() == [1, 5, 5, 9]
    assert found["zeros"].tolist() == [1, 0, 12, 0]
    assert found["whole"].tolist() == [4, 6]
    assert found["flags"].tolist() == [False, True, False]
    assert found["words"].tolist() == [b"a", b"z"]


def test_updates_of_another_shape_are_refused_while_building() -> None:
    with pytest.raises(ValueError, match=r"Dimensions \[0,1\) of indices"):
        tf.scatter_nd([[0]], [1.0, 2.0], [3])
    with pytest.raises(ValueError, match="must match dimensions"):
        tf.tensor_scatter_add(tf.zeros([3, 2]), [[0]], tf.zeros([1, 3]))
