"""Strangers at the HTTP port of a task, which everybody may reach who reaches the machine."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from millrace.observe import web
from millrace.observe.http import MetricsServer
from millrace.observe.observation import Observation

DEADLINE = 30.0


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    made = MetricsServer("0", "127.0.0.1", dict, lambda: True, "secret", Observation())
    yield made
    made.close()


def dialed(server: MetricsServer) -> socket.socket:
    host, _, port = server.address.rpartition(":")
    return socket.create_connection((host, int(port)), DEADLINE)


def asked(server: MetricsServer, path: str = "/healthz") -> int:
    """The code that an honest client gets."""
    client = http.client.HTTPConnection(server.address, timeout=DEADLINE)
    try:
        client.request("GET", path)
        return client.getresponse().status
    finally:
        client.close()


def told(server: MetricsServer, content: bytes) -> bytes:
    """The first line that these bytes get."""
    with dialed(server) as client:
        client.sendall(content)
        with client.makefile("rb") as answer:
            return answer.readline().split(b" ", 1)[-1].strip()


def test_connections_that_are_reset_hold_up_nobody(server: MetricsServer) -> None:
    for _ in range(500):
        client = dialed(server)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    assert asked(server) == 200


def test_connections_that_say_nothing_take_no_threads_and_few_files(server: MetricsServer) -> None:
    threads = threading.active_count()
    silent = [dialed(server) for _ in range(web._MOST_CONNECTIONS + 50)]
    try:
        assert asked(server) == 200
        assert threading.active_count() <= threads + web._MOST_ANSWERING
        assert silent[0].recv(1) == b""  # The oldest has made room.
    finally:
        for client in silent:
            client.close()


def test_a_question_has_a_time_in_which_it_is_all_there(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "_READ_SECONDS", 0.2)
    deadline = time.monotonic() + DEADLINE
    with dialed(server) as client, pytest.raises(ConnectionError):
        while time.monotonic() < deadline:
            client.sendall(b"X")
            client.settimeout(0.05)
            try:
                if not client.recv(1):
                    raise ConnectionError
            except TimeoutError:
                client.settimeout(DEADLINE)
    assert asked(server) == 200


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (b"\xff\0garbage\n\n", b"400 Bad Request"),
        (b"X: y\r\n" * 20_000, b"431 Request Header Fields Too Large"),
        (b"y" * 1_000_000, b"431 Request Header Fields Too Large"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 99\r\n\r\n", b"405 Method Not Allowed"),
        (b"GET /metrics HTTP/1.0\nAuthorization: Bearer \xe9\xff\n\n", b"401 Unauthorized"),
        (b"GET /\xff HTTP/1.1\r\n\r\n", b"404 Not Found"),
    ],
)
def test_bad_questions_get_an_answer(server: MetricsServer, content: bytes, answer: bytes) -> None:
    assert told(server, content) == answer
    assert asked(server) == 200 and asked(server, "/metrics") == 401


def test_questions_of_which_each_takes_long_take_few_threads() -> None:
    go, threads = threading.Event(), threading.active_count()

    def answer(question: web.Question) -> web.Answer:
        go.wait(DEADLINE)
        if question.path == "/bad":
            raise ZeroDivisionError
        return web.Answer(200, b"at last")

    server = web.WebServer("127.0.0.1", 0, answer, "slow")
    clients = [socket.create_connection(("127.0.0.1", server.port), DEADLINE) for _ in range(20)]
    try:
        for i, client in enumerate(clients):
            client.sendall(b"GET /bad HTTP/1.0\n\n" if i % 2 else b"GET / HTTP/1.0\n\n")
        assert threading.active_count() <= threads + 1 + web._MOST_ANSWERING
        go.set()
        answers = [client.makefile("rb").read() for client in clients]
        assert all(a.endswith(b"at last") for a in answers[::2])
        assert all(a.endswith(b"No answer: ZeroDivisionError.\n") for a in answers[1::2])
    finally:
        go.set()
        for client in clients:
            client.close()
        server.close()
