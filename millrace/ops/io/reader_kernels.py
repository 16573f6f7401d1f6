"""The op types of readers: records of files whose names come from a queue.

A reader works on one file at a time, and serves one read at a time; reads that come meanwhile
wait their turn. When the file ends it asks the queue for the next name. If the queue has none,
the read is parked: no thread waits, and the step that enqueues the name reads the record.

Invariant: `_active` is the read whose turn it is; only it moves the reader forward.
"""

from __future__ import annotations

import io
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from millrace.core import dtypes, errors
from millrace.core.tensor_shape import TensorShape, scalar
from millrace.data.messages import declare
from millrace.data.tfrecord import RecordReader
from millrace.graph.define import Op, op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, none, scalars, vector_of_unknown
from millrace.ops.data_flow import shared_state
from millrace.ops.data_flow.handle_forms import both_forms
from millrace.ops.data_flow.queue_kernels import Queue
from millrace.platform import file_access, gfile, inflate, limits

#: (key, value) of a record.
Record = tuple[bytes, bytes]

#: What a reader's state is saved as.
ReaderBaseState = declare(
    "millrace/reader_base_state.proto",
    "tensorflow",
    {
        "ReaderBaseState": """
            int64 work_started = 1
            int64 work_finished = 2
            int64 num_records_produced = 3
            bytes current_work = 4
        """
    },
)["ReaderBaseState"]


# -- Formats -----------------------------------------------------------------------------


class Format(ABC):
    """How the records of one file are found."""

    @abstractmethod
    def open(self, name: str) -> None:
        """Starts on a file."""

    @abstractmethod
    def next(self) -> Record | None:
        """The next record, or None after the last."""

    def is_at_end(self) -> bool:
        """Whether it is known, without looking for it, that there is no further record."""
        return False

    def close(self) -> None:
        """Leaves the file."""
        return


class SingleRecordFormat(Format):
    """One record a name."""

    def __init__(self) -> None:
        self._name: str | None = None

    def open(self, name: str) -> None:
        """Starts on a name."""
        self._name = name

    def is_at_end(self) -> bool:
        """Whether the record was given."""
        return self._name is None


class WholeFileFormat(SingleRecordFormat):
    """One record: the file."""

    def next(self) -> Record | None:
        """The file's name and content, once."""
        name, self._name = self._name, None
        if name is None:
            return None
        with gfile.GFile(name, "rb") as file:
            return name.encode(), file.read()


class IdentityFormat(SingleRecordFormat):
    """One record: the name itself."""

    def next(self) -> Record | None:
        """The name as key and value, once."""
        name, self._name = self._name, None
        return None if name is None else (name.encode(), name.encode())


class TextLineFormat(Format):
    """A record a line, without its end."""

    def __init__(self, skip_header_lines: int) -> None:
        self._skip = skip_header_lines
        self._file: Any = None
        self._name = ""
        self._line = 0

    def open(self, name: str) -> None:
        """Starts on a file, behind its header."""
        self._file = gfile.GFile(name, "rb")
        self._name, self._line = name, 0
        self._file.read(0)  # opens it: a file that is not there is an error here
        for _ in range(self._skip):
            if not self._file.readline():
                break
            self._line += 1

    def next(self) -> Record | None:
        """The next line; its key is file and line number."""
        line = self._file.readline()
        if not line:
            return None
        self._line += 1
        return f"{self._name}:{self._line}".encode(), line.rstrip(b"\n").replace(b"\r", b"")

    def close(self) -> None:
        """Leaves the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class TFRecordFormat(Format):
    """Records of a TFRecord file."""

    def __init__(self, compression: str) -> None:
        self._compression = compression
        self._reader: RecordReader | None = None
        self._name = ""

    def open(self, name: str) -> None:
        """Starts on a file."""
        self._reader = RecordReader(name, self._compression)
        self._name = name

    def next(self) -> Record | None:
        """The next record; its key is file and offset."""
        assert self._reader is not None
        offset = self._reader.offset
        record = self._reader.read()
        return None if record is None else (f"{self._name}:{offset}".encode(), record)

    def close(self) -> None:
        """Leaves the file."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class FixedLengthFormat(Format):
    """Records of one length, between a header and a footer."""

    def __init__(self, header: int, record: int, footer: int, hop: int, encoding: str) -> None:
        for name, value in (("header", header), ("footer", footer), ("hop", hop)):
            if value < 0:
                raise ValueError(f"{name}_bytes must be >= 0 but found {value}")
        if record <= 0:
            raise ValueError(f"record_bytes must be >= 1 but found {record}")
        if encoding not in ("", "ZLIB", "GZIP"):
            raise ValueError(f"Unsupported encoding: {encoding}")
        self._header, self._record, self._footer = header, record, footer
        self._hop = hop or record
        self._encoding = encoding
        self._file: BinaryIO | Any = None
        self._name = ""
        self._position = 0
        self._end = 0
        self._count = 0

    def open(self, name: str) -> None:
        """Starts on a file, behind its header."""
        self._name, self._count, self._position = name, 0, self._header
        if self._encoding:
            # Where the footer begins shows only after all has been inflated.
            with gfile.GFile(name, "rb") as file:
                self._file = io.BytesIO(_inflated(file.read(), self._encoding, name))
            size = len(self._file.getbuffer())
        else:
            self._file = gfile.GFile(name, "rb")
            size = self._file.size()
        self._end = size - self._footer
        self._file.seek(min(self._header, size))

    def next(self) -> Record | None:
        """The next record; its key is file and number."""
        if self._position + self._record > self._end:
            return None
        if self._hop != self._record and self._count:
            self._file.seek(self._position)
        value = self._file.read(self._record)
        key = f"{self._name}:{self._count}".encode()
        self._position += self._hop
        self._count += 1
        return key, value

    def close(self) -> None:
        """Leaves the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _inflated(data: bytes, encoding: str, name: str) -> bytes:
    window_bits = inflate.GZIP if encoding == "GZIP" else inflate.ZLIB
    try:
        return inflate.inflate(data, window_bits, limits.MEMORY_BYTES.value)
    except ValueError as error:
        raise errors.DataLossError(
            None, None, f"{name}: {error}. Is it compressed as {encoding}?"
        ) from None


# -- Readers -----------------------------------------------------------------------------


class _Read:
    """A read: of one record, or of several if `limit` is a number."""

    def __init__(self, ctx: Any, queue: Queue, limit: int | None) -> None:
        self.ctx = ctx
        self.queue = queue
        self.limit = limit
        self.records: list[Record] = []
        #: Set when the read cannot be answered at once.
        self.future: Any = None
        self.is_done = False
        self.error: Exception | None = None

    def settle(self, error: Exception | None = None) -> None:
        """Gives its outcome to the step that waits for it."""
        self.is_done, self.error = True, error
        if self.future is None:
            return
        if error is not None:
            self.future.set_error(error)
        else:
            self.future.set_result(self.outputs())

    def outputs(self) -> Any:
        """Keys and values, as the op returns them."""
        if self.limit is None:
            key, value = self.records[0]
            return np.array(key, object), np.array(value, object)
        arrays = np.empty(len(self.records), object), np.empty(len(self.records), object)
        for array, texts in zip(arrays, zip(*self.records, strict=True), strict=False):
            array[:] = texts
        return arrays

    def result(self) -> Any:
        """The outputs, or raises the error. Must be done."""
        if self.error is not None:
            raise self.error
        return self.outputs()


class Reader:
    """A reader of a task.

    Attributes:
      is_resumable: Whether its state can be saved (it holds no position within a file).
    """

    def __init__(self, kind: str, name: str, format: Format, is_resumable: bool) -> None:
        self._kind = kind
        self._name = name
        self._format = format
        self.is_resumable = is_resumable
        self._lock = threading.Lock()
        self._active: _Read | None = None
        self._waiting: deque[_Read] = deque()
        self._work = ""
        self._work_started = 0
        self._work_finished = 0
        self._records_produced = 0

    def read(self, ctx: Any, queue: Queue, limit: int | None = None) -> Any:
        """A record, or up to `limit` of one file: (key, value), or a Future of that."""
        if queue.types != [dtypes.string]:
            raise ValueError(
                f"A reader needs a queue of file names, one string an element; "
                f"{queue.kind} '{queue.name}' has {[t.name for t in queue.types]}"
            )
        read = _Read(ctx, queue, limit)
        if limit is not None and limit <= 0:
            return read.outputs()
        with self._lock:
            if self._active is not None:
                read.future = ctx.future(f"earlier reads of {self._kind} '{self._name}'")
                self._waiting.append(read)
            else:
                self._active = read
        if read.future is not None:
            token = ctx.cancellation.register(lambda: self._cancel(read))
            if token is None:
                self._cancel(read)
            else:
                read.future.add_callback(lambda _: ctx.cancellation.deregister(token))
            return read.future
        self._drive(read)
        return read.future if read.future is not None else read.result()

    def _cancel(self, read: _Read) -> None:
        with self._lock:
            if read not in self._waiting:
                return  # Its turn has come: it is at the queue, which cancels it there.
            self._waiting.remove(read)
        read.settle(errors.CancelledError(None, None, "Read operation was cancelled"))

    def _drive(self, read: _Read | None) -> None:
        """Serves reads until there are none, or one is parked at its queue."""
        while read is not None:
            try:
                # The read may go on in the thread that brought it a file's name.
                with file_access.confined(read.ctx.session.file_access):
                    if not self._advance(read):
                        return
            except Exception as error:
                outcome: Exception | None = error
            else:
                outcome = None
            with self._lock:
                following = self._active = self._waiting.popleft() if self._waiting else None
            read.settle(outcome)
            read = following

    def _advance(self, read: _Read) -> bool:
        """Reads what was asked for; False if the read was parked."""
        while True:
            with self._lock:
                if self._fill(read):
                    return True
            self._work = ""
            work = read.queue.dequeue(read.ctx)
            if hasattr(work, "add_callback"):
                if read.future is None:
                    read.future = read.ctx.future(work.waits_for)
                work.add_callback(lambda arrived: self._resume(read, arrived))
                return False
            self._start(work[0].item())

    def _resume(self, read: _Read, arrived: Any) -> None:
        try:
            with file_access.confined(read.ctx.session.file_access):
                self._start(arrived.result()[0].item())
        except Exception as error:
            with self._lock:
                following = self._active = self._waiting.popleft() if self._waiting else None
            read.settle(error)
            self._drive(following)
        else:
            self._drive(read)

    def _start(self, work: bytes) -> None:
        with self._lock:
            self._work = work.decode()
            self._work_started += 1
            try:
                self._format.open(self._work)
            except Exception:
                self._finish()
                raise

    def _fill(self, read: _Read) -> bool:
        """Takes records of the current file; whether the read has what it wants."""
        while self._work_finished < self._work_started:
            try:
                record = self._format.next()
            except Exception:
                # A damaged file is left: the next read goes on with the next one.
                self._finish()
                raise
            if record is None:
                self._finish()
                break
            read.records.append(record)
            self._records_produced += 1
            if self._format.is_at_end():
                self._finish()
            if len(read.records) == (read.limit or 1):
                return True
        return bool(read.records)

    def _finish(self) -> None:
        self._format.close()
        self._work_finished = self._work_started

    def counts(self) -> tuple[int, int]:
        """How many records were produced, and how many files finished."""
        with self._lock:
            return self._records_produced, self._work_finished

    def reset(self) -> None:
        """Starts from the beginning."""
        with self._lock:
            self._format.close()
            self._work_started = self._work_finished = self._records_produced = 0
            self._work = ""

    def serialize(self) -> bytes:
        """The state as bytes."""
        if not self.is_resumable:
            raise errors.UnimplementedError(None, None, "Reader SerializeState")
        with self._lock:
            state = ReaderBaseState(
                work_started=self._work_started,
                work_finished=self._work_finished,
                num_records_produced=self._records_produced,
                current_work=self._work.encode(),
            )
        return bytes(state.SerializeToString())

    def restore(self, data: bytes) -> None:
        """Goes back to a state that `serialize` gave."""
        if not self.is_resumable:
            raise errors.UnimplementedError(None, None, "Reader RestoreState")
        state = ReaderBaseState()
        try:
            state.ParseFromString(data)
            is_valid = (
                0 <= state.work_finished <= state.work_started and state.num_records_produced >= 0
            )
        except Exception:  # protobuf's DecodeError has no fixed place to be imported from
            is_valid = False
        if not is_valid:
            raise ValueError(
                f"Could not parse state for {self._kind} '{self._name}': "
                f"{data.decode(errors='replace')}"
            )
        with self._lock:
            self._work_started = state.work_started
            self._work_finished = state.work_finished
            self._records_produced = state.num_records_produced
            self._work = state.current_work.decode()
            if self._work_finished < self._work_started:
                self._format.open(self._work)

    def close(self) -> None:
        """Its container was cleared."""
        with self._lock:
            waiting, self._waiting = list(self._waiting), deque()
            self._format.close()
        for read in waiting:
            read.settle(errors.CancelledError(None, None, f"{self._kind} was removed."))


# -- Op types ----------------------------------------------------------------------------


def _make(ctx: Any, node: Any, create: Callable[[], Format], is_resumable: bool = False) -> Any:
    def make_handle() -> Any:
        handle = shared_state.name_of(ctx, node)
        kind = node.type.removesuffix("V2")
        shared_state.make(
            Reader, ctx, handle, lambda: Reader(kind, node.name, create(), is_resumable)
        )
        return shared_state.give_out(handle, node)

    return shared_state.once(ctx, node, make_handle)


def _whole_file_reader(*, ctx: Any, node: Any) -> Any:
    return _make(ctx, node, WholeFileFormat, is_resumable=True)


def _identity_reader(*, ctx: Any, node: Any) -> Any:
    return _make(ctx, node, IdentityFormat, is_resumable=True)


def _text_line_reader(*, skip_header_lines: int, ctx: Any, node: Any) -> Any:
    if skip_header_lines < 0:
        raise ValueError(f"skip_header_lines must be >= 0 not {skip_header_lines}")
    return _make(ctx, node, lambda: TextLineFormat(skip_header_lines))


def _tf_record_reader(*, compression_type: bytes, ctx: Any, node: Any) -> Any:
    return _make(ctx, node, lambda: TFRecordFormat(compression_type.decode()))


def _fixed_length_record_reader(
    *, header_bytes: int, record_bytes: int, footer_bytes: int, hop_bytes: int, ctx: Any, node: Any
) -> Any:
    encoding = node.attrs.get("encoding", b"").decode()
    return _make(
        ctx,
        node,
        lambda: FixedLengthFormat(header_bytes, record_bytes, footer_bytes, hop_bytes, encoding),
    )


def _handle_shape(c: ShapeContext) -> TensorShape:
    return TensorShape([2]) if c.op.outputs[0].dtype._is_ref_dtype else scalar()


_NAMED = 'container: string = ""; shared_name: string = ""'


def _maker(name: str, before: str, kernel: Callable[..., Any], after: str = "") -> Op:
    """Both forms of an op type that makes a reader; returns the new one."""
    for version, kind in (("", "ref(string)"), ("V2", "resource")):
        last = after
        if name == "FixedLengthRecordReader" and version:
            last = '; encoding: string = ""'
        definition = op(
            f"{name}{version}() -> reader_handle: {kind} where {before}{_NAMED}{last}",
            shape=_handle_shape,
            gradient=NO_GRADIENT,
            host=True,
            stateful=True,
        )(kernel)
    return definition


WholeFileReaderV2 = _maker("WholeFileReader", "", _whole_file_reader)
IdentityReaderV2 = _maker("IdentityReader", "", _identity_reader)
TextLineReaderV2 = _maker("TextLineReader", "skip_header_lines: int = 0; ", _text_line_reader)
TFRecordReaderV2 = _maker(
    "TFRecordReader", "", _tf_record_reader, '; compression_type: string = ""'
)
FixedLengthRecordReaderV2 = _maker(
    "FixedLengthRecordReader",
    "header_bytes: int = 0; record_bytes: int; footer_bytes: int = 0; hop_bytes: int = 0; ",
    _fixed_length_record_reader,
)


def _find(ctx: Any, handle: Any) -> Reader:
    return shared_state.find(Reader, ctx, handle)


def _read(reader_handle: Any, queue_handle: Any, *, ctx: Any) -> Any:
    return _find(ctx, reader_handle).read(ctx, shared_state.find(Queue, ctx, queue_handle))


def _read_up_to(reader_handle: Any, queue_handle: Any, num_records: Any, *, ctx: Any) -> Any:
    queue = shared_state.find(Queue, ctx, queue_handle)
    return _find(ctx, reader_handle).read(ctx, queue, int(num_records))


def _records_produced(reader_handle: Any, *, ctx: Any) -> Any:
    return _find(ctx, reader_handle).counts()[0]


def _work_units_completed(reader_handle: Any, *, ctx: Any) -> Any:
    return _find(ctx, reader_handle).counts()[1]


def _serialize_state(reader_handle: Any, *, ctx: Any) -> Any:
    return np.array(_find(ctx, reader_handle).serialize(), object)


def _restore_state(reader_handle: Any, state: Any, *, ctx: Any) -> None:
    if state.ndim:
        raise ValueError(
            f"Reader state must be scalar, but had shape: {shared_state.shape_text(state.shape)}"
        )
    _find(ctx, reader_handle).restore(state.item())


def _reset(reader_handle: Any, *, ctx: Any) -> None:
    _find(ctx, reader_handle).reset()


ReaderRead, ReaderReadV2 = both_forms(
    "ReaderRead",
    "reader_handle: HANDLE, queue_handle: HANDLE",
    " -> (key: string, value: string)",
    _read,
    scalars,
    blocking=True,
)
ReaderReadUpTo, ReaderReadUpToV2 = both_forms(
    "ReaderReadUpTo",
    "reader_handle: HANDLE, queue_handle: HANDLE, num_records: int64",
    " -> (keys: string, values: string)",
    _read_up_to,
    vector_of_unknown,
    blocking=True,
)
ReaderNumRecordsProduced, ReaderNumRecordsProducedV2 = both_forms(
    "ReaderNumRecordsProduced",
    "reader_handle: HANDLE",
    " -> records_produced: int64",
    _records_produced,
    scalars,
)
ReaderNumWorkUnitsCompleted, ReaderNumWorkUnitsCompletedV2 = both_forms(
    "ReaderNumWorkUnitsCompleted",
    "reader_handle: HANDLE",
    " -> units_completed: int64",
    _work_units_completed,
    scalars,
)
ReaderSerializeState, ReaderSerializeStateV2 = both_forms(
    "ReaderSerializeState", "reader_handle: HANDLE", " -> state: string", _serialize_state, scalars
)
ReaderRestoreState, ReaderRestoreStateV2 = both_forms(
    "ReaderRestoreState", "reader_handle: HANDLE, state: string", "", _restore_state, none
)
ReaderReset, ReaderResetV2 = both_forms("ReaderReset", "reader_handle: HANDLE", "", _reset, none)
