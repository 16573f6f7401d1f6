"""A small HTTP server for what tasks and launchers show: questions in, answers out.

It answers GET only, in threads of its own, and logs nothing. What is shown, and to whom, is the
business of the function that answers.
"""

from __future__ import annotations

import dataclasses
import hmac
import http.server
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

PLAIN = "text/plain; charset=utf-8"
_SECONDS = 10.0


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
        class Handler(_Handler):
            answer_to = staticmethod(answer)

        class Server(_Server):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        self._server = Server((host.strip("[]"), port), Handler)
        #: The port that it has.
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answers no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""


class _Handler(http.server.BaseHTTPRequestHandler):
    answer_to: Callable[[Question], Answer]
    timeout = _SECONDS
    server_version = "millrace"
    sys_version = ""

    def do_GET(self) -> None:
        """Answers."""
        asked = self.headers.get
        answer = self.answer_to(Question(self.path, asked("Authorization", ""), asked("Host", "")))
        self.send_response(answer.code)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        if answer.code == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Questions are not logged."""
