"""The fast data plane: messages over a stream socket, plain or with TLS.

A message is written with one scatter call straight from the arrays that it holds, and read
straight into aligned memory. When the socket's buffer is full, what is left is written by a
thread of its own, so that a task that handles messages never waits for the other side to read:
two tasks that send each other large tensors at the same time would wait for each other for ever.
Between tasks on one machine the tensors pass in shared memory, and the socket carries the rest.
"""

from __future__ import annotations

import collections
import contextlib
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any

from millrace.core.value import Buffer, Value
from millrace.rpc import shared_memory
from millrace.rpc.channel import Channel, Handler, start_thread
from millrace.rpc.message import ORDERS, Message, encode
from millrace.rpc.message_reader import MessageReader
from millrace.rpc.tls_socket import StreamSocket
from millrace.rpc.turns import Turn

_MAX_BUFFERS = 512  # of one call; the system's limit is 1024
_SOCKET_BUFFER = 4 << 20
#: As a plain number: the enumeration's arithmetic takes longer than the call.
_AT_ONCE = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


class SocketChannel(Channel):
    """One end of a connected socket; call `start` to begin reading."""

    def __init__(
        self,
        connection: StreamSocket,
        handler: Handler,
        peer: str = "",
        incarnation: int = 0,
        process: int | None = None,
    ) -> None:
        """Makes a channel.

        Args:
          connection: The socket.
          handler: Is told what arrives.
          peer: The task at the other end.
          incarnation: The random number of its process.
          process: Its process, if memory can be shared with it.
        """
        super().__init__(handler, peer, incarnation)
        self._socket = connection
        self.process = process
        self._outgoing = None if process is None else shared_memory.Outgoing()
        self._incoming = None if process is None else shared_memory.Incoming(process)
        _tune(connection)
        self._reader = MessageReader(connection, self.traffic, self._incoming)
        self.turn: Turn = Turn()
        self._lock = threading.Lock()
        self._has_room = threading.Condition(self._lock)
        #: Buffers that did not fit into the socket's; the writer thread empties it.
        self._outbox: collections.deque[Any] = collections.deque()
        self._writer: threading.Thread | None = None

    def start(self) -> None:
        """Begins to read."""
        start_thread(self._read, f"millrace from {self.peer}")

    # -- Writing ---------------------------------------------------------------------------

    def _send(self, message: Message) -> None:
        place = None if self._outgoing is None else self._place
        buffers = encode(message, place)
        self.traffic.bytes_sent += sum(map(len, buffers))
        with self._lock:
            if self._outbox:
                self._outbox.extend(buffers)
                return
            failure: Exception | None = None
            try:
                left = self._write_some(buffers)
                if left:
                    self._outbox.extend(left)
                    if self._writer is None:
                        self._writer = start_thread(self._drain, f"millrace to {self.peer}")
                    self._has_room.notify()
            except Exception as error:  # or what is left would never be written
                failure = error
        if failure is not None:
            self._end(f"The connection broke ({failure})")
            raise self._closed_error()

    def _place(
        self, arrays: list[Value], starts: Sequence[int], size: int
    ) -> tuple[int, int] | None:
        assert self._outgoing is not None
        placed = self._outgoing.place(arrays, starts, size)
        if placed is not None:
            self.traffic.bytes_sent += size
        return placed

    def _write_some(self, buffers: list[Buffer]) -> list[Buffer]:
        """Writes what fits without waiting; returns the rest."""
        first = 0
        while first < len(buffers):
            part = buffers[first : first + _MAX_BUFFERS]
            try:
                sent = self._socket.sendmsg(part, [], _AT_ONCE)
            except (BlockingIOError, InterruptedError):
                return buffers[first:]
            for buffer in part:
                if sent < len(buffer):
                    rest = buffers[first:]
                    rest[0] = memoryview(buffer)[sent:]
                    buffers, first = rest, 0
                    break
                sent -= len(buffer)
                first += 1
        return []

    def _drain(self) -> None:
        while True:
            with self._lock:
                while not self._outbox and self._closed is None:
                    self._has_room.wait()
                if self._closed is not None:
                    self._outbox.clear()
                    return
                buffer = self._outbox[0]
            try:
                while buffer:
                    sent = self._socket.send(buffer)
                    self.drained += sent
                    buffer = buffer[sent:]
            except Exception as error:
                self._end(f"The connection broke ({error})")
                return
            with self._lock:
                if self._outbox:
                    self._outbox.popleft()

    # -- Reading ---------------------------------------------------------------------------

    def fileno(self) -> int:
        """The number of the socket."""
        return int(self._socket.fileno())

    @property
    def has_more(self) -> bool:
        """Whether something was read already that is to be handled."""
        return self._reader.has_more

    def _read(self) -> None:
        is_open = True
        while is_open:
            self.turn.await_own()
            while is_open := self.read_one():
                if self.turn.leave_if_wanted():
                    break
        self.turn.leave()

    def read_one(self) -> bool:
        """Reads a message and handles it; False when there is none any more.

        For one thread at a time: the one that has the turn.
        """
        reason = "The connection was closed by the other task"
        try:
            message = self._reader.read()
            if message is not None:
                if message.kind in ORDERS and not self.turn.is_kept:
                    self.turn.keep()  # Nobody here waits for what its master sends.
                self._received(message)
                return self._closed is None
        except OSError as error:
            reason = f"The connection broke ({error})"
        except (ValueError, MemoryError) as error:
            reason = f"The other task sent what is no message: {error}"
        except Exception as error:
            reason = f"The other task sent what cannot be read ({type(error).__name__}: {error})"
        except BaseException:  # Ctrl-C, in the middle of a message perhaps
            self._end("The thread that read the connection was interrupted")
            raise
        self._end(reason)
        return False

    def _discard(self) -> None:
        with contextlib.suppress(OSError):
            # The system would go on trying to deliver it, and succeed when nobody expects it.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _release(self) -> None:
        if self._outgoing is not None:
            self._outgoing.close()
        self.turn.end()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._socket.close()
        with self._lock:
            self._has_room.notify_all()


def _tune(connection: StreamSocket) -> None:
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connection.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BUFFER)
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
