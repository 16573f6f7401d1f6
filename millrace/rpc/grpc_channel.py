"""Messages over a gRPC stream: works wherever gRPC does, TLS and proxies included.

A message's bytes travel in pieces, so that a tensor may be larger than gRPC's largest message.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from millrace.rpc.channel import Channel, Handler, Traffic, start_thread
from millrace.rpc.message import (
    PREFIX_BYTES,
    Message,
    Prefix,
    aligned_buffer,
    decode,
    encode,
)

_PIECE = 1 << 20


class GrpcChannel(Channel):
    """One end of a stream; what is sent is drawn from `outgoing` by gRPC."""

    def __init__(self, handler: Handler, peer: str, incarnation: int) -> None:
        super().__init__(handler, peer, incarnation)
        self._outbox: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()
        self._cancel: Any = None

    def start(self, incoming: Iterator[bytes], cancel: Callable[[], object]) -> None:
        """Begins to read.

        Args:
          incoming: Pieces as gRPC delivers them.
          cancel: A function that ends the stream.
        """
        self._cancel = cancel
        start_thread(self._read, f"millrace from {self.peer}", incoming)

    def _send(self, message: Message) -> None:
        buffers = encode(message)
        self.traffic.bytes_sent += sum(len(part) for part in buffers)
        self._outbox.put(buffers)

    def outgoing(self) -> Iterator[bytes]:
        """The pieces to send; ends when the channel is closed."""
        while (buffers := self._outbox.get()) is not None:
            small = bytearray()
            for buffer in buffers:
                view = memoryview(buffer).cast("B")
                while len(small) + len(view) > _PIECE:
                    room = _PIECE - len(small)
                    yield bytes(small) + bytes(view[:room])
                    self.drained += _PIECE  # gRPC asks for more when the other side has room.
                    small, view = bytearray(), view[room:]
                small += view
            if small:
                yield bytes(small)

    def _read(self, incoming: Iterator[bytes]) -> None:
        reason = "The connection was closed by the other task"
        try:
            pieces = _Pieces(incoming, self.traffic)
            while (start := pieces.take(PREFIX_BYTES)) is not None:
                prefix = Prefix(start)
                header = pieces.take(prefix.header_bytes)
                block = aligned_buffer(prefix.block_bytes)
                if header is None or not pieces.fill(block):
                    break
                self._received(decode(prefix, header, block))
                del header, block  # What was handled is not held while the next is waited for.
        except grpc.RpcError as error:
            # The server's side of a stream says no more than that it ended.
            code = getattr(error, "code", None)
            if code is not None:
                reason = f"The connection broke ({code().name}: {error.details()})"
        except (ValueError, MemoryError) as error:
            reason = f"The other task sent what is no message: {error}"
        except Exception as error:
            reason = f"The other task sent what cannot be read ({type(error).__name__}: {error})"
        self._end(reason)

    def _release(self) -> None:
        self._outbox.put(None)
        if self._cancel is not None:
            self._cancel()


class _Pieces:
    """A stream of pieces read as one stream of bytes."""

    def __init__(self, incoming: Iterator[bytes], traffic: Traffic) -> None:
        self._incoming = incoming
        self._traffic = traffic
        self._piece = memoryview(b"")

    def take(self, count: int) -> bytes | None:
        """The next `count` bytes, or None at the end."""
        data = bytearray(count)
        return bytes(data) if self.fill(memoryview(data)) else None

    def fill(self, view: memoryview) -> bool:
        """Fills `view`; False at the end of the stream."""
        at = 0
        while at < len(view):
            if not len(self._piece):
                piece = next(self._incoming, None)
                if piece is None:
                    return False
                self._traffic.bytes_received += len(piece)
                self._piece = memoryview(piece)
            count = min(len(self._piece), len(view) - at)
            view[at : at + count] = self._piece[:count]
            self._piece = self._piece[count:]
            at += count
        return True
