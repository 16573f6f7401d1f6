"""`Experiment`: an Estimator with its inputs, and the schedules by which a task runs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import millrace as tf
from millrace.estimator.cluster_place import TaskType


class Experiment:
    """What is trained and evaluated. A schedule is the name of one of its methods."""

    def __init__(
        self,
        estimator: Any,
        train_input_fn: Callable[..., Any],
        eval_input_fn: Callable[..., Any],
        eval_metrics: Any = None,
        train_steps: int | None = None,
        eval_steps: int | None = 100,
        train_monitors: Sequence[Any] | None = None,
        eval_hooks: Sequence[Any] | None = None,
        local_eval_frequency: int | None = None,
        eval_delay_secs: float = 120,
        continuous_eval_throttle_secs: float = 60,
        min_eval_frequency: int | None = None,
        delay_workers_by_global_step: bool = False,
        export_strategies: Any = None,
        train_steps_per_iteration: int | None = None,
        checkpoint_and_export: bool = False,
        saving_listeners: Sequence[Any] | None = None,
    ) -> None:
        """Makes an experiment.

        Args:
          estimator: An Estimator of `tf.estimator` or `tf.contrib.learn`.
          train_input_fn: Gives what is trained.
          eval_input_fn: Gives what is evaluated.
          eval_metrics: Metrics for Estimators of `tf.contrib.learn`.
          train_steps: The global step to end at; None to train until the input ends.
          eval_steps: How many batches an evaluation has; None for all.
          train_monitors: Hooks for training.
          eval_hooks: Hooks for evaluation.
          local_eval_frequency: The old name of `min_eval_frequency`.
          eval_delay_secs: The delay before the first evaluation of `continuous_eval`.
          continuous_eval_throttle_secs: The shortest time between two evaluations.
          min_eval_frequency: Not used: every checkpoint is evaluated.
          delay_workers_by_global_step: Not used: workers wait for the chief.
          export_strategies: Objects with a method ``export``, called after each evaluation.
          train_steps_per_iteration: Not used.
          checkpoint_and_export: Not used.
          saving_listeners: Are told of each checkpoint.

        Raises:
          ValueError: The Estimator has no folder, or metrics that it cannot take.
        """
        self._is_core = isinstance(estimator, tf.estimator.Estimator)
        if self._is_core and eval_metrics is not None:
            raise ValueError(
                "`eval_metrics` must be `None` with `tf.estimator.Estimator`. Use "
                "`eval_metric_ops` in `tf.estimator.EstimatorSpec` instead."
            )
        self._estimator = estimator
        self._train_input_fn = train_input_fn
        self._eval_input_fn = eval_input_fn
        self._eval_metrics = eval_metrics
        self._train_steps = train_steps
        self._eval_steps = eval_steps
        self._train_monitors = list(train_monitors or ())
        self._eval_hooks = list(eval_hooks or ())
        self._eval_delay_secs = eval_delay_secs
        self._throttle_secs = continuous_eval_throttle_secs
        self._export_strategies = _strategies(export_strategies)
        self._saving_listeners = saving_listeners

    @property
    def estimator(self) -> Any:
        """The Estimator."""
        return self._estimator

    @property
    def train_steps(self) -> int | None:
        """The global step to end at."""
        return self._train_steps

    @property
    def eval_steps(self) -> int | None:
        """How many batches an evaluation has."""
        return self._eval_steps

    def train(self, delay_secs: float | None = None) -> Any:
        """Trains; on a cluster, as a worker of it, whose server it starts."""
        config = self._estimator.config
        if config.cluster_spec and config.master:
            self._start_server()
        if delay_secs:
            time.sleep(delay_secs)
        return self._call_train(self._train_monitors)

    def evaluate(self, delay_secs: float | None = None, name: str | None = None) -> Any:
        """Evaluates the newest checkpoint."""
        return self._call_evaluate(name)

    def train_and_evaluate(self) -> Any:
        """Trains, then evaluates and exports; returns the metrics and what was exported."""
        self.train(delay_secs=0)
        result = self._call_evaluate(None)
        return result, self._export(result)

    def local_run(self) -> Any:
        """The same in one process."""
        return self.train_and_evaluate()

    def continuous_eval(
        self,
        delay_secs: float | None = None,
        throttle_delay_secs: float | None = None,
        evaluate_checkpoint_only_once: bool = True,
        continuous_eval_predicate_fn: Callable[..., bool] | None = None,
        name: str = "continuous",
    ) -> Any:
        """Evaluates each new checkpoint until that of the last step."""
        period = self._throttle_secs if throttle_delay_secs is None else throttle_delay_secs
        result = None
        for path in tf.contrib.training.checkpoints_iterator(self._estimator.model_dir, period):
            result = self._call_evaluate(name, path)
            self._export(result)
            over = self._train_steps and result["global_step"] >= self._train_steps
            if over or (continuous_eval_predicate_fn and not continuous_eval_predicate_fn(result)):
                break
        return result

    def run_std_server(self) -> None:
        """Serves, as a ps does."""
        self._start_server().join()

    def test(self) -> Any:
        """Trains and evaluates one step."""
        self._estimator.train(self._train_input_fn, steps=1)
        return self._call_evaluate(None, steps=1)

    def _call_train(self, hooks: list[Any]) -> Any:
        return self._estimator.train(
            self._train_input_fn,
            hooks=hooks,
            max_steps=self._train_steps,
            saving_listeners=self._saving_listeners,
        )

    def _call_evaluate(
        self, name: str | None, path: str | None = None, steps: int | None = None
    ) -> Any:
        more = {} if self._is_core else {"metrics": self._eval_metrics}
        return self._estimator.evaluate(
            input_fn=self._eval_input_fn,
            steps=steps or self._eval_steps,
            hooks=self._eval_hooks,
            checkpoint_path=path,
            name=name,
            **more,
        )

    def _export(self, result: Any) -> list[Any]:
        base = f"{self._estimator.model_dir}/export"
        return [
            strategy.export(
                self._estimator,
                f"{base}/{strategy.name}",
                eval_result=result,
                checkpoint_path=tf.train.latest_checkpoint(self._estimator.model_dir),
                is_the_final_export=True,
            )
            for strategy in self._export_strategies
        ]

    def _start_server(self) -> Any:
        config = self._estimator.config
        if not config.cluster_spec or not config.task_type or config.task_id is None:
            raise ValueError(
                "Could not start server; be sure to specify cluster_spec, task_type, and task in "
                "RunConfig or set the TF_CONFIG environment variable."
            )
        server = tf.train.Server(
            config.cluster_spec, config.task_type, config.task_id, protocol=config.protocol
        )
        return server


def _strategies(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


#: What a task does when nobody says it.
_DEFAULT_SCHEDULES = {
    TaskType.PS: "run_std_server",
    TaskType.MASTER: "train_and_evaluate",
    TaskType.CHIEF: "train",
    TaskType.WORKER: "train",
    TaskType.EVALUATOR: "continuous_eval",
}


def run(
    experiment_fn: Callable[..., Experiment],
    output_dir: str | None = None,
    schedule: str | None = None,
    run_config: Any = None,
    hparams: Any = None,
) -> Any:
    """`learn_runner.run`: makes an experiment and runs what falls to this task.

    Args:
      experiment_fn: Takes `output_dir`, or `run_config` and `hparams`.
      output_dir: The model's folder; not with `run_config`.
      schedule: The name of an experiment's method; by the task's type when None.
      run_config: A RunConfig with the model's folder.
      hparams: Handed to `experiment_fn`.

    Returns:
      What the method returns.

    Raises:
      ValueError: Both or none of folder and configuration are given, or there is no such method.
      TypeError: `experiment_fn` returns no Experiment.
    """
    if output_dir is not None and run_config is not None:
        raise ValueError(
            "Cannot provide both `output_dir` and `run_config`. Please set `model_dir` in "
            "`RunConfig`."
        )
    if run_config is not None:
        if not run_config.model_dir:
            raise ValueError("Must specify a model directory in `run_config`.")
        experiment = experiment_fn(run_config=run_config, hparams=hparams)
    elif output_dir:
        experiment = experiment_fn(output_dir=output_dir)
    else:
        raise ValueError("Must specify an output directory or a `run_config`.")
    if not isinstance(experiment, Experiment):
        raise TypeError(
            f"Experiment builder did not return an Experiment instance, got {type(experiment)} "
            "instead."
        )
    config = experiment.estimator.config
    if schedule is None:
        schedule = (
            _DEFAULT_SCHEDULES.get(config.task_type, "")
            if config.cluster_spec
            else "train_and_evaluate"
        )
    task = getattr(experiment, schedule, None)
    if schedule.startswith("_") or not callable(task):
        names = [n for n in vars(Experiment) if not n.startswith("_")]
        raise ValueError(f"Schedule references non-existent task {schedule}. There are {names}")
    return task()
