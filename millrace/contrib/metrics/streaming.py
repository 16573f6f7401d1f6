"""Metrics over many batches, with contrib's order of arguments: predictions first."""

from __future__ import annotations

from typing import Any

import millrace as tf


def _common(metrics_collections: Any, updates_collections: Any, name: str | None) -> dict[str, Any]:
    return {
        "metrics_collections": metrics_collections,
        "updates_collections": updates_collections,
        "name": name,
    }


def _of_values(metric: str) -> Any:
    def streaming(
        values: Any, weights: Any = None, metrics_collections: Any = None,
        updates_collections: Any = None, name: str | None = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        return getattr(tf.metrics, metric)(  # type: ignore[no-any-return]
            values, weights, **_common(metrics_collections, updates_collections, name)
        )

    return _named(streaming, metric)


def _of_pairs(metric: str) -> Any:
    def streaming(
        predictions: Any, labels: Any, weights: Any = None, metrics_collections: Any = None,
        updates_collections: Any = None, name: str | None = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        return getattr(tf.metrics, metric)(  # type: ignore[no-any-return]
            labels=labels,
            predictions=predictions,
            weights=weights,
            **_common(metrics_collections, updates_collections, name),
        )

    return _named(streaming, metric)


def _at_thresholds(metric: str) -> Any:
    def streaming(
        predictions: Any, labels: Any, thresholds: Any, weights: Any = None,
        metrics_collections: Any = None, updates_collections: Any = None,
        name: str | None = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        return getattr(tf.metrics, metric)(  # type: ignore[no-any-return]
            labels=labels,
            predictions=predictions,
            thresholds=thresholds,
            weights=weights,
            **_common(metrics_collections, updates_collections, name),
        )

    return _named(streaming, metric)


def _named(function: Any, metric: str) -> Any:
    function.__name__ = function.__qualname__ = f"streaming_{metric}"
    function.__doc__ = f"`tf.metrics.{metric}`; returns (value, operation that updates it)."
    return function


streaming_mean = _of_values("mean")
streaming_mean_tensor = _of_values("mean_tensor")
streaming_accuracy = _of_pairs("accuracy")
streaming_precision = _of_pairs("precision")
streaming_recall = _of_pairs("recall")
streaming_true_positives = _of_pairs("true_positives")
streaming_true_negatives = _of_pairs("true_negatives")
streaming_false_positives = _of_pairs("false_positives")
streaming_false_negatives = _of_pairs("false_negatives")
streaming_mean_absolute_error = _of_pairs("mean_absolute_error")
streaming_mean_squared_error = _of_pairs("mean_squared_error")
streaming_root_mean_squared_error = _of_pairs("root_mean_squared_error")
streaming_precision_at_thresholds = _at_thresholds("precision_at_thresholds")
streaming_recall_at_thresholds = _at_thresholds("recall_at_thresholds")
streaming_true_positives_at_thresholds = _at_thresholds("true_positives_at_thresholds")
streaming_true_negatives_at_thresholds = _at_thresholds("true_negatives_at_thresholds")
streaming_false_positives_at_thresholds = _at_thresholds("false_positives_at_thresholds")
streaming_false_negatives_at_thresholds = _at_thresholds("false_negatives_at_thresholds")


def streaming_auc(
    predictions: Any,
    labels: Any,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    curve: str = "ROC",
    name: str | None = None,
) -> tuple[Any, Any]:
    """`tf.metrics.auc`."""
    return tf.metrics.auc(
        labels=labels,
        predictions=predictions,
        weights=weights,
        num_thresholds=num_thresholds,
        curve=curve,
        **_common(metrics_collections, updates_collections, name),
    )


def streaming_mean_iou(
    predictions: Any,
    labels: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """`tf.metrics.mean_iou`."""
    return tf.metrics.mean_iou(
        labels=labels,
        predictions=predictions,
        num_classes=num_classes,
        weights=weights,
        **_common(metrics_collections, updates_collections, name),
    )


def streaming_mean_relative_error(
    predictions: Any,
    labels: Any,
    normalizer: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """`tf.metrics.mean_relative_error`."""
    return tf.metrics.mean_relative_error(
        labels=labels,
        predictions=predictions,
        normalizer=normalizer,
        weights=weights,
        **_common(metrics_collections, updates_collections, name),
    )


def streaming_mean_cosine_distance(
    predictions: Any,
    labels: Any,
    dim: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """`tf.metrics.mean_cosine_distance`."""
    return tf.metrics.mean_cosine_distance(
        labels=labels,
        predictions=predictions,
        dim=dim,
        weights=weights,
        **_common(metrics_collections, updates_collections, name),
    )


def streaming_percentage_less(
    values: Any,
    threshold: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """`tf.metrics.percentage_below`."""
    return tf.metrics.percentage_below(
        values=values,
        threshold=threshold,
        weights=weights,
        **_common(metrics_collections, updates_collections, name),
    )


def _at_k(metric: str) -> Any:
    def streaming(
        predictions: Any, labels: Any, k: int, class_id: int | None = None, weights: Any = None,
        metrics_collections: Any = None, updates_collections: Any = None,
        name: str | None = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        return getattr(tf.metrics, metric)(  # type: ignore[no-any-return]
            labels=labels,
            predictions=predictions,
            k=k,
            class_id=class_id,
            weights=weights,
            **_common(metrics_collections, updates_collections, name),
        )

    return _named(streaming, metric)


streaming_sparse_recall_at_k = _at_k("recall_at_k")
streaming_sparse_precision_at_k = _at_k("precision_at_k")


def streaming_recall_at_k(
    predictions: Any,
    labels: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """How often the label is among the k best predictions."""
    hit = tf.cast(tf.nn.in_top_k(predictions, labels, k), tf.float32)
    return tf.metrics.mean(
        hit, weights, **_common(metrics_collections, updates_collections, name or "recall_at_k")
    )


def streaming_sparse_average_precision_at_k(
    predictions: Any,
    labels: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """`tf.metrics.average_precision_at_k`."""
    return tf.metrics.average_precision_at_k(
        labels=labels,
        predictions=predictions,
        k=k,
        weights=weights,
        **_common(metrics_collections, updates_collections, name),
    )


def streaming_sensitivity_at_specificity(
    predictions: Any, labels: Any, specificity: Any, weights: Any = None,
    num_thresholds: int = 200, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """`tf.metrics.sensitivity_at_specificity`."""
    return tf.metrics.sensitivity_at_specificity(
        labels, predictions, specificity, weights, num_thresholds,
        **_common(metrics_collections, updates_collections, name),
    )  # fmt: skip


def streaming_specificity_at_sensitivity(
    predictions: Any, labels: Any, sensitivity: Any, weights: Any = None,
    num_thresholds: int = 200, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """`tf.metrics.specificity_at_sensitivity`."""
    return tf.metrics.specificity_at_sensitivity(
        labels, predictions, sensitivity, weights, num_thresholds,
        **_common(metrics_collections, updates_collections, name),
    )  # fmt: skip
