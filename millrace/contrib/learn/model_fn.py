"""What model functions of `tf.contrib.learn` return, and the metrics that evaluations add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import millrace as tf
from millrace.platform.function_arguments import fn_args


class ModeKeys:
    """Training, evaluation or inference."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"

    @classmethod
    def validate(cls, key: str) -> None:
        """Checks a mode.

        Raises:
          ValueError: It is none.
        """
        if key not in (cls.TRAIN, cls.EVAL, cls.INFER):
            raise ValueError(f"Invalid mode {key}.")


class ModelFnOps(NamedTuple):
    """A model: the older form of `tf.estimator.EstimatorSpec`."""

    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metric_ops: Any = None
    output_alternatives: Any = None
    training_chief_hooks: Any = None
    training_hooks: Any = None
    scaffold: Any = None

    def estimator_spec(self) -> Any:
        """The same as an EstimatorSpec."""
        return tf.estimator.EstimatorSpec(
            self.mode,
            predictions=self.predictions,
            loss=self.loss,
            train_op=self.train_op,
            eval_metric_ops=self.eval_metric_ops,
            training_chief_hooks=self.training_chief_hooks,
            training_hooks=self.training_hooks,
            scaffold=self.scaffold,
        )


class MetricSpec:
    """A metric, and which of the predictions, labels and features it takes."""

    def __init__(
        self,
        metric_fn: Callable[..., Any],
        prediction_key: str | None = None,
        label_key: str | None = None,
        weight_key: str | None = None,
    ) -> None:
        """Takes a function of predictions, labels and weights, and the keys of dicts of them."""
        self.metric_fn = metric_fn
        self.prediction_key = prediction_key
        self.label_key = label_key
        self.weight_key = weight_key

    def create_metric_ops(self, inputs: Any, labels: Any, predictions: Any) -> Any:
        """The value and the update of the metric.

        Raises:
          ValueError: There are several values, and no key says which.
        """
        given = {
            "predictions": _chosen("predictions", predictions, self.prediction_key),
            "labels": _chosen("labels", labels, self.label_key),
        }
        if self.weight_key is not None:
            given["weights"] = inputs[self.weight_key]
        names = set(fn_args(self.metric_fn))
        for old, new in (("labels", "targets"), ("labels", "label"), ("predictions", "prediction")):
            if old not in names and new in names:
                given[new] = given.pop(old)
        return self.metric_fn(**given)


def _chosen(what: str, values: Any, key: str | None) -> Any:
    if not isinstance(values, dict):
        return values
    if key is not None:
        return values[key]
    if len(values) == 1:
        return next(iter(values.values()))
    raise ValueError(
        f"MetricSpec without specified {what[:-1]}_key requires {what} tensor or single element "
        f"dictionary, got {sorted(values)}"
    )


def metric_ops(metrics: Mapping[Any, Any], features: Any, labels: Any, predictions: Any) -> Any:
    """Values and updates of metrics by name, as `evaluate` of an Estimator takes them."""
    made = {}
    for name, metric in metrics.items():
        if isinstance(metric, MetricSpec):
            made[name] = metric.create_metric_ops(features, labels, predictions)
        elif isinstance(name, tuple):
            made[name[0]] = metric(predictions[name[1]], labels)
        else:
            made[name] = metric(predictions, labels)
    return made
