"""Connections that go wrong at any byte of their handshake, for the tests of listeners.

A `Handshake` yields the bytes that an honest side would send, and takes what it is answered; an
attack lets so many of them pass and then does something else.
"""

import contextlib
import random
import select
import socket
import ssl
import struct
from collections.abc import Iterator
from typing import Any

#: What an attacker does when it has sent as much of the handshake as it wants.
ENDINGS = ("reset", "close", "garbage", "half-open", "slow")
#: Half-open connections that are kept at a time; the oldest one is closed for a new one.
_KEPT = 64
_SECONDS = 20.0
#: HTTP/2's first bytes, an empty SETTINGS frame, and a PING.
HTTP2 = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    + bytes([0, 0, 8, 6, 0, 0, 0, 0, 0])
    + bytes(8)
)


class Attacker:
    """Opens connections to one listener and breaks them off, from a seed.

    Args:
      seed: Of what it chooses.
      address: A ``(host, port)``, or the name of a local socket.
      payload: What an honest side sends, inside TLS if there is TLS.
      context: The TLS settings, or None.
    """

    def __init__(
        self, seed: int, address: Any, payload: bytes, context: ssl.SSLContext | None = None
    ) -> None:
        self._draw = random.Random(seed)
        self._address = address
        self._payload = payload
        self._context = context
        self._kept: list[socket.socket] = []
        #: The bytes of a whole handshake; learned from one.
        self.length = len(payload)
        if context is not None:
            with self._connect() as connection:
                self.length = 0
                for piece in self._handshake(connection):
                    connection.sendall(piece)
                    self.length += len(piece)

    def _connect(self) -> socket.socket:
        if isinstance(self._address, str):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(_SECONDS)
            connection.connect(self._address)
            return connection
        return socket.create_connection(self._address, timeout=_SECONDS)

    def _handshake(self, connection: socket.socket) -> Iterator[bytes]:
        """The bytes to send, in pieces; reads what answers them."""
        if self._context is None:
            yield self._payload
            return
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self._context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                if data := outgoing.read():
                    yield data
                answer = connection.recv(1 << 16)
                if not answer:
                    raise ConnectionError("the listener has ended the connection") from None
                incoming.write(answer)
        tls.write(self._payload)
        yield outgoing.read()

    def attack(self, position: int | None = None, ending: str | None = None) -> None:
        """One connection; a position and an ending are drawn where none is given."""
        if position is None:
            position = self._draw.randrange(self.length + 1)
        ending = ending or self._draw.choice(ENDINGS)
        connection = self._connect()
        # It may be refused at any byte.
        with contextlib.suppress(OSError, ssl.SSLError):
            self._send_some(connection, position, ending == "slow")
            if ending == "garbage":
                connection.sendall(self._draw.randbytes(self._draw.randrange(1, 400)))
            if ending == "half-open":
                self._kept.append(connection)
                while len(self._kept) > _KEPT:
                    self._kept.pop(0).close()
                return
            if ending in ("reset", "garbage"):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def _send_some(self, connection: socket.socket, position: int, slowly: bool) -> None:
        left = position
        if not left:
            return
        for piece in self._handshake(connection):
            part = piece[:left]
            left -= len(part)
            if slowly and len(part) > 1:
                # The last bytes come one by one, each in a packet of its own.
                head, tail = part[:-4], part[-4:]
                connection.sendall(head)
                for i in range(len(tail)):
                    connection.sendall(tail[i : i + 1])
                    select.select([connection], [], [], 0.0005)
            else:
                connection.sendall(part)
            if not left:
                return

    def close(self) -> None:
        """Closes what was kept half-open."""
        for connection in self._kept:
            connection.close()
        self._kept.clear()
