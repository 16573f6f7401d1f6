"""tf.losses: reductions, weights that must fit, the collection."""

import numpy as np
import pytest

import millrace as tf

Reduction = tf.losses.Reduction
LABELS = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], np.float32)
PREDICTIONS = LABELS + np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 0.0]], np.float32)
SQUARES = (PREDICTIONS - LABELS) ** 2


def run(fetch, feed=None):
    with tf.Session() as session:
        return session.run(fetch, feed)


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        (Reduction.NONE, SQUARES * [[1], [0], [2]]),
        (Reduction.SUM, 23.0),
        (Reduction.MEAN, 23.0 / 6),
        (Reduction.SUM_OVER_BATCH_SIZE, 23.0 / 6),
        (Reduction.SUM_BY_NONZERO_WEIGHTS, 23.0 / 4),
    ],
)
def test_a_reduction_divides_by_what_its_name_says(reduction, expected):
    loss = tf.losses.mean_squared_error(
        LABELS, PREDICTIONS, weights=[[1.0], [0.0], [2.0]], reduction=reduction
    )
    np.testing.assert_allclose(run(loss), expected, rtol=1e-6)


def test_weights_that_are_all_zero_give_a_loss_of_zero():
    loss = tf.losses.absolute_difference(LABELS, PREDICTIONS, weights=0.0)
    assert run(loss) == 0


def test_weights_that_numpy_would_broadcast_but_tensorflow_does_not_are_refused():
    with pytest.raises(ValueError, match="weights can not be broadcast to values. values.rank=2"):
        tf.losses.mean_squared_error(LABELS, PREDICTIONS, weights=[1.0, 2.0])
    with pytest.raises(ValueError, match="Mismatch at dim 0"):
        tf.losses.mean_squared_error(LABELS, PREDICTIONS, weights=[[1.0], [2.0]])


@pytest.mark.parametrize(
    ("weights", "expected"),
    [(2.0, 2 * SQUARES.sum() / 6), ([[1.0], [0.0], [1.0]], 14 / 4), (np.ones((3, 2)), 15 / 6)],
)
def test_weights_of_an_unknown_shape_are_checked_while_running(weights, expected):
    fed = tf.placeholder(tf.float32)
    loss = tf.losses.mean_squared_error(LABELS, PREDICTIONS, weights=fed)
    np.testing.assert_allclose(run(loss, {fed: weights}), expected, rtol=1e-6)


@pytest.mark.parametrize("weights", [[1.0, 2.0], [[1.0], [2.0]], np.ones((1, 3, 2))])
def test_weights_that_turn_out_not_to_fit_fail_the_step(weights):
    fed = tf.placeholder(tf.float32)
    loss = tf.losses.mean_squared_error(LABELS, PREDICTIONS, weights=fed)
    with pytest.raises(tf.errors.InvalidArgumentError, match="weights can not be broadcast"):
        run(loss, {fed: weights})


def test_a_loss_without_a_collection_is_not_gathered():
    tf.losses.mean_squared_error(LABELS, PREDICTIONS, loss_collection=None)
    kept = tf.losses.mean_squared_error(LABELS, PREDICTIONS, loss_collection="mine")
    assert tf.losses.get_losses() == []
    assert tf.losses.get_losses(loss_collection="mine") == [kept]


def test_losses_of_a_scope_are_found_by_its_name():
    with tf.name_scope("tower"):
        inside = tf.losses.mean_squared_error(LABELS, PREDICTIONS)
    tf.losses.mean_squared_error(LABELS, PREDICTIONS)
    assert tf.losses.get_losses("tower") == [inside]
    assert len(tf.losses.get_losses()) == 2


def test_without_regularizers_their_loss_is_zero():
    assert run(tf.losses.get_regularization_loss()) == 0


def test_no_losses_have_no_total():
    with pytest.raises(ValueError):
        tf.losses.get_total_loss()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: tf.losses.mean_squared_error(None, PREDICTIONS), "`labels` must not be None"),
        (lambda: tf.losses.log_loss(LABELS, None), "`predictions` must not be None"),
        (lambda: tf.losses.hinge_loss(LABELS, None), "`logits` must not be None"),
        (lambda: tf.losses.cosine_distance(LABELS, PREDICTIONS), "must specify argument `axis`"),
        (
            lambda: tf.losses.cosine_distance(LABELS, PREDICTIONS, axis=1, dim=1),
            "Cannot specify both",
        ),
        (
            lambda: tf.losses.compute_weighted_loss(LABELS, reduction="mean"),
            "Invalid Reduction Key mean",
        ),
    ],
)
def test_arguments_that_are_missing_or_wrong_are_named(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_pairs_within_an_example_are_compared():
    errors = PREDICTIONS - LABELS
    expected = sum((a - b) ** 2 for a, b in errors)
    loss = tf.losses.mean_pairwise_squared_error(LABELS, PREDICTIONS)
    np.testing.assert_allclose(run(loss), expected, rtol=1e-5)


def test_labels_in_a_column_are_squeezed_also_when_the_rank_is_fed():
    logits = np.array([[1.0, 2.0], [3.0, 0.0]], np.float32)
    known = tf.losses.sparse_softmax_cross_entropy([0, 1], logits)
    column = tf.losses.sparse_softmax_cross_entropy([[0], [1]], logits, weights=[[1.0], [1.0]])
    fed = tf.placeholder(tf.int64)
    unknown = tf.losses.sparse_softmax_cross_entropy(fed, logits)
    with tf.Session() as session:
        expected = session.run(known)
        np.testing.assert_allclose(session.run(column), expected, rtol=1e-6)
        np.testing.assert_allclose(session.run(unknown, {fed: [[0], [1]]}), expected, rtol=1e-6)
        np.testing.assert_allclose(session.run(unknown, {fed: [0, 1]}), expected, rtol=1e-6)


def test_smoothed_labels_are_between_the_classes():
    logits = np.array([[2.0, 0.0]], np.float32)
    smoothed = tf.losses.softmax_cross_entropy([[1, 0]], logits, label_smoothing=0.2)
    by_hand = tf.losses.softmax_cross_entropy([[0.9, 0.1]], logits)
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(smoothed), session.run(by_hand), rtol=1e-6)
