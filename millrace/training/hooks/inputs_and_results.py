"""Hooks that feed steps and that evaluate tensors at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.core import errors
from millrace.platform import logging
from millrace.training.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
)


class FeedFnHook(SessionRunHook):
    """Feeds every step with what a function returns."""

    def __init__(self, feed_fn: Callable[[], dict[Any, Any]]) -> None:
        """Makes the hook; `feed_fn` returns values by tensor."""
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Feeds the step."""
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())


class FinalOpsHook(SessionRunHook):
    """Evaluates tensors once, at the end."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        """Makes the hook.

        Args:
          final_ops: Fetches, as for `Session.run`.
          final_ops_feed_dict: Feeds for them.
        """
        self._final_ops = final_ops
        self._final_ops_feed_dict = final_ops_feed_dict
        self._final_ops_values: Any = None

    @property
    def final_ops_values(self) -> Any:
        """The values; None before the end."""
        return self._final_ops_values

    def end(self, session: Any) -> None:
        """Evaluates them.

        Raises:
          OutOfRangeError, StopIteration: They read input, which has ended.
        """
        if self._final_ops is None:
            return
        try:
            self._final_ops_values = session.run(
                self._final_ops, feed_dict=self._final_ops_feed_dict
            )
        except (errors.OutOfRangeError, StopIteration):
            logging.warning(
                "FinalOpsHook met the end of the input: %s depends on the input pipeline, which "
                "is empty at the end. It should read variables only. Of a metric, evaluate the "
                "value at the end, and run the update operation in the steps.",
                self._final_ops,
            )
            raise
