"""Sorted tables: files of byte strings by key, in the format of LevelDB's tables.

A table is a row of blocks. A block holds entries (key, value) in the order of the keys, each key
without the beginning that it shares with the one before it; every 16th entry, a *restart*, has its
key whole. A block ends with the offsets of its restarts and is followed by a byte for its
compression and the masked CRC-32C of both. The last data is the *index*: a block with, for each
other block, a key not less than its last one and where it is. The footer says where the index is.

TensorFlow's checkpoints are such tables (V1), or have one as their index (V2). Every block that is
read has passed its checksum; anything else is DataLossError with the file and the place.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from millrace.core import errors
from millrace.data.tfrecord import masked_crc32c

_MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
_FOOTER_BYTES = 48
_TRAILER = struct.Struct("<BI")
_UINT32 = struct.Struct("<I")
_BLOCK_BYTES = 262144  # TensorFlow's; LevelDB's is 4096
_RESTART_INTERVAL = 16
_UNCOMPRESSED, _SNAPPY = 0, 1
_MAX_SHIFT = 63


def varint(number: int) -> bytes:
    """A number that is not negative, seven bits a byte, lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def read_varint(data: Any, position: int) -> tuple[int, int]:
    """The number at `position`, and the position after it; IndexError behind the end.

    A number has at most 64 bits, so that it ends after ten bytes; else it is an IndexError too.
    """
    number = shift = 0
    while True:
        if shift > _MAX_SHIFT:
            raise IndexError("a number does not end")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7


class _Place(NamedTuple):
    """Where a block is in the file, without its trailer."""

    offset: int
    size: int

    def encoded(self) -> bytes:
        return varint(self.offset) + varint(self.size)


class _BlockBuilder:
    """Collects the entries of one block."""

    def __init__(self, restart_interval: int) -> None:
        self._restart_interval = restart_interval
        self.clear()

    def clear(self) -> None:
        self._content = bytearray()
        self._restarts = [0]
        self._since_restart = 0
        self._last_key = b""
        self.is_empty = True

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self._since_restart < self._restart_interval:
            limit = min(len(key), len(self._last_key))
            while shared < limit and key[shared] == self._last_key[shared]:
                shared += 1
        else:
            self._restarts.append(len(self._content))
            self._since_restart = 0
        self._content += varint(shared) + varint(len(key) - shared) + varint(len(value))
        self._content += key[shared:]
        self._content += value
        self._since_restart += 1
        self._last_key = key
        self.is_empty = False

    @property
    def size(self) -> int:
        """Bytes of the block if it ended here."""
        return len(self._content) + 4 * len(self._restarts) + 4

    def finish(self) -> bytes:
        ends = struct.pack(f"<{len(self._restarts) + 1}I", *self._restarts, len(self._restarts))
        return bytes(self._content) + ends


class TableWriter:
    """Writes a table, entry by entry in the order of the keys.

    Args:
      stream: Where to; needs `write` only.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._offset = 0
        self._block = _BlockBuilder(_RESTART_INTERVAL)
        self._index = _BlockBuilder(1)
        self._last_key = b""
        self._has_entries = False
        # A block whose index entry waits for the key after it: then it can be short.
        self._pending: _Place | None = None

    def add(self, key: bytes, value: bytes) -> None:
        """Appends an entry.

        Raises:
          ValueError: The key is not greater than the one before it.
        """
        if self._has_entries and key <= self._last_key:
            raise ValueError(f"key {key!r} comes after {self._last_key!r}, but is not greater")
        if self._pending is not None:
            self._index.add(_separator(self._last_key, key), self._pending.encoded())
            self._pending = None
        self._last_key = key
        self._has_entries = True
        self._block.add(key, value)
        if self._block.size >= _BLOCK_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._block.is_empty:
            self._pending = self._write(self._block.finish())
            self._block.clear()

    def _write(self, content: bytes) -> _Place:
        place = _Place(self._offset, len(content))
        kind = bytes([_UNCOMPRESSED])
        self._stream.write(content)
        self._stream.write(kind + _UINT32.pack(masked_crc32c(content + kind)))
        self._offset += len(content) + _TRAILER.size
        return place

    def finish(self) -> None:
        """Writes what is left; the stream stays open."""
        self._flush()
        meta_place = self._write(_BlockBuilder(_RESTART_INTERVAL).finish())
        if self._pending is not None:
            self._index.add(_successor(self._last_key), self._pending.encoded())
        index_place = self._write(self._index.finish())
        places = meta_place.encoded() + index_place.encoded()
        self._stream.write(places.ljust(_FOOTER_BYTES - len(_MAGIC), b"\0") + _MAGIC)


def _separator(start: bytes, limit: bytes) -> bytes:
    """A short key that is at least `start` and less than `limit`."""
    for i, (low, high) in enumerate(zip(start, limit, strict=False)):
        if low != high:
            if low < 0xFF and low + 1 < high:
                return start[:i] + bytes([low + 1])
            return start
    return start


def _successor(key: bytes) -> bytes:
    """A short key that is at least `key`."""
    for i, byte in enumerate(key):
        if byte != 0xFF:
            return key[:i] + bytes([byte + 1])
    return key


class TableReader:
    """Reads a table; blocks are read when an entry of theirs is wanted.

    Args:
      stream: An open file that can seek. It stays the caller's.
      name: Its name, for errors.
      size: Its size in bytes.

    Raises:
      DataLossError: It is no table, or its index is damaged.
    """

    def __init__(self, stream: BinaryIO, name: str, size: int) -> None:
        self._stream = stream
        self._name = name
        self._size = size
        if size < _FOOTER_BYTES:
            raise self._damaged(f"file is too short to be an sstable: {size} bytes")
        footer = self._read(size - _FOOTER_BYTES, _FOOTER_BYTES)
        if not footer.endswith(_MAGIC):
            raise self._damaged("not an sstable (bad magic number)")
        try:
            _, position = _read_place(footer, 0)
            index_place, _ = _read_place(footer, position)
        except IndexError:
            raise self._damaged("bad footer") from None
        index = list(self._entries(index_place))
        self._last_keys = [key for key, _ in index]
        try:
            self._places = [_read_place(value, 0)[0] for _, value in index]
        except IndexError:
            raise self._damaged(f"bad index at {index_place.offset}") from None
        self._cached: tuple[_Place, dict[bytes, bytes]] | None = None

    def _damaged(self, what: str) -> errors.DataLossError:
        return errors.DataLossError(None, None, f"{self._name}: {what}")

    def _read(self, offset: int, size: int) -> bytes:
        self._stream.seek(offset)
        content = self._stream.read(size)
        if len(content) != size:
            raise self._damaged(
                f"truncated: wanted {size} bytes at {offset}, found {len(content)} of them"
            )
        return content

    def _block(self, place: _Place) -> bytes:
        if place.offset + place.size + _TRAILER.size > self._size:
            raise self._damaged(f"block at {place.offset} reaches behind the end of the file")
        content = self._read(place.offset, place.size + _TRAILER.size)
        kind, stored = _TRAILER.unpack_from(content, place.size)
        calculated = masked_crc32c(content[: place.size + 1])
        if stored != calculated:
            raise self._damaged(
                f"block checksum mismatch: block at {place.offset} of {place.size} bytes has the "
                f"checksum {calculated}, stored is {stored}"
            )
        if kind == _UNCOMPRESSED:
            return content[: place.size]
        if kind == _SNAPPY:
            try:
                return _unsnap(content[: place.size])
            except (IndexError, ValueError):
                raise self._damaged(f"corrupted compressed block at {place.offset}") from None
        raise self._damaged(f"bad block type {kind} at {place.offset}")

    def _entries(self, place: _Place) -> Iterator[tuple[bytes, bytes]]:
        block = self._block(place)
        try:
            (restarts,) = _UINT32.unpack_from(block, len(block) - 4)
            end = len(block) - 4 - 4 * restarts
            position, key = 0, b""
            if end < 0:
                raise IndexError(f"{restarts} restarts")
            while position < end:
                shared, position = read_varint(block, position)
                unshared, position = read_varint(block, position)
                length, position = read_varint(block, position)
                if shared > len(key) or position + unshared + length > end:
                    raise IndexError("an entry reaches behind the end")
                key = key[:shared] + block[position : position + unshared]
                position += unshared
                yield key, block[position : position + length]
                position += length
        except (IndexError, struct.error):
            raise self._damaged(f"bad block contents at {place.offset}") from None

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        """All entries, in the order of their keys."""
        for place in self._places:
            yield from self._entries(place)

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        i = bisect.bisect_left(self._last_keys, key)
        if i == len(self._places):
            return None
        place = self._places[i]
        if self._cached is None or self._cached[0] != place:
            self._cached = place, dict(self._entries(place))
        return self._cached[1].get(key)


def _read_place(data: bytes, position: int) -> tuple[_Place, int]:
    offset, position = read_varint(data, position)
    size, position = read_varint(data, position)
    return _Place(offset, size), position


def _unsnap(data: bytes) -> bytes:
    """Undoes Snappy compression: literals, and copies of what was there before."""
    length, position = read_varint(data, 0)
    output = bytearray()
    while position < len(data):
        tag = data[position]
        position += 1
        if tag & 3 == 0:
            size = (tag >> 2) + 1
            if size > 60:
                extra = size - 60
                size = int.from_bytes(data[position : position + extra], "little") + 1
                position += extra
            output += data[position : position + size]
            position += size
            continue
        if tag & 3 == 1:
            size, offset = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | data[position]
            position += 1
        else:
            width = 2 if tag & 3 == 2 else 4
            size = (tag >> 2) + 1
            offset = int.from_bytes(data[position : position + width], "little")
            position += width
        if not 0 < offset <= len(output):
            raise ValueError("a copy from before the beginning")
        for _ in range(size):
            output.append(output[-offset])
        if len(output) > length:
            raise ValueError("another length than stated")
    if len(output) != length:
        raise ValueError("another length than stated")
    return bytes(output)
