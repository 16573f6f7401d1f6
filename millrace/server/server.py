"""`tf.train.Server`: one task of a cluster in this process."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import secrets
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from millrace.core import errors
from millrace.core.cluster_spec import ClusterDef, ClusterSpec
from millrace.core.config import ConfigProto
from millrace.core.value import JsonObject
from millrace.graph.graph import Graph
from millrace.observe import last_status, machine
from millrace.observe.events import EVENTS
from millrace.observe.observation import METRICS_PORT, OBSERVED
from millrace.platform import logging
from millrace.platform.file_access import FileAccess
from millrace.platform.version import MILLRACE
from millrace.protocol.leaving import LeavingTasks
from millrace.protocol.replication.view import View
from millrace.rpc import service_messages
from millrace.rpc.channel import start_thread
from millrace.rpc.security import Security, check_authentication, is_loopback
from millrace.rpc.service import OBSERVE, CachedThreads, RpcServer
from millrace.rpc.spin import spin_policy
from millrace.server import activity, threads
from millrace.server.consistency import ConsistencyKeeper
from millrace.server.drivers.inbound import Inbound
from millrace.server.drivers.remote_tensors import RemoteTensors
from millrace.server.drivers.watch import Watch, settings_from
from millrace.server.master import Master
from millrace.server.master_session import MasterSession
from millrace.server.peers import FAST, PROTOCOLS, Identity, Peers
from millrace.server.registers import Registers
from millrace.server.replication import views
from millrace.server.replication.replica import Replica, ReplicaPlace, identity
from millrace.server.services.master_service import MasterService
from millrace.server.services.worker_service import WorkerService
from millrace.server.tasks import task_name
from millrace.server.worker import Worker

if TYPE_CHECKING:
    from millrace.observe.http import MetricsServer

ServerDef = service_messages.ServerDef
_MEMORY_LIMIT = 256 << 20
#: Where a task listens, if not at the address that others dial.
BIND = "MILLRACE_BIND"
#: A process that leaves the job waits no longer for others to hear of it.
_LEAVE_SECONDS = 2.0
#: The task that keeps the workers' clocks answers in that time.
_CONSISTENCY_SECONDS = 10.0
#: Running servers of this process by target: a session to one of them makes no call.
_running: weakref.WeakValueDictionary[str, Server] = weakref.WeakValueDictionary()


class Server:
    """A task: its master and worker services, and what sessions keep on it.

    It serves until it is stopped or the process ends, whether or not the program holds it.

    Args:
      server_or_cluster_def: A ServerDef, ClusterDef, ClusterSpec, or what ClusterSpec takes.
      job_name: The task's job; may be left out when the cluster has one job.
      task_index: The task's number; may be left out when the job has one task.
      protocol: ``grpc+fast`` (the default: what goes between tasks takes the quickest way
        there is) or ``grpc``.
      config: The default ConfigProto of sessions, and how many devices the task has.
      start: Whether to start at once.
      security: The credentials of the task; those of the environment by default. TensorFlow has
        no such argument. See docs/security.md.
      allowed_folders: Where ops of clients elsewhere may read and write files; those of the
        environment by default, and all when only this machine reaches the task.
      standby_of: Where the process is that serves the task; this one follows it, and takes its
        place when it is gone. TensorFlow has no such argument. See docs/fault-tolerance.md.

    Raises:
      TypeError, ValueError: The description is wrong or incomplete.
      FailedPreconditionError: Other machines can reach the task, and it has no credentials.
      UnknownError: The task's address cannot be listened at.
    """

    def __init__(
        self,
        server_or_cluster_def: Description,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: ConfigProto = None,
        start: bool = True,
        security: Security | None = None,
        allowed_folders: Sequence[str] | None = None,
        standby_of: str | None = None,
    ) -> None:
        self._security = Security.from_environment() if security is None else security
        self._server_def = make_server_def(
            server_or_cluster_def, job_name, task_index, protocol, config
        )
        definition = self._server_def
        self._cluster = ClusterSpec(definition.cluster)
        self._task = task_name(definition.job_name, definition.task_index)
        self._incarnation = secrets.randbits(63)
        #: The incarnation of this task's state, which a standby that takes over goes on with.
        self._state_incarnation = self._incarnation
        place = self._replica_place(standby_of)
        #: Why another process has this task's place, once one has.
        self._replaced: errors.OpError | None = None
        #: Whether somebody has asked to let the standby serve.
        self._is_moving = False
        self._born = time.monotonic()
        self._lock = threading.Lock()
        self._started = False
        self._stopping = False
        self._stopped = threading.Event()
        self._is_joined = False
        self._leaves = False
        self._metrics: MetricsServer | None = None
        self._threads = CachedThreads("millrace step")
        listens_at = self._own_address() if place is None else place.place
        host, _, port = listens_at.rpartition(":")
        bind_host, bind_port = _bind_address(host, str(definition.port or port))
        for reached in {listens_at, f"{bind_host}:{bind_port}"}:
            check_authentication(self._task, reached, self._security)
        self._rpc = RpcServer(self._threads, self._security)
        bound = self._rpc.bind(f"{bind_host}:{bind_port}")
        if BIND in os.environ and int(port):
            bound = int(definition.port or port)  # others dial this, and something leads here
        self._address = f"{host}:{bound}"
        if place is not None:
            place = place._replace(place=self._address)
            self._address = self._own_address()
        elif int(port) == 0:
            # The port was chosen just now: the cluster gets to know it.
            tasks = {job: _tasks(self._cluster, job) for job in self._cluster.jobs}
            tasks[definition.job_name][definition.task_index] = self._address
            self._cluster = ClusterSpec(tasks)
            definition.cluster.CopyFrom(self._cluster.as_cluster_def())
        #: Where this process listens, which need not be the address that its task is called by.
        self._place = self._address if place is None else place.place
        self._inbound = Inbound()
        self._peers = Peers(
            identity(self._task, self._address, place, self._incarnation),
            definition.protocol,
            self._inbound.on_message,
            self._on_lost,
            self._security,
            listens_at=bind_host,
            place=self._place,
        )
        #: The clocks of the workers, if this is the task that keeps them.
        self._clocks = ConsistencyKeeper()
        self._worker = Worker(self._task, self._peers.post, self._threads)
        self._worker.sessions.before_first_graph = self._settle_threads
        self._worker.fetch_tensor = RemoteTensors(self._peers.connection).fetch
        self._master = Master(
            self._worker,
            self._peers,
            self._cluster,
            self._devices,
            definition.default_session_config,
        )
        self._inbound.serve(self._worker, self._master)
        self._leaving = LeavingTasks(self._other_jobs(), self._other_tasks())
        self._worker.sessions.on_session = self._leaving.came
        self._master.leaving = self._leaving
        self._watch = Watch(
            self._task,
            settings_from(os.environ),
            needed=lambda: self._worker.needed() | self._master.needed(),
            channels=self._peers.channels,
            probe=self._peers.probe,
            lose=self._lose,
            on_pause=self._peers.doubt,
        )
        self._peers.was_paused, self._peers.awake = self._watch.was_paused, self._watch.awake
        file_access = FileAccess.for_server(allowed_folders, not is_loopback(host))
        service = MasterService(self._master, file_access)
        self._leases = service.leases
        self._rpc.add_holds(self._leases.hold)
        self._rpc.add_services(
            service,
            WorkerService(
                self._worker, self._devices, self._peers.channel, self._cluster, file_access
            ),
        )
        registers = Registers(self._incarnation)
        self._rpc.add_peer(
            self._peers.meet,
            self._peers.accept_stream,
            self._tell_status,
            self._stop_on_request,
            registers.answer,
            self._hear_moved,
            self._clocks.answer,
            self._move_on_request,
        )
        self._replica: Replica | None = None
        if place is not None:
            self._replica = self._inbound.replica = Replica(
                place,
                self._address,
                self._peers,
                self._worker,
                registers,
                self._security,
                self._tasks_by_name,
                self._take_over,
                self._be_replaced,
                self.stop,
            )
            if place.follows:
                self._worker.sessions.refusal = errors.UnavailableError(
                    None, None, f"This is the standby of {self._task}, at {place.place}."
                )
        if start:
            self.start()

    def _replica_place(self, standby_of: str | None) -> ReplicaPlace | None:
        """What this process was told of its part in the replication of its task."""
        told = ReplicaPlace.from_environment(self._task, os.environ)
        keeper = os.environ.get(views.VARIABLE)
        address = self._own_address()
        if standby_of is None:
            if told is None and keeper and self._server_def.job_name == "ps":
                return ReplicaPlace(self._task, address, keeper)
            return told
        if told is not None:
            return told._replace(follows=standby_of)
        if not keeper:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"standby_of={standby_of!r} needs a process that says who serves {self._task}, and "
                f"that is neither of the two: set {views.VARIABLE} to the address of another task, "
                "for both.",
            )
        host = os.environ.get(BIND, "").partition(":")[0] or address.rpartition(":")[0]
        return ReplicaPlace(self._task, f"{host}:0", keeper, standby_of)

    def _hear_moved(self, told: bytes) -> bytes:
        """A task is elsewhere from now on."""
        try:
            found = json.loads(told)
            address, place = str(found["address"]), str(found["place"])
            incarnation = int(found["incarnation"])
        except (ValueError, KeyError, TypeError) as error:
            raise errors.InvalidArgumentError(
                None, None, f"Where a task is cannot be read: {error}"
            ) from None
        self._peers.moved(address, place, incarnation)
        return b"{}"

    def _take_over(self, state_incarnation: int) -> None:
        """This process, which was a standby, is the task from now on."""
        self._incarnation = secrets.randbits(63)
        self._state_incarnation = state_incarnation
        self._peers.me = Identity(self._task, self._address, self._incarnation)
        self._peers.refers_to = str
        EVENTS.note("promoted", f"this process, a standby until now, serves {self._task}")
        with self._lock:
            if not self._stopping:
                _running[self.target] = self

    def _move_on_request(self, question: bytes) -> bytes:
        """The standby of this task is to serve it."""
        try:
            host = str(json.loads(question).get("host", ""))
        except (ValueError, AttributeError) as error:
            raise errors.InvalidArgumentError(
                None, None, f"Where to move cannot be read: {error}"
            ) from None
        standby = None if self._replica is None else self._replica.status().get("standby")
        where = str(standby or "").rpartition(":")[0]
        if host and standby and host != where:
            raise errors.FailedPreconditionError(
                None,
                None,
                f"The standby of {self._task} is at {standby}, not on {host}. Stop it, start one "
                f"there (`millrace server --standby-of {self._place}`), and move when it is in "
                "step.",
            )
        if self._replica is None or not self._replica.move():
            raise errors.FailedPreconditionError(
                None,
                None,
                f"{self._task} at {self._place} has no standby in step, so it stays where it is. "
                "Start one (`millrace launch --standby`, or `millrace server --standby-of "
                f"{self._place}`) and wait until `millrace status` shows it in step.",
            )
        self._is_moving = True
        return json.dumps({"place": standby}).encode()

    def _be_replaced(self, view: View) -> None:
        """Another process is the task: this one must not serve any more."""
        why = (
            "was asked to move it there" if self._is_moving else "was stopped or cut off meanwhile"
        )
        self._replaced = errors.AbortedError(
            None,
            None,
            f"{self._task} is served by {view.primary.address} (view {view.number}): this process, "
            f"which {why}, ends.",
        )
        tell = logging.info if self._is_moving else logging.error
        tell("%s", self._replaced.message)
        start_thread(self.stop, "millrace stops what was replaced")

    def _tell_status(self, question: bytes) -> bytes:
        if question == OBSERVE:  # somebody looks at the job, and wants to know of waits, too
            OBSERVED.enabled = True
            self._worker.transfers.observe()
        elif question:  # the number of a step
            return json.dumps({"waits": self._worker.waits(int(question))}).encode()
        return json.dumps(self.status()).encode()

    def status(self) -> JsonObject:
        """What this task holds and does, in plain values."""
        return {
            "task": self._task,
            "address": self._address,
            "incarnation": self._incarnation,
            "uptime_seconds": round(time.monotonic() - self._born, 1),
            "cluster": {
                job: {i: self._where(a) for i, a in _tasks(self._cluster, job).items()}
                for job in self._cluster.jobs
            },
            "devices": [device.name for device in self._devices()],
            "version": MILLRACE,
            **machine.status(),
            "time": time.time(),
            "metrics": self._metrics.address if self._metrics else None,
            "sessions": len(self._master.sessions),
            "left": self._leaving.gone,
            "replica": {} if self._replica is None else self._replica.status(),
            **self._worker.status(),
            **activity.of(self._master, self._worker),
            "waits": {peer: waits._asdict() for peer, waits in OBSERVED.waits().items()},
            "own_steps": OBSERVED.steps.read()[0][-1],
            "events": [event._asdict() for event in EVENTS.read()],
            "traffic": {
                peer: {name: getattr(traffic, name) for name in traffic.__slots__}
                for peer, traffic in self._peers.traffic().items()
            },
        }

    def _where(self, address: str) -> str:
        """Where the process is that serves the task that is called by an address."""
        return self._place if address == self._own_address() else self._peers.place(address)

    def _stop_on_request(self, question: bytes) -> bytes:
        if question:
            self._leaving.left(question.decode(errors="replace"))
            self._stop_if_over()
            return b"{}"
        # The answer must be on its way before the server stops listening.
        threading.Timer(0.1, self.stop).start()
        return b"{}"

    def _own_address(self) -> str:
        definition = self._server_def
        tasks = _tasks(self._cluster, definition.job_name)
        return tasks[definition.task_index]

    def _devices(self) -> list[service_messages.DeviceAttributes]:
        count = self._server_def.default_session_config.device_count.get("CPU", 1) or 1
        return [
            service_messages.DeviceAttributes(
                name=f"{self._task}/device:CPU:{i}",
                device_type="CPU",
                memory_limit=_MEMORY_LIMIT,
                incarnation=(self._state_incarnation + i) & 0xFFFFFFFFFFFFFFFF,
            )
            for i in range(count)
        ]

    # -- What users call -------------------------------------------------------------------

    @property
    def server_def(self) -> service_messages.ServerDef:
        """A ServerDef that describes this server."""
        return self._server_def

    @property
    def security(self) -> Security:
        """The credentials of the task."""
        return self._security

    @property
    def target(self) -> str:
        """What `tf.Session` connects to."""
        return f"grpc://{self._address}"

    def start(self) -> None:
        """Begins to serve; nothing happens when it serves already.

        Raises:
          FailedPreconditionError: It was stopped.
        """
        with self._lock:
            if self._stopping:
                raise errors.FailedPreconditionError(
                    None, None, "A server that was stopped cannot be started again: make a new one."
                )
            if self._started:
                return
            self._started = True
            self._metrics = self._start_metrics()
            self._watch.start()
            self._rpc.start()
            if self._replica is None or self._worker.sessions.refusal is None:
                _running[self.target] = self
        if self._replica is not None:
            self._replica.start(self._state_incarnation)

    def _start_metrics(self) -> MetricsServer | None:
        where = os.environ.get(METRICS_PORT)
        if not where:
            return None
        # Prometheus' client and an HTTP server are loaded only by those who want them.
        http = importlib.import_module("millrace.observe.http")
        host = "127.0.0.1" if is_loopback(self._address.rpartition(":")[0]) else "0.0.0.0"
        metrics: MetricsServer = http.MetricsServer(
            where, host, self.status, lambda: not self._stopping, self._security.token or ""
        )
        self._worker.transfers.observe()
        return metrics

    def join(self) -> None:
        """Waits until the server is stopped, here or by a request, or until the job is over.

        It is over when every task of the other jobs has ended well: its supervised session did,
        and then its process.
        """
        self._is_joined = True
        self._stop_if_over()
        self.wait_until_stopped()
        if self._replaced is not None:
            raise self._replaced

    def wait_until_stopped(self) -> None:
        """Waits until the server is stopped, however many jobs it serves."""
        self._stopped.wait()

    @property
    def is_used(self) -> bool:
        """Whether it only serves, and another task has a session here."""
        return self._is_joined and self._worker.sessions.are_of_others(self._own_address())

    def _stop_if_over(self) -> None:
        if self._is_joined and self._leaving.is_over:
            # The task that has told must get its answer.
            threading.Timer(0.1, self.stop).start()

    def leave_at_exit(self) -> None:
        """The training of this process has ended well; when the process does, others are told."""
        if not self._leaves:
            self._leaves = True
            atexit.register(_say_left, weakref.ref(self))

    def _tell_left(self) -> None:
        """Tells the other tasks that this one has left the job: it needs them no more."""

        def tell(address: str) -> None:
            try:
                self._peers.connection(address).say_left(self._address, _LEAVE_SECONDS)
            except errors.OpError as error:
                logging.debug("%s did not hear of the end of %s: %s", address, self._task, error)

        told = [start_thread(tell, f"millrace leaves {a}", a) for a in self._other_tasks()]
        deadline = time.monotonic() + _LEAVE_SECONDS
        for thread in told:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _other_jobs(self) -> list[str]:
        """The addresses of the tasks of other jobs than this one's."""
        own = self._server_def.job_name
        jobs = [job for job in self._cluster.jobs if job != own]
        return [address for job in jobs for address in _tasks(self._cluster, job).values()]

    def _other_tasks(self) -> list[str]:
        """The addresses of all tasks but this one."""
        own = self._own_address()
        tasks = [a for job in self._cluster.jobs for a in _tasks(self._cluster, job).values()]
        return [address for address in tasks if address != own]

    def _tasks_by_name(self) -> dict[str, str]:
        """The addresses of all tasks but this one, by their names."""
        found = {
            task_name(job, index): address
            for job in self._cluster.jobs
            for index, address in _tasks(self._cluster, job).items()
        }
        found.pop(self._task, None)
        return found

    def stop(self) -> None:
        """Ends all sessions and steps, and frees the port."""
        with self._lock:
            if self._stopping:
                return
            self._stopping = True
            if _running.get(self.target) is self:
                del _running[self.target]
        last_status.write(self.status)
        if self._metrics is not None:
            self._metrics.close()
        try:
            if self._replica is not None:
                self._replica.close()
            self._watch.stop()
            self._clocks.close()
            self._leases.stop()
            self._master.close()
            self._worker.close()
            self._peers.close()
            self._rpc.stop()
            self._threads.shutdown()
        finally:
            self._stopped.set()

    @staticmethod
    def create_local_server(config: ConfigProto = None, start: bool = True) -> Server:
        """A server of a cluster of its own, on any free port of this machine."""
        return Server({"local": ["localhost:0"]}, protocol=None, config=config, start=start)

    # -- What the other parts need ---------------------------------------------------------

    @property
    def worker(self) -> Worker:
        """The worker."""
        return self._worker

    @property
    def peers(self) -> Peers:
        """The channels to other tasks."""
        return self._peers

    @property
    def cluster(self) -> ClusterSpec:
        """The cluster that it is a task of."""
        return self._cluster

    def ask_consistency(self, keeper: str, question: bytes) -> bytes:
        """Asks the task that keeps the workers' clocks.

        Raises:
          OpError: It does not answer.
        """
        if keeper == self._own_address():
            return self._clocks.answer(question)
        return self._peers.connection(keeper).consistency(question, _CONSISTENCY_SECONDS)

    def create_session(self, graph: Graph, config: ConfigProto) -> MasterSession:
        """A session for a client in this process, which shares its graph."""
        self._settle_threads(graph)
        merged = ConfigProto()
        merged.CopyFrom(self._server_def.default_session_config)
        merged.MergeFrom(config)
        return self._master.create_session(graph, merged, self.target)

    def _settle_threads(self, graph: Graph | None = None) -> None:
        """Chooses how many threads XLA gets, if it has none yet."""
        definition, cores = self._server_def, len(os.sched_getaffinity(0))
        tasks, same_job = threads.neighbours(
            self._cluster, definition.job_name, self._own_address()
        )
        spin_policy.configure(cores, tasks, os.environ)
        count: int | None = definition.default_session_config.intra_op_parallelism_threads
        if not count:
            work = None if graph is None else threads.largest_product(graph)
            count = threads.choose(cores, tasks, same_job, work)
        if count:
            threads.use(count)

    def reset(self, containers: list[str] | None, config: ConfigProto) -> None:
        """Drops containers on all tasks."""
        self._master.reset(containers or [], list(config.device_filters))

    def _lose(self, address: str, reason: str) -> None:
        """Gives a task up: when it returns, its sessions are not known here any more."""
        self._peers.lose(address, reason)
        self._worker.lost_master(address)

    def _on_lost(self, address: str, error: errors.OpError) -> None:
        self._master.lost(address, error)
        self._worker.lost(address, error)
        if self._replica is not None:
            self._replica.on_lost(address, error)
        self._clocks.lost(address)
        self._worker.snapshots.forget_lost()
        if not self._peers.has_channel(address):
            self._worker.lost_master(address)


def running_servers() -> list[Server]:
    """The servers of this process that have been started and not stopped."""
    return list(_running.values())


def _say_left(server: weakref.ref[Server]) -> None:
    """Tells the servers of the job that this process ends; not when an exception ends it."""
    found = server()
    if found is not None and not found._stopping and not getattr(sys, "last_value", None):
        # Newer Pythons start no thread so late; then the launcher or a person ends the servers.
        with contextlib.suppress(RuntimeError):
            found._tell_left()


def find_running(target: str) -> Server | None:
    """The server of this process that serves a target, if one does."""
    return _running.get(target)


def _tasks(cluster: ClusterSpec, job: str) -> dict[int, str]:
    return {index: cluster.task_address(job, index) for index in cluster.task_indices(job)}


def _bind_address(host: str, port: str) -> tuple[str, str]:
    """Where to listen: as MILLRACE_BIND says (``host``, ``:port``, ``host:port``), else there."""
    said = os.environ.get(BIND, "")
    if not said:
        return host, port
    bind_host, colon, bind_port = said.rpartition(":") if ":" in said else (said, "", "")
    if colon and (not bind_port.isdigit() or int(bind_port) > 65535):
        raise ValueError(f"{BIND}={said!r} is no address; write 0.0.0.0, :2222 or 0.0.0.0:2222")
    return bind_host or host, bind_port or port


#: How `Server` is told of its cluster: a ServerDef, or what `ClusterSpec` takes.
Description: TypeAlias = (
    service_messages.ServerDef
    | ClusterDef
    | ClusterSpec
    | Mapping[str, Sequence[str] | Mapping[int, str]]
)


def make_server_def(
    description: Description,
    job_name: str | None,
    task_index: int | None,
    protocol: str | None,
    config: ConfigProto,
) -> service_messages.ServerDef:
    """The ServerDef for the arguments of `Server`.

    Raises:
      TypeError, ValueError: Something is missing or of the wrong type.
    """
    definition = ServerDef()
    if isinstance(description, ServerDef):
        definition.CopyFrom(description)
    elif isinstance(description, ClusterDef):
        definition.cluster.CopyFrom(description)
    else:
        try:
            cluster = ClusterSpec(description)
        except TypeError as error:
            raise TypeError(
                f"Could not convert `server_or_cluster_def` to a ServerDef or ClusterSpec: {error}"
            ) from None
        definition.cluster.CopyFrom(cluster.as_cluster_def())
    if job_name is not None:
        definition.job_name = job_name
    if task_index is not None:
        definition.task_index = task_index
    if protocol is not None:
        definition.protocol = protocol
    if config is not None:
        definition.default_session_config.MergeFrom(config)
    cluster = ClusterSpec(definition.cluster)
    if not definition.job_name:
        if len(cluster.jobs) != 1:
            raise ValueError(
                "Must specify an explicit `job_name` when the cluster has more than one job: "
                f"it has {sorted(cluster.jobs)}."
            )
        definition.job_name = cluster.jobs[0]
    if definition.job_name not in cluster.jobs:
        raise errors.InternalError(  # TensorFlow's class for it
            None,
            None,
            f'Job "{definition.job_name}" was not defined in cluster: it has '
            f"{', '.join(sorted(cluster.jobs))}. Give one of these as job_name.",
        )
    indices = cluster.task_indices(definition.job_name)
    if task_index is None and not isinstance(description, ServerDef):
        if len(indices) != 1:
            raise ValueError(
                "Must specify an explicit `task_index` when the job has more than one task: "
                f"{definition.job_name!r} has {indices}."
            )
        definition.task_index = indices[0]
    if definition.task_index not in indices:
        raise errors.InternalError(
            None,
            None,
            f'Task {definition.task_index} was not defined in job "{definition.job_name}": it has '
            f"{', '.join(map(str, indices))}. Give one of these as task_index.",
        )
    definition.protocol = definition.protocol or FAST
    if definition.protocol not in PROTOCOLS:
        raise errors.NotFoundError(
            None,
            None,
            f"No server factory registered for protocol {definition.protocol!r}: there are "
            f"{', '.join(PROTOCOLS)}.",
        )
    address = cluster.task_address(definition.job_name, definition.task_index)
    _, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Could not parse port for local server from {address!r}: write host:port.",
        )
    return definition
