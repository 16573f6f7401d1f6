"""Files as tensors: readers, `read_file`, `write_file`, `matching_files`."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, scalar
from millrace.data.tfrecord import TFRecordOptions
from millrace.graph.define import Op, op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, vector_of_unknown
from millrace.graph.tensor import Tensor
from millrace.ops.data_flow import queue_kernels
from millrace.ops.io import reader_kernels
from millrace.platform import gfile

__all__ = [
    "FixedLengthRecordReader",
    "IdentityReader",
    "ReaderBase",
    "TFRecordReader",
    "TextLineReader",
    "WholeFileReader",
    "matching_files",
    "read_file",
    "write_file",
]


# -- Whole files -------------------------------------------------------------------------


def _contents_shape(c: ShapeContext) -> TensorShape:
    if c.shape("filename").ndims not in (None, 0):
        raise ValueError(f"Shape must be rank 0 but is rank {c.shape('filename').ndims}")
    return scalar()


def _file_name(filename: Any, what: str) -> str:
    if filename.ndim:
        sizes = ",".join(str(size) for size in filename.shape)
        raise ValueError(f"{what} tensor must be scalar, but had shape: [{sizes}]")
    name: bytes = filename.item()
    return name.decode()


@op(
    "ReadFile(filename: string) -> contents: string",
    shape=_contents_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def ReadFile(filename: Any) -> Any:
    """The content of a file."""
    with gfile.GFile(_file_name(filename, "Input filename"), "rb") as file:
        return np.array(file.read(), object)


def read_file(filename: Any, name: str | None = None) -> Tensor:
    """The content of a file, as a string."""
    return ReadFile(filename, name=name)


def _write_shape(c: ShapeContext) -> list[TensorShape]:
    for which in ("filename", "contents"):
        if c.shape(which).ndims not in (None, 0):
            raise ValueError(f"Shape must be rank 0 but is rank {c.shape(which).ndims}")
    return []


@op(
    "WriteFile(filename: string, contents: string)",
    shape=_write_shape,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def WriteFile(filename: Any, contents: Any) -> None:
    """Writes a file, and makes the folder that it is in."""
    name = _file_name(filename, "Input filename")
    folder = os.path.dirname(name)
    if folder and not gfile.isdir(folder):
        gfile.makedirs(folder)
    with gfile.GFile(name, "wb") as file:
        file.write(contents.item())


def write_file(filename: Any, contents: Any, name: str | None = None) -> Operation:
    """An operation that writes `contents` to a file, whose folder it makes if need be."""
    result: Operation = WriteFile(filename, contents, name=name)
    return result


@op(
    "MatchingFiles(pattern: string) -> filenames: string",
    shape=vector_of_unknown,
    gradient=NO_GRADIENT,
    host=True,
)
def MatchingFiles(pattern: Any) -> Any:
    """The files that match patterns, sorted."""
    names = {name for each in pattern.ravel() for name in gfile.glob(each.decode())}
    found = np.empty(len(names), object)
    found[:] = [name.encode() for name in sorted(names)]
    return found


def matching_files(pattern: Any, name: str | None = None) -> Tensor:
    """The names of files that match a pattern, or one of several, sorted.

    A pattern may have ``*``, ``?`` and ``[...]`` in its last part.
    """
    return MatchingFiles(pattern, name=name)


# -- Readers -----------------------------------------------------------------------------


def _queue_handle(queue: Any) -> Tensor:
    return queue if isinstance(queue, Tensor) else queue.queue_ref


class ReadRecord(NamedTuple):
    """What `ReaderBase.read` returns."""

    key: Tensor
    value: Tensor


class ReadRecords(NamedTuple):
    """What `ReaderBase.read_up_to` returns."""

    keys: Tensor
    values: Tensor


class ReaderBase:
    """Gives the records of files whose names come from a queue."""

    def __init__(self, reader_ref: Tensor, supports_serialize: bool = False) -> None:
        """Makes an object for an existing handle.

        Args:
          reader_ref: The handle.
          supports_serialize: Whether its state can be saved.
        """
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    @property
    def reader_ref(self) -> Tensor:
        """The handle."""
        return self._reader_ref

    @property
    def supports_serialize(self) -> bool:
        """Whether its state can be saved."""
        return self._supports_serialize

    def _build(self, op_types: str, *inputs: Any, **keywords: Any) -> Any:
        """A node of the op type for this reader's kind of handle."""
        is_resource = self._reader_ref.dtype == dtypes.resource
        build: Op = getattr(reader_kernels, f"{op_types}V2" if is_resource else op_types)
        return build(self._reader_ref, *inputs, **keywords)

    def _queue(self, queue: Any) -> Tensor:
        handle = _queue_handle(queue)
        if self._reader_ref.dtype == dtypes.resource or handle.dtype != dtypes.resource:
            return handle
        return queue_kernels.FakeQueue(handle)

    def read(self, queue: Any, name: str | None = None) -> Any:
        """(key, value) of the next record; when a file ends, its follower comes from `queue`.

        It fails with OutOfRangeError when the queue is closed and empty.

        Args:
          queue: A queue of file names, or its handle.
          name: A name for the operation.
        """
        return ReadRecord(*self._build("ReaderRead", self._queue(queue), name=name))

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> Any:
        """(keys, values) of up to `num_records` records of one file."""
        records = self._build("ReaderReadUpTo", self._queue(queue), num_records, name=name)
        return ReadRecords(*records)

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """How many records it has given."""
        return self._build("ReaderNumRecordsProduced", name=name)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """How many files it has finished."""
        return self._build("ReaderNumWorkUnitsCompleted", name=name)

    def serialize_state(self, name: str | None = None) -> Tensor:
        """Its state as a string; not every reader can."""
        return self._build("ReaderSerializeState", name=name)

    def restore_state(self, state: Any, name: str | None = None) -> Operation:
        """An operation that goes back to a state that `serialize_state` gave."""
        restored: Operation = self._build("ReaderRestoreState", state, name=name)
        return restored

    def reset(self, name: str | None = None) -> Operation:
        """An operation that starts from the beginning."""
        result: Operation = self._build("ReaderReset", name=name)
        return result


class WholeFileReader(ReaderBase):
    """A record is a file: key is its name, value its content."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(reader_kernels.WholeFileReaderV2(name=name), supports_serialize=True)


class IdentityReader(ReaderBase):
    """A record is what comes from the queue, as key and value."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(reader_kernels.IdentityReaderV2(name=name), supports_serialize=True)


class TextLineReader(ReaderBase):
    """A record is a line of a text file, without its end."""

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        """Makes the reader; it skips `skip_header_lines` lines of every file."""
        super().__init__(
            reader_kernels.TextLineReaderV2(skip_header_lines=skip_header_lines, name=name)
        )


class FixedLengthRecordReader(ReaderBase):
    """Records have a fixed length in bytes."""

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        name: str | None = None,
        encoding: str | None = None,
    ) -> None:
        """Makes the reader.

        Args:
          record_bytes: The length of a record.
          header_bytes: How much to skip at the start of every file.
          footer_bytes: How much to leave at its end.
          hop_bytes: From the start of a record to that of the next; its length by default.
          name: A name for the operation.
          encoding: "ZLIB" or "GZIP" for compressed files.
        """
        super().__init__(
            reader_kernels.FixedLengthRecordReaderV2(
                record_bytes=record_bytes,
                header_bytes=header_bytes,
                footer_bytes=footer_bytes,
                hop_bytes=hop_bytes,
                encoding=encoding,
                name=name,
            )
        )


class TFRecordReader(ReaderBase):
    """Records of TFRecord files."""

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        """Makes the reader; `options` (TFRecordOptions) say how files are compressed."""
        compression = TFRecordOptions.get_compression_type_string(options)
        super().__init__(reader_kernels.TFRecordReaderV2(compression_type=compression, name=name))
