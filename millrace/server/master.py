"""The master of a task: its sessions, and what other tasks answer to their steps."""

from __future__ import annotations

import itertools
import json
import queue
import secrets
import threading
from collections.abc import Callable, Sequence

from millrace.core import errors
from millrace.core.cluster_spec import ClusterSpec
from millrace.core.config import ConfigProto
from millrace.graph.graph import Graph
from millrace.platform import logging
from millrace.platform.file_access import FileAccess
from millrace.protocol.leaving import LeavingTasks
from millrace.protocol.step.events import PeerLost
from millrace.rpc import service_messages
from millrace.rpc.channel import start_thread
from millrace.rpc.service import on_abandoned
from millrace.server.drivers.pending_cut import PendingCut
from millrace.server.drivers.pending_step import PendingStep
from millrace.server.master_session import MasterSession
from millrace.server.peers import Peers
from millrace.server.tasks import filtered_tasks
from millrace.server.worker import Worker

#: Numbers of steps have 63 bits.
_NUMBERS = (1 << 63) - 1
#: How long a task may take to say what it waits for.
_WORD_SECONDS = 1.0
_STATUS_SECONDS = 5.0


class Master:
    """All sessions of one task's master."""

    def __init__(
        self,
        worker: Worker,
        peers: Peers,
        cluster: ClusterSpec,
        devices: Callable[[], list[service_messages.DeviceAttributes]],
        default_config: ConfigProto,
    ) -> None:
        self.worker = worker
        self.peers = peers
        self.cluster = cluster
        self.devices = devices
        self.default_config = default_config
        self._lock = threading.RLock()  # see Worker
        #: Steps of its sessions that are not over, by number.
        self.pending: dict[int, PendingStep] = {}
        self.sessions: dict[str, MasterSession] = {}
        self._opening: set[MasterSession] = set()
        self._closed = False
        #: Which tasks have left the job; set by the server.
        self.leaving = LeavingTasks(())
        #: The cuts that are being taken, or used, by number.
        self.cuts: dict[int, PendingCut] = {}
        #: Of steps and cuts: no other master's are near.
        self._numbers = itertools.count(secrets.randbits(62) | 1)
        #: What is to be done when there is time, also on behalf of the garbage collector, which
        #: may come at any point: hence a queue that a thread may enter twice.
        self._chores: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        start_thread(_do_chores, f"millrace chores of {worker.task}", self._chores)

    def new_number(self) -> int:
        """A number for a step."""
        return next(self._numbers) & _NUMBERS

    def create_session(
        self,
        graph: Graph,
        config: ConfigProto,
        target: str = "",
        file_access: FileAccess | None = None,
        client: str = "",
    ) -> MasterSession:
        """A new session; waits until the tasks that it may use are there.

        Args:
          graph: The client's graph.
          config: The session's ConfigProto.
          target: What the client connected to.
          file_access: What a client that is not in this process may touch.
          client: The name of such a client.

        Raises:
          UnavailableError: The server is stopped before they are.
        """
        session = MasterSession(self, graph, config, target, file_access, client)
        with self._lock:
            self._opening.add(session)
            closed = self._closed
        on_abandoned(session.give_up)
        try:
            if closed:
                session.give_up()
            session.open()
            with self._lock:
                closed = self._closed
                if not closed:
                    self.sessions[session.handle] = session
            if closed:
                session.close()
                raise errors.UnavailableError(
                    None, None, f"The server of {self.worker.task} has stopped."
                )
        finally:
            with self._lock:
                self._opening.discard(session)
        return session

    def later(self, chore: Callable[[], None]) -> None:
        """Does something soon, in another thread; may be called from a finalizer."""
        self._chores.put(chore)

    def session(self, handle: str) -> MasterSession:
        """The session of that name.

        Raises:
          AbortedError: There is none.
        """
        found = self.sessions.get(handle)
        if found is None:
            raise errors.AbortedError(
                None,
                None,
                f"Session {handle} is not found. Possibly, this master has restarted, or the "
                "session was closed or reset.",
            )
        return found

    def reset(self, containers: Sequence[str], filters: Sequence[str]) -> None:
        """Closes all sessions and drops resource containers on all tasks (or filtered ones)."""
        for session in list(self.sessions.values()):
            session.close()
        request = service_messages.CleanupAllRequest(container=containers)
        failure: errors.OpError | None = None
        for task, address in filtered_tasks(self.cluster, filters).items():
            if task == self.worker.task:
                self.worker.clear(containers)
                continue
            stub = self.peers.connection(address).worker()
            try:
                stub.cleanup_all(request, timeout=_STATUS_SECONDS)
            except errors.OpError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    # -- Answers ---------------------------------------------------------------------------

    def ask_why(self, address: str, number: int) -> str:
        """What the partition of a step waits for at another task, in words, as far as it tells."""
        try:
            answer = self.peers.connection(address).waits(number, _WORD_SECONDS)
            return str(json.loads(answer).get("waits", ""))
        except (errors.OpError, ValueError) as error:
            logging.debug("%s does not say what it waits for: %s", address, error)
            return ""

    def forget(self, number: int) -> None:
        """A step is over."""
        self.pending.pop(number, None)

    def needed(self) -> set[str]:
        """The addresses of the tasks that steps wait for."""
        found: set[str] = set()
        for pending in list(self.pending.values()):
            found.update(list(pending.step.waiting))
        return found

    def lost(self, address: str, error: errors.OpError) -> None:
        """A task is gone."""
        for pending in list(self.pending.values()):
            pending.tell(PeerLost(address, error))
        for cut in list(self.cuts.values()):
            cut.lost(address, error)

    def close(self) -> None:
        """Closes all sessions, also those that wait for their tasks."""
        with self._lock:
            self._closed = True
            opening, sessions = list(self._opening), list(self.sessions.values())
        for session in opening:
            session.give_up()
        for session in sessions:
            session.close()
        self._chores.put(None)


def _do_chores(chores: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (chore := chores.get()) is not None:
        try:
            chore()
        except Exception:
            logging.error("A chore failed", exc_info=True)
