"""TensorFlow's V2 checkpoints (*tensor bundles*), read and written.

The bundle ``prefix`` is a table ``prefix.index`` (see `data.table`) and data files
``prefix.data-00000-of-00001``. The table's empty key has a BundleHeaderProto, every other key
the BundleEntryProto of a tensor: type, shape, and where its bytes are, with their checksum. A
tensor that was saved in parts has an entry that lists them; each part stands under a key of its
own (`data.tensor_slice.slice_key`).

A bundle exists once its index does. Data files are complete under their names before the index
is put in place by one rename; a bundle that is written over another takes other data files
until its index says so. Killed at any moment, a writer leaves the old bundle or the new one.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
import numpy as np
from google.protobuf.message import DecodeError

from millrace.core import aligned, dtypes, errors
from millrace.core.dtypes import DType
from millrace.data.messages import declare
from millrace.data.table import TableReader, TableWriter, read_varint, varint
from millrace.data.tensor_slice import TensorSlice, overlap, slice_key
from millrace.platform import gfile
from millrace.platform.atomic_file import PIECE_BYTES, AtomicFile, is_local, sync_names
from millrace.platform.filesystems import resolve

_messages = declare(
    "tensorflow/core/protobuf/tensor_bundle.proto",
    "tensorflow",
    {
        # Messages of other files, under names of their own: the bytes are the same.
        "BundleVersion": """
            int32 producer = 1
            int32 min_consumer = 2
            repeated int32 bad_consumers = 3
        """,
        "BundleShapeDim": """
            int64 size = 1
            string name = 2
        """,
        "BundleShape": """
            repeated BundleShapeDim dim = 2
            bool unknown_rank = 3
        """,
        "BundleHeaderProto": """
            int32 num_shards = 1
            int32 endianness = 2
            BundleVersion version = 3
        """,
        "BundleEntryProto": """
            int32 dtype = 1
            BundleShape shape = 2
            int32 shard_id = 3
            int64 offset = 4
            int64 size = 5
            fixed32 crc32c = 6
            repeated TensorSliceProto slices = 7
        """,
    },
)
BundleHeaderProto: Any = _messages["BundleHeaderProto"]
BundleEntryProto: Any = _messages["BundleEntryProto"]

_HEADER_KEY = b""
#: Only an incremental checkpoint has it: which checkpoint it is based on (`data.delta_bundle`).
DELTA_BASE_KEY = "_millrace/delta/base"
#: The part of a checkpoint that one task writes: until it is merged it is of no use to anybody,
#: so that its index and names need not last; its data must, because merging renames the file.
_SHARD = re.compile(r"(_temp(_[0-9a-f]+)?/|\.)part-\d{5}-of-\d{5}$")
_VERSION = 1
#: Names of data files have five digits for it.
_MAX_SHARDS = 99_999
_LITTLE_ENDIAN = 0
_MASK_DELTA = 0xA282EAD8
_CHECKSUM = struct.Struct("<I")
#: What is written as byte strings: a variant that can be saved (the state of an iterator) is one.
_TEXTS = (dtypes.string, dtypes.variant)
#: How much is written or read, and then checked, at a time: a core's own cache still has it,
#: with its copy in the system's memory. Pieces begin at multiples of it, which takes the system a
#: tenth less time to write; larger ones took it several times as long, on a virtual machine and
#: every second time (docs/decisions/0004-checkpoints.md says what is known of why).
_CACHED_BYTES = 256 << 10


def index_name(prefix: str) -> str:
    """The name of a bundle's index."""
    return f"{prefix}.index"


def data_name(prefix: str, shard: int, num_shards: int) -> str:
    """The name of one of a bundle's data files."""
    return f"{prefix}.data-{shard:05d}-of-{num_shards:05d}"


def exists(prefix: str) -> bool:
    """Whether there is a bundle of this name."""
    return gfile.exists(index_name(prefix))


def _masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def _bytes_of(array: Any) -> Any:
    """An array's memory as an array of bytes; a copy only if it is not contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _pieces(prefix: str, offset: int, size: int) -> Iterator[tuple[int, int]]:
    """In which pieces to write or read `size` bytes of a data file, from `offset` on."""
    # Behind a URL a call may be a request, which is dear: fewer of them.
    step = _CACHED_BYTES if is_local(prefix) else PIECE_BYTES
    start = 0
    while start < size:
        end = min(size, start + step - (offset + start) % step)
        yield start, end
        start = end


def _sizes(entry: Any) -> tuple[int, ...]:
    return tuple(dim.size for dim in entry.shape.dim)


def _checked_sizes(entry: Any) -> tuple[int, ...]:
    """The shape of an entry that may be damaged; ValueError if it is none."""
    sizes = _sizes(entry)
    if entry.shape.unknown_rank or min(sizes, default=0) < 0:
        raise ValueError(f"its shape {list(sizes)} is none")
    return sizes


def _make_entry(dtype: DType, shape: Sequence[int]) -> Any:
    entry = BundleEntryProto(dtype=dtype.as_datatype_enum)
    entry.shape.SetInParent()
    for size in shape:
        entry.shape.dim.add(size=size)
    return entry


# -- Writing -------------------------------------------------------------------------------


class BundleWriter:
    """Writes a bundle with one data file: `add`, `add_slice`, then `finish` or `discard`.

    Args:
      prefix: Name of the bundle; its folder is made if the one above exists.

    Raises:
      OpError: TensorFlow's class for what the file system says.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._entries: dict[bytes, Any] = {}
        folder = os.path.dirname(prefix)
        if folder and not gfile.isdir(folder):
            # One level, as TensorFlow does: a mistyped path should not become a tree.
            make = gfile.mkdir if is_local(prefix) else gfile.makedirs
            make(folder)
        self._layout = _Layout(prefix, 1)
        self._data = self._layout.open(0)

    def add(self, name: str, value: Any, dtype: DType) -> None:
        """Writes a whole tensor.

        Raises:
          InvalidArgumentError: There is one of this name already.
        """
        self._add(name.encode(), value, dtype)

    def _add(self, key: bytes, value: Any, dtype: DType) -> None:
        if key in self._entries:
            raise errors.InvalidArgumentError(
                None, None, f"Adding duplicate key: {key.decode(errors='replace')}"
            )
        entry = _make_entry(dtype, value.shape)
        entry.offset = self._data.size
        entry.crc32c = _masked(
            self._write_strings(value) if dtype in _TEXTS else self._write_numbers(value)
        )
        entry.size = self._data.size - entry.offset
        self._entries[key] = entry

    def _write_numbers(self, value: Any) -> int:
        content = _bytes_of(value)
        crc = 0
        for start, end in _pieces(self._prefix, self._data.size, content.size):
            piece = content[start:end]
            self._data.write(piece)
            crc = google_crc32c.extend(crc, piece)
        return crc

    def _write_strings(self, value: Any) -> int:
        """Lengths, their checksum, then the strings; the lengths count as four bytes each."""
        strings = value.ravel().tolist()
        lengths = b"".join(varint(len(s)) for s in strings)
        crc = google_crc32c.value(b"".join(_length_bytes(len(s)) for s in strings))
        checksum = _CHECKSUM.pack(_masked(crc))
        content = b"".join(strings)
        self._data.write(lengths + checksum + content)
        return google_crc32c.extend(crc, checksum + content)  # type: ignore[no-any-return]

    def add_slice(
        self, name: str, shape: Sequence[int], part: TensorSlice, value: Any, dtype: DType
    ) -> None:
        """Writes a part of a tensor of `shape`.

        Raises:
          InvalidArgumentError: This part is there already, or the tensor is, with another
            type or shape.
        """
        if part.covers(shape):
            self.add(name, value, dtype)
            return
        key = name.encode()
        whole = self._entries.setdefault(key, _make_entry(dtype, shape))
        _check_same(name, whole, dtype.as_datatype_enum, tuple(shape))
        self._add(slice_key(name, part), value, dtype)
        whole.slices.append(part.to_proto())

    def finish(self) -> None:
        """Puts the bundle in place."""
        try:
            self._data.close()
            self._layout.commit([self._data], self._entries)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Gives up; what was written is removed as far as that is possible."""
        self._data.discard()


def _length_bytes(length: int) -> bytes:
    return length.to_bytes(4 if length <= 0xFFFFFFFF else 8, "little")


def _check_same(name: str, entry: Any, dtype: int, shape: tuple[int, ...]) -> None:
    if (entry.dtype, _sizes(entry)) != (dtype, shape):
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Parts of the tensor {name} do not belong together: one is of a "
            f"{dtypes.as_dtype(entry.dtype).name} tensor of shape {list(_sizes(entry))}, another "
            f"of a {dtypes.as_dtype(dtype).name} tensor of shape {list(shape)}",
        )


class _Layout:
    """The names of a bundle's data files, and how they and the index are put in place.

    A bundle of this name may exist: readers of it must find its data until the new index is there.
    So the new data files get names with a number of files that the old index does not use, and
    their usual names afterwards, where a file may have two names.
    """

    def __init__(self, prefix: str, num_shards: int) -> None:
        self._prefix = prefix
        self._num_shards = num_shards
        self._replaced = _stored_num_shards(prefix)
        self._named_for = num_shards + (1 if self._replaced == num_shards else 0)

    def open(self, shard: int) -> AtomicFile:
        """A data file to write."""
        return AtomicFile(self.name(shard), in_place=not is_local(self._prefix))

    def name(self, shard: int) -> str:
        """The name that a data file has when the index is put in place."""
        return data_name(self._prefix, shard, self._named_for)

    def commit(self, files: Sequence[AtomicFile], entries: dict[bytes, Any]) -> None:
        """Gives all files their names, the index last, and removes what it replaces."""
        for file in files:
            file.commit()
        self.commit_index(entries)

    def commit_index(self, entries: dict[bytes, Any]) -> None:
        """Puts the index in place; the data files have the names that `name` says."""
        if self._replaced is not None:
            # Data must have their names on the disk before the old index is gone.
            sync_names(self._prefix)
        _write_index(self._prefix, self._named_for, entries)
        if not _SHARD.search(self._prefix):
            sync_names(self._prefix)
        if self._replaced is None:
            return
        if self._named_for != self._num_shards and not self._use_usual_names(entries):
            _remove_data(self._prefix, self._replaced, keep=self._named_for)
        elif self._replaced != self._num_shards:
            _remove_data(self._prefix, self._replaced, keep=self._num_shards)

    def _use_usual_names(self, entries: dict[bytes, Any]) -> bool:
        for shard in range(self._num_shards):
            usual = data_name(self._prefix, shard, self._num_shards)
            files, source = resolve(self.name(shard))
            temporary = f"{resolve(usual)[1]}.tempstate{os.getpid()}"
            try:
                with contextlib.suppress(FileNotFoundError):
                    files.remove_file(temporary)
                files.link(source, temporary)
                files.rename(temporary, resolve(usual)[1])
            except (OSError, NotImplementedError):
                return False
        _write_index(self._prefix, self._num_shards, entries)
        sync_names(self._prefix)
        _remove_data(self._prefix, self._named_for, keep=self._num_shards)
        return True


def _stored_num_shards(prefix: str) -> int | None:
    """How many data files the bundle of this name has, if there is one that can be read."""
    if not exists(prefix):
        return None
    try:
        with BundleReader(prefix) as reader:
            return reader.num_shards
    except errors.OpError:
        return None


def _remove_data(prefix: str, num_shards: int, keep: int) -> None:
    """Removes data files that no index names any more; that they stay does no harm."""
    for shard in range(num_shards):
        if num_shards != keep:
            with contextlib.suppress(errors.OpError):
                gfile.remove(data_name(prefix, shard, num_shards))


def _write_index(prefix: str, num_shards: int, entries: dict[bytes, Any]) -> None:
    header = BundleHeaderProto(num_shards=num_shards, endianness=_LITTLE_ENDIAN)
    header.version.producer = _VERSION
    file = AtomicFile(index_name(prefix), lasting=not _SHARD.search(prefix))
    try:
        table = TableWriter(file)
        table.add(_HEADER_KEY, header.SerializeToString())
        for key in sorted(entries):
            table.add(key, entries[key].SerializeToString())
        table.finish()
        file.commit()
    except BaseException:
        file.discard()
        raise


def merge_bundles(
    prefixes: Sequence[str], destination: str, allow_missing_files: bool = False
) -> None:
    """Makes one bundle of several; their data files are renamed, not copied.

    Args:
      prefixes: The bundles; they are gone afterwards.
      destination: The new one.
      allow_missing_files: Whether to go on with those that there are.

    Raises:
      InvalidArgumentError: One is missing; or two have a tensor (or the same part of one) in
        common, or parts of a tensor that do not belong together. Nothing is changed then.
    """
    merged: dict[bytes, Any] = {}
    moved: list[tuple[str, int]] = []
    for prefix in prefixes:
        if not exists(prefix):
            if allow_missing_files:
                continue
            raise errors.InvalidArgumentError(
                None, None, f"allow_missing_files was set to false and {prefix} did not exist."
            )
        with BundleReader(prefix) as reader:
            first = len(moved)
            moved.extend((prefix, reader.num_shards) for _ in range(reader.num_shards))
            for key, entry in reader.entries.items():
                entry.shard_id += first
                _merge_entry(merged, key, entry, prefix)
    if not moved:
        raise errors.InvalidArgumentError(
            None,
            None,
            "At least one prefix checkpoint file must exist, but none existed: "
            f"{', '.join(prefixes) or 'no prefix was given'}",
        )
    layout = _Layout(destination, len(moved))
    position = 0
    while position < len(moved):
        prefix, count = moved[position]
        for shard in range(count):
            gfile.rename(
                data_name(prefix, shard, count), layout.name(position + shard), overwrite=True
            )
        position += count
    layout.commit_index(merged)
    for prefix in prefixes:
        with contextlib.suppress(errors.NotFoundError):
            gfile.remove(index_name(prefix))


def _merge_entry(merged: dict[bytes, Any], key: bytes, entry: Any, prefix: str) -> None:
    present = merged.setdefault(key, entry)
    if present is entry:
        return
    name = key.decode(errors="replace")
    if name == DELTA_BASE_KEY and (present.size, present.crc32c) == (entry.size, entry.crc32c):
        return  # The parts of an incremental checkpoint all say what they are based on.
    if not present.slices or not entry.slices:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Duplicate tensor keyed by {name} encountered, when merging prefix: {prefix}",
        )
    _check_same(name, present, entry.dtype, _sizes(entry))
    present.slices.extend(entry.slices)


# -- Reading -------------------------------------------------------------------------------


class TensorInfo(NamedTuple):
    """What an index says of a tensor."""

    dtype: DType
    shape: tuple[int, ...]


class BundleReader:
    """Reads tensors and parts of tensors of a bundle; a context manager.

    Attributes:
      entries: What the index has under each key.
      num_shards: How many data files the bundle has.

    Args:
      prefix: Name of the bundle.

    Raises:
      NotFoundError: There is no such bundle.
      DataLossError: Its index is damaged.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._streams: dict[int, BinaryIO] = {}
        self._lengths: dict[int, int] = {}
        #: The key and value that were read last: parts of one tensor are wanted in a row.
        self._last: tuple[bytes, Any] = (b"", None)
        name = index_name(prefix)
        with gfile.tensorflow_errors(name):
            files, path = resolve(name)
            with files.open_for_reading(path) as stream:
                table = TableReader(stream, name, files.stat(path).length)
                stored = list(table)
        try:
            if not stored or stored[0][0] != _HEADER_KEY:
                raise ValueError("it has no header")
            header = BundleHeaderProto.FromString(stored[0][1])
            self.entries = {key: BundleEntryProto.FromString(value) for key, value in stored[1:]}
            for key in self.entries:
                if not key.startswith(b"\0"):
                    key.decode()  # or the name cannot be read
        except (ValueError, DecodeError) as error:
            raise errors.DataLossError(
                None, None, f"{name}: this is not the index of a checkpoint: {error}"
            ) from None
        if header.endianness != _LITTLE_ENDIAN:
            raise errors.UnimplementedError(
                None, None, f"{name}: the checkpoint was written on a big-endian machine"
            )
        if header.version.min_consumer > _VERSION:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"{name}: the checkpoint asks for readers of version "
                f"{header.version.min_consumer}, this one is of version {_VERSION}",
            )
        self.num_shards: int = header.num_shards
        if not 0 <= self.num_shards <= _MAX_SHARDS:
            raise errors.DataLossError(
                None, None, f"{name}: an index of {self.num_shards} data files is damaged"
            )

    def __enter__(self) -> BundleReader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the data files that are open."""
        while self._streams:
            self._streams.popitem()[1].close()

    def names(self) -> Iterator[str]:
        """The tensors, in order; parts are not counted."""
        # The key of a part begins with a zero byte; no name does.
        return (key.decode() for key in self.entries if not key.startswith(b"\0"))

    def __contains__(self, name: str) -> bool:
        return name.encode() in self.entries

    def info(self, name: str) -> TensorInfo:
        """Type and shape of a tensor; NotFoundError if there is none of this name."""
        entry = self._entry(name)
        with self._reading(name):
            return TensorInfo(dtypes.as_dtype(entry.dtype), _checked_sizes(entry))

    def parts(self, name: str) -> list[TensorSlice]:
        """The parts in which a tensor was saved; none if it was saved whole."""
        with self._reading(name):
            return [TensorSlice.from_proto(part) for part in self._entry(name).slices]

    def _entry(self, name: str) -> Any:
        entry = self.entries.get(name.encode())
        if entry is None:
            raise errors.NotFoundError(
                None, None, f"Key {name} not found in checkpoint {self._prefix}"
            )
        return entry

    def read(self, name: str) -> Any:
        """The value of a tensor, put together if it was saved in parts."""
        entry = self._entry(name)
        if entry.slices:
            return self.read_slice(name, TensorSlice.whole(len(entry.shape.dim)))
        with self._reading(name):
            return self._load(name, entry)

    def read_slice(self, name: str, part: TensorSlice) -> Any:
        """A part of a tensor, put together from those in which it was saved.

        Raises:
          NotFoundError: There is no such tensor, or the checkpoint lacks some of the part.
          InvalidArgumentError: The tensor has no such part.
        """
        entry = self._entry(name)
        with self._reading(name):
            sizes = _checked_sizes(entry)
        shape = part.shape_in(sizes)
        with self._reading(name):
            return self._read_slice(name, part, entry, sizes, shape)

    def rows(self, name: str, part: TensorSlice) -> Iterator[Any]:
        """Whole rows of a tensor, some at a time, in order; the checksum is checked at the end.

        Args:
          name: The tensor; it has numbers, and at least one axis.
          part: A range of its first axis, and all of the others.

        Raises:
          DataLossError: It is damaged.
          NotFoundError: There is no such tensor, or the checkpoint lacks some of the part.
        """
        whole = self._entry(name)
        with self._reading(name):
            sizes = _checked_sizes(whole)
            wanted = part.ranges(sizes)
            stored = [TensorSlice.from_proto(each) for each in whole.slices]
            keys = [slice_key(name, each) for each in stored if each.ranges(sizes) == wanted]
            if not stored and part.covers(sizes):
                keys = [name.encode()]
        if not keys:  # It was saved in other parts.
            yield self.read_slice(name, part)
            return
        entry = self._entry_of(name, keys[0])
        with self._reading(name):
            self._check_size(name, entry)
        shape, dtype = _sizes(entry), dtypes.as_dtype(entry.dtype)
        row_bytes = entry.size // max(1, shape[0])
        step = max(1, PIECE_BYTES // max(1, row_bytes))
        crc = 0
        for first in range(0, shape[0], step):
            some = _aligned((min(step, shape[0] - first), *shape[1:]), dtype)
            content = some.reshape(-1).view(np.uint8)
            crc = self._read_into(name, entry, content, first * row_bytes, crc)
            yield some
        self._check(name, entry, crc)

    def _read_slice(
        self,
        name: str,
        part: TensorSlice,
        entry: Any,
        sizes: tuple[int, ...],
        shape: tuple[int, ...],
    ) -> Any:
        if not entry.slices:
            if part.covers(sizes):
                return self._load(name, entry)
            value = self._load_again(name, name.encode())
            return np.ascontiguousarray(
                value[tuple(slice(*bounds) for bounds in part.ranges(sizes))]
            )
        stored = [TensorSlice.from_proto(each) for each in entry.slices]
        for each in stored:
            if each.ranges(sizes) == part.ranges(sizes):
                return self._load(name, self._entry_of(name, slice_key(name, each)))
        dtype = dtypes.as_dtype(entry.dtype)
        common = [(each, overlap(part, each, sizes)) for each in stored]
        used = [(each, *places) for each, places in common if places is not None]
        count = math.prod(shape)
        missing = count - sum(math.prod(s.stop - s.start for s in into) for _, into, _ in used)
        if missing > 0:
            raise errors.NotFoundError(
                None,
                None,
                f"Checkpoint {self._prefix} does not have all of the slice {part or '-'} of tensor "
                f"{name}: {missing} of {count} elements are missing; it has "
                f"{', '.join(str(each) for each in stored)}",
            )
        keys = [slice_key(name, each) for each, _, _ in used]
        for key in keys:  # Room is made only for what the files hold.
            self._check_size(name, self._entry_of(name, key))
        value = _aligned(shape, dtype)
        for key, (_, into, of) in zip(keys, used, strict=True):
            value[into] = self._load_again(name, key)[of]
        return value

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """Makes DataLossError of what an index leads to that no writer has written."""
        try:
            yield
        except (ValueError, TypeError, IndexError, OverflowError, MemoryError) as error:
            raise self._damaged(name, None, f"its entry is damaged: {error}") from None

    def _check_size(self, name: str, entry: Any) -> None:
        """Checks what an entry says against its shape and the bytes that the data file has."""
        dtype, shape = dtypes.as_dtype(entry.dtype), _checked_sizes(entry)
        count = math.prod(shape)
        if not 0 <= entry.shard_id < self.num_shards:
            raise self._damaged(
                name, None, f"it is in data file {entry.shard_id} of {self.num_shards}"
            )
        there = self._length(entry) - entry.offset
        if entry.offset < 0 or not 0 <= entry.size <= there:
            raise self._damaged(
                name, entry, f"the file ends after {max(there, 0)} of its bytes: it is truncated"
            )
        if dtype in _TEXTS:
            # Each has a length of a byte or more, and the lengths have a checksum.
            if count > entry.size - _CHECKSUM.size:
                raise self._damaged(name, entry, f"{count} values cannot be in so few bytes")
        elif count * np.dtype(dtype.as_numpy_dtype).itemsize != entry.size:
            size = count * np.dtype(dtype.as_numpy_dtype).itemsize
            raise self._damaged(
                name, entry, f"a {dtype.name} tensor of shape {list(shape)} has {size} bytes"
            )

    def _length(self, entry: Any) -> int:
        """The bytes of the data file that an entry is in."""
        length = self._lengths.get(entry.shard_id)
        if length is None:
            stream = self._stream(entry.shard_id)
            length = self._lengths[entry.shard_id] = stream.seek(0, os.SEEK_END)
        return length

    def _entry_of(self, name: str, key: bytes) -> Any:
        entry = self.entries.get(key)
        if entry is None:
            raise self._damaged(name, None, "one of its parts is listed, but not in the index")
        return entry

    def _load_again(self, name: str, key: bytes) -> Any:
        """What a key has, from memory if it was asked for just before."""
        if self._last[0] != key:
            self._last = key, self._load(name, self._entry_of(name, key))
        return self._last[1]

    def _damaged(self, name: str, entry: Any, what: str) -> errors.DataLossError:
        file = index_name(self._prefix)
        if entry is not None:
            file = data_name(self._prefix, entry.shard_id, self.num_shards)
            what += f" ({entry.size} bytes at {entry.offset})"
        return errors.DataLossError(None, None, f"{file}: tensor {name}: {what}")

    def _stream(self, shard: int) -> BinaryIO:
        if shard not in self._streams:
            name = data_name(self._prefix, shard, self.num_shards)
            with gfile.tensorflow_errors(name):
                files, path = resolve(name)
                self._streams[shard] = files.open_for_reading(path)
        return self._streams[shard]

    def _load(self, name: str, entry: Any) -> Any:
        self._check_size(name, entry)
        dtype = dtypes.as_dtype(entry.dtype)
        shape = _sizes(entry)
        if dtype in _TEXTS:
            return self._load_strings(name, entry, shape)
        value = _aligned(shape, dtype)
        crc = self._read_into(name, entry, value.reshape(-1).view(np.uint8))
        self._check(name, entry, crc)
        return value

    def _read_into(self, name: str, entry: Any, content: Any, after: int = 0, crc: int = 0) -> int:
        """Fills an array of bytes from the data file; extends the checksum of those before."""
        stream = self._stream(entry.shard_id)
        offset = entry.offset + after
        with gfile.tensorflow_errors(data_name(self._prefix, entry.shard_id, self.num_shards)):
            stream.seek(offset)
            for start, end in _pieces(self._prefix, offset, content.size):
                done = start
                while done < end:
                    piece = content[done:end]
                    count = stream.readinto(memoryview(piece))  # type: ignore[attr-defined]
                    if not count:
                        raise self._damaged(
                            name,
                            entry,
                            f"the file ends after {after + done} of its bytes: it is truncated",
                        )
                    crc = google_crc32c.extend(crc, piece[:count])
                    done += count
        return crc

    def _check(self, name: str, entry: Any, crc: int) -> None:
        if _masked(crc) != entry.crc32c:
            raise self._damaged(
                name,
                entry,
                f"Checksum does not match: stored {entry.crc32c} vs. calculated on the restored "
                f"bytes {_masked(crc)}",
            )

    def _load_strings(self, name: str, entry: Any, shape: tuple[int, ...]) -> Any:
        content = np.empty(entry.size, np.uint8)
        self._read_into(name, entry, content)
        data = content.tobytes()
        try:
            lengths, position = [], 0
            for _ in range(math.prod(shape)):
                length, position = read_varint(data, position)
                lengths.append(length)
        except IndexError:
            raise self._damaged(name, entry, "the lengths of its strings are cut off") from None
        crc = google_crc32c.value(b"".join(_length_bytes(length) for length in lengths))
        checksum = data[position : position + _CHECKSUM.size]
        if checksum != _CHECKSUM.pack(_masked(crc)):
            raise self._damaged(
                name, entry, "the lengths of its strings do not match their checksum"
            )
        self._check(name, entry, google_crc32c.extend(crc, data[position:]))
        position += _CHECKSUM.size
        if position + sum(lengths) != len(data):
            raise self._damaged(name, entry, "the lengths of its strings are not those of its data")
        value = np.empty(shape, object)
        flat = []
        for length in lengths:
            flat.append(data[position : position + length])
            position += length
        value.reshape(-1)[:] = flat
        return value


def _aligned(shape: tuple[int, ...], dtype: DType) -> Any:
    """An uninitialised array that XLA can take without a copy."""
    if dtype in _TEXTS:
        return np.empty(shape, object)
    return aligned.empty(shape, dtype.as_numpy_dtype)
