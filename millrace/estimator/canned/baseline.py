"""`Baseline*`: models that answer the same whatever the features, to compare others with."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.estimator.canned.optimizers import get_optimizer_instance
from millrace.estimator.estimator import Estimator
from millrace.estimator.heads.classic import (
    _binary_logistic_or_multi_class_head,
    _regression_head,
)

__all__ = ["BaselineClassifier", "BaselineEstimator", "BaselineRegressor"]

_LEARNING_RATE = 0.3
_SUM = tf.losses.Reduction.SUM


def _logits(features: Any, units: int, weight_column: Any) -> Any:
    key = getattr(weight_column, "key", weight_column)
    sizes = [tf.shape(feature)[0] for name, feature in features.items() if name != key]
    with (
        tf.control_dependencies([tf.assert_equal(sizes[0], each) for each in sizes[1:]]),
        tf.variable_scope("baseline"),
    ):
        bias = tf.get_variable("bias", shape=[units], initializer=tf.zeros_initializer())
        return tf.multiply(bias, tf.ones([sizes[0], units]))


class BaselineEstimator(Estimator):
    """A bias with a head of the program's own.

    Args:
      head: What the logits mean.
      model_dir: The folder of checkpoints.
      optimizer: A name, an optimizer or a function that makes one.
      config: A RunConfig.
    """

    def __init__(
        self, head: Any, model_dir: str | None = None, optimizer: Any = "Ftrl", config: Any = None
    ) -> None:
        weight_column = getattr(head, "_weight_column", None)

        def _model_fn(features: Any, labels: Any, mode: str) -> Any:
            def train_op_fn(loss: Any) -> Any:
                chosen = get_optimizer_instance(optimizer, learning_rate=_LEARNING_RATE)
                return chosen.minimize(loss, global_step=tf.train.get_global_step())

            return head.create_estimator_spec(
                features=features,
                mode=mode,
                logits=_logits(features, head.logits_dimension, weight_column),
                labels=labels,
                train_op_fn=train_op_fn,
            )

        super().__init__(model_fn=_model_fn, model_dir=model_dir, config=config)


class BaselineClassifier(BaselineEstimator):
    """Learns how often each class occurs."""

    def __init__(
        self,
        model_dir: str | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        loss_reduction: str = _SUM,
    ) -> None:
        head = _binary_logistic_or_multi_class_head(
            n_classes, weight_column, label_vocabulary, loss_reduction
        )
        super().__init__(head, model_dir, optimizer, config)


class BaselineRegressor(BaselineEstimator):
    """Learns the mean of labels."""

    def __init__(
        self,
        model_dir: str | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        loss_reduction: str = _SUM,
    ) -> None:
        head = _regression_head(weight_column, label_dimension, loss_reduction)
        super().__init__(head, model_dir, optimizer, config)
