"""The parts of a step that other tasks run, and how those begin that need not begin at once.

A part that begins late (`passes.late_part`) is run with the first message that this task has for
it, and is asked for its variables before. Both happen where this task's own part sends and
receives, so nothing here waits.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from millrace.core import errors
from millrace.core.places import taker
from millrace.passes.partitions import Partition
from millrace.platform import logging
from millrace.protocol.step.applied_steps import PACKED_BYTES, StepAttempt
from millrace.rpc.board import BoardReader, Place
from millrace.rpc.channel import Channel
from millrace.rpc.message import Kind, Message, layout_of

#: Of a message that runs a part: bits, and the key and number of the values that it begins with.
_RUN = struct.Struct("<BqI")
_TRACE = 1
_HAS_FIRST = 2
_IS_NUMBERED = 4
_KEY = struct.Struct("<q")

#: Sends a message to the task at an address.
Post = Callable[[str, Message], None]


class RemotePart:
    """A part of a step that another task runs."""

    __slots__ = ("_take_feeds", "address", "boards", "graph", "part")

    def __init__(self, part: Partition, address: str, graph: int) -> None:
        self.part = part
        self._take_feeds = taker(part.arguments)
        self.address = address
        self.graph = graph
        #: Where its variables are shown, by the key of what can be asked of it.
        self.boards: dict[int, tuple[Channel, BoardReader]] = {}

    def look(self, key: int) -> list[Any] | None:
        """The variables of that key, if they are shown on this machine."""
        found = self.boards.get(key)
        if found is None:
            return None
        channel, reader = found
        shown = reader.take() if channel.is_open else None
        if shown is None and (not channel.is_open or reader.is_over):
            self.boards.pop(key, None)
        return shown

    def run_message(self, step: StepRun, first: Sequence[Any] | None = None) -> Message:
        """What asks its task to run it.

        Args:
          step: The step.
          first: What a part begins with that begins late.
        """
        tensors = list(self._take_feeds(step.values))
        bits = step.bits
        if first is None:
            text = bytes((bits,))
        else:
            text = _RUN.pack(bits | _HAS_FIRST, self.part.first_key, len(first))
            tensors += first
        return Message(Kind.RUN, step.number, self.graph, text + step.attempt, tensors)


class StepRun:
    """One run of a step, as all messages that run parts of it tell of it.

    Attributes:
      number: The step.
      values: What the client feeds.
      bits: Whether it is traced, and whether `attempt` says something.
      attempt: Which attempt of a numbered step it is, packed; empty if of none.
    """

    __slots__ = ("attempt", "bits", "number", "values")

    def __init__(
        self, number: int, values: Sequence[Any], trace: bool, attempt: StepAttempt | None = None
    ) -> None:
        self.number = number
        self.values = values
        self.attempt = b"" if attempt is None else attempt.pack()
        self.bits = (_TRACE if trace else 0) | (0 if attempt is None else _IS_NUMBERED)


class RunRequest(NamedTuple):
    """What a part of a step is run with.

    Attributes:
      feeds: What the client feeds.
      first: The key and the values that the part begins with, if it begins late.
      trace: Whether to note when each stage runs.
      attempt: Which attempt of a numbered step it is, if of one.
    """

    feeds: Sequence[Any]
    first: tuple[int, list[Any]] | None = None
    trace: bool = False
    attempt: StepAttempt | None = None


def run_request(message: Message) -> RunRequest:
    """What a message that runs a part says.

    Raises:
      InvalidArgumentError: Nothing sensible.
    """
    text, tensors = message.text, message.tensors
    bits = text[0] if text else 0
    attempt = None
    if bits & _IS_NUMBERED:
        try:
            attempt = StepAttempt.unpack(text[-PACKED_BYTES:])
        except ValueError as error:
            raise errors.InvalidArgumentError(None, None, f"Malformed message: {error}.") from None
        text = text[:-PACKED_BYTES]
    if not bits & _HAS_FIRST:
        return RunRequest(tensors, None, bool(bits & _TRACE), attempt)
    if len(text) != _RUN.size:
        raise errors.InvalidArgumentError(None, None, "A message to run a part ends early.")
    _, key, count = _RUN.unpack(text)
    start = len(tensors) - count
    if start < 0:
        raise errors.InvalidArgumentError(
            None, None, f"{count} values were announced, {len(tensors)} came."
        )
    return RunRequest(tensors[:start], (key, tensors[start:]), bool(bits & _TRACE), attempt)


def read_message(number: int, part: RemotePart, key: int) -> Message:
    """What asks a part's task for variables."""
    return Message(Kind.READ, number, part.graph, _KEY.pack(key))


def key_to_read(message: Message) -> int:
    """Which variables a message asks for.

    Raises:
      InvalidArgumentError: It does not say.
    """
    if len(message.text) != _KEY.size:
        raise errors.InvalidArgumentError(None, None, "A message to read variables names no key.")
    (key,) = _KEY.unpack(message.text)
    return int(key)


class LateParts:
    """The parts of one step that begin with what this task sends them.

    Attributes:
      unbegun: The addresses of the tasks that have not been asked to run theirs.
    """

    __slots__ = ("_fail", "_firsts", "_post", "_reads", "_step", "unbegun")

    def __init__(
        self,
        firsts: Mapping[int, RemotePart],
        reads: Mapping[int, RemotePart],
        unbegun: set[str],
        step: StepRun,
        post: Post,
        fail: Callable[[RemotePart, errors.OpError], None],
    ) -> None:
        """Makes ready for a step.

        Args:
          firsts: The parts, by the key of what they begin with.
          reads: The parts, by the key of what can be asked of them.
          unbegun: The addresses of their tasks, to be changed.
          step: The step.
          post: Sends messages.
          fail: Is told when a task cannot be reached.
        """
        self._firsts = firsts
        self._reads = reads
        self._step = step
        self._post = post
        self._fail = fail
        self.unbegun = unbegun

    def begins(self, key: int, tensors: list[Any]) -> bool:
        """Asks a part to run if it begins with these values; else says that it does not."""
        part = self._firsts.get(key)
        if part is None:
            return False
        self.unbegun.discard(part.address)
        self._send(part, part.run_message(self._step, tensors))
        return True

    def read(self, key: int) -> list[Any] | None:
        """What is waited for, if it is shown; a part that sends it on request is asked for it."""
        part = self._reads.get(key)
        if part is None:
            return None
        found = part.look(key)
        if found is None:
            self._send(part, read_message(self._step.number, part, key))
        return found

    def on_shown(self, channel: Channel, message: Message) -> None:
        """A task says, with variables that it was asked for, where they can be read."""
        part = self._reads.get(message.key)
        if part is None or channel.process is None:
            return
        kinds = [(tensor.dtype, tensor.shape) for tensor in message.tensors]
        try:
            place = Place.unpack(message.text)
            reader = BoardReader(channel.process, place, kinds, layout_of(message.tensors))
        except (OSError, ValueError) as error:
            logging.debug("%s shows nothing: %s", part.part.task, error)
            return
        part.boards[message.key] = channel, reader

    def _send(self, part: RemotePart, message: Message) -> None:
        try:
            self._post(part.address, message)
        except errors.OpError as error:
            self._fail(part, error)
