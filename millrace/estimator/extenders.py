"""`add_metrics`: an Estimator with more metrics than its model function has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.estimator.estimator import Estimator
from millrace.estimator.mode_keys import ModeKeys
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
