"""ProfilerHook: traces of single steps."""

from __future__ import annotations

import os
from typing import Any

from millrace.client.timeline import Timeline
from millrace.core.config import RunOptions
from millrace.platform import gfile, logging
from millrace.summary.writer import FileWriterCache
from millrace.training.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from millrace.training.hooks.timer import SecondOrStepTimer, global_step_for
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock


class ProfilerHook(SessionRunHook):
    """Traces a step every N steps or seconds.

    Each trace is a file ``timeline-<step>.json`` for chrome://tracing or Perfetto, and run metadata
    in the event file for TensorBoard.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Makes the hook.

        Args:
          save_steps: Steps between traces; exactly one of this and `save_secs`.
          save_secs: Seconds between traces.
          output_dir: Where the files go; the current folder by default.
          show_dataflow: Whether to draw which operation's output goes where.
          show_memory: Whether to draw the memory that tensors take.
          clock: The time.

        Raises:
          ValueError: Both periods are given, or none.
        """
        self._output_file = os.path.join(output_dir, "timeline-{}.json")
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps, clock=clock)
        self._file_writer = FileWriterCache.get(output_dir)
        self._show_dataflow = show_dataflow
        self._show_memory = show_memory

    def begin(self) -> None:
        """Finds the global step."""
        #: The step that the next run makes, as far as is known; None before the first run.
        self._next_step: int | None = None
        self._global_step_tensor = global_step_for(self)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for a trace when it is time; the first step is never traced."""
        self._request_trace = self._next_step is not None and self._timer.should_trigger_for_step(
            self._next_step
        )
        options = RunOptions(trace_level=RunOptions.FULL_TRACE) if self._request_trace else None
        return SessionRunArgs({"global_step": self._global_step_tensor}, options=options)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Writes the trace."""
        earlier_step = run_values.results["global_step"]
        if self._next_step is None:
            # The period begins with the first step.
            self._timer.update_last_triggered_step(earlier_step)
        step = earlier_step + 1
        if self._request_trace:
            step = run_context.session.run(self._global_step_tensor)
            self._timer.update_last_triggered_step(step)
            self._save(step, self._output_file.format(step), run_values.run_metadata.step_stats)
            self._file_writer.add_run_metadata(run_values.run_metadata, f"step_{step}")
        self._next_step = step + 1

    def _save(self, step: Any, save_path: str, step_stats: Any) -> None:
        logging.info("Saving timeline for %d into '%s'.", step, save_path)
        trace = Timeline(step_stats).generate_chrome_trace_format(
            show_dataflow=self._show_dataflow, show_memory=self._show_memory
        )
        with gfile.Open(save_path, "w") as file:
            file.write(trace)
