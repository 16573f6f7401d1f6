"""The lease in ZooKeeper: one persistent node, changed by its version.

Not an ephemeral node, ZooKeeper's usual way: that lasts as long as the session that made it,
which is at least two of the server's ticks (4 seconds as servers are delivered), and dies with the
connection's, not with the holder's clock. The node and its version give what a lease needs, and
the rules are those of the other back ends.

ZooKeeper takes every user and password ("digest") and looks at them where a node's access list
names one. So a user's node, and folders on the way that do not exist, are made for that user alone.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.security import make_digest_acl

from millrace.core import errors
from millrace.protocol.election import Reading, Record
from millrace.training.election.access import Access, is_about_keys, variable
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


_CA, _CERTIFICATE, _USER, _PASSWORD_FILE = (
    variable("zookeeper", name) for name in ("CA", "CERTIFICATE", "USER", "PASSWORD_FILE")
)


class _Connections(SequentialThreadingHandler):  # type: ignore[misc]
    """Makes connections by TLS as `Access` has it: the host's name must be in its certificate.

    Args:
      context: The settings of TLS.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()
        self._context = context
        #: Why the last one could not be made, if that is because of the keys.
        self.refusal: ssl.SSLError | None = None

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **others: Any
    ) -> ssl.SSLSocket:
        """A connection to a server, or an OSError."""
        plain = socket.create_connection(address, timeout)
        try:
            secure = self._context.wrap_socket(plain, server_hostname=hostname)
        except BaseException as error:
            plain.close()
            if isinstance(error, ssl.SSLError) and is_about_keys(error):
                self.refusal = error
            raise
        self.refusal = None
        return secure


class ZooKeeperRegister:
    """A register in ZooKeeper.

    Args:
      hosts: ``host:port``, several with commas.
      path: The node.
      access: The credentials for it.
    """

    def __init__(self, hosts: str, path: str, access: Access) -> None:
        self._hosts = hosts
        self._path = path
        self._user = access.user
        self._connections = None if access.context is None else _Connections(access.context)
        who = f"{access.user}:{access.password}"
        # Its own words would repeat every second that a server is away; ours do not.
        silent = logging.Logger("kazoo", level=logging.CRITICAL)
        self._client = KazooClient(
            hosts=hosts,
            timeout=_SESSION_SECONDS,
            connection_retry=_RECONNECT,
            logger=silent,
            handler=self._connections,
            use_ssl=self._connections is not None,
            auth_data=[("digest", who)] if access.user else None,
            default_acl=[make_digest_acl(access.user, access.password, all=True)]
            if access.user
            else None,
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
        except exceptions.NoAuthError:
            named = f"user {self._user!r} with this password"
            who = named if self._user else "a client without a user"
            raise errors.UnauthenticatedError(
                None,
                None,
                f"ZooKeeper at {self._hosts} does not let {who} read and write {self._path}: check "
                f"{_USER} and {_PASSWORD_FILE}, and the node's access list.",
            ) from None
        except _UNREACHABLE as error:
            refusal = self._connections.refusal if self._connections is not None else None
            if refusal is not None:
                raise errors.UnauthenticatedError(
                    None,
                    None,
                    f"ZooKeeper at {self._hosts} and this task do not accept each other's TLS "
                    f"({refusal}): check {_CA} and {_CERTIFICATE}.",
                ) from None
            raise errors.UnavailableError(
                None,
                None,
                f"ZooKeeper at {self._hosts} cannot be reached ({type(error).__name__}): check "
                "that it runs, that the address begins with zookeepers:// just where this port has "
                f"TLS, and that {_CERTIFICATE} is set if it asks for certificates.",
            ) from None

    def close(self) -> None:
        """Ends the connection and its threads."""
        self._client.stop()
        self._client.close()
