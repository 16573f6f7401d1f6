"""What two tasks say to each other about a step, and its bytes.

A message is a kind, a step, a few bytes of its own and any number of tensors. On the wire it is a
prefix of fixed size, a header, and one block in which every tensor begins at a multiple of 64
bytes: a receiver reads the block into aligned memory once, and XLA uses the tensors where they
are. No message can make a receiver run code: there is no pickle here.
"""

from __future__ import annotations

import enum
import functools
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from millrace.core import dtypes, errors
from millrace.core.aligned import ALIGNMENT
from millrace.core.convert import Array
from millrace.core.dead import DEAD
from millrace.core.dtypes import DType
from millrace.core.value import Buffer, Value
from millrace.core.written import Written
from millrace.platform import limits

_PREFIX = struct.Struct("<4sB?2xIIQQ")
PREFIX_BYTES = _PREFIX.size
_MAGIC = b"MRC1"
#: The key, and how long the text is.
_KEY = struct.Struct("<qI")
_TENSOR = struct.Struct("<BBB")
#: The segment of shared memory that holds the block: its number and its file's.
_PLACE = struct.Struct("<II")
#: The types of what a message holds and is sent as it is.
_SENT_AS_THEY_ARE = frozenset((np.ndarray, Written, type(DEAD)))
#: So few bytes are copied sooner than they are written from several places.
_SMALL_BYTES = 4096
#: A header that claims to be longer than this is not one.
_MAX_HEADER = 64 << 20


@functools.cache
def max_block_bytes() -> float:
    """A message must not be larger: it would be a mistake, or an attack."""
    return limits.MESSAGE_BYTES.value


class Kind(enum.IntEnum):
    """What a message is for."""

    RUN = 2  # run your partition of this step; tensors: what is fed, and what it begins with
    TENSORS = 3  # values for your partition of this step
    DONE = 4  # my partition is over; tensors: what was fetched of it
    CANCEL = 5  # the step has failed elsewhere
    PING = 6  # are you there?
    PONG = 7
    REPEAT = 8  # run your partition of this step again and again
    LAST_ROUND = 9  # do not begin the partition that you repeat again
    READ = 10  # send me variables that your partition of this step has
    PUBLISHED = 11  # TENSORS that were asked for; text: where they can be read the next time
    FOLLOW = 12  # I want to be your standby; text: who I am
    CHANGE = 13  # a change of my state, or a piece of it; step: its number; key: what kind
    ACKNOWLEDGE = 14  # I have your changes up to this one; key: pieces of your state
    CUT = 15  # take part in this cut, see `server.drivers.cut_wire`
    CUT_ANSWER = 16


_KINDS = {int(kind): kind for kind in Kind}
#: Messages of a master to a task that works for it.
ORDERS = frozenset((Kind.RUN, Kind.READ, Kind.REPEAT, Kind.CUT))
#: Messages that say no more than that a task lives.
HEARTBEAT = frozenset((Kind.PING, Kind.PONG))


class Message:
    """One message.

    Attributes:
      kind: What it is for.
      step: The step it is about, or 0.
      key: A number whose meaning depends on the kind: which transfer, or a status code.
      text: A few bytes: a name, an error message.
      tensors: Arrays (object arrays of bytes for strings), or DEAD.
    """

    __slots__ = ("key", "kind", "step", "tensors", "text")

    def __init__(
        self,
        kind: Kind,
        step: int = 0,
        key: int = 0,
        text: bytes = b"",
        tensors: list[Value] | None = None,
    ) -> None:
        self.kind = kind
        self.step = step
        self.key = key
        self.text = text
        self.tensors: list[Value] = tensors if tensors is not None else []

    def __repr__(self) -> str:
        return f"<Message {self.kind.name} step={self.step} key={self.key} {len(self.tensors)}>"


#: Puts the arrays of a block somewhere else, given where each begins and the size of the block: a
#: segment's number and its file's, or None.
Place = Callable[[list[Any], Sequence[int], int], tuple[int, int] | None]


def encode(message: Message, place: Place | None = None) -> list[Buffer]:
    """The buffers of a message, in order; only what is small is copied.

    Args:
      message: The message.
      place: Is offered the block, to be taken elsewhere.

    Raises:
      InvalidArgumentError: A tensor of the message has no value outside its process.
      ResourceExhaustedError: The message is larger than messages may be.
    """
    text = message.text
    if not message.tensors:
        header = _KEY.pack(message.key, len(text)) + text
        return [_PREFIX.pack(_MAGIC, message.kind, False, 0, len(header), 0, message.step) + header]
    tensors = message.tensors
    if not _SENT_AS_THEY_ARE.issuperset(map(type, tensors)):
        tensors = [
            value if type(value) in _SENT_AS_THEY_ARE else np.asarray(value) for value in tensors
        ]
    description, arrays, starts, size = _lay_out(tensors)
    if size > max_block_bytes():
        raise limits.MESSAGE_BYTES.error(size, "Bytes of a message to another task")
    header = _KEY.pack(message.key, len(text)) + text + description
    placed = None
    if place is not None and size > _SMALL_BYTES:
        placed = place(arrays, starts, size)
    if placed is not None:
        header += _PLACE.pack(*placed)
    prefix = _PREFIX.pack(
        _MAGIC, message.kind, placed is not None, len(tensors), len(header), size, message.step
    )
    if placed is not None:
        return [prefix + header]
    if size <= _SMALL_BYTES:
        return [b"".join((prefix, header, *_pieces(arrays, starts)))]
    return [prefix + header, *_pieces(arrays, starts)]


class _Layout(NamedTuple):
    """How tensors of some types and shapes are sent.

    Attributes:
      description: What the message says of them.
      starts: Where those that are alive begin in the block.
      size: Of the block.
    """

    description: bytes
    starts: list[int]
    size: int


#: By types and shapes: a step's messages are alike. Only of tensors without strings, whose
#: lengths differ from message to message.
_sent_layouts: dict[Any, _Layout] = {}
_MAX_KNOWN = 1024
_MAX_KNOWN_BYTES = 64 << 10


def _lay_out(tensors: list[Value]) -> tuple[bytes, list[Value], list[int], int]:
    """What tensors are, the arrays of their block, where these begin, and its size."""
    kinds = tuple([None if t is DEAD else (t.dtype, t.shape) for t in tensors])
    known = _sent_layouts.get(kinds)
    if known is not None:
        arrays = tensors if None not in kinds else [t for t in tensors if t is not DEAD]
        return known.description, arrays, known.starts, known.size
    parts: list[bytes] = []
    arrays = []
    starts: list[int] = []
    has_strings = False
    size = 0
    for array in tensors:
        if array is DEAD:
            parts.append(_TENSOR.pack(0, 0, 1))
            continue
        if array.dtype == object:
            _check_strings(array)
        dtype = dtypes.as_dtype(array.dtype)
        parts.append(_TENSOR.pack(dtype.as_datatype_enum, array.ndim, 0))
        parts.append(struct.pack(f"<{array.ndim}Q", *array.shape))
        if dtype.name == "string":
            has_strings = True
            array = np.frombuffer(_encode_strings(array), np.uint8)
            parts.append(struct.pack("<Q", len(array)))
        if array.nbytes:
            size += -size % ALIGNMENT
        arrays.append(array)
        starts.append(size)
        size += array.nbytes
    description = b"".join(parts)
    if not has_strings:
        if len(_sent_layouts) >= _MAX_KNOWN:
            _sent_layouts.clear()
        _sent_layouts[kinds] = _Layout(description, starts, size)
    return description, arrays, starts, size


def layout_of(tensors: list[Value]) -> tuple[list[int], int]:
    """Where arrays of numbers begin in a block, and its size: the same wherever it is asked."""
    _, _, starts, size = _lay_out(tensors)
    return starts, size


def _pieces(arrays: list[Value], starts: Sequence[int]) -> list[Buffer]:
    """The bytes of a block: arrays and the gaps between them."""
    block: list[Any] = []
    at = 0
    for array, start in zip(arrays, starts, strict=True):
        if type(array) is Written:
            array = np.asarray(array)
        if not array.nbytes:
            continue
        if start > at:
            block.append(bytes(start - at))
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        block.append(array.reshape(-1).view(np.uint8).data)
        at = start + array.nbytes
    return block


def check_sendable(message: Message) -> None:
    """Checks what `encode` would, without encoding.

    Raises:
      InvalidArgumentError: A tensor of the message has no value outside its process.
    """
    for value in message.tensors:
        if isinstance(value, np.ndarray) and value.dtype == np.object_:
            _check_strings(value)


def _check_strings(array: Array) -> None:
    for item in array.reshape(-1).tolist():
        if not isinstance(item, bytes):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"A tensor that holds a {type(item).__name__} cannot be sent to another task.",
            )


def _encode_strings(array: Array) -> bytes:
    flat = array.reshape(-1).tolist()
    lengths = np.fromiter((len(item) for item in flat), "<u8", len(flat))
    return lengths.tobytes() + b"".join(flat)


class Prefix:
    """The first bytes of a message, read: how much follows, and whether the block does."""

    __slots__ = ("block_bytes", "count", "header_bytes", "is_placed", "kind", "step")

    def __init__(self, data: Buffer) -> None:
        """Reads PREFIX_BYTES bytes.

        Raises:
          ValueError: They are not the start of a message.
        """
        try:
            magic, kind, placed, count, header_bytes, block_bytes, step = _PREFIX.unpack(data)
        except struct.error as error:
            raise ValueError(f"The bytes are not a message of Millrace's: {error}") from None
        if magic != _MAGIC:
            raise ValueError("The bytes are not a message of Millrace's.")
        found = _KINDS.get(kind)
        if found is None:
            raise ValueError(f"There is no message of kind {kind}.")
        self.kind = found
        self.is_placed = placed
        self.count = count
        self.header_bytes = header_bytes
        self.block_bytes = block_bytes
        self.step = step
        if header_bytes > _MAX_HEADER:
            raise ValueError(f"A header of {header_bytes} bytes is too long.")
        if block_bytes > max_block_bytes():
            raise ValueError(
                f"A message of {block_bytes} bytes is too large "
                f"({limits.MESSAGE_BYTES.variable} is {max_block_bytes():.0f} here)."
            )


def place_of(header: Buffer) -> tuple[int, int]:
    """Where the block of a message is, whose prefix says that it is placed.

    Raises:
      ValueError: The header does not say it.
    """
    if len(header) < _PLACE.size:
        raise ValueError("A message's header ends early.")
    number, descriptor = _PLACE.unpack_from(header, len(header) - _PLACE.size)
    return number, descriptor


def decode(prefix: Prefix, header: Buffer, block: Buffer) -> Message:
    """A message from its parts; tensors are views of `block`.

    Args:
      prefix: The prefix.
      header: As many bytes as the prefix says.
      block: The tensors' bytes, a writable buffer at an aligned address.

    Raises:
      ValueError: The parts contradict each other.
    """
    try:
        return _decode(prefix, header if type(header) is bytes else bytes(header), block)
    except (struct.error, TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"A message's header cannot be read: {error}") from error


#: What the tensors of a message are and where they begin, by what it says of them; only of
#: messages without strings.
_layouts: dict[Any, list[tuple[Any, Any, int]] | None] = {}


def _decode(prefix: Prefix, header: bytes, block: Buffer) -> Message:
    key, length = _KEY.unpack_from(header)
    at = _KEY.size + length
    text = header[_KEY.size : at]
    if len(text) != length:
        raise ValueError("A message's header ends early.")
    if not prefix.count:
        return Message(prefix.kind, prefix.step, key, text)
    described = header[at : len(header) - _PLACE.size if prefix.is_placed else len(header)]
    # The size of the block is part of it: what was found to fit must fit again.
    known = described, prefix.count, prefix.block_bytes
    layout = _layouts.get(known)
    if layout is None:
        tensors, layout = _read_tensors(prefix, described, block)
        if layout is not None:
            if len(_layouts) >= _MAX_KNOWN:
                _layouts.clear()
            if len(described) <= _MAX_KNOWN_BYTES:
                _layouts[known] = layout
    else:
        tensors = [
            DEAD if dtype is None else np.ndarray(shape, dtype, block, start)
            for dtype, shape, start in layout
        ]
    return Message(prefix.kind, prefix.step, key, text, tensors)


def _read_tensors(
    prefix: Prefix, described: bytes, block: Buffer
) -> tuple[list[Value], list[tuple[DType, tuple[int, ...], int]] | None]:
    """The tensors of a block, and their layout if it has no strings."""
    data = np.frombuffer(block, np.uint8)
    tensors: list[Any] = []
    layout: list[tuple[Any, Any, int]] = []
    has_strings = False
    at = start = 0
    for _ in range(prefix.count):
        number, rank, dead = _TENSOR.unpack_from(described, at)
        at += _TENSOR.size
        if dead:
            tensors.append(DEAD)
            layout.append((None, (), 0))
            continue
        shape = struct.unpack_from(f"<{rank}Q", described, at)
        at += 8 * rank
        dtype = dtypes.as_dtype(number)
        if dtype._is_ref_dtype or dtype.name in ("resource", "variant"):
            # Bytes must never be taken for addresses of objects.
            raise ValueError(f"A message cannot hold a tensor of type {dtype.name}.")
        count = math.prod(shape)
        if dtype.name == "string":
            (size,) = struct.unpack_from("<Q", described, at)
            at += 8
        else:
            size = count * np.dtype(dtype.as_numpy_dtype).itemsize
        if size:
            start += -start % ALIGNMENT
        if start + size > len(data):
            raise ValueError(f"A message's tensors need more than its {len(data)} bytes.")
        part = data[start : start + size]
        if dtype.name == "string":
            has_strings = True
            tensors.append(_decode_strings(part, count).reshape(shape))
        else:
            tensors.append(part.view(dtype.as_numpy_dtype).reshape(shape))
            layout.append((np.dtype(dtype.as_numpy_dtype), shape, start if size else 0))
        start += size
    return tensors, None if has_strings else layout


def _decode_strings(data: Buffer, count: int) -> Array:
    if len(data) < 8 * count:
        raise ValueError("A string tensor ends early.")
    lengths = data[: 8 * count].view("<u8")
    raw = data[8 * count :].tobytes()
    ends = np.cumsum(lengths).tolist()
    if (ends[-1] if count else 0) != len(raw) or np.any(lengths > len(raw)):
        raise ValueError("The lengths of a string tensor do not fit its bytes.")
    strings = np.empty(count, object)
    start = 0
    for i, end in enumerate(ends):
        strings[i] = raw[start:end]
        start = end
    return strings


class _Received(np.ndarray[Any, Any]):
    """Memory that a message is read into, and that nobody has but who receives it."""

    is_received = True


def aligned_buffer(size: int) -> memoryview:
    """A writable memoryview of `size` bytes that begins at a multiple of ALIGNMENT."""
    if not size:
        return memoryview(bytearray())
    # Arrays made of it find this as their base, because it has its memory itself.
    memory = _Received((size + ALIGNMENT,), np.uint8)
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memoryview(memory)[start : start + size]  # type: ignore[arg-type]
