"""The small HTTP server of a task: `/metrics`, `/healthz`, `/readyz`.

Health is open to whoever reaches the port, as schedulers want it. Metrics name variables and tasks:
where the job has a token, they are for those who bring it (``Authorization: Bearer ...``, which
Prometheus sends with `credentials_file`).
"""

from __future__ import annotations

import hmac
import http.server
import threading
from collections.abc import Callable
from typing import Any

from millrace.core import errors
from millrace.observe import metrics
from millrace.observe.observation import METRICS_PORT, OBSERVED, Observation

_SECONDS = 10.0


class MetricsServer:
    """Answers until it is closed, in threads of its own.

    Args:
      where: ``port`` or ``host:port``; port 0 is any that is free.
      host: Where to listen when only a port is given.
      status: The task's status.
      is_ready: Whether the task serves.
      token: What `/metrics` is shown for; empty if to everybody.

    Raises:
      InvalidArgumentError: `where` is no port.
      UnknownError: The port cannot be listened at.
    """

    def __init__(
        self,
        where: str,
        host: str,
        status: Callable[[], dict[str, Any]],
        is_ready: Callable[[], bool],
        token: str = "",
        observed: Observation = OBSERVED,
    ) -> None:
        given, _, port = where.rpartition(":")
        if not port.isdigit() or int(port) > 65535:
            raise errors.InvalidArgumentError(
                None, None, f"{METRICS_PORT}={where!r} is no port; write 9100, or host:9100"
            )
        self._status, self._is_ready, self._token = status, is_ready, token
        self._observed = observed
        outer = self

        class Handler(_Handler):
            owner = outer

        try:
            self._server = _Server((given or host, int(port)), Handler)
        except OSError as error:
            raise errors.UnknownError(
                None,
                None,
                f"metrics cannot be served at {given or host}:{port}: {error.strerror or error}; "
                f"choose another {METRICS_PORT}",
            ) from None
        observed.enabled = True
        #: Where it listens.
        self.address = f"{given or host}:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="millrace metrics", daemon=True
        )
        self._thread.start()

    def answer(self, path: str, authorization: str) -> tuple[int, str, bytes]:
        """Status code, content type and body for a question."""
        plain = "text/plain; charset=utf-8"
        path = path.partition("?")[0]
        if path == "/healthz":
            return 200, plain, b"ok\n"
        if path == "/readyz":
            return (200, plain, b"ready\n") if self._is_ready() else (503, plain, b"not ready\n")
        if path != "/metrics":
            return 404, plain, b"There are /metrics, /healthz and /readyz.\n"
        wanted = f"Bearer {self._token}"
        if self._token and not hmac.compare_digest(authorization.encode(), wanted.encode()):
            return 401, plain, b"The job's token is needed: Authorization: Bearer <token>.\n"
        return 200, metrics.CONTENT_TYPE, metrics.text_of(self._status, self._observed)

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
    owner: MetricsServer
    timeout = _SECONDS
    server_version = "millrace"
    sys_version = ""

    def do_GET(self) -> None:
        """Answers."""
        code, kind, body = self.owner.answer(self.path, self.headers.get("Authorization", ""))
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if code == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Questions are not logged."""
