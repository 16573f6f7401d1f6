"""What a task keeps for the sessions of masters: the sessions, and their partitions of graphs.

A session is made before its first partition is registered and lasts until its master closes it, is
gone for good, or the server stops. The numbers of graphs are random: one that was given out before
the task was restarted finds nothing. A request for what is not here is told whether the server
has stopped, or else that the task was possibly restarted.

It runs nothing: `worker.py` does.
"""

from __future__ import annotations

import functools
import secrets
import threading
from collections.abc import Callable, Iterable

from millrace.core import errors
from millrace.passes.node import Node, Program
from millrace.passes.rendezvous import RECEIVES, SENDS
from millrace.passes.transfer import LOOP_RECEIVE, LOOP_SEND, RECEIVE, SEND
from millrace.platform.file_access import FileAccess
from millrace.protocol.step.events import PartitionFacts
from millrace.runtime import executor
from millrace.runtime.allotments import Allotments
from millrace.runtime.plan import Plan
from millrace.runtime.planning import plan_of
from millrace.runtime.resources import ResourceStore
from millrace.runtime.stages.transfer import ReceiveStage, SendStage
from millrace.runtime.step import SessionState
from millrace.server.admission.remote_client import ClientGraph, check_no_python
from millrace.server.drivers.effects import ChangingStage
from millrace.server.drivers.relay import Relay

#: A plan and the number of its graph in, the stages that change state out.
WatchEffects = Callable[[Plan, int], dict[int, ChangingStage]]
#: Sessions that have registered nothing yet; when there are more, the oldest is forgotten.
_MAX_IDLE_SESSIONS = 1024


class WorkerSession:
    """What a task keeps for one master session.

    Attributes:
      handle: The session's name.
      master: The address of the master's task.
      client: Whose it is: the master's address for a client in its process, else a name that is
        the same wherever the client comes from.
      addresses: Where the session's tasks are.
      elsewhere: Goes on with a partition in another thread, once the client has a share.
      resume: The same in this thread, if it delivers messages.
    """

    def __init__(
        self,
        handle: str,
        master: str,
        client: str,
        addresses: dict[str, str],
        resources: ResourceStore,
        file_access: FileAccess | None,
        ways: tuple[executor.Resume, executor.Resume],
    ) -> None:
        self.handle = handle
        self.master = master
        self.client = client
        self.addresses = addresses
        self.elsewhere, self.resume = ways
        #: Whether the thread that reads the master's messages may run partitions of it that are
        #: quick. Nobody else may wait for that thread, nor may a client have several of them.
        self.runs_at_once = False
        self.is_closed = False
        self.state = SessionState(resources, file_access)
        self.graphs: set[int] = set()


class RegisteredGraph:
    """A partition of a graph, ready to run.

    Attributes:
      number: Its name on this task.
      plan: The plan.
      nodes: The nodes that the plan was made of.
      stated: What a message has stated them as; None if the master is in this process.
      peers: Addresses of the tasks that it exchanges values with.
      received: The names of the tensors that each receive gets, by its key.
      reads: Variables that the master's task may ask for, by the key of what is sent.
      writing_tasks: The tasks whose variables a step changes that it is a part of, if that is more
        than this one's.
    """

    def __init__(
        self,
        number: int,
        session: WorkerSession,
        program: Program,
        stated: ClientGraph | None,
        feeds_one_by_one: bool,
    ) -> None:
        self.number = number
        self.stated = stated
        self.session = session
        self.program = program
        self.feeds_one_by_one = feeds_one_by_one
        self.nodes = list(program.nodes)
        self.reads = {node.attrs["key"]: SendStage(node) for node in _sent_on_request(program)}
        run = what_runs(program)
        self.arguments = list(program.arguments)
        tasks: set[str] = set()
        self.received: dict[int, list[str]] = {}
        for node in self.nodes:
            attrs = node.attrs
            if node.definition in (SEND, LOOP_SEND):
                tasks.add(attrs["to"].decode())
            elif node.definition in (RECEIVE, LOOP_RECEIVE):
                tasks.add(attrs["source"].decode())
                names = attrs["names"] if node.definition is RECEIVE else [attrs["name"]]
                self.received[attrs["key"]] = [name.decode() for name in names]
        #: Whether a master of TensorFlow has made it: what it sends is fetched by who needs it.
        self.has_rendezvous = any(
            node.definition in SENDS or node.definition in RECEIVES for node in run.nodes
        )
        self.peers = {session.addresses[task] for task in tasks}
        self.plan = plan_of(run, feeds_one_by_one=feeds_one_by_one)
        #: The key of the one thing that it waits for, if there is just one.
        self.only_receives = _only_receives(self.plan)
        #: What the step's rules need to know of it.
        self.facts = PartitionFacts(
            session.handle, frozenset(self.peers), self.only_receives, self.has_rendezvous
        )
        #: The stages that change state that outlives the step, by their places in the plan.
        self.changes: dict[int, ChangingStage] = {}
        #: Whether any of them changes variables.
        self.changes_variables = False
        #: The tasks whose variables a step changes that it is a part of.
        self.writing_tasks: tuple[str, ...] = ()
        #: Whether it ran before: the first run compiles, which takes long.
        self.has_run = False
        #: Whether it took little time when it ran last, with all that it needs.
        self.is_short = False

    def let_go(self) -> None:
        """It is not run any more; nothing of it waits for the collector of cyclic garbage."""
        for stage in self.plan.stages:
            _forget_forms(stage.nodes)
        if self.stated is not None:
            self.stated.let_go()


def _forget_forms(nodes: Iterable[Node]) -> None:
    """Lets go of how kernels are called: these refer to their nodes."""
    for node in nodes:
        node.form = None
        for body in node.bodies.values():
            _forget_forms(body.nodes)


def _sent_on_request(program: Program) -> list[Node]:
    return [n for n in program.nodes if n.definition is SEND and n.attrs["on_request"]]


def what_runs(program: Program) -> Program:
    """A partition without what it only sends when it is asked."""
    asked = set(_sent_on_request(program))
    return Program(
        [node for node in program.nodes if node not in asked],
        program.arguments,
        program.results,
        [node for node in program.targets if node not in asked],
    )


def _only_receives(plan: Plan) -> int | None:
    waiting = [stage for stage in plan.stages if stage.may_block]
    if len(waiting) != 1 or not isinstance(waiting[0], ReceiveStage) or plan.may_die:
        return None
    return waiting[0].key


class WorkerSessions:
    """The sessions of one task, and their graphs.

    Args:
      task: The task's name.
      resources: What sessions share.
      lock: The worker's, which may be taken again by the thread that has it: a session that is
        collected as garbage is closed in whatever thread that happens.
      allotments: Who may compute.
      relay: How partitions go on in the thread that delivers messages.
      cancel_steps: Ends the steps of a session that was closed.

    Attributes:
      by_handle: The sessions.
      graphs: Their partitions of graphs, by number.
      stopped: Whether the server has: there are no new sessions, graphs or steps any more.
    """

    def __init__(
        self,
        task: str,
        resources: ResourceStore,
        lock: threading.RLock,
        allotments: Allotments,
        relay: Relay,
        cancel_steps: Callable[[WorkerSession], None],
    ) -> None:
        self.stopped = False
        #: Called once, before the first partition is planned.
        self.before_first_graph: Callable[[], None] | None = None
        #: Told the address of each master that begins a session here.
        self.on_session: Callable[[str], None] = lambda master: None
        #: Lets all that changes state in a plan go through the task's record of applied steps, and
        #: says which stages do.
        self.watch_effects: WatchEffects = lambda plan, number: {}
        #: Why this task serves nobody yet, if it does not.
        self.refusal: errors.OpError | None = None
        self._task = task
        self._resources = resources
        self._lock = lock
        self._allotments = allotments
        self._relay = relay
        self._cancel_steps = cancel_steps
        self.by_handle: dict[str, WorkerSession] = {}
        self.graphs: dict[int, RegisteredGraph] = {}

    def create_session(
        self,
        handle: str,
        master: str,
        addresses: dict[str, str],
        isolated: bool,
        file_access: FileAccess | None = None,
        client: str = "",
    ) -> WorkerSession:
        """Makes ready for a master's session.

        Args:
          handle: Its name.
          master: The address of the master's task.
          addresses: Where its tasks are.
          isolated: Whether it shares no variables with others.
          file_access: What a session of a client elsewhere may touch; None for one in this
            process, which may do what the process may.
          client: Whose it is; empty for a client in the master's process.
        """
        resources = ResourceStore() if isolated else self._resources
        client = client or master
        elsewhere = functools.partial(self._allotments.run, client)
        resume = functools.partial(self._relay.resume, elsewhere=elsewhere)
        session = WorkerSession(
            handle, master, client, addresses, resources, file_access, (elsewhere, resume)
        )
        with self._lock:
            self.check_serves()
            self.by_handle[handle] = session
            self._settle_neighbours()
            idle = [s.handle for s in self.by_handle.values() if not s.graphs]
        self.on_session(master)
        if len(idle) > _MAX_IDLE_SESSIONS:
            self.delete_session(idle[0])  # Its master made it, did not use it, and is gone.
        return session

    def has_session(self, handle: str) -> bool:
        """Whether there is a session of that name."""
        return handle in self.by_handle

    def session(self, handle: str) -> WorkerSession:
        """The session of that name.

        Raises:
          AbortedError: There is none: this task was restarted, or the session was closed.
        """
        found = self.by_handle.get(handle)
        if found is None:
            self.check_serves()
            raise errors.AbortedError(
                None,
                None,
                f"Session {handle} is not known on {self._task}. Possibly this task has just "
                "been restarted: make a new session.",
            )
        return found

    def delete_session(self, handle: str) -> None:
        """Forgets a session, its graphs and its steps; nothing happens if there is none."""
        with self._lock:
            session = self.by_handle.pop(handle, None)
            if session is None:
                return
            session.is_closed = True
            self._settle_neighbours()
            gone = [self.graphs.pop(number) for number in session.graphs if number in self.graphs]
        self._cancel_steps(session)
        for graph in gone:
            graph.let_go()
        session.state.close()
        if session.state.resources is not self._resources:
            session.state.resources.clear_all()

    def _settle_neighbours(self) -> None:
        """Finds out again whose partitions may run where messages are read."""
        sessions = self.by_handle.values()
        clients: dict[str, set[str]] = {}
        masters: dict[str, set[str]] = {}
        for each in sessions:
            clients.setdefault(each.master, set()).add(each.client)
            masters.setdefault(each.client, set()).add(each.master)
        for each in sessions:
            # A master's own process is never slowed down: its remote clients share that thread.
            alone = len(clients[each.master]) == 1 and len(masters[each.client]) == 1
            each.runs_at_once = alone or each.client == each.master

    def sessions_of(self, master: str) -> list[str]:
        """Sessions that a master has here."""
        with self._lock:
            return [s.handle for s in self.by_handle.values() if s.master == master]

    def are_of_others(self, address: str) -> bool:
        """Whether a master at another address has a session here."""
        with self._lock:
            return any(session.master != address for session in self.by_handle.values())

    def register(
        self,
        session: WorkerSession,
        program: Program,
        stated: ClientGraph | None = None,
        *,
        feeds_one_by_one: bool = False,
        writing_tasks: Iterable[str] = (),
    ) -> RegisteredGraph:
        """Plans a program.

        Args:
          session: Whose it is.
          program: The program.
          feeds_one_by_one: Whether its arguments arrive one after the other, in a partial run.
          writing_tasks: The tasks whose variables the steps that it is a part of change.
        """
        prepare, self.before_first_graph = self.before_first_graph, None
        if prepare is not None:
            prepare()
        if session.state.file_access is not None:
            check_no_python(program.nodes)
        # Not 1, 2, 3: a master that knew this task before it was restarted must not run a graph
        # of somebody else's by its old number.
        graph = RegisteredGraph(secrets.randbits(62), session, program, stated, feeds_one_by_one)
        graph.changes = self.watch_effects(graph.plan, graph.number)
        graph.changes_variables = any(
            each.effect.variables and not each.is_of_resources for each in graph.changes.values()
        )
        graph.writing_tasks = tuple(writing_tasks)
        with self._lock:
            self.check_serves()
            if self.by_handle.get(session.handle) is not session:
                raise errors.CancelledError(None, None, "Session has been closed.")
            self.graphs[graph.number] = graph
            session.graphs.add(graph.number)
        compile_ahead = graph.plan.compile_ahead()
        if compile_ahead is not None:
            # By itself: steps of the client need not wait for what they may not need.
            self._allotments.run(f"{session.client} compiles", compile_ahead)
        return graph

    def deregister(self, number: int) -> None:
        """Forgets a program."""
        with self._lock:
            graph = self.graphs.pop(number, None)
            if graph is None:
                return
            graph.session.graphs.discard(number)
        graph.let_go()

    def graph(self, number: int) -> RegisteredGraph:
        """The program of that number.

        Raises:
          AbortedError: There is none.
        """
        found = self.graphs.get(number)
        if found is None:
            self.check_serves()
            raise errors.AbortedError(
                None,
                None,
                f"Graph handle {number} is not found on {self._task}. Possibly this task has "
                "just been restarted: make a new session.",
            )
        return found

    def close(self) -> None:
        """Forgets all sessions."""
        with self._lock:
            handles = list(self.by_handle)
        for handle in handles:
            self.delete_session(handle)

    def check_serves(self) -> None:
        """Raises when the server has stopped: "not found" would be true, but not the reason."""
        if self.refusal is not None:
            raise errors.UnavailableError(None, None, self.refusal.message)
        if self.stopped:
            raise self.stopped_error()

    def stopped_error(self) -> errors.OpError:
        """What is said of everything once the server has stopped."""
        return errors.UnavailableError(None, None, f"The server of {self._task} has stopped.")
