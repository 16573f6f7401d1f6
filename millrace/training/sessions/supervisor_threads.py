"""The threads of a chief's Supervisor: summaries, speed, checkpoints."""

from __future__ import annotations

import threading
from typing import Any

from millrace.core.config import SessionLog, Summary
from millrace.platform import last_saves, logging
from millrace.training.checkpoint.fence import DeposedError
from millrace.training.global_step import global_step
from millrace.training.sessions.coordinator import LooperThread
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock

#: How often the speed is logged; it is always written to the event file.
_LOGGED = 10


class SVSummaryThread(LooperThread):
    """Writes the supervisor's summaries every `save_summaries_secs`."""

    def __init__(self, sv: Any, sess: Any) -> None:
        """Makes the thread for a Supervisor and a session."""
        super().__init__(sv.coord, sv.save_summaries_secs)
        self._sv = sv
        self._sess = sess

    def run_loop(self) -> None:
        """Writes once, if its task is the chief."""
        if not self._sv.is_chief:
            return
        step = None
        if self._sv.global_step is not None:
            summary, step = self._sess.run([self._sv.summary_op, self._sv.global_step])
        else:
            summary = self._sess.run(self._sv.summary_op)
        if self._sv.summary_writer:
            logging.info("Recording summary at step %s.", step)
            self._sv.summary_writer.add_summary(summary, step)


class SVStepCounterThread(LooperThread):
    """Writes how many steps a second were made, every `save_summaries_secs`."""

    def __init__(
        self, sv: Any, sess: Any, step_counter: Any = None, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Makes the thread.

        Args:
          sv: The Supervisor.
          sess: The session.
          step_counter: Counts the steps; the supervisor's global step when None.
          clock: The time.
        """
        super().__init__(sv.coord, sv.save_summaries_secs)
        self._sv = sv
        self._sess = sess
        self._clock = clock
        self._last_time = 0.0
        self._last_step = 0
        self._logged = 0
        self._step_counter = sv.global_step if step_counter is None else step_counter
        self._summary_tag = f"{self._step_counter.op.name}/sec"

    def start_loop(self) -> None:
        """Notes where it begins."""
        self._last_time = self._clock.now()
        self._last_step = global_step(self._sess, self._step_counter)

    def run_loop(self) -> None:
        """Measures once, if its task is the chief."""
        if not self._sv.is_chief:
            return
        step, now = global_step(self._sess, self._step_counter), self._clock.now()
        steps, seconds = step - self._last_step, now - self._last_time
        self._last_step, self._last_time = step, now
        rate = steps / seconds if seconds > 0 else float("inf")
        if self._sv.summary_writer:
            value = Summary.Value(tag=self._summary_tag, simple_value=rate)
            self._sv.summary_writer.add_summary(Summary(value=[value]), step)
        if self._logged < _LOGGED:
            self._logged += 1
            logging.info("%s: %g", self._summary_tag, rate)


class SVTimerCheckpointThread(LooperThread):
    """Writes a checkpoint every `save_model_secs`."""

    def __init__(self, sv: Any, sess: Any) -> None:
        """Makes the thread for a Supervisor and a session."""
        super().__init__(sv.coord, sv.save_model_secs)
        self._sv = sv
        self._sess = sess
        #: One checkpoint at a time: SIGTERM's is written by another thread.
        self._saving = threading.Lock()

    def start_loop(self) -> None:
        """Has the model saved before the process ends on SIGTERM, too."""
        last_saves.keep(self)

    def stop_loop(self) -> None:
        """The session ends."""
        last_saves.drop(self)

    def run_loop(self) -> None:
        """Writes once, if its task is the chief."""
        with self._saving:
            self._save()

    def save_last(self) -> None:
        """Writes once more."""
        self.run_loop()

    def _save(self) -> None:
        sv = self._sv
        if not sv.is_chief:
            return
        logging.info("Saving checkpoint to path %s", sv.save_path)
        try:
            sv.saver.save(self._sess, sv.save_path, global_step=sv.global_step)
        except DeposedError as error:
            logging.warning("%s", error.message)
            return
        if sv.summary_writer and sv.global_step is not None:
            sv.summary_writer.add_session_log(
                SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=sv.save_path),
                global_step(self._sess, sv.global_step),
            )
