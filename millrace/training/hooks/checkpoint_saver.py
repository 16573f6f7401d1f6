"""CheckpointSaverHook: checkpoints every N steps or seconds, and those who listen to it."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from millrace.core.config import SessionLog
from millrace.graph import meta_graph
from millrace.graph.defaults import get_collection, get_default_graph
from millrace.graph.keys import GraphKeys
from millrace.platform import last_saves, logging
from millrace.summary.writer import FileWriterCache
from millrace.training.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from millrace.training.hooks.timer import SecondOrStepTimer, global_step_for
from millrace.training.sessions import live_model
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock
from millrace.training.sessions.write_graph import write_graph

#: The step of now is read when one run may have come this many times as far as any run before.
_CAUTION = 4


class CheckpointSaverListener:
    """Is told of each checkpoint that a CheckpointSaverHook writes; a base class."""

    def begin(self) -> None:
        """Called once, before there is a session; may add to the default graph."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Called before a checkpoint is written."""

    def after_save(self, session: Any, global_step_value: int) -> bool | None:
        """Called when a checkpoint was written; returns True to end the training."""

    def end(self, session: Any, global_step_value: int) -> None:
        """Called at the end, after the last checkpoint."""


class CheckpointSaverHook(SessionRunHook):
    """Writes a checkpoint when a session begins, every N steps or seconds, and at the end.

    It also writes one before the process ends on SIGTERM. After a fault it says how many steps
    were lost: those between the last one that it saw and the one that the new session begins with.
    """

    def __init__(
        self,
        checkpoint_dir: str,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Sequence[CheckpointSaverListener] | None = None,
        save_graph_def: bool = True,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Makes the hook.

        Args:
          checkpoint_dir: The folder.
          save_secs: Seconds between checkpoints; exactly one of this and `save_steps`.
          save_steps: Steps between checkpoints.
          saver: The Saver.
          checkpoint_basename: The start of the files' names.
          scaffold: Has the Saver, if none is given; without both, the graph's collection of
            savers has it.
          listeners: Are told of every checkpoint.
          save_graph_def: Whether to write the graph into the folder as well.
          clock: The time.

        Raises:
          ValueError: Both periods are given, or none; or both a saver and a scaffold.
        """
        logging.info("Create CheckpointSaverHook.")
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._saver = saver
        self._checkpoint_dir = checkpoint_dir
        self._save_path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._scaffold = scaffold
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps, clock=clock)
        self._listeners = list(listeners or ())
        self._save_graph_def = save_graph_def
        #: How far one run may come; None: found out by watching.
        self._steps_per_run: int | None = None
        #: The last global step that was fetched, in any session.
        self._seen_step: int | None = None
        self._has_saved = False
        #: How far runs come of late, at most; None until two steps were seen.
        self._farthest: int | None = None
        #: One checkpoint at a time: SIGTERM's is written by another thread.
        self._saving = threading.Lock()
        self._session: weakref.ref[Any] | None = None

    def _set_steps_per_run(self, steps_per_run: int) -> None:
        self._steps_per_run = steps_per_run

    def begin(self) -> None:
        """Opens the event file and finds the global step."""
        self._summary_writer = FileWriterCache.get(self._checkpoint_dir)
        self._global_step_tensor = global_step_for(self)
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Writes the graph, and a checkpoint of what the session begins with."""
        step = session.run(self._global_step_tensor)
        self._report_lost_steps(step)
        if self._has_saved and live_model.is_adopted(session):
            return  # The model goes on as it was: nothing begins, and everybody waits.
        graph = get_default_graph()
        graph_def = graph.as_graph_def(add_shapes=True)
        if self._save_graph_def:
            # Not in `begin`: other hooks may still add to the graph then.
            write_graph(graph_def, self._checkpoint_dir, "graph.pbtxt")
        saver = self._get_saver()
        self._summary_writer.add_graph(graph)
        self._summary_writer.add_meta_graph(
            meta_graph.create_meta_graph_def(
                graph_def=graph_def, saver_def=saver.saver_def if saver else None
            )
        )
        self._has_saved = True
        if not live_model.is_adopted(session):
            self._save(session, step)
        self._timer.update_last_triggered_step(step)
        self._session = weakref.ref(session)
        last_saves.keep(self)

    def save_last(self) -> None:
        """Writes a checkpoint of now, unless this step has one; from any thread."""
        session = self._session() if self._session is not None else None
        if session is not None:
            step = session.run(self._global_step_tensor)
            if step != self._timer.last_triggered_step():
                self._save(session, step)

    def _report_lost_steps(self, step: int) -> None:
        if self._seen_step is not None and step < self._seen_step:
            logging.warning(
                "%d steps are lost: training had come to global step %d, and goes on from %d, that "
                "of the newest checkpoint in %s. A shorter save_steps or save_secs loses fewer.",
                self._seen_step - step,
                self._seen_step,
                step,
                self._checkpoint_dir,
            )
        self._seen_step = None

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the global step."""
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Writes a checkpoint when it is time."""
        earlier_step = run_values.results
        reach = self._reach(earlier_step)
        if reach is not None and not self._timer.should_trigger_for_step(earlier_step + reach):
            return
        step = run_context.session.run(self._global_step_tensor)
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._save(run_context.session, step):
                run_context.request_stop()

    def _reach(self, step: int) -> int | None:
        """How far the global step may be beyond `step` by now; None if there is no telling.

        What was fetched is the step from before the update. TensorFlow reads it again after every
        run; on a cluster that is one more round trip for every step of the chief. The steps that
        runs were seen to make of late, with caution, say when there is no need to: a pause in
        which the other workers went on is forgotten after a few runs.
        """
        if self._seen_step is not None:
            self._farthest = max(1, step - self._seen_step, (self._farthest or 0) // 2)
        self._seen_step = step
        if self._steps_per_run is not None:
            return self._steps_per_run
        return None if self._farthest is None else _CAUTION * self._farthest

    def end(self, session: Any) -> None:
        """Writes the last checkpoint, unless this step has one."""
        last_saves.drop(self)
        step = session.run(self._global_step_tensor)
        if step != self._timer.last_triggered_step():
            self._save(session, step)
        for listener in self._listeners:
            listener.end(session, step)
        self._summary_writer.flush()

    def _save(self, session: Any, step: int) -> bool:
        """Writes a checkpoint; whether a listener wants the training to end."""
        with self._saving:
            return self._save_alone(session, step)

    def _save_alone(self, session: Any, step: int) -> bool:
        logging.info("Calling checkpoint listeners before saving checkpoint %d...", step)
        for listener in self._listeners:
            listener.before_save(session, step)
        logging.info("Saving checkpoints for %d into %s.", step, self._save_path)
        self._get_saver().save(
            session, self._save_path, global_step=step, write_meta_graph=self._save_graph_def
        )
        self._summary_writer.add_session_log(
            SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=self._save_path), step
        )
        logging.info("Calling checkpoint listeners after saving checkpoint %d...", step)
        should_stop = False
        for listener in self._listeners:
            if listener.after_save(session, step):
                logging.info(
                    "A CheckpointSaverListener requested that training be stopped. listener: %s",
                    listener,
                )
                should_stop = True
        return should_stop

    def _get_saver(self) -> Any:
        if self._saver is not None:
            return self._saver
        if self._scaffold is not None:
            return self._scaffold.saver
        savers = get_collection(GraphKeys.SAVERS)
        if not savers:
            raise RuntimeError(
                f"No items in collection {GraphKeys.SAVERS}. Please add a saver to the "
                "collection or provide a saver or scaffold."
            )
        if len(savers) > 1:
            raise RuntimeError(
                f"More than one item in collection {GraphKeys.SAVERS} ({len(savers)}). Please "
                "indicate which one to use by passing it to the constructor."
            )
        self._saver = savers[0]
        return self._saver
