"""`train_and_evaluate`: the part of a training that falls to this process, by its task type.

Locally, training and evaluation alternate. On a cluster a ps serves, chief and workers train, an
evaluator evaluates every new checkpoint; a master trains and evaluates.

TensorFlow's tasks sleep: workers before they start, evaluators before the first evaluation and
between two. Here such a sleep ends as soon as what it waits for is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import millrace as tf
from millrace.estimator import cluster_place
from millrace.estimator.cluster_place import TaskType
from millrace.estimator.estimator import Estimator
from millrace.estimator.evaluator import (
    ContinuousEvalListener,
    EvalResult,
    EvalStatus,
    Evaluator,
)
from millrace.estimator.model_folder import global_step_of
from millrace.estimator.specs import EvalSpec, TrainSpec, checked_hooks
from millrace.platform.training_end import training_is_over
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock

#: A worker starts this many seconds after the one before it, and this many at most.
_DELAY_SECS_PER_WORKER = 5
_MAX_DELAY_SECS = 60
#: Seconds between looks at the model's folder.
_LOOK_PERIOD = 0.5


def train_and_evaluate(estimator: Any, train_spec: TrainSpec, eval_spec: EvalSpec) -> Any:
    """Trains, evaluates and exports; on a cluster, what falls to this task.

    Args:
      estimator: The Estimator; its RunConfig says which task this is.
      train_spec: What is trained.
      eval_spec: What is evaluated and exported.

    Returns:
      Locally, the metrics of the last evaluation and what the exporters gave; else None.

    Raises:
      TypeError: Something has a wrong type.
      ValueError: The task is none that there may be.
    """
    _check_eval_spec(eval_spec)
    executor = TrainingExecutor(estimator, train_spec, eval_spec)
    config = estimator.config
    if config.task_type == TaskType.EVALUATOR and config.task_id > 0:
        raise ValueError(
            "For distributed training, there can only be one `evaluator` task (with task id 0).  "
            f"Given task id {config.task_id}"
        )
    return executor.run()


def _check_eval_spec(eval_spec: Any) -> None:
    if not isinstance(eval_spec, EvalSpec):
        raise TypeError(
            f"`eval_spec` must have type `tf.estimator.EvalSpec`. Got: {type(eval_spec)}"
        )


class _EvaluateNewCheckpoints(tf.train.CheckpointSaverListener):
    """Evaluates when a checkpoint was written, no more often than every `throttle_secs`."""

    def __init__(
        self,
        evaluator: Evaluator,
        throttle_secs: float,
        continuous_eval_listener: ContinuousEvalListener,
    ) -> None:
        self._evaluator = evaluator
        self._throttle_secs = throttle_secs
        self._continuous_eval_listener = continuous_eval_listener
        self.eval_result: EvalResult | None = None
        self.export_results: list[Any] | None = None

    def begin(self) -> None:
        self._timer = tf.train.SecondOrStepTimer(every_secs=self._throttle_secs)
        self._is_first_run = True

    def after_save(self, session: Any, global_step_value: int) -> bool | None:
        if self._is_first_run:
            # What a session begins with is not evaluated.
            self._is_first_run = False
            return None
        if not self._continuous_eval_listener.before_eval():
            tf.logging.info(
                "Exiting training and evaluation loop, as requested by "
                "_ContinuousEvalListener.before_eval."
            )
            return True
        if not self._timer.should_trigger_for_step(global_step_value):
            tf.logging.info(
                "Skip the current checkpoint eval due to throttle secs (%s secs).",
                self._throttle_secs,
            )
            return None
        if not self._continuous_eval_listener.after_eval(self._evaluate(global_step_value)):
            tf.logging.info(
                "Exiting evaluation, as requested by _ContinuousEvalListener.after_eval."
            )
            return True
        return None

    def end(self, session: Any, global_step_value: int) -> None:
        is_new = global_step_value != self._timer.last_triggered_step()
        if is_new and self._continuous_eval_listener.before_eval():
            self._continuous_eval_listener.after_eval(self._evaluate(global_step_value))

    def _evaluate(self, global_step_value: int) -> EvalResult:
        self._timer.update_last_triggered_step(global_step_value)
        self.eval_result, self.export_results = self._evaluator.evaluate_and_export()
        if self.eval_result.status != EvalStatus.EVALUATED:
            raise RuntimeError(
                "There was no new checkpoint after the training. Eval status: "
                f"{self.eval_result.status}"
            )
        return self.eval_result


class TrainingExecutor:
    """Does what falls to one task: `run` chooses one of the other ``run_`` methods."""

    def __init__(
        self,
        estimator: Any,
        train_spec: TrainSpec,
        eval_spec: EvalSpec | None,
        train_hooks: Sequence[Any] | None = None,
        continuous_eval_listener: ContinuousEvalListener | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Makes an executor.

        Args:
          estimator: The Estimator.
          train_spec: What is trained.
          eval_spec: What is evaluated; may be None for tasks that do not.
          train_hooks: Further hooks for training.
          continuous_eval_listener: Is asked around evaluations.
          clock: The time.

        Raises:
          TypeError: Something has a wrong type.
        """
        if not isinstance(estimator, Estimator):
            raise TypeError(
                f"`estimator` must have type `tf.estimator.Estimator`. Got: {type(estimator)}"
            )
        if not isinstance(train_spec, TrainSpec):
            raise TypeError(
                f"`train_spec` must have type `tf.estimator.TrainSpec`. Got: {type(train_spec)}"
            )
        if eval_spec and not isinstance(eval_spec, EvalSpec):
            raise TypeError(
                "`eval_spec` must be either `None` or have type `tf.estimator.EvalSpec`. Got: "
                f"{type(eval_spec)}"
            )
        if continuous_eval_listener and not isinstance(
            continuous_eval_listener, ContinuousEvalListener
        ):
            raise TypeError("`continuous_eval_listener` must have type `_ContinuousEvalListener`.")
        self._estimator = estimator
        self._train_spec = train_spec
        self._eval_spec = eval_spec
        self._train_hooks = checked_hooks(train_hooks)
        self._continuous_eval_listener = continuous_eval_listener or ContinuousEvalListener()
        self._clock = clock

    @property
    def estimator(self) -> Any:
        """The Estimator."""
        return self._estimator

    def run(self) -> Any:
        """Does what the RunConfig's task has to do.

        Raises:
          ValueError: It is no task of a training.
        """
        config = self._estimator.config
        if not config.cluster_spec and config.task_type != TaskType.EVALUATOR:
            tf.logging.info("Running training and evaluation locally (non-distributed).")
            return self.run_local()
        if not config.task_type:
            raise ValueError(
                "`estimator.config` must have task_type set. This usually means TF_CONFIG "
                "environment is not set correctly."
            )
        tasks: dict[str, Callable[[], Any]] = {
            TaskType.CHIEF: self.run_chief,
            TaskType.EVALUATOR: self.run_evaluator,
            TaskType.MASTER: self.run_master,
            TaskType.PS: self.run_ps,
            TaskType.WORKER: self.run_worker,
        }
        if config.task_type not in tasks:
            raise ValueError(
                f"Task type {config.task_type} is not supported. Supported task types are "
                f"{list(tasks)}"
            )
        tasks[config.task_type]()
        return None

    def run_chief(self) -> None:
        """Trains, and writes checkpoints."""
        self._start_distributed_training(self._train_spec.saving_listeners)

    def run_worker(self) -> None:
        """Trains."""
        self._start_distributed_training()

    def run_master(self) -> None:
        """Trains, writes checkpoints and evaluates them."""
        evaluating = self._evaluating_listener(ContinuousEvalListener())
        self._start_distributed_training((*self._train_spec.saving_listeners, evaluating))

    def run_evaluator(self) -> None:
        """Evaluates each new checkpoint until the training's last one."""
        spec = self._needed_eval_spec()
        delay = spec.start_delay_secs
        if delay:
            tf.logging.info("Waiting %f secs before starting eval.", delay)
            self._sleep(
                delay,
                lambda: training_is_over() or global_step_of(self._estimator.model_dir) > 0,
            )
        max_steps = self._train_spec.max_steps
        evaluator = Evaluator(self._estimator, spec, max_steps, self._clock)
        while True:
            is_last = training_is_over()
            result, should_stop = self._evaluate_once(evaluator, spec.throttle_secs)
            if should_stop:
                return
            if is_last:
                tf.logging.info("Exiting evaluation, all workers have ended.")
                return
            if max_steps and result is not None and result.global_step >= max_steps:
                tf.logging.info(
                    "Exiting evaluation, global_step=%s >= train max_steps=%s",
                    result.global_step,
                    max_steps,
                )
                return

    def run_ps(self) -> None:
        """Serves variables until the process is ended."""
        server = self._start_std_server(self._estimator.config)
        server.join()

    def run_local(self) -> tuple[Any, Any]:
        """Trains, and evaluates checkpoints as they are written."""
        config = self._estimator.config
        tf.logging.info(
            "Start train and evaluate loop. The evaluate will happen after every checkpoint. "
            "Checkpoint frequency is determined based on RunConfig arguments: "
            "save_checkpoints_steps %s or save_checkpoints_secs %s.",
            config.save_checkpoints_steps,
            config.save_checkpoints_secs,
        )
        evaluating = self._evaluating_listener(self._continuous_eval_listener)
        self._train((*self._train_spec.saving_listeners, evaluating))
        result = evaluating.eval_result or EvalResult(EvalStatus.MISSING_CHECKPOINT)
        return result.metrics, evaluating.export_results

    def _evaluating_listener(self, asked: ContinuousEvalListener) -> _EvaluateNewCheckpoints:
        spec = self._needed_eval_spec()
        evaluator = Evaluator(self._estimator, spec, self._train_spec.max_steps, self._clock)
        return _EvaluateNewCheckpoints(evaluator, spec.throttle_secs, asked)

    def _needed_eval_spec(self) -> EvalSpec:
        _check_eval_spec(self._eval_spec)
        assert self._eval_spec is not None
        return self._eval_spec

    def _train(self, saving_listeners: Sequence[Any]) -> None:
        self._estimator.train(
            input_fn=self._train_spec.input_fn,
            max_steps=self._train_spec.max_steps,
            hooks=[*self._train_spec.hooks, *self._train_hooks],
            saving_listeners=saving_listeners,
        )

    def _start_distributed_training(self, saving_listeners: Sequence[Any] = ()) -> None:
        config = self._estimator.config
        if cluster_place.read_tf_config().get("environment") != "google":
            self._start_std_server(config)
        if config.task_type == TaskType.WORKER:
            longest = config.experimental_max_worker_delay_secs
            delay = min(
                _MAX_DELAY_SECS if longest is None else longest,
                (config.task_id + 1) * _DELAY_SECS_PER_WORKER,
            )
            if delay > 0:
                tf.logging.info("Waiting %d secs before starting training.", delay)
                began = self._clock.wall()
                self._sleep(delay, lambda: _has_state_since(config.model_dir, began))
        self._train(saving_listeners)

    def _start_std_server(self, config: Any) -> Any:
        """The server of this task; None if it is alone.

        Raises:
          RuntimeError: The configuration does not say which task this is.
        """
        if not config.cluster_spec or not config.task_type or config.task_id is None:
            raise RuntimeError(
                "Could not start server; be sure to specify cluster_spec, task_type, and task in "
                "RunConfig or set the TF_CONFIG environment variable."
            )
        if not config.master:
            jobs = config.cluster_spec.jobs
            if (
                len(jobs) == 1
                and config.cluster_spec.num_tasks(jobs[0]) == 1
                and config.task_type in (TaskType.CHIEF, TaskType.MASTER, TaskType.WORKER)
            ):
                tf.logging.info(
                    "Skip starting Tensorflow server as there is only one node in the cluster."
                )
                return None
            raise RuntimeError(
                "Could not start server; be sure to specify master in RunConfig or set the "
                "TF_CONFIG environment variable."
            )
        tf.logging.info("Start Tensorflow server.")
        session_config = tf.ConfigProto(log_device_placement=False)
        if config.session_config is not None:
            session_config.gpu_options.CopyFrom(config.session_config.gpu_options)
        server = tf.train.Server(
            config.cluster_spec,
            job_name=config.task_type,
            task_index=config.task_id,
            config=session_config,
            start=False,
            protocol=config.protocol,
        )
        server.start()
        return server

    def _evaluate_once(
        self, evaluator: Evaluator, throttle_secs: float
    ) -> tuple[EvalResult | None, bool]:
        """Evaluates, and waits until it is time again; whether to stop comes with the result."""
        began = self._clock.now()
        if not self._continuous_eval_listener.before_eval():
            tf.logging.info(
                "Exiting evaluation, as requested by _ContinuousEvalListener.before_eval."
            )
            return None, True
        result, _ = evaluator.evaluate_and_export()
        if not self._continuous_eval_listener.after_eval(result):
            tf.logging.info(
                "Exiting evaluation, as requested by _ContinuousEvalListener.after_eval."
            )
            return result, True
        max_steps = self._train_spec.max_steps
        if training_is_over() or (max_steps and result.global_step >= max_steps):
            return result, False  # There is nothing to wait for.
        left = throttle_secs - (self._clock.now() - began)
        if left > 0:
            tf.logging.info("Waiting %f secs before starting next eval run.", left)
            self._sleep(left, lambda: training_is_over() or self._is_last_new(evaluator))
        elif throttle_secs == 0 and result.status != EvalStatus.EVALUATED:
            tf.logging.warning(
                "EvalSpec.throttle_secs is set as 0. This might overload the job before finding "
                "(next) new checkpoint. Please consider to increase it."
            )
            self._clock.sleep(_LOOK_PERIOD)
        return result, False

    def _is_last_new(self, evaluator: Evaluator) -> bool:
        """Whether there is the training's last checkpoint, not evaluated yet."""
        max_steps = self._train_spec.max_steps
        newest = self._estimator.latest_checkpoint()
        if not max_steps or not newest or newest == evaluator.previous_checkpoint:
            return False
        return global_step_of(self._estimator.model_dir) >= max_steps

    def _sleep(self, seconds: float, is_over: Callable[[], bool]) -> None:
        """Sleeps for some seconds, or until there is no need to."""
        end = self._clock.now() + seconds
        while (left := end - self._clock.now()) > 0 and not is_over():
            self._clock.sleep(min(left, _LOOK_PERIOD))


def _has_state_since(model_dir: Any, moment: float) -> bool:
    """Whether the chief has written a checkpoint since a moment: then its model is ready."""
    try:
        stat = tf.gfile.Stat(os.path.join(os.fsdecode(model_dir), "checkpoint"))
    except tf.errors.NotFoundError:
        return False
    return bool(stat.mtime_nsec / 1e9 >= moment)
