"""The lease in etcd v3: one key, changed in a transaction that compares its revision.

Two calls of etcd's JSON gateway are all that is needed, and every etcd since 3.4 serves it at its
client port; so there is no client library. Not a lease of etcd's own: its clock is the server's,
and the rules here are those of the other back ends.
"""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any

from millrace.core import errors
from millrace.protocol.election import Reading, Record
from millrace.training.election.register import CALL_SECONDS

#: The revision of a key that does not exist.
_NO_KEY = 0


class EtcdRegister:
    """A register in etcd.

    Args:
      hosts: ``host:port``, several with commas.
      path: The key.
    """

    def __init__(self, hosts: str, path: str) -> None:
        self._hosts = hosts.split(",")
        self._key = _text(path.encode())

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
            connection = http.client.HTTPConnection(self._hosts[0], timeout=CALL_SECONDS)
            try:
                connection.request("POST", f"/v3/kv/{method}", json.dumps(question))
                answer = connection.getresponse()
                content = answer.read()
                if answer.status == http.HTTPStatus.OK:
                    return json.loads(content)
                if answer.status < http.HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise errors.FailedPreconditionError(
                        None,
                        None,
                        f"etcd at {self._hosts[0]} answered {answer.status}: "
                        f"{content[:200].decode(errors='replace')}",
                    )
                reason = ValueError(f"{answer.status}: {content[:200].decode(errors='replace')}")
            except (OSError, http.client.HTTPException, ValueError) as error:
                reason = error
            finally:
                connection.close()
            self._hosts.append(self._hosts.pop(0))
        raise errors.UnavailableError(
            None,
            None,
            f"etcd at {','.join(self._hosts)} cannot be reached ({type(reason).__name__}: "
            f"{reason}): check that it runs, and that this is the port for clients.",
        )

    def close(self) -> None:
        """Nothing: each call has a connection of its own."""


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
