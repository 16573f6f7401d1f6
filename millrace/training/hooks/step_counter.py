"""StepCounterHook: steps per second."""

from __future__ import annotations

from typing import Any

from millrace.core.config import Summary
from millrace.platform import logging
from millrace.summary.writer import FileWriterCache
from millrace.training.global_step import get_global_step
from millrace.training.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from millrace.training.hooks.timer import SecondOrStepTimer, global_step_for
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock

#: How often a hook says that the global step does not grow.
_WARNINGS = 5


class StepCounterHook(SessionRunHook):
    """Measures how fast the global step grows, and logs and summarises it."""

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Makes the hook with exactly one of the two periods.

        Args:
          every_n_steps: Steps between two measurements.
          every_n_secs: Seconds between two measurements.
          output_dir: Where summaries go, without a writer.
          summary_writer: Where summaries go.
          clock: The time.

        Raises:
          ValueError: Both periods are given, or none.
        """
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError(
                "exactly one of every_n_steps and every_n_secs should be provided, not "
                f"every_n_steps={every_n_steps} and every_n_secs={every_n_secs}."
            )
        self._timer = SecondOrStepTimer(
            every_steps=every_n_steps, every_secs=every_n_secs, clock=clock
        )
        self._summary_writer = summary_writer
        self._output_dir = output_dir
        self._last_global_step: int | None = None
        self._warnings = 0
        self._steps_per_run = 1

    def _set_steps_per_run(self, steps_per_run: int) -> None:
        self._steps_per_run = steps_per_run

    def begin(self) -> None:
        """Opens the event file and finds the global step."""
        if self._summary_writer is None and self._output_dir:
            self._summary_writer = FileWriterCache.get(self._output_dir)
        self._global_step_tensor = global_step_for(self)
        self._summary_tag = get_global_step().op.name + "/sec"

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the global step."""
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Measures when it is time; says so when the global step stands still."""
        earlier_step = run_values.results
        if self._timer.should_trigger_for_step(earlier_step + self._steps_per_run):
            step = run_context.session.run(self._global_step_tensor)
            if self._timer.should_trigger_for_step(step):
                seconds, steps = self._timer.update_last_triggered_step(step)
                if seconds is not None:
                    self._log_and_record(steps, seconds, step)
        if earlier_step == self._last_global_step and self._warnings < _WARNINGS:
            self._warnings += 1
            logging.warning(
                "It seems that global step (tf.train.get_global_step) has not been increased. "
                "Current value (could be stable): %s vs previous value: %s. You could increase "
                "the global step by passing tf.train.get_global_step() to "
                "Optimizer.apply_gradients or Optimizer.minimize.",
                earlier_step,
                self._last_global_step,
            )
        self._last_global_step = earlier_step

    def _log_and_record(self, elapsed_steps: Any, elapsed_time: float, global_step: Any) -> None:
        """Logs one measurement; programs override it to measure examples, say."""
        rate = elapsed_steps / elapsed_time if elapsed_time > 0 else float("inf")
        if self._summary_writer is not None:
            summary = Summary(value=[Summary.Value(tag=self._summary_tag, simple_value=rate)])
            self._summary_writer.add_summary(summary, global_step)
        logging.info("%s: %g", self._summary_tag, rate)
