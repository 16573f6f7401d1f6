"""The problems that heads are for: what labels, logits, losses and predictions are.

A problem knows nothing of training or of Estimators; both generations of heads are made of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import millrace as tf
from millrace.estimator.export.export_output import (
    ClassificationOutput,
    PredictOutput,
    RegressionOutput,
)
from millrace.estimator.heads import checks
from millrace.estimator.heads.keys import (
    CLASSIFY_SERVING_KEY,
    DEFAULT_SERVING_KEY,
    PREDICT_SERVING_KEY,
    REGRESS_SERVING_KEY,
    MetricKeys,
    PredictionKeys,
)
from millrace.estimator.heads.measures import Measure, at_thresholds
from millrace.ops.lookup import vocabulary as vocabularies

LossFn = Callable[..., Any]


class Problem:
    """What heads ask of a problem.

    Attributes:
      logits_dimension: The last dimension of logits.
      loss_dimension: That of the loss before it is reduced.
      weights_per_logit: Whether examples may have a weight for each logit.
    """

    logits_dimension = 1
    loss_dimension = 1
    weights_per_logit = False

    def __init__(self, loss_fn: LossFn | None = None) -> None:
        """Takes a function to be used in place of the usual loss."""
        if loss_fn:
            checks.check_loss_fn(loss_fn)
        self._loss_fn = loss_fn

    def labels(self, labels: Any, logits: Any) -> Any:
        """Labels as the loss and the metrics take them."""
        raise NotImplementedError

    def loss(self, labels: Any, logits: Any, features: Any) -> Any:
        """The loss of each example."""
        if self._loss_fn is None:
            return self._usual_loss(labels, logits)
        return checks.called_loss_fn(
            self._loss_fn, labels, logits, features or {}, self.loss_dimension
        )

    def _usual_loss(self, labels: Any, logits: Any) -> Any:
        raise NotImplementedError

    def predictions(self, logits: Any) -> dict[str, Any]:
        """What is predicted, by key."""
        raise NotImplementedError

    def export_outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        """What signatures serve."""
        raise NotImplementedError

    def measures(self) -> list[Measure]:
        """The metrics of an evaluation."""
        raise NotImplementedError


def _indices(values: Any, words: Any) -> Any:
    """The places of labels in a vocabulary."""
    table = vocabularies.index_table_from_tensor(tuple(words), name="class_id_lookup")
    return table.lookup(values)


def _classes(class_ids: Any, words: Any) -> Any:
    """Classes by name: words of a vocabulary, or numbers."""
    if not words:
        return tf.as_string(class_ids, name="str_classes")
    table = vocabularies.index_to_string_table_from_tensor(words, name="class_string_lookup")
    return table.lookup(class_ids)


def _for_each_example(row: Any, logits: Any) -> Any:
    return tf.tile(tf.expand_dims(row, 0), [tf.shape(logits)[0], 1])


def _all_classes(logits: Any, count: int, words: Any) -> Any:
    row = list(words) if words else tf.as_string(tf.range(count))
    return _for_each_example(row, logits)


def _classification(
    predictions: dict[str, Any], count: int, words: Any, **more: Any
) -> dict[str, Any]:
    scores = predictions[PredictionKeys.PROBABILITIES]
    output = ClassificationOutput(scores=scores, classes=_all_classes(scores, count, words))
    return {
        DEFAULT_SERVING_KEY: output,
        CLASSIFY_SERVING_KEY: output,
        **more,
        PREDICT_SERVING_KEY: PredictOutput(predictions),
    }


class BinaryProblem(Problem):
    """Yes or no, by the sigmoid of one logit."""

    def __init__(
        self, thresholds: Any = None, label_vocabulary: Any = None, loss_fn: LossFn | None = None
    ) -> None:
        """Takes thresholds for further metrics, and labels as words."""
        super().__init__(loss_fn)
        self._thresholds = checks.checked_thresholds(thresholds)
        self._words = label_vocabulary

    def labels(self, labels: Any, logits: Any) -> Any:
        """0.0 or 1.0, ``[batch, 1]``."""
        labels = checks.dense_labels(labels, logits, 1)
        if self._words is not None:
            labels = _indices(labels, self._words)
        return checks.labels_in_range(tf.cast(labels, tf.float32), 2)

    def _usual_loss(self, labels: Any, logits: Any) -> Any:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    def predictions(self, logits: Any) -> dict[str, Any]:
        """Probabilities and classes."""
        keys = PredictionKeys
        logistic = tf.sigmoid(logits, name=keys.LOGISTIC)
        both = tf.concat((tf.zeros_like(logits), logits), axis=-1, name="two_class_logits")
        probabilities = tf.nn.softmax(both, name=keys.PROBABILITIES)
        class_ids = tf.expand_dims(tf.argmax(both, axis=-1, name=keys.CLASS_IDS), axis=-1)
        return {
            keys.LOGITS: logits,
            keys.LOGISTIC: logistic,
            keys.PROBABILITIES: probabilities,
            keys.CLASS_IDS: class_ids,
            keys.CLASSES: _classes(class_ids, self._words),
            keys.ALL_CLASS_IDS: _for_each_example(tf.range(2), logits),
            keys.ALL_CLASSES: _all_classes(logits, 2, self._words),
        }

    def export_outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        """Classification; regression of the probability."""
        regression = RegressionOutput(value=predictions[PredictionKeys.LOGISTIC])
        return _classification(predictions, 2, self._words, **{REGRESS_SERVING_KEY: regression})

    def measures(self) -> list[Measure]:
        """Loss, accuracy, precision, recall, means, areas under curves."""
        keys, ids, logistic = MetricKeys, PredictionKeys.CLASS_IDS, PredictionKeys.LOGISTIC
        return [
            Measure(keys.LOSS_MEAN, "mean", "loss"),
            Measure(keys.ACCURACY, "accuracy", ids),
            Measure(keys.PRECISION, "precision", ids),
            Measure(keys.RECALL, "recall", ids),
            Measure(keys.PREDICTION_MEAN, "mean", logistic),
            Measure(keys.LABEL_MEAN, "mean", "labels"),
            Measure(keys.ACCURACY_BASELINE, "baseline", "labels"),
            Measure(keys.AUC, "auc", logistic),
            Measure(keys.AUC_PR, "auc_pr", logistic),
            *at_thresholds(self._thresholds, logistic),
        ]


class MultiClassProblem(Problem):
    """One of several classes, by the softmax of logits."""

    def __init__(
        self, n_classes: Any, label_vocabulary: Any = None, loss_fn: LossFn | None = None
    ) -> None:
        """Takes how many classes there are, and labels as words."""
        super().__init__(loss_fn)
        if n_classes is None:
            raise ValueError("n_classes cannot be None")
        if isinstance(n_classes, int) and n_classes <= 2:
            raise ValueError(f"n_classes must be > 2: {n_classes}.")
        self.logits_dimension = n_classes
        self._words = label_vocabulary

    def labels(self, labels: Any, logits: Any) -> Any:
        """Class numbers, ``[batch, 1]``."""
        labels = checks.dense_labels(labels, logits, 1)
        if self._words is None:
            if not labels.dtype.is_integer:
                raise ValueError(f"Labels dtype should be integer. Instead got {labels.dtype}.")
        else:
            if labels.dtype != tf.string:
                raise ValueError(
                    "Labels dtype should be string if there is a vocabulary. "
                    f"Instead got {labels.dtype}"
                )
            labels = _indices(labels, self._words)
        return checks.labels_in_range(labels, self.logits_dimension)

    def _usual_loss(self, labels: Any, logits: Any) -> Any:
        loss = tf.losses.sparse_softmax_cross_entropy(
            labels=labels, logits=logits, reduction=tf.losses.Reduction.NONE
        )
        return tf.expand_dims(loss, axis=-1)

    def predictions(self, logits: Any) -> dict[str, Any]:
        """Probabilities and classes."""
        keys = PredictionKeys
        all_ids = _for_each_example(tf.range(self.logits_dimension), logits)
        all_classes = _all_classes(logits, self.logits_dimension, self._words)
        class_ids = tf.expand_dims(tf.argmax(logits, axis=-1, name=keys.CLASS_IDS), axis=-1)
        return {
            keys.LOGITS: logits,
            keys.PROBABILITIES: tf.nn.softmax(logits, name=keys.PROBABILITIES),
            keys.CLASS_IDS: class_ids,
            keys.CLASSES: _classes(class_ids, self._words),
            keys.ALL_CLASS_IDS: all_ids,
            keys.ALL_CLASSES: all_classes,
        }

    def export_outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        """Classification."""
        return _classification(predictions, self.logits_dimension, self._words)

    def measures(self) -> list[Measure]:
        """Loss and accuracy."""
        return [
            Measure(MetricKeys.LOSS_MEAN, "mean", "loss"),
            Measure(MetricKeys.ACCURACY, "accuracy", PredictionKeys.CLASS_IDS),
        ]


class MultiLabelProblem(Problem):
    """Any of several classes, by a sigmoid for each."""

    def __init__(
        self,
        n_classes: int,
        thresholds: Any = None,
        label_vocabulary: Any = None,
        loss_fn: LossFn | None = None,
        classes_for_class_based_metrics: Any = None,
    ) -> None:
        """Takes how many classes, thresholds and classes for further metrics, labels as words."""
        super().__init__(loss_fn)
        if n_classes is None or n_classes < 2:
            raise ValueError(
                f"n_classes must be > 1 for multi-label classification. Given: {n_classes}"
            )
        if label_vocabulary is not None and len(label_vocabulary) != n_classes:
            raise ValueError(
                f"Length of label_vocabulary must be n_classes ({n_classes}). "
                f"Given: {len(label_vocabulary)}"
            )
        self.logits_dimension = n_classes
        self._thresholds = checks.checked_thresholds(thresholds)
        self._words = label_vocabulary
        self._measured = [self._class_id(each) for each in classes_for_class_based_metrics or ()]

    def _class_id(self, given: Any) -> int:
        if isinstance(given, str):
            if not self._words:
                raise ValueError(
                    "label_vocabulary must be provided when classes_for_class_based_metrics are "
                    "strings."
                )
            return int(list(self._words).index(given))
        if not 0 <= given < self.logits_dimension:
            raise ValueError(
                "All classes_for_class_based_metrics must be in range "
                f"[0, {self.logits_dimension - 1}]. Given: {given}"
            )
        return int(given)

    def labels(self, labels: Any, logits: Any) -> Any:
        """0 or 1 for each class; sparse labels name the classes."""
        if isinstance(labels, tf.SparseTensor):
            labels = self._indicators(labels)
        elif labels is not None:
            message = "labels must be an integer indicator Tensor with values in [0, 1]"
            labels = checks.labels_in_range(tf.convert_to_tensor(labels), 2, message)
        return checks.dense_labels(labels, logits, self.logits_dimension)

    def _indicators(self, labels: Any) -> Any:
        if labels.dtype == tf.string:
            values = _indices(labels.values, self._words)
        elif labels.dtype.is_integer:
            message = (
                "labels must be an integer SparseTensor with values in "
                f"[0, {self.logits_dimension})"
            )
            values = checks.labels_in_range(labels.values, self.logits_dimension, message)
        else:
            raise ValueError(f"Labels dtype should be integer. Instead got {labels.dtype}.")
        ids = tf.SparseTensor(labels.indices, values, labels.dense_shape)
        return tf.cast(tf.sparse_to_indicator(ids, self.logits_dimension), tf.int64)

    def _usual_loss(self, labels: Any, logits: Any) -> Any:
        each = tf.losses.sigmoid_cross_entropy(
            multi_class_labels=labels, logits=logits, reduction=tf.losses.Reduction.NONE
        )
        return tf.reduce_mean(each, axis=-1, keepdims=True)

    def predictions(self, logits: Any) -> dict[str, Any]:
        """Probabilities."""
        keys = PredictionKeys
        return {
            keys.LOGITS: logits,
            keys.PROBABILITIES: tf.sigmoid(logits, name=keys.PROBABILITIES),
            keys.CLASSES: _all_classes(logits, self.logits_dimension, self._words),
        }

    def export_outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        """Classification."""
        return _classification(predictions, self.logits_dimension, self._words)

    def measures(self) -> list[Measure]:
        """Loss and areas under curves, of all classes and of those that were asked for."""
        probabilities = PredictionKeys.PROBABILITIES
        found = [
            Measure(MetricKeys.LOSS_MEAN, "mean", "loss"),
            Measure(MetricKeys.AUC, "auc", probabilities),
            Measure(MetricKeys.AUC_PR, "auc_pr", probabilities),
            *at_thresholds(self._thresholds, probabilities),
        ]
        for at in self._measured:
            name = f"class{at}" if self._words is None else self._words[at]
            for prefix, kind in (
                ("probability_mean", "mean"),
                (MetricKeys.AUC, "auc"),
                (MetricKeys.AUC_PR, "auc_pr"),
            ):
                found.append(Measure(f"{prefix}/{name}", kind, probabilities, class_id=at))
        return found


class RegressionProblem(Problem):
    """Numbers."""

    weights_per_logit = True

    def __init__(
        self,
        label_dimension: int = 1,
        loss_fn: LossFn | None = None,
        inverse_link_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        """Takes how many numbers, and how logits become predictions."""
        super().__init__(loss_fn)
        if label_dimension < 1:
            raise ValueError(f"Invalid label_dimension {label_dimension}.")
        self.logits_dimension = self.loss_dimension = label_dimension
        self._inverse_link_fn = inverse_link_fn

    def labels(self, labels: Any, logits: Any) -> Any:
        """Numbers, ``[batch, label_dimension]``."""
        return tf.cast(checks.dense_labels(labels, logits, self.logits_dimension), tf.float32)

    def _usual_loss(self, labels: Any, logits: Any) -> Any:
        return tf.losses.mean_squared_error(
            labels=labels, predictions=logits, reduction=tf.losses.Reduction.NONE
        )

    def predictions(self, logits: Any) -> dict[str, Any]:
        """The numbers."""
        if self._inverse_link_fn is None:
            return {PredictionKeys.PREDICTIONS: logits}
        numbers = self._inverse_link_fn(logits)
        return {PredictionKeys.PREDICTIONS: numbers, PredictionKeys.LOGITS: logits}

    def export_outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        """Regression."""
        output = RegressionOutput(value=predictions[PredictionKeys.PREDICTIONS])
        return {
            DEFAULT_SERVING_KEY: output,
            REGRESS_SERVING_KEY: output,
            PREDICT_SERVING_KEY: PredictOutput(predictions),
        }

    def measures(self) -> list[Measure]:
        """Loss and means."""
        return [
            Measure(MetricKeys.LOSS_MEAN, "mean", "loss"),
            Measure(MetricKeys.PREDICTION_MEAN, "mean", PredictionKeys.PREDICTIONS),
            Measure(MetricKeys.LABEL_MEAN, "mean", "labels"),
        ]


def poisson_problem(label_dimension: int = 1, compute_full_loss: bool = True) -> Problem:
    """Counts: the logarithm of their rate is the logit."""

    def loss(labels: Any, logits: Any) -> Any:
        return tf.nn.log_poisson_loss(labels, logits, compute_full_loss=compute_full_loss)

    return RegressionProblem(label_dimension, loss, tf.exp)


def logistic_problem() -> Problem:
    """A probability, which labels give, too."""

    def loss(labels: Any, logits: Any) -> Any:
        labels = checks.labels_in_range(labels, 2, "Labels must be in range [0, 1]")
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    return RegressionProblem(1, loss, tf.sigmoid)
