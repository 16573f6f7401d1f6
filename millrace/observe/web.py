"""A small HTTP server for what tasks and launchers show: questions in, answers out.

It answers GET only and logs nothing. What is shown, and to whom, is the business of the function
that answers.

Everybody who reaches the port may connect, and the process has other work. So one thread reads and
writes all connections and waits for none; a few more, while there are questions, call the function.
A question has a largest size and a time in which it is all there; when there are too many
connections, the oldest is closed. Nothing that happens to one connection ends the thread.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import email.utils
import hmac
import http
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping

PLAIN = "text/plain; charset=utf-8"
#: For a question, for its answer, and for a client to hang up.
_READ_SECONDS, _WRITE_SECONDS, _DRAIN_SECONDS = 10.0, 30.0, 2.0
_RETRY_SECONDS = 0.05
_MOST_CONNECTIONS = 256
_MOST_QUESTION_BYTES = 32 << 10
_MOST_ANSWERING = 4
_BACKLOG = 1024
#: Connections that are accepted before the others have their turn.
_ACCEPTED_AT_ONCE = 64
_PIECE_BYTES = 64 << 10


@dataclasses.dataclass(frozen=True)
class Question:
    """What a client asks.

    Attributes:
      path: With what follows a ``?``.
      authorization, host: Headers of these names.
    """

    path: str
    authorization: str = ""
    host: str = ""

    def shows(self, token: str) -> bool:
        """Whether it brings the job's token."""
        return hmac.compare_digest(self.authorization.encode(), f"Bearer {token}".encode())


@dataclasses.dataclass(frozen=True)
class Answer:
    """What it gets."""

    code: int
    body: bytes
    kind: str = PLAIN
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def encoded(self) -> bytes:
        """As HTTP has it."""
        headers = {
            "Server": "millrace",
            "Date": email.utils.formatdate(usegmt=True),
            "Content-Type": self.kind,
            "Content-Length": str(len(self.body)),
            "Connection": "close",
        }
        if self.code == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if self.code == 405:
            headers["Allow"] = "GET"
        headers.update(self.headers)
        lines = [f"HTTP/1.0 {self.code} {http.HTTPStatus(self.code).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


def parsed(content: bytes) -> Question | Answer | None:
    """The question in the bytes so far; an answer if it is a bad one; None if more must come."""
    # Either line end will do, as RFC 9112 recommends; what follows the empty line is not looked at.
    head, end, _ = content.replace(b"\r\n", b"\n").partition(b"\n\n")
    if not end:
        if len(content) < _MOST_QUESTION_BYTES:
            return None
        return Answer(431, b"The question is too long.\n")
    first, *lines = head.decode("latin-1").split("\n")
    words = first.split()
    if len(words) != 3 or not words[2].startswith("HTTP/"):
        return Answer(400, b"This is no question in HTTP.\n")
    if words[0] != "GET":
        return Answer(405, b"Only GET is answered.\n")
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        found.setdefault(name.lower(), value.strip())
    return Question(words[1], found.get("authorization", ""), found.get("host", ""))


class _Connection:
    """A client. It reads, is answered, writes, and waits for the client to hang up, in turn."""

    __slots__ = ("deadline", "is_answering", "is_written", "question", "stream", "unsent")

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.deadline = time.monotonic() + _READ_SECONDS
        self.question = b""
        #: A thread works for it; the selector does not know it meanwhile.
        self.is_answering = False
        self.unsent = memoryview(b"")
        self.is_written = False

    def give(self, answer: Answer) -> None:
        """Has an answer written."""
        self.is_answering = False
        self.unsent = memoryview(answer.encoded())
        self.deadline = time.monotonic() + _WRITE_SECONDS

    def advance(self) -> Question | None:
        """Does what can be done without waiting; the question, when it is complete.

        Raises:
          BlockingIOError: It must wait for the client.
          OSError: The connection ended.
        """
        while not self.unsent and not self.is_written:
            piece = self.stream.recv(_PIECE_BYTES)
            if not piece:
                raise ConnectionError("it ended before its question")
            self.question += piece
            found = parsed(self.question)
            if isinstance(found, Question):
                self.is_answering = True
                return found
            if found is not None:
                self.give(found)
        while self.unsent:
            self.unsent = self.unsent[self.stream.send(self.unsent[:_PIECE_BYTES]) :]
            if not self.unsent:
                # Closed while there are unread bytes, a connection is reset, and the answer lost.
                self.stream.shutdown(socket.SHUT_WR)
                self.is_written, self.question = True, b""
                self.deadline = time.monotonic() + _DRAIN_SECONDS
        for _ in range(_ACCEPTED_AT_ONCE):
            if not self.stream.recv(_PIECE_BYTES):
                raise ConnectionError("it was answered")
        raise BlockingIOError

    @property
    def waits_for(self) -> int:
        """What the selector is asked for."""
        return selectors.EVENT_WRITE if self.unsent else selectors.EVENT_READ


class WebServer:
    """Answers until it is closed.

    Args:
      host, port: Where to listen; port 0 is any that is free.
      answer: Called in any thread.
      name: Of its thread.

    Raises:
      OSError: It cannot listen there.
    """

    def __init__(
        self, host: str, port: int, answer: Callable[[Question], Answer], name: str
    ) -> None:
        self._answer, self._name = answer, name
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server(
            (host.strip("[]"), port), family=family, backlog=_BACKLOG
        )
        #: The port that it has.
        self.port = int(self._listening.getsockname()[1])
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for each in (self._listening, self._wake, self._woken):
            each.setblocking(False)
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        #: In the order in which they came; only the serving thread has them.
        self._connections: dict[_Connection, None] = {}
        self._lock = threading.Lock()
        self._asked: collections.deque[tuple[_Connection, Question]] = collections.deque()
        self._answered: collections.deque[tuple[_Connection, Answer]] = collections.deque()
        #: Threads that answer, at most `_MOST_ANSWERING`. Under the lock.
        self._answering = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answers no more."""
        self._closed.set()
        self._interrupt()
        self._thread.join()
        with self._lock:
            self._asked.clear()
            self._wake.close()

    # -- The serving thread ----------------------------------------------------------------------

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                self._turn()
            except Exception:
                self._closed.wait(_RETRY_SECONDS)
        for connection in list(self._connections):
            self._drop(connection)
        for each in (self._selector, self._listening, self._woken):
            each.close()

    def _turn(self) -> None:
        now = time.monotonic()
        for connection in list(self._connections):
            if not connection.is_answering and connection.deadline < now:
                self._drop(connection)
        for key, _ in self._selector.select(1.0 if self._connections else None):
            if key.fileobj is self._listening:
                self._accept()
            elif key.fileobj is self._woken:
                with contextlib.suppress(BlockingIOError):
                    self._woken.recv(_PIECE_BYTES)
            elif key.data in self._connections:
                self._advance(key.data)
        while self._answered:
            connection, answer = self._answered.popleft()
            if connection in self._connections:
                connection.give(answer)
                self._advance(connection)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                stream, _ = self._listening.accept()
            except (BlockingIOError, ConnectionError):
                return
            except OSError:  # No more files, or no memory: others need them, too.
                if self._connections:
                    self._drop(next(iter(self._connections)))
                self._closed.wait(_RETRY_SECONDS)
                return
            stream.setblocking(False)
            connection = _Connection(stream)
            while len(self._connections) >= _MOST_CONNECTIONS:
                self._drop(next(iter(self._connections)))
            self._connections[connection] = None
            self._advance(connection)

    def _advance(self, connection: _Connection) -> None:
        try:
            question = connection.advance()
        except BlockingIOError:
            self._await(connection, connection.waits_for)
        except Exception:
            self._drop(connection)
        else:
            self._await(connection, 0)
            if question is not None:
                self._ask(connection, question)

    def _await(self, connection: _Connection, events: int) -> None:
        known = self._selector.get_map().get(connection.stream)
        if known is None:
            if events:
                self._selector.register(connection.stream, events, connection)
        elif not events:
            self._selector.unregister(connection.stream)
        elif known.events != events:
            self._selector.modify(connection.stream, events, connection)

    def _drop(self, connection: _Connection) -> None:
        del self._connections[connection]
        self._await(connection, 0)
        connection.stream.close()

    # -- Threads that answer ---------------------------------------------------------------------

    def _ask(self, connection: _Connection, question: Question) -> None:
        with self._lock:
            self._asked.append((connection, question))
            if self._answering >= _MOST_ANSWERING:
                return
            self._answering += 1
        try:
            threading.Thread(target=self._work, name=f"{self._name} answers", daemon=True).start()
        except RuntimeError:  # No more threads: this connection may try again later.
            with self._lock:
                self._answering -= 1
                self._asked.pop()
            self._drop(connection)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._asked:
                    self._answering -= 1
                    return
                connection, question = self._asked.popleft()
            try:
                answer = self._answer(question)
            except Exception as error:
                answer = Answer(500, f"No answer: {type(error).__name__}.\n".encode())
            self._answered.append((connection, answer))
            self._interrupt()

    def _interrupt(self) -> None:
        with self._lock, contextlib.suppress(OSError):  # Full: it wakes up anyway. Or closed.
            self._wake.send(b"\0")
