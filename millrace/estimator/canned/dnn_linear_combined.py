"""`DNNLinearCombined*`: wide and deep models, each half with an optimizer of its own."""

from __future__ import annotations

import math
from typing import Any

import millrace as tf
from millrace.estimator.canned.dnn import (
    add_layer_summary,
    check_features,
    dnn_logit_fn_builder,
    partitioners,
)
from millrace.estimator.canned.linear import linear_logit_fn_builder
from millrace.estimator.canned.optimizers import get_optimizer_instance
from millrace.estimator.estimator import Estimator
from millrace.estimator.heads.classic import (
    _binary_logistic_or_multi_class_head,
    _regression_head,
)
from millrace.ops.state.variable_changes import assign_add

__all__ = [
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
]

_DNN_LEARNING_RATE = 0.001
_LINEAR_LEARNING_RATE = 0.005
_SUM = tf.losses.Reduction.SUM
_NO_COLUMNS = "Either linear_feature_columns or dnn_feature_columns must be defined."


def _optimizer(given: Any, learning_rate: float) -> Any:
    optimizer = get_optimizer_instance(given, learning_rate=learning_rate)
    if isinstance(optimizer, tf.train.SyncReplicasOptimizer):
        raise ValueError(
            "SyncReplicasOptimizer does not support multi optimizers case. Therefore, it is not "
            "supported in DNNLinearCombined model. If you want to use this optimizer, please use "
            "either DNN or Linear model."
        )
    return optimizer


def _dnn_linear_combined_model_fn(
    features: Any,
    labels: Any,
    mode: str,
    head: Any,
    linear_feature_columns: Any = None,
    linear_optimizer: Any = "Ftrl",
    dnn_feature_columns: Any = None,
    dnn_optimizer: Any = "Adagrad",
    dnn_hidden_units: Any = None,
    dnn_activation_fn: Any = tf.nn.relu,
    dnn_dropout: float | None = None,
    input_layer_partitioner: Any = None,
    config: Any = None,
    batch_norm: bool = False,
    linear_sparse_combiner: str = "sum",
) -> Any:
    """The model function of wide and deep models, which libraries call."""
    check_features(features)
    if not linear_feature_columns and not dnn_feature_columns:
        raise ValueError(_NO_COLUMNS)
    of_layers, of_columns = partitioners(config, input_layer_partitioner)
    values = tuple(features.values())
    #: The logits of each half, its optimizer and its variable scope.
    halves: list[tuple[Any, Any, str]] = []
    if dnn_feature_columns:
        optimizer = _optimizer(dnn_optimizer, _DNN_LEARNING_RATE)
        if not dnn_hidden_units:
            raise ValueError(
                "dnn_hidden_units must be defined when dnn_feature_columns is specified."
            )
        with tf.variable_scope("dnn", values=values, partitioner=of_layers) as scope:
            deep = dnn_logit_fn_builder(
                units=head.logits_dimension,
                hidden_units=dnn_hidden_units,
                feature_columns=dnn_feature_columns,
                activation_fn=dnn_activation_fn,
                dropout=dnn_dropout,
                batch_norm=batch_norm,
                input_layer_partitioner=of_columns,
            )
            halves.append((deep(features=features, mode=mode), optimizer, scope.name))
    if linear_feature_columns:
        rate = min(_LINEAR_LEARNING_RATE, 1.0 / math.sqrt(len(linear_feature_columns)))
        optimizer = _optimizer(linear_optimizer, rate)
        with tf.variable_scope("linear", values=values, partitioner=of_columns) as scope:
            wide = linear_logit_fn_builder(
                head.logits_dimension, linear_feature_columns, linear_sparse_combiner
            )
            logits = wide(features=features)
            add_layer_summary(logits, scope.name)
            halves.append((logits, optimizer, scope.name))
    total = halves[0][0] if len(halves) == 1 else halves[0][0] + halves[1][0]

    def train_op_fn(loss: Any) -> Any:
        steps = []
        for _, optimizer, scope_name in halves:
            variables = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope=scope_name)
            steps.append(optimizer.minimize(loss, var_list=variables))
        with tf.control_dependencies([tf.group(*steps)]):
            return assign_add(tf.train.get_global_step(), 1).op

    return head.create_estimator_spec(
        features=features, mode=mode, labels=labels, train_op_fn=train_op_fn, logits=total
    )


class DNNLinearCombinedEstimator(Estimator):
    """A wide and deep model with a head of the program's own.

    Args:
      head: What the logits mean.
      model_dir: The folder of checkpoints.
      linear_feature_columns: Columns of the linear half.
      linear_optimizer: A name, an optimizer or a function that makes one.
      dnn_feature_columns: Dense columns of the deep half.
      dnn_optimizer: A name, an optimizer or a function that makes one.
      dnn_hidden_units: How many units each hidden layer has.
      dnn_activation_fn: Of hidden layers.
      dnn_dropout: The share of a hidden layer's outputs that is dropped in training.
      input_layer_partitioner: How variables of columns are cut into parts.
      config: A RunConfig.
      batch_norm: Whether hidden layers are normalized.
      linear_sparse_combiner: How an example's ids of one column are added up.
      warm_start_from: A checkpoint, or WarmStartSettings.

    Raises:
      ValueError: There are no columns at all.
    """

    def __init__(
        self,
        head: Any,
        model_dir: str | None = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
        warm_start_from: Any = None,
    ) -> None:
        if not list(linear_feature_columns or []) + list(dnn_feature_columns or []):
            raise ValueError(_NO_COLUMNS)

        def _model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            return _dnn_linear_combined_model_fn(
                features=features,
                labels=labels,
                mode=mode,
                head=head,
                linear_feature_columns=linear_feature_columns,
                linear_optimizer=linear_optimizer,
                dnn_feature_columns=dnn_feature_columns,
                dnn_optimizer=dnn_optimizer,
                dnn_hidden_units=dnn_hidden_units,
                dnn_activation_fn=dnn_activation_fn,
                dnn_dropout=dnn_dropout,
                input_layer_partitioner=input_layer_partitioner,
                config=config,
                batch_norm=batch_norm,
                linear_sparse_combiner=linear_sparse_combiner,
            )

        super().__init__(
            model_fn=_model_fn, model_dir=model_dir, config=config, warm_start_from=warm_start_from
        )


class DNNLinearCombinedClassifier(DNNLinearCombinedEstimator):
    """A wide and deep classifier; arguments are those of the Estimator and of its head."""

    def __init__(
        self,
        model_dir: str | None = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = _SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        head = _binary_logistic_or_multi_class_head(
            n_classes, weight_column, label_vocabulary, loss_reduction
        )
        super().__init__(
            head, model_dir, linear_feature_columns, linear_optimizer, dnn_feature_columns,
            dnn_optimizer, dnn_hidden_units, dnn_activation_fn, dnn_dropout,
            input_layer_partitioner, config, batch_norm, linear_sparse_combiner, warm_start_from,
        )  # fmt: skip


class DNNLinearCombinedRegressor(DNNLinearCombinedEstimator):
    """A wide and deep regressor; arguments are those of the Estimator and of its head."""

    def __init__(
        self,
        model_dir: str | None = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = _SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        head = _regression_head(weight_column, label_dimension, loss_reduction)
        super().__init__(
            head, model_dir, linear_feature_columns, linear_optimizer, dnn_feature_columns,
            dnn_optimizer, dnn_hidden_units, dnn_activation_fn, dnn_dropout,
            input_layer_partitioner, config, batch_norm, linear_sparse_combiner, warm_start_from,
        )  # fmt: skip
