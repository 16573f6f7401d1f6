"""Reads messages off a stream: few calls of the system, and no copy of a large tensor."""

from __future__ import annotations

import select
from typing import Any

from millrace.rpc import shared_memory
from millrace.rpc.channel import Traffic
from millrace.rpc.message import (
    PREFIX_BYTES,
    Message,
    Prefix,
    aligned_buffer,
    decode,
    place_of,
)
from millrace.rpc.spin import spin_policy
from millrace.rpc.tls_socket import StreamSocket, TlsSocket

#: Read at a time: most messages are small, and come whole.
_BUFFER_BYTES = 16 << 10


def _never() -> bool:
    return False


class MessageReader:
    """Reads one end of a connection; one thread at a time."""

    def __init__(
        self, connection: StreamSocket, traffic: Traffic, incoming: shared_memory.Incoming | None
    ) -> None:
        self._connection = connection
        self._traffic = traffic
        self._incoming = incoming
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._tls = connection if isinstance(connection, TlsSocket) else None
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)
        #: What was read and not used is between these.
        self._start = self._end = 0

    @property
    def has_more(self) -> bool:
        """Whether a part of the next message has been read already."""
        return self._end > self._start or (self._tls is not None and self._tls.holds_more)

    def read(self) -> Message | None:
        """The next message, waited for; None at the end of the stream.

        Raises:
          OSError: The connection broke.
          ValueError: This is no message.
        """
        while self._end - self._start < PREFIX_BYTES:
            if not self._read_more():
                return None
        start = self._start
        self._start = at = start + PREFIX_BYTES
        prefix = Prefix(self._buffer[start:at])
        size = prefix.header_bytes
        header: Any
        if size <= self._end - at:
            self._start = at + size
            header = bytes(self._buffer[at : at + size])
        else:
            header = bytearray(size)
            if not self._fill(memoryview(header)):
                return None
        if prefix.is_placed:
            if self._incoming is None:
                raise ValueError("A message is in memory that is not shared.")
            block = self._incoming.block(*place_of(header), prefix.block_bytes)
            self._traffic.bytes_received += prefix.block_bytes
        else:
            block = aligned_buffer(prefix.block_bytes)
            if not self._fill(block):
                return None
        return decode(prefix, header, block)

    def _read_more(self) -> bool:
        """Reads something into the buffer; False at the end of the stream."""
        left = self._end - self._start
        if self._start:
            self._buffer[:left] = self._buffer[self._start : self._end]
            self._start, self._end = 0, left
        if spin_policy.is_on and not self.has_more:
            spin_policy.until(self._poll, _never)
        count: int = self._connection.recv_into(self._buffer[left:])
        self._traffic.bytes_received += count
        self._end = left + count
        return count > 0

    def _fill(self, view: memoryview) -> bool:
        """Fills a view with what comes next; False at the end of the stream."""
        at = min(len(view), self._end - self._start)
        view[:at] = self._buffer[self._start : self._start + at]
        self._start += at
        while at < len(view):
            count = self._connection.recv_into(view[at:])
            if not count:
                return False
            self._traffic.bytes_received += count
            at += count
        return True
