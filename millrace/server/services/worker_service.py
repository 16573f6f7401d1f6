"""TensorFlow's WorkerService on top of a worker.

Masters of Millrace use it to meet a task, to open sessions and to register graphs. `RunGraph` and
`RecvTensor` work too, value by value, but a step of Millrace's own goes over a channel.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from millrace.core import errors
from millrace.core.cluster_spec import ClusterSpec
from millrace.core.config import RunMetadata
from millrace.core.dead import DEAD
from millrace.core.tensor_proto import make_tensor_proto
from millrace.core.value import Value
from millrace.passes.program_def import from_graph_def
from millrace.platform.file_access import FileAccess
from millrace.protocol.step.events import ValuesArrived, WaitAbandoned
from millrace.rpc import service_messages
from millrace.rpc.channel import Channel
from millrace.rpc.failed_node import with_marked_node
from millrace.rpc.service import caller, client, on_abandoned
from millrace.runtime.future import Future
from millrace.runtime.plan import host_value
from millrace.runtime.step import Step
from millrace.runtime.step_stats import fill_metadata
from millrace.server.admission.remote_client import (
    ClientGraph,
    SessionQuota,
    machine_of,
    read_tensor,
)
from millrace.server.drivers.wire import RunRequest
from millrace.server.tasks import filtered_tasks
from millrace.server.worker import Worker


class WorkerService:
    """A method a remote method; see `rpc.service.RpcServer.add`."""

    def __init__(
        self,
        worker: Worker,
        devices: Callable[[], list[service_messages.DeviceAttributes]],
        connect: Callable[[str], Channel],
        cluster: ClusterSpec,
        file_access: FileAccess | None = None,
    ) -> None:
        self._worker = worker
        self._devices = devices
        self._connect = connect
        self._cluster = cluster
        self._file_access = file_access
        self._quota = SessionQuota(worker.sessions.has_session)

    def get_status(
        self, request: service_messages.GetStatusRequest
    ) -> service_messages.GetStatusResponse:
        """The task's devices."""
        self._worker.sessions.check_serves()
        return service_messages.GetStatusResponse(device_attributes=self._devices())

    def create_worker_session(
        self, request: service_messages.CreateWorkerSessionRequest
    ) -> service_messages.CreateWorkerSessionResponse:
        """Makes ready for a master's session."""
        if not request.session_handle:
            raise errors.InvalidArgumentError(None, None, "A worker session needs a handle.")
        # A master of TensorFlow says nothing when the cluster is the one that we know too.
        said = request.server_def.cluster
        cluster = ClusterSpec(said) if said.job else self._cluster
        # TensorFlow's masters do not say for whom it is.
        owner = machine_of(request.client) if request.client else caller()
        self._quota.check(owner)
        self._worker.sessions.create_session(
            request.session_handle,
            request.master_task,
            filtered_tasks(cluster, ()),
            request.isolate_session_state,
            self._file_access,
            request.client or client(),
        )
        self._quota.note(request.session_handle, owner)
        return service_messages.CreateWorkerSessionResponse()

    def delete_worker_session(
        self, request: service_messages.DeleteWorkerSessionRequest
    ) -> service_messages.DeleteWorkerSessionResponse:
        """Forgets a session."""
        self._worker.sessions.delete_session(request.session_handle)
        return service_messages.DeleteWorkerSessionResponse()

    def register_graph(
        self, request: service_messages.RegisterGraphRequest
    ) -> service_messages.RegisterGraphResponse:
        """Plans a partition, and connects to the tasks that it sends to."""
        session = self._worker.sessions.session(request.session_handle)
        with self._worker.allotments.of(f"{session.client} plans"):
            stated = ClientGraph()
            try:
                stated.admit(request.graph_def)
                program = from_graph_def(request.graph_def, stated.operations)
                graph = self._worker.sessions.register(
                    session, program, stated, writing_tasks=request.writing_tasks
                )
            except BaseException:
                stated.let_go()
                raise
        for address in graph.peers:
            self._connect(address)
        return service_messages.RegisterGraphResponse(graph_handle=str(graph.number))

    def deregister_graph(
        self, request: service_messages.DeregisterGraphRequest
    ) -> service_messages.DeregisterGraphResponse:
        """Forgets a partition."""
        self._worker.sessions.deregister(_number(request.graph_handle))
        return service_messages.DeregisterGraphResponse()

    def run_graph(
        self, request: service_messages.RunGraphRequest
    ) -> service_messages.RunGraphResponse:
        """Runs a partition.

        Its arguments and results are called by their positions, or by the keys of its transfer
        nodes if a master of TensorFlow has made it.
        """
        finished = threading.Event()
        outcome: list[Any] = []

        def on_done(step: Step | None, results: list[Value], error: errors.OpError | None) -> None:
            outcome.extend((step, results, error))
            finished.set()

        worker, number, graph = self._worker, request.step_id, _number(request.graph_handle)
        on_abandoned(lambda: worker.cancel_if_running(number))
        feeds = [read_tensor(item.tensor) for item in request.send]
        trace = request.exec_opts.record_timeline
        by_keys = worker.sessions.graph(graph).has_rendezvous
        if by_keys:
            for item, value in zip(request.send, feeds, strict=True):
                worker.tell(ValuesArrived(number, item.name, [value]))
            feeds = []
        worker.run(graph, number, "", RunRequest(feeds, trace=trace), on_done)
        finished.wait()
        step, results, error = outcome
        response = service_messages.RunGraphResponse()
        if error is not None:
            if by_keys:
                error = with_marked_node(error)
            if not request.store_errors_in_response_body:
                raise error
            response.status_code = error.error_code
            response.status_error_message = error.message
            return response
        if by_keys:
            results = [self._fetched(number, key) for key in request.recv_key]
        for i, value in enumerate(results):
            name = request.recv_key[i] if i < len(request.recv_key) else str(i)
            response.recv.add(name=name, tensor=make_tensor_proto(host_value(value)))
        if trace:
            metadata = RunMetadata()
            fill_metadata(metadata, step)
            response.step_stats.CopyFrom(metadata.step_stats)
        return response

    def _fetched(self, step: int, key: str) -> Value:
        """What a partition has sent to its master."""
        found = self._worker.take(step, key, "a fetched value")
        if isinstance(found, Future):
            self._worker.tell(WaitAbandoned(step, key))
            raise errors.InvalidArgumentError(
                None, None, f"The partition has not made what was asked for: {key[:300]}"
            )
        return found[0]

    def cleanup_graph(
        self, request: service_messages.CleanupGraphRequest
    ) -> service_messages.CleanupGraphResponse:
        """Ends a step."""
        self._worker.cancel(
            request.step_id, errors.CancelledError(None, None, "The step was cleaned up.")
        )
        return service_messages.CleanupGraphResponse()

    def cleanup_all(
        self, request: service_messages.CleanupAllRequest
    ) -> service_messages.CleanupAllResponse:
        """Drops resource containers."""
        self._worker.clear(request.container)
        return service_messages.CleanupAllResponse()

    def recv_tensor(
        self, request: service_messages.RecvTensorRequest
    ) -> service_messages.RecvTensorResponse:
        """Waits for a value that was sent to this task in a step."""
        text, step = request.rendezvous_key, request.step_id
        key = text if ";" in text else _number(text)
        try:
            found = self._worker.take(step, key, "a value")
            if isinstance(found, Future):
                arrived = threading.Event()
                found.add_callback(lambda _: arrived.set())
                on_abandoned(lambda: self._worker.tell(WaitAbandoned(step, key)))
                arrived.wait()
                found = found.result()
        except errors.OpError as error:
            # It may reach a master of TensorFlow before the answer to RunGraph does.
            cause = error.__cause__ if isinstance(error.__cause__, errors.OpError) else error
            raise with_marked_node(cause) from None
        response = service_messages.RecvTensorResponse(send_start_micros=time.time_ns() // 1000)
        if found and found[0] is DEAD:
            response.is_dead = True
        elif found:
            response.tensor.CopyFrom(make_tensor_proto(host_value(found[0])))
        return response

    def logging(self, request: service_messages.LoggingRequest) -> service_messages.LoggingResponse:
        """Turns the log of what arrives here on or off, hands out steps of it, clears it."""
        log = self._worker.transfers
        if request.enable_rpc_logging:
            log.keep(True)
        if request.disable_rpc_logging or not (
            # Masters of long ago asked with an empty request for an end of it.
            request.enable_rpc_logging or request.fetch_step_id
        ):
            log.keep(False)
        response = service_messages.LoggingResponse()
        for step, stats in log.take(request.fetch_step_id).items():
            response.step.add(step_id=step, step_stats=stats)
        if request.clear:
            log.clear()
        return response

    def tracing(self, request: service_messages.TracingRequest) -> service_messages.TracingResponse:
        """TensorFlow's tasks do not have it either.

        Raises:
          UnimplementedError: Always, as from TensorFlow's.
        """
        raise errors.UnimplementedError(
            None,
            None,
            "Tracing: a task has no profiler that could be started from outside. Run a step with "
            "RunOptions(trace_level=RunOptions.FULL_TRACE), or ask Logging for transfers.",
        )


def _number(handle: str) -> int:
    try:
        return int(handle)
    except ValueError:
        raise errors.AbortedError(
            None, None, f"Handle {handle[:100]!r} is not known. Was this task restarted?"
        ) from None
