"""Metrics of heads: what is measured, and how either generation of heads measures it.

A problem lists its `Measure`s. Heads of the first generation make pairs (value, update) of
`tf.metrics` of them, those of the second metrics of Keras.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import millrace as tf
from millrace.ops.nn.weights import broadcast_weights


class Measure(NamedTuple):
    """One metric.

    Attributes:
      key: Its name.
      kind: What is computed.
      of: Which tensor is judged: ``"loss"``, ``"labels"`` or a prediction.
      threshold: From which on a probability says yes.
      class_id: The only class that counts.
    """

    key: str
    kind: str
    of: str
    threshold: float | None = None
    class_id: int | None = None


def at_thresholds(thresholds: tuple[float, ...], of: str) -> list[Measure]:
    """Accuracy, precision and recall at each threshold."""
    return [
        Measure(f"{kind}/positive_threshold_{threshold:g}", kind, of, threshold)
        for threshold in thresholds
        for kind in ("accuracy", "precision", "recall")
    ]


def _judged(measure: Measure, tensors: dict[str, Any], weights: Any) -> tuple[Any, Any, Any]:
    """The labels, what is judged, and the weights as broad as that."""
    labels, values = tensors["labels"], tensors[measure.of]
    if measure.class_id is not None:
        at = measure.class_id
        labels, values = labels[..., at : at + 1], values[..., at : at + 1]
    if measure.kind in ("mean", "auc", "auc_pr"):
        values = tf.cast(values, tf.float32)
    if isinstance(weights, tf.Tensor):
        weights = broadcast_weights(weights, tf.cast(values, tf.float32))
    return labels, values, weights


def classic_metric(measure: Measure, tensors: dict[str, Any], weights: Any) -> Any:
    """A metric as a pair (value, update) of `tf.metrics`."""
    labels, values, weights = _judged(measure, tensors, weights)
    key, kind = measure.key, measure.kind
    if kind == "mean":
        return tf.metrics.mean(values, weights=weights, name=key)
    if kind == "baseline":
        mean = tf.metrics.mean(tf.cast(values, tf.float32), weights=weights, name=key)
        value, update = (tf.maximum(each, 1 - each) for each in mean)
        return value, update
    options = {"labels": labels, "weights": weights, "name": key}
    if kind in ("auc", "auc_pr"):
        curve = "PR" if kind == "auc_pr" else "ROC"
        return tf.metrics.auc(predictions=values, curve=curve, **options)
    if measure.threshold is None:
        return getattr(tf.metrics, kind)(predictions=values, **options)
    if kind == "accuracy":
        decided = tf.to_float(tf.greater_equal(values, measure.threshold))
        return tf.metrics.accuracy(predictions=decided, **options)
    function = getattr(tf.metrics, f"{kind}_at_thresholds")
    value, update = function(predictions=values, thresholds=(measure.threshold,), **options)
    return tf.squeeze(value), tf.squeeze(update)


def keras_metric(measure: Measure) -> Any:
    """A metric of Keras, without values yet."""
    metrics, key = tf.keras.metrics, measure.key
    if measure.kind in ("mean", "baseline"):
        return metrics.Mean(name=key)
    if measure.kind in ("auc", "auc_pr"):
        return metrics.AUC(curve="PR" if measure.kind == "auc_pr" else "ROC", name=key)
    if measure.kind == "accuracy":
        if measure.threshold is None:
            return metrics.Accuracy(name=key)
        return metrics.BinaryAccuracy(name=key, threshold=measure.threshold)
    cls = {"precision": metrics.Precision, "recall": metrics.Recall}[measure.kind]
    return cls(name=key, thresholds=measure.threshold)


def update_keras_metric(
    metric: Any, measure: Measure, tensors: dict[str, Any], weights: Any
) -> None:
    """Gives a metric of Keras a batch."""
    of_example = weights
    labels, values, weights = _judged(measure, tensors, weights)
    if measure.kind in ("mean", "baseline"):
        metric.update_state(tf.cast(values, tf.float32), sample_weight=weights)
    elif measure.kind == "accuracy" and measure.threshold is not None:
        metric.update_state(labels, values, sample_weight=of_example)  # it has one for each example
    else:
        metric.update_state(labels, values, sample_weight=weights)
