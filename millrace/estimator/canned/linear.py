"""`LinearClassifier`, `LinearRegressor`, `LinearEstimator`: weighted sums of columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import millrace as tf
from millrace.estimator.canned.dnn import check_features
from millrace.estimator.canned.optimizers import get_optimizer_instance
from millrace.estimator.estimator import Estimator
from millrace.estimator.heads.classic import (
    _binary_logistic_or_multi_class_head,
    _regression_head,
)
from millrace.feature_column.models import linear_model_in

__all__ = ["LinearClassifier", "LinearEstimator", "LinearRegressor", "linear_logit_fn_builder"]

_LEARNING_RATE = 0.2
_SUM = tf.losses.Reduction.SUM


def _share_of_zeros(variables: list[Any]) -> Any:
    """How many of the weights are zero."""
    with tf.name_scope("zero_fraction"):
        parts = [tf.reshape(tf.convert_to_tensor(each), [-1]) for each in variables]
        if not parts:
            return tf.constant(float("nan"))
        return tf.nn.zero_fraction(tf.concat(parts, 0))


def linear_logit_fn_builder(
    units: int, feature_columns: Any, sparse_combiner: str = "sum"
) -> Callable[..., Any]:
    """A function of features that makes the logits of a linear model.

    Args:
      units: How many logits.
      feature_columns: Dense and categorical columns.
      sparse_combiner: How an example's ids of one column are added up.
    """

    def linear_logit_fn(features: Any) -> Any:
        found: dict[Any, Any] = {}
        logits = linear_model_in(
            "linear_model",
            features,
            feature_columns,
            units=units,
            sparse_combiner=sparse_combiner,
            cols_to_vars=found,
        )
        bias = found.pop("bias")
        if units > 1:
            tf.summary.histogram("bias", tf.concat([tf.convert_to_tensor(b) for b in bias], 0))
        else:
            tf.summary.scalar("bias", bias[0][0])
        weights = [variable for variables in found.values() for variable in variables]
        tf.summary.scalar("fraction_of_zero_weights", _share_of_zeros(weights))
        return logits

    return linear_logit_fn


def _linear_model_fn(
    features: Any,
    labels: Any,
    mode: str,
    head: Any,
    feature_columns: Any,
    optimizer: Any,
    partitioner: Any,
    config: Any,
    sparse_combiner: str = "sum",
) -> Any:
    """The model function of linear models, which libraries call."""
    check_features(features)
    rate = min(_LEARNING_RATE, 1.0 / math.sqrt(len(feature_columns)))
    optimizer = get_optimizer_instance(optimizer or "Ftrl", learning_rate=rate)
    count = config.num_ps_replicas if config else 0
    partitioner = partitioner or tf.min_max_variable_partitioner(
        max_partitions=count, min_slice_size=64 << 20
    )
    with tf.variable_scope("linear", values=tuple(features.values()), partitioner=partitioner):
        logit_fn = linear_logit_fn_builder(head.logits_dimension, feature_columns, sparse_combiner)
        logits = logit_fn(features=features)
        return head.create_estimator_spec(
            features=features, mode=mode, labels=labels, optimizer=optimizer, logits=logits
        )


class LinearEstimator(Estimator):
    """A linear model with a head of the program's own.

    Args:
      head: What the logits mean.
      feature_columns: Dense and categorical columns.
      model_dir: The folder of checkpoints.
      optimizer: A name, an optimizer or a function that makes one; by default Ftrl with a
        learning rate of ``min(0.2, 1 / sqrt(number of columns))``.
      config: A RunConfig.
      partitioner: How variables are cut into parts.
      sparse_combiner: How an example's ids of one column are added up.
      warm_start_from: A checkpoint, or WarmStartSettings.
    """

    def __init__(
        self,
        head: Any,
        feature_columns: Any,
        model_dir: str | None = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        sparse_combiner: str = "sum",
        warm_start_from: Any = None,
    ) -> None:
        def _model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            return _linear_model_fn(
                features=features,
                labels=labels,
                mode=mode,
                head=head,
                feature_columns=tuple(feature_columns or []),
                optimizer=optimizer,
                partitioner=partitioner,
                config=config,
                sparse_combiner=sparse_combiner,
            )

        super().__init__(
            model_fn=_model_fn, model_dir=model_dir, config=config, warm_start_from=warm_start_from
        )


class LinearClassifier(LinearEstimator):
    """A linear classifier; arguments are `LinearEstimator`'s and its head's."""

    def __init__(
        self,
        feature_columns: Any,
        model_dir: str | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = _SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        head = _binary_logistic_or_multi_class_head(
            n_classes, weight_column, label_vocabulary, loss_reduction
        )
        super().__init__(
            head, feature_columns, model_dir, optimizer, config, partitioner, sparse_combiner,
            warm_start_from,
        )  # fmt: skip


class LinearRegressor(LinearEstimator):
    """A linear regressor; arguments are `LinearEstimator`'s and its head's."""

    def __init__(
        self,
        feature_columns: Any,
        model_dir: str | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = _SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        head = _regression_head(weight_column, label_dimension, loss_reduction)
        super().__init__(
            head, feature_columns, model_dir, optimizer, config, partitioner, sparse_combiner,
            warm_start_from,
        )  # fmt: skip
