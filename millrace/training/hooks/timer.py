"""When a hook acts: every so many steps, or every so many seconds; and which step it is."""

from __future__ import annotations

from typing import Any

from millrace.training.global_step import get_or_create_global_step_read
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock


def global_step_for(hook: object) -> Any:
    """The tensor with the global step that hooks fetch.

    Raises:
      RuntimeError: The graph has no global step.
    """
    step = get_or_create_global_step_read()
    if step is None:
        raise RuntimeError(
            f"Global step should be created to use {type(hook).__name__}. Call "
            "tf.train.get_or_create_global_step() while the graph is built, and give it to the "
            "optimizer's minimize(..., global_step=...)."
        )
    return step


class SecondOrStepTimer:
    """Triggers at the first step, and then every N seconds or every N steps.

    Attributes are private; a hook asks `should_trigger_for_step` and, when it acts, tells the
    timer with `update_last_triggered_step`.
    """

    def __init__(
        self,
        every_secs: float | None = None,
        every_steps: int | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Makes a timer with exactly one of the two periods.

        Args:
          every_secs: Seconds from one trigger to the next.
          every_steps: Steps from one trigger to the next.
          clock: The time.

        Raises:
          ValueError: Both periods are given, or none.
        """
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        self._every_secs = every_secs
        self._every_steps = every_steps
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Forgets the last trigger."""
        self._last_triggered_step: int | None = None
        self._last_triggered_time: float | None = None

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is time to act at `step`; never twice at one step."""
        if self._last_triggered_step is None or self._last_triggered_time is None:
            return True
        if step == self._last_triggered_step:
            return False
        if self._every_secs is not None:
            return self._clock.now() >= self._last_triggered_time + self._every_secs
        assert self._every_steps is not None
        return step >= self._last_triggered_step + self._every_steps

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Notes that the hook acted at `step`.

        Returns:
          Seconds and steps since the last time; (None, None) the first time.
        """
        now = self._clock.now()
        seconds = steps = None
        if self._last_triggered_step is not None and self._last_triggered_time is not None:
            seconds = now - self._last_triggered_time
            steps = step - self._last_triggered_step
        self._last_triggered_time, self._last_triggered_step = now, step
        return seconds, steps

    def last_triggered_step(self) -> int | None:
        """The step of the last trigger, or None."""
        return self._last_triggered_step


class NeverTriggerTimer:
    """A timer for a hook that acts at the end only."""

    def reset(self) -> None:
        """Nothing to forget."""

    def should_trigger_for_step(self, step: int) -> bool:
        """Never."""
        return False

    def update_last_triggered_step(self, step: int) -> tuple[None, None]:
        """There is no last time."""
        return None, None

    def last_triggered_step(self) -> None:
        """There is none."""
        return None
