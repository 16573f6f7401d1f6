"""Heads of the first generation: `_Head`, `tf.contrib.estimator`'s, and those of canned models.

Their losses are sums over a batch unless told otherwise, their metrics those of `tf.metrics`, and
their optimizers `tf.train`'s. Libraries subclass `_Head`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import millrace as tf
from millrace.estimator.estimator_spec import EstimatorSpec
from millrace.estimator.heads import checks
from millrace.estimator.heads.keys import MetricKeys
from millrace.estimator.heads.measures import Measure, classic_metric
from millrace.estimator.heads.problems import (
    BinaryProblem,
    MultiClassProblem,
    MultiLabelProblem,
    Problem,
    RegressionProblem,
    logistic_problem,
    poisson_problem,
)
from millrace.estimator.mode_keys import ModeKeys

_SUM = tf.losses.Reduction.SUM
_MEAN = tf.losses.Reduction.SUM_OVER_BATCH_SIZE


class LossSpec(NamedTuple):
    """What `_Head.create_loss` returns."""

    training_loss: Any
    unreduced_loss: Any
    weights: Any
    processed_labels: Any


class _Head:
    """What logits mean, how they are judged, and what is served of them.

    A subclass defines `name`, `logits_dimension`, `create_loss` and `create_estimator_spec` (or
    `_create_tpu_estimator_spec`, whose result has `as_estimator_spec`).
    """

    @property
    def name(self) -> Any:
        """Goes into the names of metrics and summaries."""
        raise NotImplementedError("Calling an abstract method.")

    @property
    def logits_dimension(self) -> int:
        """The last dimension of logits."""
        raise NotImplementedError("Calling an abstract method.")

    def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> Any:
        """A LossSpec."""
        raise NotImplementedError("Calling an abstract method.")

    def create_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        regularization_losses: Any = None,
    ) -> Any:
        """What a model_fn returns."""
        try:
            spec = self._create_tpu_estimator_spec(
                features, mode, logits, labels, optimizer, train_op_fn, regularization_losses
            )
        except NotImplementedError:
            raise NotImplementedError(
                "Subclasses of _Head must implement `create_estimator_spec()` or "
                "_create_tpu_estimator_spec()."
            ) from None
        return spec.as_estimator_spec()

    def _create_tpu_estimator_spec(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("TPUEstimatorSpec not available for this model head.")


def summary_key(head_name: str | None, key: str) -> str:
    """The name of a metric of a head."""
    return f"{key}/{head_name}" if head_name else key


def train_op_of(loss: Any, optimizer: Any, train_op_fn: Callable[[Any], Any] | None) -> Any:
    """The operation of a training step, by an optimizer or a function, but not both.

    Raises:
      ValueError: Both are given, or neither.
    """
    if optimizer is not None:
        if train_op_fn is not None:
            raise ValueError("train_op_fn and optimizer cannot both be set.")
        return optimizer.minimize(loss, global_step=tf.train.get_global_step())
    if train_op_fn is None:
        raise ValueError("train_op_fn and optimizer cannot both be None.")
    return train_op_fn(loss)


class ClassicHead(_Head):
    """A head for a problem."""

    def __init__(
        self,
        problem: Problem,
        weight_column: Any = None,
        loss_reduction: str = _SUM,
        name: str | None = None,
    ) -> None:
        """Takes the problem, and how the losses of examples are added up."""
        reductions = tf.losses.Reduction
        if loss_reduction not in reductions.all() or loss_reduction == reductions.NONE:
            raise ValueError(f"Invalid loss_reduction: {loss_reduction}")
        self._problem = problem
        self._weight_column = weight_column
        self._loss_reduction = loss_reduction
        self._name = name

    @property
    def name(self) -> Any:
        """Goes into the names of metrics and summaries."""
        return self._name

    @property
    def logits_dimension(self) -> int:
        """The last dimension of logits."""
        return self._problem.logits_dimension

    def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> LossSpec:
        """The loss to train with, and what it is made of."""
        logits = tf.convert_to_tensor(logits)
        labels = self._problem.labels(labels, logits)
        each = self._problem.loss(labels, logits, features)
        weights = checks.example_weights(
            features, self._weight_column, logits, self._problem.weights_per_logit
        )
        total = tf.losses.compute_weighted_loss(
            each, weights=weights, reduction=self._loss_reduction
        )
        return LossSpec(total, each, weights, labels)

    def create_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        regularization_losses: Any = None,
    ) -> EstimatorSpec:
        """What a model_fn returns.

        Args:
          features: Tensors by key.
          mode: One of ModeKeys.
          logits: ``[batch, logits_dimension]``.
          labels: ``[batch, ...]``; not needed to predict.
          optimizer: Makes the training step, or
          train_op_fn: makes it of the loss.
          regularization_losses: Scalars that are added to the loss.

        Raises:
          ValueError: Labels are missing or have a wrong shape, or both or neither of `optimizer`
            and `train_op_fn` are given for training.
        """
        with tf.name_scope(self._name, "head"):
            with tf.name_scope(None, "predictions", (logits,)):
                logits = checks.checked_logits(logits, self.logits_dimension)
                predictions = self._problem.predictions(logits)
            if mode == ModeKeys.PREDICT:
                outputs = self._problem.export_outputs(predictions)
                return EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
            loss = self.create_loss(features, mode, logits, labels)
            penalty = tf.add_n(regularization_losses) if regularization_losses else None
            total = loss.training_loss
            if penalty is not None:
                total = tf.add_n([total, penalty])
            if mode == ModeKeys.EVAL:
                metrics = self._metrics(loss, predictions, penalty)
                return EstimatorSpec(
                    mode, predictions=predictions, loss=total, eval_metric_ops=metrics
                )
            train_op = train_op_of(total, optimizer, train_op_fn)
            updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
            if updates:
                train_op = tf.group(train_op, *updates)
            mean = None
            if self._loss_reduction == _SUM:
                weight = tf.reduce_sum(loss.weights * tf.ones_like(loss.unreduced_loss))
                mean = loss.training_loss / weight
        with tf.name_scope(""):
            for key, value in (
                (MetricKeys.LOSS, total),
                (MetricKeys.LOSS_MEAN, mean),
                (MetricKeys.LOSS_REGULARIZATION, penalty),
            ):
                if value is not None:
                    tf.summary.scalar(summary_key(self._name, key), value)
        return EstimatorSpec(mode, predictions=predictions, loss=total, train_op=train_op)

    def _metrics(self, loss: LossSpec, predictions: dict[str, Any], penalty: Any) -> dict[str, Any]:
        tensors = {
            **predictions,
            "loss": loss.unreduced_loss,
            "labels": loss.processed_labels,
            "penalty": penalty,
        }
        with tf.name_scope(None, "metrics"):
            metrics = {
                summary_key(self._name, measure.key): classic_metric(measure, tensors, loss.weights)
                for measure in self._problem.measures()
            }
            if penalty is not None:
                measure = Measure(MetricKeys.LOSS_REGULARIZATION, "mean", "penalty")
                key = summary_key(self._name, measure.key)
                metrics[key] = classic_metric(measure, tensors, None)
        return metrics


def _binary_logistic_head_with_sigmoid_cross_entropy_loss(
    weight_column: Any = None,
    thresholds: Any = None,
    label_vocabulary: Any = None,
    loss_reduction: str = _SUM,
    loss_fn: Any = None,
    name: str | None = None,
) -> ClassicHead:
    """A head for yes or no."""
    checks.check_vocabulary(label_vocabulary, TypeError)
    problem = BinaryProblem(thresholds, label_vocabulary, loss_fn)
    return ClassicHead(problem, weight_column, loss_reduction, name)


def _multi_class_head_with_softmax_cross_entropy_loss(
    n_classes: Any,
    weight_column: Any = None,
    label_vocabulary: Any = None,
    loss_reduction: str = _SUM,
    loss_fn: Any = None,
    name: str | None = None,
) -> ClassicHead:
    """A head for one of several classes."""
    checks.check_vocabulary(label_vocabulary)
    problem = MultiClassProblem(n_classes, label_vocabulary, loss_fn)
    return ClassicHead(problem, weight_column, loss_reduction, name)


def _regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = _SUM,
    loss_fn: Any = None,
    inverse_link_fn: Any = None,
    name: str | None = None,
) -> ClassicHead:
    """A head for numbers."""
    problem = RegressionProblem(label_dimension, loss_fn, inverse_link_fn)
    return ClassicHead(problem, weight_column, loss_reduction, name)


def _binary_logistic_or_multi_class_head(
    n_classes: int, weight_column: Any, label_vocabulary: Any, loss_reduction: str
) -> ClassicHead:
    """The head of a canned classifier."""
    options = {
        "weight_column": weight_column,
        "label_vocabulary": label_vocabulary,
        "loss_reduction": loss_reduction,
    }
    if n_classes == 2:
        return _binary_logistic_head_with_sigmoid_cross_entropy_loss(**options)
    return _multi_class_head_with_softmax_cross_entropy_loss(n_classes, **options)


def binary_classification_head(
    weight_column: Any = None,
    thresholds: Any = None,
    label_vocabulary: Any = None,
    loss_reduction: str = _MEAN,
    loss_fn: Any = None,
    name: str | None = None,
) -> ClassicHead:
    """`tf.contrib.estimator`'s head for yes or no: its loss is a mean over the batch."""
    return _binary_logistic_head_with_sigmoid_cross_entropy_loss(
        weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn, name
    )


def multi_class_head(
    n_classes: int,
    weight_column: Any = None,
    label_vocabulary: Any = None,
    loss_reduction: str = _MEAN,
    loss_fn: Any = None,
    name: str | None = None,
) -> ClassicHead:
    """`tf.contrib.estimator`'s head for one of several classes."""
    return _multi_class_head_with_softmax_cross_entropy_loss(
        n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn, name
    )


def multi_label_head(
    n_classes: int,
    weight_column: Any = None,
    thresholds: Any = None,
    label_vocabulary: Any = None,
    loss_reduction: str = _MEAN,
    loss_fn: Any = None,
    classes_for_class_based_metrics: Any = None,
    name: str | None = None,
) -> ClassicHead:
    """`tf.contrib.estimator`'s head for any of several classes."""
    checks.check_vocabulary(label_vocabulary)
    problem = MultiLabelProblem(
        n_classes, thresholds, label_vocabulary, loss_fn, classes_for_class_based_metrics
    )
    return ClassicHead(problem, weight_column, loss_reduction, name)


def regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = _MEAN,
    loss_fn: Any = None,
    inverse_link_fn: Any = None,
    name: str | None = None,
) -> ClassicHead:
    """`tf.contrib.estimator`'s head for numbers."""
    return _regression_head(
        weight_column, label_dimension, loss_reduction, loss_fn, inverse_link_fn, name
    )


def poisson_regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = _MEAN,
    compute_full_loss: bool = True,
    name: str | None = None,
) -> ClassicHead:
    """`tf.contrib.estimator`'s head for counts."""
    problem = poisson_problem(label_dimension, compute_full_loss)
    return ClassicHead(problem, weight_column, loss_reduction, name)


def logistic_regression_head(
    weight_column: Any = None, loss_reduction: str = _MEAN, name: str | None = None
) -> ClassicHead:
    """`tf.contrib.estimator`'s head for a probability."""
    return ClassicHead(logistic_problem(), weight_column, loss_reduction, name)
