"""Features of Example messages straight from their bytes.

A feature is one of three lists of values; a batch of thousands has tens of thousands of them, and
an object for each list would cost more than all the rest of parsing. So the map of features is
parsed with its values as bytes, and the bytes of a whole column are decoded at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.data.messages import declare

_messages = declare(
    "millrace/features_as_bytes.proto",
    "millrace",
    {
        "FeaturesAsBytes": "map<string, bytes> feature = 1",
        "ExampleAsBytes": "FeaturesAsBytes features = 1",
    },
)
_Example: Any = _messages["ExampleAsBytes"]

#: The first byte of a feature: which list it holds.
BYTES_LIST, FLOAT_LIST, INT64_LIST = 0x0A, 0x12, 0x1A

_PACKED, _FIXED32, _VARINT = 0x0A, 0x0D, 0x08

#: Integers in no more bytes than this are decoded one by one.
_FEW_BYTES = 32
_ALL_BITS = (1 << 64) - 1


def features_of(serialized: bytes) -> dict[str, bytes]:
    """Key to encoded feature of a serialized Example.

    Raises:
      Exception: It is not an Example.
    """
    return dict(_Example.FromString(serialized).features.feature)


class Unreadable(ValueError):
    """A feature of a message is damaged.

    Attributes:
      index: Of the message, where it is known.
    """

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


class FeatureMaps:
    """The features of messages, from key to encoded feature of each."""

    def __init__(self, maps: Sequence[dict[str, bytes]]) -> None:
        self._maps = maps

    def __len__(self) -> int:
        return len(self._maps)

    def read(self, key: str, wanted: int) -> tuple[Any, Any, Any]:
        """(kinds of the lists, values of those of the wanted kind, how many in each).

        Raises:
          Unreadable: Something of it is damaged.
        """
        contents: list[bytes] = []
        kinds = np.full(len(self._maps), wanted, np.uint8)
        for i, features in enumerate(self._maps):
            feature = features.get(key)
            if feature and feature[0] == wanted and feature[1:2] == _SIZES.get(len(feature)):
                contents.append(feature[2:])  # `list_of` without the call: nearly always
                continue
            kind, content = 0, b""
            if feature is not None:
                try:
                    kind, content = list_of(feature)
                except ValueError as error:
                    raise Unreadable(str(error), i) from None
            if kind and kind not in _DECODERS:
                raise Unreadable("unknown field", i)
            kinds[i] = kind
            contents.append(content if kind == wanted else b"")
        try:
            return kinds, *_DECODERS[wanted](contents)
        except (IndexError, ValueError) as error:
            raise Unreadable(str(error)) from None

    def equal(self, keys: Sequence[str], wanted: int, count: int) -> Any:
        """Nothing: see `ScannedFeatures.equal`."""
        return None


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def list_of(feature: bytes) -> tuple[int, bytes]:
    """(kind, encoded list) of a feature; kind 0 when it has none.

    Raises:
      ValueError: The bytes are not a feature.
    """
    if not feature:
        return 0, b""
    if len(feature) >= 2 and feature[1] == len(feature) - 2:
        return feature[0], feature[2:]  # one list of fewer than 128 bytes: nearly always
    kind, content, position = 0, b"", 0
    try:
        while position < len(feature):
            kind = feature[position]
            size, start = _varint(feature, position + 1)
            position = start + size
            content = feature[start:position]
    except IndexError:
        raise ValueError("truncated feature") from None
    if position != len(feature):
        raise ValueError("truncated feature")
    return kind, content


def _packed(content: bytes) -> bytes | None:
    """What is in a list that has one packed field; None for others."""
    if not content:
        return b""
    if content[0] != _PACKED:
        return None
    if len(content) >= 2 and content[1] == len(content) - 2:
        return content[2:]
    size, start = _varint(content, 1)
    return content[start:] if start + size == len(content) else None


def _pieces(content: bytes, single: int) -> bytes:
    """The values of a list that is not packed, or packed in parts, as if it were packed."""
    result, position = b"", 0
    while position < len(content):
        tag = content[position]
        if tag == _PACKED:
            size, start = _varint(content, position + 1)
        elif tag == single:
            start = position + 1
            size = 4 if tag == _FIXED32 else _varint(content, start)[1] - start
        else:
            raise ValueError(f"unknown field {tag >> 3} in a list of values")
        position = start + size
        result += content[start:position]
    return result


def _joined(contents: Sequence[bytes], single: int) -> list[bytes]:
    parts = []
    for content in contents:
        part = _packed(content)
        parts.append(_pieces(content, single) if part is None else part)
    return parts


def floats(contents: Sequence[bytes]) -> tuple[Any, Any]:
    """(all values, how many in each) of encoded lists of floats."""
    parts = _joined(contents, _FIXED32)
    values = np.frombuffer(b"".join(parts), "<f4").astype(np.float32)
    return values, np.fromiter(map(len, parts), np.int64, len(parts)) // 4


def integers(contents: Sequence[bytes]) -> tuple[Any, Any]:
    """(all values, how many in each) of encoded lists of integers."""
    parts = _joined(contents, _VARINT)
    if sum(map(len, parts)) <= _FEW_BYTES:
        return _few_integers(parts)
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
    return varints(np.frombuffer(b"".join(parts), np.uint8), lengths)


def varints(data: Any, lengths: Any) -> tuple[Any, Any]:
    """(all values, how many in each part) of integers, encoded in parts of these lengths.

    Raises:
      ValueError: A part ends within an integer, or one has more than ten bytes.
    """
    stops = np.cumsum(lengths)
    if len(data) and (data[stops[lengths > 0] - 1] >= 0x80).any():
        raise ValueError("a list of integers is cut off")
    ends = np.flatnonzero(data < 0x80)
    if len(ends) == len(data):
        return data.astype(np.int64), np.array(lengths)
    counts = np.searchsorted(ends, stops) - np.searchsorted(ends, stops - lengths)
    starts = np.concatenate([[0], ends[:-1] + 1])
    sizes = ends - starts + 1
    if sizes.max() > 10:
        raise ValueError("an integer of more than ten bytes")
    place = np.arange(len(data)) - np.repeat(starts, sizes)
    shifted = (data & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64)
    return np.add.reduceat(shifted, starts).astype(np.int64), counts


def _few_integers(parts: Sequence[bytes]) -> tuple[Any, Any]:
    """As `integers`, byte by byte: sooner done than a dozen calls of NumPy."""
    values: list[int] = []
    counts = np.empty(len(parts), np.int64)
    for i, part in enumerate(parts):
        before, position = len(values), 0
        while position < len(part):
            value, position = _varint(part, position)
            values.append(value & _ALL_BITS)
        counts[i] = len(values) - before
    return np.array(values, np.uint64).astype(np.int64), counts


def byte_strings(contents: Sequence[bytes]) -> tuple[list[bytes], Any]:
    """(all values, how many in each) of encoded lists of strings."""
    values: list[bytes] = []
    counts = np.empty(len(contents), np.int64)
    for i, content in enumerate(contents):
        if len(content) >= 2 and content[1] == len(content) - 2 and content[0] == _PACKED:
            values.append(content[2:])
            counts[i] = 1
            continue
        before, position = len(values), 0
        while position < len(content):
            if content[position] != _PACKED:
                raise ValueError("unknown field in a list of strings")
            size, start = _varint(content, position + 1)
            position = start + size
            values.append(content[start:position])
        counts[i] = len(values) - before
    return values, counts


#: What says that a feature of some length is one list; only for short ones.
_SIZES = {size + 2: bytes([size]) for size in range(128)}
_DECODERS: dict[int, Any] = {FLOAT_LIST: floats, INT64_LIST: integers, BYTES_LIST: byte_strings}
