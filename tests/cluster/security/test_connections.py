"""How many connections a server takes, and those that never say what they want."""

import socket
import threading

import pytest

import millrace as tf
from millrace.core import errors
from millrace.rpc.security import Security
from millrace.rpc.service import Connection
from tests.cluster.security.conftest import (
    GOOD_TOKEN,
    SECONDS,
    address,
    is_closed,
    keys,
    run_remotely,
)


def test_more_connections_than_a_server_takes_are_closed(monkeypatch):
    monkeypatch.setenv("MILLRACE_MAX_CONNECTIONS", "3")
    server = tf.train.Server({"a": ["127.0.0.1:0"]})
    connections = [Connection(server.target.removeprefix("grpc://")) for _ in range(4)]
    try:
        for connection in connections[:3]:
            connection.status(SECONDS)
        with pytest.raises(errors.UnavailableError, match="MILLRACE_MAX_CONNECTIONS"):
            connections[3].status(SECONDS)
        connections[0].status(SECONDS)
    finally:
        for connection in connections:
            connection.close()
        server.stop()


def _unfinished_request(port: int, method: str) -> socket.socket:
    """A connection with a call of which the request never ends, in HTTP/2's own bytes."""

    def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        size = len(payload).to_bytes(3, "big")
        return size + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":authority": "localhost",
        ":path": method,
        "te": "trailers",
        "content-type": "application/grpc",
    }
    block = b"".join(
        bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in headers.items()
    )
    settings, begun = frame(4, 0, 0, b""), frame(1, 4, 1, block)  # 4: the headers end here
    part = frame(0, 0, 1, b"\0" + (1 << 20).to_bytes(4, "big") + b"some of it")
    connection = socket.create_connection(("127.0.0.1", port), SECONDS)
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + begun + part)
    return connection


def _step_threads() -> int:
    return sum(thread.name == "millrace step" for thread in threading.enumerate())


@pytest.mark.parametrize("token", ["", GOOD_TOKEN])
def test_clients_that_never_finish_their_request_keep_nobody_waiting(make_job, token, until):
    cluster, trainer = make_job(Security(token=token))
    port = int(address(cluster).rpartition(":")[2])
    before = _step_threads()
    slow = [_unfinished_request(port, "/tensorflow.MasterService/RunStep") for _ in range(100)]
    try:
        if not token:
            until(lambda: _step_threads() >= before + 50)  # They wait, each by itself.
        for _ in range(3):
            trainer.step()
        assert run_remotely(cluster, tf.constant(3.0) * 2) == 6
        if token:  # They have none, and are not waited for.
            assert _step_threads() < before + 50
    finally:
        for connection in slow:
            connection.close()


def test_a_thousand_half_open_connections_keep_nobody_out(make_job, authority, monkeypatch, until):
    monkeypatch.setenv("MILLRACE_HANDSHAKE_SECONDS", "8")
    cluster, trainer = make_job(keys(authority))
    listener = cluster["ps", 0].peers._listener
    ports = [int(address(cluster).rpartition(":")[2]), listener.port]
    silent = [
        socket.create_connection(("127.0.0.1", port), SECONDS) for _ in range(500) for port in ports
    ]
    try:
        assert listener.handshakes <= 256
        trainer.step()
        assert run_remotely(cluster, tf.constant(3.0) * 2) == 6
        trainer.step()
        until(lambda: not listener.handshakes)
        for connection in silent:
            assert is_closed(connection)
    finally:
        for connection in silent:
            connection.close()
