"""GlobalStepWaiterHook: workers that start one after the other."""

from __future__ import annotations

import functools

from millrace.platform import logging
from millrace.training.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
)
from millrace.training.hooks.timer import global_step_for
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock, Wait

_POLL_SECONDS = 0.5


class GlobalStepWaiterHook(SessionRunHook):
    """Holds a worker's first step back until the global step reaches a number.

    With ``wait_until_step=int(K * log(task_id + 1))`` workers join gradually, and the first ones
    do not train against many stale gradients.
    """

    def __init__(self, wait_until_step: int, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """Makes the hook.

        Args:
          wait_until_step: The global step to wait for.
          clock: The time.
        """
        self._wait_until_step = wait_until_step
        self._clock = clock

    def begin(self) -> None:
        """Finds the global step."""
        self._worker_is_started = False
        self._global_step_tensor = global_step_for(self)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Waits, the first time."""
        if self._worker_is_started:
            return None
        if self._wait_until_step > 0:
            self._wait(run_context)
        self._worker_is_started = True
        return None

    def _wait(self, run_context: SessionRunContext) -> None:
        logging.info("Waiting for global step %d before starting training.", self._wait_until_step)
        wait = Wait(_POLL_SECONDS, clock=self._clock)
        while True:
            step = run_context.session.run(self._global_step_tensor)
            if step >= self._wait_until_step:
                return
            wait.pause(functools.partial(self._describe, step))

    def _describe(self, step: int) -> str:
        return (
            f"for global step {self._wait_until_step} before this worker starts; it is {step} now. "
            "Check that the chief and the workers before this one train."
        )
