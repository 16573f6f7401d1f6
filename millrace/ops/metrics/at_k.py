"""Metrics of rankings: precision, recall and average precision of the k best predictions.

Labels are sets of class numbers: the last dimension of a tensor, or of a SparseTensor where
examples have different numbers of them.
"""

from __future__ import annotations

from typing import Any

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import control_dependencies, name_scope
from millrace.graph.slices import SparseTensor, convert_to_tensor_or_sparse_tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import join as array_join
from millrace.ops.array import layout as array_layout
from millrace.ops.array import shape as array_shape
from millrace.ops.math import arithmetic, comparison, cumulative, numeric, reduction
from millrace.ops.metrics.metrics import Metric, collected, metric_variable, ratio
from millrace.ops.nn import weights
from millrace.ops.sparse import rows as sparse_rows
from millrace.ops.sparse import sets, sparse
from millrace.ops.sparse import slicing as sparse_slicing
from millrace.ops.state.variable_changes import assign_add

__all__: list[str] = []


def _name_at(name: str, k: Any = None, class_id: Any = None) -> str:
    text = f"{name}_at_{k}" if k is not None else f"{name}_at_k"
    return f"{text}_class{class_id}" if class_id is not None else text


def _as_sets(labels: Any, predictions: Any) -> Any:
    """Labels with a last dimension for the set, which a single label a row may lack."""
    labels = convert_to_tensor_or_sparse_tensor(labels)
    rank = predictions.shape.ndims
    own = labels.shape.ndims
    if rank is None or own is None or own == rank:
        return labels
    if own != rank - 1:
        raise ValueError(f"Unexpected labels shape {labels.shape} for predictions {predictions}.")
    if isinstance(labels, SparseTensor):
        shape = array_join.concat([labels.dense_shape, [1]], 0)
        return sparse.sparse_reshape(labels, shape)
    return array_shape.expand_dims(labels, -1)


def _only(ids: Any, class_id: int) -> SparseTensor:
    """Of each set only `class_id`, if it is in it."""
    if isinstance(ids, SparseTensor):
        return sparse_rows.sparse_retain(ids, comparison.equal(ids.values, class_id))
    sizes: Any = array_shape.shape(ids, out_type=dtypes.int64)
    one = array_join.concat([sizes[:-1], [1]], 0)
    wanted = array_fill.fill(one, cast.cast(class_id, dtypes.int64))
    found = sets.set_intersection(wanted, ids)
    return SparseTensor(found.indices, found.values, sizes)


def _tally(kind: str, labels: Any, guesses: Any, class_id: Any, weighting: Any) -> Any:
    """How many of the guesses are right (``tp``), wrong (``fp``), or missing (``fn``), by row."""
    if class_id is not None:
        labels, guesses = _only(labels, class_id), _only(guesses, class_id)
    if kind == "tp":
        members = sets.set_intersection(guesses, labels)
    else:
        members = sets.set_difference(guesses, labels, aminusb=kind == "fp")
    count: Any = cast.cast(sets.set_size(members), dtypes.float64)
    if weighting is not None:
        with control_dependencies(weights.guard(weighting, count)):
            count = arithmetic.multiply(count, cast.cast(weighting, dtypes.float64))
    return count


_LONG_NAMES = {"tp": "true_positive", "fp": "false_positive", "fn": "false_negative"}


def _streaming(
    kind: str, labels: Any, guesses: Any, k: Any, class_id: Any, weighting: Any
) -> tuple[Any, Any]:
    """(variable, update) of a tally over batches."""
    with name_scope(None, _name_at(_LONG_NAMES[kind], k, class_id)) as scope:
        count = reduction.reduce_sum(_tally(kind, labels, guesses, class_id, weighting))
        variable = metric_variable([], dtypes.float64, name=scope)
        return variable, assign_add(variable, cast.cast(count, dtypes.float64), name="update")


def _share_at_k(
    name: str,
    other: str,
    labels: Any,
    guesses: Any,
    k: Any,
    class_id: Any,
    weighting: Any,
    metrics_collections: Any,
    updates_collections: Any,
    scope_name: str | None,
) -> Metric:
    default = _name_at(name, k, class_id)
    with name_scope(scope_name, default, (guesses, labels, weighting)) as scope:
        guesses = cast.cast(convert_to_tensor(guesses), dtypes.int64)
        labels = _as_sets(labels, guesses)
        right, right_update = _streaming("tp", labels, guesses, k, class_id, weighting)
        rest, rest_update = _streaming(other, labels, guesses, k, class_id, weighting)
        value = arithmetic.divide(right, arithmetic.add(right, rest), name=scope)
        update = arithmetic.divide(
            right_update, arithmetic.add(right_update, rest_update), name="update"
        )
        return collected(value, update, metrics_collections, updates_collections)


def recall_at_top_k(
    labels: Any,
    predictions_idx: Any,
    k: int | None = None,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """As `recall_at_k`, given the classes that are ranked first."""
    return _share_at_k(
        "recall", "fn", labels, predictions_idx, k, class_id, weights,
        metrics_collections, updates_collections, name,
    )  # fmt: skip


def recall_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The share of labels that are among the k highest predictions.

    Args:
      labels: Class numbers, a set a row.
      predictions: A score for each class, in the last dimension.
      k: How many predictions count.
      class_id: Count only this class; all when None.
      weights: Of the rows; 1 when None.
      metrics_collections: Collections that the value joins.
      updates_collections: Collections that the update joins.
      name: The name scope.
    """
    with name_scope(name, _name_at("recall", k, class_id), (predictions, labels, weights)) as scope:
        _, best = numeric.top_k(predictions, k)
        return recall_at_top_k(
            labels, best, k, class_id, weights, metrics_collections, updates_collections, scope
        )


def precision_at_top_k(
    labels: Any,
    predictions_idx: Any,
    k: int | None = None,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """As `precision_at_k`, given the classes that are ranked first."""
    return _share_at_k(
        "precision", "fp", labels, predictions_idx, k, class_id, weights,
        metrics_collections, updates_collections, name,
    )  # fmt: skip


def precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The share of labels among the k highest predictions; see `recall_at_k`."""
    default = _name_at("precision", k, class_id)
    with name_scope(name, default, (predictions, labels, weights)) as scope:
        _, best = numeric.top_k(predictions, k)
        return precision_at_top_k(
            labels, best, k, class_id, weights, metrics_collections, updates_collections, scope
        )


def sparse_precision_at_k(*args: Any, **kwargs: Any) -> Metric:
    """The old name of `precision_at_k`."""
    return precision_at_k(*args, **kwargs)


def _average_precision(labels: Any, best: Any, k: int) -> Any:
    """The average precision of each row.

    ``sum over i of precision(i)·relevant(i) / min(k, number of labels)``
    """
    with name_scope(None, "average_precision", (best, labels)) as scope:
        labels = _as_sets(labels, best)
        each = array_shape.expand_dims(best, -1)
        if isinstance(labels, SparseTensor):
            repeated: Any = _repeat_sparse(labels, k)
            counts: Any = cast.cast(sets.set_size(labels), dtypes.int32)
            wanted: Any = arithmetic.minimum(counts, k, name="num_relevant")
        else:
            rank: Any = array_shape.rank(labels)
            factors = array_join.concat([array_fill.ones([rank - 1], dtypes.int32), [k, 1]], 0)
            repeated = array_layout.tile(array_shape.expand_dims(labels, -2), factors)
            sizes: Any = array_shape.shape(labels)
            wanted = array_fill.fill(sizes[:-1], arithmetic.minimum(sizes[-1], k))
        relevant: Any = _tally("tp", repeated, each, None, None)
        right = cumulative.cumsum(relevant, axis=-1)
        retrieved = cumulative.cumsum(array_fill.ones_like(relevant), axis=-1)
        precision = arithmetic.divide(right, retrieved)
        total = reduction.reduce_sum(arithmetic.multiply(precision, relevant), axis=[-1])
        return arithmetic.divide(total, cast.cast(wanted, dtypes.float64), name=scope)


def _repeat_sparse(labels: SparseTensor, count: int) -> SparseTensor:
    """The sets, each `count` times, along a new dimension before the last."""
    sizes: Any = labels.dense_shape
    shape = array_join.concat([sizes[:-1], [1], sizes[-1:]], 0)
    expanded = sparse.sparse_reshape(labels, shape)
    axis = labels.shape.ndims
    if axis is None:
        raise ValueError("Labels of unknown rank have no average precision")
    return sparse_slicing.sparse_concat(axis - 1, [expanded] * count)


def average_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The mean of the rows' average precision at k; see `recall_at_k`."""
    default = _name_at("average_precision", k)
    with name_scope(name, default, (predictions, labels, weights)) as scope:
        if k < 1:
            raise ValueError(f"Invalid k={k}.")
        _, best = numeric.top_k(predictions, k)
        return _streaming_average_precision(
            labels, best, k, weights, metrics_collections, updates_collections, scope
        )


def _streaming_average_precision(
    labels: Any,
    best: Any,
    k: int,
    weighting: Any,
    metrics_collections: Any,
    updates_collections: Any,
    scope: str,
) -> Metric:
    precision: Any = _average_precision(labels, cast.cast(best, dtypes.int64), k)
    if weighting is not None:
        spread = weights.broadcast_weights(cast.cast(weighting, dtypes.float64), precision)
        precision = arithmetic.multiply(precision, spread)
    with name_scope(None, "max", (precision,)) as max_scope:
        if weighting is None:
            rows: Any = cast.cast(array_shape.size(precision, name="batch_max"), dtypes.float64)
        else:
            rows = reduction.reduce_sum(spread, name="batch_max")
        most = metric_variable([], dtypes.float64, name=max_scope)
        most_update = assign_add(most, rows, name="update")
    with name_scope(None, "total", (precision,)) as total_scope:
        total = metric_variable([], dtypes.float64, name=total_scope)
        total_update = assign_add(total, reduction.reduce_sum(precision), name="update")
    value = ratio(total, most, name="mean")
    update = ratio(total_update, most_update, name=scope)
    return collected(value, update, metrics_collections, updates_collections)


def sparse_average_precision_at_k(*args: Any, **kwargs: Any) -> Metric:
    """The old name of `average_precision_at_k`."""
    return average_precision_at_k(*args, **kwargs)
