"""Columns of CSV text by pyarrow, where it is installed and reads the text as TensorFlow does.

Its parser is several times as fast as any loop of Python's, but has ways of its own: quotation
marks, carriage returns, numbers in base 16. Text with any of these, and text with an error in it,
is left to `csv_files`, which knows what TensorFlow makes of it.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.dtypes import DType
from millrace.data.pipeline.element import Table

_ARROW_TYPES = {
    dtypes.float32: "float32",
    dtypes.float64: "float64",
    dtypes.int32: "int32",
    dtypes.int64: "int64",
    dtypes.string: "binary",
}


@functools.cache
def _arrow() -> tuple[Any, Any] | None:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.csv")
    except ImportError:
        return None


class CsvColumns:
    """Reads blocks of text that have the same columns.

    Args:
      delimiter: What separates fields.
      quotes: Whether quotation marks have their meaning.
      na_value: A field that counts as missing, besides the empty one.
      columns: The columns that are wanted; None for all.
      types: Their types.
      defaults: For each what stands for a missing field; None where one must be there.
    """

    def __init__(
        self,
        delimiter: str,
        quotes: bool,
        na_value: str,
        columns: Sequence[int] | None,
        types: Sequence[DType],
        defaults: Sequence[Any],
    ) -> None:
        self._types, self._defaults = types, defaults
        self._unusual = [b"\r", b"\0", *([b'"'] if quotes else [])]
        if any(dtype in (dtypes.int32, dtypes.int64) for dtype in types):
            self._unusual += [b"0x", b"0X"]
        self._width = None if columns is not None else len(types)
        self._names = [f"f{i}" for i in (range(len(types)) if columns is None else columns)]
        self._can = all(dtype in _ARROW_TYPES for dtype in types) and delimiter.isascii()
        self._delimiter, self._missing = delimiter, sorted({"", na_value})

    @functools.cached_property
    def _options(self) -> dict[str, Any]:
        found = _arrow()
        assert found is not None
        arrow, csv = found
        kinds = {
            name: getattr(arrow, _ARROW_TYPES[dtype])()
            for name, dtype in zip(self._names, self._types, strict=True)
        }
        return {
            "read_options": csv.ReadOptions(
                use_threads=False, autogenerate_column_names=True, block_size=1 << 30
            ),
            "parse_options": csv.ParseOptions(delimiter=self._delimiter, quote_char=False),
            "convert_options": csv.ConvertOptions(
                check_utf8=False,
                column_types=kinds,
                include_columns=self._names,
                null_values=self._missing,
                strings_can_be_null=True,
            ),
        }

    def read(self, text: bytes) -> Table | None:
        """The rows of a few whole lines; None if somebody else is to look at them."""
        found = _arrow()
        if found is None or not self._can or any(mark in text for mark in self._unusual):
            return None
        arrow, csv = found
        if self._width is not None and self._width != 1 + text[: text.find(b"\n")].count(
            self._delimiter.encode()
        ):
            return None
        try:
            table = csv.read_csv(arrow.BufferReader(text), **self._options)
        except arrow.ArrowException:
            return None
        columns = []
        for column, dtype, default in zip(table.columns, self._types, self._defaults, strict=True):
            values = column.combine_chunks()
            if values.null_count:
                if default is None:
                    return None
                plain = default.item() if isinstance(default, np.generic) else default
                values = values.fill_null(arrow.scalar(plain, values.type))
            if dtype == dtypes.string:
                strings = np.empty(len(values), object)
                strings[:] = values.to_pylist()
                columns.append(strings)
            else:
                columns.append(values.to_numpy(zero_copy_only=False))
        return Table(columns) if len(table) else None
