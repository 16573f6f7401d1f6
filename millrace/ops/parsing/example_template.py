"""What the messages of a file have in common, learnt from one and checked in all others.

A program writes the same features in the same order, so that most bytes of an entry are those of
every message: tags, the key, and lengths that differ only as the length of the values does. A
template holds these bytes, and to read an entry of a whole batch is to compare a word or two. What
does not match is left to `example_scan`, which needs no such luck.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from millrace.ops.parsing.example_wire import BYTES_LIST, FLOAT_LIST, INT64_LIST

_FIRST, _SECOND = 0x0A, 0x12
#: Lengths from here on take more than one byte.
_LONG = 0x80
#: No header is longer.
MOST_HEADER_BYTES = _LONG + 16


class _Bytes:
    """Bytes that are the same everywhere, but for lengths that grow with the one in the last byte.

    Args:
      content: The bytes of one place.
      lengths: Where these lengths are, the last byte among them.
    """

    def __init__(self, content: bytes, lengths: Sequence[int] = ()) -> None:
        self.width = len(content)
        size = content[-1] if lengths else 0
        marks = bytes(i in lengths for i in range(len(content)))
        rest = bytes(b - size * mark for b, mark in zip(content, marks, strict=True))
        #: The largest size for which no length takes more than one byte.
        self._most = _LONG - 1 - max(b * mark for b, mark in zip(rest, marks, strict=True))
        # The last word overlaps the one before, so that there is none beyond the end.
        last = len(content) - 8
        self._words = [(at, _word(rest, at), _word(marks, at)) for at in (*range(0, last, 8), last)]

    def compare(self, message: Any, at: Any) -> tuple[Any, Any]:
        """(what is not 0 where other bytes are, the size in the last byte)."""
        words = [message.words(at + first if first else at) for first, _, _ in self._words]
        size = words[-1] >> np.uint64(56)
        other: Any = None
        for word, (_, rest, marks) in zip(words, self._words, strict=True):
            expected = size * marks + rest if marks else rest
            word ^= expected
            other = word if other is None else other | word
        if size.max(initial=0) > self._most:
            other = other | (size > self._most)
        return other, size.view(np.int64)


def _word(content: bytes, at: int) -> Any:
    return np.uint64(int.from_bytes(content[at : at + 8], "little"))


class _Entry(NamedTuple):
    """An entry of the map of features.

    Attributes:
      row: Which of the wanted features it is; None for another.
      kind: Of its list.
      header: The bytes before the values.
      empty: The whole entry where it has no values, with the kind that it then has.
    """

    row: int | None
    kind: int
    header: _Bytes
    empty: list[tuple[int, _Bytes]]


class Found(NamedTuple):
    """The lists of values of a batch, each [feature, message].

    Attributes:
      kind: Of the list; 0 for none.
      start: Where the values are: packed numbers, or a list's strings with their tags.
      size: How many bytes they are.
    """

    kind: Any
    start: Any
    size: Any

    @classmethod
    def nothing(cls, features: int, messages: int) -> Found:
        """No lists yet."""
        start, size = np.zeros((2, features, messages), np.int64)
        return cls(np.zeros((features, messages), np.uint8), start, size)


def learn(features: bytes, rows: Mapping[bytes, int]) -> list[_Entry] | None:
    """The template of a Features message; None if it is not one of short, ordinary entries.

    Args:
      features: The message.
      rows: The wanted features.
    """
    entries, at = [], 0
    try:
        while at < len(features):
            end = at + 2 + features[at + 1]
            entry = _learn_entry(features[at:end], rows)
            if entry is None or end > len(features):
                return None
            entries.append(entry)
            at = end
    except (IndexError, ValueError):
        return None  # It ends early, or lengths contradict each other.
    return entries


def _learn_entry(entry: bytes, rows: Mapping[bytes, int]) -> _Entry | None:
    value = 4 + entry[3]
    key = entry[4:value]
    row = rows.get(key)
    kind, lengths = 0, [1, value + 1]
    header = bytes([_FIRST, len(entry) - 2, _FIRST, len(key)]) + key
    header += bytes([_SECOND, len(entry) - value - 2])
    if row is not None:
        kind, size = entry[value + 2], len(entry) - value - 4
        if kind not in (BYTES_LIST, FLOAT_LIST, INT64_LIST) or not size:
            return None
        header, lengths = header + bytes([kind, size]), [*lengths, value + 3]
        if kind != BYTES_LIST:
            header, lengths = header + bytes([_FIRST, size - 2]), [*lengths, value + 5]
    if len(entry) - 2 >= _LONG or len(header) < 8 or not entry.startswith(header):
        return None
    empty = []
    for no_kind, tail in ((kind, bytes([2, kind, 0])), (0, b"\0")):
        whole = header[: value + 1] + tail
        if len(whole) >= 8:
            empty.append((no_kind, _Bytes(bytes([_FIRST, len(whole) - 2]) + whole[2:])))
    return _Entry(row, kind, _Bytes(header, lengths), empty)


def follow(
    template: list[_Entry], message: Any, start: Any, end: Any, features: int
) -> Found | None:
    """The lists of Features messages that are as the template says; None if one is not.

    Args:
      template: What `learn` gave.
      message: The `Message` that they are part of.
      start: Where each begins.
      end: Where it ends.
      features: How many features are wanted.
    """
    found = Found.nothing(features, len(start))
    at = start
    for entry in template:
        other, size = entry.header.compare(message, at)
        first = at + entry.header.width
        if not other.any():
            if entry.row is not None:
                found.kind[entry.row] = entry.kind
                found.start[entry.row], found.size[entry.row] = first, size
            at = first + size
            continue
        # Some messages do not have this entry, or without values: those wait for their next.
        at, same = at.copy(), np.flatnonzero(other == 0)
        if entry.row is not None:
            _skip_empty(entry, message, at, np.flatnonzero(other), found)
            found.kind[entry.row, same] = entry.kind
            found.start[entry.row, same] = first[same]
            found.size[entry.row, same] = size[same]
        at[same] = first[same] + size[same]
        if len(same) < len(at) // 4 or (at > end).any():
            return None
    return found if (at == end).all() else None


def _skip_empty(entry: _Entry, message: Any, at: Any, others: Any, found: Found) -> None:
    """Steps over the entries that have no values."""
    for kind, whole in entry.empty:
        other, _ = whole.compare(message, at[others])
        those = others[other == 0]
        found.kind[entry.row, those] = kind
        at[those] += whole.width
        others = others[other != 0]
