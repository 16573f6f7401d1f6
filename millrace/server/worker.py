"""The worker of a task: runs its parts of steps.

A part is registered once and run many times. A part that another task's master asked for holds
no thread while it waits: what it waits for goes on with it on arrival.
"""

from __future__ import annotations

import contextlib
import functools
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any

from millrace.core import errors
from millrace.passes.node import Node, Program
from millrace.passes.rendezvous import RECEIVES, SENDS
from millrace.passes.transfer import LOOP_RECEIVE, LOOP_SEND, RECEIVE, SEND
from millrace.platform import limits
from millrace.platform.file_access import FileAccess
from millrace.rpc.channel import Channel
from millrace.rpc.message import Kind, Message
from millrace.runtime import chain, executor
from millrace.runtime.allotments import Allotments
from millrace.runtime.cancellation import Cancellation
from millrace.runtime.deferred import Deferred
from millrace.runtime.kernel_call import StoredState, VariableRef, op_error
from millrace.runtime.mailbox import Mailbox
from millrace.runtime.plan import Plan
from millrace.runtime.resources import ResourceStore, VariableSlot
from millrace.runtime.step import SessionState, Step
from millrace.runtime.transfer_stage import ReceiveStage, SendStage
from millrace.server.boards import Boards
from millrace.server.guest import check_no_python
from millrace.server.relay import Relay
from millrace.server.remote_part import LateParts, RunRequest
from millrace.server.transfer_log import TransferLog

#: Sessions that have registered nothing yet; when there are more, the oldest is forgotten.
_MAX_IDLE_SESSIONS = 1024
#: A master that has begun no step here for so many seconds is not watched any more.
_WATCHED_SECONDS = 60.0
#: Steps of TensorFlow's masters whose values are kept after this task's part is over.
_MAX_KEPT_STEPS = 1024
#: So many steps are remembered of those for which one other task was sent something.
_MAX_SENT_STEPS = 64
#: What ops say of queues and variables that went away with their session.
_OF_WHAT_IS_GONE = (
    errors.NotFoundError,
    errors.OutOfRangeError,
    errors.FailedPreconditionError,
)
#: Is told the step, its results (where they are), or the error.
OnDone = Callable[[Step | None, list[Any], errors.OpError | None], None]
#: Sends a message to the task at an address.
Post = Callable[[str, Message], None]
#: Fetches what another task has for a step: address, step, key, what ends the wait.
Fetch = Callable[[str, int, str, Cancellation], Deferred]


class WorkerSession:
    """What a task keeps for one master session.

    Attributes:
      handle: The session's name.
      master: The address of the master's task.
      client: Whose it is: the master's address for a client in its process, else a name that is
        the same wherever the client comes from.
      addresses: Where the session's tasks are.
      elsewhere: Goes on with a part in another thread, when it is the client's turn.
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
        #: Whether the thread that reads the master's messages may run parts of it that are quick.
        #: Nobody else may wait for that thread, nor may a client have several of them.
        self.runs_at_once = False
        self.is_closed = False
        self.state = SessionState(resources, file_access)
        self.graphs: set[int] = set()


class RegisteredGraph:
    """A part of a graph, ready to run.

    Attributes:
      number: Its name on this task.
      plan: The plan.
      nodes: The nodes that the plan was made of.
      peers: Addresses of the tasks that it exchanges values with.
      received: The names of the tensors that each receive gets, by its key.
      reads: Variables that the master's task may ask for, by the key of what is sent.
    """

    def __init__(self, number: int, session: WorkerSession, program: Program, late: bool) -> None:
        self.number = number
        self.session = session
        self.nodes = list(program.nodes)
        asked = [n for n in program.nodes if n.definition is SEND and n.attrs["on_request"]]
        self.reads = {node.attrs["key"]: SendStage(node) for node in asked}
        program.nodes = [node for node in program.nodes if node not in asked]
        program.targets = [node for node in program.targets if node not in asked]
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
            node.definition in SENDS or node.definition in RECEIVES for node in program.nodes
        )
        self.peers = {session.addresses[task] for task in tasks}
        self.plan = Plan(program, late_arguments=late)
        #: The key of the one thing that it waits for, if there is just one.
        self.only_receives = _only_receives(self.plan)
        #: Whether it ran before: the first run compiles, which takes long.
        self.has_run = False


def _only_receives(plan: Plan) -> int | None:
    waiting = [stage for stage in plan.stages if getattr(stage, "blocking", False)]
    if len(waiting) != 1 or not isinstance(waiting[0], ReceiveStage) or plan.may_die:
        return None
    return waiting[0].key


class _Exchange:
    """How a part's sends and receives reach the other tasks."""

    __slots__ = (
        "_graph",
        "_number",
        "_session",
        "_worker",
        "cancellation",
        "given",
        "last",
        "late",
    )

    def __init__(
        self, worker: Worker, graph: RegisteredGraph, number: int, cancellation: Cancellation
    ) -> None:
        self.cancellation = cancellation
        self._worker = worker
        self._graph = graph
        self._session = graph.session
        self._number = number
        #: What goes to the master with the message that the part is over.
        self.last: list[Any] = []
        #: The key and the values that a part of another task's step began with.
        self.given: tuple[int, list[Any]] | None = None
        #: In the master's part: the other parts that begin with what is sent to them.
        self.late: LateParts | None = None

    def send_last(self, tensors: list[Any]) -> None:
        """Sends values to the master's task when the part is over."""
        self.last = tensors

    def send(self, to: str, key: int, tensors: list[Any], tag: bytes = b"") -> None:
        """Sends values; the tag tells which iteration of a loop they are of."""
        if self.late is not None and self.late.begins(key, tensors):
            return
        self._worker.boards.refresh()
        message = Message(Kind.TENSORS, self._number, key, tag, tensors)
        address = self._session.addresses[to]
        if address != self._session.master:
            self._worker.note_sent(self._session, address, self._number)
        self._worker.post(address, message)

    def receive(self, source: str, key: int, tag: bytes = b"") -> list[Any] | Deferred:
        """The values, or what will have them."""
        if self.given is not None and self.given[0] == key:
            return self.given[1]
        box = (key, tag) if tag else key
        found: list[Any] | Deferred | None = None
        if self.late is not None:
            found = self.late.read(key)
        if found is None:
            found = self._worker.mailbox.take(self._number, box, f"values from {source}")
        if self._worker.transfers.enabled:
            self._note(source, key, found)
        return found

    def put(self, node: Node, key: str, tensor: Any) -> None:
        """Keeps a value for whoever asks for its key."""
        if isinstance(tensor, VariableRef):
            tensor = tensor.read()
        self._worker.mailbox.deliver(self._number, key, [tensor])

    def fetch(self, node: Node, key: str) -> Any:
        """The value that was kept under a key, here or at the task that sends it."""
        source = node.attrs["send_device"].decode().partition("/device:")[0]
        worker, number = self._worker, self._number
        if source == worker.task or node.attrs["client_terminated"]:
            found = worker.mailbox.take(number, key, f"{key.split(';')[3]} of this task")
            if not isinstance(found, Deferred):
                return found[0]
            alone = Deferred(found.waits_for)
            found.add_callback(lambda values: _hand_on_first(values, alone))
            return alone
        address = self._session.addresses.get(source)
        if address is None:
            raise errors.InvalidArgumentError(
                None,
                node.source,
                f"{node.name} receives from {source}, which is not in the cluster of the "
                f"session: it has {', '.join(sorted(self._session.addresses))}.",
            )
        start, name = time.time_ns(), key.split(";")[3]
        fetched = worker.fetch_tensor(address, number, key, self.cancellation)
        if worker.transfers.enabled:

            def note(done: Deferred) -> None:
                if not done.failed:
                    found = [done.result()]
                    worker.transfers.note(number, [name], source, worker.task, found, start)

            fetched.add_callback(note)
        return fetched

    def _note(self, source: str, key: int, found: list[Any] | Deferred) -> None:
        start, log = time.time_ns(), self._worker.transfers
        names, number, to = self._graph.received.get(key, ()), self._number, self._worker.task
        if not isinstance(found, Deferred):
            log.note(number, names, source, to, found, start)
            return

        def arrived(deferred: Deferred) -> None:
            if deferred.failed is False:
                log.note(number, names, source, to, deferred.result(), start)

        found.add_callback(arrived)


def _hand_on_first(values: Deferred, to: Deferred) -> None:
    try:
        to.set_result(values.result()[0])
    except Exception as error:
        to.set_error(error)


class _Running:
    __slots__ = ("graph", "master", "step", "waits_for")

    def __init__(self, graph: RegisteredGraph, step: Step, master: str) -> None:
        self.graph = graph
        self.step = step
        self.master = master
        #: Says what the part waits for, if it was asked for by another task.
        self.waits_for: Callable[[], str] = str


class Worker:
    """Runs the parts of steps that fall to this task.

    Attributes:
      task: The task's name.
      resources: What sessions share.
    """

    def __init__(self, task: str, post: Post, threads: Any) -> None:
        self.task = task
        self.post = post
        self.resources = ResourceStore()
        self.mailbox = Mailbox()
        #: What arrived in the last steps, when somebody has asked for a log.
        self.transfers = TransferLog()
        self._threads = threads
        #: What tasks on this machine may read of the variables here.
        self.boards = Boards()
        #: Called once, before the first part is planned.
        self.before_first_graph: Callable[[], None] | None = None
        # A session may be collected as garbage, and be closed then, while its thread is in here.
        self._lock = threading.RLock()
        self._sessions: dict[str, WorkerSession] = {}
        self._graphs: dict[int, RegisteredGraph] = {}
        self._running: dict[int, _Running] = {}
        #: When each other task's master has last begun or ended something here: what it does
        #: between reading variables and sending gradients is a step, of which nothing runs here.
        self._heard_of: dict[str, float] = {}
        #: By the address of a task: the last steps for which it was sent something, with their
        #: masters. What it was sent is lost with the connection if it has not read it.
        self._sent: dict[str, deque[tuple[int, str]]] = {}
        self._relay = Relay(self.resume_elsewhere)
        #: How many steps and parts of steps of each client compute here at a time.
        self.allotments = Allotments(limits.COMPUTING_STEPS_PER_CLIENT.value, self.resume_elsewhere)
        #: Told the address of each master that begins a session here.
        self.on_session: Callable[[str], None] = lambda master: None
        self._stopped = False
        #: Set by the server.
        self.fetch_tensor: Fetch
        self._kept: OrderedDict[int, None] = OrderedDict()
        #: Steps that were run, and XLA programs that they called.
        self.steps = 0
        self.xla_calls = 0

    # -- Sessions and graphs ---------------------------------------------------------------

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
        resources = ResourceStore() if isolated else self.resources
        client = client or master
        elsewhere = functools.partial(self.allotments.run, client)
        resume = functools.partial(self._relay.resume, elsewhere=elsewhere)
        session = WorkerSession(
            handle, master, client, addresses, resources, file_access, (elsewhere, resume)
        )
        with self._lock:
            self._check_serves()
            self._sessions[handle] = session
            self._settle_neighbours()
            idle = [s.handle for s in self._sessions.values() if not s.graphs]
        if len(idle) > _MAX_IDLE_SESSIONS:
            self.delete_session(idle[0])  # Its master made it, did not use it, and is gone.
        return session

    def has_session(self, handle: str) -> bool:
        """Whether there is a session of that name."""
        return handle in self._sessions

    def session(self, handle: str) -> WorkerSession:
        """The session of that name.

        Raises:
          AbortedError: There is none: this task was restarted, or the session was closed.
        """
        found = self._sessions.get(handle)
        if found is None:
            self._check_serves()
            raise errors.AbortedError(
                None,
                None,
                f"Session {handle} is not known on {self.task}. Possibly this task has just "
                "been restarted: make a new session.",
            )
        return found

    def delete_session(self, handle: str) -> None:
        """Forgets a session, its graphs and its steps; nothing happens if there is none."""
        with self._lock:
            session = self._sessions.pop(handle, None)
            if session is None:
                return
            session.is_closed = True
            self._settle_neighbours()
            for number in session.graphs:
                self._graphs.pop(number, None)
            numbers = [n for n, r in self._running.items() if r.graph.session is session]
        for number in numbers:
            self.cancel(number, errors.CancelledError(None, None, "Session has been closed."))
        session.state.close()
        if session.state.resources is not self.resources:
            session.state.resources.clear_all()

    def _settle_neighbours(self) -> None:
        """Finds out anew whose parts may run where messages are read."""
        sessions = self._sessions.values()
        clients: dict[str, set[str]] = {}
        masters: dict[str, set[str]] = {}
        for each in sessions:
            clients.setdefault(each.master, set()).add(each.client)
            masters.setdefault(each.client, set()).add(each.master)
        for each in sessions:
            # A master's own process is never slowed down: it shares that thread with its guests.
            alone = len(clients[each.master]) == 1 and len(masters[each.client]) == 1
            each.runs_at_once = alone or each.client == each.master

    def sessions_of(self, master: str) -> list[str]:
        """Sessions that a master has here."""
        with self._lock:
            return [s.handle for s in self._sessions.values() if s.master == master]

    def register(
        self, session: WorkerSession, program: Program, *, late: bool = False
    ) -> RegisteredGraph:
        """Plans a program."""
        prepare, self.before_first_graph = self.before_first_graph, None
        if prepare is not None:
            prepare()
        if session.state.file_access is not None:
            check_no_python(program.nodes)
        # Not 1, 2, 3: a master that knew this task before it was restarted must not run a graph
        # of somebody else's by its old number.
        graph = RegisteredGraph(secrets.randbits(62), session, program, late)
        with self._lock:
            self._check_serves()
            if self._sessions.get(session.handle) is not session:
                raise errors.CancelledError(None, None, "Session has been closed.")
            self._graphs[graph.number] = graph
            session.graphs.add(graph.number)
        compile_ahead = graph.plan.compile_ahead()
        if compile_ahead is not None:
            # By itself: steps of the client need not wait for what they may not need.
            self.allotments.run(f"{session.client} compiles", compile_ahead)
        return graph

    def deregister(self, number: int) -> None:
        """Forgets a program."""
        with self._lock:
            graph = self._graphs.pop(number, None)
            if graph is not None:
                graph.session.graphs.discard(number)

    def graph(self, number: int) -> RegisteredGraph:
        """The program of that number.

        Raises:
          AbortedError: There is none.
        """
        found = self._graphs.get(number)
        if found is None:
            self._check_serves()
            raise errors.AbortedError(
                None,
                None,
                f"Graph handle {number} is not found on {self.task}. Possibly this task has "
                "just been restarted: make a new session.",
            )
        return found

    # -- Steps -----------------------------------------------------------------------------

    def begin(self, graph: RegisteredGraph, number: int, step: Step, master: str) -> Step:
        """Makes a step known, so that values find it and cancellation ends it.

        Raises:
          OpError: The step has failed elsewhere already.
        """
        ended = self.mailbox.error_of(number)
        if ended is not None:
            raise ended
        step.exchange = _Exchange(self, graph, number, step.cancellation)
        # When one op of the part fails, nobody sends what the others wait for.
        step.cancellation.register(lambda: self.mailbox.end(number, step.cancellation.error))
        with self._lock:
            self._check_serves()
            self._running[number] = _Running(graph, step, master)
        # Whoever cancelled it before it could be found has told the mailbox.
        ended = self.mailbox.error_of(number)
        if ended is not None:
            step.cancellation.cancel(ended)
        return step

    def waits(self, number: int) -> str:
        """What the part of a step waits for here, in words; empty if there is none."""
        running = self._running.get(number)
        return "" if running is None else running.waits_for()

    def describe_wait(self, number: int, waits_for: Callable[[], str]) -> None:
        """Lets a part say what it waits for."""
        running = self._running.get(number)
        if running is not None:
            running.waits_for = waits_for

    def is_running(self, number: int) -> bool:
        """Whether a part of a step runs here."""
        return number in self._running

    def cancel_if_running(self, number: int) -> None:
        """Ends a step that nobody waits for any more."""
        if self.is_running(number):
            self.cancel(number, errors.CancelledError(None, None, "The caller is gone."))

    def end(self, number: int, error: errors.OpError | None = None) -> None:
        """Forgets a step."""
        self.boards.refresh()
        with self._lock:
            running = self._running.pop(number, None)
            if running is not None:
                self.steps += 1
                self.xla_calls += running.step.xla_calls
            if running is not None and running.graph.has_rendezvous and error is None:
                # Others may still ask for its values, until the master says that it is over.
                self._kept[number] = None
                ended = []
                while len(self._kept) > _MAX_KEPT_STEPS:
                    ended.append(self._kept.popitem(last=False)[0])
            else:
                ended = [number]
        for each in ended:
            self.mailbox.end(each, error)
        if running is not None:
            running.step.cancellation.forget()

    def cancel(self, number: int, error: errors.OpError) -> None:
        """Ends every wait of a step, also of one that is not known yet."""
        with self._lock:
            self._kept.pop(number, None)
        self.mailbox.end(number, error)
        running = self._running.get(number)
        if running is not None:
            running.step.cancellation.cancel(error)

    def run(
        self,
        graph_number: int,
        number: int,
        master: str,
        request: RunRequest,
        on_done: OnDone,
    ) -> None:
        """Runs a part for the master of another task; returns at once or when it has to wait.

        Args:
          graph_number: Which part.
          number: The step.
          master: The address of the master's task.
          request: What it is run with.
          on_done: Is told the end.
        """
        feeds = request.feeds
        try:
            graph = self.graph(graph_number)
            if len(feeds) != len(graph.plan.argument_slots):
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"{len(graph.plan.argument_slots)} values expected, got {len(feeds)}",
                )
            runs_at_once = graph.session.runs_at_once and master != ""
            quick = runs_at_once and graph.has_run and graph.plan.is_quick
            step = Step(graph.session.state, executor.run_values, trace=request.trace)
            first = request.first
            if first is not None:
                self._heard_of[master] = time.monotonic()
            if quick and first is not None and graph.only_receives == first[0]:
                self._relay.deliver(
                    lambda: self._run_at_once(graph, number, step, request, on_done)
                )
                return
            self.begin(graph, number, step, master)
            step.exchange.given = first
        except errors.OpError as error:
            on_done(None, [], error)
            return
        execution = chain.execution(graph.plan, step)
        for i, value in enumerate(feeds):
            execution.provide(i, value)

        def finished(error: BaseException | None) -> None:
            results: list[Any] = []
            if error is None:
                graph.has_run = True
                try:
                    results = [execution.values[slot] for slot in graph.plan.result_slots]
                    step.wait_until_done()
                except Exception as failure:
                    error = failure
            found = None if error is None else cause_of(error, step)
            on_done(step, results, self.end_part(number, found))

        if quick:
            self.describe_wait(number, execution.waits_for)
            self._relay.deliver(lambda: execution.drive(graph.session.resume, finished))
            return

        def start() -> None:
            if step.cancellation.error is not None:  # while it waited for its turn
                finished(step.cancellation.error)
                return
            self.describe_wait(number, execution.waits_for)
            execution.drive(graph.session.elsewhere, finished)

        self.describe_wait(number, lambda: _turn_of(graph.session.client))
        graph.session.elsewhere(start)

    def _run_at_once(
        self,
        graph: RegisteredGraph,
        number: int,
        step: Step,
        request: RunRequest,
        on_done: OnDone,
    ) -> None:
        """Runs a part that has all it needs: it need not be found by what it would wait for."""
        exchange = step.exchange = _Exchange(self, graph, number, step.cancellation)
        exchange.given = request.first
        found: errors.OpError | None = None
        results: list[Any] = []
        try:
            if self._stopped:
                raise self._stopped_error()
            results = executor.run_without_waiting(graph.plan, step, request.feeds)
            step.wait_until_done()
        except Exception as error:
            found = cause_of(error, step)
        if self._stopped:
            found = self._stopped_error()
        self.boards.refresh()
        self.count(step)
        on_done(step, results, found)

    def read(self, graph_number: int, key: int, channel: Channel) -> tuple[list[Any], bytes | None]:
        """Variables that another task's part of a step asks for, as they are now.

        Returns:
          Their values, and what tells that task where they are shown, if they are.

        Raises:
          AbortedError: This task does not know the graph.
          FailedPreconditionError: A variable has no value.
        """
        graph = self.graph(graph_number)
        self._heard_of[channel.address] = time.monotonic()
        stage = graph.reads.get(key)
        if stage is None:
            raise errors.InvalidArgumentError(
                None, None, f"Graph {graph_number} has nothing to read under the key {key}."
            )
        try:
            resources = graph.session.state.resources
            return stage.values(resources), self.boards.offer(channel, stage, resources)
        except Exception as error:
            raise op_error(stage.node, error) from None

    def end_part(self, number: int, error: errors.OpError | None) -> errors.OpError | None:
        """Forgets a step that another task's master asked for; the error to tell it."""
        if self._stopped:
            # Its variables went away under it: what it says of them, or failed of, is not so.
            error = self._stopped_error()
        elif isinstance(error, _OF_WHAT_IS_GONE):
            running = self._running.get(number)
            if running is not None and running.graph.session.is_closed:
                error = running.step.cancellation.error or error  # Its queues did the same.
        self.end(number, error)
        return error

    def after_run(self, graph: RegisteredGraph) -> executor.Resume:
        """How a part goes on that has run before."""
        graph.has_run = True
        session = graph.session
        at_once = session.runs_at_once and graph.plan.is_quick
        return session.resume if at_once else session.elsewhere

    def count(self, step: Step) -> None:
        """Counts a step that goes on to be repeated."""
        with self._lock:
            self.steps += 1
            self.xla_calls += step.xla_calls
            step.xla_calls = 0

    def resume_elsewhere(self, go_on: Callable[[], None]) -> None:
        """Goes on with a part in another thread."""
        try:
            self._threads.submit(go_on)
        except RuntimeError:
            go_on()  # The server has stopped: all that is left to do is to end the step.

    def deliver(self, message: Message, source: str) -> None:
        """Takes values that another task sent; called in a transport's thread."""
        key = (message.key, message.text) if message.text else message.key
        self._relay.deliver(
            lambda: self.mailbox.deliver(message.step, key, message.tensors, source)
        )

    def needed(self) -> set[str]:
        """The addresses of the tasks that running parts wait for, and of masters at work."""
        earliest = time.monotonic() - _WATCHED_SECONDS
        with self._lock:
            running = list(self._running.values())
            self._heard_of = {m: at for m, at in self._heard_of.items() if at > earliest}
            found = {each.master for each in running} | {*self._heard_of}
        for graph in {each.graph for each in running}:
            found |= graph.peers
        return found

    def lost(self, address: str, error: errors.OpError) -> None:
        """The task at an address is gone: fails the steps that need it."""
        with self._lock:
            numbers = [
                number
                for number, running in self._running.items()
                if running.master == address or address in running.graph.peers
            ]
            known = set(self._running)
            sent = self._sent.pop(address, ())
        for number in numbers:
            self.cancel(number, error)
        self.mailbox.forget_source(address, known)
        in_vain = [(number, master) for number, master in sent if number not in known]
        if in_vain:
            self.resume_elsewhere(lambda: self._tell_in_vain(in_vain, address, error))

    def note_sent(self, session: WorkerSession, address: str, number: int) -> None:
        """A part of a step has something for a task that is not the master's."""
        if session.master != session.addresses.get(self.task):
            sent = self._sent.get(address)
            if sent is None:
                sent = self._sent.setdefault(address, deque(maxlen=_MAX_SENT_STEPS))
            sent.append((number, session.master))

    def _tell_in_vain(
        self, steps: list[tuple[int, str]], address: str, error: errors.OpError
    ) -> None:
        """Tells masters that what was sent for steps of theirs may never have arrived.

        This task's parts of them are over, and the lost task may begin its own when it is back: it
        would wait for ever for what it was sent before.
        """
        words = f"What {self.task} sent to {address} for this step may be lost. {error.message}"
        for number, master in steps:
            if master == address:
                continue
            with contextlib.suppress(errors.OpError):
                text = words.encode()
                self.post(master, Message(Kind.DONE, number, errors.UNAVAILABLE, text))

    def lost_master(self, address: str) -> None:
        """The task at an address is gone for good: forgets the sessions of its master."""
        self._heard_of.pop(address, None)
        for handle in self.sessions_of(address):
            self.delete_session(handle)

    def clear(self, containers: Iterable[str]) -> None:
        """Drops resource containers, the default one when none is named."""
        self.resources.clear(list(containers) or None)

    def status(self) -> dict[str, Any]:
        """What it holds and has done, in plain values."""
        variables = []
        global_step = None
        for container, name, slot in self.resources.all_of(VariableSlot):
            value = slot.value
            if value is None:
                continue
            variables.append(
                {
                    "name": name,
                    "container": container,
                    "dtype": str(value.dtype),
                    "shape": list(value.shape),
                    "bytes": int(value.nbytes),
                }
            )
            if name == "global_step" and not value.shape:
                global_step = StoredState(self.resources).read_slot(slot)
        with self._lock:
            return {
                "steps": self.steps,
                "running_steps": len(self._running),
                "xla_calls": self.xla_calls,
                "graphs": len(self._graphs),
                "variables": variables,
                "global_step": None if global_step is None else int(global_step),
            }

    def close(self) -> None:
        """Cancels everything and drops all state."""
        error = self._stopped_error()
        with self._lock:
            self._stopped = True
            numbers, handles = list(self._running), list(self._sessions)
        for number in numbers:
            self.cancel(number, error)
        for handle in handles:
            self.delete_session(handle)
        self.boards.close()
        self.resources.clear_all()

    def _stopped_error(self) -> errors.OpError:
        return errors.UnavailableError(None, None, f"The server of {self.task} has stopped.")

    def _check_serves(self) -> None:
        """Raises when the server has stopped: "not found" would be true, but not the reason."""
        if self._stopped:
            raise self._stopped_error()


def _turn_of(client: str) -> str:
    """What a part waits for that may not compute yet, in words."""
    limit = limits.COMPUTING_STEPS_PER_CLIENT
    return f"its turn: {limit.value:.0f} {limit.what} ({client}; {limit.variable} raises it)"


def cause_of(error: BaseException, step: Step) -> errors.OpError:
    """Why a part of a step failed: an op that was cancelled says only that it was."""
    found, cause = as_op_error(error), step.cancellation.error
    if isinstance(found, errors.CancelledError) and cause is not None:
        return cause if not isinstance(cause, errors.CancelledError) else found
    return found


def as_op_error(error: BaseException) -> errors.OpError:
    """An error as one of TensorFlow's."""
    if isinstance(error, errors.OpError):
        return error
    return errors.InternalError(None, None, f"{type(error).__name__}: {error}")
