"""`make_stop_at_checkpoint_step_hook`: workers that wait for the last checkpoint."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.estimator.model_folder import global_step_of
from millrace.training.global_step import get_or_create_global_step_read
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock


class _StopAtCheckpointStepHook(tf.train.SessionRunHook):
    """Ends a worker's training once the checkpoint of the last step is there."""

    def __init__(
        self,
        model_dir: str,
        last_step: int,
        wait_after_file_check_secs: float = 30,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if last_step is None:
            raise ValueError("last_step must be specified.")
        if model_dir is None:
            raise ValueError("model_dir must be specified.")
        self._model_dir = model_dir
        self._last_step = last_step
        self._wait_after_file_check_secs = wait_after_file_check_secs
        self._clock = clock

    def begin(self) -> None:
        self._global_step = get_or_create_global_step_read()
        if self._global_step is None:
            raise RuntimeError("Global step should be created to use StopAtCheckpointStepHook.")

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self._global_step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results + 1 < self._last_step:
            return
        if global_step_of(self._model_dir) >= self._last_step:
            run_context.request_stop()
        else:
            self._clock.sleep(self._wait_after_file_check_secs)


def make_stop_at_checkpoint_step_hook(
    estimator: Any, last_step: int, wait_after_file_check_secs: float = 30
) -> Any:
    """A hook that ends the training at a step, on workers once its checkpoint is there.

    Args:
      estimator: The Estimator that is trained.
      last_step: The global step to end at.
      wait_after_file_check_secs: How long a worker waits when the checkpoint is not there yet.
    """
    if estimator.config.is_chief:
        return tf.train.StopAtStepHook(last_step=last_step)
    return _StopAtCheckpointStepHook(estimator.model_dir, last_step, wait_after_file_check_secs)
