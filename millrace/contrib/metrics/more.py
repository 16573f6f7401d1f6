"""Metrics that `tf.metrics` lacks, and functions on metrics."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.ops.state.variable_changes import assign, assign_add


def accuracy(predictions: Any, labels: Any, weights: Any = None, name: str | None = None) -> Any:
    """The accuracy of one batch.

    Raises:
      ValueError: The types differ, or floats are compared.
    """
    if not (labels.dtype.is_integer or labels.dtype in (tf.bool, tf.string)):
        raise ValueError(f"Labels should have bool, integer, or string dtype, not {labels.dtype}.")
    predictions.shape.assert_is_compatible_with(labels.shape)
    if labels.dtype != predictions.dtype:
        raise ValueError(
            f"Dtypes of predictions and labels should match: {predictions.dtype} and {labels.dtype}"
        )
    with tf.name_scope(name, "accuracy", [predictions, labels]):
        correct = tf.cast(tf.equal(predictions, labels), tf.float32)
        if weights is None:
            return tf.reduce_mean(correct)
        correct = tf.multiply(correct, weights)
        counts = tf.multiply(tf.ones_like(correct), tf.cast(weights, correct.dtype))
        return tf.div(tf.reduce_sum(correct), tf.reduce_sum(counts))


def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: int | None = None,
    dtype: Any = tf.int32,
    name: str | None = None,
    weights: Any = None,
) -> Any:
    """`tf.confusion_matrix`."""
    return tf.math.confusion_matrix(labels, predictions, num_classes, weights, dtype, name)


def streaming_concat(
    values: Any,
    axis: int = 0,
    max_size: int | None = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """All values of all batches, in one tensor; (values, operation that adds a batch).

    Raises:
      ValueError: Another axis than the first, or other sizes that are not known.
    """
    if axis != 0:
        raise ValueError("streaming_concat concatenates along axis 0 only.")
    with tf.variable_scope(name, "streaming_concat", (values,)):
        values = tf.convert_to_tensor(values)
        rest = values.shape[1:]
        if not rest.is_fully_defined():
            raise ValueError(f"Shape must be fully defined except axis 0, found {values.shape}")
        kept = tf.get_variable(
            "values",
            dtype=values.dtype,
            initializer=tf.zeros([0, *rest.as_list()], values.dtype),
            validate_shape=False,
            trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
        )
        value = tf.identity(kept)
        joined = tf.concat([value, values], 0)
        if max_size is not None:
            joined = joined[:max_size]
        update = assign(kept, joined, validate_shape=False)
        value.set_shape([None, *rest.as_list()])
        if metrics_collections:
            tf.add_to_collections(metrics_collections, value)
        if updates_collections:
            tf.add_to_collections(updates_collections, update)
        return value, update


def streaming_covariance(
    predictions: Any,
    labels: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """The unbiased covariance of predictions and labels."""
    with tf.variable_scope(name, "covariance", (predictions, labels)):
        predictions, labels = tf.to_float(predictions), tf.to_float(labels)
        w = tf.ones_like(labels) if weights is None else tf.to_float(weights) * tf.ones_like(labels)
        sums = {
            key: _total(key, value)
            for key, value in {
                "count": tf.reduce_sum(w),
                "x": tf.reduce_sum(w * predictions),
                "y": tf.reduce_sum(w * labels),
                "xy": tf.reduce_sum(w * predictions * labels),
            }.items()
        }

        def result(t: dict[str, Any]) -> Any:
            centred = t["xy"] - t["x"] * t["y"] / tf.maximum(t["count"], 1.0)
            return tf.where(t["count"] > 1, centred / tf.maximum(t["count"] - 1, 1.0), 0.0)

        value = result({key: tf.identity(total) for key, (total, _) in sums.items()})
        update = result({key: updated for key, (_, updated) in sums.items()})
        _collect(value, update, metrics_collections, updates_collections)
        return value, update


def streaming_pearson_correlation(
    predictions: Any,
    labels: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """The correlation of predictions and labels."""
    with tf.variable_scope(name, "pearson_r", (predictions, labels)):
        pairs = [(predictions, labels), (predictions, predictions), (labels, labels)]
        found = [
            streaming_covariance(a, b, weights, name=key)
            for key, (a, b) in zip(("covariance", "var_p", "var_l"), pairs, strict=True)
        ]
        value = found[0][0] / tf.sqrt(found[1][0] * found[2][0])
        update = found[0][1] / tf.sqrt(found[1][1] * found[2][1])
        _collect(value, update, metrics_collections, updates_collections)
        return value, update


def _total(name: str, value: Any) -> tuple[Any, Any]:
    variable = tf.get_variable(
        f"{name}_sum" if name != "count" else "count",
        shape=[],
        dtype=tf.float32,
        initializer=tf.zeros_initializer(),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
    )
    return variable, assign_add(variable, value)


def _collect(value: Any, update: Any, metrics: Any, updates: Any) -> None:
    if metrics:
        tf.add_to_collections(metrics, value)
    if updates:
        tf.add_to_collections(updates, update)


def aggregate_metrics(*value_update_tuples: Any) -> tuple[list[Any], list[Any]]:
    """Lists of values and of updates, from pairs of them.

    Raises:
      ValueError: There are none.
    """
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples, strict=True)
    return list(values), list(updates)


def aggregate_metric_map(
    names_to_tuples: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values and updates by name, from pairs by name."""
    values = {name: pair[0] for name, pair in names_to_tuples.items()}
    updates = {name: pair[1] for name, pair in names_to_tuples.items()}
    return values, updates
