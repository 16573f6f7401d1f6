"""TFRecord files: a sequence of byte strings, each with checksums, plain or compressed.

A record on disk is its length (8 bytes, little endian), the masked CRC-32C of those 8 bytes, the
data, and the masked CRC-32C of the data. Event files for TensorBoard have the same form. Every
record that is returned has passed both checksums; anything else is DataLossError with the file
and the place.
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import google_crc32c

from millrace.core import errors
from millrace.platform import gfile, limits

__all__ = [
    "RecordReader",
    "TFRecordCompressionType",
    "TFRecordOptions",
    "TFRecordWriter",
    "masked_crc32c",
    "open_inflated",
    "tf_record_iterator",
]

_MASK_DELTA = 0xA282EAD8
_HEADER = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_READ_BYTES = 1 << 18
_MOST_BYTES = 64 << 20
# zlib's number for a window of 32 kB, and what is added to it for gzip's header.
_WINDOW_BITS, _GZIP_HEADER = 15, 16


def masked_crc32c(data: bytes) -> int:
    """Returns the checksum that TFRecord files store.

    Masked, because the CRC of a text that contains its own CRC says little.
    """
    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


@functools.lru_cache(maxsize=4096)  # The records of a file have few lengths.
def _checksum_of_length(length: int) -> int:
    return masked_crc32c(_LENGTH.pack(length))


class TFRecordCompressionType:
    """The kinds of compression."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


class TFRecordOptions:
    """How a TFRecord file is compressed.

    Args:
      compression_type: "GZIP", "ZLIB", "" or None, or one of TFRecordCompressionType, or other
        TFRecordOptions.
      flush_mode: Not used: `flush` makes all that was written readable.
      input_buffer_size: Not used.
      output_buffer_size: Not used.
      window_bits: zlib's window, 9 to 15.
      compression_level: zlib's level, 0 to 9.
      compression_method: Not used: zlib has one.
      mem_level: zlib's memory level, 1 to 9.
      compression_strategy: zlib's strategy, 0 to 4.

    Raises:
      ValueError: There is no such compression.
    """

    compression_type_map: ClassVar[dict[int, str]] = {
        TFRecordCompressionType.ZLIB: "ZLIB",
        TFRecordCompressionType.GZIP: "GZIP",
        TFRecordCompressionType.NONE: "",
    }

    def __init__(
        self,
        compression_type: Any = None,
        flush_mode: int | None = None,
        input_buffer_size: int | None = None,
        output_buffer_size: int | None = None,
        window_bits: int | None = None,
        compression_level: int | None = None,
        compression_method: int | None = None,
        mem_level: int | None = None,
        compression_strategy: int | None = None,
    ) -> None:
        self.get_compression_type_string(compression_type)  # refuses what there is not
        self.compression_type = compression_type
        self.flush_mode = flush_mode
        self.input_buffer_size = input_buffer_size
        self.output_buffer_size = output_buffer_size
        self.window_bits = window_bits
        self.compression_level = compression_level
        self.compression_method = compression_method
        self.mem_level = mem_level
        self.compression_strategy = compression_strategy

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """Returns "GZIP", "ZLIB" or "" for options, a name or a number."""
        if isinstance(options, TFRecordOptions):
            return cls.get_compression_type_string(options.compression_type)
        if not options:
            return ""
        name = cls.compression_type_map.get(options, options)
        if name not in cls.compression_type_map.values():
            raise ValueError(f'Not a valid compression_type: "{options}"')
        return cast(str, name)


def _zlib_window_bits(compression: str, window_bits: int | None = None) -> int:
    bits = _WINDOW_BITS if window_bits is None else window_bits
    return bits + _GZIP_HEADER if compression == "GZIP" else bits


class _InflatingFile:
    """Reads a compressed file as what was compressed; several streams in a row count as one."""

    def __init__(self, file: gfile.GFile, compression: str) -> None:
        self._file = file
        self._window_bits = _zlib_window_bits(compression)
        self._inflate = zlib.decompressobj(self._window_bits)
        # Read from the file and not yet inflated.
        self._compressed = b""

    def read(self, n: int) -> bytes:
        """Returns up to `n` bytes, at least one unless the file is at its end."""
        while True:
            self._compressed = self._compressed or self._file.read(_READ_BYTES)
            if not self._compressed:
                return b""
            if self._inflate.eof:
                self._inflate = zlib.decompressobj(self._window_bits)
            try:
                data = self._inflate.decompress(self._compressed, n)
            except zlib.error as error:
                raise errors.DataLossError(
                    None,
                    None,
                    f"file '{self._file.name!s}' is damaged or not compressed in the way that "
                    f"was said: inflate() failed: {error}",
                ) from error
            self._compressed = self._inflate.unconsumed_tail or self._inflate.unused_data
            if data:
                return data

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def open_inflated(path: Any, compression: str) -> Any:
    """A file to `read` (and `close`) as what it contains, whether it is compressed or not.

    Args:
      path: Path or URL.
      compression: "", "ZLIB" or "GZIP".

    Raises:
      NotFoundError: There is no such file.
    """
    file = gfile.GFile(path, "rb")
    file.read(0)  # opens it: a file that is not there is an error here
    return _InflatingFile(file, compression) if compression else file


class RecordReader:
    """Reads the records of a file one after the other.

    Args:
      path: Path or URL.
      compression: "", "ZLIB" or "GZIP".

    Raises:
      NotFoundError: There is no such file.
    """

    def __init__(self, path: Any, compression: str = "") -> None:
        self._path = path
        self._source = open_inflated(path, compression)
        # `_buffer[_position:]` was read from the source and not yet returned.
        self._buffer = b""
        self._position = 0
        # Where the next record begins, in bytes before compression.
        self._offset = 0

    @property
    def offset(self) -> int:
        """Where the next record begins, in bytes before compression."""
        return self._offset

    def _fill(self, count: int) -> int:
        """Reads on until `count` bytes are in the buffer; returns how many there are."""
        parts = [self._buffer[self._position :]]
        available = len(parts[0])
        while available < count:
            # A length may be damaged: room is made for what is there.
            part = self._source.read(min(max(count - available, _READ_BYTES), _MOST_BYTES))
            if not part:
                break
            parts.append(part)
            available += len(part)
        self._buffer, self._position = b"".join(parts), 0
        return available

    def read(self) -> bytes | None:
        """Returns the next record, or None after the last.

        Raises:
          DataLossError: The file is cut off or damaged here.
        """
        available = len(self._buffer) - self._position
        if available < _HEADER.size:
            available = self._fill(_HEADER.size)
            if not available:
                return None
            if available < _HEADER.size:
                raise self._damage("truncated", f"its header has {available} of 12 bytes")
        start = self._position
        length, length_checksum = _HEADER.unpack_from(self._buffer, start)
        if masked_crc32c(self._buffer[start : start + _LENGTH.size]) != length_checksum:
            raise self._damage(
                "corrupted", "the checksum of its length is wrong; is this even a TFRecord file?"
            )
        size = _HEADER.size + length + _CHECKSUM.size
        if available < size:
            self._check_length(size)
            available = self._fill(size)
            start = 0
            if available < size:
                raise self._damage("truncated", f"it has {available} of {size} bytes")
        data_end = start + _HEADER.size + length
        data = self._buffer[start + _HEADER.size : data_end]
        if masked_crc32c(data) != _CHECKSUM.unpack_from(self._buffer, data_end)[0]:
            raise self._damage("corrupted", "the checksum of its data is wrong")
        self._position = start + size
        self._offset += size
        return data

    def _check_length(self, size: int) -> None:
        """Checks a record's length against the bytes of the file, or else of the memory."""
        if isinstance(self._source, _InflatingFile):
            if size > limits.MEMORY_BYTES.value:
                raise self._damage("corrupted", f"no memory holds its {size} bytes")
        elif self._offset + size > (length := self._source.size()):
            raise self._damage("truncated", f"it has {length - self._offset} of {size} bytes")

    def read_many(self, count: int) -> list[bytes]:
        """Returns up to `count` records; fewer than that at the end, or before a damaged one.

        Raises:
          DataLossError: The very next record is cut off or damaged.
        """
        found: list[bytes] = []
        buffer, position, end = self._buffer, self._position, len(self._buffer)
        unpack, checksum_at, crc = _HEADER.unpack_from, _CHECKSUM.unpack_from, google_crc32c.value
        while len(found) < count:
            # The quick way, for records that are whole in the buffer; `read` does the rest.
            start = position + 12
            if start <= end:
                length, length_checksum = unpack(buffer, position)
                stop = start + length
                if stop + 4 <= end and _checksum_of_length(length) == length_checksum:
                    data = buffer[start:stop]
                    value = crc(data)
                    if ((value >> 15 | value << 17) + _MASK_DELTA) & 0xFFFFFFFF == checksum_at(
                        buffer, stop
                    )[0]:
                        found.append(data)
                        position = stop + 4
                        continue
            self._offset += position - self._position
            self._position = position
            try:
                record = self.read()
            except errors.DataLossError:
                if not found:
                    raise
                return found
            if record is None:
                return found
            found.append(record)
            buffer, position, end = self._buffer, self._position, len(self._buffer)
        self._offset += position - self._position
        self._position = position
        return found

    def _damage(self, kind: str, reason: str) -> errors.DataLossError:
        return errors.DataLossError(
            None, None, f"{kind} record at {self._offset} in file '{self._path}': {reason}"
        )

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        record = self.read()
        if record is None:
            self.close()
            raise StopIteration
        return record

    def close(self) -> None:
        """Closes the file."""
        self._source.close()

    def __enter__(self) -> RecordReader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """Returns an iterator over the records of a file.

    Args:
      path: Path or URL.
      options: TFRecordOptions, if the file is compressed.

    Raises:
      NotFoundError: There is no such file.
      DataLossError: While iterating, at a place where the file is cut off or damaged.
    """
    return RecordReader(path, TFRecordOptions.get_compression_type_string(options))


class TFRecordWriter:
    """Writes records to a file, which is replaced if it exists.

    Args:
      path: Path or URL.
      options: TFRecordOptions or the name of a compression.

    Raises:
      NotFoundError: There is no directory for the file.
    """

    def __init__(self, path: Any, options: Any = None) -> None:
        if not isinstance(options, TFRecordOptions):
            options = TFRecordOptions(options)
        compression = TFRecordOptions.get_compression_type_string(options)
        self._compressor: Any = None
        if compression:
            self._compressor = zlib.compressobj(
                level=_given(options.compression_level, zlib.Z_DEFAULT_COMPRESSION),
                wbits=_zlib_window_bits(compression, options.window_bits),
                memLevel=_given(options.mem_level, zlib.DEF_MEM_LEVEL),
                strategy=_given(options.compression_strategy, zlib.Z_DEFAULT_STRATEGY),
            )
        # None once closed.
        self._file: gfile.GFile | None = gfile.GFile(path, "wb")
        self._file.write(b"")  # opens it: a path that cannot be written is an error here

    def _open_file(self) -> gfile.GFile:
        if self._file is None:
            raise errors.FailedPreconditionError(None, None, "Writer is closed.")
        return self._file

    def write(self, record: bytes | str) -> None:
        """Writes one record; text is written as UTF-8."""
        file = self._open_file()
        if isinstance(record, str):
            record = record.encode("utf-8")
        elif not isinstance(record, bytes):
            raise TypeError(f"a record is bytes, got {type(record).__name__}: {record!r}")
        length = _LENGTH.pack(len(record))
        data = b"".join(
            (
                length,
                _CHECKSUM.pack(masked_crc32c(length)),
                record,
                _CHECKSUM.pack(masked_crc32c(record)),
            )
        )
        file.write(data if self._compressor is None else self._compressor.compress(data))

    def flush(self) -> None:
        """Makes all records written so far readable by others."""
        file = self._open_file()
        if self._compressor is not None:
            file.write(self._compressor.flush(zlib.Z_SYNC_FLUSH))
        file.flush()

    def close(self) -> None:
        """Closes the file; closing it again does nothing."""
        if self._file is None:
            return
        file, self._file = self._file, None
        if self._compressor is not None:
            file.write(self._compressor.flush())
        file.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _given(value: int | None, default: int) -> int:
    return default if value is None else value
