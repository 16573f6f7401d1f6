"""The lease in etcd v3: one key, changed in a transaction that compares its revision.

Two calls of etcd's JSON gateway are all that is needed, and every etcd since 3.4 serves it at its
client port; so there is no client library. Not a lease of etcd's own: its clock is the server's,
and the rules here are those of the other back ends.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from typing import Any

from millrace.core import errors
from millrace.protocol.election import Reading, Record
from millrace.training.election.access import Access, is_about_keys, variable
from millrace.training.election.register import CALL_SECONDS

#: The revision of a key that does not exist.
_NO_KEY = 0
_CA, _CERTIFICATE, _USER, _PASSWORD_FILE = (
    variable("etcd", name) for name in ("CA", "CERTIFICATE", "USER", "PASSWORD_FILE")
)


class EtcdRegister:
    """A register in etcd.

    Args:
      hosts: ``host:port``, several with commas.
      path: The key.
      access: The credentials for it.
    """

    def __init__(self, hosts: str, path: str, access: Access) -> None:
        self._hosts = hosts.split(",")
        self._key = _text(path.encode())
        self._access = access
        #: What etcd gave for the user's password; empty before, and without a user.
        self._token = ""

    def read(self) -> Reading:
        """What it holds."""
        found = self._post("range", {"key": self._key}).get("kvs")
        if not found:
            return Reading(None, _NO_KEY)
        record = Record.decode(base64.b64decode(found[0]["value"]))
        return Reading(record, int(found[0]["mod_revision"]))

    def write(self, record: Record, version: int) -> bool:
        """Replaces the content if it has this version; whether it did."""
        condition = {"key": self._key, "target": "MOD", "result": "EQUAL", "mod_revision": version}
        put = {"key": self._key, "value": _text(record.encode())}
        answer = self._post("txn", {"compare": [condition], "success": [{"request_put": put}]})
        return bool(answer.get("succeeded"))

    def _post(self, method: str, question: dict[str, Any]) -> Any:
        """Asks the first server that can be reached; it stays the first."""
        reason: Exception | None = None
        for _ in range(len(self._hosts)):
            try:
                return self._ask(method, question)
            except (OSError, http.client.HTTPException, ValueError) as error:
                if isinstance(error, ssl.SSLError) and is_about_keys(error):
                    raise errors.UnauthenticatedError(
                        None,
                        None,
                        f"etcd at {self._hosts[0]} and this task do not accept each other's TLS "
                        f"({error}): check {_CA} and {_CERTIFICATE}.",
                    ) from None
                reason = error
            self._hosts.append(self._hosts.pop(0))
        raise errors.UnavailableError(
            None,
            None,
            f"etcd at {','.join(self._hosts)} cannot be reached ({type(reason).__name__}: "
            f"{reason}): check that it runs, that this is its port for clients, that the address "
            "begins with etcds:// just where it has TLS, and that "
            f"{_CERTIFICATE} is set if it asks for certificates.",
        )

    def _ask(self, method: str, question: dict[str, Any]) -> Any:
        """Asks the first server, as the user if there is one."""
        if self._access.user and not self._token:
            self._authenticate()
        status, content = self._call(f"kv/{method}", question)
        if status == http.HTTPStatus.UNAUTHORIZED and self._token:
            # Tokens last for minutes, and no longer than the server's process.
            self._authenticate()
            status, content = self._call(f"kv/{method}", question)
        return self._checked(status, content)

    def _authenticate(self) -> None:
        self._token = ""
        who = {"name": self._access.user, "password": self._access.password}
        status, content = self._call("auth/authenticate", who)
        if status in (http.HTTPStatus.BAD_REQUEST, http.HTTPStatus.UNAUTHORIZED):
            raise errors.UnauthenticatedError(
                None,
                None,
                f"etcd at {self._hosts[0]} does not know user {self._access.user!r} with this "
                f"password ({_USER}, {_PASSWORD_FILE}): {_message(content)}",
            )
        self._token = str(self._checked(status, content)["token"])

    def _call(self, method: str, question: dict[str, Any]) -> tuple[int, bytes]:
        """One call of the first server; the status of its answer, and the answer."""
        host, context = self._hosts[0], self._access.context
        connection: http.client.HTTPConnection
        if context is None:
            connection = http.client.HTTPConnection(host, timeout=CALL_SECONDS)
        else:
            connection = http.client.HTTPSConnection(host, timeout=CALL_SECONDS, context=context)
        headers = {"Authorization": self._token} if self._token else {}
        try:
            connection.request("POST", f"/v3/{method}", json.dumps(question), headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _checked(self, status: int, content: bytes) -> Any:
        """What a server answered.

        Raises:
          FailedPreconditionError: It refused.
          ValueError: It has a fault of its own.
        """
        if status == http.HTTPStatus.OK:
            return json.loads(content)
        if status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
            raise ValueError(f"{status}: {_message(content)}")
        raise errors.FailedPreconditionError(
            None, None, f"etcd at {self._hosts[0]} answered {status}: {_message(content)}"
        )

    def close(self) -> None:
        """Nothing: each call has a connection of its own."""


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _message(content: bytes) -> str:
    return content[:200].decode(errors="replace").strip()
