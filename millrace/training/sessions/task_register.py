"""A register of a task of the cluster: a few bytes with a version, changed by compare-and-set.

Tasks of Millrace keep them as long as they live (`millrace.server.registers`); a task that was
started again has forgotten all of them.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from millrace.core import errors
from millrace.rpc.security import Security
from millrace.rpc.service import Connection
from millrace.server.registers import Registers
from millrace.server.server import find_running

SCHEME = "grpc://"


class Written(NamedTuple):
    """What became of a write: whether it was done, and the version of the content now."""

    done: bool
    version: int


class TaskRegister:
    """One register of one task.

    Args:
      address: The task's; None for a register in this process.
      name: The register's.
      seconds: How long a call may take.
      security: The keys; those of the environment when None.
    """

    def __init__(
        self, address: str | None, name: str, seconds: float, security: Security | None = None
    ) -> None:
        self._address = address
        self._security = security
        self._name = name
        self._seconds = seconds
        self._local = Registers(0) if address is None else None
        self._connection: Connection | None = None

    def read(self) -> tuple[bytes | None, int]:
        """The content (None if there was never any), and its version.

        Raises:
          UnavailableError: The task cannot be reached now.
          UnimplementedError: It is no task of Millrace.
        """
        return self._ask({})[:2]

    def write(self, content: bytes, version: int, seconds: float | None = None) -> Written:
        """Replaces the content if it has this version.

        Args:
          content: The new content.
          version: Of the content that it replaces.
          seconds: How long this call may take.

        Raises:
          UnavailableError: The task cannot be reached, or did not answer; the write may have
            happened.
          UnimplementedError: It is no task of Millrace.
        """
        text = base64.b64encode(content).decode()
        _, found, done = self._ask({"content": text, "version": version}, seconds)
        return Written(done, found)

    def _ask(
        self, question: dict[str, Any], seconds: float | None = None
    ) -> tuple[bytes | None, int, bool]:
        message = json.dumps({"name": self._name, **question}).encode()
        if self._address is None:
            assert self._local is not None
            answer = json.loads(self._local.answer(message))
        else:
            if self._connection is None:
                self._connection = Connection(self._address, self._security)
            try:
                answer = json.loads(self._connection.register(message, seconds or self._seconds))
            except (errors.DeadlineExceededError, errors.CancelledError) as error:
                # The connection may be at fault: one that the network lost comes back late.
                self.close()
                raise errors.UnavailableError(None, None, error.message) from None
        content = answer["content"]
        decoded = None if content is None else base64.b64decode(content)
        return decoded, int(answer["version"]), bool(answer["done"])

    def close(self) -> None:
        """Ends the connection; the next call makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def tasks_of(master: str, seconds: float) -> dict[str, dict[int, str]]:
    """The addresses of all tasks in the cluster of a target, by job and index.

    Raises:
      UnavailableError: Its server cannot be reached now.
      UnimplementedError: It is no server of Millrace.
    """
    server = find_running(master)
    if server is not None:
        cluster: dict[str, dict[int, str]] = server.status()["cluster"]
        return cluster
    connection = Connection(master.removeprefix(SCHEME))
    try:
        found = json.loads(connection.status(seconds))["cluster"]
    except (errors.DeadlineExceededError, errors.CancelledError) as error:
        raise errors.UnavailableError(None, None, error.message) from None
    finally:
        connection.close()
    return {
        job: {int(index): address for index, address in tasks.items()}
        for job, tasks in found.items()
    }


def keys_for(master: str) -> Security | None:
    """The keys with which the server of a target, if it is in this process, reaches the others."""
    server = find_running(master)
    return None if server is None else server.security
