"""`make_csv_dataset`: CSV files with a header as batches of named columns."""

from __future__ import annotations

import csv
import io
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.dtypes import DType
from millrace.data.tfrecord import open_inflated
from millrace.ops.data.dataset import Dataset
from millrace.ops.data.readers import CsvDataset
from millrace.ops.data.record_files import shuffled_and_repeated
from millrace.platform import gfile

__all__ = ["make_csv_dataset"]

_INFERRED = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.string)


def make_csv_dataset(
    file_pattern: Any,
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[Any] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: Any = None,
    num_parallel_reads: int | None = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: str | None = None,
    ignore_errors: bool = False,
    encoding: str = "utf-8",
) -> Dataset:
    """Batches of the lines of CSV files: a dict of columns, beside the label if one is named.

    Args:
      file_pattern: A pattern of names, or a list of them.
      batch_size: How many lines make a batch.
      column_names: The names of the columns; of the first file's header if None.
      column_defaults: A type (the field must be there) or a default for each column that is
        wanted; found in the first lines if None.
      label_name: The column that is returned beside the others.
      select_columns: Names or numbers of the columns that are wanted.
      field_delim: What separates fields.
      use_quote_delim: Whether quotation marks have their meaning.
      na_value: A text that counts as a missing field.
      header: Whether files begin with a line of names.
      num_epochs: How many passes; without an end if None.
      shuffle: Whether lines are shuffled.
      shuffle_buffer_size: How many lines each is chosen from.
      shuffle_seed: Makes the order repeatable.
      prefetch_buffer_size: How many batches are made ahead.
      num_parallel_reads: How many files are read by turns.
      sloppy: Whether files need not take turns.
      num_rows_for_inference: How many lines types are found in; None for all.
      compression_type: "", "ZLIB" or "GZIP".
      ignore_errors: Whether lines that cannot be read are left out.
      encoding: Of the names in the header.

    Raises:
      ValueError: There is no file, or a name is not that of a column.
    """
    patterns = [file_pattern] if isinstance(file_pattern, str | bytes) else list(file_pattern)
    files = sorted({name for pattern in patterns for name in gfile.glob(pattern)})
    if not files:
        raise ValueError(f"No files match `file_pattern` {file_pattern}.")
    form = _Form(field_delim, use_quote_delim, compression_type or "", header, encoding)
    if column_names is None:
        if not header:
            raise ValueError("Expected `column_names` or `header` arguments. Neither is provided.")
        column_names = form.names(files)
    if len(column_names) != len(set(column_names)):
        raise ValueError("Cannot have duplicate column names.")
    chosen = _chosen(column_names, select_columns)
    if column_defaults is not None:
        defaults: list[Any] = list(column_defaults)
    else:
        defaults = list(form.inferred(files, len(column_names), na_value, num_rows_for_inference))
        defaults = [defaults[i] for i in chosen] if chosen is not None else defaults
    names = [column_names[i] for i in chosen] if chosen is not None else list(column_names)
    if len(defaults) != len(names):
        raise ValueError(
            f"Received {len(defaults)} defaults for {len(names)} columns: one is needed for each."
        )
    if label_name is not None and label_name not in names:
        raise ValueError("`label_name` provided must be one of the columns.")

    def lines(file: Any) -> Dataset:
        made: Dataset = CsvDataset(
            file,
            defaults,
            compression_type=compression_type,
            header=header,
            field_delim=field_delim,
            use_quote_delim=use_quote_delim,
            na_value=na_value,
            select_cols=chosen,
        )
        return made.ignore_errors() if ignore_errors else made

    reads = 1 if num_parallel_reads in (None, -1) else num_parallel_reads
    sources = Dataset.from_tensor_slices(files)
    if shuffle and len(files) > 1:
        sources = sources.shuffle(len(files), shuffle_seed)
    if reads == 1:
        dataset = sources.flat_map(lines)
    else:
        dataset = sources.interleave(
            lines, cycle_length=reads, num_parallel_calls=reads, deterministic=not sloppy
        )
    dataset = shuffled_and_repeated(dataset, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    # Batches first: naming columns costs the same for one line as for a thousand.
    dataset = dataset.batch(batch_size, drop_remainder=num_epochs is None)

    def named(*columns: Any) -> Any:
        found = OrderedDict(zip(names, columns, strict=True))
        if label_name is None:
            return found
        label = found.pop(label_name)
        return found, label

    dataset = dataset.map(named)
    return dataset.prefetch(-1 if prefetch_buffer_size is None else prefetch_buffer_size)


def _chosen(names: Sequence[str], wanted: Sequence[Any] | None) -> list[int] | None:
    if wanted is None:
        return None
    kinds = {type(each) for each in wanted}
    if kinds == {int}:
        chosen = sorted(wanted)
        if chosen and not 0 <= chosen[0] <= chosen[-1] < len(names):
            raise ValueError("Invalid `select_columns`: a number is out of range.")
    elif kinds <= {str}:
        missing = [each for each in wanted if each not in names]
        if missing:
            raise ValueError(f"Invalid `select_columns`: there is no column {missing[0]!r}.")
        chosen = sorted(list(names).index(each) for each in wanted)
    else:
        raise ValueError("`select_columns` must be names, or numbers.")
    if len(set(chosen)) != len(chosen):
        raise ValueError("`select_columns` must be unique.")
    return chosen


class _Form:
    """How files are written, for looking into them while the graph is built."""

    def __init__(
        self, delimiter: str, quotes: bool, compression: str, header: bool, encoding: str
    ) -> None:
        self._delimiter, self._compression, self._header = delimiter, compression, header
        self._quoting: Any = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
        self._encoding = encoding

    def _rows(self, path: str) -> Any:
        file = open_inflated(path, self._compression)
        try:
            parts = []
            while data := file.read(1 << 20):
                parts.append(data)
                if len(parts) >= 4:  # Names and types show in the first megabytes.
                    break
        finally:
            file.close()
        text = b"".join(parts).decode(self._encoding, errors="replace")
        return csv.reader(
            io.StringIO(text, newline=""), delimiter=self._delimiter, quoting=self._quoting
        )

    def names(self, files: Sequence[str]) -> list[str]:
        """The names in the headers, which must be the same in all files."""
        first: list[str] = next(self._rows(files[0]))
        for path in files[1:]:
            found = next(self._rows(path))
            if found != first:
                raise ValueError(
                    "All input CSV files should have the same column names in the header row. "
                    f"File {path} has different column names."
                )
        return first

    def inferred(
        self, files: Sequence[str], width: int, na_value: str, rows: int | None
    ) -> list[DType | Any]:
        """For each column the narrowest type that holds its first fields, with a default of 0."""
        ranks = [0] * width
        seen = 0
        for path in files:
            reader = self._rows(path)
            if self._header:
                next(reader, None)
            for row in reader:
                if rows is not None and seen >= rows:
                    break
                if len(row) != width:
                    raise ValueError(
                        f"Problem inferring types: CSV row {row} has {len(row)} number of fields. "
                        f"Expected: {width}."
                    )
                seen += 1
                for i, field in enumerate(row):
                    if field and field != na_value:
                        ranks[i] = max(ranks[i], _rank(field))
        return [_default_of(_INFERRED[rank]) for rank in ranks]


def _rank(field: str) -> int:
    """The place in `_INFERRED` of the narrowest type that holds a field."""
    try:
        number = int(field)
    except ValueError:
        pass
    else:
        if -(2**31) <= number < 2**31:
            return 0
        return 1 if -(2**63) <= number < 2**63 else 2
    try:
        value = float(field)
    except ValueError:
        return 4
    return 2 if np.isfinite(value) and abs(value) <= np.finfo(np.float32).max else 3


def _default_of(dtype: DType) -> Any:
    return [""] if dtype == dtypes.string else np.zeros(1, dtype.as_numpy_dtype)
