"""`TPUEstimator`: an Estimator for programs written for TPUs. Here they run on CPUs.

A model function may return a TPUEstimatorSpec, and functions find the batch size of their mode in
``params["batch_size"]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import millrace as tf
from millrace.estimator.estimator import Estimator
from millrace.estimator.mode_keys import ModeKeys
from millrace.estimator.tpu.tpu_config import RunConfig
from millrace.estimator.tpu.tpu_estimator_spec import TPUEstimatorSpec
from millrace.platform.function_arguments import accepted, fn_args

_RESERVED = ("batch_size", "context")


class _ExamplesPerSecondHook(tf.train.StepCounterHook):
    """Logs how many examples a second are trained."""

    def __init__(self, batch_size: int, every_n_steps: int, output_dir: str) -> None:
        super().__init__(every_n_steps=every_n_steps, output_dir=output_dir)
        self._batch_size = batch_size

    def _log_and_record(self, elapsed_steps: int, elapsed_time: float, global_step: int) -> None:
        examples = self._batch_size * elapsed_steps / elapsed_time
        if self._summary_writer is not None:
            summary = tf.Summary()
            summary.value.add(tag="examples/sec", simple_value=examples)
            self._summary_writer.add_summary(summary, global_step)
        tf.logging.info("examples/sec: %g", examples)


class TPUEstimator(Estimator):
    """An Estimator that takes what TPU programs give it."""

    def __init__(
        self,
        model_fn: Any = None,
        model_dir: Any = None,
        config: Any = None,
        params: Any = None,
        use_tpu: bool = True,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
        batch_axis: Any = None,
        eval_on_tpu: bool = True,
        export_to_tpu: bool = True,
        export_to_cpu: bool = True,
        warm_start_from: Any = None,
        embedding_config_spec: Any = None,
        export_saved_model_api_version: Any = None,
        **_: Any,
    ) -> None:
        """Makes an estimator.

        Args:
          model_fn: Returns a TPUEstimatorSpec or an EstimatorSpec.
          model_dir: As of Estimator.
          config: A RunConfig of `tf.contrib.tpu`.
          params: As of Estimator; ``batch_size`` and ``context`` are reserved.
          use_tpu: Whether to use TPUs. There are none here: the log says so.
          train_batch_size: What training finds in ``params["batch_size"]``.
          eval_batch_size: The same for evaluation.
          predict_batch_size: The same for prediction.
          batch_axis: Not used on CPUs.
          eval_on_tpu: Not used on CPUs.
          export_to_tpu: Not used on CPUs.
          export_to_cpu: Not used on CPUs.
          warm_start_from: As of Estimator.
          embedding_config_spec: Tables on TPUs; refused.
          export_saved_model_api_version: Not used on CPUs.

        Raises:
          ValueError: `config` is no RunConfig of TPUs, or `params` has a reserved key.
        """
        if config is None or not isinstance(config, RunConfig):
            raise ValueError(
                "`config` must be provided with type `tpu_config.RunConfig`. Use "
                "tf.contrib.tpu.RunConfig (tf.estimator.tpu.RunConfig)."
            )
        if params is not None and any(key in params for key in _RESERVED):
            raise ValueError(f"{list(_RESERVED)} are reserved keys but existed in params {params}.")
        if embedding_config_spec is not None:
            raise tf.errors.UnimplementedError(
                None, None, "embedding_config_spec: tables on TPUs are not there; use variables"
            )
        if use_tpu:
            for word, size in (
                ("train_batch_size", train_batch_size),
                ("eval_batch_size", eval_batch_size),
                ("predict_batch_size", predict_batch_size),
            ):
                if size is not None and size <= 0:
                    raise ValueError(f"{word} must be positive, given {size}")
            tf.logging.warning("TPUEstimator runs on CPUs: there are no TPUs here.")
        #: By mode; read while the constructor of Estimator checks the functions.
        self._batch_sizes = {
            ModeKeys.TRAIN: train_batch_size,
            ModeKeys.EVAL: eval_batch_size,
            ModeKeys.PREDICT: predict_batch_size,
        }
        self._tpu_model_fn = model_fn
        super().__init__(
            self._on_cpus(model_fn) if model_fn is not None else None,  # type: ignore[arg-type]
            model_dir,
            config,
            params or {},
            warm_start_from,
        )

    def _on_cpus(self, model_fn: Callable[..., Any]) -> Callable[..., Any]:
        """The model function as Estimator calls it."""
        takes_labels = "labels" in fn_args(model_fn)

        def call(features: Any, labels: Any, mode: str, config: Any, params: Any) -> Any:
            if labels is not None and not takes_labels:
                raise ValueError("model_fn does not take labels, but input_fn returns labels.")
            tf.logging.info("Running %s on CPU", mode)
            params = self._with_batch_size(params, mode, use_tpu=False)
            offered = accepted(model_fn, labels=labels, mode=mode, config=config, params=params)
            spec = model_fn(features=features, **offered)
            if isinstance(spec, TPUEstimatorSpec):
                spec = spec.as_estimator_spec()
            size, every = self._batch_sizes[mode], self._config.log_step_count_steps
            if mode == ModeKeys.TRAIN and size and every:
                hook = _ExamplesPerSecondHook(size, every, self.model_dir)
                spec = spec._replace(training_hooks=(*spec.training_hooks, hook))
            return spec

        return call

    def _with_batch_size(self, params: Any, mode: str, **more: Any) -> Any:
        """The parameters, a dict or HParams, with the batch size of a mode."""
        size = self._batch_sizes[mode]
        if size is not None:
            more["batch_size"] = size
        for key, value in more.items():
            if hasattr(params, "set_hparam"):
                (params.set_hparam if key in params else params.add_hparam)(key, value)
            else:
                params[key] = value
        return params

    def _call_input_fn(self, input_fn: Any, mode: str, input_context: Any = None) -> Any:
        params = self._with_batch_size(self.params, mode)
        offered = accepted(input_fn, mode=mode, config=self.config, params=params)
        with tf.device("/cpu:0"):
            return input_fn(**offered)
