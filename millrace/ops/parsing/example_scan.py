"""The features of a whole batch of Example messages at once.

Messages of one batch are alike, so they are read in lockstep: NumPy looks at the first entry of
every message, then at the second of each, and so finds all entries in as many rounds as the longest
message has entries; keys, kinds and values are then read of all entries at once. What is encoded in
a way that serializers do not choose (unknown fields, a list in several parts, values before keys)
is `Irregular`, whether valid or damaged: the parser that knows every way decides.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.ops.parsing import example_template
from millrace.ops.parsing.example_template import MOST_HEADER_BYTES, Found
from millrace.ops.parsing.example_wire import BYTES_LIST, FLOAT_LIST, INT64_LIST, varints

#: Fewer messages than this are sooner parsed one by one.
FEW = 6

_FIRST, _SECOND = 0x0A, 0x12  # tags of fields 1 and 2, where they have a length
_KINDS = np.zeros(256, bool)
_KINDS[[BYTES_LIST, FLOAT_LIST, INT64_LIST]] = True
#: Behind the last message, so that what is read there is no message's.
_PADDING = bytes(MOST_HEADER_BYTES)
#: The first k bytes of a word.
_LOW_BYTES = np.array([(1 << 8 * k) - 1 for k in range(9)], np.uint64)


class Irregular(Exception):
    """A message is damaged, or encoded in an unusual way."""


def _check(holds: Any) -> None:
    if not holds.all():
        raise Irregular


class Message:
    """Bytes of a batch, one message after the other.

    Attributes:
      joined: The bytes.
      data: The same as an array.
    """

    def __init__(self, batch: Sequence[bytes]) -> None:
        self.joined = b"".join([*batch, _PADDING])
        self.data = np.frombuffer(self.joined, np.uint8)

    def pieces(self, at: Any, size: int) -> Any:
        """The `size` bytes from each position on, as values without a type."""
        count = len(self.joined) - size + 1
        return np.ndarray((count,), f"V{size}", self.joined, strides=(1,))[at]

    def words(self, at: Any) -> Any:
        """The eight bytes from each position on."""
        return self.pieces(np.minimum(at, len(self.joined) - 8), 8).view("<u8")

    def lengths(self, at: Any) -> tuple[Any, Any]:
        """(lengths that are encoded at positions, positions behind them)."""
        first = self.data[at]
        value, after = first.astype(np.int64), at + 1
        if first.max(initial=0) < 0x80:
            return value, after
        value &= 0x7F
        more = np.flatnonzero(first >= 0x80)
        for shift in (7, 14, 21, 28):
            byte = self.data[np.minimum(after[more], len(self.data) - 1)]
            value[more] |= (byte & 0x7F).astype(np.int64) << shift
            after[more] += 1
            more = more[byte >= 0x80]
            if not len(more):
                return value, after
        raise Irregular

    def fields(self, starts: Any, ends: Any) -> tuple[Any, Any, Any]:
        """(span, start, end) of all fields 1 that are in spans of bytes, and nothing else.

        The fields of a span are in order; those of different spans are mixed.
        """
        owner = np.flatnonzero(starts < ends)
        at, ends = starts[owner], ends[owner]
        found: list[tuple[Any, ...]] = []
        while len(owner):
            length, start = self.lengths(at + 1)
            end = start + length
            found.append((owner, start, end, self.data[at]))
            left = ends - end
            least = left.min()
            if least > 0:
                at = end
                continue
            if least < 0:
                raise Irregular
            going = np.flatnonzero(left)
            owner, at, ends = owner[going], end[going], ends[going]
        if not found:
            nothing = np.empty(0, np.int64)
            return nothing, nothing, nothing
        owners, first, last, tags = (np.concatenate(part) for part in zip(*found, strict=True))
        _check(tags == _FIRST)
        return owners, first, last


class Keys:
    """Finds the wanted ones among keys: a hash without collisions, made for them."""

    def __init__(self, keys: Sequence[str]) -> None:
        encoded = [key.encode() for key in keys]
        self.index = {key: i for i, key in enumerate(keys)}
        self.templates = _Templates(encoded)
        self._sizes = np.array([len(key) for key in encoded])
        self._longest = int(self._sizes.max(initial=0))
        #: For each word of a key, which of its bytes are a key's of some length.
        lengths = np.arange(self._longest + 1)
        self._low = [
            _LOW_BYTES[np.clip(lengths - first, 0, 8)] for first in range(0, self._longest, 8)
        ]
        message = Message(encoded)
        self._words = self._read(message, np.cumsum(self._sizes) - self._sizes, self._sizes)
        bits = max(len(keys), 1).bit_length() + 2
        draw = np.random.default_rng(0)
        while True:  # A few draws, since most slots are empty.
            self._factors = draw.integers(0, 1 << 64, len(self._words) + 1, np.uint64) | 1
            self._shift = np.uint64(64 - bits)
            slots = self._slot(self._words, self._sizes)
            if len(np.unique(slots)) == len(keys):
                break
            bits = min(bits + 1, 24)
        self._table = np.zeros(1 << bits, np.int64)
        self._table[slots] = np.arange(len(keys))

    def _read(self, message: Message, at: Any, sizes: Any) -> list[Any]:
        sizes = np.minimum(sizes, self._longest)
        return [
            message.words(at + 8 * i if i else at) & low[sizes] for i, low in enumerate(self._low)
        ]

    def _slot(self, words: list[Any], sizes: Any) -> Any:
        mixed = sizes.astype(np.uint64) * self._factors[-1]
        for word, factor in zip(words, self._factors, strict=False):
            mixed = (mixed ^ (mixed >> np.uint64(29)) ^ word) * factor
        return (mixed >> self._shift).astype(np.int64)

    def find(self, message: Message, at: Any, sizes: Any) -> Any:
        """Which of the keys stands at each position; -1 for none of them."""
        if not len(self._sizes):
            return np.full(len(at), -1)
        words = self._read(message, at, sizes)
        found = self._table[self._slot(words, sizes)]
        same = self._sizes[found] == sizes
        for word, wanted in zip(words, self._words, strict=True):
            same &= word == wanted[found]
        return np.where(same, found, -1)


class _Templates:
    """The template of the messages in which some keys are wanted, and when to learn another."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._rows = {key: i for i, key in enumerate(keys)}
        self._template: Any = None
        #: Batches to come before another is learnt, and how many it was last time.
        self._wait = self._waited = 0

    def read(self, message: Message, start: Any, end: Any) -> Found | None:
        """The lists of Features messages; None if they have no common template."""
        found = None
        if self._template is not None:
            found = example_template.follow(self._template, message, start, end, len(self._rows))
        if found is not None:
            self._waited = 0
            return found
        if self._wait:
            self._wait -= 1
            return None
        self._wait = self._waited = min(2 * self._waited + 1, 1023)
        longest = int(np.argmax(end - start))  # It has most features.
        features = message.joined[start[longest] : end[longest]]
        self._template = example_template.learn(features, self._rows)
        if self._template is None:
            return None
        return example_template.follow(self._template, message, start, end, len(self._rows))


@functools.lru_cache(maxsize=256)
def _keys(keys: tuple[str, ...]) -> Keys:
    return Keys(keys)


class ScannedFeatures:
    """The wanted features of a batch of Examples.

    Args:
      batch: The serialized messages.
      keys: The features that are wanted.

    Raises:
      Irregular: See there.
    """

    #: What `read` and `equal` look things up in: see `Found`, with a row for each key of `_index`.
    _kind: Any
    _start: Any
    _size: Any

    def __init__(self, batch: Sequence[bytes], keys: Sequence[str]) -> None:
        self._message = message = Message(batch)
        self._count = len(batch)
        ends = np.cumsum(np.fromiter(map(len, batch), np.int64, len(batch)))
        record, start, end = message.fields(np.concatenate([[0], ends[:-1]]), ends)
        if len(record) > len(batch):
            raise Irregular  # Features in several parts
        wanted = _keys(tuple(dict.fromkeys(keys)))
        self._index = wanted.index
        found = None
        if len(record) == len(batch):
            found = wanted.templates.read(message, start, end)
        if found is None:
            entry, start, end = message.fields(start, end)
            found = self._read_entries(record[entry], start, end, wanted)
        self._kind, self._start, self._size = found

    def _read_entries(self, record: Any, start: Any, end: Any, keys: Keys) -> Found:
        """Finds the features of the wanted keys among the entries of the maps."""
        message, data = self._message, self._message.data
        _check(data[start] == _FIRST)
        size, at = message.lengths(start + 1)
        value = at + size
        _check(value < end)
        _check(data[value] == _SECOND)
        which = keys.find(message, at, size)
        size, at = message.lengths(value + 1)
        _check(at + size == end)
        # Assigned in this order: of equal keys in a message the last counts, as in every map.
        wanted = np.flatnonzero(which >= 0)
        if len(wanted) < len(which):
            which, record, at, end = which[wanted], record[wanted], at[wanted], end[wanted]
        found = Found.nothing(len(keys.index), self._count)
        filled = np.flatnonzero(at < end)
        if len(filled) < len(which):
            latest = np.full(found.kind.shape, -1)
            latest[which, record] = np.arange(len(which))
            filled = filled[latest[which[filled], record[filled]] == filled]
            which, record, at, end = which[filled], record[filled], at[filled], end[filled]
        kind, start, size = self._read_lists(at, end)
        found.kind[which, record] = kind
        found.start[which, record] = start
        found.size[which, record] = size
        return found

    def _read_lists(self, at: Any, end: Any) -> tuple[Any, Any, Any]:
        """Kind, place and size of the values in features that are not empty."""
        message, data = self._message, self._message.data
        kind = data[at]
        size, start = message.lengths(at + 1)
        _check(_KINDS[kind])
        _check(start + size == end)
        # A string's tag is that of packed numbers; an empty list has neither.
        _check((data[start] == _FIRST) | (size == 0))
        packed = (kind != BYTES_LIST) & (size > 0)
        if packed.all():
            size, start = message.lengths(start + 1)
            _check(start + size == end)
        else:
            those = np.flatnonzero(packed)
            size[those], start[those] = message.lengths(start[those] + 1)
            _check(start[those] + size[those] == end[those])
        return kind, start, size

    def __len__(self) -> int:
        return self._count

    def read(self, key: str, wanted: int) -> tuple[Any, Any, Any]:
        """(kinds of the lists, values of those of the wanted kind, how many in each)."""
        row = self._index[key]
        kinds, start, size = self._kind[row], self._start[row], self._size[row]
        have = kinds == wanted
        if not have.all():
            start, size = np.where(have, start, 0), np.where(have, size, 0)
        if wanted == BYTES_LIST:
            values, counts = self._strings(start, start + size)
        elif wanted == FLOAT_LIST:
            _check(size % 4 == 0)
            values, counts = self._bytes(start, size).view("<f4"), size // 4
        else:
            try:
                values, counts = varints(self._bytes(start, size), size)
            except ValueError:
                raise Irregular from None
        return kinds, values, counts

    def _bytes(self, start: Any, size: Any) -> Any:
        """The bytes of several places, one after the other."""
        before = np.cumsum(size) - size
        return self._message.data[np.arange(size.sum()) + np.repeat(start - before, size)]

    def _strings(self, start: Any, end: Any) -> tuple[list[bytes], Any]:
        owner, first, last = self._message.fields(start, end)
        counts = np.bincount(owner, minlength=len(start))
        if counts.max(initial=0) > 1:
            order = np.argsort(owner, kind="stable")
            first, last = first[order], last[order]
        joined = self._message.joined
        return [joined[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)], counts

    def equal(self, keys: Sequence[str], wanted: int, count: int) -> Any:
        """Features that have `count` numbers each in every message: an array [key, message, count].

        None where one is missing, of another kind or length: `read` tells which.
        """
        rows = [self._index[key] for key in keys]
        if not (self._kind[rows] == wanted).all():
            return None
        start, size = self._start[rows].reshape(-1), self._size[rows].reshape(-1)
        if wanted == FLOAT_LIST:
            if not count or not (size == 4 * count).all():
                return None
            found = self._message.pieces(start, 4 * count).view("<f4")
        else:
            if count != 1 or not (size - 1 < 8).all() or not size.all():
                return None
            words = self._message.words(start) & _LOW_BYTES[size]
            if not _are_single(words, size):
                return None
            found = _integers(words)
        return found.reshape(len(rows), self._count, count)


_HIGH_BITS = np.uint64(0x8080808080808080)


def _are_single(words: Any, sizes: Any) -> bool:
    """Whether words of some bytes each are one integer: its last byte, and no other, ends one."""
    return bool(((words & _HIGH_BITS) == (_HIGH_BITS & _LOW_BYTES[sizes - 1])).all())


def _integers(words: Any) -> Any:
    """The integers that are encoded in words: seven bits of every byte, drawn together."""
    if not (words >> np.uint64(32)).any():
        words = words & np.uint64(0x7F7F7F7F)
    else:
        words = words & ~_HIGH_BITS
    for bits, low in ((7, 0x007F007F007F007F), (14, 0x00003FFF00003FFF), (28, 0x0FFFFFFF)):
        kept = words & np.uint64(low)
        words = kept | ((words ^ kept) >> np.uint64(8 * bits // 7 - bits))
    return words.view(np.int64)
