"""Monitored sessions: a session with hooks, threads that end with it, and recovery.

At the start: the hooks' `begin`, the graph is finalized, a session is made and its model
initialised, restored or waited for, queue runners start, the hooks' `after_create_session`. At a
good end: the hooks' `end`, the threads stop, the session is closed. At an end with an error the
hooks' `end` is left out, as in TensorFlow: what a failed step left behind is not saved over a good
checkpoint.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from millrace.core import errors
from millrace.graph.defaults import get_collection, get_default_graph
from millrace.graph.keys import GraphKeys
from millrace.platform import logging
from millrace.training.election.elected_hooks import elected_hooks
from millrace.training.election.session import (
    ElectedSessionCreator,
    Office,
    address_for,
    start_campaign,
)
from millrace.training.hooks.checkpoint_saver import CheckpointSaverHook
from millrace.training.hooks.consistency import consistency_hooks
from millrace.training.hooks.session_run_hook import SessionRunHook
from millrace.training.hooks.step_counter import StepCounterHook
from millrace.training.hooks.summary_saver import SummarySaverHook
from millrace.training.input.queue_runner import start_queue_runners
from millrace.training.replicas.departure import leave_at_exit
from millrace.training.sessions import session_layers
from millrace.training.sessions.coordinator import Coordinator
from millrace.training.sessions.scaffold import Scaffold
from millrace.training.sessions.session_creators import (
    ChiefSessionCreator,
    SessionCreator,
    WorkerSessionCreator,
)
from millrace.training.sessions.session_layers import (
    CoordinatedSession,
    HookedSession,
    RecoverableSession,
    WrappedSession,
)
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock

#: For arguments of MonitoredTrainingSession whose default depends on another argument.
USE_DEFAULT: Any = object()
#: Exceptions that end a training well when they leave the ``with`` block: the input has ended.
_GOOD_ENDS = (errors.OutOfRangeError, StopIteration)


class _CoordinatedSessionCreator:
    """Makes the inner layers, and remembers what they were made of."""

    def __init__(
        self,
        session_creator: SessionCreator,
        hooks: Sequence[SessionRunHook],
        stop_grace_period_secs: float,
    ) -> None:
        self._session_creator = session_creator
        #: The target; a creator of a user's own does not tell.
        self.master: str = getattr(session_creator, "_master", "")
        self._hooks = hooks
        self._stop_grace_period_secs = stop_grace_period_secs
        #: The `tf.Session` and the coordinator of now; None when there is none.
        self.tf_sess: Any = None
        self.coord: Coordinator | None = None

    def create_session(self) -> CoordinatedSession:
        """A new session with its threads started and its hooks told."""
        self.tf_sess = self._session_creator.create_session()
        # No exception is a clean stop here: the code that runs steps decides what it means.
        self.coord = Coordinator(clean_stop_exception_types=[])
        session = CoordinatedSession(
            HookedSession(self.tf_sess, self._hooks), self.coord, self._stop_grace_period_secs
        )
        try:
            if get_collection(GraphKeys.QUEUE_RUNNERS):
                start_queue_runners(sess=self.tf_sess, coord=self.coord)
            for hook in self._hooks:
                hook.after_create_session(self.tf_sess, self.coord)
        except BaseException:
            self._drop(session)
            raise
        return session

    def _drop(self, session: CoordinatedSession) -> None:
        """Closes a session that a hook or queue runner did not accept."""
        try:
            session.abandon()
        except Exception as error:
            logging.info("A thread of the session that is given up reported: %s", error)
        self.tf_sess = self.coord = None


class _MonitoredSession:
    """What MonitoredSession and SingularMonitoredSession share."""

    #: The argument of step functions.
    StepContext = session_layers.StepContext

    def __init__(
        self,
        session_creator: SessionCreator | None,
        hooks: Sequence[SessionRunHook] | None,
        should_recover: bool,
        stop_grace_period_secs: float,
        clock: Clock,
        at_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._at_close = at_close
        self._graph = get_default_graph()
        self._graph_was_finalized = self._graph.finalized
        self._hooks = list(hooks or ())
        for hook in self._hooks:
            hook.begin()
        self._coordinated_creator = _CoordinatedSessionCreator(
            session_creator or ChiefSessionCreator(), self._hooks, stop_grace_period_secs
        )
        self._sess: WrappedSession | None = (
            RecoverableSession(self._coordinated_creator, clock=clock)
            if should_recover
            else self._coordinated_creator.create_session()
        )

    @property
    def graph(self) -> Any:
        """The graph; None when closed."""
        session = self._tf_sess()
        return None if session is None else session.graph

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """Runs a step with hooks; arguments and result as of `tf.Session.run`.

        Raises:
          RuntimeError: The session is closed, or a hook asked to stop.
        """
        session = self._sess or self._open_session()
        return session.run(fetches, feed_dict, options, run_metadata)

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """Runs a function that makes a step of several runs, with and without hooks.

        Args:
          step_fn: Takes one argument called ``step_context``, a `StepContext`.

        Returns:
          What the function returns.

        Raises:
          ValueError: It takes other arguments.
          StopIteration: It asked for the end.
        """
        names = tuple(inspect.signature(step_fn).parameters)
        if names not in (("step_context",), ("self", "step_context")):
            raise ValueError(
                "`step_fn` may either have one `step_context` argument, or `self` and "
                f"`step_context` arguments if it's an instance method. Got {names} instead."
            )
        return self._open_session().run_step_fn(step_fn, self._tf_sess)

    def should_stop(self) -> bool:
        """Whether the training is over: a hook or a thread ended it, or it is closed."""
        return self._sess is None or self._sess.should_stop()

    def close(self) -> None:
        """Ends the training well: the hooks' `end`, then the threads and the session.

        Raises:
          RuntimeError: It is closed already.
        """
        self._close(failed=False)

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        failed = kind is not None and kind not in _GOOD_ENDS
        self._close(failed)
        return not failed

    def _close(self, failed: bool) -> None:
        session = self._open_session()
        try:
            if not failed:
                self._end_hooks()
        finally:
            try:
                session.close()
            finally:
                self._sess = None
                self._coordinated_creator.tf_sess = None
                self._coordinated_creator.coord = None
                if not self._graph_was_finalized:
                    self._graph._unsafe_unfinalize()
                self._at_close()
        if not failed:
            leave_at_exit(self._coordinated_creator.master)

    def _end_hooks(self) -> None:
        """Calls every hook's `end`: one that fails must not cost the last checkpoint."""
        first: Exception | None = None
        for hook in self._hooks:
            try:
                hook.end(self._coordinated_creator.tf_sess)
            except Exception as error:
                error.add_note(f"raised by end of {type(hook).__name__} ({hook!r})")
                if first is None:
                    first = error
                else:
                    logging.error("Another hook failed at the end, %s: %s", hook, error)
        if first is not None:
            raise first

    def _open_session(self) -> WrappedSession:
        if self._sess is None:
            raise RuntimeError("Session is already closed.")
        return self._sess

    def _is_closed(self) -> bool:
        return self._coordinated_creator.tf_sess is None

    def _tf_sess(self) -> Any:
        """The `tf.Session` of now."""
        return self._coordinated_creator.tf_sess


class MonitoredSession(_MonitoredSession):
    """A session with hooks that recovers from faults of the cluster.

    After an error in `errors.RECOVERABLE` (a task restarted, or cannot be reached) it makes a new
    session and runs the step again. It is no `tf.Session`: it cannot be the default session, and
    a Saver does not take it.
    """

    def __init__(
        self,
        session_creator: SessionCreator | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        stop_grace_period_secs: float = 120,
        *,
        clock: Clock = SYSTEM_CLOCK,
        at_close: Callable[[], None] = lambda: None,
    ) -> None:
        """Makes the first session.

        Args:
          session_creator: Makes sessions; a ChiefSessionCreator when None.
          hooks: Are called around each step.
          stop_grace_period_secs: How long threads may take to end at `close`.
          clock: The time.
          at_close: Called at the end, good or bad.
        """
        super().__init__(session_creator, hooks, True, stop_grace_period_secs, clock, at_close)


class SingularMonitoredSession(_MonitoredSession):
    """A session with hooks for one process: always a chief, and it does not recover."""

    def __init__(
        self,
        hooks: Sequence[SessionRunHook] | None = None,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: str | None = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        """Makes the session.

        Args:
          hooks: Are called around each step.
          scaffold: Has the operations; a default one when None.
          master: The target.
          config: A ConfigProto.
          checkpoint_dir: The folder with checkpoints to restore from.
          stop_grace_period_secs: How long threads may take to end at `close`.
          checkpoint_filename_with_path: A checkpoint to restore instead.
        """
        creator = ChiefSessionCreator(
            scaffold=scaffold,
            master=master,
            config=config,
            checkpoint_dir=checkpoint_dir,
            checkpoint_filename_with_path=checkpoint_filename_with_path,
        )
        super().__init__(creator, hooks, False, stop_grace_period_secs, SYSTEM_CLOCK)

    def raw_session(self) -> Any:
        """The `tf.Session`: what it runs, no hook sees."""
        return self._tf_sess()


def MonitoredTrainingSession(
    master: str = "",
    is_chief: bool | str = True,
    checkpoint_dir: str | None = None,
    scaffold: Scaffold | None = None,
    hooks: Sequence[SessionRunHook] | None = None,
    chief_only_hooks: Sequence[SessionRunHook] | None = None,
    save_checkpoint_secs: float | None = USE_DEFAULT,
    save_summaries_steps: int | None = USE_DEFAULT,
    save_summaries_secs: float | None = USE_DEFAULT,
    config: Any = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float | None = 7200,
    save_checkpoint_steps: int | None = USE_DEFAULT,
    summary_dir: str | None = None,
    save_graph_def: bool = True,
) -> MonitoredSession:
    """A MonitoredSession for one worker of a training, with the usual hooks.

    The chief's session restores the newest checkpoint or initialises the model, and has hooks
    that write checkpoints and summaries. The others' waits for the chief.

    Args:
      master: The target, for example ``server.target``.
      is_chief: Whether this worker is the chief; ``"elect"`` if the workers elect one of them
        (see docs/election.md). In a job of `millrace launch --elect` they always do.
      checkpoint_dir: Where checkpoints are restored from and written to.
      scaffold: Has the operations; a default one when None.
      hooks: Are called around each step.
      chief_only_hooks: Are called around each step of the chief.
      save_checkpoint_secs: Seconds between checkpoints; 600 unless `save_checkpoint_steps` is
        given; None or 0 for none.
      save_summaries_steps: Steps between summaries; 100 unless `save_summaries_secs` is given;
        None or 0 for none.
      save_summaries_secs: Seconds between summaries.
      config: A ConfigProto.
      stop_grace_period_secs: How long threads may take to end at `close`.
      log_step_count_steps: Steps between measurements of the speed; None or 0 for none.
      max_wait_secs: How long a worker waits for the chief.
      save_checkpoint_steps: Steps between checkpoints.
      summary_dir: Where summaries go; `checkpoint_dir` when None.
      save_graph_def: Whether checkpoints come with the graph.
    """
    scaffold = scaffold or Scaffold()
    dial = consistency_hooks(master, hooks or ())
    address = address_for(is_chief, master)
    if not is_chief and address is None:
        waiting = WorkerSessionCreator(
            scaffold=scaffold, master=master, config=config, max_wait_secs=max_wait_secs
        )
        return MonitoredSession(waiting, [*(hooks or ()), *dial], stop_grace_period_secs)
    save_summaries_steps, save_summaries_secs = _period(
        save_summaries_steps, save_summaries_secs, (100, None)
    )
    save_checkpoint_steps, save_checkpoint_secs = _period(
        save_checkpoint_steps, save_checkpoint_secs, (None, 600)
    )
    writing: list[SessionRunHook] = []
    summary_dir = summary_dir or checkpoint_dir
    if summary_dir:
        if _is_positive(log_step_count_steps):
            writing.append(
                StepCounterHook(output_dir=summary_dir, every_n_steps=log_step_count_steps)
            )
        if _is_positive(save_summaries_steps) or _is_positive(save_summaries_secs):
            writing.append(
                SummarySaverHook(
                    scaffold=scaffold,
                    save_steps=save_summaries_steps,
                    save_secs=save_summaries_secs,
                    output_dir=summary_dir,
                )
            )
    if checkpoint_dir and (
        _is_positive(save_checkpoint_steps) or _is_positive(save_checkpoint_secs)
    ):
        writing.append(
            CheckpointSaverHook(
                checkpoint_dir,
                save_steps=save_checkpoint_steps,
                save_secs=save_checkpoint_secs,
                scaffold=scaffold,
                save_graph_def=save_graph_def,
            )
        )
    if address is None:
        creator = ChiefSessionCreator(
            scaffold=scaffold, master=master, config=config, checkpoint_dir=checkpoint_dir
        )
        all_hooks = [*(chief_only_hooks or ()), *writing, *(hooks or ()), *dial]
        return MonitoredSession(creator, all_hooks, stop_grace_period_secs)
    campaign = start_campaign(address, master, is_chief, checkpoint_dir)
    try:
        office = Office(campaign, checkpoint_dir, scaffold)
        return MonitoredSession(
            ElectedSessionCreator(
                campaign, master, config, scaffold, checkpoint_dir, max_wait_secs
            ),
            elected_hooks(office, chief_only_hooks or (), writing, [*(hooks or ()), *dial]),
            stop_grace_period_secs,
            at_close=campaign.stop,
        )
    except BaseException:
        campaign.stop()
        raise


def _period(steps: Any, seconds: Any, default: tuple[Any, Any]) -> tuple[Any, Any]:
    """Steps and seconds between two actions, of which the caller may have given one or both."""
    if steps is USE_DEFAULT and seconds is USE_DEFAULT:
        return default
    return (
        None if steps is USE_DEFAULT else steps,
        None if seconds is USE_DEFAULT else seconds,
    )


def _is_positive(number: float | None) -> bool:
    return bool(number and number > 0)
