"""A TLS connection that looks like the plain socket that `SocketChannel` uses.

OpenSSL works on memory here, never on the socket: what arrives is read in large pieces and then
decrypted straight into the reader's memory, record by record, and what is sent is encrypted first
and then handed to the system in large pieces. Left to itself it makes two system calls for each
record of 16 KiB that it reads, and one for each that it writes.

One thread reads while another writes. OpenSSL allows one call at a time for a connection; a lock
guards it, and nobody waits for the network while holding that.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Sequence
from typing import TypeAlias, cast

#: Smaller buffers are put together: each write becomes a record with a cost of its own.
_JOINED_BYTES = 16 << 10
#: As much is encrypted before it is sent, and read before it is decrypted.
_WRITE_BYTES = 64 << 10
_READ_BYTES = 128 << 10
#: A waiting thread looks this often whether the connection was closed here meanwhile.
_WAIT_MILLISECONDS = 5000
_AT_ONCE = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


class TlsSocket:
    """A connected socket with TLS; call `do_handshake` first."""

    def __init__(
        self, connection: socket.socket, context: ssl.SSLContext, host: str | None = None
    ) -> None:
        """Takes a socket over.

        Args:
          connection: The socket; as long as it does not block, nothing here does.
          context: The TLS settings.
          host: The name or address that was dialed; None at the side that was.
        """
        self._socket = connection
        self.family = connection.family
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._arrived, self._leaving, server_side=host is None, server_hostname=host
        )
        self._lock = threading.Lock()
        self._closed = False
        self._read_buffer = memoryview(bytearray(_READ_BYTES))
        #: What is encrypted and did not fit into the socket's buffer yet.
        self._unsent = memoryview(b"")
        #: As many bytes of what the caller will give next are in `_unsent` already.
        self._ahead = 0

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        """As for a socket."""
        self._socket.setsockopt(level, option, value)

    def settimeout(self, seconds: float | None) -> None:
        """As for a socket; for reading and for the handshake."""
        self._socket.settimeout(seconds)

    def setblocking(self, flag: bool) -> None:
        """As for a socket; for reading and for the handshake."""
        self._socket.setblocking(flag)

    def fileno(self) -> int:
        """The number of the socket."""
        return self._socket.fileno()

    def do_handshake(self) -> None:
        """Agrees with the other side on keys, and learns who it is.

        Raises:
          BlockingIOError: The socket does not block, and must be waited for: to be written if
            `has_unsent`, else to be read. Call it again then.
          OSError: The other side is none that this one would speak with, or has gone.
        """
        while True:
            try:
                with self._lock:
                    self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush_or_raise()
                if not self._receive():
                    raise ConnectionError("the connection ended in its handshake") from None
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self._flush_or_raise()  # It says why.
                raise
        self._flush_or_raise()

    @property
    def has_unsent(self) -> bool:
        """Whether something waits for room in the socket's buffer."""
        return len(self._unsent) > 0

    def _flush_or_raise(self) -> None:
        with self._lock:
            if not self._flush():
                raise BlockingIOError

    # -- Writing ---------------------------------------------------------------------------

    def sendmsg(self, buffers: Sequence[memoryview], ancillary: object = (), flags: int = 0) -> int:
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
            self._wait_for_room()

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
            if not self._flush():
                return 0
            at = min(self._ahead, len(piece))
            self._ahead -= at
            while at < len(piece):
                part = piece[at : at + _WRITE_BYTES]
                done = 0
                while done < len(part):
                    done += self._tls.write(part[done:])
                if not self._flush():
                    # Not the caller's business yet: it would think that nothing is left to do.
                    self._ahead = len(part)
                    break
                at += len(part)
            return at

    def _flush(self) -> bool:
        """Sends what is encrypted, as far as there is room; whether all is gone."""
        while True:
            if not len(self._unsent):
                if not self._leaving.pending:
                    return True
                self._unsent = memoryview(self._leaving.read())
            try:
                sent = self._socket.send(self._unsent, _AT_ONCE)
            except BlockingIOError:
                return False
            self._unsent = self._unsent[sent:]

    def _wait_for_room(self) -> None:
        poll = select.poll()
        with self._lock:
            if self._closed:
                raise OSError("the connection was closed here")
            poll.register(self._socket.fileno(), select.POLLOUT)
        poll.poll(_WAIT_MILLISECONDS)

    # -- Reading ---------------------------------------------------------------------------

    @property
    def holds_more(self) -> bool:
        """Whether something was read off the socket already that nobody was given."""
        return bool(self._arrived.pending or self._tls.pending())

    def recv_into(self, view: memoryview) -> int:
        """Reads some bytes, and waits for the first; 0 at the end."""
        while True:
            with self._lock:
                if self._closed:
                    return 0
                try:
                    count = self._decrypt(view)
                except ssl.SSLZeroReturnError:
                    return 0
                self._flush()  # Reading can make TLS answer.
            if count or not self._receive():
                return count

    def _decrypt(self, view: memoryview) -> int:
        """Gives out what has arrived; how many bytes that was."""
        at = 0
        with contextlib.suppress(ssl.SSLWantReadError):  # A record has not arrived whole.
            while at < len(view) and self.holds_more:
                at += cast(int, self._tls.read(len(view) - at, view[at:]))
        return at

    def _receive(self) -> int:
        """Reads what there is, and waits for it; how much, 0 at the end. For one thread."""
        count = self._socket.recv_into(self._read_buffer)
        with self._lock:
            self._arrived.write(self._read_buffer[:count])
        return count

    # -- The end ---------------------------------------------------------------------------

    def shutdown(self, how: int) -> None:
        """Ends both directions; waiting threads wake."""
        # Of the socket below: closing TLS would wait for the other side.
        self._socket.shutdown(how)

    def close(self) -> None:
        """Frees the socket."""
        with self._lock:
            self._closed = True
            with contextlib.suppress(OSError):
                self._socket.close()


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


#: A connection: plain, or with TLS.
StreamSocket: TypeAlias = socket.socket | TlsSocket
