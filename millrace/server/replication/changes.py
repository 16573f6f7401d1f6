"""The changes of a task's state as messages: what each says, and how values travel in it.

A snapshot is made of the same messages as the changes that follow it, so that a standby has one way
to apply both. What a stage was given is forwarded as it came; what cannot be sent to another
process is not (`NotForwardable`), and then the new values of variables are sent instead.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from millrace.core.dead import DEAD
from millrace.core.resource_handle import ResourceHandle, handle_array
from millrace.core.value import JsonValue, Value
from millrace.platform import logging
from millrace.protocol.replication.mirror import NOTHING, Event
from millrace.protocol.step.applied_steps import (
    ClientState,
    Effect,
    State,
    StepState,
)
from millrace.rpc.message import Kind, Message
from millrace.runtime.kernel_call import VariableRef
from millrace.server.replication.resource_changes import Key, Noted

#: A piece of a snapshot has about so many bytes.
PIECE_BYTES = 32 << 20


class What(enum.IntEnum):
    """What a message of a change tells."""

    BEGIN = 1  # a snapshot follows
    END = 2  # it was the last piece of one
    VARIABLES = 3  # values of variables, or slices of them
    RECORD = 4  # the record of applied steps
    REGISTER = 5  # a register and its content
    GRAPH = 6  # a graph whose stages will be run
    STAGE = 7  # a stage and what it was given
    CLEARED = 8  # containers were dropped
    MARK = 9  # a digest of the variables as they are now will follow
    DIGEST = 10  # that digest
    EVENTS = 11  # what has happened to queues, accumulators and tables
    OVER = 12  # the task ends in an orderly way
    RESOURCES = 13  # queues, accumulators and tables as they are


class NotForwardable(Exception):
    """A value means something in this process only."""


def message(what: What, sequence: int = 0, said: JsonValue = None, tensors: Value = ()) -> Message:
    """The message that tells of a change."""
    text = b"" if said is None else json.dumps(said, separators=(",", ":")).encode()
    return Message(Kind.CHANGE, sequence, int(what), text, list(tensors))


def said(told: Message) -> JsonValue:
    """What a message says beside its tensors."""
    return json.loads(told.text)


# -- Values ------------------------------------------------------------------------------------


def pack(values: Iterable[object]) -> tuple[list[Value], list[Value]]:
    """Values as plain words and tensors.

    Raises:
      NotForwardable: One of them cannot be sent.
    """
    words: list[Any] = []
    tensors: list[Any] = []
    for value in values:
        if isinstance(value, VariableRef):
            words.append(["variable", value.name])
        elif isinstance(value, bytes):
            words.append("tensor")
            tensors.append(_scalar(value))
        elif value is DEAD:
            words.append("tensor")
            tensors.append(value)
        elif hasattr(value, "dtype") and hasattr(value, "shape"):
            array: Any = np.asarray(value)
            if array.dtype == object and array.shape == () and _is_handle(array):
                words.append(["handle", array[()].container, array[()].name])
            elif array.dtype == object and not all(map(_is_bytes, array.reshape(-1).tolist())):
                raise NotForwardable(f"a tensor of {type(array.reshape(-1)[0]).__name__}")
            else:
                words.append("tensor")
                tensors.append(array)
        else:
            raise NotForwardable(type(value).__name__)
    return words, tensors


def unpack(
    words: Sequence[Value], tensors: Sequence[Value], variable: Callable[[str], Value]
) -> list[Value]:
    """The values that `pack` has packed.

    Args:
      words: What it said.
      tensors: The tensors.
      variable: The reference to a variable, by its name.
    """
    rest = iter(tensors)
    found: list[Any] = []
    for word in words:
        if word == "tensor":
            found.append(next(rest))
        elif word[0] == "variable":
            found.append(variable(word[1]))
        else:
            found.append(handle_array(ResourceHandle(word[1], word[2])))
    return found


def _scalar(value: bytes) -> Value:
    array = np.empty((), object)
    array[()] = value
    return array


def _is_handle(array: Value) -> bool:
    return isinstance(array[()], ResourceHandle)


def _is_bytes(value: object) -> bool:
    return isinstance(value, bytes)


# -- Variables ---------------------------------------------------------------------------------


def variables(values: Iterable[tuple[tuple[str, str], Value]]) -> Iterator[Message]:
    """Messages with the values of variables, by container and name; none is very large."""
    words: list[Any] = []
    tensors: list[Any] = []
    size = 0
    for key, value in values:
        array = np.asarray(value)
        if array.dtype == object or array.nbytes <= PIECE_BYTES:
            slices = [(0, array)]
        else:
            flat = np.ascontiguousarray(array).reshape(-1)
            count = max(1, PIECE_BYTES // array.itemsize)
            slices = [(i, flat[i : i + count]) for i in range(0, flat.size, count)]
        for start, part in slices:
            if words and size + part.nbytes > PIECE_BYTES:
                yield message(What.VARIABLES, 0, words, tensors)
                words, tensors, size = [], [], 0
            whole = None if len(slices) == 1 else [list(array.shape), start]
            words.append([*key, whole])
            tensors.append(part)
            size += part.nbytes
    if words:
        yield message(What.VARIABLES, 0, words, tensors)


# -- The record --------------------------------------------------------------------------------


def record(state: State) -> Message:
    """The message that tells of a record of applied steps.

    Outputs that cannot be sent are left out, with their effects: such a step is run again.
    """
    tensors: list[Any] = []
    told = []
    for client in state:
        steps = []
        for step in client.steps:
            applied = []
            for effect, outputs in step.applied:
                try:
                    words, found = pack(outputs)
                except NotForwardable:
                    continue
                applied.append([effect.name, sorted(effect.variables), words])
                tensors += found
            steps.append([step.step, step.attempt, applied])
        told.append([client.client, client.oldest, steps])
    return message(What.RECORD, 0, told, tensors)


def record_of(told: Message, variable: Callable[[str], Value]) -> State:
    """The record that a message tells of."""
    tensors = list(told.tensors)
    state = []
    for client, oldest, steps in said(told):
        found = []
        for step, attempt, applied in steps:
            outcomes = []
            for name, names, words in applied:
                count = words.count("tensor")
                outputs = unpack(words, tensors[:count], variable)
                del tensors[:count]
                outcomes.append((Effect(name, frozenset(names)), outputs))
            found.append(StepState(step, attempt, tuple(outcomes)))
        state.append(ClientState(client, oldest, tuple(found)))
    return tuple(state)


# -- Queues, accumulators and tables -----------------------------------------------------------


def pack_events(noted: Iterable[Noted]) -> tuple[list[JsonValue], list[Value]]:
    """Events as plain words and tensors; of one that cannot be sent only its number is told."""
    words: list[Any] = []
    tensors: list[Any] = []
    for key, version, event in noted:
        try:
            kinds, values = pack(event.values)
            words.append([*key, version, event.what, event.words, kinds])
            tensors += values
        except NotForwardable as error:
            logging.warning(
                "What happens to %s cannot be sent to the standby: %s.", key.name, error
            )
            words.append([*key, version, None, None, []])
    return words, tensors


def unpack_events(words: Iterable[JsonValue], tensors: list[Value]) -> Iterator[Noted]:
    """The events that `pack_events` has packed; takes their tensors out."""
    for kind, container, name, version, what, plain, kinds in words:
        count = kinds.count("tensor")
        values = unpack(kinds, tensors[:count], _no_variable)
        del tensors[:count]
        yield Noted(Key(kind, container, name), version, Event(what or NOTHING, plain, values))


def resources(wholes: Iterable[Noted]) -> Iterator[Message]:
    """Messages with the states of resources; none is very large, unless one resource is."""
    some: list[Noted] = []
    size = 0
    for noted in wholes:
        some.append(noted)
        size += sum(int(getattr(value, "nbytes", 0)) for value in noted.event.values)
        if size > PIECE_BYTES:
            yield message(What.RESOURCES, 0, *pack_events(some))
            some, size = [], 0
    if some:
        yield message(What.RESOURCES, 0, *pack_events(some))


def _no_variable(name: str) -> Value:
    raise ValueError(f"a reference to {name} in an event")
