"""Datasets of CSV files: a component for each column.

Blocks of lines go to `csv_columns` first. Others are split by Python's own CSV reader, and each
column is converted at once. Where that fails, the block is gone through line by line, so that an
error has its file, line and column, and the lines before it are not lost.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.core import dtypes, errors
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape
from millrace.data.pipeline.csv_columns import CsvColumns
from millrace.data.pipeline.dataset import Context, Dataset, PullIterator, State
from millrace.data.pipeline.element import Element, Row, Table, numpy_type
from millrace.data.tfrecord import open_inflated

_READ_BYTES = 1 << 18
_NUMBERS = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64)


class CsvOptions:
    """How the files are written.

    Args:
      header: Whether the first line of each file is skipped.
      delimiter: What separates fields.
      quotes: Whether quotation marks have their meaning.
      na_value: A field that counts as missing, besides the empty one.
      columns: The columns that are wanted, in order; None for all.
    """

    def __init__(
        self,
        header: bool,
        delimiter: str,
        quotes: bool,
        na_value: str,
        columns: Sequence[int] | None,
    ) -> None:
        if len(delimiter) != 1:
            raise ValueError("field_delim should be only one character")
        if columns is not None and any(b <= a for a, b in itertools.pairwise(columns)):
            raise ValueError("select_cols should be strictly increasing indices")
        if columns is not None and any(c < 0 for c in columns):
            raise ValueError("select_cols should be non-negative indices")
        self.header, self.delimiter, self.quotes = header, delimiter, quotes
        self.na_value, self.columns = na_value, columns


class CsvFiles(Dataset):
    """The lines of CSV files, one after the other."""

    def __init__(
        self,
        paths: Sequence[str],
        compression: str,
        options: CsvOptions,
        defaults: Sequence[Any],
        types: Sequence[DType],
        shapes: Sequence[TensorShape],
    ) -> None:
        super().__init__(types, shapes)
        if options.columns is not None and len(options.columns) != len(types):
            raise ValueError("select_cols should match output size")
        if compression not in ("", "GZIP", "ZLIB"):
            raise ValueError(f"Unsupported compression_type: {compression}.")
        self.paths, self.compression, self.options = list(paths), compression, options
        #: For each column what stands for a missing field; None where one must be there.
        self.defaults = [None if np.size(d) == 0 else np.ravel(d)[0] for d in defaults]
        self.quick = CsvColumns(
            options.delimiter,
            options.quotes,
            options.na_value,
            options.columns,
            self.types,
            self.defaults,
        )

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _CsvIterator(self, context)


class _CsvIterator(PullIterator):
    """Invariant: rows from `_position` on of `_table` come next, then the file goes on."""

    def __init__(self, dataset: CsvFiles, context: Context) -> None:
        super().__init__(context)
        self._dataset = dataset
        self._index = 0
        self._file: _CsvFile | None = None
        self._table: Table | None = None
        self._position = 0
        #: Rows of the current file that were given out.
        self._given = 0

    def take(self, count: int) -> list[Element]:
        held, self._held = self._held, None
        if held is not None:
            raise held
        paths = self._dataset.paths
        while self._table is None or self._position >= self._table.count:
            self._table = None
            if self._index >= len(paths):
                return []
            path = paths[self._index]
            try:
                if self._file is None:
                    self._file = _CsvFile(path, self._dataset)
                found, error = self._file.block()
            except errors.OpError:
                self._following_file()
                raise
            if found is not None:
                self._table, self._position = found, 0
                self._held = error
                continue
            if error is not None:
                raise error
            self._following_file()
        start = self._position
        held, self._held = self._held, None
        self._position = stop = min(start + count, self._table.count)
        self._given += stop - start
        if held is not None:
            self._held_after(held)
        return [Row(self._table, i) for i in range(start, stop)]

    def _held_after(self, error: Exception) -> None:
        """Keeps an error until the rows before it are given out."""
        assert self._table is not None
        if self._position >= self._table.count:
            self._held = error
        else:
            assert self._file is not None
            self._file.pending = error

    def _following_file(self) -> None:
        self.close()
        self._index += 1
        self._given = 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def save(self) -> State:
        return {"index": self._index, "given": self._given}

    def restore(self, state: State) -> None:
        self.close()
        self._index, self._given, self._table, self._held = int(state["index"]), 0, None, None
        while self._given < int(state["given"]):
            if not self.take(int(state["given"]) - self._given):
                break


class _CsvFile:
    """One open file.

    Attributes:
      pending: An error to raise before anything else is read.
    """

    def __init__(self, path: str, dataset: CsvFiles) -> None:
        self._path = path
        self._dataset = dataset
        self._file = open_inflated(path, dataset.compression)
        self._rest = b""
        self._line = 0
        self._is_read = False
        self._skips_header = dataset.options.header
        self.pending: Exception | None = None
        self._left: list[list[str]] = []

    def close(self) -> None:
        self._file.close()

    def block(self) -> tuple[Table | None, Exception | None]:
        """The next rows, and the error that comes behind them; (None, None) at the end."""
        pending, self.pending = self.pending, None
        if pending is not None:
            return None, pending
        while not self._left:
            if self._is_read:
                return None, None
            text = self._lines()
            table = self._dataset.quick.read(text) if text else None
            if table is not None:
                self._line += table.count
                return table, None
            self._left = self._records(text)
        rows, self._left = self._left, []
        return self._converted(rows)

    def _lines(self) -> bytes:
        """The next few lines, without the header."""
        data = self._file.read(_READ_BYTES)
        self._is_read = not data
        text: bytes = self._rest + data
        if self._is_read:
            self._rest = b""
        else:
            cut = _last_line_end(text, self._dataset.options.quotes)
            text, self._rest = text[:cut], text[cut:]
        if text and self._skips_header:
            self._skips_header = False
            text = text[len(text.splitlines(keepends=True)[0]) :]
        return text

    def _records(self, text: bytes) -> list[list[str]]:
        """The fields of a few lines."""
        if not text:
            return []
        options = self._dataset.options
        # Every byte is one character on the way through, whatever the encoding.
        stream = io.StringIO(text.decode("latin-1"), newline="")
        quoting: Any = csv.QUOTE_MINIMAL if options.quotes else csv.QUOTE_NONE
        try:
            return [
                row
                for row in csv.reader(
                    stream, delimiter=options.delimiter, quoting=quoting, strict=options.quotes
                )
                if row
            ]
        except csv.Error as error:
            raise errors.InvalidArgumentError(
                None, None, f"{error} in file '{self._path}' after line {self._line}"
            ) from None

    def _converted(self, rows: list[list[str]]) -> tuple[Table | None, Exception | None]:
        dataset = self._dataset
        width = len(rows[0])
        columns = dataset.options.columns
        whole = len(dataset.types)
        if all(len(row) == width for row in rows) and (
            width == whole if columns is None else width > (columns[-1] if columns else -1)
        ):
            by_column: Any = list(zip(*rows, strict=True))
            if columns is not None:
                by_column = [by_column[i] for i in columns]
            try:
                made = [self._column(i, fields) for i, fields in enumerate(by_column)]
            except (ValueError, OverflowError):
                pass
            else:
                self._line += len(rows)
                return Table(made), None
        return self._row_by_row(rows)

    def _column(self, i: int, fields: Sequence[str]) -> Any:
        dataset = self._dataset
        dtype, default, na_value = dataset.types[i], dataset.defaults[i], dataset.options.na_value
        missing = [k for k, field in enumerate(fields) if not field or field == na_value]
        if missing:
            if default is None:
                raise ValueError("missing")
            if dtype == dtypes.string:
                text = default.decode("latin-1") if isinstance(default, bytes) else str(default)
            else:
                text = repr(default.item())
            fields = list(fields)
            for k in missing:
                fields[k] = text
        if dtype == dtypes.string:
            column = np.empty(len(fields), object)
            column[:] = [field.encode("latin-1") for field in fields]
            return column
        kind = numpy_type(dtype)
        if dtype in (dtypes.float32, dtypes.float64):
            return np.array([float(field) for field in fields], kind)
        return np.array([int(field) for field in fields], kind)

    def _row_by_row(self, rows: list[list[str]]) -> tuple[Table | None, Exception | None]:
        """The rows before the first bad one, and its error."""
        dataset, options = self._dataset, self._dataset.options
        good: list[list[Any]] = []
        error: Exception | None = None
        for k, row in enumerate(rows):
            where = f"in file '{self._path}', line {self._line + k}"
            columns = options.columns
            if columns is None and len(row) != len(dataset.types):
                error = ValueError(
                    f"Expect {len(dataset.types)} fields but have {len(row)} in record {where}"
                )
                if len(row) > len(dataset.types):
                    error = ValueError(
                        f"Expect {len(dataset.types)} fields but have more in record {where}"
                    )
            elif columns and len(row) <= columns[-1]:
                error = ValueError(
                    f"Expect {len(dataset.types)} fields but have less in record {where}"
                )
            if error is None:
                fields = row if columns is None else [row[i] for i in columns]
                values = []
                for i, field in enumerate(fields):
                    try:
                        values.append(self._column(i, [field])[0])
                    except (ValueError, OverflowError):
                        name = {"float32": "float", "float64": "double"}.get(
                            dataset.types[i].name, dataset.types[i].name
                        )
                        error = ValueError(
                            f"Field {i} is required but missing in record {where}"
                            if not field or field == options.na_value
                            else f"Field {i} in record is not a valid {name}: {field} {where}"
                        )
                        break
            if error is not None:
                self._left = rows[k + 1 :]
                self._line += k + 1
                break
            good.append(values)
        else:
            self._line += len(rows)
        if not good:
            return None, error
        return Table([_as_column(c, t) for c, t in zip(
            zip(*good, strict=True), dataset.types, strict=True)]), error  # fmt: skip


def _as_column(values: Sequence[Any], dtype: DType) -> Any:
    column = np.empty(len(values), numpy_type(dtype))
    column[:] = values
    return column


def _last_line_end(text: bytes, quotes: bool) -> int:
    """Where the last whole line ends; 0 if there is none."""
    cut = text.rfind(b"\n") + 1
    if quotes and b'"' in text:
        # A line break between quotation marks ends no line.
        while cut and text.count(b'"', 0, cut) % 2:
            cut = text.rfind(b"\n", 0, cut - 1) + 1
    return cut
