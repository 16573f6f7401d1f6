"""Hooks that end the training: at a step, or because the loss is no number any more."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.platform import logging
from millrace.training.global_step import get_global_step
from millrace.training.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from millrace.training.hooks.timer import global_step_for


class StopAtStepHook(SessionRunHook):
    """Ends the training when the global step reaches a number."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        """Makes the hook with exactly one of the two ends.

        Args:
          num_steps: How many steps from where the first session starts. All workers' steps
            count.
          last_step: The global step to end at.

        Raises:
          ValueError: Both ends are given, or none.
        """
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps = num_steps
        self._last_step = last_step

    def begin(self) -> None:
        """Finds the global step."""
        self._global_step_tensor = global_step_for(self)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Works out the last step, once: a session after a fault does not move the end."""
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = int(session.run(self._global_step_tensor)) + self._num_steps

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the global step."""
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Ends at the last step.

        What was fetched is the step from before the update; the step of now is read only when
        the end may have been reached.
        """
        assert self._last_step is not None
        if run_values.results + 1 < self._last_step:
            return
        if run_context.session.run(self._global_step_tensor) >= self._last_step:
            run_context.request_stop()


class NanLossDuringTrainingError(RuntimeError):
    """The loss is not a number."""

    def __str__(self) -> str:
        return " ".join(["NaN loss during training.", *map(str, self.args)])


class NanTensorHook(SessionRunHook):
    """Watches the loss, and ends the training when it is not a number."""

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        """Makes the hook.

        Args:
          loss_tensor: The loss.
          fail_on_nan_loss: Whether to raise; otherwise the training ends without an error.
        """
        self._loss_tensor = loss_tensor
        self._fail_on_nan_loss = fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the loss."""
        return SessionRunArgs(self._loss_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Raises or stops if the loss is not a number.

        Raises:
          NanLossDuringTrainingError: It is not, and this is to fail.
        """
        if not np.isnan(run_values.results).any():
            return
        name = getattr(self._loss_tensor, "name", self._loss_tensor)
        step = get_global_step()
        where = ""
        if step is not None:
            where = f" at global step {int(run_context.session.run(step))}"
        what = f"Tensor {name} is {run_values.results}{where}."
        if self._fail_on_nan_loss:
            logging.error("Model diverged with loss = NaN. %s", what)
            raise NanLossDuringTrainingError(what)
        logging.warning("Model diverged with loss = NaN. %s", what)
        run_context.request_stop()
