"""LoggingTensorHook: values of tensors in the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from millrace.graph.defaults import get_default_graph
from millrace.platform import logging
from millrace.training.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from millrace.training.hooks.timer import NeverTriggerTimer, SecondOrStepTimer
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock


class LoggingTensorHook(SessionRunHook):
    """Logs tensors every N steps of this worker, every N seconds, or at the end.

    The lines have level INFO: call ``tf.logging.set_verbosity(tf.logging.INFO)`` to see them.
    """

    def __init__(
        self,
        tensors: dict[str, Any] | Iterable[Any],
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[Any, Any]], str] | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Makes the hook.

        Args:
          tensors: Tensors or their names, or a dict of these by what to call them.
          every_n_iter: Log once every so many steps.
          every_n_secs: Log once every so many seconds.
          at_end: Log at the end as well (or only then, without the other two).
          formatter: Makes the line from a dict of values.
          clock: The time.

        Raises:
          ValueError: It is not said when to log, or said twice, or `every_n_iter` is not
            positive.
        """
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError(
                "either at_end and/or exactly one of every_n_iter and every_n_secs must be "
                f"provided, not every_n_iter={every_n_iter} and every_n_secs={every_n_secs}."
            )
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        if isinstance(tensors, dict):
            self._tag_order: list[Any] = sorted(tensors)
            self._tensors = dict(tensors)
        else:
            self._tag_order = list(tensors)
            self._tensors = {item: item for item in self._tag_order}
        self._formatter = formatter
        self._timer: Any = NeverTriggerTimer()
        if not only_at_end:
            self._timer = SecondOrStepTimer(
                every_secs=every_n_secs, every_steps=every_n_iter, clock=clock
            )
        self._log_at_end = at_end

    def begin(self) -> None:
        """Finds the tensors in the graph."""
        self._timer.reset()
        self._iter_count = 0
        self._current_tensors = {tag: graph_element(t) for tag, t in self._tensors.items()}

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Asks for the tensors when it is time."""
        self._should_trigger = self._timer.should_trigger_for_step(self._iter_count)
        return SessionRunArgs(self._current_tensors) if self._should_trigger else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Logs them, and counts the step."""
        if self._should_trigger:
            self._log_tensors(run_values.results)
        self._iter_count += 1

    def end(self, session: Any) -> None:
        """Logs the values at the end, if asked to."""
        if self._log_at_end:
            self._log_tensors(session.run(self._current_tensors))

    def _log_tensors(self, tensor_values: dict[Any, Any]) -> None:
        seconds, _ = self._timer.update_last_triggered_step(self._iter_count)
        with np.printoptions(suppress=True):
            if self._formatter is not None:
                logging.info("%s", self._formatter(tensor_values))
                return
            line = ", ".join(f"{tag} = {tensor_values[tag]}" for tag in self._tag_order)
        if seconds is None:
            logging.info("%s", line)
        else:
            logging.info("%s (%.3f sec)", line, seconds)


def graph_element(thing: Any) -> Any:
    """The tensor or operation of the default graph that something names.

    Args:
      thing: A tensor, variable or operation, or a name; ``x`` means ``x:0``.

    Raises:
      ValueError: It belongs to another graph, or the operation has several outputs.
      KeyError: There is none of that name.
    """
    graph = get_default_graph()
    if not isinstance(thing, str):
        if getattr(thing, "graph", None) is not graph:
            raise ValueError(
                f"Passed {thing} should have graph attribute that is equal to current graph "
                f"{graph}."
            )
        return thing
    if ":" in thing:
        return graph.as_graph_element(thing)
    element = graph.get_tensor_by_name(thing + ":0")
    if len(element.op.outputs) > 1:
        raise ValueError(
            f"Name {thing} is ambiguous, as this `Operation` has multiple outputs (at least 2)."
        )
    return element
