"""One contract for every way that messages go between two tasks."""

import functools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from millrace.core import errors
from millrace.core.dead import DEAD
from millrace.rpc import in_process
from millrace.rpc.certificates import LOOPBACK_HOSTS, Authority
from millrace.rpc.channel import Channel
from millrace.rpc.grpc_channel import GrpcChannel
from millrace.rpc.listener import SocketListener, dial
from millrace.rpc.message import Kind, Message
from millrace.rpc.security import Security
from millrace.rpc.service import CachedThreads, Connection, RpcServer
from millrace.rpc.socket_channel import SocketChannel
from millrace.rpc.tls_socket import TlsSocket

SECONDS = 60.0


class Recorder:
    """A handler that keeps what it is told."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.closed: list[errors.OpError] = []
        self.condition = threading.Condition()
        self.answer: Callable[[Channel, Message], None] | None = None

    def on_message(self, channel: Channel, message: Message) -> None:
        if self.answer is not None:
            self.answer(channel, message)
        with self.condition:
            self.messages.append(message)
            self.condition.notify_all()

    def on_close(self, channel: Channel, error: errors.OpError) -> None:
        with self.condition:
            self.closed.append(error)
            self.condition.notify_all()

    def wait(self, condition: Callable[[], Any]) -> None:
        with self.condition:
            assert self.condition.wait_for(condition, SECONDS), "nothing came"

    def wait_for(self, count: int) -> list[Message]:
        self.wait(lambda: len(self.messages) >= count)
        return self.messages


class Pair:
    """Two ends and what they were told; `inject` writes raw bytes to the second end."""

    def __init__(self, one: Channel, other: Channel, handlers: tuple[Recorder, Recorder]) -> None:
        self.one, self.other = one, other
        self.told_one, self.told_other = handlers
        self.inject: Callable[[bytes], None] | None = None


def in_process_pair() -> Iterator[Pair]:
    a, b = Recorder(), Recorder()
    one, other = in_process.connect((a, "/job:a", 1), (b, "/job:b", 2))
    one.start()
    other.start()
    yield Pair(one, other, (a, b))
    one.close()


def socket_pair(process: int | None = None) -> Iterator[Pair]:
    a, b = Recorder(), Recorder()
    left, right = socket.socketpair()
    one = SocketChannel(left, a, "/job:b", 2, process)
    other = SocketChannel(right, b, "/job:a", 1, process)
    one.start()
    other.start()
    pair = Pair(one, other, (a, b))
    pair.inject = left.sendall
    yield pair
    one.close()
    other.close()


@functools.cache
def tls_keys() -> Security:
    authority = Authority()
    certificate, key = authority.issue("task", LOOPBACK_HOSTS)
    return Security(authority.certificate, certificate, key)


def tls_pair() -> Iterator[Pair]:
    a, b = Recorder(), Recorder()
    left, right = socket.socketpair()
    here, there = tls_keys().client_context(), tls_keys().server_context()
    assert here is not None and there is not None
    raw, accepted = TlsSocket(left, here, "localhost"), TlsSocket(right, there)
    server = threading.Thread(target=accepted.do_handshake)
    server.start()
    raw.do_handshake()
    server.join(SECONDS)
    one = SocketChannel(raw, a, "/job:b", 2)
    other = SocketChannel(accepted, b, "/job:a", 1)
    one.start()
    other.start()
    pair = Pair(one, other, (a, b))
    pair.inject = lambda data: raw.sendall(memoryview(data))
    yield pair
    one.close()
    other.close()


def grpc_pair(folder: Any) -> Iterator[Pair]:
    a, b = Recorder(), Recorder()
    accepted: list[GrpcChannel] = []
    threads = CachedThreads("test")
    server = RpcServer(threads)

    def accept(ticket: bytes) -> GrpcChannel | None:
        if ticket != b"ticket":
            return None
        accepted.append(GrpcChannel(b, "/job:a", 1))
        return accepted[0]

    server.add_peer(lambda data: data, accept, *[lambda data: data] * 6)
    address = f"unix:{folder}/socket"
    server.bind(address)
    server.start()
    connection = Connection(address)
    one = GrpcChannel(a, "/job:b", 2)
    connection.open_stream(b"ticket", one)
    deadline = time.monotonic() + SECONDS
    while not accepted:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    pair = Pair(one, accepted[0], (a, b))
    pair.inject = lambda data: one._outbox.put([data])
    yield pair
    one.close()
    connection.close()
    server.stop()
    threads.shutdown()


@pytest.fixture(params=["in_process", "socket", "shared_memory", "tls", "grpc"])
def pair(request: Any, tmp_path: Any) -> Iterator[Pair]:
    if request.param == "in_process":
        yield from in_process_pair()
    elif request.param == "socket":
        yield from socket_pair()
    elif request.param == "tls":
        yield from tls_pair()
    elif request.param == "shared_memory":
        yield from socket_pair(os.getpid())
    else:
        yield from grpc_pair(tmp_path)


@pytest.fixture(params=["socket", "shared_memory", "tls", "grpc"])
def wire(request: Any, tmp_path: Any) -> Iterator[Pair]:
    """The transports that carry bytes."""
    ways = {
        "socket": socket_pair,
        "shared_memory": lambda: socket_pair(os.getpid()),
        "tls": tls_pair,
        "grpc": lambda: grpc_pair(tmp_path),
    }
    yield from ways[request.param]()


def test_messages_arrive_in_order_each_way(pair):
    for i in range(500):
        pair.one.send(Message(Kind.TENSORS, i, -i, tensors=[np.int64(i)]))
        pair.other.send(Message(Kind.DONE, i, i))
    assert [m.step for m in pair.told_other.wait_for(500)] == list(range(500))
    assert [int(m.tensors[0]) for m in pair.told_other.messages] == list(range(500))
    assert [m.key for m in pair.told_one.wait_for(500)] == list(range(500))


def test_messages_of_many_threads_arrive_whole(pair):
    def send(thread: int) -> None:
        for i in range(20):
            value = np.full(50_000, thread * 100 + i)
            pair.one.send(Message(Kind.TENSORS, thread, i, tensors=[value, value]))

    threads = [threading.Thread(target=send, args=(t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    messages = pair.told_other.wait_for(80)
    for thread in threads:
        thread.join()
    for message in messages:
        for tensor in message.tensors:
            assert tensor.shape == (50_000,)
            assert (tensor == message.step * 100 + message.key).all()
    for t in range(4):
        assert [m.key for m in messages if m.step == t] == list(range(20))


def test_values_of_all_sorts_arrive(pair):
    strings = np.array([b"", b"\0\xff"], object)
    pair.one.send(Message(Kind.RUN, 1, 2, b"x", [DEAD, strings, np.zeros((0, 2)), np.float32(1)]))
    (message,) = pair.told_other.wait_for(1)
    dead, text, empty, scalar = message.tensors
    assert message.kind is Kind.RUN and message.text == b"x"
    assert dead is DEAD and text.tolist() == [b"", b"\0\xff"]
    assert empty.shape == (0, 2) and scalar == 1 and np.shape(scalar) == ()


def test_both_ends_send_large_tensors_at_once_without_waiting_for_each_other(pair):
    value = np.ones(4 << 20, np.float32)

    def send_back(channel: Channel, message: Message) -> None:
        if message.key:
            channel.send(Message(Kind.TENSORS, message.step, 0, tensors=message.tensors))

    pair.told_one.answer = pair.told_other.answer = send_back
    for i in range(3):
        pair.one.send(Message(Kind.TENSORS, i, 1, tensors=[value]))
        pair.other.send(Message(Kind.TENSORS, i, 1, tensors=[value]))
    for told in (pair.told_one, pair.told_other):
        for message in told.wait_for(6):
            assert message.tensors[0].shape == value.shape and message.tensors[0][-1] == 1


def test_send_returns_although_the_other_end_does_not_read(pair, background):
    free = threading.Event()
    pair.told_other.answer = lambda channel, message: free.wait(10 * SECONDS) and None
    value = np.ones(8 << 20, np.float32)

    def send() -> None:
        for i in range(4):
            pair.one.send(Message(Kind.TENSORS, i, tensors=[value]))

    try:
        background(send).result()
    finally:
        free.set()
    assert [m.step for m in pair.told_other.wait_for(4)] == [0, 1, 2, 3]


def test_close_tells_both_ends_once(pair):
    pair.one.send(Message(Kind.PING))
    pair.told_other.wait_for(1)
    pair.one.close("Enough")
    pair.one.close("Again")
    pair.told_one.wait(lambda: pair.told_one.closed)
    pair.told_other.wait(lambda: pair.told_other.closed)
    assert not pair.one.is_open and not pair.other.is_open
    pair.other.close()
    assert len(pair.told_one.closed) == len(pair.told_other.closed) == 1
    assert isinstance(pair.told_other.closed[0], errors.UnavailableError)
    assert "Enough" in pair.told_one.closed[0].message
    assert "/job:a" in pair.told_other.closed[0].message


def test_the_accepting_end_can_close_too(pair):
    pair.other.close()
    pair.told_one.wait(lambda: pair.told_one.closed)
    assert not pair.one.is_open


def test_send_after_close_raises_unavailable_with_the_reason(pair):
    pair.one.close("Enough")
    for _ in range(2):
        with pytest.raises(errors.UnavailableError, match="Enough"):
            pair.one.send(Message(Kind.PING))


def test_a_handler_that_raises_closes_the_channel(pair):
    def fail(channel: Channel, message: Message) -> None:
        raise KeyError("lost")

    pair.told_other.answer = fail
    pair.one.send(Message(Kind.PING))
    pair.told_other.wait(lambda: pair.told_other.closed)
    assert "KeyError" in pair.told_other.closed[0].message
    pair.told_one.wait(lambda: pair.told_one.closed)


def test_an_error_of_who_is_told_of_the_end_harms_no_thread_that_reads(pair, monkeypatch, caplog):
    """Such a thread may read other channels too."""
    told = threading.Event()

    def fail(channel: Channel, error: errors.OpError) -> None:
        told.set()
        raise KeyError("lost")

    monkeypatch.setattr(pair.told_other, "on_close", fail)
    pair.other.close()  # raises nothing
    assert told.is_set() and not pair.other.is_open
    assert "could not be handled" in caplog.text
    pair.told_one.wait(lambda: pair.told_one.closed)


def test_what_cannot_be_sent_is_refused_and_the_channel_stays(pair):
    with pytest.raises(errors.InvalidArgumentError, match="cannot be sent"):
        pair.one.send(Message(Kind.TENSORS, tensors=[np.array([object()], object)]))
    pair.one.send(Message(Kind.PING))
    assert pair.told_other.wait_for(1)[0].kind is Kind.PING


def test_traffic_is_counted_at_both_ends(pair):
    pair.one.send(Message(Kind.TENSORS, tensors=[np.zeros(1000)]))
    pair.told_other.wait_for(1)
    assert (pair.one.traffic.messages_sent, pair.one.traffic.messages_received) == (1, 0)
    assert (pair.other.traffic.messages_sent, pair.other.traffic.messages_received) == (0, 1)


def test_bytes_are_counted_alike_at_both_ends(wire):
    wire.one.send(Message(Kind.TENSORS, tensors=[np.zeros(1000), np.zeros(3, np.int8)]))
    wire.told_other.wait_for(1)
    assert wire.one.traffic.bytes_sent == wire.other.traffic.bytes_received > 8000


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3, b"MRC1" + b"\xff" * 60, bytes(5000)]
)
def test_malformed_bytes_close_the_channel(wire, data):
    wire.one.send(Message(Kind.PING))
    wire.told_other.wait_for(1)
    wire.inject(data)
    wire.told_other.wait(lambda: wire.told_other.closed)
    assert "no message" in wire.told_other.closed[0].message
    wire.told_one.wait(lambda: wire.told_one.closed)


def test_an_end_that_dies_in_the_middle_of_a_message_closes_the_channel():
    told = Recorder()
    left, right = socket.socketpair()
    channel = SocketChannel(right, told, "/job:ps", 1)
    channel.start()
    left.sendall(b"MRC1\x03")
    left.close()
    told.wait(lambda: told.closed)
    assert told.messages == [] and "/job:ps" in told.closed[0].message


def test_a_channel_holds_no_message_that_was_handled(pair):
    import gc
    import weakref

    value = np.ones(10)
    seen: list[Any] = []

    def note(channel: Channel, message: Message) -> None:
        seen.append(weakref.ref(message.tensors[0]))
        message.tensors.clear()

    pair.told_other.answer = note
    pair.one.send(Message(Kind.TENSORS, tensors=[value]))
    pair.told_other.wait_for(1)
    del value
    deadline = time.monotonic() + SECONDS
    while seen[0]() is not None:
        gc.collect()
        assert time.monotonic() < deadline, "the tensor is still held"
        time.sleep(0.002)


def test_closing_leaves_no_thread(pair):
    pair.one.send(Message(Kind.TENSORS, tensors=[np.ones(4 << 20, np.float32)]))
    pair.told_other.wait_for(1)
    pair.one.close()
    pair.told_other.wait(lambda: pair.told_other.closed)
    deadline = time.monotonic() + SECONDS
    while [t for t in threading.enumerate() if "/job:a" in t.name or "/job:b" in t.name]:
        assert time.monotonic() < deadline, threading.enumerate()
        time.sleep(0.002)


class TestListener:
    """Who may open a socket channel."""

    @pytest.fixture
    def listener(self) -> Iterator[Any]:
        self.accepted: list[bytes] = []
        self.connections: list[Any] = []

        def accept(ticket: bytes, connection: Any) -> bool:
            self.accepted.append(ticket)
            if ticket[:1] != b"g":
                return False
            self.connections.append(connection)
            return True

        made = SocketListener("127.0.0.1", accept)
        yield made
        made.close()
        for connection in self.connections:
            connection.close()

    def test_a_ticket_opens(self, listener, until):
        raw = dial(("127.0.0.1", listener.port), b"g" * 32, SECONDS)
        until(lambda: self.connections)
        raw.close()

    def test_a_ticket_may_come_in_pieces(self, listener, until):
        raw = dial(("127.0.0.1", listener.port), b"g" * 3, SECONDS)
        time.sleep(0.01)  # so that the pieces are not joined on the way
        raw.sendall(b"g" * 29)
        until(lambda: self.connections)
        assert self.accepted == [b"g" * 32]
        raw.close()

    @pytest.mark.parametrize("ticket", [b"x" * 32, b"x" * 100])
    def test_without_one_the_connection_is_closed(self, listener, ticket):
        raw = dial(("127.0.0.1", listener.port), ticket, SECONDS)
        raw.settimeout(SECONDS)
        with pytest.raises((ConnectionError, AssertionError)):
            assert raw.recv(1), "closed"
        raw.close()
        assert not self.connections

    def test_one_who_sends_nothing_does_not_keep_others_out(self, listener, until):
        silent = [dial(("127.0.0.1", listener.port), b"", SECONDS) for _ in range(20)]
        raw = dial(("127.0.0.1", listener.port), b"g" * 32, SECONDS)
        until(lambda: self.connections)
        for connection in [*silent, raw]:
            connection.close()


@pytest.fixture
def listener() -> Iterator[tuple[SocketListener, list[Any]]]:
    let_in: list[Any] = []

    def take(ticket: bytes, connection: Any) -> bool:
        let_in.append(connection)
        return True

    made = SocketListener("127.0.0.1", take)
    yield made, let_in
    made.close()
    for connection in let_in:
        connection.close()


@pytest.mark.parametrize("is_known", [True, False])
def test_tasks_of_one_machine_meet_at_a_local_name_and_else_at_the_port(
    listener: tuple[SocketListener, list[Any]], is_known: bool
) -> None:
    guard, let_in = listener
    name = guard.local_name if is_known else "millrace-that-is-elsewhere"
    with dial(("127.0.0.1", guard.port), bytes(32), SECONDS, None, name) as connection:
        deadline = time.monotonic() + SECONDS
        while not let_in:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        families = {connection.family, let_in[0].family}
    assert families == {socket.AF_UNIX if is_known else socket.AF_INET}


def test_there_is_no_local_name_where_tls_is_wanted() -> None:
    guard = SocketListener(
        "127.0.0.1", lambda ticket, connection: False, tls_keys().server_context()
    )
    assert guard.local_name == ""
    guard.close()
