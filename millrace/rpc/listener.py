"""The data plane's door: accepts connections, and lets in those that show a valid ticket.

A connection does its TLS handshake, if there is TLS, and sends a ticket of `TICKET_BYTES`, which
the dialing task was given over gRPC: who cannot speak with the gRPC port of a server cannot speak
with this one either. Until then it is a guest. One thread serves all guests and waits for none
of them; a guest that takes too long is sent away, and when there are too many, the one that came
first goes: an honest one is through in a moment.

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
from millrace.rpc.tls_socket import TlsSocket

TICKET_BYTES = 32
_RETRY_SECONDS = 0.05
_BACKLOG = 1024
#: Names of local sockets that are no files, and go with the socket.
_HAS_LOCAL_NAMES = sys.platform.startswith("linux")


class _Guest:
    """A connection that has not shown its ticket yet."""

    __slots__ = ("connection", "deadline", "is_shaken", "ticket")

    def __init__(self, connection: Any, deadline: float) -> None:
        self.connection = connection
        self.deadline = deadline
        self.is_shaken = not isinstance(connection, TlsSocket)
        self.ticket = b""

    def go_on(self) -> int | None:
        """Does what can be done without waiting; what to wait for next, or None when done.

        Raises:
          OSError: The connection ended, or is no TLS connection of somebody we know.
        """
        try:
            if not self.is_shaken:
                self.connection.do_handshake()
                self.is_shaken = True
            while len(self.ticket) < TICKET_BYTES:
                piece = bytearray(TICKET_BYTES - len(self.ticket))
                count = self.connection.recv_into(memoryview(piece))
                if not count:
                    raise ConnectionError("it ended before its ticket")
                self.ticket += piece[:count]
        except BlockingIOError:
            if not self.is_shaken and self.connection.has_unsent:
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
        on_connection: Callable[[bytes, Any], bool],
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._on_connection = on_connection
        self._context = context
        self._patience = limits.HANDSHAKE_SECONDS.value
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
        self._guests: OrderedDict[Any, _Guest] = OrderedDict()
        self._doors: list[socket.socket] = []
        self._open()
        start_thread(self._serve, "millrace accepts")

    def _open(self) -> None:
        """Listens.

        Raises:
          OSError: Another process has the port, or too many files are open.
        """
        with contextlib.ExitStack() as undo:
            family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
            door = socket.create_server((self._host, self.port), family=family, backlog=_BACKLOG)
            undo.callback(door.close)
            doors = [door]
            if self.local_name:
                local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                undo.callback(local.close)
                local.bind("\0" + self.local_name)
                local.listen(_BACKLOG)
                doors.append(local)
            selector = selectors.DefaultSelector()
            undo.callback(selector.close)
            for door in doors:
                door.setblocking(False)
                selector.register(door, selectors.EVENT_READ)
            undo.pop_all()
        self._selector, self._doors = selector, doors
        self.port = doors[0].getsockname()[1]
        self.times_opened += 1

    @property
    def guests(self) -> int:
        """How many connections have not shown a ticket yet."""
        return len(self._guests)

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
        for guest in list(self._guests.values()):
            self._send_away(guest)
        self._selector.close()
        for door in self._doors:
            with contextlib.suppress(OSError):
                door.close()

    def _attend_all(self) -> None:
        """Serves until it is closed."""
        while not self._closed.is_set():
            first = next(iter(self._guests.values()), None)
            timeout = None if first is None else max(0.0, first.deadline - time.monotonic())
            for key, _ in self._selector.select(timeout):
                if self._closed.is_set():
                    break
                if key.fileobj in self._doors:
                    self._accept(key.fileobj)
                elif key.fileobj in self._guests:
                    self._attend(self._guests[key.fileobj])
            self._send_away_late()

    def _accept(self, door: Any) -> None:
        try:
            connection, _ = door.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return
        except OSError:
            # Too many files are open: who waits longest makes room, else this passes.
            if self._guests:
                self._send_away(next(iter(self._guests.values())))
            else:
                self._closed.wait(_RETRY_SECONDS)
            return
        try:
            self._receive(connection)
        except Exception as error:  # Whatever it is, it is this connection's.
            logging.debug("A connection to port %d ended at once: %r", self.port, error)
            with contextlib.suppress(OSError):
                connection.close()

    def _receive(self, connection: Any) -> None:
        """Takes a new connection as a guest."""
        connection.setblocking(False)
        if self._context is not None:
            connection = TlsSocket(connection, self._context)
        while len(self._guests) >= self._most:
            self._send_away(next(iter(self._guests.values())))
        guest = _Guest(connection, time.monotonic() + self._patience)
        self._guests[connection] = guest
        try:
            self._selector.register(connection, selectors.EVENT_READ)
        except Exception:
            self._send_away(guest)
            raise

    def _attend(self, guest: _Guest) -> None:
        try:
            event = guest.go_on()
            if event is not None:
                self._selector.modify(guest.connection, event)
                return
        except Exception:  # Whatever it is, it is this connection's.
            self._send_away(guest)
            return
        self._forget(guest)
        try:
            start_thread(self._let_in, "millrace greets", guest)
        except RuntimeError:  # There is no thread for it.
            guest.connection.close()

    def _let_in(self, guest: _Guest) -> None:
        connection = guest.connection
        accepted = False
        try:
            connection.setblocking(True)
            accepted = self._on_connection(guest.ticket, connection)
        except Exception as error:
            logging.debug("A connection to port %d was not taken: %r", self.port, error)
        if not accepted:
            with contextlib.suppress(OSError):
                connection.close()

    def _send_away_late(self) -> None:
        now = time.monotonic()
        while self._guests:
            guest = next(iter(self._guests.values()))
            if guest.deadline > now:
                return
            self._send_away(guest)

    def _send_away(self, guest: _Guest) -> None:
        self._forget(guest)
        with contextlib.suppress(OSError):
            guest.connection.close()

    def _forget(self, guest: _Guest) -> None:
        self._guests.pop(guest.connection, None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(guest.connection)

    def close(self) -> None:
        """Stops accepting, and sends the guests away."""
        self._closed.set()
        for door in self._doors:
            with contextlib.suppress(OSError):
                door.shutdown(socket.SHUT_RDWR)  # wakes the thread, which closes it


def dial(
    address: tuple[str, int],
    ticket: bytes,
    timeout: float,
    context: ssl.SSLContext | None = None,
    local_name: str = "",
) -> Any:
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
    connection: Any = None
    if local_name and context is None and _HAS_LOCAL_NAMES:
        connection = _dial_locally(local_name, timeout)
    if connection is None:
        connection = socket.create_connection(address, timeout=timeout)
    try:
        if context is not None:
            connection = TlsSocket(connection, context, address[0])
            connection.do_handshake()
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
