"""The small HTTP server of a task: `/metrics`, `/healthz`, `/readyz`.

Health is open to all who reach the port, as schedulers want it. Metrics name variables and tasks:
where the job has a token, they are for those who bring it (``Authorization: Bearer ...``, which
Prometheus sends with `credentials_file`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.core import errors
from millrace.observe import metrics
from millrace.observe.observation import METRICS_PORT, OBSERVED, Observation
from millrace.observe.web import Answer, Question, WebServer


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
        try:
            self._server = WebServer(given or host, int(port), self.answer, "millrace metrics")
        except OSError as error:
            raise errors.UnknownError(
                None,
                None,
                f"metrics cannot be served at {given or host}:{port}: {error.strerror or error}; "
                f"choose another {METRICS_PORT}",
            ) from None
        observed.enabled = True
        #: Where it listens.
        self.address = f"{given or host}:{self._server.port}"

    def answer(self, question: Question) -> Answer:
        """What a client gets."""
        path = question.path.partition("?")[0]
        if path == "/healthz":
            return Answer(200, b"ok\n")
        if path == "/readyz":
            return Answer(200, b"ready\n") if self._is_ready() else Answer(503, b"not ready\n")
        if path != "/metrics":
            return Answer(404, b"There are /metrics, /healthz and /readyz.\n")
        if self._token and not question.shows(self._token):
            return Answer(401, b"The job's token is needed: Authorization: Bearer <token>.\n")
        text = metrics.text_of(self._status, self._observed)
        return Answer(200, text, metrics.CONTENT_TYPE)

    def close(self) -> None:
        """Answers no more."""
        self._server.close()
