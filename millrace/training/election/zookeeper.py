"""The lease in ZooKeeper: one persistent node, changed by its version.

Not an ephemeral node, ZooKeeper's usual way: that lasts as long as the session of whoever made it,
which is at least two of the server's ticks (4 seconds as servers are delivered), and dies with the
connection's, not with the holder's clock. The node and its version give what a lease needs, and
the rules are those of the other back ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from millrace.core import errors
from millrace.protocol.election import Reading, Record
from millrace.training.election.register import CALL_SECONDS

#: The version of a node that does not exist.
_NO_NODE = -1
#: Only says when the client looks for another server; the lease does not depend on it.
_SESSION_SECONDS = 4.0
#: For ever, and soon: by itself the client would wait up to a minute before it tries again.
_RECONNECT = {"max_tries": -1, "delay": 0.1, "max_delay": 0.5}
_UNREACHABLE = (
    exceptions.ConnectionLoss,
    exceptions.ConnectionClosedError,
    exceptions.SessionExpiredError,
    exceptions.OperationTimeoutError,
    KazooTimeoutError,
)


class ZooKeeperRegister:
    """A register in ZooKeeper.

    Args:
      hosts: ``host:port``, several with commas.
      path: The node.
    """

    def __init__(self, hosts: str, path: str) -> None:
        self._hosts = hosts
        self._path = path
        # Its own words would repeat every second that a server is away; ours do not.
        silent = logging.Logger("kazoo", level=logging.CRITICAL)
        self._client = KazooClient(
            hosts=hosts, timeout=_SESSION_SECONDS, connection_retry=_RECONNECT, logger=silent
        )
        self._client.start_async()

    def read(self) -> Reading:
        """What it holds."""
        try:
            content, status = self._call(self._client.get_async, self._path)
        except exceptions.NoNodeError:
            return Reading(None, _NO_NODE)
        return Reading(Record.decode(content), status.version)

    def write(self, record: Record, version: int) -> bool:
        """Replaces the content if it has this version; whether it did."""
        content = record.encode()
        try:
            if version == _NO_NODE:
                self._call(self._client.create_async, self._path, content, makepath=True)
            else:
                self._call(self._client.set_async, self._path, content, version=version)
        except (
            exceptions.NodeExistsError,
            exceptions.NoNodeError,
            exceptions.BadVersionError,
        ):
            return False
        return True

    def _call(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return method(*arguments, **options).get(timeout=CALL_SECONDS)
        except _UNREACHABLE as error:
            raise errors.UnavailableError(
                None,
                None,
                f"ZooKeeper at {self._hosts} cannot be reached ({type(error).__name__}): check "
                "that it runs.",
            ) from None

    def close(self) -> None:
        """Ends the connection and its threads."""
        self._client.stop()
        self._client.close()
