"""gRPC servers and stubs for TensorFlow's two services and Millrace's own.

Services are objects with a method a remote method (``CreateSession`` is ``create_session``) that
take a request message and return a response message. What they raise becomes a gRPC status with
TensorFlow's code.
"""

from __future__ import annotations

import collections
import concurrent.futures
import errno
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from millrace.core import errors
from millrace.platform import limits, logging
from millrace.platform.wait_reporter import WaitReporter
from millrace.rpc import parsing, refusal
from millrace.rpc.callers import Callers, Handler, host_of
from millrace.rpc.channel import start_thread
from millrace.rpc.grpc_channel import GrpcChannel
from millrace.rpc.security import Security, is_loopback
from millrace.rpc.service_messages import MASTER_METHODS, WORKER_METHODS

MASTER = "tensorflow.MasterService"
WORKER = "tensorflow.WorkerService"
PEER = "millrace.PeerService"
#: Asks for a task's status, and lets it note from then on how long its steps wait.
OBSERVE = b"observe"
SESSION = "millrace.SessionService"
_NO_LIMIT = -1
#: A message of protobuf's, and so of gRPC's, is never larger.
_MAX_MESSAGE = (1 << 31) - 1
#: Who has no token, or nothing to ask, need not hold a connection for ever; it is made again.
_IDLE_MILLISECONDS = 600_000
#: A task that was waited for long is found soon after it is up; gRPC's own limit is 2 minutes.
_RECONNECT = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 250),
)
#: A server that is there answers within so many seconds; else it is asked why it does not.
_SOON = 1.0
#: What becomes of a call that the server did not authenticate.
_MAY_BE_REFUSED = (errors.UNAVAILABLE, errors.DEADLINE_EXCEEDED)
_STATUS_BY_CODE = {status.value[0]: status for status in grpc.StatusCode}
#: Goes with an error that a service raised, to tell it from one of gRPC's own.
_SAID_BY_SERVICE = (("millrace-error", "1"),)
#: gRPC refuses a larger trailer; what is longer is cut in the middle.
_MAX_DETAILS = 4096
_MAX_TRAILER = 7000
#: After so long without an answer, see whether the server is there.
_SILENT_SECONDS = 1.0


def method_name(remote: str) -> str:
    """``create_session`` for ``CreateSession``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", remote).lower()


Result = TypeVar("Result")


class CachedThreads(concurrent.futures.Executor):
    """Runs every task at once: in an idle thread, or in a new one.

    A step that waits holds its thread; however many wait, one more is never refused. When the
    system gives no more threads, a task waits for one that has ended another: an error here would
    end the thread of gRPC's that hands calls out, and with it the server. One thread stays for
    that, however long there is nothing to do.
    """

    def __init__(self, name: str, idle_seconds: float = 10.0) -> None:
        self._name = name
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._has_task = threading.Condition(self._lock)
        self._tasks: collections.deque[
            tuple[concurrent.futures.Future[Any], Callable[[], object]]
        ] = collections.deque()
        self._live = 0
        self._idle = 0
        self._closed = False

    def submit(
        self, fn: Callable[..., Result], /, *args: object, **kwargs: object
    ) -> concurrent.futures.Future[Result]:
        """Runs ``fn(*args, **kwargs)`` soon."""
        future: concurrent.futures.Future[Result] = concurrent.futures.Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot run a task: the server has stopped")
            self._tasks.append((future, lambda: fn(*args, **kwargs)))
            if self._idle >= len(self._tasks):
                self._has_task.notify()
                return future
            self._live += 1
        self._start()
        return future

    def _start(self) -> None:
        """Starts a thread, which is counted already, if there is one to be had."""
        try:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        except RuntimeError as error:
            with self._lock:
                self._live -= 1
                live, waiting = self._live, len(self._tasks)
            logging.error(
                "No thread can be started (%s): %d calls wait for one of the %d that there are.",
                error,
                waiting,
                live,
            )

    def _work(self) -> None:
        while True:
            with self._lock:
                while not self._tasks:
                    if self._closed:
                        self._live -= 1
                        return
                    self._idle += 1
                    was_woken = self._has_task.wait(self._idle_seconds)
                    self._idle -= 1
                    if not was_woken and not self._tasks and self._live > 1:
                        self._live -= 1
                        return
                future, call = self._tasks.popleft()
                # Some are left only where threads were lacking.
                needs_more = len(self._tasks) > self._idle
                self._live += needs_more
            if needs_more:
                self._start()
            try:
                result = call()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            del future, call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more tasks; idle threads end."""
        with self._lock:
            self._closed = True
            self._has_task.notify_all()


class RpcServer:
    """A gRPC server with the services of one task."""

    def __init__(
        self, threads: concurrent.futures.Executor, security: Security | None = None
    ) -> None:
        self._security = security or Security()
        self._callers = Callers()
        options = (
            *_message_options(),
            ("grpc.so_reuseport", 0),
            ("grpc.server_handshake_timeout_ms", int(limits.HANDSHAKE_SECONDS.value * 1000)),
            ("grpc.max_connection_idle_ms", _IDLE_MILLISECONDS),
            ("grpc.max_allowed_incoming_connections", int(min(limits.CONNECTIONS.value, 1 << 30))),
        )
        self._server = grpc.server(
            threads, options=options, interceptors=self._security.interceptors()
        )

    def add(self, name: str, methods: Methods, service: object) -> None:
        """Serves the methods of one service."""
        handlers = {
            remote: grpc.unary_unary_rpc_method_handler(
                self._guarded(
                    _on_bytes(getattr(service, method_name(remote)), request), f"{name}/{remote}"
                )
            )
            for remote, (request, _) in methods.items()
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(name, handlers),)
        )

    def add_services(self, master: object, worker: object) -> None:
        """Serves TensorFlow's master and worker services."""
        self.add(MASTER, MASTER_METHODS, master)
        self.add(WORKER, WORKER_METHODS, worker)

    def add_peer(
        self,
        meet: Callable[[bytes], bytes],
        accept: Callable[[bytes], GrpcChannel | None],
        status: Callable[[bytes], bytes],
        stop: Callable[[bytes], bytes],
        register: Callable[[bytes], bytes],
        moved: Callable[[bytes], bytes],
        consistency: Callable[[bytes], bytes],
        move: Callable[[bytes], bytes],
    ) -> None:
        """Serves Millrace's own service.

        Args:
          meet: Answers a greeting.
          accept: Makes a channel for a stream that begins with the given ticket, or refuses.
          status: Tells what the task holds and does, as JSON.
          stop: Lets the server stop; answers before it does. With the address of a task: that it
            has left the job.
          register: Reads or changes a register.
          moved: Hears where a task is from now on.
          consistency: Answers workers that ask whether they may make a step.
          move: Lets the standby of the task serve it.
        """

        def exchange(pieces: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            channel = accept(next(pieces, b""))
            if channel is None:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "The ticket is not valid.")
                return
            context.add_callback(lambda: channel.close("The other task is gone"))
            channel.start(pieces, context.cancel)
            yield from channel.outgoing()

        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    PEER,
                    {
                        "Meet": grpc.unary_unary_rpc_method_handler(
                            self._guarded(meet, f"{PEER}/Meet")
                        ),
                        "Status": grpc.unary_unary_rpc_method_handler(
                            self._guarded(status, f"{PEER}/Status")
                        ),
                        "Stop": grpc.unary_unary_rpc_method_handler(
                            self._guarded(stop, f"{PEER}/Stop")
                        ),
                        "Register": grpc.unary_unary_rpc_method_handler(
                            self._guarded(register, f"{PEER}/Register")
                        ),
                        "Moved": grpc.unary_unary_rpc_method_handler(
                            self._guarded(moved, f"{PEER}/Moved")
                        ),
                        "Consistency": grpc.unary_unary_rpc_method_handler(
                            self._guarded(consistency, f"{PEER}/Consistency")
                        ),
                        "Move": grpc.unary_unary_rpc_method_handler(
                            self._guarded(move, f"{PEER}/Move")
                        ),
                        "Exchange": grpc.stream_stream_rpc_method_handler(exchange),
                    },
                ),
            )
        )

    def add_holds(self, hold: Callable[[str], Callable[[], None] | None]) -> None:
        """Serves calls that last as long as the client wants a session.

        Args:
          hold: Begins to hold the session of a name; returns what lets go of it, or None if there
            is no such session.
        """

        def attend(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
            gone = threading.Event()
            let_go = hold(request.decode(errors="replace"))
            if let_go is None:
                context.abort(grpc.StatusCode.NOT_FOUND, "There is no such session.")
                return
            try:
                if context.add_callback(gone.set):
                    yield b""
                    gone.wait()
            finally:
                let_go()

        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    SESSION, {"Hold": grpc.unary_stream_rpc_method_handler(attend)}
                ),
            )
        )

    def bind(self, address: str) -> int:
        """Listens at ``host:port``; the port (the one chosen, for port 0).

        Raises:
          UnknownError: The port is taken, or the host is not one of this machine's.
        """
        credentials = self._security.server_credentials()
        try:
            _refuse_taken(address)
            if credentials is not None:
                return int(self._server.add_secure_port(address, credentials))
            return int(self._server.add_insecure_port(address))
        except (RuntimeError, OSError) as error:
            if isinstance(error, socket.gaierror):
                why = f"the name {address.rpartition(':')[0]} does not resolve on this machine"
            elif isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                why = "another process has the port; choose another, or 0 for any"
            else:
                why = (
                    "the host is no address of this machine, or the port is taken; MILLRACE_BIND "
                    "says where to listen when others dial another address"
                )
            raise errors.UnknownError(
                None, None, f"Could not start gRPC server: cannot listen at {address}: {why}."
            ) from error

    def _guarded(self, call: Callable[[bytes], bytes], name: str) -> Handler:
        return self._callers.counted(_guarded(call, name))

    def start(self) -> None:
        """Begins to serve."""
        limits.allow_many_files()
        self._server.start()

    def stop(self, grace: float = 0.0) -> None:
        """Ends all calls and frees the port."""
        self._server.stop(grace).wait()


def _refuse_taken(address: str) -> None:
    """Fails if another process listens at an address.

    gRPC is content with one of the addresses of a name: beside a process that has the port on
    127.0.0.1, it would serve on ::1 alone, and be found by nobody.
    """
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) == 0:
        return
    host = host.removeprefix("[").removesuffix("]")
    for family, kind, number, _, place in socket.getaddrinfo(
        host or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        try:
            with socket.socket(family, kind, number) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise


def _message_options() -> tuple[tuple[str, int], ...]:
    return (
        ("grpc.max_send_message_length", _NO_LIMIT),
        (
            "grpc.max_receive_message_length",
            int(min(limits.MESSAGE_BYTES.value, _MAX_MESSAGE)),
        ),
    )


_call = threading.local()


def on_abandoned(callback: Callable[[], object]) -> None:
    """Calls `callback` if the client of the call that this thread serves goes away.

    It is also called when the call is over, in either way, and at once when the client is gone
    already. In a thread that serves no call nothing happens: then the caller is here.
    """
    context = getattr(_call, "context", None)
    if context is not None and not context.add_callback(callback):
        callback()


def check_not_abandoned() -> None:
    """For work that may take long: fails once the client whose call this thread serves is gone.

    Raises:
      CancelledError: It is.
    """
    context = getattr(_call, "context", None)
    if context is not None and not context.is_active():
        raise errors.CancelledError(None, None, "The client is gone, or its deadline has passed.")


def client() -> str:
    """Whose call this thread serves: a machine's, or on loopback a connection's; empty if none."""
    context = getattr(_call, "context", None)
    if context is None:
        return ""
    peer: str = context.peer()
    host = host_of(peer)
    return peer if is_loopback(host) else host


def caller() -> str:
    """The machine of the client whose call this thread serves; empty when it serves none."""
    context = getattr(_call, "context", None)
    return "" if context is None else host_of(context.peer())


def _on_bytes(
    method: Callable[[Message], Message], request: type[Message]
) -> Callable[[bytes], bytes]:
    """A method of messages as one of bytes; gRPC would log what cannot be read, at length."""

    def call(data: bytes) -> bytes:
        try:
            message = parsing.parse(request, data)
        except DecodeError as error:
            raise errors.InvalidArgumentError(
                None, None, f"The request cannot be read: {error}"
            ) from None
        answer: bytes = method(message).SerializeToString()
        return answer

    return call


def _guarded(call: Callable[[bytes], bytes], name: str) -> Handler:
    def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
        _call.context = context
        try:
            return call(request)
        except errors.OpError as error:
            code, details = error.error_code, error.message
        except (ValueError, TypeError, RecursionError) as error:
            code, details = errors.INVALID_ARGUMENT, f"{type(error).__name__}: {error}"
        except MemoryError as error:
            code, details = errors.RESOURCE_EXHAUSTED, f"OOM: {error or 'no memory is left'}"
        except Exception as error:
            logging.error("%s failed", name, exc_info=True)
            code, details = errors.INTERNAL, f"{type(error).__name__}: {error}"
        finally:
            _call.context = None
        context.set_trailing_metadata(_SAID_BY_SERVICE)
        status = _STATUS_BY_CODE.get(code, grpc.StatusCode.UNKNOWN)
        raise context.abort(status, _fitting(details))  # which raises by itself

    return handle


def _fitting(details: str) -> str:
    """As much of a text as fits into a trailer, where each byte that is not plain takes three."""
    limit = _MAX_DETAILS
    while True:
        text = shorten(details, limit)
        plain = sum(32 <= byte < 127 and byte != 37 for byte in text.encode())
        if 3 * len(text.encode()) - 2 * plain <= _MAX_TRAILER:
            return text
        limit //= 2


def shorten(text: str, limit: int = _MAX_DETAILS) -> str:
    """The text, cut in the middle when it is longer than `limit`."""
    if len(text) <= limit:
        return text
    half = limit // 2 - 10
    return f"{text[:half]}\n[...]\n{text[-half:]}"


#: The messages that each method of a service takes and gives, by its name.
Methods: TypeAlias = Mapping[str, tuple[type[Message], type[Message]]]


class Stub:
    """Calls the methods of a remote service: ``stub.create_session(request)``."""

    def __init__(self, connection: Connection, name: str, methods: Methods) -> None:
        self._connection = connection
        self._calls = {
            method_name(remote): connection.grpc_channel.unary_unary(
                f"/{name}/{remote}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            for remote, (request, response) in methods.items()
        }

    def __getattr__(self, method: str) -> Callable[..., Message]:
        call = self._calls[method]

        def invoke(
            request: Message, timeout: float | None = None, wait_for_ready: bool = False
        ) -> Message:
            return self._connection.call(call, request, timeout, wait_for_ready, method)

        return invoke

    def begin(
        self,
        method: str,
        request: Message,
        on_done: Callable[[Message, errors.OpError | None], None],
    ) -> Callable[[], object]:
        """Calls a method without waiting for the answer.

        Args:
          method: The method's name.
          request: What it is asked.
          on_done: Is told the answer or the error, in some thread.

        Returns:
          A function that cancels the call.
        """
        try:
            future = self._calls[method].future(request, wait_for_ready=False)
        except ValueError as error:  # gRPC's answer to a closed channel
            on_done(None, errors.CancelledError(None, None, str(error)))
            return lambda: None

        def done(answer: grpc.Future) -> None:
            try:
                response = answer.result()
            except grpc.RpcError as error:
                on_done(None, self._connection.error_of(error))
            except grpc.FutureCancelledError:
                on_done(None, errors.CancelledError(None, None, "The call was cancelled here."))
            else:
                on_done(response, None)

        future.add_done_callback(done)
        cancel: Callable[[], object] = future.cancel
        return cancel


class Connection:
    """A gRPC connection to a server."""

    def __init__(self, address: str, security: Security | None = None) -> None:
        """Connects, with the keys of the environment when none are given."""
        self.address = address
        self._security = Security.from_environment() if security is None else security
        self._closed = False
        self._probing = threading.Lock()
        self._reached_at = float("-inf")
        #: Whether it was ever answered: then no key is the wrong one.
        self._is_known = False
        # Each connection is its own: otherwise one's backing off would delay another's start.
        options = (*_message_options(), ("grpc.use_local_subchannel_pool", 1), *_RECONNECT)
        self.grpc_channel = self._security.channel(address, options)

    def master(self) -> Stub:
        """The server's master service."""
        return Stub(self, MASTER, MASTER_METHODS)

    def worker(self) -> Stub:
        """The server's worker service."""
        return Stub(self, WORKER, WORKER_METHODS)

    def meet(self, greeting: bytes, timeout: float) -> bytes:
        """Greets the server as a peer; its answer."""
        return self._ask("Meet", greeting, timeout)

    def status(self, timeout: float, *, observe: bool = False) -> bytes:
        """What the server's task holds and does, as JSON.

        Args:
          timeout: In seconds.
          observe: Whether the task shall note from now on how long its steps wait.
        """
        return self._ask("Status", OBSERVE if observe else b"", timeout)

    def waits(self, step: int, timeout: float) -> bytes:
        """What the server's partition of a step waits for, as JSON."""
        return self._ask("Status", str(step).encode(), timeout)

    def stop_server(self, timeout: float) -> None:
        """Lets the server stop."""
        self._ask("Stop", b"", timeout)

    def say_left(self, address: str, timeout: float) -> None:
        """Tells the server that the task at an address has ended well."""
        self._ask("Stop", address.encode(), timeout)

    def say_moved(self, told: bytes, timeout: float) -> bytes:
        """Tells the server where a task is from now on (`server.peers`)."""
        return self._ask("Moved", told, timeout)

    def register(self, question: bytes, timeout: float) -> bytes:
        """Reads or changes a register of the server's task (`server.registers`)."""
        return self._ask("Register", question, timeout)

    def consistency(self, question: bytes, timeout: float) -> bytes:
        """Asks or tells the task that keeps the workers' clocks (`server.consistency`)."""
        return self._ask("Consistency", question, timeout)

    def move(self, question: bytes, timeout: float) -> bytes:
        """Has the standby of the server's task serve it; the answer says where that is."""
        return self._ask("Move", question, timeout)

    def _ask(self, method: str, question: bytes, timeout: float) -> bytes:
        call = self.grpc_channel.unary_unary(f"/{PEER}/{method}")
        answer: bytes = self.call(call, question, timeout, name=method)
        return answer

    def call(
        self,
        method: grpc.UnaryUnaryMultiCallable,
        request: Message | bytes,
        timeout: float | None = None,
        wait_for_ready: bool = False,
        name: str = "a call",
    ) -> Message | bytes:
        """Calls a method and waits for the answer.

        Not with gRPC's own blocking call: a Ctrl-C during one leaves a lock of the connection
        held, and every later call waits for it for ever.

        Raises:
          OpError: What the service raised, or what became of the connection.
        """
        try:
            answer = method.future(request, timeout=timeout, wait_for_ready=wait_for_ready)
        except ValueError as error:  # gRPC's answer to a closed channel
            raise errors.CancelledError(None, None, str(error)) from None
        try:
            try:
                result = answer.result(_SILENT_SECONDS)
            except grpc.FutureTimeoutError:
                result = self._wait_for(answer, name)
            self._is_known = True
            return result
        except grpc.RpcError as error:
            raise self.error_of(error) from None
        except grpc.FutureCancelledError:
            raise errors.CancelledError(None, None, "The connection was closed here.") from None
        except BaseException:
            answer.cancel()
            raise

    def _wait_for(self, answer: grpc.Future, name: str) -> Message | bytes:
        """Waits on, as long as the server is there, and says so.

        Raises:
          UnavailableError: It is not: its process is stopped, or it cannot be reached.
        """
        reporter = WaitReporter(f"{name} has waited")
        began = time.time()
        refused = 0
        while True:
            # A server that only takes its time is waited for, also one whose interpreter is busy.
            refused = 0 if self.is_reachable(_SILENT_SECONDS) else refused + 1
            try:
                return answer.result(_SILENT_SECONDS if not refused else 0.01)
            except grpc.FutureTimeoutError:
                reporter.tell(lambda: f"the server at {self.address}, which is there")
            if refused > 1:
                raise errors.UnavailableError(
                    None,
                    None,
                    f"{self.address} does not answer {name}, asked at "
                    f"{time.strftime('%H:%M:%S', time.localtime(began))}, nor does it accept "
                    "connections: its process is stopped, or its machine cannot be reached. "
                    "Check both.",
                )

    def is_reachable(self, timeout: float) -> bool:
        """Whether another connection to the server can be made.

        That is done by threads of gRPC's own, on both sides: also a server whose interpreter is
        busy is reachable; one that is stopped or cut off is not. Of many who ask at once, one
        finds out.
        """
        with self._probing:
            if self._reached_at > time.monotonic() - _SILENT_SECONDS:
                return True
            probe = Connection(self.address, self._security)
            probe._is_known = True  # Nobody wants to know why it is not.
            try:
                probe.wait_until_ready(timeout)
            except errors.OpError:
                return False
            finally:
                probe.close()
            self._reached_at = time.monotonic()
            return True

    def hold_session(self, handle: str) -> None:
        """Holds a session of the server until the connection is closed.

        When the call breaks because the connection does, it is made again as soon as there is one.
        """
        if self._closed:
            return
        try:
            held = self.grpc_channel.unary_stream(f"/{SESSION}/Hold")(
                handle.encode(), wait_for_ready=True
            )
        except ValueError:  # gRPC's answer to a closed channel
            return

        def ended() -> None:
            if not self._closed and held.code() is grpc.StatusCode.UNAVAILABLE:
                # Not here: gRPC waits for the end of its callbacks.
                start_thread(self.hold_session, "millrace holds a session", handle)

        if not held.add_callback(ended):
            ended()

    def open_stream(self, ticket: bytes, channel: GrpcChannel) -> None:
        """Makes `channel` one end of a stream to the server."""

        def pieces() -> Iterator[bytes]:
            yield ticket
            yield from channel.outgoing()

        stream = self.grpc_channel.stream_stream(f"/{PEER}/Exchange")(pieces())
        channel.start(stream, stream.cancel)

    def wait_until_ready(self, timeout: float) -> None:
        """Waits until the server answers.

        Raises:
          DeadlineExceededError: It does not within `timeout` seconds.
          UnauthenticatedError: It is there, but it does not accept our credentials.
        """
        ready = grpc.channel_ready_future(self.grpc_channel)
        try:
            try:
                ready.result(min(timeout, _SOON))
            except grpc.FutureTimeoutError:
                self._check_not_refused()
                ready.result(max(0.0, timeout - _SOON))
        except grpc.FutureTimeoutError:
            self._check_not_refused()
            raise errors.DeadlineExceededError(
                None, None, f"{self.address} does not answer."
            ) from None
        finally:
            ready.cancel()  # or it would go on watching the connection

    def _check_not_refused(self) -> None:
        why = None if self._is_known else refusal.explain(self.address, self._security)
        if why is not None:
            raise errors.UnauthenticatedError(None, None, why)

    def error_of(self, error: grpc.RpcError) -> errors.OpError:
        """A gRPC failure as TensorFlow's exception."""
        code = error.code().value[0]
        details = error.details() or ""
        if code in _MAY_BE_REFUSED and not self._is_known and not self._closed:
            why = refusal.explain(self.address, self._security)
            if why is not None:
                return errors.UnauthenticatedError(None, None, why)
            if "Socket closed" in details:
                details = (
                    f"{details}: {self.address} closed the connection at once. It is stopping, or "
                    f"has as many as it takes ({limits.CONNECTIONS.variable} raises that)."
                )
        if code == errors.RESOURCE_EXHAUSTED and "larger than max" in details:
            details = (
                f"{details}: {self.address} gives no more for {limits.MESSAGE_BYTES.what}; "
                f"{limits.MESSAGE_BYTES.variable} raises the limit of the side that receives."
            )
        if code == errors.CANCELLED and self._closed:
            return errors.CancelledError(None, None, "The connection was closed here.")
        if code == errors.CANCELLED and _SAID_BY_SERVICE[0] not in (
            error.trailing_metadata() or ()
        ):
            # Nobody cancelled the call: its server stopped.
            code, details = errors.UNAVAILABLE, f"The server stopped during a call: {details}"
        if code == errors.UNAVAILABLE and self.address not in details:
            details = f"{details} (asked: {self.address})"
        return errors.error_from_code(code, details)

    def close(self) -> None:
        """Closes the connection; calls that are under way are cancelled."""
        self._closed = True
        self.grpc_channel.close()
