"""Channels between two servers of one process: messages are handed over as they are."""

from __future__ import annotations

import queue

import numpy as np

from millrace.core.written import Written
from millrace.rpc.channel import Channel, Handler, start_thread
from millrace.rpc.message import Message, check_sendable


class InProcessChannel(Channel):
    """One end of a pair."""

    in_process = True

    def __init__(self, handler: Handler, peer: str, incarnation: int) -> None:
        super().__init__(handler, peer, incarnation)
        self._inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._other: InProcessChannel | None = None

    def start(self) -> None:
        """Begins to read."""
        start_thread(self._read, f"millrace from {self.peer}")

    def _send(self, message: Message) -> None:
        assert self._other is not None
        check_sendable(message)
        message.tensors = [np.asarray(t) if type(t) is Written else t for t in message.tensors]
        self._other._inbox.put(message)

    def _read(self) -> None:
        while (message := self._inbox.get()) is not None:
            if not self.is_open:
                return
            self._received(message)
            message = None  # What was handled is not held while the next is waited for.
        self._end("The connection was closed by the other task")

    def _release(self) -> None:
        assert self._other is not None
        self._other._inbox.put(None)
        self._inbox.put(None)


def connect(
    one: tuple[Handler, str, int], other: tuple[Handler, str, int]
) -> tuple[InProcessChannel, InProcessChannel]:
    """A pair of channels; each end reads once its `start` is called.

    Args:
      one: Handler, task name and incarnation of one end.
      other: The same of the other end.
    """
    first = InProcessChannel(one[0], other[1], other[2])
    second = InProcessChannel(other[0], one[1], one[2])
    first._other, second._other = second, first
    return first, second
