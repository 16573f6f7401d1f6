"""``tf.losses``: losses with weights, gathered in a collection of the graph.

Every loss is ``compute_weighted_loss`` of an elementwise one, except the pairwise one.
"""

from __future__ import annotations

from typing import Any

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import (
    add_to_collection,
    control_dependencies,
    get_collection,
    name_scope,
)
from millrace.graph.keys import GraphKeys
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast, constant
from millrace.ops.array import fill as array_fill
from millrace.ops.array import identity as array_identity
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.math import arithmetic, comparison, elementwise, numeric
from millrace.ops.math import reduction as reductions
from millrace.ops.nn import activation, cross_entropy
from millrace.ops.nn import weights as example_weights

__all__ = [
    "Reduction",
    "absolute_difference",
    "add_loss",
    "compute_weighted_loss",
    "cosine_distance",
    "get_losses",
    "get_regularization_loss",
    "get_regularization_losses",
    "get_total_loss",
    "hinge_loss",
    "huber_loss",
    "log_loss",
    "mean_pairwise_squared_error",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]


class Reduction:
    """How the weighted losses of the elements become the loss.

    Attributes:
      NONE: They stay as they are.
      SUM: Their sum.
      MEAN: Their sum divided by the sum of the weights.
      SUM_OVER_BATCH_SIZE: Their sum divided by the number of elements.
      SUM_BY_NONZERO_WEIGHTS: Their sum divided by the number of elements whose weight is not 0.
    """

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """All of them."""
        return (
            cls.NONE,
            cls.SUM,
            cls.MEAN,
            cls.SUM_OVER_BATCH_SIZE,
            cls.SUM_OVER_NONZERO_WEIGHTS,
            cls.SUM_BY_NONZERO_WEIGHTS,
        )

    @classmethod
    def validate(cls, key: str) -> None:
        """Raises ValueError unless `key` is one of them."""
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key {key}. Key should be one of {cls.all()}.")


# -- The collection ----------------------------------------------------------------------


def add_loss(loss: Any, loss_collection: str | None = GraphKeys.LOSSES) -> None:
    """Adds a loss that was computed elsewhere to the collection of losses."""
    if loss_collection:
        add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Any]:
    """The losses gathered so far, those of a name scope only when `scope` is given."""
    return get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Any]:
    """The losses that the regularizers of variables have added."""
    return get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(
    scope: str | None = None, name: str = "total_regularization_loss"
) -> Any:
    """The sum of the regularization losses, 0 when there are none."""
    losses = get_regularization_losses(scope)
    if losses:
        return arithmetic.add_n(losses, name=name)
    return constant.constant(0.0)


def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Any:
    """The sum of all losses gathered so far.

    Args:
      add_regularization_losses: Whether those of regularizers count.
      name: The node's name.
      scope: Only losses of this name scope, when given.

    Raises:
      ValueError: There are none.
    """
    losses = get_losses(scope)
    if add_regularization_losses:
        losses = losses + get_regularization_losses(scope)
    return arithmetic.add_n(losses, name=name)


# -- Weighting ---------------------------------------------------------------------------


def _safe_mean(total: Any, count: Any) -> Any:
    return arithmetic.div_no_nan(total, count, name="value")


def _number_present(losses: Tensor, weights: Any, per_batch: bool = False) -> Any:
    """How many elements have a weight other than 0, in all or in each example."""
    with name_scope(None, "num_present", [losses, weights]) as scope:
        weights = cast.cast(weights, dtypes.float32)
        zeros = array_fill.zeros_like(weights)
        present = array_select.where(
            comparison.equal(weights, 0.0), zeros, array_fill.ones_like(weights)
        )
        present = example_weights.broadcast_weights(present, losses)
        if not per_batch:
            return reductions.reduce_sum(present, name=scope)
        inner = numeric.range(1, array_shape.rank(present))
        return reductions.reduce_sum(present, inner, keepdims=True, name=scope)


def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """Weighs elementwise losses, reduces them, and adds the result to a collection.

    Args:
      losses: A tensor.
      weights: A scalar, or of the rank of `losses` with each dimension equal or 1.
      scope: The name scope.
      loss_collection: The collection; None for none.
      reduction: One of `Reduction`.

    Returns:
      The loss: a scalar, unless the reduction is NONE.
    """
    Reduction.validate(reduction)
    with name_scope(scope, "weighted_loss", [losses, weights]):
        losses = convert_to_tensor(losses)
        dtype = losses.dtype.base_dtype
        with control_dependencies(example_weights.guard(weights, losses)):
            values: Any = cast.cast(losses, dtypes.float32)
            weights = cast.cast(convert_to_tensor(weights), dtypes.float32)
            weighed = arithmetic.multiply(values, weights)
            loss = _reduced(weighed, values, weights, reduction)
            loss = cast.cast(loss, dtype)
            add_loss(loss, loss_collection)
            return loss


def _reduced(weighed: Any, values: Any, weights: Any, kind: str) -> Any:
    if kind == Reduction.NONE:
        return weighed
    total = reductions.reduce_sum(weighed)
    if kind == Reduction.MEAN:
        return _safe_mean(total, reductions.reduce_sum(array_fill.ones_like(values) * weights))
    if kind == Reduction.SUM_BY_NONZERO_WEIGHTS:
        return _safe_mean(total, _number_present(values, weights))
    if kind == Reduction.SUM_OVER_BATCH_SIZE:
        return _safe_mean(
            total, cast.cast(array_shape.size(values, name="num_elements"), dtypes.float32)
        )
    return total


def _require(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is None:
            raise ValueError(f"Argument `{name}` must not be None.")


def _float_pair(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Labels and predictions as float32, their static shapes held against each other."""
    predictions = cast.cast(convert_to_tensor(predictions), dtypes.float32)
    labels = cast.cast(convert_to_tensor(labels), dtypes.float32)
    predictions.shape.assert_is_compatible_with(labels.shape)
    return labels, predictions


# -- Losses ------------------------------------------------------------------------------


def absolute_difference(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """|predictions - labels|, weighed and reduced as `compute_weighted_loss` does."""
    _require(labels=labels, predictions=predictions)
    with name_scope(scope, "absolute_difference", [predictions, labels, weights]) as name:
        labels, predictions = _float_pair(labels, predictions)
        losses = elementwise.abs(arithmetic.subtract(predictions, labels))
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def cosine_distance(
    labels: Any,
    predictions: Any,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
    dim: int | None = None,
) -> Any:
    """1 - sum(labels * predictions) along `axis`, for vectors that have length 1 already."""
    if axis is not None and dim is not None:
        raise ValueError("Cannot specify both 'dim' and 'axis'.")
    axis = axis if axis is not None else dim
    if axis is None:
        raise ValueError("You must specify argument `axis`.")
    _require(labels=labels, predictions=predictions)
    with name_scope(scope, "cosine_distance_loss", [predictions, labels, weights]) as name:
        labels, predictions = _float_pair(labels, predictions)
        product = arithmetic.multiply(predictions, labels)
        cosine: Any = reductions.reduce_sum(product, [axis], keepdims=True)
        losses = 1 - cosine
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """max(0, 1 - y * logits), where y is -1 or 1 for labels 0 or 1."""
    _require(labels=labels, logits=logits)
    with name_scope(scope, "hinge_loss", [logits, labels, weights]) as name:
        labels, logits = _float_pair(labels, logits)
        ones = array_fill.ones_like(labels)
        signs = arithmetic.subtract(2 * labels, ones)
        losses = activation.relu(arithmetic.subtract(ones, arithmetic.multiply(signs, logits)))
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def huber_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    delta: float = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """Half the square of the error up to `delta`, linear beyond."""
    _require(labels=labels, predictions=predictions)
    with name_scope(scope, "huber_loss", [predictions, labels, weights]) as name:
        labels, predictions = _float_pair(labels, predictions)
        size = elementwise.abs(arithmetic.subtract(predictions, labels))
        quadratic: Any = arithmetic.minimum(size, delta)
        # size - quadratic rather than max(size - delta, 0): its derivative at delta is right.
        linear: Any = arithmetic.subtract(size, quadratic)
        losses = 0.5 * elementwise.square(quadratic) + delta * linear
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def log_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """The negative log likelihood of labels, given probabilities; see `compute_weighted_loss`."""
    _require(labels=labels, predictions=predictions)
    with name_scope(scope, "log_loss", [predictions, labels, weights]) as name:
        labels, predictions = _float_pair(labels, predictions)
        of_ones: Any = arithmetic.multiply(labels, elementwise.log(predictions + epsilon))
        of_zeros = arithmetic.multiply(1 - labels, elementwise.log(1 - predictions + epsilon))
        losses = -of_ones - of_zeros
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def mean_pairwise_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
) -> Any:
    """How far differences between pairs of predictions are from those of the labels, squared.

    Pairs are taken within an example. From the sums S1 and S2 of the n errors of an example and
    of their squares, the mean over its pairs is ``2 * S2 / (n - 1) - 2 * S1 ** 2 / (n * (n - 1))``.

    Args:
      labels: The labels.
      predictions: The predictions, in the same shape.
      weights: A scalar, one for each example, or of the rank of `predictions`.
      scope: The name scope.
      loss_collection: The collection; None for none.
    """
    _require(labels=labels, predictions=predictions)
    with name_scope(scope, "mean_pairwise_squared_error", [predictions, labels, weights]):
        weights = cast.cast(convert_to_tensor(weights), dtypes.float32)
        labels = cast.cast(convert_to_tensor(labels), dtypes.float32)
        with control_dependencies(example_weights.guard(weights, labels)):
            labels, predictions = _float_pair(labels, predictions)
            errors = arithmetic.subtract(predictions, labels)
            inner = numeric.range(1, array_shape.rank(errors))
            squares = reductions.reduce_sum(elementwise.square(errors), inner, keepdims=True)
            count: Any = _number_present(errors, weights, per_batch=True)
            spread: Any = arithmetic.div_no_nan(
                squares, arithmetic.maximum(count - 1, 0), name="value"
            )
            total = reductions.reduce_sum(errors, inner, keepdims=True)
            pairs = arithmetic.maximum(arithmetic.multiply(count, count - 1), 0)
            offset: Any = arithmetic.div_no_nan(elementwise.square(total), pairs, name="value")
            loss = reductions.reduce_sum(arithmetic.multiply(2.0 * spread - 2.0 * offset, weights))
            present: Any = reductions.reduce_sum(count)
            mean = array_select.where(present > 0, loss, array_fill.zeros_like(loss), name="value")
            add_loss(mean, loss_collection)
            return mean


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """(predictions - labels) ** 2, weighed and reduced as `compute_weighted_loss` does."""
    _require(labels=labels, predictions=predictions)
    with name_scope(scope, "mean_squared_error", [predictions, labels, weights]) as name:
        labels, predictions = _float_pair(labels, predictions)
        losses = arithmetic.squared_difference(predictions, labels)
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def sigmoid_cross_entropy(
    multi_class_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: Any = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """Cross-entropy of independent classes.

    Args:
      multi_class_labels: Labels from 0 to 1, in the shape of `logits`.
      logits: Unscaled log odds.
      weights: As for `compute_weighted_loss`.
      label_smoothing: How far labels are moved towards 1/2.
      scope: The name scope.
      loss_collection: The collection; None for none.
      reduction: One of `Reduction`.
    """
    _require(multi_class_labels=multi_class_labels, logits=logits)
    values = [logits, multi_class_labels, weights]
    with name_scope(scope, "sigmoid_cross_entropy_loss", values) as name:
        logits = convert_to_tensor(logits)
        labels: Any = cast.cast(convert_to_tensor(multi_class_labels), logits.dtype.base_dtype)
        logits.shape.assert_is_compatible_with(labels.shape)
        if isinstance(label_smoothing, Tensor) or label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = cross_entropy.sigmoid_cross_entropy_with_logits(
            labels=labels, logits=logits, name="xentropy"
        )
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def softmax_cross_entropy(
    onehot_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: Any = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """Cross-entropy of exclusive classes, labels given as rows of probabilities.

    Args:
      onehot_labels: Rows of probabilities, in the shape of `logits`.
      logits: Unscaled log probabilities.
      weights: A scalar, or one for each row.
      label_smoothing: How far labels are moved towards the uniform distribution.
      scope: The name scope.
      loss_collection: The collection; None for none.
      reduction: One of `Reduction`.
    """
    _require(onehot_labels=onehot_labels, logits=logits)
    values = [logits, onehot_labels, weights]
    with name_scope(scope, "softmax_cross_entropy_loss", values) as name:
        logits = convert_to_tensor(logits)
        labels: Any = cast.cast(convert_to_tensor(onehot_labels), logits.dtype.base_dtype)
        logits.shape.assert_is_compatible_with(labels.shape)
        if isinstance(label_smoothing, Tensor) or label_smoothing > 0:
            classes = cast.cast(array_shape.shape(labels)[-1], logits.dtype.base_dtype)
            labels = labels * (1.0 - label_smoothing) + label_smoothing / classes
        labels = array_identity.stop_gradient(labels, name="labels_stop_gradient")
        losses = cross_entropy.softmax_cross_entropy_with_logits_v2(
            labels=labels, logits=logits, name="xentropy"
        )
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """Cross-entropy of exclusive classes, labels given as numbers of classes.

    Args:
      labels: Class numbers; a last dimension of 1 is dropped.
      logits: Unscaled log probabilities, classes along the last axis.
      weights: A scalar, or one for each label.
      scope: The name scope.
      loss_collection: The collection; None for none.
      reduction: One of `Reduction`.
    """
    _require(labels=labels, logits=logits)
    with name_scope(scope, "sparse_softmax_cross_entropy_loss", [logits, labels, weights]) as name:
        labels, logits = example_weights.remove_squeezable_dimensions(
            labels, logits, expected_rank_diff=1
        )
        weights = example_weights.squeeze_weights(labels, weights)
        losses = cross_entropy.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits, name="xentropy"
        )
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)
