"""SessionManager: sessions whose model is initialised, restored, or waited for.

The chief prepares: it restores the newest checkpoint, or runs the init operation; or, where a chief
of the same training died, it goes on with the model as that left it. Everybody else waits until the
model is ready, which costs nothing but a look at the variables' state now and then. Where
TensorFlow looks every 30 seconds, this looks every half second, unless `recovery_wait_secs` says
otherwise.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from millrace.client.session import Session
from millrace.core import errors
from millrace.graph.defaults import get_collection, get_default_graph
from millrace.graph.graph import Graph
from millrace.platform import logging
from millrace.training.checkpoint import complete
from millrace.training.checkpoint.state import get_checkpoint_state
from millrace.training.sessions import live_model
from millrace.training.sessions.live_model import LiveModel
from millrace.training.sessions.succession import Succession
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock, Wait

#: How many variables a message names.
_NAMED = 10


class _Readiness(NamedTuple):
    """Whether a model is ready; why not; and which variables are missing, as far as is known."""

    ready: bool
    reason: str | None = None
    missing: tuple[str, ...] = ()


_READY = _Readiness(True)


@dataclasses.dataclass(frozen=True)
class _Source:
    """Where a checkpoint to restore is: in a folder, the newest one there, or in a file.

    Attributes:
      folder: The folder, or None.
      file: The file, or None.
      waits: Whether to wait for a first one in the folder.
      seconds: For how long; None for ever.
    """

    folder: str | None
    file: str | None
    waits: bool
    seconds: float | None

    def __post_init__(self) -> None:
        if self.folder and self.file:
            raise ValueError(
                "Can not provide both checkpoint_dir and checkpoint_filename_with_path."
            )

    @property
    def path(self) -> str | None:
        """The one of the two that is given."""
        return self.folder or self.file


def _sentence_of(error: Exception) -> str:
    """What an error says, without the line before it that names the task."""
    lines = str(error).splitlines()
    return next((line for line in lines if not line.startswith("From /job:")), "")


class SessionManager:
    """Makes sessions with a model that is ready to be used."""

    def __init__(
        self,
        local_init_op: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        graph: Graph | None = None,
        recovery_wait_secs: float | None = None,
        local_init_run_options: Any = None,
        local_init_feed_dict: Any = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
        session_factory: Callable[..., Any] = Session,
    ) -> None:
        """Makes a manager.

        Args:
          local_init_op: Run in every new session: initialises local variables and tables.
          ready_op: Gives the names of what is not initialised; the model is ready when there
            are none. Without it the model counts as ready.
          ready_for_local_init_op: The same, asked before `local_init_op` is run.
          graph: The graph; the default graph when None.
          recovery_wait_secs: Seconds between looks whether the model is ready. None looks often
            (TensorFlow: 30).
          local_init_run_options: A RunOptions message for `local_init_op`.
          local_init_feed_dict: Feeds for `local_init_op`.
          clock: The time.
          session_factory: Makes sessions, as `tf.Session` does.

        Raises:
          ValueError: There is a `ready_for_local_init_op` but no `local_init_op`.
        """
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError(
                "If you pass a ready_for_local_init_op you must also pass a local_init_op, "
                f"ready_for_local_init_op [{ready_for_local_init_op}]"
            )
        self._local_init_op = local_init_op
        self._ready_op = ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._graph = get_default_graph() if graph is None else graph
        self._recovery_wait_secs = recovery_wait_secs
        self._local_init_run_options = local_init_run_options
        self._local_init_feed_dict = local_init_feed_dict
        self._clock = clock
        self._session_factory = session_factory

    def prepare_session(
        self,
        master: str,
        init_op: Any = None,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float | None = 7200,
        config: Any = None,
        init_feed_dict: Any = None,
        init_fn: Callable[[Any], Any] | None = None,
    ) -> Any:
        """A session with the model restored or initialised, for a chief.

        If a chief of the same training died, and left a model that is newer than the newest
        checkpoint of `checkpoint_dir`, that is used as it is (`sessions/succession.py`).

        Args:
          master: The target.
          init_op: Initialises the model when there is no checkpoint.
          saver: Restores the model.
          checkpoint_dir: The folder with checkpoints; the newest is restored.
          checkpoint_filename_with_path: A checkpoint to restore instead.
          wait_for_checkpoint: Whether to wait until there is one.
          max_wait_secs: For how long.
          config: A ConfigProto.
          init_feed_dict: Feeds for `init_op`.
          init_fn: Called with the session after `init_op`.

        Raises:
          RuntimeError: There is nothing to initialise the model with, or it is not ready
            afterwards; says which variables have no value.
          ValueError: Both a folder and a file are given.
        """
        source = _Source(
            checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint, max_wait_secs
        )
        sess = self._session_factory(master, graph=self._graph, config=config)
        try:
            succession = Succession.of(master, sess, self._graph, checkpoint_dir)
            if succession is not None and saver and succession.is_due():
                is_whole = LiveModel(self._graph).is_whole
                if self._is_usable(sess, is_whole) and succession.is_ahead(sess):
                    _recover_last_checkpoints(saver, checkpoint_dir)
                    succession.claim(sess, saver)
                    live_model.adopt(sess)
                    return sess
                # Its local variables have values already.
                _close_quietly(sess)
                sess = self._session_factory(master, graph=self._graph, config=config)
            is_restored = self._restore(sess, saver, source)
            if not is_restored:
                if init_op is None and not init_fn and self._local_init_op is None:
                    where = f"there is no checkpoint in {checkpoint_dir!r}, and " * bool(
                        checkpoint_dir
                    )
                    raise RuntimeError(
                        "Model is not initialized and no init_op or init_fn or local_init_op was "
                        f"given ({where}{len(_global_variables(self._graph))} variables need a "
                        "value)"
                    )
                if init_op is not None:
                    sess.run(init_op, feed_dict=init_feed_dict)
                if init_fn:
                    init_fn(sess)
            by_what = f"Init op: {_name_of(init_op)}, init fn: {init_fn}"
            local = self._run_local_init_op(sess)
            if not local.ready:
                raise RuntimeError(
                    "Init operations did not make model ready for local_init.  "
                    f"{by_what}, error: {local.reason}"
                )
            model = self._model_ready(sess)
            if not model.ready:
                raise RuntimeError(
                    "Init operations did not make model ready.  "
                    f"{by_what}, local_init_op: {_name_of(self._local_init_op)}, "
                    f"error: {model.reason}"
                )
            if succession is not None:
                succession.claim(sess, saver)
        except BaseException:
            _close_quietly(sess)
            raise
        return sess

    def adopt_session(
        self,
        master: str,
        config: Any,
        lives_on: Callable[[Any], bool],
        is_whole: Callable[[Any], bool] = lambda sess: True,
        checkpoint_dir: str | None = None,
        saver: Any = None,
    ) -> Any | None:
        """A session with the model as it is, for a chief that had made it ready before.

        Args:
          master: The target.
          config: A ConfigProto.
          lives_on: Whether the model is still there in a session.
          is_whole: Whether it may be used as it is.
          checkpoint_dir: The folder of the training's checkpoints.
          saver: What writes them.

        Returns:
          The session; None if the model has to be restored.
        """
        sess = self._session_factory(master, graph=self._graph, config=config)
        try:
            if lives_on(sess) and self._is_usable(sess, is_whole):
                succession = Succession.of(master, sess, self._graph, checkpoint_dir)
                if succession is not None:
                    succession.claim(sess, saver)
                logging.info("The model is as it was: nothing has to be restored.")
                live_model.adopt(sess)
                adopted, sess = sess, None
                return adopted
        finally:
            _close_quietly(sess)
        return None

    def recover_session(
        self,
        master: str,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float | None = 7200,
        config: Any = None,
    ) -> tuple[Any, bool]:
        """A session with the model restored if that is possible.

        Args:
          master: The target.
          saver: Restores the model.
          checkpoint_dir: The folder with checkpoints; the newest is restored.
          checkpoint_filename_with_path: A checkpoint to restore instead.
          wait_for_checkpoint: Whether to wait until there is one.
          max_wait_secs: For how long.
          config: A ConfigProto.

        Returns:
          The session, and whether the model was restored and is ready.

        Raises:
          ValueError: Both a folder and a file are given.
        """
        source = _Source(
            checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint, max_wait_secs
        )
        sess = self._session_factory(master, graph=self._graph, config=config)
        try:
            is_restored = self._restore(sess, saver, source)
            succession = Succession.of(master, sess, self._graph, checkpoint_dir)
            if succession is not None:
                succession.claim(sess, saver)
        except BaseException:
            _close_quietly(sess)
            raise
        local = self._run_local_init_op(sess)
        if not is_restored:
            # No checkpoint: the caller has to initialise the model.
            return sess, False
        if not local.ready:
            logging.info(
                "Restoring model from %s did not make model ready for local init: %s",
                source.path,
                local.reason,
            )
            return sess, False
        model = self._model_ready(sess)
        if not model.ready:
            logging.info(
                "Restoring model from %s did not make model ready: %s", source.path, model.reason
            )
            return sess, False
        logging.info("Restored model from %s", source.path)
        return sess, True

    def wait_for_session(
        self, master: str, config: Any = None, max_wait_secs: float | None = float("inf")
    ) -> Any:
        """A session with the model made ready by another task, for everybody but the chief.

        One session is kept while waiting; it is replaced when a task that it needs restarts.
        `local_init_op` has always run after the model became ready.

        Args:
          master: The target.
          config: A ConfigProto.
          max_wait_secs: How long to wait; None for ever.

        Raises:
          DeadlineExceededError: The model was not ready in that time; says what is missing.
        """
        wait = Wait(self._recovery_wait_secs, max_wait_secs, self._clock)
        sess: Any = None
        #: Whether local_init_op ran in this session, but at an earlier look.
        local_init_is_old = False
        said: str | None = None
        try:
            while True:
                try:
                    if sess is None:
                        sess = self._session_factory(master, graph=self._graph, config=config)
                        local_init_is_old = False
                    found = self._model_ready(sess) if local_init_is_old else _READY
                    if found.ready:
                        found = self._run_local_init_op(sess)
                        if found.ready:
                            local_init_is_old = self._local_init_op is not None
                            found = self._model_ready(sess)
                    if found.ready:
                        ready, sess = sess, None
                        return ready
                except errors.RECOVERABLE as error:
                    # A task that the session needs is away: so is its part of the model.
                    _close_quietly(sess)
                    sess = None
                    found = _Readiness(False, f"{type(error).__name__}: {error}")
                if found.reason != said:
                    said = found.reason
                    logging.info("Waiting for model to be ready.  %s", said)
                if not wait.pause(functools.partial(self._describe, master, found)):
                    raise errors.DeadlineExceededError(
                        None,
                        None,
                        f"Session was not ready after waiting {max_wait_secs:g} secs: "
                        f"{self._describe(master, found)}",
                    )
        finally:
            _close_quietly(sess)

    def _restore(self, sess: Any, saver: Any, source: _Source) -> bool:
        """Whether a checkpoint was restored into a new session."""
        if not saver or not source.path:
            return False
        if source.file:
            self._restore_into(sess, saver, source.file)
            return True
        folder = source.path
        state = get_checkpoint_state(folder)
        if source.waits:
            wait = Wait(self._recovery_wait_secs, source.seconds, self._clock)
            while not (state and state.model_checkpoint_path):
                logging.info("Waiting for checkpoint to be available.")
                if not wait.pause(
                    lambda: (
                        f"for a first checkpoint in {folder!r}. Check that the task that "
                        "writes it runs, and that both name the same folder."
                    )
                ):
                    break
                state = get_checkpoint_state(folder)
        if not (state and state.model_checkpoint_path):
            return False
        broken = self._restore_newest(sess, saver, folder, state.model_checkpoint_path)
        kept = [path for path in state.all_model_checkpoint_paths if path not in broken]
        saver.recover_last_checkpoints(kept)
        return True

    def _restore_newest(self, sess: Any, saver: Any, folder: str, newest: str) -> list[str]:
        """Restores the newest checkpoint that is whole; those that are not.

        Raises:
          DataLossError, NotFoundError, ValueError: None is: what the newest one lacks.
        """
        try:
            self._restore_into(sess, saver, newest)
            return []
        except (errors.DataLossError, errors.NotFoundError, ValueError) as error:
            # What is missing may be a variable, which no other checkpoint has either.
            if not isinstance(error, errors.DataLossError) and complete.is_complete(newest):
                raise
            first = error
        broken = [newest]
        for path in reversed(complete.complete_checkpoints(folder)):
            if path in broken:
                continue
            logging.error(
                "The newest checkpoint, %s, is damaged (%s). The one before it that is complete "
                "is restored: %s.",
                newest,
                _sentence_of(first),
                path,
            )
            try:
                self._restore_into(sess, saver, path)
                return broken
            except errors.DataLossError:
                broken.append(path)
        raise first

    def _restore_into(self, sess: Any, saver: Any, path: str) -> None:
        # What a SavedModel in the graph initialises, a checkpoint need not hold.
        initializers = get_collection("saved_model_initializers")
        if initializers:
            sess.run(initializers)
        saver.restore(sess, path)

    def _run_local_init_op(self, sess: Any) -> _Readiness:
        """Runs the local init operation if the model is ready for it."""
        if self._local_init_op is None:
            return _READY
        found = _look(sess, self._ready_for_local_init_op, "Model not ready for local init")
        if found.ready:
            logging.info("Running local_init_op.")
            sess.run(
                self._local_init_op,
                feed_dict=self._local_init_feed_dict,
                options=self._local_init_run_options,
            )
            logging.info("Done running local_init_op.")
        return found

    def _is_usable(self, sess: Any, is_whole: Callable[[Any], bool]) -> bool:
        """Whether the model can be used as it is; runs the local init operation if so."""
        try:
            # First: the local init operation of synchronous training begins a new round.
            if not is_whole(sess):
                return False
        except errors.FailedPreconditionError as error:
            logging.info("The live model has variables without a value: %s", error.message)
            return False
        return self._run_local_init_op(sess).ready and self._model_ready(sess).ready

    def _model_ready(self, sess: Any) -> _Readiness:
        return _look(sess, self._ready_op, "Model not ready")

    def _describe(self, master: str, found: _Readiness) -> str:
        """What a waiting worker waits for, and what to check."""
        missing = self._missing_by_task(found.missing) if found.missing else found.reason
        return (
            f"for the chief to initialise or restore the model (target {master or 'local'!r}). "
            f"{missing}. Check that the chief (the task with is_chief=True) runs and uses the same "
            "cluster, and that its program builds these variables under these names."
        )

    def _missing_by_task(self, names: tuple[str, ...]) -> str:
        by_task: dict[str, list[str]] = {}
        for name in names[:_NAMED]:
            by_task.setdefault(self._task_of(name), []).append(name)
        groups = "; ".join(f"{', '.join(found)} on {task}" for task, found in by_task.items())
        more = f"; and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"Variables not initialized: {groups}{more}"

    def _task_of(self, name: str) -> str:
        try:
            device = self._graph.get_operation_by_name(name).device
        except (KeyError, ValueError):
            device = ""
        return device or "the default device"


def _look(sess: Any, op: Any, what: str) -> _Readiness:
    """Runs a ready operation: an empty result, or none that are names, means ready."""
    if op is None:
        return _READY
    try:
        names = sess.run(op)
    except errors.FailedPreconditionError as error:
        if "uninitialized" not in str(error):
            logging.warning("%s : error [%s]", what, error)
            raise
        return _Readiness(False, str(error))
    if names is None or names.dtype == np.int32 or names.size == 0:
        return _READY
    missing = tuple(name.decode("utf-8") for name in names.ravel())
    return _Readiness(False, "Variables not initialized: " + ", ".join(missing), missing)


def _recover_last_checkpoints(saver: Any, checkpoint_dir: str | None) -> None:
    """Lets a Saver know which checkpoints there are, so that it deletes old ones in time."""
    state = get_checkpoint_state(checkpoint_dir) if checkpoint_dir else None
    if state is not None:
        saver.recover_last_checkpoints(state.all_model_checkpoint_paths)


def _global_variables(graph: Graph) -> list[Any]:
    return graph.get_collection("variables")


def _name_of(thing: Any) -> str:
    if thing is None:
        return "None"
    return str(getattr(thing, "name", f"<no name for {type(thing)}>"))


def _close_quietly(sess: Any) -> None:
    """Closes a session that is not needed; that it cannot be closed is nobody's concern."""
    if sess is None:
        return
    try:
        sess.close()
    except Exception as error:
        logging.info("Closing a session: %s", error)
