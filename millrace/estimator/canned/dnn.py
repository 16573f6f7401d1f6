"""`DNNClassifier`, `DNNRegressor`, `DNNEstimator`: layers on dense columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import millrace as tf
from millrace.estimator.canned.optimizers import get_optimizer_instance
from millrace.estimator.estimator import Estimator
from millrace.estimator.heads.classic import (
    _binary_logistic_or_multi_class_head,
    _regression_head,
)
from millrace.estimator.mode_keys import ModeKeys
from millrace.feature_column.column import is_feature_column_v2
from millrace.feature_column.models import InputLayer
from millrace.keras.layers.feature_columns import DenseFeatures

__all__ = ["DNNClassifier", "DNNEstimator", "DNNRegressor", "dnn_logit_fn_builder"]

_LEARNING_RATE = 0.05
_SUM = tf.losses.Reduction.SUM


def add_layer_summary(value: Any, tag: str) -> None:
    """Shows how many values of a layer are zero, and how they are spread."""
    tf.summary.scalar(f"{tag}/fraction_of_zero_values", tf.nn.zero_fraction(value))
    tf.summary.histogram(f"{tag}/activation", value)


def partitioners(config: Any, given: Any = None) -> tuple[Any, Any]:
    """How variables of layers, and those of columns, are spread over parameter servers."""
    count = config.num_ps_replicas if config else 0
    of_columns = given or tf.min_max_variable_partitioner(
        max_partitions=count, min_slice_size=64 << 20
    )
    return tf.min_max_variable_partitioner(max_partitions=count), of_columns


def check_features(features: Any) -> None:
    """Raises ValueError if features are no dict."""
    if not isinstance(features, dict):
        raise ValueError(
            f"features should be a dictionary of `Tensor`s. Given type: {type(features)}"
        )


def dnn_logit_fn_builder(
    units: int,
    hidden_units: Any,
    feature_columns: Any,
    activation_fn: Any,
    dropout: float | None,
    input_layer_partitioner: Any,
    batch_norm: bool,
) -> Callable[..., Any]:
    """A function of features and mode that makes the logits of a deep model.

    Args:
      units: How many logits.
      hidden_units: How many units each hidden layer has.
      feature_columns: Dense columns.
      activation_fn: Of hidden layers.
      dropout: The share of a hidden layer's outputs that is dropped in training.
      input_layer_partitioner: How variables of columns are cut into parts.
      batch_norm: Whether hidden layers are normalized.

    Raises:
      ValueError: `units` is no integer.
    """
    if not isinstance(units, int):
        raise ValueError(f"units must be an int.  Given type: {type(units)}")

    def hidden(net: Any, width: int, number: int, training: bool) -> Any:
        with tf.variable_scope(f"hiddenlayer_{number}") as scope:
            net = _dense(net, width, activation_fn, scope)
            if dropout is not None and training:
                net = tf.layers.dropout(net, rate=dropout, training=True)
            if batch_norm:
                net = tf.layers.batch_normalization(
                    net,
                    training=training,
                    momentum=0.999,
                    trainable=True,
                    name=f"batchnorm_{number}",
                )
        add_layer_summary(net, scope.name)
        return net

    def dnn_logit_fn(features: Any, mode: str) -> Any:
        with tf.variable_scope("input_from_feature_columns", partitioner=input_layer_partitioner):
            if is_feature_column_v2(feature_columns):
                net = DenseFeatures(feature_columns, name="input_layer")(features)
            else:
                layer = InputLayer(feature_columns, name="input_layer", create_scope_now=False)
                net = layer(features)
        for number, width in enumerate(hidden_units):
            net = hidden(net, width, number, mode == ModeKeys.TRAIN)
        with tf.variable_scope("logits") as scope:
            logits = _dense(net, units, None, scope)
        add_layer_summary(logits, scope.name)
        return logits

    return dnn_logit_fn


def _dense(net: Any, units: int, activation: Any, scope: Any) -> Any:
    return tf.layers.dense(
        net,
        units=units,
        activation=activation,
        kernel_initializer=tf.glorot_uniform_initializer(),
        name=scope,
    )


def _dnn_model_fn(
    features: Any,
    labels: Any,
    mode: str,
    head: Any,
    hidden_units: Any,
    feature_columns: Any,
    optimizer: Any = "Adagrad",
    activation_fn: Any = tf.nn.relu,
    dropout: float | None = None,
    input_layer_partitioner: Any = None,
    config: Any = None,
    batch_norm: bool = False,
) -> Any:
    """The model function of deep models, which libraries call."""
    optimizer = get_optimizer_instance(optimizer, learning_rate=_LEARNING_RATE)
    check_features(features)
    of_layers, of_columns = partitioners(config, input_layer_partitioner)
    with tf.variable_scope("dnn", values=tuple(features.values()), partitioner=of_layers):
        logit_fn = dnn_logit_fn_builder(
            units=head.logits_dimension,
            hidden_units=hidden_units,
            feature_columns=feature_columns,
            activation_fn=activation_fn,
            dropout=dropout,
            input_layer_partitioner=of_columns,
            batch_norm=batch_norm,
        )
        logits = logit_fn(features=features, mode=mode)
        return head.create_estimator_spec(
            features=features, mode=mode, labels=labels, optimizer=optimizer, logits=logits
        )


class DNNEstimator(Estimator):
    """A deep model with a head of the program's own.

    Args:
      head: What the logits mean.
      hidden_units: How many units each hidden layer has.
      feature_columns: Dense columns.
      model_dir: The folder of checkpoints.
      optimizer: A name, an optimizer or a function that makes one.
      activation_fn: Of hidden layers.
      dropout: The share of a hidden layer's outputs that is dropped in training.
      input_layer_partitioner: How variables of columns are cut into parts.
      config: A RunConfig.
      warm_start_from: A checkpoint, or WarmStartSettings.
      batch_norm: Whether hidden layers are normalized.
    """

    def __init__(
        self,
        head: Any,
        hidden_units: Any,
        feature_columns: Any,
        model_dir: str | None = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        batch_norm: bool = False,
    ) -> None:
        def _model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            return _dnn_model_fn(
                features=features,
                labels=labels,
                mode=mode,
                head=head,
                hidden_units=hidden_units,
                feature_columns=tuple(feature_columns or []),
                optimizer=optimizer,
                activation_fn=activation_fn,
                dropout=dropout,
                input_layer_partitioner=input_layer_partitioner,
                config=config,
                batch_norm=batch_norm,
            )

        super().__init__(
            model_fn=_model_fn, model_dir=model_dir, config=config, warm_start_from=warm_start_from
        )


class DNNClassifier(DNNEstimator):
    """A deep classifier; arguments are `DNNEstimator`'s and its head's."""

    def __init__(
        self,
        hidden_units: Any,
        feature_columns: Any,
        model_dir: str | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = _SUM,
        batch_norm: bool = False,
    ) -> None:
        head = _binary_logistic_or_multi_class_head(
            n_classes, weight_column, label_vocabulary, loss_reduction
        )
        super().__init__(
            head, hidden_units, feature_columns, model_dir, optimizer, activation_fn, dropout,
            input_layer_partitioner, config, warm_start_from, batch_norm,
        )  # fmt: skip


class DNNRegressor(DNNEstimator):
    """A deep regressor; arguments are `DNNEstimator`'s and its head's."""

    def __init__(
        self,
        hidden_units: Any,
        feature_columns: Any,
        model_dir: str | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = _SUM,
        batch_norm: bool = False,
    ) -> None:
        head = _regression_head(weight_column, label_dimension, loss_reduction)
        super().__init__(
            head, hidden_units, feature_columns, model_dir, optimizer, activation_fn, dropout,
            input_layer_partitioner, config, warm_start_from, batch_norm,
        )  # fmt: skip
