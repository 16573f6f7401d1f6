"""Where, masks, one-hot, sets, partitions, searching and sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetches, feed)


def test_a_vector_of_conditions_chooses_rows() -> None:
    c = tf.placeholder(tf.bool)
    x, y = tf.ones([2, 3]), tf.zeros([2, 3])
    assert run(tf.where(c, x, y), {c: [True, False]}).tolist() == [[1, 1, 1], [0, 0, 0]]
    assert run(tf.where(c, x, y), {c: True}).sum() == 6
    with pytest.raises(tf.errors.InvalidArgumentError, match="Number of batches"):
        run(tf.where(c, x, y), {c: [True]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="same size and shape"):
        run(tf.where(c, x, y), {c: [[True], [False]]})
    assert run(tf.where_v2(c, x, y), {c: [[True], [False]]}).sum() == 3


def test_gradients_of_broadcast_selection_are_summed() -> None:
    c = tf.placeholder(tf.bool, [2, 3])
    x, y = tf.placeholder(tf.float32, [3]), tf.placeholder(tf.float32, [])
    gradients = tf.gradients(tf.where_v2(c, x, y), [x, y])
    feed = {c: [[True, False, True], [True, False, False]], x: np.ones(3), y: 0.0}
    found = run(gradients, feed)
    assert found[0].tolist() == [2, 0, 1]
    assert found[1] == 3


def test_only_one_branch_is_refused() -> None:
    for function in (tf.where, tf.where_v2):
        with pytest.raises(ValueError, match="must both be non-None"):
            function([True], [1.0])


def test_the_coordinates_of_a_scalar_have_no_column() -> None:
    x = tf.placeholder(tf.float32)
    assert run(tf.where(x), {x: 3.0}).shape == (1, 0)
    assert run(tf.where(x), {x: 0.0}).shape == (0, 0)
    assert run(tf.where(x), {x: [[0, 1], [2, 0]]}).tolist() == [[0, 1], [1, 0]]


def test_masks_of_strings_and_of_the_middle() -> None:
    words = tf.placeholder(tf.string, [None, None])
    table = [["a", "b", "c"], ["d", "e", "f"]]
    masked = tf.boolean_mask(words, [True, False, True], axis=1)
    assert masked.shape.as_list() == [None, None]
    assert run(masked, {words: table}).tolist() == [[b"a", b"c"], [b"d", b"f"]]
    with pytest.raises(ValueError, match="are incompatible"):
        tf.boolean_mask(tf.zeros([3, 2]), [True, False])
    with pytest.raises(ValueError, match="Number of mask dimensions"):
        tf.boolean_mask(tf.zeros([3]), tf.placeholder(tf.bool))


def test_one_hot_rows_of_small_integers_do_not_wrap() -> None:
    i = tf.placeholder(tf.uint8, [None])
    rows = tf.one_hot(i, 300)
    found = run(rows, {i: [255, 43]})
    assert found.argmax(1).tolist() == [255, 43]
    assert found.sum() == 2


def test_one_hot_takes_strings_and_refuses_two_types() -> None:
    found = run(tf.one_hot([1, 7], 2, on_value="yes", off_value="no"))
    assert found.tolist() == [[b"no", b"yes"], [b"no", b"no"]]
    with pytest.raises(TypeError, match="does not match dtype parameter"):
        tf.one_hot([0], 2, on_value=1.0, dtype=tf.int32)
    with pytest.raises(ValueError, match="must be non-negative"):
        tf.one_hot([0], -1)


def test_sequence_masks_wait_for_the_longest_sequence() -> None:
    n = tf.placeholder(tf.int32, [None])
    mask = tf.sequence_mask(n, dtype=tf.float32)
    with tf.Session() as session:
        assert session.run(mask, {n: [1, 2]}).tolist() == [[1, 0], [1, 1]]
        assert session.run(mask, {n: [0, 3]}).tolist() == [[0, 0, 0], [1, 1, 1]]
    with pytest.raises(ValueError, match="must be scalar"):
        tf.sequence_mask(n, [1, 2])


def test_unique_keeps_the_order_of_first_occurrence() -> None:
    x = tf.placeholder(tf.string, [None])
    found = run(tf.unique_with_counts(x), {x: ["z", "a", "z", "b", "a", "z"]})
    assert found.y.tolist() == [b"z", b"a", b"b"]
    assert found.idx.tolist() == [0, 1, 0, 2, 1, 0]
    assert found.count.tolist() == [3, 2, 1]


def test_what_is_not_in_the_other_list() -> None:
    x = tf.placeholder(tf.float32, [None])
    found = run(tf.setdiff1d(x, [2.0]), {x: [3, 2, 1, 2]})
    assert found.out.tolist() == [3, 1]
    assert found.idx.tolist() == [0, 2]
    assert run(tf.listdiff([1, 2], [1]))[0].tolist() == [2]


def test_partitions_and_stitching_are_inverse() -> None:
    x, p = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.int32, [None])
    parts = tf.dynamic_partition(x, p, 3)
    places = tf.dynamic_partition(tf.range(tf.size(p)), p, 3)
    joined = tf.dynamic_stitch(places, parts)
    gradient = tf.gradients(joined * joined, x)[0]
    values = np.arange(8.0).reshape(4, 2)
    with tf.Session() as session:
        for numbers in ([0, 2, 0, 2], [1, 1, 1, 1]):
            found = session.run([joined, gradient, parts], {x: values, p: numbers})
            np.testing.assert_array_equal(found[0], values)
            np.testing.assert_array_equal(found[1], 2 * values)
            assert [len(part) for part in found[2]] == np.bincount(numbers, minlength=3).tolist()


def test_a_partition_that_does_not_exist_is_named() -> None:
    p = tf.placeholder(tf.int32, [None])
    parts = tf.dynamic_partition([1.0, 2.0], p, 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"partitions\[1\] = 2 is not in"):
        run(parts, {p: [0, 2]})


def test_stitching_knows_its_size_from_constant_indices() -> None:
    x = tf.placeholder(tf.float32, [2, None])
    assert tf.dynamic_stitch([[4, 0]], [x]).shape.as_list() == [5, None]
    with pytest.raises(tf.errors.InvalidArgumentError, match="is out of range"):
        run(tf.dynamic_stitch([tf.placeholder_with_default([-1, 0], [2])], [tf.ones([2])]))


def test_searching_sorted_rows_is_numpys() -> None:
    rows = np.array([[1, 3, 3, 5], [2, 4, 6, 8]])
    values = np.array([[3, 0, 9], [4, 5, 1]])
    s = tf.placeholder(tf.int64, [None, 4])
    for side in ("left", "right"):
        expected = [np.searchsorted(r, v, side) for r, v in zip(rows, values, strict=True)]
        np.testing.assert_array_equal(run(tf.searchsorted(s, values, side), {s: rows}), expected)
    with pytest.raises(ValueError, match="side"):
        tf.searchsorted(s, values, "middle")


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "int64"])
def test_sorting_does_not_overflow_at_the_edges_of_a_type(dtype: str) -> None:
    edges = np.iinfo(dtype) if dtype != "float32" else np.finfo(dtype)
    values = np.array([[3, edges.min, edges.max, 3], [0, 1, edges.max, edges.min]], dtype)
    x = tf.placeholder(dtype, [None, None])
    for axis in (0, 1, -1):
        found = run(
            [tf.sort(x, axis), tf.sort(x, axis, "DESCENDING"), tf.argsort(x, axis)], {x: values}
        )
        expected = np.sort(values, axis)
        np.testing.assert_array_equal(found[0], expected)
        np.testing.assert_array_equal(found[1], np.flip(expected, axis))
        np.testing.assert_array_equal(found[2], np.argsort(values, axis, kind="stable"))


def test_sorting_a_tensor_of_unknown_rank_along_its_first_axis() -> None:
    x = tf.placeholder(tf.float32)
    values = np.array([[3.0, 1.0], [2.0, 5.0], [1.0, 4.0]])
    with tf.Session() as session:
        result = tf.sort(x, axis=0)
        np.testing.assert_array_equal(session.run(result, {x: values}), np.sort(values, 0))
        assert session.run(result, {x: [2, 1]}).tolist() == [1, 2]


def test_distances_between_sequences() -> None:
    guess = tf.SparseTensor([[0, 0], [0, 1], [1, 0], [2, 0]], ["a", "b", "c", "d"], [4, 2])
    truth = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], ["a", "c", "x"], [4, 2])
    found = run([tf.edit_distance(guess, truth), tf.edit_distance(guess, truth, normalize=False)])
    assert found[0].tolist() == [1, 0.5, np.inf, 0]
    assert found[1].tolist() == [1, 1, 1, 0]
    with pytest.raises(TypeError, match="Truth must be a SparseTensor"):
        tf.edit_distance(guess, tf.zeros([2]))


def test_fingerprints_of_rows_are_those_of_tensorflow() -> None:
    found = run(
        [
            tf.fingerprint(tf.constant(["abc", "", "xyz"])),
            tf.fingerprint(tf.constant([[1.0, 2.0], [3.0, 4.0]])),
            tf.fingerprint(tf.constant([["a", "bc"], ["abc", ""]])),
        ]
    )
    assert found[0][0].tolist() == [105, 243, 231, 116, 160, 179, 165, 36]
    assert found[1].tolist() == [
        [223, 178, 164, 36, 10, 49, 237, 154],
        [174, 215, 15, 51, 84, 145, 74, 9],
    ]
    assert found[2].tolist() == [
        [85, 27, 103, 37, 147, 177, 144, 87],
        [153, 254, 110, 213, 133, 92, 57, 29],
    ]
