"""A TLS connection that looks like the plain socket that `SocketChannel` uses.

One thread reads while another writes. OpenSSL allows one call at a time for a connection, so no
call ever waits inside: the socket does not block, whoever has to wait does so outside the lock.
What is read is decrypted straight into the reader's memory.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Sequence
from typing import Any

#: Smaller buffers are put together: each write becomes a record with a cost of its own.
_JOINED_BYTES = 16 << 10
#: As much is written at a time, so that the reader gets its turn.
_WRITE_BYTES = 256 << 10
#: Whoever waits looks this often whether the connection was closed here meanwhile.
_WAIT_MILLISECONDS = 5000


class TlsSocket:
    """A connection whose handshake is done."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._connection = connection
        connection.setblocking(False)
        self.family = connection.family
        self._lock = threading.Lock()
        self._closed = False
        #: What OpenSSL has begun to write: it must be given the same again.
        self._begun = memoryview(b"")
        #: As many bytes of what the caller will give next were written already.
        self._ahead = 0

    def setsockopt(self, *arguments: Any) -> None:
        """As for a socket."""
        self._connection.setsockopt(*arguments)

    # -- Writing ---------------------------------------------------------------------------

    def sendmsg(self, buffers: Sequence[memoryview], ancillary: Any = (), flags: int = 0) -> int:
        """Writes what can be written without waiting; how many bytes that was.

        The caller gives the rest again, to this or to `sendall`, before anything else.

        Raises:
          BlockingIOError: Nothing can be written now.
        """
        sent = 0
        for piece in _pieces(buffers):
            done = self._write(piece)
            sent += done
            if done < len(piece):
                break
        if not sent and any(len(buffer) for buffer in buffers):
            raise BlockingIOError
        return sent

    def send(self, buffer: memoryview) -> int:
        """Writes some of it, and waits until that can be done; how many bytes it was."""
        while True:
            done = self._write(buffer)
            if done or not len(buffer):
                return done
            self._wait(select.POLLOUT)

    def sendall(self, buffer: memoryview) -> None:
        """Writes all of it; waits as long as that takes."""
        at = 0
        while at < len(buffer):
            at += self.send(buffer[at:])

    def _write(self, piece: memoryview) -> int:
        """Writes some of a piece; how much of it the caller need not give again."""
        with self._lock:
            if self._closed:
                raise OSError("the connection was closed here")
            if len(self._begun):
                done = self._try_write(self._begun)
                self._ahead += done
                self._begun = self._begun[done:]
            at = min(self._ahead, len(piece))
            self._ahead -= at
            while at < len(piece) and not len(self._begun):
                part = piece[at : at + _WRITE_BYTES]
                done = self._try_write(part)
                at += done
                # The caller may cut what is left in another way: these bytes stay as they are.
                self._begun = part[done:]
            return at

    def _try_write(self, part: memoryview) -> int:
        at = 0
        with contextlib.suppress(ssl.SSLWantWriteError, ssl.SSLWantReadError):
            while at < len(part):
                at += self._connection.send(part[at:])
        return at

    # -- Reading ---------------------------------------------------------------------------

    def recv_into(self, view: memoryview) -> int:
        """Reads some bytes, and waits for the first; 0 at the end."""
        while True:
            with self._lock:
                if self._closed:
                    return 0
                try:
                    return self._connection.recv_into(view)
                except ssl.SSLWantReadError:
                    event = select.POLLIN
                except ssl.SSLWantWriteError:
                    event = select.POLLOUT
            self._wait(event)

    def _wait(self, event: int) -> None:
        poll = select.poll()
        with self._lock:
            if self._closed:
                raise OSError("the connection was closed here")
            poll.register(self._connection.fileno(), event)
        poll.poll(_WAIT_MILLISECONDS)

    # -- The end ---------------------------------------------------------------------------

    def shutdown(self, how: int) -> None:
        """Ends both directions; whoever waits wakes."""
        # Of the socket below: TLS's own farewell would wait for the other side.
        socket.socket.shutdown(self._connection, how)

    def close(self) -> None:
        """Frees the socket."""
        with self._lock:
            self._closed = True
            with contextlib.suppress(OSError):
                self._connection.close()


def _pieces(buffers: Sequence[memoryview]) -> list[memoryview]:
    """The same bytes, small buffers joined."""
    pieces: list[memoryview] = []
    small: list[memoryview] = []
    size = 0
    for buffer in buffers:
        if size and size + len(buffer) > _JOINED_BYTES:
            pieces.append(memoryview(b"".join(small)))
            small, size = [], 0
        if len(buffer) > _JOINED_BYTES:
            pieces.append(buffer)
        elif len(buffer):
            small.append(buffer)
            size += len(buffer)
    if small:
        pieces.append(memoryview(b"".join(small)))
    return pieces
