"""A way for messages between two tasks, whatever carries them.

Messages arrive whole, once, in the order in which they were sent, or the channel is closed and
both ends are told. Received messages are handled in the channel's own thread, or in one that waits
for them (`turns`); a handler must not
wait for another message of the same channel, and one that raises closes the channel: the thread
that waits for an answer must learn that none will come. `send` may be called from any thread, also
from a handler, and never waits for the other side to read.
"""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable
from typing import Protocol

from millrace.core import errors
from millrace.platform import logging
from millrace.rpc.message import HEARTBEAT, Message
from millrace.rpc.turns import Turn


class Handler(Protocol):
    """Who is told what a channel receives."""

    def on_message(self, channel: Channel, message: Message) -> None:
        """A message has arrived."""

    def on_close(self, channel: Channel, error: errors.OpError) -> None:
        """The channel is closed, here or there; called once."""


class Traffic:
    """What went over a channel so far.

    Bytes are counted as they arrive, not when a message is whole: they are a sign of life.
    """

    __slots__ = ("bytes_received", "bytes_sent", "messages_received", "messages_sent")

    def __init__(self) -> None:
        self.messages_sent = 0
        self.messages_received = 0
        self.bytes_sent = 0
        self.bytes_received = 0

    def add(self, other: Traffic) -> None:
        """Adds what went over another channel."""
        self.messages_sent += other.messages_sent
        self.messages_received += other.messages_received
        self.bytes_sent += other.bytes_sent
        self.bytes_received += other.bytes_received


class Channel(abc.ABC):
    """One end of a way for messages.

    Attributes:
      peer: The task at the other end.
      incarnation: The random number of that task's process.
      address: Where that task is met; the keeper of the channel sets it.
      traffic: What was sent and received.
      drained: Bytes that the other side took after its buffers had been full: a sign of life.
      is_handling: Whether its thread is busy with a message, and so hears nothing.
      in_process: Whether the other task is in this process, and cannot go away without it.
      turn: Who reads it, if threads that wait for it can.
      process: The other task's process, if memory can be shared with it.
    """

    in_process = False
    turn: Turn | None = None
    process: int | None = None

    def __init__(self, handler: Handler, peer: str = "", incarnation: int = 0) -> None:
        self.peer = peer
        self.incarnation = incarnation
        self.address = ""
        self.traffic = Traffic()
        self.drained = 0
        self.is_handling = False
        self._handler = handler
        self._close_lock = threading.Lock()
        self._closed: errors.OpError | None = None

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._closed is None

    def send(self, message: Message) -> None:
        """Sends a message.

        Raises:
          UnavailableError: The channel is closed.
          InvalidArgumentError: A tensor of the message has no value outside its process.
        """
        if self._closed is not None:
            raise self._closed_error()
        self._send(message)
        if message.kind not in HEARTBEAT:
            self.traffic.messages_sent += 1

    def _closed_error(self) -> errors.OpError:
        """Why the channel is closed; a new object for each who is told."""
        assert self._closed is not None
        return errors.UnavailableError(None, None, self._closed.message)

    @abc.abstractmethod
    def _send(self, message: Message) -> None: ...

    def close(self, reason: str = "") -> None:
        """Closes this end; the other end learns of it."""
        self._end(reason or "The connection was closed here")

    def abort(self, reason: str) -> None:
        """Closes this end, and takes back what was sent and has not left this machine yet."""
        self._discard()
        self._end(reason)

    def _discard(self) -> None:
        """Makes `_release` drop what is not sent yet; nothing to do where it does so anyway."""
        return

    def _end(self, reason: str) -> None:
        """Closes once, and tells the handler."""
        with self._close_lock:
            if self._closed is not None:
                return
            self._closed = errors.UnavailableError(
                None, None, f"{reason} ({self.peer or 'a task that has not said its name'})."
            )
        # The caller may be a thread that reads other channels too.
        try:
            self._release()
        except Exception:
            logging.error("The channel to %s was not closed well", self.peer, exc_info=True)
        try:
            self._handler.on_close(self, self._closed)
        except Exception:
            logging.error("The loss of %s could not be handled", self.peer, exc_info=True)

    @abc.abstractmethod
    def _release(self) -> None:
        """Frees what the channel holds; called once."""

    def _received(self, message: Message) -> None:
        if message.kind not in HEARTBEAT:
            self.traffic.messages_received += 1
        self.is_handling = True
        try:
            self._handler.on_message(self, message)
        except Exception as error:
            logging.error("%r from %s could not be handled", message, self.peer, exc_info=True)
            self._end(f"A message could not be handled ({type(error).__name__}: {error})")
        finally:
            self.is_handling = False


def start_thread(target: Callable[..., object], name: str, *args: object) -> threading.Thread:
    """Starts a thread that does not keep the process alive."""
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    thread.start()
    return thread
