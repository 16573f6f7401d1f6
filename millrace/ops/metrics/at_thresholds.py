"""Metrics of scores in [0, 1] that are cut at thresholds: AUC, precision and recall at each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import control_dependencies
from millrace.ops.array import cast, constant
from millrace.ops.array import fill as array_fill
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.control_flow import checks
from millrace.ops.math import arithmetic, comparison, cumulative, elementwise, reduction
from millrace.ops.metrics.metrics import Metric, collected, matched, metric_variable, ratio
from millrace.ops.nn import weights
from millrace.ops.state.variable_changes import assign_add
from millrace.ops.state.variable_scope import variable_scope

__all__: list[str] = []

#: What is added to denominators, and what the outermost thresholds lie outside of [0, 1] by.
_EPSILON = 1e-7
#: Short names of the four counts, and the names of their variables, in the order of creation.
_COUNTS = {
    "tp": "true_positives",
    "fn": "false_negatives",
    "tn": "true_negatives",
    "fp": "false_positives",
}


def _counts_at(
    labels: Any, predictions: Any, thresholds: Sequence[float], weighting: Any, wanted: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Counts of right and wrong at each threshold: (variables, updates) by short name."""
    predictions = convert_to_tensor(predictions)
    with control_dependencies(
        [
            checks.assert_greater_equal(
                predictions,
                cast.cast(0.0, predictions.dtype),
                message="predictions must be in [0, 1]",
            ),
            checks.assert_less_equal(
                predictions,
                cast.cast(1.0, predictions.dtype),
                message="predictions must be in [0, 1]",
            ),
        ]
    ):
        predictions, labels, weighting = matched(
            cast.cast(predictions, dtypes.float32), cast.cast(labels, dtypes.bool), weighting
        )
    factors: Any = None
    if weighting is not None:
        factors = weights.broadcast_weights(cast.cast(weighting, dtypes.float32), predictions)
        factors = array_shape.reshape(factors, [1, -1])
    # One row a threshold, one column an example.
    limits = array_shape.expand_dims(constant.constant(list(thresholds), dtypes.float32), 1)
    guessed: Any = comparison.greater(array_shape.reshape(predictions, [1, -1]), limits)
    actual: Any = array_shape.reshape(labels, [1, -1])
    not_guessed, not_actual = comparison.logical_not(guessed), comparison.logical_not(actual)
    pairs = {
        "tp": (actual, guessed),
        "fn": (actual, not_guessed),
        "tn": (not_actual, not_guessed),
        "fp": (not_actual, guessed),
    }
    variables: dict[str, Any] = {}
    updates: dict[str, Any] = {}
    for short, name in _COUNTS.items():
        if short not in wanted.split():
            continue
        variable = metric_variable([len(thresholds)], dtypes.float32, name=name)
        holds: Any = cast.cast(comparison.logical_and(*pairs[short]), dtypes.float32)
        if factors is not None:
            holds = arithmetic.multiply(holds, factors)
        updates[short] = assign_add(variable, reduction.reduce_sum(holds, 1))
        variables[short] = variable.value()
    return variables, updates


def _even_thresholds(count: int) -> list[float]:
    """`count` thresholds from just below 0 to just above 1."""
    inner = [(i + 1) * 1.0 / (count - 1) for i in range(count - 2)]
    return [0.0 - _EPSILON, *inner, 1.0 + _EPSILON]


def auc(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Sequence[float] | None = None,
) -> Metric:
    """The area under the ROC or precision-recall curve, by sums over thresholds.

    Args:
      labels: True or false, castable to bool.
      predictions: Scores in [0, 1].
      weights: Of the examples; 1 when None.
      num_thresholds: How many thresholds the curve is drawn with.
      metrics_collections: Collections that the value joins.
      updates_collections: Collections that the update joins.
      curve: ``ROC`` or ``PR``.
      name: The variable scope.
      summation_method: ``trapezoidal``, ``careful_interpolation`` (for PR), ``minoring`` or
        ``majoring``.
      thresholds: The inner thresholds, instead of evenly spaced ones.
    """
    with variable_scope(name, "auc", (labels, predictions, weights)):
        if curve not in ("ROC", "PR"):
            raise ValueError(f"curve must be either ROC or PR, {curve} unknown")
        if thresholds is None:
            limits = _even_thresholds(num_thresholds)
        else:
            limits = [0.0 - _EPSILON, *sorted(thresholds), 1.0 + _EPSILON]
        values, updates = _counts_at(labels, predictions, limits, weights, "tp fn tn fp")
        value = _area(values, curve, summation_method, "value")
        update = _area(updates, curve, summation_method, "update_op")
        return collected(value, update, metrics_collections, updates_collections)


def _area(counts: dict[str, Any], curve: str, method: str, name: str) -> Any:
    tp, fn, tn, fp = (counts[short] for short in ("tp", "fn", "tn", "fp"))
    if curve == "PR" and method == "careful_interpolation":
        return _interpolated_area(tp, fp, fn)
    small = 1e-6
    recall = arithmetic.divide(tp + small, tp + fn + small)
    if curve == "ROC":
        x, y = arithmetic.divide(fp, fp + tn + small), recall
    else:
        x, y = recall, arithmetic.divide(tp + small, tp + fp + small)
    widths: Any = x[:-1] - x[1:]
    if method in ("trapezoidal", "careful_interpolation"):
        heights: Any = (y[:-1] + y[1:]) / 2.0
    elif method == "minoring":
        heights = arithmetic.minimum(y[:-1], y[1:])
    elif method == "majoring":
        heights = arithmetic.maximum(y[:-1], y[1:])
    else:
        raise ValueError(f"Invalid summation_method: {method}")
    return reduction.reduce_sum(arithmetic.multiply(widths, heights), name=name)


def _interpolated_area(tp: Any, fp: Any, fn: Any) -> Any:
    """The area under the precision-recall curve after Davis and Goadrich (2006).

    Between two thresholds true positives are taken to be linear in all positives, so that
    precision is a curve whose integral has a logarithm.
    """
    gained: Any = tp[:-1] - tp[1:]
    positives: Any = tp + fp
    slope: Any = ratio(gained, positives[:-1] - positives[1:], name="prec_slope")
    intercept: Any = tp[1:] - arithmetic.multiply(slope, positives[1:])
    both = comparison.logical_and(positives[:-1] > 0, positives[1:] > 0)
    growth = array_select.where(
        both,
        ratio(positives[:-1], positives[1:], name="recall_relative_ratio"),
        array_fill.ones_like(positives[1:]),
    )
    increments = ratio(
        slope * (gained + intercept * elementwise.log(growth)),
        tp[1:] + fn[1:],
        name="pr_auc_increment",
    )
    return reduction.reduce_sum(increments, name="interpolate_pr_auc")


def _checked_share(value: float, name: str) -> None:
    if value < 0 or value > 1:
        raise ValueError(f"`{name}` must be in the range [0, 1]. Currently, `{name}` got {value}.")


def sensitivity_at_specificity(
    labels: Any,
    predictions: Any,
    specificity: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The recall at the threshold whose specificity is nearest to the given one."""
    _checked_share(specificity, "specificity")
    with variable_scope(name, "sensitivity_at_specificity", (predictions, labels, weights)):
        limits = _even_thresholds(num_thresholds)
        values, updates = _counts_at(labels, predictions, limits, weights, "tp fn tn fp")

        def at(counts: dict[str, Any], name: str) -> Any:
            tp, fn, tn, fp = (counts[short] for short in ("tp", "fn", "tn", "fp"))
            found: Any = arithmetic.divide(tn, tn + fp + _EPSILON)
            place = reduction.argmin(elementwise.abs(found - specificity), 0)
            place = cast.cast(place, dtypes.int32)
            return arithmetic.divide(tp[place], tp[place] + fn[place] + _EPSILON, name)

        return collected(
            at(values, "value"), at(updates, "update_op"), metrics_collections, updates_collections
        )


def specificity_at_sensitivity(
    labels: Any,
    predictions: Any,
    sensitivity: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The specificity at the last threshold whose recall is nearest to the given one."""
    _checked_share(sensitivity, "sensitivity")
    with variable_scope(name, "specificity_at_sensitivity", (predictions, labels, weights)):
        limits = _even_thresholds(num_thresholds)
        values, updates = _counts_at(labels, predictions, limits, weights, "tp fn tn fp")

        def at(counts: dict[str, Any], name: str) -> Any:
            tp, fn, tn, fp = (counts[short] for short in ("tp", "fn", "tn", "fp"))
            found: Any = arithmetic.divide(tp, tp + fn + _EPSILON)
            distance: Any = elementwise.abs(found - sensitivity)
            nearest = comparison.equal(distance, reduction.reduce_min(distance))
            # The running count of the nearest is greatest from the last of them on.
            place = reduction.argmax(cumulative.cumsum(cast.cast(nearest, dtypes.int64)), 0)
            place = cast.cast(place, dtypes.int32)
            return arithmetic.divide(tn[place], tn[place] + fp[place] + _EPSILON, name)

        return collected(
            at(values, "value"), at(updates, "update_op"), metrics_collections, updates_collections
        )


def precision_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The precision at each threshold."""
    with variable_scope(name, "precision_at_thresholds", (predictions, labels, weights)):
        values, updates = _counts_at(labels, predictions, thresholds, weights, "tp fp")

        def share(counts: dict[str, Any], name: str) -> Any:
            return arithmetic.divide(counts["tp"], _EPSILON + counts["tp"] + counts["fp"], name)

        return collected(
            share(values, "precision_value"),
            share(updates, "precision_update_op"),
            metrics_collections,
            updates_collections,
        )


def recall_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The recall at each threshold."""
    with variable_scope(name, "recall_at_thresholds", (predictions, labels, weights)):
        values, updates = _counts_at(labels, predictions, thresholds, weights, "tp fn")

        def share(counts: dict[str, Any], name: str) -> Any:
            return arithmetic.divide(counts["tp"], _EPSILON + counts["tp"] + counts["fn"], name)

        return collected(
            share(values, "recall_value"),
            share(updates, "recall_update_op"),
            metrics_collections,
            updates_collections,
        )


def _one_count(
    short: str,
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weighting: Any,
    metrics_collections: Any,
    updates_collections: Any,
    name: str | None,
) -> Metric:
    with variable_scope(name, _COUNTS[short], (predictions, labels, weighting)):
        values, updates = _counts_at(labels, predictions, thresholds, weighting, short)
        return collected(values[short], updates[short], metrics_collections, updates_collections)


def true_positives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """How many examples are predicted true and are, at each threshold."""
    return _one_count(
        "tp", labels, predictions, thresholds, weights,
        metrics_collections, updates_collections, name,
    )  # fmt: skip


def true_negatives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """How many examples are predicted false and are, at each threshold."""
    return _one_count(
        "tn", labels, predictions, thresholds, weights,
        metrics_collections, updates_collections, name,
    )  # fmt: skip


def false_positives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """How many examples are predicted true and are not, at each threshold."""
    return _one_count(
        "fp", labels, predictions, thresholds, weights,
        metrics_collections, updates_collections, name,
    )  # fmt: skip


def false_negatives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """How many examples are predicted false and are not, at each threshold."""
    return _one_count(
        "fn", labels, predictions, thresholds, weights,
        metrics_collections, updates_collections, name,
    )  # fmt: skip
