"""The data plane's listener: accepts connections, and admits those that show a valid ticket.

A connection does its TLS handshake, if there is TLS, and sends a ticket of `TICKET_BYTES`, which
the dialing task was given over gRPC: a client that cannot speak with the gRPC port of a server
cannot speak with this one either. Until then the connection is a pending `_Handshake`. One thread
serves all of them and waits for none; one that takes too long is closed, and when there are too
many, the oldest is: an honest peer is through in a moment.

Nothing that happens to one connection ends the thread. Should the thread's own wait fail, the
listener is opened again at the same port.
"""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import ssl
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from millrace.platform import limits, logging
from millrace.platform.wait_reporter import WaitReporter
from millrace.rpc.channel import start_thread
from millrace.rpc.tls_socket import StreamSocket, TlsSocket

TICKET_BYTES = 32
_RETRY_SECONDS = 0.05
_BACKLOG = 1024
#: Names of local sockets that are no files, and go with the socket.
_HAS_LOCAL_NAMES = sys.platform.startswith("linux")


class _Handshake:
    """A connection that has not shown its ticket yet."""

    __slots__ = ("connection", "deadline", "is_shaken", "ticket")

    def __init__(self, connection: StreamSocket, deadline: float) -> None:
        self.connection = connection
        self.deadline = deadline
        self.is_shaken = not isinstance(connection, TlsSocket)
        self.ticket = b""

    def advance(self) -> int | None:
        """Does what can be done without waiting; what to wait for next, or None when done.

        Raises:
          OSError: The connection ended, or is no TLS connection of somebody we know.
        """
        try:
            if not self.is_shaken and isinstance(self.connection, TlsSocket):
                self.connection.do_handshake()
                self.is_shaken = True
            while len(self.ticket) < TICKET_BYTES:
                piece = bytearray(TICKET_BYTES - len(self.ticket))
                count = self.connection.recv_into(memoryview(piece))
                if not count:
                    raise ConnectionError("it ended before its ticket")
                self.ticket += piece[:count]
        except BlockingIOError:
            tls = self.connection
            if isinstance(tls, TlsSocket) and not self.is_shaken and tls.has_unsent:
                return selectors.EVENT_WRITE
            return selectors.EVENT_READ
        return None


class SocketListener:
    """Listens at any free port of a host, and at a name that only tasks of this machine can reach.

    Between tasks of one machine a local socket takes half of the time that TCP takes. It has no
    TLS, so there is none where TLS is wanted.

    Args:
      host: A numeric address of this machine.
      on_connection: Is given a ticket and the connection (a socket, or what looks like one);
        whether it takes the connection.
      context: The TLS settings, or None.
    """

    def __init__(
        self,
        host: str,
        on_connection: Callable[[bytes, StreamSocket], bool],
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._on_connection = on_connection
        self._context = context
        self._seconds = limits.HANDSHAKE_SECONDS.value
        self._most = int(limits.HALF_OPEN_CONNECTIONS.value)
        self._host = host
        #: Chosen when it is opened first.
        self.port: int = 0
        #: The name, if there is one.
        self.local_name = ""
        if context is None and _HAS_LOCAL_NAMES:
            self.local_name = f"millrace-{secrets.token_hex(16)}"
        #: How often it was opened: more than once only after a failure of its own.
        self.times_opened = 0
        self._closed = threading.Event()
        self._handshakes: OrderedDict[Any, _Handshake] = OrderedDict()
        self._sockets: list[socket.socket] = []
        self._open()
        start_thread(self._serve, "millrace accepts")

    def _open(self) -> None:
        """Listens.

        Raises:
          OSError: Another process has the port, or too many files are open.
        """
        with contextlib.ExitStack() as undo:
            family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
            listening = socket.create_server(
                (self._host, self.port), family=family, backlog=_BACKLOG
            )
            undo.callback(listening.close)
            sockets = [listening]
            if self.local_name:
                local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                undo.callback(local.close)
                local.bind("\0" + self.local_name)
                local.listen(_BACKLOG)
                sockets.append(local)
            selector = selectors.DefaultSelector()
            undo.callback(selector.close)
            for each in sockets:
                each.setblocking(False)
                selector.register(each, selectors.EVENT_READ)
            undo.pop_all()
        self._selector, self._sockets = selector, sockets
        self.port = sockets[0].getsockname()[1]
        self.times_opened += 1

    @property
    def handshakes(self) -> int:
        """How many connections have not shown a ticket yet."""
        return len(self._handshakes)

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                self._attend_all()
            except Exception:
                if self._closed.is_set():
                    break
                logging.error(
                    "The data plane's listener at port %d failed: it is opened again.",
                    self.port,
                    exc_info=True,
                )
                self._release()
                self._open_again()
        self._release()

    def _open_again(self) -> None:
        """Listens at the port that it had; tries until it can, or until it is closed."""
        reporter = WaitReporter("The data plane's listener has waited")
        while not self._closed.wait(_RETRY_SECONDS):
            try:
                self._open()
                return
            except OSError as error:
                reason = f"port {self.port}: {error}"
                reporter.tell(lambda reason=reason: reason)  # type: ignore[misc]

    def _release(self) -> None:
        """Frees what the thread has."""
        for handshake in list(self._handshakes.values()):
            self._close_pending(handshake)
        self._selector.close()
        for listening in self._sockets:
            with contextlib.suppress(OSError):
                listening.close()

    def _attend_all(self) -> None:
        """Serves until it is closed."""
        while not self._closed.is_set():
            first = next(iter(self._handshakes.values()), None)
            timeout = None if first is None else max(0.0, first.deadline - time.monotonic())
            for key, _ in self._selector.select(timeout):
                if self._closed.is_set():
                    break
                if key.fileobj in self._sockets:
                    self._accept(key.fileobj)
                elif key.fileobj in self._handshakes:
                    self._attend(self._handshakes[key.fileobj])
            self._close_late()

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection, _ = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return
        except OSError:
            # Too many files are open: who waits longest makes room, else this passes.
            if self._handshakes:
                self._close_pending(next(iter(self._handshakes.values())))
            else:
                self._closed.wait(_RETRY_SECONDS)
            return
        try:
            self._receive(connection)
        except Exception as error:  # Whatever it is, it is this connection's.
            logging.debug("A connection to port %d ended at once: %r", self.port, error)
            with contextlib.suppress(OSError):
                connection.close()

    def _receive(self, accepted: socket.socket) -> None:
        """Begins the handshake of a new connection."""
        accepted.setblocking(False)
        connection: StreamSocket = accepted
        if self._context is not None:
            connection = TlsSocket(accepted, self._context)
        while len(self._handshakes) >= self._most:
            self._close_pending(next(iter(self._handshakes.values())))
        handshake = _Handshake(connection, time.monotonic() + self._seconds)
        self._handshakes[connection] = handshake
        try:
            self._selector.register(connection, selectors.EVENT_READ)
        except Exception:
            self._close_pending(handshake)
            raise

    def _attend(self, handshake: _Handshake) -> None:
        try:
            event = handshake.advance()
            if event is not None:
                self._selector.modify(handshake.connection, event)
                return
        except Exception:  # Whatever it is, it is this connection's.
            self._close_pending(handshake)
            return
        self._forget(handshake)
        try:
            start_thread(self._admit, "millrace admits", handshake)
        except RuntimeError:  # There is no thread for it.
            handshake.connection.close()

    def _admit(self, handshake: _Handshake) -> None:
        connection = handshake.connection
        accepted = False
        try:
            connection.setblocking(True)
            accepted = self._on_connection(handshake.ticket, connection)
        except Exception as error:
            logging.debug("A connection to port %d was not taken: %r", self.port, error)
        if not accepted:
            with contextlib.suppress(OSError):
                connection.close()

    def _close_late(self) -> None:
        now = time.monotonic()
        while self._handshakes:
            handshake = next(iter(self._handshakes.values()))
            if handshake.deadline > now:
                return
            self._close_pending(handshake)

    def _close_pending(self, handshake: _Handshake) -> None:
        self._forget(handshake)
        with contextlib.suppress(OSError):
            handshake.connection.close()

    def _forget(self, handshake: _Handshake) -> None:
        self._handshakes.pop(handshake.connection, None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(handshake.connection)

    def close(self) -> None:
        """Stops accepting, and closes pending connections."""
        self._closed.set()
        for listening in self._sockets:
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)  # wakes the thread, which closes it


def dial(
    address: tuple[str, int],
    ticket: bytes,
    timeout: float,
    context: ssl.SSLContext | None = None,
    local_name: str = "",
) -> StreamSocket:
    """A connection on which the ticket was shown.

    Args:
      address: The host, and the port of its listener.
      ticket: Is shown.
      timeout: How many seconds it may take.
      context: The TLS settings, or None.
      local_name: The listener's name, if it may be on this machine: is tried first.

    Raises:
      OSError: Nobody answers there, or not as it should.
    """
    plain: socket.socket | None = None
    if local_name and context is None and _HAS_LOCAL_NAMES:
        plain = _dial_locally(local_name, timeout)
    if plain is None:
        plain = socket.create_connection(address, timeout=timeout)
    connection: StreamSocket = plain
    try:
        if context is not None:
            connection = secured = TlsSocket(plain, context, address[0])
            secured.do_handshake()
        connection.sendall(memoryview(ticket))
        connection.settimeout(None)
    except OSError:
        connection.close()
        raise
    return connection


def _dial_locally(name: str, timeout: float) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout)
    try:
        connection.connect("\0" + name)
    except OSError:  # It is in another network namespace: a container, or another machine.
        connection.close()
        return None
    return connection
