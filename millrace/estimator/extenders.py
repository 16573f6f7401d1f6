"""Estimators and optimizers with something added: metrics, features, clipped gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import millrace as tf
from millrace.estimator.estimator import Estimator
from millrace.estimator.mode_keys import ModeKeys
from millrace.estimator.wrapped_optimizer import ClippingOptimizer
from millrace.platform.function_arguments import accepted, fn_args


def add_metrics(estimator: Any, metric_fn: Callable[..., dict[str, Any]]) -> Estimator:
    """An Estimator of the same model that evaluates further metrics.

    Args:
      estimator: The Estimator.
      metric_fn: Returns metrics by name; may take ``features``, ``labels``, ``predictions`` and
        ``config``.

    Raises:
      ValueError: `metric_fn` takes something else.
    """
    unknown = sorted(set(fn_args(metric_fn)) - {"features", "labels", "predictions", "config"})
    if unknown:
        raise ValueError(f"metric_fn ({metric_fn}) has following not expected args: {unknown}")

    def new_model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        spec = estimator.model_fn(features, labels, mode, config)
        if mode != ModeKeys.EVAL:
            return spec
        offered = accepted(
            metric_fn, features=features, labels=labels, predictions=spec.predictions, config=config
        )
        return spec._replace(eval_metric_ops={**spec.eval_metric_ops, **metric_fn(**offered)})

    return Estimator(
        new_model_fn,
        model_dir=estimator.model_dir,
        config=estimator.config,
        warm_start_from=estimator._warm_start_settings,
    )


def forward_features(estimator: Any, keys: Any = None, sparse_default_values: Any = None) -> Any:
    """An Estimator of the same model whose predictions have features of the input among them.

    Args:
      estimator: The Estimator.
      keys: A name or names of features; all of them when None.
      sparse_default_values: What fills gaps of sparse features, by name; "" and 0 by default.

    Raises:
      ValueError: Keys are no names, or a prediction has the name of a feature.
      KeyError: There is no such feature.
    """
    names = [keys] if isinstance(keys, str) else keys
    if names is not None and not all(isinstance(name, str) for name in names):
        raise ValueError(f"keys should be either a string or a list of strings. Given: {keys}")
    fill = sparse_default_values or {}

    def new_model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        spec = estimator.model_fn(features, labels, mode, config)
        predictions = spec.predictions
        if not predictions:
            return spec
        if not isinstance(predictions, dict):
            raise ValueError("Predictions should be a dict to be able to forward features.")
        for name in features if names is None else names:
            if name not in features:
                raise KeyError(f"keys should be exist in features. Key {name} is not in features.")
            if name in predictions:
                raise ValueError(
                    f"Cannot forward feature key ({name}). Since it does exist in predictions."
                )
            value = features[name]
            if isinstance(value, tf.SparseTensor):
                empty = "" if value.dtype == tf.string else 0
                value = tf.sparse_tensor_to_dense(value, fill.get(name, empty))
            predictions[name] = value
        outputs = dict(spec.export_outputs or {})
        for key, output in outputs.items():
            if isinstance(output, tf.estimator.export.PredictOutput):
                added = {
                    name: predictions[name] for name in predictions if name not in output.outputs
                }
                outputs[key] = tf.estimator.export.PredictOutput({**output.outputs, **added})
        return spec._replace(predictions=predictions, export_outputs=outputs or spec.export_outputs)

    return Estimator(
        new_model_fn,
        model_dir=estimator.model_dir,
        config=estimator.config,
        warm_start_from=estimator._warm_start_settings,
    )


def clip_gradients_by_norm(optimizer: Any, clip_norm: float) -> Any:
    """An optimizer that clips all gradients by their common norm before it applies them."""

    return ClippingOptimizer(optimizer, clip_norm)
