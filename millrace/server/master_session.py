"""A session of a master: prepares steps over the whole cluster, and runs them.

It is a `client.backend.Backend`: a client in the same process uses it directly, a remote one
through `MasterService`. A step is one message to every task that takes part, and one back; values
go between the tasks themselves.
"""

from __future__ import annotations

import functools
import secrets
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tensorboard.compat.proto import step_stats_pb2

from millrace.core import errors
from millrace.core.cluster_spec import ClusterSpec
from millrace.core.config import ConfigProto, RunMetadata, RunOptions
from millrace.core.device_spec import DeviceSpec, task_of
from millrace.core.value import Value
from millrace.graph.graph import Graph
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.passes import pipeline
from millrace.passes.inline import inline_calls
from millrace.passes.node import Setting, is_variable
from millrace.passes.partitions import Partition, split
from millrace.passes.program_def import to_graph_def
from millrace.passes.prune import prune
from millrace.platform import logging
from millrace.platform.file_access import FileAccess
from millrace.protocol.step.applied_steps import StepAttempt
from millrace.protocol.step.events import Cancelled, PartitionFinished, StepRequested
from millrace.protocol.step.remote_partitions import RemotePartition
from millrace.rpc import service_messages, turns
from millrace.rpc.channel import start_thread
from millrace.rpc.service import on_abandoned
from millrace.runtime import answered_in_time, executor
from millrace.runtime.plan import host_value
from millrace.runtime.step import SessionState, Step
from millrace.runtime.step_stats import fill_metadata, fill_partition_graphs
from millrace.server.drivers import current_attempt
from millrace.server.drivers.current_attempt import UnrepeatedSteps
from millrace.server.drivers.cuts import client_of
from millrace.server.drivers.effects import changes_variables
from millrace.server.drivers.pending_cut import cut_of
from millrace.server.drivers.pending_step import PendingStep, naming_task
from millrace.server.drivers.prepared_step import (
    DistributedPartialRun,
    PreparedStep,
    check_can_be_computed,
    saves_only,
)
from millrace.server.drivers.repeated_step import RepeatedStep
from millrace.server.drivers.step_errors import cause_of
from millrace.server.drivers.time_limit import within
from millrace.server.drivers.wire import RunContext
from millrace.server.meeting import Meeting, choose_tasks
from millrace.server.tasks import tasks_named
from millrace.server.worker_sessions import WorkerSession

if TYPE_CHECKING:
    from millrace.server.master import Master

_NO_TRACE = 0
#: How long the end of a partial run waits for the other tasks to say that they are done.
_PARTIAL_RUN_SECONDS = 2.0
_STATUS_SECONDS = 5.0
#: A task that makes ready for a session, or plans its partition of a step, takes no longer.
_REGISTER_SECONDS = 120.0
#: A session that is closed waits no longer for tasks to hear of it.
_CLOSE_SECONDS = 1.0


class MasterSession:
    """One session: a graph, the tasks that it may use, and the steps that it runs."""

    def __init__(
        self,
        master: Master,
        graph: Graph,
        config: ConfigProto,
        target: str = "",
        file_access: FileAccess | None = None,
        client: str = "",
    ) -> None:
        self.handle = secrets.token_hex(8)
        self.graph = graph
        self._master = master
        self._worker = master.worker
        self._config = config
        self._file_access = file_access
        #: Whose it is, for the tasks that limit what they do for each client.
        self._client = client or master.peers.me.address
        self._lock = threading.RLock()  # see Worker
        self._steps: set[int] = set()
        self._partial_runs: dict[int, DistributedPartialRun] = {}
        #: Held while the session meets tasks that had left the job.
        self._meeting_absent = threading.Lock()
        #: Numbers the steps that nobody repeats.
        self._unrepeated = UnrepeatedSteps(client_of(self.handle))
        #: What earlier steps still compute here although they are over.
        self._unfinished = answered_in_time.Unfinished()
        self._closed = False
        self._is_open = False
        self._home, self._addresses = choose_tasks(
            config, target, master.cluster, self._worker.task, master.peers.me.address
        )
        self._meeting = self._new_meeting()
        #: The tasks that have left the job and were not waited for, with their addresses. A step
        #: whose graph names one of them waits for it.
        self._absent: dict[str, str] = {}
        self._devices: list[Any] = []
        self._setting: Setting
        self._state: WorkerSession

    # -- Opening ---------------------------------------------------------------------------

    def _new_meeting(self) -> Meeting:
        master = self._master
        return Meeting(master.peers, self._home, master.leaving)

    def open(self) -> None:
        """Waits until all tasks are there that have not left the job, and makes them ready."""
        needed = tasks_named(op.device for op in self.graph.get_operations())
        self._devices = self._meeting.meet(self._addresses, self._master.devices(), needed)
        self._absent = dict(self._meeting.absent)
        self._make_setting()
        try:
            present = [task for task in self._addresses if task not in self._absent]
            self._open_on(present)
            self._state = self._worker.sessions.create_session(
                self.handle,
                self._master.peers.me.address,
                self._addresses,
                self._config.isolate_session_state,
                self._file_access,
            )
        except BaseException:
            self.close()
            raise
        self._is_open = True

    def _make_setting(self) -> None:
        config = self._config
        self._setting = Setting(
            devices=tuple(device.name for device in self._devices),
            allow_soft_placement=config.allow_soft_placement,
            log_placement=print if config.log_device_placement else None,
            home=self._home,
        )

    def _meet_absent(self, devices: Iterable[str]) -> None:
        """Waits for tasks that had left the job and that a step's nodes name."""
        named = tasks_named(devices)
        with self._meeting_absent:
            wanted = {task: place for task, place in self._absent.items() if task in named}
            if not wanted:
                return
            self._meeting = self._new_meeting()
            if self._closed:  # before it could be given up
                raise self._closed_error()
            on_abandoned(self._meeting.give_up)
            home = [d for d in self._devices if task_of(d.name) == self._home]
            found = self._meeting.meet(wanted, home, wanted)
            self._open_on(list(wanted))
            self._devices += found[len(home) :]
            self._make_setting()
            for task in wanted:
                del self._absent[task]

    @property
    def state(self) -> SessionState:
        """What the session keeps on this task."""
        return self._state.state

    @property
    def is_busy(self) -> bool:
        """Whether a step of it runs; one that gets its feeds in parts counts until it ends."""
        return bool(self._steps)

    def give_up(self) -> None:
        """Stops waiting for tasks; nothing happens when the session is open."""
        self._meeting.give_up()

    def _open_on(self, tasks: Iterable[str]) -> None:
        """Opens the session on other tasks."""
        cluster: dict[str, dict[int, str]] = {}
        for name, place in self._addresses.items():
            spec = DeviceSpec.from_string(name)
            assert spec.job is not None and spec.task is not None
            cluster.setdefault(spec.job, {})[spec.task] = place
        for task in tasks:
            if task == self._home:
                continue
            request = service_messages.CreateWorkerSessionRequest(
                session_handle=self.handle,
                isolate_session_state=self._config.isolate_session_state,
                master_task=self._master.peers.me.address,
                client=self._client,
            )
            spec = DeviceSpec.from_string(task)
            request.server_def.job_name = spec.job
            request.server_def.task_index = spec.task
            request.server_def.cluster.CopyFrom(ClusterSpec(cluster).as_cluster_def())
            stub = self._master.peers.connection(self._addresses[task]).worker()
            with within(_REGISTER_SECONDS, task, "make ready for a session"):
                stub.create_worker_session(request, timeout=_REGISTER_SECONDS)

    # -- Preparing -------------------------------------------------------------------------

    def prepare(
        self, fetches: Sequence[Tensor], targets: Sequence[Operation], feeds: Sequence[Tensor]
    ) -> PreparedStep:
        """Prunes, places, partitions, and registers each partition with its task."""
        return self._prepare(fetches, targets, feeds)

    def _prepare(
        self,
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        feeds: Sequence[Tensor],
        partial: bool = False,
    ) -> PreparedStep:
        if self._closed:
            raise self._closed_error()
        program = inline_calls(prune(fetches, targets, feeds))
        if self._absent:
            self._meet_absent(node.device for node in program.nodes)
        reads_cut = saves_only(program.nodes) and not partial
        setting = self._setting._replace(feeds_one_by_one=partial, reads_cut=reads_cut)
        partitions = split(pipeline.for_cluster(program.with_setting(setting)))
        nodes = {task: each.program.nodes for task, each in partitions.items()}
        writing = [task for task, inside in nodes.items() if any(map(changes_variables, inside))]
        holding = [task for task, inside in nodes.items() if any(map(is_variable, inside))]
        local = partitions.pop(self._home)
        remote: list[RemotePartition] = []
        try:
            for each in partitions.values():
                remote.append(self._register(each, writing))
            graph = self._worker.sessions.register(
                self._state, local.program, feeds_one_by_one=partial, writing_tasks=writing
            )
        except BaseException:
            self._master.later(lambda: self._deregister(None, remote))
            raise
        prepared = PreparedStep(local, graph, list(partitions.values()), remote, len(fetches))
        prepared.what = current_attempt.names_of(fetches, targets, feeds)
        prepared.is_written = bool(writing)
        if reads_cut:
            prepared.cut_tasks = {task: self._addresses[task] for task in holding}
        forget = weakref.finalize(prepared, self._forget, graph.number, remote)
        forget.atexit = False
        return prepared

    def _forget(self, local: int, remote: list[RemotePartition]) -> None:
        """A finalizer: must not wait, nor take a lock."""
        self._master.later(lambda: self._deregister(local, remote))

    def _register(self, partition: Partition, writing: list[str]) -> RemotePartition:
        task = partition.task
        address = self._addresses[task]
        request = service_messages.RegisterGraphRequest(
            session_handle=self.handle,
            graph_def=to_graph_def(partition.program),
            create_worker_session_called=True,
            writing_tasks=writing,
        )
        try:
            stub = self._master.peers.connection(address).worker()
            with within(_REGISTER_SECONDS, task, "plan its partition of a step"):
                response = stub.register_graph(request, timeout=_REGISTER_SECONDS)
        except errors.OpError as error:
            raise naming_task(error, task) from None
        return RemotePartition(
            task,
            address,
            int(response.graph_handle),
            arguments=partition.arguments,
            results=partition.results,
            first_key=partition.first_key,
            read_keys=partition.read_keys,
            last_key=partition.last_key,
        )

    def _deregister(self, local: int | None, remote: list[RemotePartition]) -> None:
        if local is not None:
            self._worker.sessions.deregister(local)
        if self._closed:
            return  # The tasks were told to forget the whole session.
        for each in remote:
            request = service_messages.DeregisterGraphRequest(
                session_handle=self.handle, graph_handle=str(each.graph)
            )
            try:
                stub = self._master.peers.connection(each.peer).worker()
                stub.deregister_graph(request, timeout=_STATUS_SECONDS)
            except errors.OpError:
                continue  # A task that is gone has forgotten it.

    # -- Running ---------------------------------------------------------------------------

    def run(
        self,
        prepared: PreparedStep,
        values: Sequence[object],
        options: RunOptions,
        run_metadata: RunMetadata,
    ) -> list[Value]:
        """Runs one step; this task's partition in the calling thread."""
        attempt = current_attempt.take(prepared.what)
        if prepared.cut_tasks:
            known = [self._unrepeated.oldest()]
            with cut_of(self._master, prepared.cut_tasks, self.handle, known) as cut:
                current_attempt.cut_taken()
                return self._run(prepared, values, options, run_metadata, attempt, cut)
        if attempt is not None or not prepared.is_written:
            return self._run(prepared, values, options, run_metadata, attempt, None)
        attempt = self._unrepeated.begin()
        try:
            return self._run(prepared, values, options, run_metadata, attempt, None)
        finally:
            self._unrepeated.over(attempt)

    def _run(
        self,
        prepared: PreparedStep,
        values: Sequence[Value],
        options: Value,
        run_metadata: Value,
        attempt: StepAttempt | None,
        cut: int | None,
    ) -> list[Value]:
        timeout = self._config.operation_timeout_in_ms
        trace = False
        if options is not None:
            timeout = options.timeout_in_ms or timeout
            trace = options.trace_level > _NO_TRACE and run_metadata is not None
        feeds = prepared.take_feeds(values)
        plan = prepared.graph.plan
        if not prepared.has_begun:
            prepared.has_begun = True
            if prepared.remote:
                # Not when it has asked for variables: they would be old when the compiler is done.
                plan.compile_for(feeds)
        step = Step(
            self._state.state,
            executor.run_values,
            trace=trace,
            timeout=timeout / 1000 if timeout > 0 else None,
        )
        worker = self._worker
        if attempt is not None and attempt.attempt and prepared.graph.changes:
            step.record = worker.record.begin(attempt)
        if cut is not None and self._home in prepared.cut_tasks:
            step.resources = worker.cuts.snapshot(cut)
        worker.open_gate(prepared.graph, step, attempt, self._master.peers.me.address)

        home = functools.partial(answered_in_time.run, plan, step, feeds, self._unfinished)

        def explain(error: BaseException) -> errors.OpError:
            cause = cause_of(error, step)
            return _from_task(self._home, cause) if prepared.remote else cause

        pending = self.begin_step(prepared, step, RunContext(values, trace, attempt, cut))
        try:
            number = pending.step.number
            on_abandoned(lambda: self._cancel(number, "The client of the step is gone."))
            if prepared.remote:
                pending.connect()
                if step.deadline is None:  # Else it is another thread that computes.
                    step.listener = turns.listener(pending.channels, prepared.meets_others)
                    pending.listener = step.listener
            pending.run(home, explain, step.deadline)
        finally:
            self.end_step(pending, step)
        self._worker.wait_until_safe()
        found: list[Value] = [None] * prepared.fetches
        for i, value in zip(prepared.local.results, pending.results, strict=True):
            found[i] = value
        answers = pending.step.answers
        for partition in prepared.partitions.all:
            for i, value in zip(partition.results, answers[partition.peer].values, strict=False):
                # A scalar string is bytes already when the task is in this process.
                if isinstance(value, np.ndarray) and not value.ndim:
                    value = value[()]
                found[i] = value
        if run_metadata is not None:
            run_metadata.Clear()
            if trace:
                fill_metadata(run_metadata, step)
                _add_remote_stats(run_metadata, answers.values())
            if options is not None and options.output_partition_graphs:
                self._fill_partition_graphs(run_metadata, prepared)
        return found

    def begin_step(self, prepared: PreparedStep, step: Step, context: RunContext) -> PendingStep:
        """Makes a step known; `end_step` must follow.

        Raises:
          CancelledError: The session is closed.
        """
        number = self._master.new_number()
        with self._lock:
            if self._closed:
                raise self._closed_error()
            exchange = self._worker.begin(prepared.graph, number, step)
            self._steps.add(number)
        master = self._master
        pending = master.pending[number] = PendingStep(
            number, prepared, context, self._worker, master.peers, self.graph, master.ask_why
        )
        if prepared.remote:
            exchange.pending = pending
            pending.exchange = exchange
            step.why = pending.why
        return pending

    def end_step(self, pending: PendingStep, step: Step) -> None:
        """Forgets a step, whatever has ended it."""
        number = pending.step.number
        self._master.forget(number)
        # Else step and pending step would hold each other.
        step.why = str
        if pending.exchange is not None:
            pending.exchange.pending = None
        self._steps.discard(number)
        self._worker.end(number, pending.step.error is None)

    def _closed_error(self) -> errors.CancelledError:
        return errors.CancelledError(None, None, "Session has been closed.")

    def _fill_partition_graphs(self, run_metadata: RunMetadata, prepared: PreparedStep) -> None:
        graph = prepared.graph
        fill_partition_graphs(run_metadata, graph.nodes, graph.arguments)
        for each in prepared.remote:
            run_metadata.partition_graphs.add().CopyFrom(to_graph_def(each.program))

    def repeated_step(self, prepared: PreparedStep) -> RepeatedStep | None:
        """What has another task repeat a step by itself; None where that cannot be."""
        if self._config.operation_timeout_in_ms > 0 or not prepared.can_repeat:
            return None
        return RepeatedStep(self, prepared)

    # -- Partial runs ----------------------------------------------------------------------

    def partial_run_setup(
        self, fetches: Sequence[Tensor], targets: Sequence[Operation], feeds: Sequence[Tensor]
    ) -> DistributedPartialRun:
        """Starts a step whose feeds arrive in parts, here; other tasks get theirs from here."""
        prepared = self._prepare(fetches, targets, feeds, partial=True)
        step = Step(self._state.state, executor.run_values)
        pending = self.begin_step(prepared, step, RunContext(()))
        execution = executor.Execution(prepared.graph.plan, step)
        run = DistributedPartialRun(prepared, pending, execution, (feeds, fetches, targets))
        self._partial_runs[pending.step.number] = run
        pending.connect()
        pending.tell(StepRequested())
        return run

    def partial_run(
        self,
        run: DistributedPartialRun,
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        values: dict[Tensor, Value],
    ) -> list[Value]:
        """Gives more feeds and waits for some of the fetches."""
        run.check_feeds(values)
        check_can_be_computed(fetches, targets, {*run.feeds} - {*values}, run.all_feeds)
        execution, number = run.execution, run.pending.step.number
        run.provide(values)
        stages = run.stages(fetches, targets)
        answered = threading.Event()

        def abandon() -> None:
            if not answered.is_set():  # else the client may come back for more
                self._cancel(number, "The client of the step is gone.")

        on_abandoned(abandon)
        try:
            execution.wait(stages)
        except Exception as error:
            failure = cause_of(error, execution.step)
            run.pending.tell(PartitionFinished(number, error=failure))
            run.pending.wait(None)
            self._finish_partial(run)
            raise run.pending.step.error or failure from None
        finally:
            answered.set()
        results = run.results(fetches)
        if execution.finished:
            run.pending.tell(PartitionFinished(number))
            run.pending.linger(_PARTIAL_RUN_SECONDS)
            self._finish_partial(run)
        return [host_value(value) for value in results]

    def _finish_partial(self, run: DistributedPartialRun) -> None:
        self._partial_runs.pop(run.pending.step.number, None)
        self.end_step(run.pending, run.execution.step)

    # -- Handles, and the end ---------------------------------------------------------------

    def drop_tensor(self, handle: str) -> None:
        """Forgets a tensor that `tf.get_session_handle` kept."""
        self._state.state.tensors.pop(handle, None)

    def list_devices(self) -> list[service_messages.DeviceAttributes]:
        """The devices of all tasks of this session."""
        return list(self._devices)

    def reset(self, containers: list[str] | None) -> None:
        """Drops containers everywhere."""
        self._master.reset(containers or [], [])

    def close(self) -> None:
        """Cancels the session's steps and forgets it on every task."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            numbers = list(self._steps)
            self._steps.clear()
        self.give_up()
        for number in numbers:
            self._cancel(number, "Session has been closed.")
            partial_run = self._partial_runs.get(number)
            if partial_run is not None:  # It has no thread that would do it.
                self._finish_partial(partial_run)
        self._worker.sessions.delete_session(self.handle)
        self._master.sessions.pop(self.handle, None)
        others = [
            item
            for item in self._addresses.items()
            if item[0] != self._home and item[0] not in self._absent
        ]
        if not others:
            return
        told = threading.Semaphore(0)

        def tell(task: str, address: str) -> None:
            request = service_messages.DeleteWorkerSessionRequest(session_handle=self.handle)
            try:
                stub = self._master.peers.connection(address).worker()
                stub.delete_worker_session(request, timeout=_CLOSE_SECONDS)
            except errors.OpError as failure:
                logging.debug("%s did not hear of the end of a session: %s", task, failure)
            finally:
                told.release()

        for item in others:
            start_thread(tell, f"millrace tells {item[0]}", *item)
        deadline = time.monotonic() + _CLOSE_SECONDS
        for _ in others:
            told.acquire(timeout=max(0.0, deadline - time.monotonic()))

    def close_soon(self) -> None:
        """Is closed soon, in another thread."""
        self._master.later(self.close)

    def _cancel(self, number: int, reason: str) -> None:
        """Ends a step, if it still runs."""
        pending = self._master.pending.get(number)
        if pending is not None:
            pending.tell(Cancelled(number, errors.CancelledError(None, None, reason)))


def _from_task(task: str, error: errors.OpError) -> errors.OpError:
    """The error of an op of this task, with the task's name, as other tasks' errors have it."""
    if "[[node " not in error.message or error.message.startswith("From "):
        return error
    same: Any = type(error)
    named: errors.OpError = same(error.node_def, error.op, f"From {task}:\n{error.message}")
    return named


def _add_remote_stats(run_metadata: RunMetadata, answers: Iterable[PartitionFinished]) -> None:
    for answer in answers:
        stats = step_stats_pb2.StepStats()
        stats.ParseFromString(answer.trace)
        run_metadata.step_stats.dev_stats.extend(stats.dev_stats)
