"""The messages between tasks that run a step: which one each instruction is, and what it says.

A new kind of message is added here, in `rpc.message.Kind`, as an instruction that sends it and an
event that it is (`protocol.step`), and in the table of `inbound.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from millrace.core import errors
from millrace.core.value import Value
from millrace.protocol.step import instructions
from millrace.protocol.step.applied_steps import PACKED_BYTES, StepAttempt
from millrace.rpc.message import Kind, Message
from millrace.rpc.service import shorten

#: Of a message that runs a partition: bits, the key and number of the values it begins with.
_RUN = struct.Struct("<BqI")
_TRACE = 1
_HAS_FIRST = 2
_IS_NUMBERED = 4
_IS_AT_CUT = 8
_KEY = struct.Struct("<q")
#: What is longer of an error's text is cut in the middle.
_MAX_ERROR_TEXT = 64 << 10
_MAX_CANCEL_TEXT = 4096


class RunContext:
    """One run of a step, as all messages that run partitions of it tell of it.

    Attributes:
      values: What the client feeds.
      bits: Whether it is traced, and whether `attempt` says something.
      attempt: Which attempt of a numbered step it is, packed; then the number of the cut that it
        reads, if it reads one.
    """

    __slots__ = ("attempt", "bits", "values")

    def __init__(
        self,
        values: Sequence[object],
        trace: bool = False,
        attempt: StepAttempt | None = None,
        cut: int | None = None,
    ) -> None:
        self.values = values
        self.attempt = b"" if attempt is None else attempt.pack()
        self.bits = (_TRACE if trace else 0) | (0 if attempt is None else _IS_NUMBERED)
        if cut is not None:
            self.attempt += _KEY.pack(cut)
            self.bits |= _IS_AT_CUT


class RunRequest(NamedTuple):
    """What a partition is run with.

    Attributes:
      feeds: What the client feeds.
      first: The key and the values that the partition begins with, if it was deferred.
      trace: Whether to note when each stage runs.
      attempt: Which attempt of a numbered step it is, if of one.
      cut: The number of the cut that it reads; None for the variables as they are.
    """

    feeds: Sequence[Value]
    first: tuple[int, list[Value]] | None = None
    trace: bool = False
    attempt: StepAttempt | None = None
    cut: int | None = None


def run(instruction: instructions.SendRun, context: RunContext) -> Message:
    """Asks a task to run its partition."""
    partition, first = instruction.partition, instruction.first
    tensors = list(partition.take_feeds(context.values))
    if first is None:
        text = bytes((context.bits,))
    else:
        key = partition.first_key
        assert key is not None
        text = _RUN.pack(context.bits | _HAS_FIRST, key, len(first))
        tensors += first
    return Message(Kind.RUN, instruction.step, partition.graph, text + context.attempt, tensors)


def run_request(message: Message) -> RunRequest:
    """What a message that runs a partition says.

    Raises:
      InvalidArgumentError: Nothing sensible.
    """
    text, tensors = message.text, message.tensors
    bits = text[0] if text else 0
    attempt, cut = None, None
    if bits & _IS_AT_CUT:
        if len(text) <= _KEY.size:
            raise errors.InvalidArgumentError(None, None, "Malformed message: no cut is named.")
        (cut,) = _KEY.unpack(text[-_KEY.size :])
        text = text[: -_KEY.size]
    if bits & _IS_NUMBERED:
        try:
            attempt = StepAttempt.unpack(text[-PACKED_BYTES:])
        except ValueError as error:
            raise errors.InvalidArgumentError(None, None, f"Malformed message: {error}.") from None
        text = text[:-PACKED_BYTES]
    if not bits & _HAS_FIRST:
        return RunRequest(tensors, None, bool(bits & _TRACE), attempt, cut)
    if len(text) != _RUN.size:
        raise errors.InvalidArgumentError(None, None, "A message to run a partition ends early.")
    _, key, count = _RUN.unpack(text)
    start = len(tensors) - count
    if start < 0:
        raise errors.InvalidArgumentError(
            None, None, f"{count} values were announced, {len(tensors)} came."
        )
    return RunRequest(tensors[:start], (key, tensors[start:]), bool(bits & _TRACE), attempt, cut)


def read(instruction: instructions.SendRead) -> Message:
    """Asks a task for variables."""
    text = _KEY.pack(instruction.key)
    return Message(Kind.READ, instruction.step, instruction.partition.graph, text)


def key_to_read(message: Message) -> int:
    """Which variables a message asks for.

    Raises:
      InvalidArgumentError: It does not say.
    """
    if len(message.text) != _KEY.size:
        raise errors.InvalidArgumentError(None, None, "A message to read variables names no key.")
    (key,) = _KEY.unpack(message.text)
    return int(key)


def values(instruction: instructions.SendValues) -> Message:
    """Brings values."""
    step, _, key, tag, tensors = instruction
    return Message(Kind.TENSORS, step, key, tag, list(tensors))


def variables(instruction: instructions.SendVariables) -> Message:
    """Brings variables that were asked for."""
    step, _, key, tensors, location = instruction
    kind = Kind.PUBLISHED if location else Kind.TENSORS
    return Message(kind, step, key, location, list(tensors))


def repeat(instruction: instructions.SendRepeat) -> Message:
    """Asks a task to repeat its partition."""
    return Message(Kind.REPEAT, instruction.step, instruction.partition.graph)


def last_round(instruction: instructions.SendLastRound) -> Message:
    """Tells a task that the round that it runs is the last."""
    return Message(Kind.LAST_ROUND, instruction.step)


def cancel(instruction: instructions.SendCancel) -> Message:
    """Tells a task that the step has failed."""
    error = instruction.error
    text = shorten(error.message, _MAX_CANCEL_TEXT).encode()
    return Message(Kind.CANCEL, instruction.step, error.error_code, text)


def end(step: int, error: errors.OpError | None) -> Message:
    """Tells a master that a partition is over, or why it failed."""
    if error is None:
        return Message(Kind.DONE, step)
    text = shorten(error.message, _MAX_ERROR_TEXT).encode()
    return Message(Kind.DONE, step, error.error_code, text)


def error_of(message: Message) -> errors.OpError:
    """The error that a message tells of."""
    return errors.error_from_code(message.key, message.text.decode(errors="replace"))
