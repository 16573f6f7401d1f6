"""Heads of the second generation: `tf.estimator.Head` and its kind.

Their losses are means over a batch unless told otherwise, and their metrics those of Keras. They
take optimizers of Keras, with the variables to train, and those of `tf.train`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import millrace as tf
from millrace.estimator.estimator_spec import EstimatorSpec
from millrace.estimator.heads import checks
from millrace.estimator.heads.classic import summary_key, train_op_of
from millrace.estimator.heads.keys import MetricKeys
from millrace.estimator.heads.measures import Measure, keras_metric, update_keras_metric
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

__all__ = [
    "BinaryClassHead",
    "Head",
    "LogisticRegressionHead",
    "MultiClassHead",
    "MultiLabelHead",
    "PoissonRegressionHead",
    "RegressionHead",
]

_MEAN = "sum_over_batch_size"
#: Reductions by the names of `tf.keras.losses` and of `tf.losses`.
_REDUCTIONS = {
    "sum": tf.losses.Reduction.SUM,
    "sum_over_batch_size": tf.losses.Reduction.SUM_OVER_BATCH_SIZE,
    "auto": tf.losses.Reduction.SUM_OVER_BATCH_SIZE,
    **{each: each for each in tf.losses.Reduction.all() if each != tf.losses.Reduction.NONE},
}


class Head(abc.ABC):
    """What logits mean, how they are judged, and what is served of them."""

    @property
    @abc.abstractmethod
    def name(self) -> Any:
        """Goes into the names of metrics and summaries."""

    @property
    @abc.abstractmethod
    def logits_dimension(self) -> int:
        """The last dimension of logits."""

    @property
    @abc.abstractmethod
    def loss_reduction(self) -> str:
        """How the losses of examples are added up."""

    @abc.abstractmethod
    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: Any = None,
        regularization_losses: Any = None,
    ) -> Any:
        """The loss to train with."""

    @abc.abstractmethod
    def predictions(self, logits: Any, keys: Any = None) -> dict[Any, Any]:
        """What is predicted, by key."""

    @abc.abstractmethod
    def metrics(self, regularization_losses: Any = None) -> dict[str, Any]:
        """New metrics of Keras, by key."""

    @abc.abstractmethod
    def update_metrics(
        self,
        eval_metrics: dict[str, Any],
        features: Any,
        logits: Any,
        labels: Any,
        mode: Any = None,
        regularization_losses: Any = None,
    ) -> dict[str, Any]:
        """Gives the metrics a batch, and returns them."""

    def _summary_key(self, key: str) -> str:
        return summary_key(self.name, key)

    def create_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        trainable_variables: Any = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        update_ops: Any = None,
        regularization_losses: Any = None,
    ) -> Any:
        """What a model_fn returns.

        Args:
          features: Tensors by key.
          mode: One of ModeKeys.
          logits: ``[batch, logits_dimension]``.
          labels: ``[batch, ...]``; not needed to predict.
          optimizer: Makes the training step.
          trainable_variables: What an optimizer of Keras trains.
          train_op_fn: Makes the training step of the loss, in place of `optimizer`.
          update_ops: Further operations of a step.
          regularization_losses: Scalars that are added to the loss.
        """
        with tf.name_scope(self.name, "head"):
            predictions = self.predictions(logits)
            if mode == ModeKeys.PREDICT:
                outputs = self._export_outputs(predictions)
                return EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
            loss = self.loss(labels, logits, features, mode, regularization_losses)
            if mode == ModeKeys.EVAL:
                metrics = self.update_metrics(
                    self.metrics(regularization_losses=regularization_losses),
                    features,
                    logits,
                    labels,
                    regularization_losses=regularization_losses,
                )
                return EstimatorSpec(
                    mode, predictions=predictions, loss=loss, eval_metric_ops=metrics
                )
            train_op = _train_op(loss, optimizer, trainable_variables, train_op_fn, update_ops)
        with tf.name_scope(""):
            tf.summary.scalar(self._summary_key(MetricKeys.LOSS), loss)
            if regularization_losses:
                penalty = tf.add_n(regularization_losses)
                tf.summary.scalar(self._summary_key(MetricKeys.LOSS_REGULARIZATION), penalty)
        return EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=train_op)

    def _export_outputs(self, predictions: dict[Any, Any]) -> dict[str, Any] | None:
        """What signatures serve; the predictions when None."""
        return None


def _train_op(loss: Any, optimizer: Any, variables: Any, train_op_fn: Any, update_ops: Any) -> Any:
    if update_ops is not None and not isinstance(update_ops, list | tuple):
        raise ValueError(f"update_ops should be a list or a tuple. Given type: {type(update_ops)}.")
    with tf.name_scope(""), tf.name_scope("training"):
        if optimizer is not None and hasattr(optimizer, "get_updates") and train_op_fn is None:
            if not isinstance(variables, list | tuple):
                raise ValueError(
                    "trainable_variables should be a list or a tuple. "
                    f"Given type: {type(variables)}."
                )
            train_op = optimizer.get_updates(loss, list(variables))[0]
        else:
            train_op = train_op_of(loss, optimizer, train_op_fn)
        return train_op if update_ops is None else tf.group(train_op, *update_ops)


class ProblemHead(Head):
    """A head for a problem."""

    def __init__(
        self, problem: Problem, weight_column: Any, loss_reduction: str, name: str | None
    ) -> None:
        """Takes the problem, and how the losses of examples are added up."""
        if loss_reduction not in _REDUCTIONS:
            raise ValueError(
                f"Invalid loss_reduction: {loss_reduction}. See `tf.losses.Reduction` for valid "
                "options."
            )
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

    @property
    def loss_reduction(self) -> str:
        """How the losses of examples are added up."""
        return self._loss_reduction

    def _losses(self, labels: Any, logits: Any, features: Any) -> tuple[Any, Any, Any, Any]:
        """The checked logits, the labels, the loss of each example, and the weights."""
        logits = checks.checked_logits(logits, self.logits_dimension)
        labels = self._problem.labels(labels, logits)
        each = self._problem.loss(labels, logits, features)
        weights = checks.example_weights(
            features or {}, self._weight_column, logits, self._problem.weights_per_logit
        )
        return logits, labels, each, weights

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: Any = None,
        regularization_losses: Any = None,
    ) -> Any:
        """The loss to train with."""
        with tf.name_scope("losses"):
            _, _, each, weights = self._losses(labels, logits, features)
            total = tf.losses.compute_weighted_loss(
                each, weights=weights, reduction=_REDUCTIONS[self._loss_reduction]
            )
            if regularization_losses is not None:
                total = total + tf.add_n(regularization_losses)
            return total

    def predictions(self, logits: Any, keys: Any = None) -> dict[Any, Any]:
        """What is predicted, by key; `keys` chooses.

        Raises:
          ValueError: There is no such key.
        """
        logits = checks.checked_logits(logits, self.logits_dimension)
        with tf.name_scope("predictions"):
            found = self._problem.predictions(logits)
        for key in keys or ():
            if key not in found:
                raise ValueError(
                    f"Prediction key must be in PredictionKeys, given: {key}."
                    f"Valid prediction keys include {list(found)}."
                )
        return {key: found[key] for key in keys} if keys else found

    def _export_outputs(self, predictions: dict[Any, Any]) -> dict[str, Any] | None:
        return self._problem.export_outputs(predictions)

    def _measures(self, regularization_losses: Any) -> list[Measure]:
        found = self._problem.measures()
        if regularization_losses is not None:
            found.append(Measure(MetricKeys.LOSS_REGULARIZATION, "mean", "penalty"))
        return found

    def metrics(self, regularization_losses: Any = None) -> dict[str, Any]:
        """New metrics of Keras, by key."""
        with tf.name_scope("metrics"):
            return {
                self._summary_key(measure.key): keras_metric(measure)
                for measure in self._measures(regularization_losses)
            }

    def update_metrics(
        self,
        eval_metrics: dict[str, Any],
        features: Any,
        logits: Any,
        labels: Any,
        mode: Any = None,
        regularization_losses: Any = None,
    ) -> dict[str, Any]:
        """Gives the metrics a batch, and returns them."""
        logits, labels, each, weights = self._losses(labels, logits, features)
        tensors = {**self._problem.predictions(logits), "loss": each, "labels": labels}
        for measure in self._measures(regularization_losses):
            metric = eval_metrics[self._summary_key(measure.key)]
            if measure.of == "penalty":
                metric.update_state(tf.add_n(regularization_losses))
                continue
            update_keras_metric(metric, measure, tensors, weights)
            if measure.kind == "baseline":
                _as_baseline(metric)
        return eval_metrics


def _as_baseline(metric: Any) -> None:
    """Lets a mean of labels say what always answering the same would reach."""
    mean = metric.result
    metric.result = lambda: tf.maximum(mean(), 1.0 - mean())


class BinaryClassHead(ProblemHead):
    """Yes or no, by the sigmoid of one logit."""

    def __init__(
        self,
        weight_column: Any = None,
        thresholds: Any = None,
        label_vocabulary: Any = None,
        loss_reduction: str = _MEAN,
        loss_fn: Any = None,
        name: str | None = None,
    ) -> None:
        checks.check_vocabulary(label_vocabulary)
        problem = BinaryProblem(thresholds, label_vocabulary, loss_fn)
        super().__init__(problem, weight_column, loss_reduction, name)


class MultiClassHead(ProblemHead):
    """One of several classes, by the softmax of logits."""

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        loss_reduction: str = _MEAN,
        loss_fn: Any = None,
        name: str | None = None,
    ) -> None:
        checks.check_vocabulary(label_vocabulary)
        problem = MultiClassProblem(n_classes, label_vocabulary, loss_fn)
        super().__init__(problem, weight_column, loss_reduction, name)


class MultiLabelHead(ProblemHead):
    """Any of several classes, by a sigmoid for each."""

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        thresholds: Any = None,
        label_vocabulary: Any = None,
        loss_reduction: str = _MEAN,
        loss_fn: Any = None,
        classes_for_class_based_metrics: Any = None,
        name: str | None = None,
    ) -> None:
        checks.check_vocabulary(label_vocabulary)
        problem = MultiLabelProblem(
            n_classes, thresholds, label_vocabulary, loss_fn, classes_for_class_based_metrics
        )
        super().__init__(problem, weight_column, loss_reduction, name)


class RegressionHead(ProblemHead):
    """Numbers."""

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: Any = None,
        loss_reduction: str = _MEAN,
        loss_fn: Any = None,
        inverse_link_fn: Any = None,
        name: str | None = None,
    ) -> None:
        problem = RegressionProblem(label_dimension, loss_fn, inverse_link_fn)
        super().__init__(problem, weight_column, loss_reduction, name)


class PoissonRegressionHead(ProblemHead):
    """Counts."""

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: Any = None,
        loss_reduction: str = _MEAN,
        compute_full_loss: bool = True,
        name: str | None = None,
    ) -> None:
        problem = poisson_problem(label_dimension, compute_full_loss)
        super().__init__(problem, weight_column, loss_reduction, name)


class LogisticRegressionHead(ProblemHead):
    """A probability."""

    def __init__(
        self, weight_column: Any = None, loss_reduction: str = _MEAN, name: str | None = None
    ) -> None:
        super().__init__(logistic_problem(), weight_column, loss_reduction, name)
