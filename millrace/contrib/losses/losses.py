"""Losses with contrib's order of arguments: predictions first, then labels."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib.framework import add_arg_scope


@add_arg_scope
def compute_weighted_loss(losses: Any, weights: Any = 1.0, scope: str | None = None) -> Any:
    """The mean of the weighted losses whose weight is not 0; added to LOSSES."""
    return tf.losses.compute_weighted_loss(losses, weights, scope)


@add_arg_scope
def add_loss(loss: Any, loss_collection: str = tf.GraphKeys.LOSSES) -> None:
    """Adds a loss to a collection."""
    tf.losses.add_loss(loss, loss_collection)


def get_losses(scope: str | None = None, loss_collection: str = tf.GraphKeys.LOSSES) -> list[Any]:
    """The losses that were added."""
    return list(tf.losses.get_losses(scope, loss_collection))


def get_regularization_losses(scope: str | None = None) -> list[Any]:
    """The regularization losses."""
    return list(tf.losses.get_regularization_losses(scope))


def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss") -> Any:
    """The sum of all losses."""
    return tf.losses.get_total_loss(add_regularization_losses, name)


@add_arg_scope
def absolute_difference(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> Any:
    """The mean of |predictions − labels|."""
    return tf.losses.absolute_difference(labels, predictions, weights, scope)


@add_arg_scope
def sigmoid_cross_entropy(
    logits: Any,
    multi_class_labels: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
) -> Any:
    """The cross-entropy of independent classes."""
    return tf.losses.sigmoid_cross_entropy(
        multi_class_labels, logits, weights, label_smoothing, scope
    )


@add_arg_scope
def softmax_cross_entropy(
    logits: Any,
    onehot_labels: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
) -> Any:
    """The cross-entropy of classes that exclude one another."""
    return tf.losses.softmax_cross_entropy(onehot_labels, logits, weights, label_smoothing, scope)


@add_arg_scope
def sparse_softmax_cross_entropy(
    logits: Any, labels: Any, weights: Any = 1.0, scope: str | None = None
) -> Any:
    """The same, with labels as numbers."""
    labels = tf.convert_to_tensor(labels)
    if labels.shape.ndims == 2 and logits.shape.ndims == 2:
        labels = tf.squeeze(labels, [1])
    return tf.losses.sparse_softmax_cross_entropy(labels, logits, weights, scope)


@add_arg_scope
def log_loss(
    predictions: Any,
    labels: Any = None,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
) -> Any:
    """The mean of −log of the likelihood."""
    return tf.losses.log_loss(labels, predictions, weights, epsilon, scope)


@add_arg_scope
def hinge_loss(logits: Any, labels: Any = None, scope: str | None = None) -> Any:
    """The hinge loss of each element; labels are 0 or 1."""
    with tf.name_scope(scope, "hinge_loss", [logits, labels]):
        labels = tf.cast(labels, tf.float32)
        logits = tf.convert_to_tensor(logits)
        logits.shape.assert_is_compatible_with(labels.shape)
        signs = tf.subtract(2 * labels, tf.ones_like(labels))
        return tf.nn.relu(tf.subtract(tf.ones_like(labels), tf.multiply(signs, logits)))


@add_arg_scope
def mean_squared_error(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> Any:
    """The mean of (predictions − labels)²."""
    return tf.losses.mean_squared_error(labels, predictions, weights, scope)


@add_arg_scope
def mean_pairwise_squared_error(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> Any:
    """The mean squared error of differences between elements."""
    return tf.losses.mean_pairwise_squared_error(labels, predictions, weights, scope)


@add_arg_scope
def cosine_distance(
    predictions: Any,
    labels: Any = None,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: str | None = None,
    dim: int | None = None,
) -> Any:
    """One minus the cosine of unit vectors."""
    return tf.losses.cosine_distance(
        labels, predictions, axis=dim if axis is None else axis, weights=weights, scope=scope
    )
