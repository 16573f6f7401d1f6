"""What a monitored session and its hooks say to each other.

For each hook, in this order: `begin` once, while the graph can still be added to;
`after_create_session` for every session, the first and those made after a fault; `before_run` and
`after_run` around each step; `end` once, unless the training ends with an error. A step that
raises has no `after_run`. This module holds no state of a session.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class SessionRunArgs(NamedTuple):
    """What a hook adds to a step.

    Attributes:
      fetches: As for `Session.run`; None for nothing.
      feed_dict: As for `Session.run`.
      options: A RunOptions message, merged into that of the step.
    """

    fetches: Any
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """What a step gave a hook.

    Attributes:
      results: The values of the hook's fetches, in their structure; None if it had none.
      options: The RunOptions message of the step.
      run_metadata: The RunMetadata message of the step.
    """

    results: Any
    options: Any
    run_metadata: Any


class SessionRunContext:
    """A step as its hooks see it."""

    def __init__(self, original_args: SessionRunArgs, session: Any) -> None:
        """Describes a step.

        Args:
          original_args: What the caller of `run` asked for.
          session: The `tf.Session` that runs the step.
        """
        self._original_args = original_args
        self._session = session
        self._stop_requested = False

    @property
    def original_args(self) -> SessionRunArgs:
        """What the caller of `run` asked for, without what hooks add."""
        return self._original_args

    @property
    def session(self) -> Any:
        """The session that runs the step."""
        return self._session

    @property
    def stop_requested(self) -> bool:
        """Whether a hook asked for the end of the training."""
        return self._stop_requested

    def request_stop(self) -> None:
        """Asks for the end: `should_stop()` of the monitored session is true from now on."""
        self._stop_requested = True


class SessionRunHook:
    """Extends the steps of a monitored session; the base class of all hooks."""

    def begin(self) -> None:
        """Called once, before there is a session; may add to the default graph."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Called when a session was made: the first, and each one after a fault.

        Args:
          session: The new `tf.Session`. The graph is finalized.
          coord: The coordinator of the session's threads.
        """

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Called before each step.

        Returns:
          What to run besides, or None.
        """
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Called after each step that succeeded."""

    def end(self, session: Any) -> None:
        """Called once, at a good end or at the end of the input, while the session is open."""
