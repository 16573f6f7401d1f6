"""`tf.metrics`: where they keep their counts, and what they refuse. (Numbers: tests/parity.)"""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf
from millrace.core import errors


def test_counts_are_local_variables_that_begin_again_when_initialized() -> None:
    x = tf.placeholder(tf.float32, [None])
    value, update = tf.metrics.mean(x)
    assert [v.op.name for v in tf.local_variables()] == ["mean/total", "mean/count"]
    assert tf.get_collection(tf.GraphKeys.METRIC_VARIABLES) == tf.local_variables()
    assert not tf.global_variables()
    assert not tf.trainable_variables()
    reset = tf.local_variables_initializer()
    with tf.Session() as session:
        session.run(reset)
        assert session.run(value) == 0
        assert session.run(update, {x: [1.0, 2.0]}) == 1.5
        assert session.run(update, {x: [6.0]}) == 3
        assert session.run(value) == 3
        session.run(reset)
        assert session.run(update, {x: [8.0]}) == 8


def test_two_metrics_of_one_kind_count_apart() -> None:
    first, _ = tf.metrics.mean(tf.constant([1.0]))
    second, _ = tf.metrics.mean(tf.constant([2.0]))
    assert [first.op.name, second.op.name] == ["mean/value", "mean_1/value"]
    named, _ = tf.metrics.accuracy(tf.constant([1]), tf.constant([1]), name="mine")
    assert named.op.name == "mine/value"


def test_values_and_updates_join_collections() -> None:
    value, update = tf.metrics.precision(
        tf.constant([True]), tf.constant([True]), None, ["values"], ["updates"]
    )
    assert tf.get_collection("values") == [value]
    assert tf.get_collection("updates") == [update]


def test_a_last_dimension_of_one_is_dropped_and_weights_are_fitted() -> None:
    labels = tf.constant([[1], [0], [1]])
    guesses = tf.constant([1, 1, 1])
    weights = tf.constant([[1.0], [1.0], [2.0]])
    _, plain = tf.metrics.accuracy(labels, guesses)
    _, weighted = tf.metrics.accuracy(labels, guesses, weights)
    unknown = tf.placeholder(tf.float32)
    _, dynamic = tf.metrics.mean(tf.constant([1.0, 5.0]), unknown)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        np.testing.assert_allclose(session.run(plain), 2 / 3)
        np.testing.assert_allclose(session.run(weighted), 3 / 4)
        np.testing.assert_allclose(session.run(dynamic, {unknown: [3.0, 1.0]}), 2.0)


def test_scores_outside_of_zero_to_one_fail_the_step() -> None:
    scores = tf.placeholder(tf.float32, [2])
    _, update = tf.metrics.auc(tf.constant([0, 1]), scores, num_thresholds=5)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        assert session.run(update, {scores: [0.1, 0.9]}) > 0.99
        with pytest.raises(errors.InvalidArgumentError, match=r"predictions must be in \[0, 1\]"):
            session.run(update, {scores: [0.1, 1.9]})


def test_sets_of_labels_may_be_sparse() -> None:
    labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], np.array([2, 1, 3]), [2, 2])
    scores = tf.constant([[0.1, 0.5, 0.4, 0.0], [0.4, 0.2, 0.3, 0.1]])
    made = [
        tf.metrics.recall_at_k(labels, scores, 2),
        tf.metrics.precision_at_k(labels, scores, 2, class_id=1),
        tf.metrics.average_precision_at_k(labels, scores, 2),
    ]
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        np.testing.assert_allclose(session.run([update for _, update in made]), [2 / 3, 1, 0.5])


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="curve must be either ROC or PR"):
        tf.metrics.auc(tf.constant([0]), tf.constant([0.5]), curve="area")
    with pytest.raises(ValueError, match="Invalid summation_method"):
        tf.metrics.auc(tf.constant([0]), tf.constant([0.5]), summation_method="all")
    with pytest.raises(ValueError, match="`specificity` must be in the range"):
        tf.metrics.sensitivity_at_specificity(tf.constant([0]), tf.constant([0.5]), 1.5)
    with pytest.raises(ValueError):
        tf.metrics.accuracy(tf.zeros([2]), tf.zeros([3]))
