"""`tf.contrib.learn.Estimator`: fit, evaluate and predict, on top of tf.estimator's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import millrace as tf
from millrace.contrib.learn.model_fn import ModeKeys, ModelFnOps, metric_ops
from millrace.platform.function_arguments import accepted


class Estimator:
    """A model function of `tf.contrib.learn` with its training, evaluation and prediction.

    The model function takes ``features`` and ``labels``, and, if it names them, ``mode``,
    ``params``, ``config`` and ``model_dir``. It returns ModelFnOps, or a tuple of predictions, loss
    and training operation.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any] | None = None,
        model_dir: Any = None,
        config: Any = None,
        params: Any = None,
        feature_engineering_fn: Callable[..., Any] | None = None,
    ) -> None:
        """Makes an estimator.

        Args:
          model_fn: The model function.
          model_dir: Where checkpoints and summaries go.
          config: A RunConfig.
          params: Handed to the model function.
          feature_engineering_fn: Makes features and labels of those that the input gives.
        """
        if model_fn is None:
            raise ValueError("model_fn must be provided to Estimator.")
        self._model_fn = model_fn
        self._params = params
        self._feature_engineering_fn = feature_engineering_fn
        self._core = tf.estimator.Estimator(self._spec_function(None), model_dir, config)

    def _spec_function(self, metrics: Mapping[Any, Any] | None) -> Callable[..., Any]:
        """The model function as tf.estimator calls it, with further metrics."""

        def call(features: Any, labels: Any, mode: str, config: Any) -> Any:
            if self._feature_engineering_fn is not None:
                features, labels = self._feature_engineering_fn(features, labels)
            offered = accepted(
                self._model_fn,
                mode=mode,
                params=self._params,
                config=config,
                model_dir=config.model_dir,
            )
            ops = self._model_fn(features, labels, **offered)
            if isinstance(ops, tuple) and not hasattr(ops, "_fields"):
                if len(ops) != 3:
                    raise ValueError(
                        "Unrecognized value returned by model_fn, please return ModelFnOps."
                    )
                ops = ModelFnOps(mode, *ops)
            spec = ops.estimator_spec() if isinstance(ops, ModelFnOps) else ops
            if mode != ModeKeys.EVAL or not metrics:
                return spec
            added = metric_ops(metrics, features, labels, spec.predictions)
            return spec._replace(eval_metric_ops={**spec.eval_metric_ops, **added})

        return call

    @property
    def model_dir(self) -> Any:
        """The folder of checkpoints and summaries."""
        return self._core.model_dir

    @property
    def config(self) -> Any:
        """A copy of the RunConfig."""
        return self._core.config

    @property
    def params(self) -> Any:
        """The parameters."""
        return self._params

    def get_variable_names(self) -> list[str]:
        """The names of the variables in the newest checkpoint."""
        return self._core.get_variable_names()

    def get_variable_value(self, name: str) -> Any:
        """The value of a variable in the newest checkpoint."""
        return self._core.get_variable_value(name)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[..., Any] | None = None,
        steps: int | None = None,
        batch_size: int | None = None,
        monitors: Sequence[Any] | None = None,
        max_steps: int | None = None,
    ) -> Estimator:
        """Trains, with arrays or an input function; see `tf.estimator.Estimator.train`."""
        give = _input(x, y, input_fn, batch_size, training=True)
        self._core.train(give, hooks=monitors, steps=steps, max_steps=max_steps)
        return self

    def partial_fit(self, *args: Any, **kwargs: Any) -> Estimator:
        """Trains some more."""
        return self.fit(*args, **kwargs)

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[Any] | None = None,
    ) -> Estimator:
        """Trains; see `tf.estimator.Estimator.train`."""
        self._core.train(input_fn, hooks, steps, max_steps, saving_listeners)
        return self

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[..., Any] | None = None,
        feed_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        steps: int | None = None,
        metrics: Mapping[Any, Any] | None = None,
        name: str | None = None,
        checkpoint_path: str | None = None,
        hooks: Sequence[Any] | None = None,
        log_progress: bool = True,
    ) -> dict[str, Any]:
        """Evaluates, with arrays or an input function.

        Args:
          x: An array of features, or a dict of them.
          y: An array of labels.
          input_fn: Gives both instead.
          feed_fn: Gives a feed for each batch.
          batch_size: Of the arrays; all at once when None.
          steps: How many batches; None for all.
          metrics: MetricSpecs, or functions of predictions and labels, by name.
          name: Tells several evaluations apart.
          checkpoint_path: The checkpoint; the newest when None.
          hooks: Are called around each batch.
          log_progress: Whether to log each batch.

        Returns:
          The metrics by name.
        """
        core = tf.estimator.Estimator(self._spec_function(metrics), config=self._core.config)
        all_hooks = [*(hooks or ()), *([tf.train.FeedFnHook(feed_fn)] if feed_fn else ())]
        give = _input(x, y, input_fn, batch_size, training=False)
        return core.evaluate(give, steps, all_hooks, checkpoint_path, name)

    def predict(
        self,
        x: Any = None,
        input_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        outputs: Any = None,
        as_iterable: bool = True,
        iterate_batches: bool = False,
    ) -> Any:
        """Predicts, with an array or an input function.

        Args:
          x: An array of features, or a dict of them.
          input_fn: Gives features instead.
          batch_size: Of the arrays.
          outputs: Which of the predictions.
          as_iterable: Whether they come one after the other, or as one array.
          iterate_batches: Whether whole batches come.

        Returns:
          An iterator, or an array or a dict of arrays.
        """
        give = _input(x, None, input_fn, batch_size, training=False)
        found: Iterator[Any] = self._core.predict(
            give, predict_keys=outputs, yield_single_examples=as_iterable and not iterate_batches
        )
        if as_iterable:
            return found
        batches = list(found)
        if isinstance(batches[0], dict):
            return {key: np.concatenate([b[key] for b in batches]) for key in batches[0]}
        return np.concatenate(batches)

    def export_savedmodel(self, *args: Any, **kwargs: Any) -> bytes:
        """Writes a SavedModel; see `tf.estimator.Estimator.export_savedmodel`."""
        return self._core.export_savedmodel(*args, **kwargs)


class SKCompat:
    """An Estimator with scikit-learn's methods, which take arrays."""

    def __init__(self, estimator: Any) -> None:
        """Takes the Estimator."""
        self._estimator = estimator

    def fit(
        self, x: Any, y: Any, batch_size: int = 128, steps: int | None = None, **kwargs: Any
    ) -> SKCompat:
        """Trains."""
        self._estimator.fit(x, y, batch_size=batch_size, steps=steps, **kwargs)
        return self

    def score(self, x: Any, y: Any, batch_size: int = 128, **kwargs: Any) -> dict[str, Any]:
        """Evaluates."""
        found: dict[str, Any] = self._estimator.evaluate(x, y, batch_size=batch_size, **kwargs)
        return found

    def predict(self, x: Any, batch_size: int = 128, outputs: Any = None) -> Any:
        """Predicts, at once."""
        return self._estimator.predict(x, batch_size=batch_size, outputs=outputs, as_iterable=False)


def _input(
    x: Any, y: Any, input_fn: Any, batch_size: int | None, training: bool
) -> Callable[..., Any]:
    if input_fn is not None:
        if x is not None or y is not None:
            raise ValueError("Can not provide both input_fn and x or y.")
        made: Callable[..., Any] = input_fn
        return made
    if x is None:
        raise ValueError("Either x or input_fn must be provided.")
    x = {k: np.asarray(v) for k, v in x.items()} if isinstance(x, dict) else np.asarray(x)
    rows = len(next(iter(x.values()))) if isinstance(x, dict) else len(x)
    return tf.estimator.inputs.numpy_input_fn(
        x,
        None if y is None else np.asarray(y),
        batch_size=batch_size or rows,
        num_epochs=None if training else 1,
        shuffle=training,
        queue_capacity=max(1000, 2 * (batch_size or rows)),
    )
