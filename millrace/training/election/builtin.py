"""The lease on a task of the cluster itself: no other server is needed.

It is kept by the first ps task, not by a majority of them. When a ps task is away, training
stands still whoever is chief, until it is back and restored; so a majority would keep chiefs for
jobs that cannot train, and with the usual one or two ps tasks it would need all of them. A ps that
restarts forgets the lease, and gets it back from whoever holds it (`millrace.protocol.election`).

A cluster without a job called ``ps`` keeps it on the first task of its first job; without a
cluster there is nobody to elect another one, and the lease is in this process.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from millrace.core import errors
from millrace.protocol.election import Reading, Record
from millrace.rpc.service import Connection
from millrace.server.registers import Registers
from millrace.training.election.register import CALL_SECONDS

_SCHEME = "grpc://"


class BuiltinRegister:
    """A register of a task.

    Args:
      master: The target of a session: any task of the cluster.
      path: The register's name.
    """

    def __init__(self, master: str, path: str) -> None:
        self._master = master
        self._path = path
        self._local = Registers(0) if not master.startswith(_SCHEME) else None
        #: To the task that keeps the register, once it is known which one that is.
        self._connection: Connection | None = None

    def read(self) -> Reading:
        """What it holds."""
        answer = self._ask({})
        content = answer["content"]
        record = None if content is None else Record.decode(base64.b64decode(content))
        return Reading(record, answer["version"])

    def write(self, record: Record, version: int) -> bool:
        """Replaces the content if it has this version; whether it did."""
        content = base64.b64encode(record.encode()).decode()
        return bool(self._ask({"content": content, "version": version})["done"])

    def _ask(self, question: dict[str, Any]) -> Any:
        message = json.dumps({"name": self._path, **question}).encode()
        if self._local is not None:
            return json.loads(self._local.answer(message))
        if self._connection is None:
            self._connection = Connection(_keeper(self._master))
        try:
            return json.loads(self._connection.register(message, CALL_SECONDS))
        except (errors.DeadlineExceededError, errors.CancelledError) as error:
            raise errors.UnavailableError(None, None, error.message) from None
        except errors.UnimplementedError as error:
            raise errors.FailedPreconditionError(
                None,
                None,
                f"The task at {self._connection.address} is no Millrace server, so that it cannot "
                "keep the lease of the chief: use zookeeper:// or etcd://.",
            ) from error

    def close(self) -> None:
        """Ends the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _keeper(master: str) -> str:
    """The address of the task that keeps the lease in the cluster of a target."""
    connection = Connection(master.removeprefix(_SCHEME))
    try:
        cluster: dict[str, dict[str, str]] = json.loads(connection.status(CALL_SECONDS))["cluster"]
    except errors.UnimplementedError as error:
        raise errors.FailedPreconditionError(
            None,
            None,
            f"{master} is no Millrace server, so that it cannot keep the lease of the chief: use "
            "zookeeper:// or etcd://.",
        ) from error
    except (errors.DeadlineExceededError, errors.CancelledError) as error:
        raise errors.UnavailableError(None, None, error.message) from None
    finally:
        connection.close()
    tasks = cluster.get("ps") or cluster[min(cluster)]
    return tasks[min(tasks, key=int)]
