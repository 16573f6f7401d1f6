"""Datasets of files: lines of text, TFRecords, records of one length.

Files are read one after the other. A file that is missing or damaged is an error that names the
file and the record; a reader that goes on after it gets the next file.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from millrace.core import dtypes, errors
from millrace.core.tensor_shape import scalar
from millrace.data.pipeline.dataset import Context, Dataset, PullIterator, State
from millrace.data.pipeline.element import Element
from millrace.data.tfrecord import RecordReader, open_inflated
from millrace.platform import gfile

_READ_BYTES = 1 << 18


class RecordFile(abc.ABC):
    """One open file, as a sequence of byte strings."""

    @abc.abstractmethod
    def take(self, count: int) -> list[bytes]:
        """The next records; none at the end of the file."""

    @abc.abstractmethod
    def close(self) -> None:
        """Closes the file."""


class FileRecords(Dataset):
    """The records of files, one after the other."""

    def __init__(self, paths: Sequence[str], compression: str = "") -> None:
        super().__init__([dtypes.string], [scalar()])
        if compression not in ("", "GZIP", "ZLIB"):
            raise ValueError(f"Unsupported compression_type: {compression}.")
        self.paths = list(paths)
        self.compression = compression

    @abc.abstractmethod
    def open(self, path: str) -> RecordFile:
        """Opens one of the files."""

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _FilesIterator(self, context)


class _FilesIterator(PullIterator):
    """Invariant: `_file` is the one at `_index`, with `_record` records read; or None."""

    def __init__(self, dataset: FileRecords, context: Context) -> None:
        super().__init__(context)
        self._dataset = dataset
        self._index = 0
        self._record = 0
        self._file: RecordFile | None = None

    def take(self, count: int) -> list[Element]:
        paths = self._dataset.paths
        while self._index < len(paths):
            path = paths[self._index]
            try:
                if self._file is None:
                    self._file = self._dataset.open(path)
                records = self._file.take(count)
            except errors.OpError as error:
                record = self._record
                self._following_file()
                raise _with_record(error, path, record) from None
            if records:
                self._record += len(records)
                return list(zip(records, strict=True))
            self._following_file()
        return []

    def _following_file(self) -> None:
        self.close()
        self._index += 1
        self._record = 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def save(self) -> State:
        return {"index": self._index, "record": self._record}

    def restore(self, state: State) -> None:
        self.close()
        self._index, self._record = int(state["index"]), 0
        if state["record"]:
            self._file = self._dataset.open(self._dataset.paths[self._index])
            while self._record < state["record"]:
                skipped = len(self._file.take(int(state["record"]) - self._record))
                if not skipped:
                    raise errors.DataLossError(
                        None,
                        None,
                        f"file '{self._dataset.paths[self._index]}' has {self._record} records, "
                        f"but the iterator's state was saved after {state['record']}",
                    )
                self._record += skipped


def _with_record(error: errors.OpError, path: str, record: int) -> errors.OpError:
    if isinstance(error, errors.NotFoundError):
        return error
    kind: Any = type(error)
    message = error.message
    if path not in message:
        message = f"file '{path}': {message}"
    made: errors.OpError = kind(None, None, f"{message} (record {record} of the file)")
    return made


class TextLines(FileRecords):
    """The lines of text files, without their ends."""

    def open(self, path: str) -> RecordFile:
        """Opens a file."""
        return _LineFile(open_inflated(path, self.compression))


class _LineFile(RecordFile):
    def __init__(self, file: Any) -> None:
        self._file = file
        self._lines: list[bytes] = []
        self._next = 0
        self._rest = b""
        self._is_read = False

    def take(self, count: int) -> list[bytes]:
        while self._next >= len(self._lines) and not self._is_read:
            self._read()
        found = self._lines[self._next : self._next + count]
        self._next += len(found)
        return found

    def _read(self) -> None:
        data = self._file.read(_READ_BYTES)
        text = self._rest + data if self._rest else data
        if b"\r" in text:
            text = text.replace(b"\r", b"")  # wherever it stands, as TensorFlow does
        lines = text.split(b"\n")
        self._rest = lines.pop()
        if not data:
            self._is_read = True
            if self._rest:
                lines.append(self._rest)
        self._lines, self._next = lines, 0

    def close(self) -> None:
        self._file.close()


class TFRecords(FileRecords):
    """The records of TFRecord files."""

    def open(self, path: str) -> RecordFile:
        """Opens a file."""
        return _TFRecordFile(RecordReader(path, self.compression))


class _TFRecordFile(RecordFile):
    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader
        self.take = reader.read_many  # type: ignore[method-assign]

    def take(self, count: int) -> list[bytes]:
        return self._reader.read_many(count)

    def close(self) -> None:
        self._reader.close()


class FixedLengthRecords(FileRecords):
    """Records of one length, between a header and a footer."""

    def __init__(
        self,
        paths: Sequence[str],
        header_bytes: int,
        record_bytes: int,
        footer_bytes: int,
        compression: str = "",
    ) -> None:
        super().__init__(paths, compression)
        for name, value, least in (
            ("header_bytes", header_bytes, 0),
            ("record_bytes", record_bytes, 1),
            ("footer_bytes", footer_bytes, 0),
        ):
            if value < least:
                raise ValueError(f"`{name}` must be {'> 0' if least else '>= 0'}, got {value}")
        self.header_bytes, self.record_bytes = header_bytes, record_bytes
        self.footer_bytes = footer_bytes

    def open(self, path: str) -> RecordFile:
        """Opens a file."""
        return _FixedLengthFile(open_inflated(path, self.compression), path, self)


class _FixedLengthFile(RecordFile):
    """Invariant: `_buffer` is what was read behind the header and not given out."""

    def __init__(self, file: Any, path: str, dataset: FixedLengthRecords) -> None:
        self._file = file
        self._path = path
        self._dataset = dataset
        self._buffer = b""
        self._is_read = False
        if not dataset.compression:
            self._check_body(gfile.stat(path).length)
        header = b""
        while len(header) < dataset.header_bytes:
            data = file.read(dataset.header_bytes - len(header))
            if not data:
                break
            header += data

    def take(self, count: int) -> list[bytes]:
        size, footer = self._dataset.record_bytes, self._dataset.footer_bytes
        wanted = count * size + footer
        parts, available = [self._buffer], len(self._buffer)
        while available < wanted and not self._is_read:
            data = self._file.read(max(wanted - available, _READ_BYTES))
            self._is_read = not data
            parts.append(data)
            available += len(data)
        buffer = b"".join(parts)
        there = max(min((len(buffer) - footer) // size, count), 0)
        records = [buffer[i * size : (i + 1) * size] for i in range(there)]
        self._buffer = buffer[there * size :]
        if not records and self._dataset.compression:
            self._check_body(len(self._buffer) + self._dataset.header_bytes)
        return records

    def _check_body(self, total: int) -> None:
        dataset = self._dataset
        body = total - dataset.header_bytes - dataset.footer_bytes
        if body % dataset.record_bytes or body < 0:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Excluding the header ({dataset.header_bytes} bytes) and footer "
                f'({dataset.footer_bytes} bytes), input file "{self._path}" has body length '
                f"{body} bytes, which is not an exact multiple of the record length "
                f"({dataset.record_bytes} bytes).",
            )

    def close(self) -> None:
        self._file.close()
