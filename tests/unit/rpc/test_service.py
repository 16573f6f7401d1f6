"""Threads of a server, statuses of its calls, and clients that go away."""

import threading

import grpc
import pytest

from millrace.core import errors
from millrace.rpc import service_messages
from millrace.rpc.service import (
    MASTER,
    CachedThreads,
    Connection,
    RpcServer,
    on_abandoned,
    shorten,
)


@pytest.fixture
def threads():
    made = CachedThreads("test threads", idle_seconds=0.5)
    yield made
    made.shutdown()


def test_every_task_runs_at_once_however_many_wait(threads):
    free = threading.Event()
    blocked = [threads.submit(free.wait, 60) for _ in range(100)]
    assert threads.submit(lambda: 5).result(60) == 5
    free.set()
    assert all(task.result(60) for task in blocked)


def test_a_thread_is_used_again(until):
    threads = CachedThreads("patient threads", idle_seconds=600)
    idents = set()
    for _ in range(50):
        idents.add(threads.submit(threading.get_ident).result(60))
        until(lambda: threads._idle == 1)
    threads.shutdown()
    assert len(idents) == 1


def test_an_error_of_a_task_is_its_futures(threads):
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 / 0).result(60)


def test_after_the_end_no_task_is_taken_and_no_thread_stays(until):
    threads = CachedThreads("ending threads")
    free = threading.Event()
    busy = threads.submit(free.wait, 60)
    threads.submit(int).result(60)
    threads.shutdown()
    with pytest.raises(RuntimeError, match="stopped"):
        threads.submit(int)
    free.set()
    busy.result(60)
    until(lambda: not [t for t in threading.enumerate() if t.name == "ending threads"])


class Master:
    """A service whose methods do what the test says."""

    def __init__(self):
        self.call = lambda request: service_messages.CloseSessionResponse()

    def close_session(self, request):
        return self.call(request)


@pytest.fixture
def service(tmp_path, threads):
    master = Master()
    server = RpcServer(threads)
    server.add(MASTER, {"CloseSession": service_messages.MASTER_METHODS["CloseSession"]}, master)
    address = f"unix:{tmp_path}/socket"
    server.bind(address)
    server.start()
    connection = Connection(address)
    yield master, connection
    connection.close()
    server.stop()


def test_a_lack_of_threads_delays_calls_and_does_not_end_the_server(service, monkeypatch):
    """gRPC hands calls out in one thread, which an error of ours would end."""
    _, connection = service
    start, refused = threading.Thread.start, threading.Event()

    def refuse(thread):
        if thread.name == "test threads":
            refused.set()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    request, stub = service_messages.CloseSessionRequest(), connection.master()
    with pytest.raises(errors.DeadlineExceededError):
        stub.close_session(request, 0.2)
    assert refused.is_set()
    monkeypatch.undo()
    stub.close_session(request, 60.0)


def test_tasks_that_found_no_thread_are_run_by_those_there_are(threads, monkeypatch):
    begun, free = threading.Event(), threading.Event()
    first = threads.submit(lambda: begun.set() or free.wait(60))
    begun.wait(60)

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    waiting = [threads.submit(int) for _ in range(5)]
    assert not any(task.done() for task in waiting)
    free.set()
    assert first.result(60) and [task.result(60) for task in waiting] == [0] * 5


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (errors.AbortedError(None, None, "was raised"), errors.AbortedError),
        (errors.OutOfRangeError(None, None, "was raised"), errors.OutOfRangeError),
        (ValueError("was raised"), errors.InvalidArgumentError),
        (TypeError("was raised"), errors.InvalidArgumentError),
        (KeyError("was raised"), errors.InternalError),
    ],
)
def test_what_a_method_raises_reaches_the_caller_as_tensorflows_class(service, raised, kind):
    master, connection = service

    def fail(request):
        raise raised

    master.call = fail
    with pytest.raises(kind, match="was raised"):
        connection.master().close_session(service_messages.CloseSessionRequest())


def test_a_long_text_is_cut_in_the_middle(service):
    master, connection = service

    def fail(request):
        raise errors.AbortedError(None, None, "begin" + "é" * 100_000 + "end")

    master.call = fail
    with pytest.raises(errors.AbortedError) as caught:
        connection.master().close_session(service_messages.CloseSessionRequest())
    message = caught.value.message
    assert message.startswith("begin") and "[...]" in message and message.endswith("end")


def test_shorten_leaves_short_texts_alone():
    assert shorten("short") == "short"
    assert len(shorten("x" * 10_000, 100)) <= 100


def test_bytes_that_are_no_request_are_an_invalid_argument(service):
    _, connection = service
    call = connection.grpc_channel.unary_unary(f"/{MASTER}/CloseSession")
    with pytest.raises(grpc.RpcError) as caught:
        call(b"\x0f\xff")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "cannot be read" in caught.value.details()


def test_a_method_learns_that_its_client_is_gone(service):
    master, connection = service
    began, gone = threading.Event(), threading.Event()

    def wait(request):
        on_abandoned(gone.set)
        began.set()
        gone.wait(60)
        return service_messages.CloseSessionResponse()

    master.call = wait
    stub = connection.grpc_channel.unary_unary(f"/{MASTER}/CloseSession")
    call = stub.future(b"")
    assert began.wait(60)
    call.cancel()
    assert gone.wait(60)


def test_a_thread_that_serves_no_call_has_no_client_to_lose():
    on_abandoned(lambda: pytest.fail("called"))


def test_nobody_at_an_address_is_unavailable_and_the_address_is_named(tmp_path):
    connection = Connection(f"unix:{tmp_path}/nobody")
    with pytest.raises(errors.UnavailableError, match="nobody"):
        connection.master().close_session(service_messages.CloseSessionRequest(), timeout=60)
    with pytest.raises(errors.DeadlineExceededError, match="does not answer"):
        connection.wait_until_ready(0.05)
    connection.close()
    with pytest.raises(errors.CancelledError):
        connection.master().close_session(service_messages.CloseSessionRequest(), timeout=60)
