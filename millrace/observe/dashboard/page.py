"""What a browser gets: the page itself, the job's state as JSON, the end of a log.

The page is the same for all jobs and open to everybody; what it shows of a job is for those who
bring the job's token, unless only this machine can ask. A question under another name than this
machine's is refused there: else any web page in the same browser could read the job.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from millrace.observe.dashboard.watcher import JobWatcher
from millrace.observe.web import Answer, Question, WebServer
from millrace.rpc.security import is_loopback

_FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_TAIL_BYTES = 64 << 10
#: Colours and cursor moves that programs write for terminals.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-Z\\-_]|[\x00-\x08\x0b-\x1f\x7f]")


class NeedsToken(ValueError):
    """Other machines could see the page, and the job has no token to ask for: a sentence."""


class Dashboard:
    """The page of one job, until it is closed.

    Args:
      watcher: Knows the job.
      host, port: Where to listen; port 0 is any that is free.
      token: The job's, asked for when other machines can reach the page.

    Raises:
      NeedsToken: They can, and there is none.
      OSError: It cannot listen there.
    """

    def __init__(
        self, watcher: JobWatcher, host: str = "127.0.0.1", port: int = 0, token: str = ""
    ) -> None:
        self._is_local = is_loopback(host)
        if not self._is_local and not token:
            raise NeedsToken(
                f"everybody who reaches {host} could see the job, and it has no token to ask for: "
                "start the job with --token-file, or listen at 127.0.0.1 and use ssh -L"
            )
        self._watcher, self._token = watcher, token
        self._server = WebServer(host, port, self.answer, "millrace page")
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        #: Where browsers find it.
        self.url = f"http://{shown}:{self._server.port}/"
        watcher.start()

    def answer(self, question: Question) -> Answer:
        """What a client gets."""
        if self._is_local and not _names_this_machine(question.host):
            return Answer(403, b"This page is for http://127.0.0.1 and http://localhost only.\n")
        parts = urlsplit(question.path)
        if parts.path in _FILES:
            name, kind = _FILES[parts.path]
            return Answer(200, (Path(__file__).parent / name).read_bytes(), kind, _HEADERS)
        if parts.path not in ("/state.json", "/log"):
            return Answer(404, b"There are /, /state.json and /log?task=NAME.\n", headers=_HEADERS)
        if not self._is_local and not question.shows(self._token):
            sentence = b"The job's token is needed: Authorization: Bearer <token>.\n"
            return Answer(401, sentence, headers=_HEADERS)
        if parts.path == "/state.json":
            state = json.dumps(_finite(self._watcher.state()), separators=(",", ":"))
            return Answer(200, state.encode(), "application/json", _HEADERS)
        task = parse_qs(parts.query).get("task", [""])[0]
        log = self._watcher.log_of(task)
        if log is None:
            return Answer(404, b"There is no log of such a task.\n", headers=_HEADERS)
        return Answer(200, _tail(log).encode(), headers=_HEADERS)

    def close(self) -> None:
        """Answers no more."""
        self._server.close()
        self._watcher.close()


def _names_this_machine(host: str) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"{path}: {error.strerror}\n"
    return _ESCAPES.sub("", text)


def _finite(value: object) -> object:
    """The same, with a text for each number that JSON lacks: losses are NaN at times."""
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
