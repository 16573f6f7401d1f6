"""Shapes: what folds while a program is traced, and what is known while the graph is built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.graph import registry
from millrace.ops.array import shape as array_shape
from millrace.ops.array.constant import constant


def stages(fetches: list[Any], feeds: list[Any]) -> list[str]:
    """The kinds of the stages that a step for `fetches` consists of."""
    with tf.Session() as session:
        plan = session._backend.prepare(fetches, [], feeds).plan
    return [type(stage).__name__ for stage in plan.stages]


def test_shape_arithmetic_folds_into_one_xla_call() -> None:
    x = tf.placeholder(tf.float32)
    shape = tf.shape(x)
    rows = tf.reshape(x, [shape[0], -1])
    wide = tf.reshape(x, tf.concat([shape[:1], [tf.size(x) // shape[0]]], 0))
    padded = tf.zeros(tf.stack([shape[0] + 1, tf.rank(x)]))
    assert stages([rows, wide, padded], [x]) == ["CompiledStage"]
    with tf.Session() as session:
        found = session.run([rows, wide, padded], {x: np.ones([2, 3, 4])})
    assert [f.shape for f in found] == [(2, 12), (2, 12), (3, 3)]


def test_host_ops_on_known_values_fold_too() -> None:
    # What TensorFlow's own gradient of a reduction builds from a shape and its axes.
    x = tf.placeholder(tf.float32, [None, None, 4])
    shape, axes = tf.shape(x), tf.constant([1])
    kept = tf.dynamic_stitch([tf.range(tf.rank(x)), axes], [shape, [1]])
    others = tf.setdiff1d(tf.range(tf.rank(x)), axes).out
    total = tf.reshape(tf.reduce_sum(x, [1]), kept)
    moved = tf.transpose(x, tf.concat([axes, others], 0))
    assert stages([total, moved], [x]) == ["CompiledStage"]
    with tf.Session() as session:
        found = session.run([total, moved], {x: np.ones([2, 3, 4])})
    assert [f.shape for f in found] == [(2, 1, 4), (3, 2, 4)]


def test_host_ops_on_data_stay_on_the_host() -> None:
    x = tf.placeholder(tf.float32, [None])
    doubled = tf.where(x > 0) * 2
    assert stages([doubled], [x]) == ["CompiledStage", "HostStage", "CompiledStage"]
    with tf.Session() as session:
        assert session.run(doubled, {x: [1, 0, 1]}).tolist() == [[0], [4]]


def test_a_shape_from_an_earlier_stage_is_known_in_a_later_one() -> None:
    # The shape of x is computed before the host op, and reshapes what comes after it.
    x = tf.placeholder(tf.float32)
    parts, _ = tf.unique(tf.reshape(x, [-1]))
    target = tf.stack([tf.shape(x)[1], tf.shape(x)[0]])
    result = tf.reshape(parts + tf.cast(tf.reduce_sum(target), tf.float32), target)
    with tf.Session() as session:
        found = session.run([result, target], {x: np.arange(6.0).reshape(2, 3)})
    np.testing.assert_array_equal(found[0], (np.arange(6) + 5).reshape(3, 2))
    assert found[1].tolist() == [3, 2]


def test_a_fed_value_that_decides_a_shape_comes_from_outside() -> None:
    n = tf.placeholder(tf.int32, [])
    result = tf.fill([n * 2, 3], 1.5)
    with tf.Session() as session:
        for k in (1, 2):
            assert session.run(result, {n: k}).shape == (2 * k, 3)


def test_the_known_part_of_a_shape_is_known() -> None:
    x = tf.placeholder(tf.float32, [None, 28, 28, 3])
    shape = tf.shape(x)
    assert tf.get_static_value(shape[1]) == 28
    assert tf.get_static_value(shape[0]) is None
    assert tf.get_static_value(shape[1:3]).tolist() == [28, 28]
    assert tf.reshape(x, [shape[0], 28 * 28, 3]).shape.as_list() == [None, 784, 3]
    assert tf.reshape(x, [-1, tf.reduce_prod(shape[1:])]).shape.as_list() == [None, 2352]
    assert tf.zeros(tf.concat([shape[:1], [7]], 0)).shape.as_list() == [None, 7]


def test_a_placeholder_with_default_is_never_taken_for_its_default() -> None:
    n = tf.placeholder_with_default([2, 3], [2])
    result = tf.zeros(n)
    assert result.shape.as_list() == [None, None]
    with tf.Session() as session:
        assert session.run(result).shape == (2, 3)
        assert session.run(result, {n: [1, 4]}).shape == (1, 4)


def test_a_large_fill_does_not_become_a_literal_of_the_program() -> None:
    filled = registry.lookup("Fill").kernel(
        np.array([1000, 1000]), np.array(2.5, np.float32), xp=np
    )
    assert filled.shape == (1000, 1000)
    assert filled.strides == (0, 0)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([-1, -1], "Only one input size may be -1, not both 0 and 1"),
        ([-3, 2], "Size 0 must be non-negative, not -3"),
        ([5, -1], "requested shape requires a multiple of 5"),
        ([7], "tensor with 6 values, but the requested shape has 7"),
        ([0, -1], "cannot infer the missing input size"),
    ],
)
def test_reshape_says_what_does_not_fit(shape: list[int], message: str) -> None:
    x, target = tf.placeholder(tf.float32), tf.placeholder(tf.int32)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run(tf.reshape(x, target), {x: np.ones([2, 3]), target: shape})


def test_axes_that_do_not_exist_are_refused_while_the_graph_is_built() -> None:
    x = tf.zeros([2, 3])
    with pytest.raises(ValueError, match=r"dim 3 not in the interval \[-3, 2\]"):
        tf.expand_dims(x, 3)
    with pytest.raises(ValueError, match=r"Can not squeeze dim\[1\]"):
        tf.squeeze(x, [1])
    with pytest.raises(ValueError, match="squeeze dim index 4"):
        tf.squeeze(x, [4])
    with pytest.raises(ValueError, match="out of range"):
        tf.transpose(x, [0, 5])
    with pytest.raises(ValueError, match="Cannot specify both"):
        tf.expand_dims(x, 0, dim=0)


def test_broadcast_gradient_axes_are_those_of_tensorflow() -> None:
    def axes(a: list[int], b: list[int]) -> list[list[int]]:
        found = array_shape.BroadcastGradientArgs.kernel(np.array(a), np.array(b), xp=np)
        return [f.tolist() for f in found]

    assert axes([2, 3], [3]) == [[], [0]]
    assert axes([2, 1], [1, 3]) == [[1], [0]]
    assert axes([1, 1], [1]) == [[0, 1], [0, 1]]
    assert axes([1], [1]) == [[], []]
    with pytest.raises(ValueError, match=r"Incompatible shapes: \[2\] vs. \[3\]"):
        axes([2], [3])


def test_sparse_placeholders_know_and_take_what_they_were_told() -> None:
    known = tf.sparse_placeholder(tf.float32, [None, 3], name="known")
    anything = tf.sparse_placeholder(tf.float32)
    assert known.shape.as_list() == [None, 3]
    assert known.values.name == "known/values:0"
    assert anything.shape.ndims is None
    assert tf.rank(anything).shape.as_list() == []
    fed = tf.SparseTensorValue(np.array([[0, 1]]), np.array([2.0]), np.array([4, 3]))
    with tf.Session() as session:
        shape, size = session.run([tf.shape(known), tf.size(known)], {known: fed})
    assert shape.tolist() == [4, 3]
    assert size == 12


def test_a_prevented_gradient_says_why() -> None:
    x = constant(1.0)
    y = registry.lookup("PreventGradient")(x, message="not here")  # type: ignore[operator]
    with pytest.raises(LookupError, match="not here"):
        tf.gradients(y, x)


def test_ensure_shape_is_checked_in_every_step() -> None:
    x = tf.placeholder(tf.float32)
    y = tf.ensure_shape(x, [None, 3])
    assert y.shape.as_list() == [None, 3]
    with tf.Session() as session:
        assert session.run(y, {x: np.ones([1, 3])}).shape == (1, 3)
        with pytest.raises(tf.errors.InvalidArgumentError, match="is not compatible with"):
            session.run(y, {x: np.ones([1, 4])})


@pytest.mark.parametrize("target", ["int32", "uint8", "int16", "float32", "complex64", "float64"])
@pytest.mark.parametrize("source", ["float32", "int64", "complex64", "complex128", "uint8"])
def test_bits_are_those_of_numpy(source: str, target: str) -> None:
    values = np.arange(16, dtype=source).reshape(2, 8)
    have, want = np.dtype(source).itemsize, np.dtype(target).itemsize
    if want > have:
        values = values.reshape(-1, want // have)
    kernel = registry.lookup("Bitcast").kernel
    dtype = tf.as_dtype(target)
    on_host = kernel(values, type=dtype, xp=np)
    expected = np.frombuffer(values.tobytes(), target)
    assert on_host.ndim == values.ndim + (have > want) - (want > have)
    np.testing.assert_array_equal(on_host.reshape(-1), expected)
    x = tf.placeholder(source, values.shape)
    with tf.Session() as session:
        found = session.run(tf.bitcast(x, dtype), {x: values})
    assert found.shape == on_host.shape
    np.testing.assert_array_equal(found.reshape(-1), expected)
