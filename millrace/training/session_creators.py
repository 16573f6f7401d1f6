"""Session creators: how a monitored session gets its sessions, the first and later ones."""

from __future__ import annotations

import abc
from typing import Any

from millrace.graph.defaults import get_default_graph
from millrace.training.scaffold import Scaffold
from millrace.training.session_manager import SessionManager


class SessionCreator(abc.ABC):
    """Makes sessions."""

    @abc.abstractmethod
    def create_session(self) -> Any:
        """A new `tf.Session` whose model is ready."""
        raise NotImplementedError(f"create_session is not implemented for {self}.")


class _ScaffoldedCreator(SessionCreator):
    """A creator with a scaffold; the session manager is made once the graph is final."""

    def __init__(self, scaffold: Scaffold | None, master: str, config: Any) -> None:
        self._scaffold = scaffold or Scaffold()
        self._master = master
        self._config = config
        self._session_manager: SessionManager | None = None

    def _get_session_manager(self) -> SessionManager:
        self._scaffold.finalize()
        if self._session_manager is None:
            self._session_manager = SessionManager(
                local_init_op=self._scaffold.local_init_op,
                local_init_feed_dict=self._scaffold.local_init_feed_dict,
                ready_op=self._scaffold.ready_op,
                ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
                graph=get_default_graph(),
            )
        return self._session_manager


class ChiefSessionCreator(_ScaffoldedCreator):
    """Makes sessions for a chief: restores the newest checkpoint, or initialises."""

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        """Makes a creator.

        Args:
          scaffold: Has the operations; a default one when None.
          master: The target.
          config: A ConfigProto.
          checkpoint_dir: The folder with checkpoints to restore from.
          checkpoint_filename_with_path: A checkpoint to restore instead.
        """
        super().__init__(scaffold, master, config)
        self._checkpoint_dir = checkpoint_dir
        self._checkpoint_filename_with_path = checkpoint_filename_with_path

    def create_session(self) -> Any:
        """A session with the model restored or initialised."""
        return self._get_session_manager().prepare_session(
            self._master,
            saver=self._scaffold.saver,
            checkpoint_dir=self._checkpoint_dir,
            checkpoint_filename_with_path=self._checkpoint_filename_with_path,
            config=self._config,
            init_op=self._scaffold.init_op,
            init_feed_dict=self._scaffold.init_feed_dict,
            init_fn=self._scaffold.init_fn,
        )


class WorkerSessionCreator(_ScaffoldedCreator):
    """Makes sessions for a worker: waits until the chief has made the model ready."""

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        max_wait_secs: float | None = 30 * 60,
    ) -> None:
        """Makes a creator.

        Args:
          scaffold: Has the operations; a default one when None.
          master: The target.
          config: A ConfigProto.
          max_wait_secs: How long to wait for the chief.
        """
        super().__init__(scaffold, master, config)
        self._max_wait_secs = max_wait_secs

    def create_session(self) -> Any:
        """A session with the model that the chief made ready.

        Raises:
          DeadlineExceededError: That took too long.
        """
        return self._get_session_manager().wait_for_session(
            self._master, config=self._config, max_wait_secs=self._max_wait_secs
        )
