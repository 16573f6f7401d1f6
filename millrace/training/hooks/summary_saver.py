"""SummarySaverHook: summaries into event files."""

from __future__ import annotations

from typing import Any

from millrace.core.config import SessionLog
from millrace.summary.writer import FileWriterCache
from millrace.training.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from millrace.training.hooks.timer import SecondOrStepTimer, global_step_for
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock


class SummarySaverHook(SessionRunHook):
    """Runs the summary operation with a step every N steps or seconds, and writes what it gives."""

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
        scaffold: Any = None,
        summary_op: Any = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Makes the hook.

        Args:
          save_steps: Steps between summaries; exactly one of this and `save_secs`.
          save_secs: Seconds between summaries.
          output_dir: Where they go, without a writer.
          summary_writer: Where they go.
          scaffold: Has the summary operation; exactly one of this and `summary_op`.
          summary_op: The operation, or a list of them.
          clock: The time.

        Raises:
          ValueError: One of the pairs has both given, or none.
        """
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._summary_op = summary_op
        self._summary_writer = summary_writer
        self._output_dir = output_dir
        self._scaffold = scaffold
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps, clock=clock)

    def begin(self) -> None:
        """Opens the event file and finds the global step."""
        if self._summary_writer is None and self._output_dir:
            self._summary_writer = FileWriterCache.get(self._output_dir)
        #: The step that the next run makes, as far as is known; None before the first run.
        self._next_step: int | None = None
        self._global_step_tensor = global_step_for(self)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the global step, and for summaries when it is time."""
        self._request_summary = self._next_step is None or self._timer.should_trigger_for_step(
            self._next_step
        )
        fetches = {"global_step": self._global_step_tensor}
        if self._request_summary:
            operations = self._get_summary_op()
            if operations is not None:
                fetches["summary"] = operations
        return SessionRunArgs(fetches)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Writes what came."""
        if not self._summary_writer:
            return
        step = run_values.results["global_step"] + 1
        if self._request_summary:
            step = run_context.session.run(self._global_step_tensor)
        if self._next_step is None:
            self._summary_writer.add_session_log(SessionLog(status=SessionLog.START), step)
        if self._request_summary:
            self._timer.update_last_triggered_step(step)
            for summary in run_values.results.get("summary", ()):
                self._summary_writer.add_summary(summary, step)
        self._next_step = step + 1

    def end(self, session: Any = None) -> None:
        """Brings the summaries to the disk."""
        if self._summary_writer:
            self._summary_writer.flush()

    def _get_summary_op(self) -> list[Any] | None:
        operation = self._summary_op
        if operation is None:
            operation = self._scaffold.summary_op
        if operation is None or isinstance(operation, list):
            return operation
        return [operation]
