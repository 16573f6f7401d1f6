"""`tf.estimator.EstimatorSpec`: what a model_fn returns, checked when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import millrace as tf
from millrace.estimator.export.export_output import checked_export_outputs
from millrace.estimator.mode_keys import ModeKeys
from millrace.platform.function_arguments import accepted, fn_args

LOSS_METRIC_KEY = "loss"
AVERAGE_LOSS_METRIC_KEY = "average_loss"

_MODEL_FN_ARGS = frozenset(("features", "labels", "mode", "params", "self", "config"))


class _EstimatorSpec(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: dict[str, Any]
    export_outputs: Any
    training_chief_hooks: tuple[Any, ...]
    training_hooks: tuple[Any, ...]
    scaffold: Any
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]


class EstimatorSpec(_EstimatorSpec):
    """A model as an Estimator runs it: which of these are needed depends on the mode.

    Args:
      mode: One of ModeKeys.
      predictions: A tensor or a dict of tensors; needed to predict.
      loss: A scalar; needed to train and to evaluate.
      train_op: The operation of a training step; needed to train.
      eval_metric_ops: Pairs (value, update) of metrics, or Keras metrics, by name.
      export_outputs: ExportOutputs by the names of signatures; the predictions when None.
      training_chief_hooks: Hooks for the chief's training.
      training_hooks: Hooks for every worker's training.
      scaffold: A `tf.train.Scaffold`.
      evaluation_hooks: Hooks for evaluation.
      prediction_hooks: Hooks for prediction.

    Raises:
      ValueError: Something is missing for the mode, has a wrong shape or is of another graph.
      TypeError: Something has a wrong type.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Mapping[str, Any] | None = None,
        export_outputs: Any = None,
        training_chief_hooks: Sequence[Any] | None = None,
        training_hooks: Sequence[Any] | None = None,
        scaffold: Any = None,
        evaluation_hooks: Sequence[Any] | None = None,
        prediction_hooks: Sequence[Any] | None = None,
    ) -> EstimatorSpec:
        train_op = _checked_train_op(train_op, mode)
        loss = _checked_loss(loss, mode)
        predictions = _checked_predictions(predictions, mode)
        if mode == ModeKeys.PREDICT:
            export_outputs = checked_export_outputs(export_outputs, predictions)
        scaffold = scaffold or tf.train.Scaffold()
        if not isinstance(scaffold, tf.train.Scaffold):
            raise TypeError(f"scaffold must be tf.train.Scaffold. Given: {scaffold}")
        return super().__new__(
            cls,
            mode=mode,
            predictions=predictions,
            loss=loss,
            train_op=train_op,
            eval_metric_ops=_checked_metrics(eval_metric_ops),
            export_outputs=export_outputs,
            training_chief_hooks=_checked_hooks(training_chief_hooks),
            training_hooks=_checked_hooks(training_hooks),
            scaffold=scaffold,
            evaluation_hooks=_checked_hooks(evaluation_hooks),
            prediction_hooks=_checked_hooks(prediction_hooks),
        )

    def _replace(self, **kwds: Any) -> EstimatorSpec:
        """A new spec with some fields changed, which is checked as any other."""
        if kwds.get("mode", self.mode) != self.mode:
            raise ValueError("mode of EstimatorSpec cannot be changed.")
        return EstimatorSpec(**{**self._asdict(), **kwds})


def _checked_train_op(train_op: Any, mode: str) -> Any:
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise ValueError(
                "Missing train_op. With mode TRAIN a model_fn gives EstimatorSpec the operation of "
                "a training step, as optimizer.minimize(loss, "
                "global_step=tf.train.get_global_step()) returns it."
            )
        return None
    if not (isinstance(train_op, tf.Operation) or tf.is_tensor(train_op)):
        raise TypeError(f"train_op must be Operation or Tensor, given: {train_op}")
    if isinstance(train_op, tf.Variable):
        train_op = train_op.op
    _check_graph(train_op, "train_op", train_op.name)
    return train_op


def _checked_loss(loss: Any, mode: str) -> Any:
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError(
                "Missing loss. With modes TRAIN and EVAL a model_fn gives EstimatorSpec the loss."
            )
        return None
    _check_is_tensor(loss, "loss")
    shape = loss.get_shape()
    if shape.num_elements() not in (None, 1):
        raise ValueError(
            f"Loss must be scalar, given: {loss}. Reduce it, for example with tf.reduce_mean."
        )
    if not shape.is_compatible_with(tf.TensorShape([])):
        loss = tf.reshape(loss, [])
    _check_graph(loss, "loss", loss.name)
    return loss


def _checked_predictions(predictions: Any, mode: str) -> Any:
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise ValueError(
                "Missing predictions. With mode PREDICT a model_fn gives EstimatorSpec a tensor or "
                "a dict of tensors."
            )
        return {}
    if not isinstance(predictions, dict):
        _check_is_tensor(predictions, "predictions")
        _check_graph(predictions, "prediction values", predictions.name)
        return predictions
    for key, value in predictions.items():
        _check_is_tensor(value, f"predictions[{key}]")
        _check_graph(value, "prediction values", f"{key}: {value.name}")
    return dict(predictions)


def _checked_hooks(hooks: Sequence[Any] | None) -> tuple[Any, ...]:
    hooks = tuple(hooks or ())
    for hook in hooks:
        if not isinstance(hook, tf.train.SessionRunHook):
            raise TypeError(f"All hooks must be SessionRunHook instances, given: {hook}")
    return hooks


def _checked_metrics(metrics: Any) -> dict[str, Any]:
    """Metrics as pairs (value, update); variables of Keras metrics become local variables."""
    if metrics is None:
        return {}
    if not isinstance(metrics, dict):
        raise TypeError(f"eval_metric_ops must be a dict, given: {metrics}")
    for key, metric in metrics.items():
        if hasattr(metric, "update_state"):
            if not metric.updates:
                raise ValueError(f'Please call update_state(...) on the "{metric.name}" metric')
            for collection in (tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES):
                known = {id(each) for each in tf.get_collection(collection)}
                for variable in metric.variables:
                    if id(variable) not in known:
                        tf.add_to_collection(collection, variable)
            metric = metrics[key] = (metric.result(), metric.updates[0])
        elif not isinstance(metric, tuple) or len(metric) != 2:
            raise TypeError(
                "Values of eval_metric_ops must be (metric_value, update_op) tuples, given: "
                f"{metric} for key: {key}"
            )
        for each in tf.nest.flatten(metric):
            _check_graph(each, "eval_metric_ops", f"{key}: {each.name}")
    return metrics


def _check_is_tensor(value: Any, what: str) -> None:
    if not tf.is_tensor(value):
        raise TypeError(f"{what} must be Tensor, given: {value}")


def _check_graph(value: Any, what: str, name: str) -> None:
    if value.graph is not tf.get_default_graph():
        raise ValueError(
            f'{what} with "{name}" must be from the default graph. Possible causes of this error '
            f"include: \n\n1) {what} was created outside the context of the default graph.\n\n2) "
            "The object passed through to EstimatorSpec was not created in the most recent call to "
            '"model_fn".'
        )


def verify_model_fn_args(model_fn: Callable[..., Any], params: Any) -> None:
    """Checks what a model_fn takes.

    Raises:
      ValueError: It takes no features, not the params that are given, or something else.
    """
    args = set(fn_args(model_fn))
    if "features" not in args:
        raise ValueError(f"model_fn ({model_fn}) must include features argument.")
    if params is not None and "params" not in args:
        raise ValueError(
            f"model_fn ({model_fn}) does not include params argument, but params ({params}) is "
            "passed to Estimator."
        )
    if params is None and "params" in args:
        tf.logging.warning(
            "Estimator's model_fn (%s) includes params argument, but params are not passed to "
            "Estimator.",
            model_fn,
        )
    unknown = sorted(args - _MODEL_FN_ARGS)
    if unknown:
        raise ValueError(
            f"model_fn ({model_fn}) has following not expected args: {unknown}. It may take "
            "features, labels, mode, params and config."
        )


def call_logit_fn(
    logit_fn: Callable[..., Any], features: Any, mode: str, params: Any, config: Any
) -> Any:
    """Calls a function that makes logits of features, with what else it takes.

    Raises:
      ValueError: It returns no tensor, nor a dict of tensors by strings.
    """
    logits = logit_fn(
        features=features, **accepted(logit_fn, mode=mode, params=params, config=config)
    )
    if isinstance(logits, dict):
        good = all(isinstance(k, str) and isinstance(v, tf.Tensor) for k, v in logits.items())
    else:
        good = isinstance(logits, tf.Tensor)
    if not good:
        raise ValueError(
            "logit_fn should return a Tensor or a dictionary mapping strings to Tensors.  logit_fn "
            f"returned: {logits}"
        )
    return logits
