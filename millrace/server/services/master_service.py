"""TensorFlow's MasterService on top of a master: names in, names out."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from tensorboard.compat.proto import graph_pb2, tensor_pb2

from millrace.core import errors
from millrace.core.config import CallableOptions, ConfigProto, RunMetadata
from millrace.core.tensor_proto import make_tensor_proto
from millrace.core.value import Value
from millrace.graph.import_graph_def import extend_graph
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.platform.file_access import FileAccess
from millrace.protocol.step.applied_steps import StepAttempt
from millrace.rpc import service_messages
from millrace.rpc.failed_node import with_marked_node
from millrace.rpc.service import caller, check_not_abandoned, client
from millrace.rpc.wire_limit import check_fits
from millrace.server.admission.remote_client import ClientGraph, SessionQuota, read_tensor
from millrace.server.admission.session_leases import SessionLeases
from millrace.server.drivers import current_attempt
from millrace.server.drivers.prepared_step import PreparedStep
from millrace.server.master import Master
from millrace.server.master_session import MasterSession

_MAX_CACHED_RUNS = 1024
#: The error for results that do not fit a message.
_TOO_MUCH = (
    "The values fetched from a step",
    "The step has run; fetch parts of it, or run the client in the process of a server.",
)


class _ServedSession:
    """A remote client's session: its graph, and runs by names."""

    def __init__(self, session: MasterSession, graph: ClientGraph) -> None:
        self.session = session
        self._graph = graph
        self._is_let_go = False
        self.version = 0
        self._lock = threading.Lock()
        self._runs: dict[Any, PreparedStep] = {}
        self._partial_runs: dict[str, Any] = {}
        self._callables: dict[int, tuple[PreparedStep, CallableOptions]] = {}
        self._numbers = itertools.count(1)

    def extend(self, graph_def: graph_pb2.GraphDef) -> None:
        with self._locked():
            add_to_graph(self._graph, graph_def)
            self.version += 1

    def let_go(self) -> None:
        """The session is closed: forgets its graph, now or once nobody works on it any more."""
        self._is_let_go = True
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._runs.clear()
            self._callables.clear()
            self._graph.let_go()
        finally:
            self._lock.release()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """While the graph is worked on."""
        try:
            with self._lock:
                yield
        finally:
            if self._is_let_go:
                self.let_go()

    def prepared(
        self, fetches: Sequence[str], targets: Sequence[str], feeds: Sequence[str]
    ) -> PreparedStep:
        key = (tuple(fetches), tuple(targets), tuple(feeds))
        with self._locked():
            found = self._runs.get(key)
            if found is None:
                found = self.session.prepare(*self._elements(fetches, targets, feeds))
                if len(self._runs) >= _MAX_CACHED_RUNS:
                    self._runs.clear()
                self._runs[key] = found
            return found

    def _elements(
        self, fetches: Sequence[str], targets: Sequence[str], feeds: Sequence[str]
    ) -> tuple[list[Tensor], list[Operation], list[Tensor]]:
        return (
            [self.tensor(name, "fetch") for name in fetches],
            [self._operation(name) for name in targets],
            [self.tensor(name, "feed") for name in feeds],
        )

    def tensor(self, name: str, role: str) -> Tensor:
        graph = self.session.graph
        op_name, _, index = name.partition(":")
        op = graph._ops.get(op_name)
        number = int(index) if index.isdigit() else 0
        if op is None or number >= len(op.outputs):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Tensor {name[:200]}, specified in either feed_devices or "
                f"fetch_devices, was not found in the Graph as a {role}."
                if op is None
                else f"{op_name} has {len(op.outputs)} outputs; {name[:200]} is none of them.",
            )
        return op.outputs[number]

    def _operation(self, name: str) -> Operation:
        op = self.session.graph._ops.get(name.partition(":")[0])
        if op is None:
            raise errors.NotFoundError(
                None, None, f"PruneForTargets: Some target nodes not found: {name[:200]}"
            )
        return op

    # -- Partial runs and callables --------------------------------------------------------

    def partial_run_setup(self, request: service_messages.PartialRunSetupRequest) -> str:
        elements = self._elements(request.fetch, request.target, request.feed)
        run = self.session.partial_run_setup(*elements)
        with self._lock:
            handle = f"{self.session.handle}_partial_{next(self._numbers)}"
            self._partial_runs[handle] = (run, {*elements[0], *elements[1]})
        return handle

    def partial_run(self, request: service_messages.RunStepRequest) -> list[Value]:
        entry = self._partial_runs.get(request.partial_run_handle)
        if entry is None:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Must run PartialRunSetup before performing partial runs: "
                f"{request.partial_run_handle[:100]!r} is no handle of one that is under way.",
            )
        run, pending = entry
        fetches, targets, feeds = self._elements(
            request.fetch, request.target, [item.name for item in request.feed]
        )
        values = {
            tensor: read_tensor(item.tensor)
            for tensor, item in zip(feeds, request.feed, strict=True)
        }
        results = self.session.partial_run(run, fetches, targets, values)
        pending.difference_update(fetches, targets)
        if not pending:
            self._partial_runs.pop(request.partial_run_handle, None)
        return results

    def make_callable(self, options: CallableOptions) -> int:
        prepared = self.prepared(list(options.fetch), list(options.target), list(options.feed))
        with self._lock:
            number = next(self._numbers)
            self._callables[number] = (prepared, options)
        return number

    def callable(self, number: int) -> tuple[PreparedStep, CallableOptions]:
        found = self._callables.get(number)
        if found is None:
            raise errors.InvalidArgumentError(None, None, f"No such callable handle: {number}")
        return found

    def release_callable(self, number: int) -> None:
        self._callables.pop(number, None)


class MasterService:
    """A method a remote method; see `rpc.service.RpcServer.add`."""

    def __init__(self, master: Master, file_access: FileAccess | None = None) -> None:
        self._master = master
        self._file_access = file_access
        self._quota = SessionQuota(lambda handle: handle in master.sessions)
        self._served: dict[str, _ServedSession] = {}
        self.leases = SessionLeases(self._is_busy, self._end)
        self._allotments = master.worker.allotments

    def _is_busy(self, handle: str) -> bool:
        session = self._master.sessions.get(handle)
        return session is not None and session.is_busy

    def _end(self, handle: str) -> None:
        session = self._master.sessions.get(handle)
        if session is not None:
            session.close()
        self._let_go(handle)

    def _let_go(self, handle: str) -> None:
        served = self._served.pop(handle, None)
        if served is not None:
            served.let_go()

    def _session(self, handle: str) -> _ServedSession:
        self.leases.use(handle)
        self._master.session(handle)  # raises when it is closed
        found = self._served.get(handle)
        if found is None:
            raise errors.AbortedError(None, None, f"Session {handle[:100]} is not found.")
        return found

    def create_session(
        self, request: service_messages.CreateSessionRequest
    ) -> service_messages.CreateSessionResponse:
        """A new session with its first graph."""
        config = ConfigProto()
        config.CopyFrom(self._master.default_config)
        config.MergeFrom(request.config)
        self._quota.check(caller())
        graph = ClientGraph()
        try:
            with self._allotments.of(client()):
                add_to_graph(graph, request.graph_def)
            session = self._master.create_session(
                graph.operations,
                config,
                request.target,
                self._file_access,
                self._client_elsewhere(),
            )
        except BaseException:
            graph.let_go()
            raise
        self._quota.note(session.handle, caller())
        self._served[session.handle] = _ServedSession(session, graph)
        self.leases.open(session.handle)
        self.leases.close_idle()
        self._forget_closed()
        return service_messages.CreateSessionResponse(
            session_handle=session.handle, graph_version=0
        )

    def _client_elsewhere(self) -> str:
        """The name of the client whose call this thread serves, for other tasks."""
        name = client()
        # On loopback a client is a connection, of which other machines have the same ones.
        return name if name == caller() else f"{name} at {self._master.peers.me.address}"

    def _forget_closed(self) -> None:
        for handle in [h for h in list(self._served) if h not in self._master.sessions]:
            self._let_go(handle)
            self.leases.forget(handle)

    def extend_session(
        self, request: service_messages.ExtendSessionRequest
    ) -> service_messages.ExtendSessionResponse:
        """Adds nodes to a session's graph."""
        with self._allotments.of(client()):
            return self._extend_session(request)

    def _extend_session(
        self, request: service_messages.ExtendSessionRequest
    ) -> service_messages.ExtendSessionResponse:
        served = self._session(request.session_handle)
        if request.current_graph_version != served.version:
            raise errors.AbortedError(
                None,
                None,
                f"Current version is {served.version} but caller expected "
                f"{request.current_graph_version}.",
            )
        served.extend(request.graph_def)
        return service_messages.ExtendSessionResponse(new_graph_version=served.version)

    def partial_run_setup(
        self, request: service_messages.PartialRunSetupRequest
    ) -> service_messages.PartialRunSetupResponse:
        """Starts a step whose feeds arrive in parts."""
        handle = self._session(request.session_handle).partial_run_setup(request)
        return service_messages.PartialRunSetupResponse(partial_run_handle=handle)

    def run_step(
        self, request: service_messages.RunStepRequest
    ) -> service_messages.RunStepResponse:
        """Runs a step, or a part of one."""
        with self._allotments.of(client()):
            return self._run_step(request)

    def _run_step(
        self, request: service_messages.RunStepRequest
    ) -> service_messages.RunStepResponse:
        response = service_messages.RunStepResponse()
        try:
            served = self._session(request.session_handle)
            if request.partial_run_handle:
                values = served.partial_run(request)
            else:
                prepared = served.prepared(
                    request.fetch, request.target, [item.name for item in request.feed]
                )
                feeds = [read_tensor(item.tensor) for item in request.feed]
                metadata = RunMetadata()
                current_attempt.put(_attempt_of(request))
                values = served.session.run(prepared, feeds, request.options, metadata)
                check_fits(values, *_TOO_MUCH)
                if metadata.ByteSize():
                    response.metadata.CopyFrom(metadata)
        except errors.OpError as error:
            marked = with_marked_node(error)
            if not request.store_errors_in_response_body:
                raise marked from None
            response.status_code = marked.error_code
            response.status_error_message = marked.message
            return response
        for name, value in zip(request.fetch, values, strict=True):
            response.tensor.add(name=name, tensor=_to_proto(value, served, name))
        return response

    def close_session(
        self, request: service_messages.CloseSessionRequest
    ) -> service_messages.CloseSessionResponse:
        """Ends a session."""
        self.leases.forget(request.session_handle)
        self._master.session(request.session_handle).close()
        self._let_go(request.session_handle)
        return service_messages.CloseSessionResponse()

    def list_devices(
        self, request: service_messages.ListDevicesRequest
    ) -> service_messages.ListDevicesResponse:
        """The devices of a session, or of this task and its cluster."""
        if request.session_handle:
            devices = self._session(request.session_handle).session.list_devices()
        else:
            devices = self._master.devices()
        response = service_messages.ListDevicesResponse()
        mine = self._master.worker.task + "/"
        for device in devices:
            place = response.local_device if device.name.startswith(mine) else None
            (response.remote_device if place is None else place).add().CopyFrom(device)
        return response

    def reset(self, request: service_messages.ResetRequest) -> service_messages.ResetResponse:
        """Drops containers on all tasks; sessions end."""
        self._master.reset(list(request.container), list(request.device_filters))
        for handle in list(self._served):
            self._let_go(handle)
        return service_messages.ResetResponse()

    def make_callable(
        self, request: service_messages.MakeCallableRequest
    ) -> service_messages.MakeCallableResponse:
        """Prepares a step that is run by its number."""
        number = self._session(request.session_handle).make_callable(request.options)
        return service_messages.MakeCallableResponse(handle=number)

    def run_callable(
        self, request: service_messages.RunCallableRequest
    ) -> service_messages.RunCallableResponse:
        """Runs a prepared step."""
        with self._allotments.of(client()):
            return self._run_callable(request)

    def _run_callable(
        self, request: service_messages.RunCallableRequest
    ) -> service_messages.RunCallableResponse:
        served = self._session(request.session_handle)
        prepared, options = served.callable(request.handle)
        feeds = [read_tensor(tensor) for tensor in request.feed]
        if len(feeds) != len(options.feed):
            raise errors.InvalidArgumentError(
                None, None, f"The callable takes {len(options.feed)} values, got {len(feeds)}."
            )
        metadata = RunMetadata()
        try:
            values = served.session.run(prepared, feeds, options.run_options, metadata)
            check_fits(values, *_TOO_MUCH)
        except errors.OpError as error:
            raise with_marked_node(error) from None
        response = service_messages.RunCallableResponse()
        for name, value in zip(options.fetch, values, strict=True):
            response.fetch.append(_to_proto(value, served, name))
        if metadata.ByteSize():
            response.metadata.CopyFrom(metadata)
        return response

    def release_callable(
        self, request: service_messages.ReleaseCallableRequest
    ) -> service_messages.ReleaseCallableResponse:
        """Forgets a prepared step."""
        self._session(request.session_handle).release_callable(request.handle)
        return service_messages.ReleaseCallableResponse()


def _attempt_of(
    request: service_messages.RunStepRequest | service_messages.RunCallableRequest,
) -> StepAttempt | None:
    """Which attempt of a numbered step a client asks for, if it says so."""
    if not request.step_attempt:
        return None
    try:
        return StepAttempt.unpack(request.step_attempt)
    except ValueError as error:
        raise errors.InvalidArgumentError(None, None, f"Malformed RunStep: {error}.") from None


def _to_proto(value: object, served: _ServedSession, name: str) -> tensor_pb2.TensorProto:
    dtype = served.tensor(name, "fetch").dtype.base_dtype
    return make_tensor_proto(value, dtype=dtype)


def add_to_graph(graph: ClientGraph, graph_def: graph_pb2.GraphDef) -> None:
    """Adds a client's nodes to its graph.

    Raises:
      InvalidArgumentError: They are malformed, or clash with what is there.
      ResourceExhaustedError: They are too many, or too large.
    """
    if not graph_def.node and not graph_def.library.function:
        return
    graph.admit(graph_def)
    try:
        extend_graph(graph.operations, graph_def, check_not_abandoned)
    except (ValueError, TypeError, KeyError) as error:
        raise errors.InvalidArgumentError(None, None, str(error)) from None
