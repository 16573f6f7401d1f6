"""The backend of `Session("grpc://host:port")` for a server in another process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from millrace.core import errors
from millrace.core.tensor_proto import make_ndarray, make_tensor_proto
from millrace.graph.graph import Graph
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.platform.wait_reporter import WaitReporter
from millrace.rpc import service_messages
from millrace.rpc.failed_node import explained
from millrace.rpc.service import Connection
from millrace.rpc.wire_limit import check_fits
from millrace.server.drivers import current_attempt

#: A closing session waits no longer than this for its server.
_CLOSE_SECONDS = 5.0


class _Run(NamedTuple):
    """What is asked of the server; `what` has the names of all three."""

    fetches: list[Tensor]
    targets: list[Operation]
    feeds: list[Tensor]
    what: tuple[str, ...]


class RemoteBackend:
    """Runs a graph on a server: sends it the graph, then names and values."""

    def __init__(self, target: str, graph: Graph | None, config: Any) -> None:
        self._target = target
        self._graph = graph
        self._config = config
        self._connection = Connection(target.removeprefix("grpc://"))
        self._master = self._connection.master()
        self._lock = threading.Lock()
        self._handle = ""
        self._graph_version = 0
        self._nodes_sent = 0
        self._functions_sent = 0
        if graph is not None:
            request = service_messages.CreateSessionRequest(config=config, target=target)
            try:
                self._handle = self._call_patiently("create_session", request).session_handle
            except BaseException:
                self._connection.close()
                raise
            self._connection.hold_session(self._handle)

    def _call_patiently(self, method: str, request: Any) -> Any:
        """Calls a method; while the server is not there, waits for it and says so."""
        reporter = WaitReporter("A session has waited")
        while True:
            timeout = max(0.1, reporter.seconds_left())
            try:
                # Once the server is there, what it does takes the time that it takes.
                self._connection.wait_until_ready(timeout)
            except errors.DeadlineExceededError:
                reporter.tell(
                    lambda: (
                        f"the server at {self._target}: check that it runs and that the "
                        "address is right"
                    )
                )
                continue
            return getattr(self._master, method)(request)

    def _extend(self) -> None:
        """Sends what was added to the graph since the last time."""
        graph = self._graph
        assert graph is not None
        with self._lock:
            count = len(graph.get_operations())
            functions = len(graph._functions)
            if count == self._nodes_sent and functions == self._functions_sent:
                return
            graph_def = graph.as_graph_def(from_version=self._nodes_sent)
            if self._functions_sent:
                new = list(graph._functions.values())[self._functions_sent :]
                del graph_def.library.function[:]
                graph_def.library.function.extend(f.to_function_def() for f in new)
            request = service_messages.ExtendSessionRequest(
                session_handle=self._handle,
                graph_def=graph_def,
                current_graph_version=self._graph_version,
            )
            response = self._master.extend_session(request)
            self._graph_version = response.new_graph_version
            self._nodes_sent, self._functions_sent = count, functions

    def prepare(
        self, fetches: Sequence[Tensor], targets: Sequence[Operation], feeds: Sequence[Tensor]
    ) -> _Run:
        """Sends what the server does not know of the graph yet."""
        self._extend()
        what = current_attempt.names_of(fetches, targets, feeds)
        return _Run(list(fetches), list(targets), list(feeds), what)

    def run(
        self, prepared: _Run, values: Sequence[Any], options: Any, run_metadata: Any
    ) -> list[Any]:
        """Asks the server to run a step, and waits for its answer."""
        request = self._request(prepared.fetches, prepared.targets, prepared.feeds, values)
        attempt = current_attempt.take(prepared.what)
        if attempt is not None:
            request.step_attempt = attempt.pack()
        if options is not None:
            request.options.CopyFrom(options)
        if not request.options.timeout_in_ms and self._config.operation_timeout_in_ms > 0:
            request.options.timeout_in_ms = self._config.operation_timeout_in_ms
        response = self._run_step(request)
        if run_metadata is not None:
            run_metadata.CopyFrom(response.metadata)
        return [_value(item.tensor) for item in response.tensor]

    def _request(
        self,
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        feeds: Sequence[Tensor],
        values: Sequence[Any],
    ) -> Any:
        request = service_messages.RunStepRequest(
            session_handle=self._handle,
            fetch=[tensor.name for tensor in fetches],
            target=[op.name for op in targets],
            store_errors_in_response_body=True,
        )
        check_fits(
            values,
            "The values fed to a step",
            "Feed parts of it to several steps, let the tasks read it themselves, or run the "
            "client in the process of a server: tasks send each other tensors of any size.",
        )
        for tensor, value in zip(feeds, values, strict=True):
            proto = make_tensor_proto(value, dtype=tensor.dtype.base_dtype)
            request.feed.add(name=tensor.name, tensor=proto)
        return request

    def _run_step(self, request: Any) -> Any:
        response = self._master.run_step(request)
        if response.status_code:
            raise explained(response.status_code, response.status_error_message, self._graph)
        return response

    def repeated_step(self, prepared: Any) -> None:
        """Steps are repeated only by their caller."""
        return None

    def partial_run_setup(
        self, fetches: Sequence[Tensor], targets: Sequence[Operation], feeds: Sequence[Tensor]
    ) -> str:
        """Starts a partial run on the server."""
        self._extend()
        request = service_messages.PartialRunSetupRequest(
            session_handle=self._handle,
            fetch=[tensor.name for tensor in fetches],
            target=[op.name for op in targets],
            feed=[tensor.name for tensor in feeds],
        )
        return str(self._master.partial_run_setup(request).partial_run_handle)

    def partial_run(
        self,
        run: str,
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        values: dict[Tensor, Any],
    ) -> list[Any]:
        """Gives more feeds and waits for some of the fetches."""
        request = self._request(fetches, targets, list(values), list(values.values()))
        request.partial_run_handle = run
        return [_value(item.tensor) for item in self._run_step(request).tensor]

    def drop_tensor(self, handle: str) -> None:
        """The server forgets the tensors of a session when it is closed."""

    def list_devices(self) -> list[Any]:
        """The devices of all tasks."""
        request = service_messages.ListDevicesRequest(session_handle=self._handle)
        response = self._master.list_devices(request)
        return [*response.local_device, *response.remote_device]

    def reset(self, containers: list[str] | None) -> None:
        """Drops containers on all tasks."""
        request = service_messages.ResetRequest(
            container=containers or [], device_filters=self._config.device_filters
        )
        self._call_patiently("reset", request)
        self._connection.close()

    def close(self) -> None:
        """Ends the session."""
        request = service_messages.CloseSessionRequest(session_handle=self._handle)
        try:
            if self._handle:
                self._master.close_session(request, timeout=_CLOSE_SECONDS)
        except errors.OpError:
            return  # A server that is gone has forgotten the session.
        finally:
            self._connection.close()

    def close_soon(self) -> None:
        """The same: its connection is nobody else's."""
        self.close()


def _value(tensor: Any) -> Any:
    array = make_ndarray(tensor)
    return array if array.ndim else array[()]
