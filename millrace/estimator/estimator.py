"""`tf.estimator.Estimator`: a model function with its training, evaluation, prediction and export.

Each call builds a graph of its own from the input function and the model function, and runs it in
a monitored session. What lasts between calls is in `model_dir`: checkpoints and event files.

Methods whose names begin with an underscore have TensorFlow's names, since libraries override them.
"""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import millrace as tf
from millrace.contrib.training.evaluation import (
    StopAfterNEvalsHook,
    evaluate_once,
    get_or_create_eval_step,
)
from millrace.estimator import evaluation_results, saved_model_export
from millrace.estimator.cluster_place import TaskType
from millrace.estimator.estimator_spec import EstimatorSpec, verify_model_fn_args
from millrace.estimator.given_hooks import check_hooks, check_listeners
from millrace.estimator.input_fn import features_labels_and_hooks, may_end
from millrace.estimator.mode_keys import ModeKeys
from millrace.estimator.model_folder import check_trained, global_step_of, warm_start_settings
from millrace.estimator.run_config import (
    RunConfig,
    device_function_of,
    maybe_overwrite_model_dir_and_session_config,
)
from millrace.platform.function_arguments import accepted, fn_args
from millrace.training.global_step import get_or_create_global_step_read

#: Members that a subclass may override.
_OVERRIDABLE = frozenset(
    "model_fn _create_and_assert_global_step _export_all_saved_models latest_checkpoint".split()
)


class Estimator:
    """A model that can be trained, evaluated, asked and exported.

    On a cluster, as TF_CONFIG describes it, variables are on the ps and each worker builds the
    same graph; see `train_and_evaluate`.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: RunConfig | None = None,
        params: Any = None,
        warm_start_from: Any = None,
    ) -> None:
        """Makes an estimator.

        Args:
          model_fn: A function that returns an EstimatorSpec. It takes ``features``, and, if it
            names them, ``labels``, ``mode``, ``params`` and ``config``.
          model_dir: Where checkpoints and summaries go; a temporary folder when neither this nor
            `config` has one.
          config: How it runs.
          params: Handed to the functions; a copy is kept.
          warm_start_from: A checkpoint, a SavedModel, or WarmStartSettings, that a model without a
            checkpoint begins with.

        Raises:
          ValueError: An argument is missing or none that it may be, or a subclass overrides what
            it must not.
        """
        self.__class__._assert_members_are_not_overridden(self)
        self._config = maybe_overwrite_model_dir_and_session_config(config, model_dir)
        self._train_distribution = self._config.train_distribute
        self._eval_distribution = self._config.eval_distribute
        self._model_dir = self._config.model_dir
        self._session_config = self._config.session_config
        tf.logging.info("Using config: %s", vars(self._config))
        self._device_fn = self._config.device_fn or device_function_of(self._config)
        if model_fn is None:
            raise ValueError("model_fn must be provided to Estimator.")
        verify_model_fn_args(model_fn, params)
        self._model_fn = model_fn
        self._params = copy.deepcopy(params or {})
        self._warm_start_settings = warm_start_settings(warm_start_from)

    @property
    def model_dir(self) -> Any:
        """The folder of checkpoints and summaries."""
        return self._model_dir

    @property
    def config(self) -> Any:
        """A copy of the RunConfig."""
        return copy.deepcopy(self._config)

    @property
    def params(self) -> Any:
        """A copy of the parameters."""
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Callable[..., Any]:
        """The model function, with the parameters bound."""

        def public_model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            return self._call_model_fn(features, labels, mode, config)

        return public_model_fn

    # -- Checkpoints -------------------------------------------------------------------------

    def get_variable_value(self, name: str) -> Any:
        """The value of a variable in the newest checkpoint, as an array.

        Raises:
          ValueError: The model was not trained.
        """
        check_trained(self.model_dir)
        return tf.train.load_variable(self.model_dir, name)

    def get_variable_names(self) -> list[str]:
        """The names of the variables in the newest checkpoint.

        Raises:
          ValueError: The model was not trained.
        """
        check_trained(self.model_dir)
        return [name for name, _ in tf.train.list_variables(self.model_dir)]

    def latest_checkpoint(self) -> str | None:
        """The newest checkpoint, or None."""
        return tf.train.latest_checkpoint(self.model_dir)

    def eval_dir(self, name: str | None = None) -> str:
        """The folder of an evaluation's summaries."""
        return os.path.join(self._model_dir, f"eval_{name}" if name else "eval")

    # -- Training ----------------------------------------------------------------------------

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[Any] | None = None,
    ) -> Estimator:
        """Trains until the input ends, or a number of steps is reached.

        Args:
          input_fn: Returns a dataset of (features, labels), or their tensors. It may take
            ``mode``, ``params`` and ``config``.
          hooks: Are called around each step.
          steps: How many more steps; not with `max_steps`.
          max_steps: The global step to end at; nothing happens if it was reached before.
          saving_listeners: Are told of each checkpoint.

        Returns:
          This estimator.

        Raises:
          ValueError: Both limits are given, or one is not positive, or this task does not train.
        """
        if self._config.task_type in (TaskType.EVALUATOR, TaskType.PS):
            raise ValueError(
                "Train has been called wrong configuration. Please use "
                "tf.estimator.train_and_evaluate which calls proper API according to given "
                f"configuration. Current configuration: {vars(self._config)}."
            )
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        for word, limit in (("steps", steps), ("max_steps", max_steps)):
            if limit is not None and limit <= 0:
                raise ValueError(f"Must specify {word} > 0, given: {limit}")
        if max_steps is not None and max_steps <= global_step_of(self._model_dir):
            tf.logging.info("Skipping training since max_steps has already saved.")
            return self
        all_hooks = check_hooks(hooks)
        all_hooks.extend(self._convert_train_steps_to_hooks(steps, max_steps))
        loss = self._train_model(input_fn, all_hooks, check_listeners(saving_listeners))
        tf.logging.info("Loss for final step: %s.", loss)
        return self

    def _convert_train_steps_to_hooks(self, steps: int | None, max_steps: int | None) -> list[Any]:
        if steps is None and max_steps is None:
            return []
        return [tf.train.StopAtStepHook(steps, max_steps)]

    def _train_model(self, input_fn: Any, hooks: list[Any], saving_listeners: list[Any]) -> Any:
        return self._train_model_default(input_fn, hooks, saving_listeners)

    def _train_model_default(
        self, input_fn: Any, hooks: list[Any], saving_listeners: list[Any]
    ) -> Any:
        with (
            tf.Graph().as_default() as graph,
            graph.device(self._device_fn),
            _scope_of(self._train_distribution),
        ):
            tf.set_random_seed(self._config.tf_random_seed)
            if self._create_and_assert_global_step(graph) is not None:
                get_or_create_global_step_read(graph)
            features, labels, input_hooks = self._get_features_and_labels_from_input_fn(
                input_fn, ModeKeys.TRAIN
            )
            spec = self._call_model_fn(features, labels, ModeKeys.TRAIN, self.config)
            global_step = tf.train.get_global_step(graph)
            return self._train_with_estimator_spec(
                spec, list(input_hooks), hooks, global_step, saving_listeners
            )

    def _train_with_estimator_spec(
        self,
        estimator_spec: Any,
        worker_hooks: list[Any],
        hooks: Sequence[Any],
        global_step_tensor: Any,
        saving_listeners: Sequence[Any],
    ) -> Any:
        """Runs the training; returns the last loss."""
        config = self._config
        if self._warm_start_settings and not tf.train.latest_checkpoint(self._model_dir):
            _warm_start(self._warm_start_settings)
        if not any(x.op.name == "loss" for x in tf.get_collection(tf.GraphKeys.SUMMARIES)):
            tf.summary.scalar("loss", estimator_spec.loss)
        tf.add_to_collection(tf.GraphKeys.LOSSES, estimator_spec.loss)
        worker_hooks.extend(hooks)
        worker_hooks.append(tf.train.NanTensorHook(estimator_spec.loss))
        if config.log_step_count_steps is not None:
            worker_hooks.append(
                tf.train.LoggingTensorHook(
                    {"loss": estimator_spec.loss, "step": global_step_tensor},
                    every_n_iter=config.log_step_count_steps,
                )
            )
        worker_hooks.extend(estimator_spec.training_hooks)
        if not (estimator_spec.scaffold.saver or tf.get_collection(tf.GraphKeys.SAVERS)):
            tf.add_to_collection(
                tf.GraphKeys.SAVERS,
                tf.train.Saver(
                    sharded=True,
                    max_to_keep=config.keep_checkpoint_max,
                    keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
                    defer_build=True,
                    save_relative_paths=True,
                ),
            )
        chief_hooks = _saver_hooks(config, estimator_spec, worker_hooks, saving_listeners)
        summary_steps, log_steps = config.save_summary_steps, config.log_step_count_steps
        if config.cluster_spec and {TaskType.WORKER, TaskType.MASTER} <= set(
            config.cluster_spec.jobs
        ):
            # A master evaluates as well: the first worker writes the training's summaries.
            summary_steps, log_steps = 0, None
            if config.task_type == TaskType.WORKER and config.task_id == 0:
                worker_hooks.extend(_summary_hooks(config, estimator_spec.scaffold))
        with tf.train.MonitoredTrainingSession(
            master=config.master,
            is_chief=config.is_chief,
            checkpoint_dir=self._model_dir,
            scaffold=estimator_spec.scaffold,
            hooks=worker_hooks,
            chief_only_hooks=[*chief_hooks, *estimator_spec.training_chief_hooks],
            save_checkpoint_secs=0,  # the saver's hook is among the chief's
            save_summaries_steps=summary_steps,
            config=self._session_config,
            max_wait_secs=config.session_creation_timeout_secs,
            log_step_count_steps=log_steps,
            save_graph_def=config.checkpoint_save_graph_def,
        ) as session:
            loss, made_steps = None, False
            while not session.should_stop():
                made_steps = True
                _, loss = session.run([estimator_spec.train_op, estimator_spec.loss])
            if not made_steps:
                tf.logging.warning(
                    "Training with estimator made no steps. Perhaps input is empty or misspecified."
                )
        return loss

    # -- Evaluation --------------------------------------------------------------------------

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Evaluates the model until the input ends.

        Args:
          input_fn: As for `train`.
          steps: How many batches at most.
          hooks: Are called around each batch.
          checkpoint_path: The checkpoint; the newest when None, a freshly initialised model if
            there is none.
          name: Tells several evaluations apart: their summaries go to ``eval_<name>``.

        Returns:
          The metrics by name, with ``loss`` and ``global_step``.

        Raises:
          ValueError: `steps` is not positive, or a metric has a name that is taken.
        """
        all_hooks = check_hooks(hooks)
        all_hooks.extend(self._convert_eval_steps_to_hooks(steps))
        checkpoint_path = checkpoint_path or _newest_checkpoint(self._model_dir, "evaluate")
        with tf.Graph().as_default(), _scope_of(self._eval_distribution):
            scaffold, update_op, eval_dict, all_hooks = self._evaluate_build_graph(
                input_fn, all_hooks, checkpoint_path
            )
            return self._evaluate_run(
                checkpoint_path, scaffold, update_op, eval_dict, all_hooks, self.eval_dir(name)
            )

    def _convert_eval_steps_to_hooks(self, steps: int | None) -> list[Any]:
        if steps is None:
            return []
        if steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        return [StopAfterNEvalsHook(num_evals=steps)]

    def _evaluate_build_graph(
        self, input_fn: Any, hooks: Sequence[Any] | None = None, checkpoint_path: str | None = None
    ) -> tuple[Any, Any, dict[str, Any], list[Any]]:
        """The scaffold, an update of all metrics, their values, and the hooks."""
        graph = tf.get_default_graph()
        tf.set_random_seed(self._config.tf_random_seed)
        self._create_and_assert_global_step(graph)
        scaffold, evaluation_hooks, input_hooks, update_op, eval_dict = self._call_model_fn_eval(
            input_fn, self.config
        )
        self._maybe_warm_start(checkpoint_path)
        if tf.GraphKeys.GLOBAL_STEP in eval_dict:
            raise ValueError(
                "Metric with name `global_step` is not allowed, because Estimator already defines "
                "a default metric with the same name."
            )
        eval_dict[tf.GraphKeys.GLOBAL_STEP] = tf.train.get_global_step(graph)
        if scaffold and scaffold.local_init_op:
            get_or_create_eval_step()  # before the default initializer is made: it is local too
            scaffold = tf.train.Scaffold(
                local_init_op=tf.group(
                    scaffold.local_init_op, tf.train.Scaffold.default_local_init_op()
                ),
                copy_from_scaffold=scaffold,
            )
        return (
            scaffold,
            update_op,
            eval_dict,
            [*input_hooks, *(hooks or ()), *(evaluation_hooks or ())],
        )

    def _call_model_fn_eval(self, input_fn: Any, config: Any) -> tuple[Any, ...]:
        features, labels, input_hooks = self._get_features_and_labels_from_input_fn(
            input_fn, ModeKeys.EVAL
        )
        spec = self._call_model_fn(features, labels, ModeKeys.EVAL, config)
        metrics = evaluation_results.with_loss_metric(spec.eval_metric_ops, spec.loss)
        update_op, eval_dict = evaluation_results.updates_and_values(metrics)
        return spec.scaffold, spec.evaluation_hooks, input_hooks, update_op, eval_dict

    def _evaluate_run(
        self,
        checkpoint_path: str | None,
        scaffold: Any,
        update_op: Any,
        eval_dict: Mapping[str, Any],
        all_hooks: Sequence[Any],
        output_dir: str,
    ) -> dict[str, Any]:
        results: dict[str, Any] = evaluate_once(
            checkpoint_path=checkpoint_path,
            master=self._config.evaluation_master,
            scaffold=scaffold,
            eval_ops=update_op,
            final_ops=eval_dict,
            hooks=all_hooks,
            config=self._session_config,
        )
        step = results[tf.GraphKeys.GLOBAL_STEP]
        evaluation_results.write_results(output_dir, results, step)
        if checkpoint_path:
            evaluation_results.write_checkpoint_path(output_dir, checkpoint_path, step)
        return results

    # -- Prediction --------------------------------------------------------------------------

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Gives predictions one after the other.

        Args:
          input_fn: Returns a dataset of features, or their tensors; labels are ignored.
          predict_keys: Which of the predictions; all of them when None.
          hooks: Are called around each batch.
          checkpoint_path: The checkpoint; the newest when None, a freshly initialised model if
            there is none.
          yield_single_examples: Whether each example comes by itself, or whole batches do.

        Yields:
          Arrays, or dicts of them.

        Raises:
          ValueError: Batches of predictions have different lengths, or there are none of
            `predict_keys`.
        """
        all_hooks = check_hooks(hooks)
        checkpoint_path = checkpoint_path or _newest_checkpoint(self._model_dir, "predict")
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(self._config.tf_random_seed)
            self._create_and_assert_global_step(graph)
            features, input_hooks = self._get_features_from_input_fn(input_fn, ModeKeys.PREDICT)
            spec = self._call_model_fn(features, None, ModeKeys.PREDICT, self.config)
            self._maybe_warm_start(checkpoint_path)
            predictions = self._extract_keys(spec.predictions, predict_keys)
            creator = tf.train.ChiefSessionCreator(
                checkpoint_filename_with_path=checkpoint_path,
                master=self._config.master,
                scaffold=spec.scaffold,
                config=self._session_config,
            )
            with tf.train.MonitoredSession(
                session_creator=creator,
                hooks=[*input_hooks, *all_hooks, *(spec.prediction_hooks or ())],
            ) as session:
                while not session.should_stop():
                    batch = session.run(predictions)
                    if not yield_single_examples:
                        yield batch
                    elif not isinstance(predictions, dict):
                        yield from batch
                    else:
                        for i in range(self._extract_batch_length(batch)):
                            yield {key: value[i] for key, value in batch.items()}

    def _get_features_from_input_fn(self, input_fn: Any, mode: str) -> tuple[Any, list[Any]]:
        features, _, hooks = self._get_features_and_labels_from_input_fn(input_fn, mode)
        self._validate_features_in_predict_input(features)
        return features, hooks

    def _validate_features_in_predict_input(self, result: Any) -> None:
        if not may_end(result):
            tf.logging.warning(
                "Input graph does not use tf.data.Dataset or contain a QueueRunner. That means "
                "predict yields forever. This is probably a mistake."
            )

    def _extract_batch_length(self, preds_evaluated: Mapping[str, Any]) -> int:
        length = None
        for key, value in preds_evaluated.items():
            length = length or value.shape[0]
            if value.shape[0] != length:
                raise ValueError(
                    f"Batch length of predictions should be same. {key} has different batch length "
                    f"than others. It has {value.shape[0]} where others have {length}; with "
                    "yield_single_examples=False predict gives whole batches."
                )
        return length or 0

    def _extract_keys(self, predictions: Any, predict_keys: Any) -> Any:
        if not predict_keys:
            return predictions
        if not isinstance(predictions, dict):
            raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
        found = {key: value for key, value in predictions.items() if key in predict_keys}
        if not found:
            raise ValueError(
                f"Expected to run at least one output from {predictions.keys()}, provided "
                f"{predict_keys}."
            )
        return found

    # -- Export ------------------------------------------------------------------------------

    def export_saved_model(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Any,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
    ) -> bytes:
        """Writes the model as a SavedModel, for TensorFlow Serving and others.

        Args:
          export_dir_base: A folder; the model is in a new one below it, named by the time.
          serving_input_receiver_fn: Returns a ServingInputReceiver.
          assets_extra: Files to put beside it, by their places below ``assets.extra``.
          as_text: Whether to write the graph as text.
          checkpoint_path: The checkpoint; the newest when None.
          experimental_mode: What the model is exported for.

        Returns:
          The folder.

        Raises:
          ValueError: There is no function or no checkpoint, or the checkpoint lacks variables.
        """
        if not serving_input_receiver_fn:
            raise ValueError("An input_receiver_fn must be defined.")
        return self._export_all_saved_models(
            export_dir_base,
            {experimental_mode: serving_input_receiver_fn},
            assets_extra=assets_extra,
            as_text=as_text,
            checkpoint_path=checkpoint_path,
            strip_default_attrs=True,
        )

    def export_savedmodel(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Any,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        strip_default_attrs: bool = False,
    ) -> bytes:
        """The old name of `export_saved_model`; it keeps attributes that have their defaults."""
        if not serving_input_receiver_fn:
            raise ValueError("An input_receiver_fn must be defined.")
        return self._export_all_saved_models(
            export_dir_base,
            {ModeKeys.PREDICT: serving_input_receiver_fn},
            assets_extra=assets_extra,
            as_text=as_text,
            checkpoint_path=checkpoint_path,
            strip_default_attrs=strip_default_attrs,
        )

    def experimental_export_all_saved_models(
        self,
        export_dir_base: Any,
        input_receiver_fn_map: Mapping[str, Callable[[], Any]],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
    ) -> bytes:
        """Writes a SavedModel with a graph for each mode that `input_receiver_fn_map` has."""
        return self._export_all_saved_models(
            export_dir_base,
            input_receiver_fn_map,
            assets_extra=assets_extra,
            as_text=as_text,
            checkpoint_path=checkpoint_path,
            strip_default_attrs=True,
        )

    def _export_all_saved_models(
        self,
        export_dir_base: Any,
        input_receiver_fn_map: Mapping[str, Callable[[], Any]],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        strip_default_attrs: bool = True,
    ) -> bytes:
        checkpoint_path = checkpoint_path or self.latest_checkpoint()
        if not checkpoint_path and self._warm_start_settings:
            checkpoint_path = self._warm_start_settings.ckpt_to_initialize_from
            if tf.gfile.IsDirectory(checkpoint_path):
                checkpoint_path = tf.train.latest_checkpoint(checkpoint_path)
        if not checkpoint_path:
            raise ValueError(
                f"Couldn't find trained model at {self._model_dir}. Train it first, or name a "
                "checkpoint with checkpoint_path."
            )
        return saved_model_export.export(
            self,
            export_dir_base,
            input_receiver_fn_map,
            checkpoint_path,
            assets_extra,
            as_text,
            strip_default_attrs,
        )

    # -- What all of them share ----------------------------------------------------------------

    def _create_global_step(self, graph: Any) -> Any:
        return tf.train.create_global_step(graph)

    def _create_and_assert_global_step(self, graph: Any) -> Any:
        step = self._create_global_step(graph)
        assert step is tf.train.get_global_step()
        assert step.dtype.base_dtype.is_integer
        return step

    def _get_features_and_labels_from_input_fn(
        self, input_fn: Any, mode: str
    ) -> tuple[Any, Any, list[Any]]:
        return features_labels_and_hooks(self._call_input_fn(input_fn, mode))

    def _call_input_fn(self, input_fn: Any, mode: str, input_context: Any = None) -> Any:
        if not callable(input_fn):
            raise TypeError(
                f"input_fn must be callable, given: {input_fn!r}. Give a function that makes the "
                "input: it has to be built in a graph of the estimator's."
            )
        offered = accepted(input_fn, mode=mode, params=self.params, config=self.config)
        if "input_context" in fn_args(input_fn):
            offered["input_context"] = input_context or _input_context(self._config)
        with tf.device("/cpu:0"):
            return input_fn(**offered)

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
        model_fn = self._model_fn
        if labels is not None and "labels" not in fn_args(model_fn):
            raise ValueError(
                "model_fn does not take labels, but input_fn returns labels. Give model_fn an "
                "argument labels, or let input_fn return features only."
            )
        tf.logging.info("Calling model_fn.")
        offered = accepted(model_fn, labels=labels, mode=mode, params=self.params, config=config)
        results = model_fn(features=features, **offered)
        tf.logging.info("Done calling model_fn.")
        if not isinstance(results, EstimatorSpec):
            raise ValueError(
                f"model_fn should return an EstimatorSpec. It returned {type(results).__name__}."
            )
        return results

    def _maybe_warm_start(self, checkpoint_path: str | None) -> None:
        if not checkpoint_path and self._warm_start_settings:
            _warm_start(self._warm_start_settings)

    def _assert_members_are_not_overridden(self) -> None:
        own = type(self)
        if own.__name__ == "TPUEstimator":
            return
        members = {name for name in vars(Estimator) if not name.startswith("__")} - _OVERRIDABLE
        overridden = sorted(
            name
            for name in members & set(vars(own))
            if getattr(Estimator, name) != getattr(own, name)
        )
        if overridden:
            raise ValueError(
                "Subclasses of Estimator cannot override members of Estimator. "
                f"{own} does override {overridden}"
            )


def _scope_of(strategy: Any) -> Any:
    return contextlib.nullcontext() if strategy is None else strategy.scope()


def _saver_hooks(
    config: RunConfig, spec: Any, worker_hooks: Sequence[Any], saving_listeners: Sequence[Any]
) -> list[Any]:
    """The chief's saver, unless the model has one; listeners are told by the one there is."""
    made: list[Any] = []
    found = [
        hook
        for hook in (*worker_hooks, *spec.training_chief_hooks)
        if isinstance(hook, tf.train.CheckpointSaverHook)
    ]
    period = config.save_checkpoints_secs or config.save_checkpoints_steps
    if period and not found:
        found = made = [
            tf.train.CheckpointSaverHook(
                config.model_dir,
                save_secs=config.save_checkpoints_secs,
                save_steps=config.save_checkpoints_steps,
                scaffold=spec.scaffold,
                save_graph_def=config.checkpoint_save_graph_def,
            )
        ]
    if saving_listeners and not found:
        raise ValueError(
            "There should be a CheckpointSaverHook to use saving_listeners. Please set one of "
            "the RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs."
        )
    for listener in saving_listeners:
        if listener not in found[0]._listeners:
            found[0]._listeners.append(listener)
    return made


def _summary_hooks(config: RunConfig, scaffold: Any) -> Iterator[Any]:
    if config.save_summary_steps:
        yield tf.train.SummarySaverHook(
            save_steps=config.save_summary_steps,
            output_dir=config.model_dir,
            scaffold=scaffold,
        )
    if config.log_step_count_steps:
        yield tf.train.StepCounterHook(
            every_n_steps=config.log_step_count_steps,
            output_dir=config.model_dir,
        )


def _newest_checkpoint(model_dir: Any, purpose: str) -> str | None:
    found = tf.train.latest_checkpoint(model_dir)
    if not found:
        tf.logging.info(
            "Could not find trained model in model_dir: %s, running initialization to %s.",
            model_dir,
            purpose,
        )
    return found


def _input_context(config: RunConfig) -> Any:
    return tf.distribute.InputContext(
        num_input_pipelines=max(config.num_worker_replicas, 1),
        input_pipeline_id=config.global_id_in_cluster or 0,
        num_replicas_in_sync=1,
    )


def _warm_start(settings: Any) -> None:
    tf.logging.info("Warm-starting with WarmStartSettings: %s", settings)
    tf.train.warm_start(*settings)
