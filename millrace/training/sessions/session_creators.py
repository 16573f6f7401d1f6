"""Session creators: how a monitored session gets its sessions, the first and later ones."""

from __future__ import annotations

import abc
from typing import Any

from millrace.core.config import ConfigProto
from millrace.core.device_spec import DeviceSpec
from millrace.graph.defaults import get_default_graph
from millrace.graph.graph import Graph
from millrace.training.checkpoint.state import get_checkpoint_state
from millrace.training.sessions.live_model import LiveModel
from millrace.training.sessions.scaffold import Scaffold
from millrace.training.sessions.session_manager import SessionManager
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock


class SessionCreator(abc.ABC):
    """Makes sessions."""

    @abc.abstractmethod
    def create_session(self) -> Any:
        """A new `tf.Session` whose model is ready."""
        raise NotImplementedError(f"create_session is not implemented for {self}.")


class _ScaffoldedCreator(SessionCreator):
    """A creator with a scaffold; the session manager is made once the graph is final."""

    def __init__(
        self, scaffold: Scaffold | None, master: str, config: Any, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._scaffold = scaffold or Scaffold()
        self._clock = clock
        self._master = master
        self._config = config
        self._session_manager: SessionManager | None = None

    def leave_out_idle_tasks(self) -> None:
        """Lets sessions do without tasks that the graph names no device of.

        Otherwise they wait for every task of the cluster, also for a worker that died. A
        configuration that has device filters is left as it is.
        """
        config = ConfigProto()
        if self._config is not None:
            config.CopyFrom(self._config)
        if not config.device_filters:
            config.device_filters.extend(_used_tasks(get_default_graph()))
            self._config = config

    def _get_session_manager(self) -> SessionManager:
        self._scaffold.finalize()
        if self._session_manager is None:
            self._session_manager = SessionManager(
                local_init_op=self._scaffold.local_init_op,
                local_init_feed_dict=self._scaffold.local_init_feed_dict,
                ready_op=self._scaffold.ready_op,
                ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
                graph=get_default_graph(),
                clock=self._clock,
            )
        return self._session_manager


def _used_tasks(graph: Graph) -> list[str]:
    """Filters for the tasks on which a graph has operations."""
    filters = set()
    for operation in graph.get_operations():
        device = DeviceSpec.from_string(operation.device)
        if device.job is not None:
            task = "" if device.task is None else f"/task:{device.task}"
            filters.add(f"/job:{device.job}{task}")
    return sorted(filters)


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
        self._model: LiveModel | None = None

    def create_session(self) -> Any:
        """A session with the model restored or initialised, or as it was if it still lives."""
        manager = self._get_session_manager()
        if self._model is None:
            self._model = LiveModel(get_default_graph())
        # A session of no cluster has its variables for itself.
        if self._master and self._model.is_known:
            adopted = self.adopt(self._model)
            if adopted is not None:
                return adopted
        session = self._prepare(manager)
        if self._master:
            self._model.remember(session)
        return session

    def adopt(self, model: LiveModel) -> Any | None:
        """A session with a model as it is; None if it has to be restored."""

        def is_whole(session: Any) -> bool:
            # What cannot be restored is better than nothing.
            return model.is_whole(session) or not self.has_checkpoint()

        return self._get_session_manager().adopt_session(
            self._master,
            self._config,
            model.lives_on,
            is_whole,
            self._checkpoint_dir,
            self._scaffold.saver,
        )

    def has_checkpoint(self) -> bool:
        """Whether there is one to restore."""
        if self._checkpoint_filename_with_path:
            return True
        state = get_checkpoint_state(self._checkpoint_dir) if self._checkpoint_dir else None
        return bool(state and state.model_checkpoint_path)

    def _prepare(self, manager: SessionManager) -> Any:
        return manager.prepare_session(
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
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Makes a creator.

        Args:
          scaffold: Has the operations; a default one when None.
          master: The target.
          config: A ConfigProto.
          max_wait_secs: How long to wait for the chief.
          clock: The time.
        """
        super().__init__(scaffold, master, config, clock)
        self._max_wait_secs = max_wait_secs

    def create_session(self) -> Any:
        """A session with the model that the chief made ready.

        Raises:
          DeadlineExceededError: That took too long.
        """
        return self._get_session_manager().wait_for_session(
            self._master, config=self._config, max_wait_secs=self._max_wait_secs
        )
