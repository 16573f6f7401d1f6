"""`tf.contrib.training`: gradients changed between computing and applying them."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf

training = tf.contrib.training


def run(fetches):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


def test_gradients_are_clipped_each_by_its_norm() -> None:
    a, b, c = (tf.Variable([1.0, 1.0], name=name) for name in "abc")
    slices = tf.IndexedSlices(tf.constant([[6.0, 8.0]]), tf.constant([3]), tf.constant([5, 2]))
    pairs = training.clip_gradient_norms_fn(5.0)(
        [(tf.constant([30.0, 40.0]), a), (slices, b), (None, c)]
    )
    assert [v for _, v in pairs] == [a, b, c]
    assert pairs[2][0] is None
    assert pairs[1][0].indices is slices.indices and pairs[1][0].dense_shape is slices.dense_shape
    dense, sparse = run([pairs[0][0], pairs[1][0].values])
    np.testing.assert_allclose(dense, [3, 4], rtol=1e-6)
    np.testing.assert_allclose(sparse, [[3, 4]], rtol=1e-6)


def test_gradients_are_multiplied_by_variable_or_name() -> None:
    a, b, c = (tf.Variable([1.0], name=name) for name in "abc")
    pairs = [(tf.constant([1.0]), a), (tf.constant([1.0]), b), (tf.constant([1.0]), c)]
    scaled = training.multiply_gradients(pairs, {a: 2.0, "b": tf.constant(3.0)})
    assert [g.tolist() for g in run([g for g, _ in scaled])] == [[2], [3], [1]]
    with pytest.raises(ValueError, match="`None` gradient: variable a"):
        training.multiply_gradients([(None, a)], {"a": 2.0})
    with pytest.raises(ValueError, match="must be a list"):
        training.multiply_gradients((), {"a": 1.0})
    with pytest.raises(ValueError, match="is empty"):
        training.multiply_gradients(pairs, {})
    with pytest.raises(ValueError, match="must be a dict"):
        training.multiply_gradients(pairs, ["a"])


def test_a_train_op_steps_counts_and_has_the_loss_as_value() -> None:
    w = tf.Variable([1.0, 2.0], name="w")
    seen = tf.Variable(0, name="seen", trainable=False)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(seen, 1).op)
    loss = tf.reduce_sum(w * w)
    train_op = training.create_train_op(
        loss,
        tf.train.GradientDescentOptimizer(0.1),
        transform_grads_fn=training.clip_gradient_norms_fn(1.0),
        summarize_gradients=True,
    )
    assert tf.get_collection(tf.GraphKeys.TRAIN_OP)[-1] is train_op
    tags = [t.op.name for t in tf.get_collection(tf.GraphKeys.SUMMARIES)]
    assert tags == ["summarize_grads/w_gradient", "summarize_grads/w_gradient_norm"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(train_op) == 5.0
        assert session.run([tf.train.get_global_step(), seen]) == [1, 1]
        expected = np.array([1, 2]) * (1 - 0.1 / np.sqrt(5))
        np.testing.assert_allclose(session.run(w), expected, rtol=1e-6)


def test_a_loss_that_is_no_number_is_an_error() -> None:
    w = tf.Variable(0.0, name="w")
    train_op = training.create_train_op(tf.log(w), tf.train.GradientDescentOptimizer(0.1))
    with pytest.raises(tf.errors.InvalidArgumentError, match="LossTensor is inf or nan"):
        run(train_op)


def test_only_trainable_variables_are_trained() -> None:
    frozen = tf.Variable(1.0, name="frozen", trainable=False)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    with pytest.raises(ValueError, match="frozen in variables_to_train is not trainable"):
        training.create_train_op(frozen * 2, optimizer, variables_to_train=[frozen])
    with pytest.raises(ValueError, match="no variables to train"):
        training.create_train_op(frozen * 2, optimizer)
