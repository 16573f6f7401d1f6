"""Metrics that accumulate over batches: means, counts and what follows from a confusion matrix.

Each function makes local variables (in METRIC_VARIABLES too) and returns ``(value, update_op)``:
running `update_op` adds a batch and gives the metric so far, `value` only gives it. Metrics by
thresholds are in `metrics_at_thresholds`, by rank in `metrics_at_k`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import add_to_collections, control_dependencies
from millrace.graph.keys import GraphKeys
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import diag as array_diag
from millrace.ops.array import fill as array_fill
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.control_flow import control_flow
from millrace.ops.math import arithmetic, comparison, counting, elementwise, reduction
from millrace.ops.nn import weights
from millrace.ops.state.variable import Variable, VariableAggregation, VariableSynchronization
from millrace.ops.state.variable_changes import assign_add, scatter_add
from millrace.ops.state.variable_scope import variable_scope

__all__: list[str] = []

#: What every metric returns.
Metric = tuple[Any, Any]


def metric_variable(
    shape: Any, dtype: Any, validate_shape: bool = True, name: str | None = None
) -> Any:
    """A local variable of zeros that a metric accumulates in."""
    return Variable(
        lambda: array_fill.zeros(shape, dtype),
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES],
        validate_shape=validate_shape,
        synchronization=VariableSynchronization.ON_READ,
        aggregation=VariableAggregation.SUM,
        name=name,
    )


def collected(
    value: Any, update_op: Any, metrics_collections: Any, updates_collections: Any
) -> Metric:
    """The pair, after adding each to its collections."""
    if metrics_collections:
        add_to_collections(metrics_collections, value)
    if updates_collections:
        add_to_collections(updates_collections, update_op)
    return value, update_op


def matched(predictions: Any, labels: Any, weighting: Any) -> tuple[Any, Any, Any]:
    """Predictions, labels and weights with ranks that go together.

    A last dimension of size 1 that only one of predictions and labels has is dropped; weights
    get or lose one to fit. Labels and weights may be None.

    Raises:
      ValueError: Labels and predictions have different shapes.
    """
    predictions = convert_to_tensor(predictions)
    if labels is not None:
        labels, predictions = weights.remove_squeezable_dimensions(labels, predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
    if weighting is None:
        return predictions, labels, None
    weighting = convert_to_tensor(weighting)
    rank, own = predictions.shape.ndims, weighting.shape.ndims
    if own == 0:
        return predictions, labels, weighting
    if rank is not None and own is not None:
        if own - rank == 1:
            weighting = array_shape.squeeze(weighting, [-1])
        elif rank - own == 1:
            weighting = array_shape.expand_dims(weighting, [-1])
        return predictions, labels, weighting
    difference: Any = array_shape.rank(weighting) - array_shape.rank(predictions)

    def adjusted() -> Any:
        return control_flow.cond(
            comparison.equal(difference, -1),
            lambda: array_shape.expand_dims(weighting, [-1]),
            lambda: weighting,
        )

    fitted = control_flow.cond(
        comparison.equal(array_shape.rank(weighting), 0),
        lambda: weighting,
        lambda: control_flow.cond(
            comparison.equal(difference, 1), lambda: array_shape.squeeze(weighting, [-1]), adjusted
        ),
    )
    return predictions, labels, fitted


def ratio(numerator: Any, denominator: Any, name: str | None = None) -> Any:
    """`numerator / denominator`, and 0 where nothing has been counted yet."""
    return arithmetic.div_no_nan(numerator, arithmetic.maximum(denominator, 0), name=name)


# -- Means ---------------------------------------------------------------------------------


def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The weighted mean of all values so far.

    Args:
      values: Numbers of any shape.
      weights: Broadcast to `values`; 1 when None.
      metrics_collections: Collections that the value joins.
      updates_collections: Collections that the update joins.
      name: The variable scope.

    Returns:
      The value and the operation that adds a batch.
    """
    with variable_scope(name, "mean", (values, weights)):
        values = cast.cast(values, dtypes.float32)
        total = metric_variable([], dtypes.float32, name="total")
        count = metric_variable([], dtypes.float32, name="count")
        if weights is None:
            counted: Any = cast.cast(array_shape.size(values), dtypes.float32)
        else:
            values, spread = _weighted(values, weights)
            counted = reduction.reduce_sum(spread)
        total_update = assign_add(total, reduction.reduce_sum(values))
        with control_dependencies([values]):
            count_update = assign_add(count, counted)
        value = ratio(total, count, name="value")
        update = ratio(total_update, count_update, name="update_op")
        return collected(value, update, metrics_collections, updates_collections)


def _weighted(values: Any, weighting: Any) -> tuple[Any, Any]:
    """(values times weights, weights in the shape of values)."""
    values, _, weighting = matched(values, None, weighting)
    spread = weights.broadcast_weights(cast.cast(weighting, dtypes.float32), values)
    return arithmetic.multiply(values, spread), spread


def mean_tensor(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The weighted mean over batches, element by element; see `mean`."""
    with variable_scope(name, "mean", (values, weights)):
        values = cast.cast(values, dtypes.float32)
        total = metric_variable(values.shape, dtypes.float32, name="total_tensor")
        count = metric_variable(values.shape, dtypes.float32, name="count_tensor")
        counted: Any = array_fill.ones_like(values)
        if weights is not None:
            values, spread = _weighted(values, weights)
            counted = arithmetic.multiply(counted, spread)
        total_update = assign_add(total, values)
        with control_dependencies([values]):
            count_update = assign_add(count, counted)
        value = ratio(total, count, name="value")
        update = ratio(total_update, count_update, name="update_op")
        return collected(value, update, metrics_collections, updates_collections)


def accuracy(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """How often predictions are the labels; see `mean`."""
    predictions, labels, weights = matched(predictions, labels, weights)
    if labels.dtype != predictions.dtype:
        predictions = cast.cast(predictions, labels.dtype)
    correct = cast.cast(comparison.equal(predictions, labels), dtypes.float32)
    return mean(correct, weights, metrics_collections, updates_collections, name or "accuracy")


def mean_absolute_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The mean of ``|predictions - labels|``; see `mean`."""
    predictions, labels, weights = matched(predictions, labels, weights)
    errors = elementwise.abs(predictions - labels)
    name = name or "mean_absolute_error"
    return mean(errors, weights, metrics_collections, updates_collections, name)


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The mean of ``(predictions - labels)²``; see `mean`."""
    predictions, labels, weights = matched(predictions, labels, weights)
    errors = arithmetic.squared_difference(labels, predictions)
    name = name or "mean_squared_error"
    return mean(errors, weights, metrics_collections, updates_collections, name)


def root_mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The root of `mean_squared_error`."""
    name = name or "root_mean_squared_error"
    value, update = mean_squared_error(labels, predictions, weights, None, None, name)
    return collected(
        elementwise.sqrt(value),
        elementwise.sqrt(update),
        metrics_collections,
        updates_collections,
    )


def mean_relative_error(
    labels: Any,
    predictions: Any,
    normalizer: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The mean of ``|labels - predictions| / normalizer`` (0 where that is 0); see `mean`."""
    predictions, labels, weights = matched(predictions, labels, weights)
    predictions, normalizer, _ = matched(predictions, normalizer, None)
    errors = array_select.where(
        comparison.equal(normalizer, array_fill.zeros_like(normalizer)),
        array_fill.zeros_like(labels),
        arithmetic.divide(elementwise.abs(labels - predictions), normalizer),
    )
    name = name or "mean_relative_error"
    return mean(errors, weights, metrics_collections, updates_collections, name)


def mean_cosine_distance(
    labels: Any,
    predictions: Any,
    dim: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The mean of 1 minus the product of unit vectors along `dim`; see `mean`."""
    predictions, labels, weights = matched(predictions, labels, weights)
    products = reduction.reduce_sum(
        arithmetic.multiply(predictions, labels), axis=[dim], keepdims=True
    )
    value, update = mean(products, weights, None, None, name or "mean_cosine_distance")
    return collected(
        arithmetic.subtract(1.0, value),
        arithmetic.subtract(1.0, update),
        metrics_collections,
        updates_collections,
    )


def percentage_below(
    values: Any,
    threshold: float,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """How often values are below `threshold`; see `mean`."""
    below = cast.cast(comparison.less(values, threshold), dtypes.float32)
    name = name or "percentage_below_threshold"
    return mean(below, weights, metrics_collections, updates_collections, name)


# -- Counts of right and wrong -------------------------------------------------------------


def _count(
    name: str | None,
    default_name: str,
    labels: Any,
    predictions: Any,
    weighting: Any,
    wanted: Callable[[Any, Any], Any],
    metrics_collections: Any,
    updates_collections: Any,
) -> Metric:
    """Counts examples for which ``wanted(labels, predictions)`` holds."""
    with variable_scope(name, default_name, (predictions, labels, weighting)):
        predictions, labels, weighting = matched(
            cast.cast(predictions, dtypes.bool), cast.cast(labels, dtypes.bool), weighting
        )
        count = metric_variable([], dtypes.float32, name="count")
        holds: Any = cast.cast(wanted(labels, predictions), dtypes.float32)
        if weighting is not None:
            holds = arithmetic.multiply(holds, cast.cast(weighting, dtypes.float32))
        update = assign_add(count, reduction.reduce_sum(holds))
        return collected(count.value(), update, metrics_collections, updates_collections)


def true_positives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """How many examples are predicted true and are."""
    return _count(
        name, "true_positives", labels, predictions, weights, comparison.logical_and,
        metrics_collections, updates_collections,
    )  # fmt: skip


def true_negatives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """How many examples are predicted false and are."""
    return _count(
        name, "true_negatives", labels, predictions, weights,
        lambda label, guess: comparison.logical_not(comparison.logical_or(label, guess)),
        metrics_collections, updates_collections,
    )  # fmt: skip


def false_positives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """How many examples are predicted true and are not."""
    return _count(
        name, "false_positives", labels, predictions, weights,
        lambda label, guess: comparison.logical_and(comparison.logical_not(label), guess),
        metrics_collections, updates_collections,
    )  # fmt: skip


def false_negatives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """How many examples are predicted false and are not."""
    return _count(
        name, "false_negatives", labels, predictions, weights,
        lambda label, guess: comparison.logical_and(label, comparison.logical_not(guess)),
        metrics_collections, updates_collections,
    )  # fmt: skip


def _share(part: Any, rest: Any, name: str) -> Tensor:
    """``part / (part + rest)``, and 0 while both are."""
    whole = part + rest
    result: Tensor = array_select.where(
        comparison.greater(whole, 0), arithmetic.divide(part, whole), 0.0, name=name
    )
    return result


def precision(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The share of true ones among those predicted true."""
    with variable_scope(name, "precision", (predictions, labels, weights)):
        right, right_update = true_positives(labels, predictions, weights)
        wrong, wrong_update = false_positives(labels, predictions, weights)
        value = _share(right, wrong, "value")
        update = _share(right_update, wrong_update, "update_op")
        return collected(value, update, metrics_collections, updates_collections)


def recall(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The share of those predicted true among the true ones."""
    with variable_scope(name, "recall", (predictions, labels, weights)):
        right, right_update = true_positives(labels, predictions, weights)
        missed, missed_update = false_negatives(labels, predictions, weights)
        value = _share(right, missed, "value")
        update = _share(right_update, missed_update, "update_op")
        return collected(value, update, metrics_collections, updates_collections)


# -- Classes -------------------------------------------------------------------------------


def _flat(tensor: Any) -> Any:
    return array_shape.reshape(tensor, [-1]) if tensor.shape.ndims != 1 else tensor


def mean_iou(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The mean over classes of intersection over union; the update gives the counts."""
    with variable_scope(name, "mean_iou", (predictions, labels, weights)):
        predictions, labels = convert_to_tensor(predictions), convert_to_tensor(labels)
        predictions.shape.assert_is_compatible_with(labels.shape)
        counts = metric_variable(
            [num_classes, num_classes], dtypes.float64, name="total_confusion_matrix"
        )
        batch = counting.confusion_matrix(
            _flat(cast.cast(labels, dtypes.int64)),
            _flat(cast.cast(predictions, dtypes.int64)),
            num_classes,
            weights=None if weights is None else _flat(convert_to_tensor(weights)),
            dtype=dtypes.float64,
        )
        update = assign_add(counts, batch)
        by_prediction: Any = cast.cast(reduction.reduce_sum(counts, 0), dtypes.float32)
        by_label: Any = cast.cast(reduction.reduce_sum(counts, 1), dtypes.float32)
        shared: Any = cast.cast(array_diag.diag_part(counts), dtypes.float32)
        union: Any = by_prediction + by_label - shared
        # Classes that have not occurred do not take part in the mean.
        occurred = reduction.reduce_sum(cast.cast(comparison.not_equal(union, 0), dtypes.float32))
        union = array_select.where(comparison.greater(union, 0), union, array_fill.ones_like(union))
        total: Any = reduction.reduce_sum(arithmetic.divide(shared, union), name="mean_iou")
        value = array_select.where(comparison.greater(occurred, 0), total / occurred, 0.0)
        return collected(value, update, metrics_collections, updates_collections)


def mean_per_class_accuracy(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The mean over classes of the accuracy of each; the update gives each class's."""
    with variable_scope(name, "mean_accuracy", (predictions, labels, weights)):
        labels = _flat(cast.cast(labels, dtypes.int64))
        predictions = _flat(convert_to_tensor(predictions))
        labels.shape.assert_is_compatible_with(predictions.shape)
        total = metric_variable([num_classes], dtypes.float32, name="total")
        count = metric_variable([num_classes], dtypes.float32, name="count")
        ones: Any = array_fill.ones([array_shape.size(labels)], dtypes.float32)
        if labels.dtype != predictions.dtype:
            predictions = cast.cast(predictions, labels.dtype)
        correct: Any = cast.cast(comparison.equal(predictions, labels), dtypes.float32)
        if weights is not None:
            factors = cast.cast(_flat(convert_to_tensor(weights)), dtypes.float32)
            correct, ones = (
                arithmetic.multiply(correct, factors),
                arithmetic.multiply(ones, factors),
            )
        total_update = scatter_add(total, labels, ones)
        count_update = scatter_add(count, labels, correct)
        value = reduction.reduce_mean(ratio(count, total), name="mean_accuracy")
        update = ratio(count_update, total_update, name="update_op")
        return collected(value, update, metrics_collections, updates_collections)
