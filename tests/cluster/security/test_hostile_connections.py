"""No connection, however it ends, closes a listener: handshakes broken off at every byte.

`MILLRACE_HOSTILE_CONNECTIONS=10000` makes as many to each kind of listener.
"""

import contextlib
import json
import os
import socket
import threading
import types

import pytest

import millrace as tf
from millrace.rpc.channel import Traffic
from millrace.rpc.listener import TICKET_BYTES, SocketListener, dial
from millrace.rpc.message import Kind, Message, encode
from millrace.rpc.message_reader import MessageReader
from millrace.rpc.security import Security
from millrace.rpc.service import Connection
from tests.cluster.security.conftest import SECONDS, address, is_closed, keys, run_remotely
from tests.cluster.security.hostile_connections import ENDINGS, HTTP2, Attacker

COUNT = int(os.environ.get("MILLRACE_HOSTILE_CONNECTIONS", "300"))
PING = b"".join(map(bytes, encode(Message(Kind.PING, 7, 8, b"text"))))
#: Kinds of listeners: whether it is the data plane's, whether it is local, whether it has TLS.
LISTENERS = {
    "data plane": (True, False, False),
    "data plane, local": (True, True, False),
    "data plane, TLS": (True, False, True),
    "gRPC": (False, False, False),
    "gRPC, TLS": (False, False, True),
}


def payload(cluster, security: Security, is_data_plane: bool) -> bytes:
    """What an honest task would send after the handshake of TLS."""
    if not is_data_plane:
        return HTTP2
    greeting = {"task": "/job:x", "address": "x:1", "incarnation": 1, "protocol": "grpc+fast"}
    connection = Connection(address(cluster), security)
    try:
        answer = json.loads(connection.meet(json.dumps(greeting).encode(), timeout=SECONDS))
    finally:
        connection.close()
    return bytes.fromhex(answer["ticket"]) + PING


@pytest.mark.parametrize("kind", LISTENERS)
def test_a_listener_outlives_handshakes_broken_off_at_any_byte(make_job, authority, kind, until):
    is_data_plane, is_local, has_tls = LISTENERS[kind]
    security = keys(authority) if has_tls else Security()
    cluster, trainer = make_job(security)
    listener = cluster["ps", 0].peers._listener
    at = "\0" + listener.local_name if is_local else ("127.0.0.1", listener.port)
    if not is_data_plane:
        at = ("127.0.0.1", int(address(cluster).rpartition(":")[2]))
    attacker = Attacker(
        len(kind), at, payload(cluster, security, is_data_plane), security.client_context()
    )
    stop, failures = threading.Event(), []

    def train() -> None:
        try:
            while not stop.is_set():
                trainer.step()
        except BaseException as error:
            failures.append(error)

    training = threading.Thread(target=train)
    training.start()
    try:
        every_byte = [(i, ending) for i in range(attacker.length + 1) for ending in ENDINGS]
        chosen = every_byte[:: max(1, len(every_byte) // COUNT)][:COUNT]
        for position, ending in chosen:
            attacker.attack(position, ending)
        for _ in range(COUNT - len(chosen)):
            attacker.attack()
    finally:
        stop.set()
        training.join(SECONDS)
        attacker.close()
    assert not failures, failures
    assert listener.times_opened == 1
    until(lambda: not listener.handshakes)
    # A task that comes now is let in and answered, and so is a client.
    honest = dial(
        ("127.0.0.1", listener.port),
        payload(cluster, security, True)[:TICKET_BYTES],
        SECONDS,
        security.client_context(),
        listener.local_name if is_local else "",
    )
    honest.sendall(PING)
    assert MessageReader(honest, Traffic(), None).read().kind is Kind.PONG
    honest.close()
    assert run_remotely(cluster, tf.constant(3.0) * 2) == 6


@pytest.fixture
def listener():
    """A listener, its next connection's ticket, and the log of what it let in."""
    arrived = threading.Semaphore(0)
    tickets = []

    def on_connection(ticket, connection) -> bool:
        tickets.append(ticket)
        arrived.release()
        return False

    made = SocketListener("127.0.0.1", on_connection)

    def knock(*, local: bool = False) -> None:
        """Shows a ticket, which arrives."""
        name = made.local_name if local else ""
        connection = dial(("127.0.0.1", made.port), b"t" * 32, SECONDS, local_name=name)
        assert arrived.acquire(timeout=SECONDS)
        connection.close()

    yield made, knock
    made.close()


ERRORS = (ConnectionResetError("reset"), ValueError("no"), MemoryError(), RuntimeError("odd"))


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("place", ["wrap_bio", "register", "advance"])
def test_no_error_of_one_connection_ends_the_listener(listener, error, place):
    """Of any kind, wherever it comes from: TLS, the system, a lack of memory."""
    made, knock = listener

    def fail(*_, **__):
        raise error

    knock()
    with pytest.MonkeyPatch.context() as patch:
        if place == "wrap_bio":
            patch.setattr(made, "_context", types.SimpleNamespace(wrap_bio=fail))
        elif place == "register":
            patch.setattr(made._selector, "register", fail)
        else:
            patch.setattr("millrace.rpc.listener._Handshake.advance", fail)
        with socket.create_connection(("127.0.0.1", made.port), SECONDS) as refused:
            refused.sendall(b"x")
            assert is_closed(refused)  # and not forgotten
    knock()
    assert made.times_opened == 1


def test_a_listener_that_dies_is_opened_again_at_its_port_and_says_so(listener, caplog, until):
    made, knock = listener
    port = made.port
    knock()
    for times in (2, 3):
        made._selector.close()  # What no connection can do: the wait itself fails.
        with contextlib.suppress(OSError):  # Perhaps it was noticed already.
            socket.create_connection(("127.0.0.1", port), SECONDS).close()
        until(lambda times=times: made.times_opened == times)
        knock()
        knock(local=True)
        assert made.port == port
    said = [r.getMessage() for r in caplog.records if "opened again" in r.getMessage()]
    assert len(said) == 2 and str(port) in said[0]
