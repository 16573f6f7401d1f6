"""The messages of cuts: which one each instruction is, and which event each message.

They are few and small: what they say is JSON. The number of the cut is where other messages have
that of the step, and the key says which of the messages it is.
"""

from __future__ import annotations

import enum
import json
from typing import Any

from millrace.core import errors
from millrace.protocol.cut import events, instructions
from millrace.rpc.message import Kind, Message


class Word(enum.IntEnum):
    """What a message of a cut says."""

    CLOSE = 1
    ADMIT = 2
    RELEASE = 3
    CLOSED = 4
    TAKEN = 5
    REFUSED = 6


def close(number: int, session: str) -> Message:
    """Asks a task to close."""
    return _message(Kind.CUT, number, Word.CLOSE, session)


def admit(number: int, instruction: instructions.SendAdmit) -> Message:
    """Tells a task which steps to wait for."""
    return _message(Kind.CUT, number, Word.ADMIT, instruction.steps)


def release(number: int) -> Message:
    """Tells a task that the cut is needed no more."""
    return _message(Kind.CUT, number, Word.RELEASE, None)


def answer(
    instruction: instructions.SendClosed | instructions.SendTaken | instructions.SendRefused,
) -> Message:
    """What a task answers a cut's master."""
    number = instruction.number
    if isinstance(instruction, instructions.SendClosed):
        said: Any = [instruction.steps, instruction.oldest]
        return _message(Kind.CUT_ANSWER, number, Word.CLOSED, said)
    if isinstance(instruction, instructions.SendTaken):
        return _message(Kind.CUT_ANSWER, number, Word.TAKEN, instruction.torn)
    error = instruction.error
    return _message(Kind.CUT_ANSWER, number, Word.REFUSED, [error.error_code, error.message])


def task_event(message: Message, master: str) -> tuple[events.TaskCutEvent, str]:
    """What a cut's master tells a task, and the session that the cut is for, if it says so.

    Raises:
      InvalidArgumentError: Nothing sensible.
    """
    number = message.step
    try:
        said = json.loads(message.text)
        if message.key == Word.CLOSE:
            return events.CloseRequested(number, master), str(said)
        if message.key == Word.ADMIT:
            steps = [events.AdmittedStep(int(c), int(s), str(m)) for c, s, m in said]
            return events.AdmitRequested(number, master, steps), ""
        if message.key == Word.RELEASE:
            return events.ReleaseRequested(number), ""
    except (ValueError, TypeError, RecursionError) as error:
        raise _malformed(error) from None
    raise _malformed(message.key)


def master_event(message: Message, task: str) -> events.MasterCutEvent:
    """What a task answers.

    Raises:
      InvalidArgumentError: Nothing sensible.
    """
    try:
        said = json.loads(message.text)
        if message.key == Word.CLOSED:
            steps = [
                events.StepReport(
                    int(client), int(step), bool(begun), bool(whole), tuple(map(str, tasks)), master
                )
                for client, step, begun, whole, tasks, master in said[0]
            ]
            return events.TaskClosed(task, steps, [(int(c), int(o)) for c, o in said[1]])
        if message.key == Word.TAKEN:
            return events.TaskTaken(task, [(int(c), int(s)) for c, s in said])
        if message.key == Word.REFUSED:
            error = errors.error_from_code(int(said[0]), str(said[1]))
            return events.TaskRefused(task, error)
    except (ValueError, TypeError, IndexError, RecursionError) as error:
        raise _malformed(error) from None
    raise _malformed(message.key)


def _message(kind: Kind, number: int, word: Word, said: object) -> Message:
    return Message(kind, number, word, json.dumps(said).encode())


def _malformed(what: object) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, f"Malformed message of a cut: {what}.")
