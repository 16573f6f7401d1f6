"""Heads of `tf.contrib.learn`: what a model makes of its logits.

A head knows the loss, the predictions and the metrics of a kind of problem, under the names that
`tf.contrib.learn` gave them (`PredictionKey`, `MetricKey`). The newer heads are
`millrace.estimator.heads`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import millrace as tf
from millrace.contrib.learn.model_fn import ModeKeys, ModelFnOps


class ProblemType:
    """What a head predicts."""

    UNSPECIFIED = 0
    CLASSIFICATION = 1
    LINEAR_REGRESSION = 2
    LOGISTIC_REGRESSION = 3


class PredictionKey:
    """The names of predictions."""

    CLASSES = "classes"
    PROBABILITIES = "probabilities"
    LOGITS = "logits"
    LOGISTIC = "logistic"
    SCORES = "scores"
    TOP_K = "top_k"
    GENERIC = "output"


class MetricKey:
    """The names of metrics."""

    LOSS = "loss"
    AUC = "auc"
    AUC_PR = "auc_precision_recall"
    CLASS_AUC = "auc/class%d"
    CLASS_AUC_PR = "auc_precision_recall/class%d"
    PREDICTION_MEAN = "labels/prediction_mean"
    CLASS_PREDICTION_MEAN = "labels/prediction_mean/class%d"
    CLASS_LOGITS_MEAN = "labels/logits_mean/class%d"
    CLASS_PROBABILITY_MEAN = "labels/probability_mean/class%d"
    LABEL_MEAN = "labels/actual_label_mean"
    CLASS_LABEL_MEAN = "labels/actual_label_mean/class%d"
    ACCURACY = "accuracy"
    ACCURACY_BASELINE = "accuracy/baseline_label_mean"
    ACCURACY_MEAN = "accuracy/threshold_%f_mean"
    PRECISION_MEAN = "precision/positive_threshold_%f_mean"
    RECALL_MEAN = "recall/positive_threshold_%f_mean"


class Head(abc.ABC):
    """The top of a model."""

    @property
    @abc.abstractmethod
    def logits_dimension(self) -> int:
        """How many logits an example has."""

    @abc.abstractmethod
    def create_model_fn_ops(
        self,
        features: Any,
        mode: str,
        labels: Any = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        logits: Any = None,
        logits_input: Any = None,
        scope: Any = None,
    ) -> ModelFnOps:
        """What a model function returns, from logits or the layer below them."""


class SingleHead(Head):
    """A head with one loss; subclasses say which, and what is predicted and measured."""

    #: The variable scope of a head without a name.
    _scope = "head"

    def __init__(
        self,
        logits_dimension: int,
        label_name: str | None,
        weight_column_name: str | None,
        head_name: str | None,
        enable_centered_bias: bool = False,
    ) -> None:
        """Takes the keys of dicts of labels and of features, and a suffix of all names."""
        self._logits_dimension = logits_dimension
        self._label_name = label_name
        self._weight_column_name = weight_column_name
        self.head_name = head_name
        self._centered_bias = enable_centered_bias

    @property
    def logits_dimension(self) -> int:
        """How many logits an example has."""
        return self._logits_dimension

    def _losses(self, labels: Any, logits: Any) -> Any:
        """The loss of each example, and of each class where these are independent."""
        raise NotImplementedError

    def _predictions(self, logits: Any) -> dict[str, Any]:
        raise NotImplementedError

    def _metrics(self, predictions: dict[str, Any], labels: Any, weights: Any) -> dict[str, Any]:
        """Metrics beside the loss."""
        return {}

    def _train_bias(self, bias: Any, labels: Any) -> Any:
        """A step of the bias by itself: as if it were the whole model."""
        rows = tf.shape(labels)[0]
        logits = tf.tile(tf.expand_dims(bias, 0), tf.stack([rows, 1]))
        loss = tf.reduce_mean(self._losses(labels, logits))
        return tf.train.AdagradOptimizer(0.1).minimize(loss, var_list=[bias])

    def key(self, name: str) -> str:
        """A name of a prediction or metric of this head."""
        return f"{name}/{self.head_name}" if self.head_name else name

    def loss_of(self, features: Any, labels: Any, logits: Any) -> tuple[Any, Any, Any]:
        """The loss to train on, the one to report, and the examples' weights."""
        losses = self._losses(labels, logits)
        weights = None
        if self._weight_column_name is not None:
            weights = tf.cast(features[self._weight_column_name], tf.float32)
            if weights.shape.ndims != losses.shape.ndims:
                weights = tf.reshape(weights, [-1] + [1] * (losses.shape.ndims - 1))
        if weights is None:
            mean = tf.reduce_mean(losses, name="loss")
            return mean, mean, None
        weighted = losses * weights
        total = tf.reduce_sum(weights * tf.ones_like(losses))
        return tf.reduce_mean(weighted), tf.reduce_sum(weighted) / total, weights

    def create_model_fn_ops(
        self,
        features: Any,
        mode: str,
        labels: Any = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        logits: Any = None,
        logits_input: Any = None,
        scope: Any = None,
    ) -> ModelFnOps:
        """See `Head`."""
        ModeKeys.validate(mode)
        with tf.variable_scope(
            None, default_name=self.head_name or self._scope, values=[logits, logits_input]
        ):
            if logits is None:
                if logits_input is None:
                    raise ValueError("Neither logits nor logits_input supplied.")
                logits = tf.contrib.layers.fully_connected(
                    logits_input, self.logits_dimension, activation_fn=None, scope=scope or "logits"
                )
            bias = None
            if self._centered_bias:
                bias = tf.get_variable(
                    "centered_bias_weight", [self.logits_dimension], tf.float32,
                    tf.zeros_initializer(), collections=[tf.GraphKeys.GLOBAL_VARIABLES],
                    trainable=True,
                )  # fmt: skip
                logits = tf.nn.bias_add(logits, bias)
            predictions = self._predictions(logits)
            if mode == ModeKeys.INFER or labels is None:
                return ModelFnOps(mode, predictions=predictions)
            if isinstance(labels, dict):
                labels = (
                    labels[self._label_name] if self._label_name else next(iter(labels.values()))
                )
            loss, reported, weights = self.loss_of(features, labels, logits)
            tf.summary.scalar(self.key("loss"), reported)
            train_op = None
            if mode == ModeKeys.TRAIN:
                if train_op_fn is None:
                    raise ValueError("train_op_fn can not be None in TRAIN mode")
                train_op = train_op_fn(loss)
                if bias is not None:
                    train_op = tf.group(train_op, self._train_bias(bias, labels))
            metrics = None
            if mode == ModeKeys.EVAL:
                # The loss of a head without a name is the one that the Estimator reports itself.
                metrics = {self.key("loss"): tf.metrics.mean(reported)} if self.head_name else {}
                found = self._metrics(predictions, labels, weights)
                metrics.update((self.key(name), value) for name, value in found.items())
            return ModelFnOps(mode, predictions, reported, train_op, metrics)


def _column(labels: Any) -> Any:
    labels = tf.convert_to_tensor(labels)
    return tf.expand_dims(labels, 1) if labels.shape.ndims == 1 else labels


class RegressionHead(SingleHead):
    """Numbers; by default with the squared error."""

    _scope = "regression_head"

    def __init__(
        self,
        label_name: str | None = None,
        weight_column_name: str | None = None,
        label_dimension: int = 1,
        enable_centered_bias: bool = False,
        head_name: str | None = None,
        link_fn: Callable[[Any], Any] | None = None,
        poisson: bool = False,
    ) -> None:
        """See `regression_head`; with `poisson`, logits are logarithms of a rate."""
        super().__init__(
            label_dimension, label_name, weight_column_name, head_name, enable_centered_bias
        )
        self._link = link_fn or tf.identity
        self._poisson = poisson

    def _losses(self, labels: Any, logits: Any) -> Any:
        labels = tf.cast(_column(labels), tf.float32)
        logits.shape.assert_is_compatible_with(labels.shape)
        if self._poisson:
            return tf.nn.log_poisson_loss(labels, logits, compute_full_loss=True)
        return tf.squared_difference(logits, labels)

    def _predictions(self, logits: Any) -> dict[str, Any]:
        found = self._link(logits)
        return {
            PredictionKey.SCORES: tf.squeeze(found, [1]) if self.logits_dimension == 1 else found
        }


class BinaryHead(SingleHead):
    """Two classes, from one logit."""

    _scope = "binary_logistic_head"

    def __init__(
        self,
        label_name: str | None = None,
        weight_column_name: str | None = None,
        enable_centered_bias: bool = False,
        head_name: str | None = None,
        thresholds: Sequence[float] | None = None,
    ) -> None:
        """See `multi_class_head`."""
        super().__init__(1, label_name, weight_column_name, head_name, enable_centered_bias)
        self._thresholds = tuple(thresholds or (0.5,))

    def _losses(self, labels: Any, logits: Any) -> Any:
        labels = tf.cast(_column(labels), tf.float32)
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    def _predictions(self, logits: Any) -> dict[str, Any]:
        both = tf.concat([tf.zeros_like(logits), logits], 1)
        return {
            PredictionKey.LOGITS: logits,
            PredictionKey.LOGISTIC: tf.sigmoid(logits, name=PredictionKey.LOGISTIC),
            PredictionKey.PROBABILITIES: tf.nn.softmax(both, name=PredictionKey.PROBABILITIES),
            PredictionKey.CLASSES: tf.argmax(both, 1, name=PredictionKey.CLASSES),
        }

    def _metrics(self, predictions: dict[str, Any], labels: Any, weights: Any) -> dict[str, Any]:
        logistic = predictions[PredictionKey.LOGISTIC]
        numbers = tf.cast(_column(labels), tf.float32)
        classes = tf.expand_dims(predictions[PredictionKey.CLASSES], 1)
        mean = tf.metrics.mean(numbers, weights)
        found = {
            MetricKey.ACCURACY: tf.metrics.accuracy(numbers, classes, weights),
            MetricKey.PREDICTION_MEAN: tf.metrics.mean(logistic, weights),
            MetricKey.LABEL_MEAN: mean,
            # What who always guesses the mean would reach.
            MetricKey.ACCURACY_BASELINE: tf.metrics.mean(numbers, weights),
            MetricKey.AUC: tf.metrics.auc(numbers, logistic, weights),
            MetricKey.AUC_PR: tf.metrics.auc(numbers, logistic, weights, curve="PR"),
        }
        for threshold in self._thresholds:
            above = tf.cast(logistic > threshold, tf.float32)
            found |= {
                MetricKey.ACCURACY_MEAN % threshold: tf.metrics.accuracy(numbers, above, weights),
                MetricKey.PRECISION_MEAN % threshold: tf.metrics.precision(numbers, above, weights),
                MetricKey.RECALL_MEAN % threshold: tf.metrics.recall(numbers, above, weights),
            }
        return found


class MultiClassHead(SingleHead):
    """One of several classes."""

    _scope = "multi_class_head"

    def __init__(
        self,
        n_classes: int,
        label_name: str | None = None,
        weight_column_name: str | None = None,
        enable_centered_bias: bool = False,
        head_name: str | None = None,
        label_keys: Any = None,
    ) -> None:
        """See `multi_class_head`."""
        super().__init__(n_classes, label_name, weight_column_name, head_name, enable_centered_bias)
        self._label_keys = label_keys

    def _numbers(self, labels: Any) -> Any:
        if self._label_keys is None:
            return tf.convert_to_tensor(labels)
        table = tf.contrib.lookup.index_table_from_tensor(self._label_keys, name="label_id_lookup")
        return table.lookup(labels)

    def _losses(self, labels: Any, logits: Any) -> Any:
        labels = self._numbers(labels)
        if not labels.dtype.is_integer:
            raise ValueError(f"Labels dtype should be integer Instead got {labels.dtype}.")
        squeezed = labels.shape.ndims == 2
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.squeeze(labels, [1]) if squeezed else labels, logits=logits
        )
        return tf.expand_dims(losses, 1) if squeezed else losses

    def _predictions(self, logits: Any) -> dict[str, Any]:
        classes = tf.argmax(logits, 1)
        if self._label_keys is not None:
            table = tf.contrib.lookup.index_to_string_table_from_tensor(
                self._label_keys, name="class_string_lookup"
            )
            classes = table.lookup(classes)
        return {
            PredictionKey.LOGITS: logits,
            PredictionKey.PROBABILITIES: tf.nn.softmax(logits, name=PredictionKey.PROBABILITIES),
            PredictionKey.CLASSES: classes,
        }

    def _metrics(self, predictions: dict[str, Any], labels: Any, weights: Any) -> dict[str, Any]:
        classes = predictions[PredictionKey.CLASSES]
        flat = tf.reshape(tf.convert_to_tensor(labels), [-1])
        shaped = None if weights is None else tf.reshape(weights, [-1])
        if flat.dtype.is_integer and classes.dtype.is_integer:
            flat = tf.cast(flat, classes.dtype)
        return {MetricKey.ACCURACY: tf.metrics.accuracy(flat, classes, shaped)}


class MultiLabelHead(SingleHead):
    """Any of several classes."""

    _scope = "multi_label_head"

    def _losses(self, labels: Any, logits: Any) -> Any:
        return tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.cast(labels, tf.float32), logits=logits
        )

    def _predictions(self, logits: Any) -> dict[str, Any]:
        return {
            PredictionKey.LOGITS: logits,
            PredictionKey.PROBABILITIES: tf.sigmoid(logits, name=PredictionKey.PROBABILITIES),
            PredictionKey.CLASSES: tf.cast(tf.greater(logits, 0), tf.int64),
        }

    def _metrics(self, predictions: dict[str, Any], labels: Any, weights: Any) -> dict[str, Any]:
        probabilities = predictions[PredictionKey.PROBABILITIES]
        classes = predictions[PredictionKey.CLASSES]
        labels = tf.cast(labels, tf.int64)
        return {
            MetricKey.ACCURACY: tf.metrics.accuracy(labels, classes, weights),
            MetricKey.AUC: tf.metrics.auc(labels, probabilities, weights),
            MetricKey.AUC_PR: tf.metrics.auc(labels, probabilities, weights, curve="PR"),
        }


class SvmHead(SingleHead):
    """Two classes, with the hinge loss."""

    _scope = "binary_svm_head"

    def _losses(self, labels: Any, logits: Any) -> Any:
        return tf.losses.hinge_loss(_column(labels), logits, reduction=tf.losses.Reduction.NONE)

    def _predictions(self, logits: Any) -> dict[str, Any]:
        both = tf.concat([tf.zeros_like(logits), logits], 1)
        return {PredictionKey.LOGITS: logits, PredictionKey.CLASSES: tf.argmax(both, 1)}

    def _metrics(self, predictions: dict[str, Any], labels: Any, weights: Any) -> dict[str, Any]:
        classes = tf.expand_dims(predictions[PredictionKey.CLASSES], 1)
        accuracy = tf.metrics.accuracy(tf.cast(_column(labels), tf.int64), classes, weights)
        return {MetricKey.ACCURACY: accuracy}


class MultiHead(Head):
    """Several heads on one model; the logits of each stand side by side."""

    def __init__(self, heads: Sequence[SingleHead], loss_weights: Sequence[float] | None) -> None:
        """See `multi_head`."""
        self._heads = list(heads)
        self._loss_weights = list(loss_weights or [1.0] * len(self._heads))

    @property
    def logits_dimension(self) -> int:
        """The logits of all heads."""
        return sum(head.logits_dimension for head in self._heads)

    def create_model_fn_ops(
        self,
        features: Any,
        mode: str,
        labels: Any = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        logits: Any = None,
        logits_input: Any = None,
        scope: Any = None,
    ) -> ModelFnOps:
        """See `Head`; predictions are named by (head, prediction)."""
        widths = [head.logits_dimension for head in self._heads]
        parts = [None] * len(widths) if logits is None else tf.split(logits, widths, axis=1)
        inner = ModeKeys.EVAL if mode == ModeKeys.TRAIN else mode
        made = [
            head.create_model_fn_ops(
                features, inner, labels, logits=part, logits_input=logits_input, scope=scope
            )
            for head, part in zip(self._heads, parts, strict=True)
        ]
        predictions = {
            (head.head_name, name): value
            for head, ops in zip(self._heads, made, strict=True)
            for name, value in ops.predictions.items()
        }
        if mode == ModeKeys.INFER:
            return ModelFnOps(mode, predictions=predictions)
        losses = [w * ops.loss for w, ops in zip(self._loss_weights, made, strict=True)]
        loss = tf.add_n(losses)
        if mode == ModeKeys.TRAIN:
            if train_op_fn is None:
                raise ValueError("train_op_fn can not be None in TRAIN mode")
            return ModelFnOps(mode, predictions, loss, train_op_fn(loss))
        metrics = {name: value for ops in made for name, value in ops.eval_metric_ops.items()}
        return ModelFnOps(mode, predictions, loss, None, metrics)


def regression_head(
    label_name: str | None = None,
    weight_column_name: str | None = None,
    label_dimension: int = 1,
    enable_centered_bias: bool = False,
    head_name: str | None = None,
    link_fn: Callable[[Any], Any] | None = None,
) -> Head:
    """A head for numbers, with the squared error."""
    return RegressionHead(
        label_name, weight_column_name, label_dimension, enable_centered_bias, head_name, link_fn
    )


def poisson_regression_head(
    label_name: str | None = None,
    weight_column_name: str | None = None,
    label_dimension: int = 1,
    enable_centered_bias: bool = False,
    head_name: str | None = None,
) -> Head:
    """A head for counts."""
    return RegressionHead(
        label_name, weight_column_name, label_dimension, enable_centered_bias, head_name, tf.exp,
        poisson=True,
    )  # fmt: skip


def multi_class_head(
    n_classes: int,
    label_name: str | None = None,
    weight_column_name: str | None = None,
    enable_centered_bias: bool = False,
    head_name: str | None = None,
    thresholds: Sequence[float] | None = None,
    metric_class_ids: Any = None,
    loss_fn: Any = None,
    label_keys: Any = None,
) -> Head:
    """A head for one of `n_classes` classes; with two, of one logit.

    Raises:
      ValueError: There are fewer than two classes.
    """
    if n_classes is None or n_classes < 2:
        raise ValueError(f"n_classes must be > 1 for classification: {n_classes}.")
    if loss_fn is not None or metric_class_ids is not None:
        raise ValueError("loss_fn and metric_class_ids are not in Millrace; write a model_fn.")
    if n_classes == 2:
        if label_keys is not None:
            raise ValueError("label_keys is not supported for n_classes=2.")
        return BinaryHead(
            label_name, weight_column_name, enable_centered_bias, head_name, thresholds
        )
    return MultiClassHead(
        n_classes, label_name, weight_column_name, enable_centered_bias, head_name, label_keys
    )


def binary_svm_head(
    label_name: str | None = None,
    weight_column_name: str | None = None,
    enable_centered_bias: bool = False,
    head_name: str | None = None,
    thresholds: Sequence[float] | None = None,
) -> Head:
    """A head for two classes, with the hinge loss."""
    return SvmHead(1, label_name, weight_column_name, head_name, enable_centered_bias)


def multi_label_head(
    n_classes: int,
    label_name: str | None = None,
    weight_column_name: str | None = None,
    enable_centered_bias: bool = False,
    head_name: str | None = None,
    thresholds: Sequence[float] | None = None,
    metric_class_ids: Any = None,
    loss_fn: Any = None,
) -> Head:
    """A head for any of `n_classes` classes."""
    if n_classes < 2:
        raise ValueError(f"n_classes must be > 1 for classification: {n_classes}.")
    return MultiLabelHead(
        n_classes, label_name, weight_column_name, head_name, enable_centered_bias
    )


def multi_head(heads: Sequence[Any], loss_weights: Sequence[float] | None = None) -> Head:
    """Several heads, whose losses are added, each by its weight."""
    if loss_weights and len(loss_weights) != len(heads):
        raise ValueError("heads and loss_weights must have same size")
    return MultiHead(heads, loss_weights)


def no_op_train_fn(loss: Any) -> Any:
    """Trains nothing."""
    return tf.no_op()
