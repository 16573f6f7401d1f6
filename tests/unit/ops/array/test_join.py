"""Joining and splitting, with the argument orders of TensorFlow 0.x, and lists of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.graph.slices import IndexedSlices


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetches, feed)


def test_concat_takes_its_arguments_in_the_old_order_too() -> None:
    a, b = tf.ones([2, 1]), tf.zeros([2, 2])
    for joined in (
        tf.concat([a, b], 1),
        tf.concat(1, [a, b]),
        tf.concat(tf.constant(1), [a, b]),
        tf.concat(concat_dim=1, values=[a, b]),
        tf.concat(axis=1, values=[a, b]),
    ):
        assert joined.shape.as_list() == [2, 3]


def test_split_takes_its_arguments_in_the_old_order_too() -> None:
    x = tf.placeholder(tf.float32, [2, 6])
    for parts in (
        tf.split(x, 3, 1),
        tf.split(1, 3, x),
        tf.split(split_dim=1, num_split=3, value=x),
        tf.split(x, [2, 2, -1], axis=1),
    ):
        assert [p.shape.as_list() for p in parts] == [[2, 2]] * 3


def test_old_names_of_stack_and_unstack() -> None:
    x = tf.placeholder(tf.float32, [2, 3])
    assert tf.pack([x, x]).shape.as_list() == [2, 2, 3]
    assert len(tf.unpack(x)) == 2


def test_concat_of_one_tensor_still_wants_a_scalar_axis() -> None:
    x = tf.zeros([2])
    assert tf.concat([x], 0).op.type == "Identity"
    with pytest.raises(ValueError, match="must have rank 0"):
        tf.concat([x], [0])


def test_shapes_that_do_not_fit_are_named_while_building_and_while_running() -> None:
    x, y = tf.zeros([2, 3]), tf.zeros([2, 4])
    with pytest.raises(ValueError, match=r"\[2,3\] and \[2,4\]"):
        tf.concat([x, y], 0)
    a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    feed = {a: np.ones([2, 3]), b: np.ones([2, 4])}
    message = r"Dimension 1 in both shapes must be equal: shape\[0\] = \[2,3\] vs"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run(tf.concat([a, b], 0), feed)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"values\[1\].shape = \[2,4\]"):
        run(tf.stack([a, b]), feed)
    with pytest.raises(tf.errors.InvalidArgumentError, match="evenly divide"):
        run(tf.split(a, 2, 1), {a: np.ones([2, 3])})
    with pytest.raises(tf.errors.InvalidArgumentError, match="must equal 4"):
        run(tf.unstack(a, 4), {a: np.ones([2, 3])})


def test_the_gradient_of_many_parts_is_one_split() -> None:
    xs = [tf.placeholder(tf.float32, [2, None]) for _ in range(20)]
    joined = tf.concat(xs, 1)
    gradients = tf.gradients(joined * joined, xs)
    assert {g.op.type for g in gradients} == {"SplitV"}
    feed = {x: np.full([2, i % 3], i) for i, x in enumerate(xs)}
    for i, found in enumerate(run(gradients, feed)):
        np.testing.assert_array_equal(found, np.full([2, i % 3], 2 * i))


@pytest.mark.parametrize("axis", [0, 1])
def test_sparse_gradients_pass_a_concat(axis: int) -> None:
    a, b = tf.placeholder(tf.float32, [3, 2]), tf.placeholder(tf.float32, [3, 2])
    joined = tf.concat([a, b], axis)
    gradients = tf.gradients(tf.gather(joined, [0, 2, 2]), [a, b])
    assert all(isinstance(g, IndexedSlices) for g in gradients)
    feed = {a: np.ones([3, 2]), b: np.ones([3, 2])}
    found = run([tf.convert_to_tensor(g) for g in gradients], feed)
    touched = np.array([[1, 1], [0, 0], [2, 2]])
    np.testing.assert_array_equal(found[0], touched)
    np.testing.assert_array_equal(found[1], np.zeros([3, 2]) if axis == 0 else touched)


def test_sparse_gradients_reach_the_second_part_of_a_concat() -> None:
    a, b = tf.placeholder(tf.float32, [2, 2]), tf.placeholder(tf.float32, [3, 2])
    gradients = tf.gradients(tf.gather(tf.concat([a, b], 0), [4, 1, 2]), [a, b])
    found = run(gradients, {a: np.ones([2, 2]), b: np.ones([3, 2])})
    assert found[0].indices.tolist() == [1]
    assert found[1].indices.tolist() == [2, 0]


def test_lists_that_contain_tensors_become_one_tensor() -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    table = tf.convert_to_tensor([[x, 1.0], [2.0, x]], name="table")
    assert table.op.type == "Pack"
    assert table.shape.as_list() == [2, 2]
    assert run(table, {x: 7.0}).tolist() == [[7, 1], [2, 7]]
    # Another type is asked for: the tensors inside are cast.
    assert run(tf.convert_to_tensor([x, 1], dtype=tf.float64), {x: 2.5}).tolist() == [2.5, 1]
    with pytest.raises(TypeError, match="list containing a tensor of dtype"):
        tf.convert_to_tensor([x, tf.constant(1)])
    with pytest.raises(TypeError, match="1.5"):
        tf.convert_to_tensor([tf.constant(1), 1.5])


def test_a_list_without_tensors_is_stacked_to_one_constant() -> None:
    assert tf.stack([[1, 2], [3, 4]]).op.type == "Const"
    assert tf.stack([1, 2], axis=-1).op.type == "Pack"


def test_strings_are_joined_and_split_on_the_host() -> None:
    words = tf.placeholder(tf.string, [None])
    joined = tf.concat([words, ["z"]], 0)
    table = tf.stack([words, words], 1)
    found = run([joined, table, tf.split(words, 2), tf.unstack(table, 2)], {words: ["a", "b"]})
    assert found[0].tolist() == [b"a", b"b", b"z"]
    assert found[1].tolist() == [[b"a", b"a"], [b"b", b"b"]]
    assert [p.tolist() for p in found[2]] == [[b"a"], [b"b"]]
    assert [p.tolist() for p in found[3]] == [[b"a", b"a"], [b"b", b"b"]]


def test_split_sizes_must_add_up() -> None:
    x = tf.placeholder(tf.float32)
    feed = {x: np.ones([4])}
    with pytest.raises(tf.errors.InvalidArgumentError, match="Determined shape must either"):
        run(tf.split(x, [1, 2]), feed)
    with pytest.raises(tf.errors.InvalidArgumentError, match="only be one -1"):
        run(tf.split(x, [-1, -1]), feed)
    assert [p.size for p in run(tf.split(x, [1, -1, 1]), feed)] == [1, 2, 1]
    with pytest.raises(ValueError, match="Rank-0 tensors are not supported"):
        tf.split(x, tf.constant(2))


def test_meshgrid_is_numpys() -> None:
    vectors = [np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0]), np.array([6.0])]
    for indexing in ("xy", "ij"):
        expected = np.meshgrid(*vectors, indexing=indexing)
        for found, wanted in zip(
            run(tf.meshgrid(*vectors, indexing=indexing)), expected, strict=True
        ):
            np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ValueError, match="indexing"):
        tf.meshgrid(vectors[0], indexing="yx")
    with pytest.raises(TypeError, match="sparse"):
        tf.meshgrid(vectors[0], sparse=True)
