"""`TPUEstimatorSpec`: what a model function for TPUs returns, and what it is on CPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import millrace as tf
from millrace.estimator.estimator_spec import EstimatorSpec
from millrace.platform.function_arguments import fn_args


class _HostCallHook(tf.train.SessionRunHook):
    """Runs what a TPU program hands to its host at each step, as summaries."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._tensors = list(tensors)

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self._tensors)


class _TPUEstimatorSpec(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metrics: Any
    export_outputs: Any
    scaffold_fn: Any
    host_call: Any
    training_hooks: Any
    evaluation_hooks: Any
    prediction_hooks: Any


class TPUEstimatorSpec(_TPUEstimatorSpec):
    """Like EstimatorSpec, with functions where a TPU needs its host.

    Args:
      mode: One of ModeKeys.
      predictions: Tensors by name.
      loss: A scalar.
      train_op: The operation of a training step.
      eval_metrics: A function that gives metrics by name, and the tensors that it takes: a list,
        or a dict by its arguments' names.
      export_outputs: ExportOutputs by name.
      scaffold_fn: A function that returns a Scaffold.
      host_call: A function and its tensors; what it returns is run at each step.
      training_hooks: Hooks for training.
      evaluation_hooks: Hooks for evaluation.
      prediction_hooks: Hooks for prediction.

    Raises:
      ValueError: `eval_metrics` or `host_call` are no such pair.
      TypeError: They have a wrong type.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metrics: Any = None,
        export_outputs: Any = None,
        scaffold_fn: Callable[[], Any] | None = None,
        host_call: Any = None,
        training_hooks: Sequence[Any] | None = None,
        evaluation_hooks: Sequence[Any] | None = None,
        prediction_hooks: Sequence[Any] | None = None,
    ) -> TPUEstimatorSpec:
        for name, pair in (("eval_metrics", eval_metrics), ("host_call", host_call)):
            _check_pair(name, pair)
        return super().__new__(
            cls,
            mode,
            predictions,
            loss,
            train_op,
            eval_metrics,
            export_outputs,
            scaffold_fn,
            host_call,
            tuple(training_hooks or ()),
            tuple(evaluation_hooks or ()),
            tuple(prediction_hooks or ()),
        )

    def as_estimator_spec(self) -> EstimatorSpec:
        """The same as an EstimatorSpec, for CPUs."""
        metrics: Any = None
        if self.eval_metrics is not None:
            metrics = _called(self.eval_metrics)
        host_hooks: tuple[Any, ...] = ()
        if self.host_call is not None:
            returned = _called(self.host_call)
            host_hooks = (_HostCallHook(tf.nest.flatten(returned)),)
        return EstimatorSpec(
            self.mode,
            predictions=self.predictions,
            loss=self.loss,
            train_op=self.train_op,
            eval_metric_ops=metrics,
            export_outputs=self.export_outputs,
            scaffold=self.scaffold_fn() if self.scaffold_fn else None,
            training_hooks=[*self.training_hooks, *host_hooks],
            evaluation_hooks=[*self.evaluation_hooks, *host_hooks],
            prediction_hooks=[*self.prediction_hooks, *host_hooks],
        )


def _called(pair: Any) -> Any:
    function, tensors = pair
    return function(**tensors) if isinstance(tensors, Mapping) else function(*tensors)


def _check_pair(name: str, pair: Any) -> None:
    if pair is None:
        return
    if not isinstance(pair, tuple | list):
        raise ValueError(f"{name} should be tuple or list")
    if len(pair) != 2:
        raise ValueError(f"{name} should have two elements.")
    function, tensors = pair
    if not callable(function):
        raise TypeError(f"{name}[0] should be callable.")
    if not isinstance(tensors, tuple | list | dict):
        raise ValueError(f"{name}[1] should be tuple or list, or dict.")
    if isinstance(tensors, tuple | list):
        names = fn_args(function)
        takes_any = function.__code__.co_flags & 0x04 if hasattr(function, "__code__") else True
        if not takes_any and len(tensors) != len(names):
            raise RuntimeError(
                f"In TPUEstimatorSpec.{name}, length of tensors {len(tensors)} does not match "
                f"method args of function, which takes {len(names)}."
            )
