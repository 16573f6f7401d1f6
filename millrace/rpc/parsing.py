"""Reading protocol buffers in pieces.

The library reads a message in one call, in which no other thread of the process runs, and makes up
to 50 bytes of one: two gigabytes of nodes without a name would be 60 GB, and minutes. Here a large
message is cut at the borders of its fields, level by level, and read a piece at a time, until it
has more fields than the limit says; the result is the same.

It knows no message in particular, and is for bytes of clients: nothing that they say is believed
before it is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from millrace.platform import limits

#: A message of so many bytes is read at once: 0.1 s, if they are the nodes of a graph.
WHOLE = 1 << 22
#: Bytes of one piece: a few milliseconds.
PIECE = 1 << 16
_MAX_DEPTH = 100
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MESSAGE = 11  # FieldDescriptor.TYPE_MESSAGE
_Kind = TypeVar("_Kind", bound=Message)


def parse(kind: type[_Kind], data: bytes) -> _Kind:
    """`kind.FromString(data)`.

    Raises:
      DecodeError: These are not the bytes of such a message.
      ResourceExhaustedError: It has too many fields.
    """
    if len(data) <= WHOLE:
        whole: _Kind = kind.FromString(data)
        return whole
    message: _Kind = kind()
    _merge(message, memoryview(data), 0)
    return message


def _merge(message: Message, data: memoryview, depth: int) -> None:
    """Merges bytes into a message, in pieces."""
    if depth > _MAX_DEPTH:
        raise DecodeError(f"Error parsing message: it is nested more than {_MAX_DEPTH} deep")
    fields = message.DESCRIPTOR.fields_by_number
    begin = 0  # of what is not merged yet
    most = limits.MESSAGE_FIELDS.value
    for count, (number, start, content, end) in enumerate(_fields(data), 1):
        if count > most:
            raise limits.MESSAGE_FIELDS.error(count, f"Fields of a {message.DESCRIPTOR.name}")
        field = fields.get(number)
        is_message = field is not None and field.type == _MESSAGE and content >= 0
        if is_message and end - start > PIECE:
            _merge_whole(message, data[begin:start])
            _merge_field(message, field, data[content:end], depth)
            begin = end
        elif end - begin > PIECE:
            _merge_whole(message, data[begin:end])
            begin = end
    _merge_whole(message, data[begin:])


def _merge_whole(message: Message, data: memoryview) -> None:
    if data:
        message.MergeFromString(data.tobytes())


def _merge_field(message: Message, field: FieldDescriptor, data: memoryview, depth: int) -> None:
    value = getattr(message, field.name)
    if field.message_type.GetOptions().map_entry:
        _merge_entry(value, field, data, depth)
        return
    if hasattr(value, "add"):
        value = value.add()
    else:
        value.SetInParent()
    _merge(value, data, depth + 1)


def _merge_entry(
    entries: MutableMapping[object, Message], field: FieldDescriptor, data: memoryview, depth: int
) -> None:
    """Merges a large entry of a map: a small message with the key first, and the value."""
    key_field = field.message_type.fields_by_number[1]
    value_field = field.message_type.fields_by_number[2]
    if value_field.type != _MESSAGE:
        raise DecodeError(f"Error parsing message: a key of {field.name} has {len(data)} bytes")
    key, value = b"", data[:0]
    for number, start, content, end in _fields(data):
        if number == 1:
            key = data[start:end].tobytes()
        elif number == 2 and content >= 0:
            value = data[content:end]
    # An entry with the key alone: the library decodes it.
    found = field.message_type._concrete_class.FromString(key)
    name = getattr(found, key_field.name)
    entries.pop(name, None)  # Of two entries the last one counts.
    _merge(entries[name], value, depth + 1)


def _fields(data: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """For each field of a message: number, start, start of its content (or -1), end.

    Raises:
      DecodeError: There is less than the lengths say, or a kind that no message of ours has.
    """
    at, size = 0, len(data)
    while at < size:
        start = at
        tag, at = _varint(data, at)
        kind, content = tag & 7, -1
        if kind == _BYTES:
            length, at = _varint(data, at)
            content, at = at, at + length
        elif kind == _VARINT:
            _, at = _varint(data, at)
        elif kind == _FIXED64:
            at += 8
        elif kind == _FIXED32:
            at += 4
        else:
            raise DecodeError(f"Error parsing message: wire type {kind} at byte {start}")
        if at > size:
            raise DecodeError(f"Error parsing message: truncated, {at - size} bytes are missing")
        yield tag >> 3, start, content, at


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    for position in range(at, min(at + 10, len(data))):
        byte = data[position]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position + 1
        shift += 7
    raise DecodeError(f"Error parsing message: no number at byte {at}")
