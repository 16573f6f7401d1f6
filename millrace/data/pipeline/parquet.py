"""Datasets of Parquet files: a component for each column, read by pyarrow a row group at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from millrace.core import dtypes, errors
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape
from millrace.data.pipeline.dataset import Context, Dataset, PullIterator, State
from millrace.data.pipeline.element import Element, Table, numpy_type
from millrace.platform import gfile, lazy_import
from millrace.platform.filesystems import resolve

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet as pq
else:
    pyarrow = lazy_import.module("pyarrow")
    pq = lazy_import.module("pyarrow.parquet")

_BATCH_ROWS = 16384


def needs_pyarrow(error: ImportError) -> ImportError:
    """What to say where pyarrow is missing."""
    return ImportError(
        "Parquet files are read by pyarrow, which is not installed: pip install "
        f"'millrace-tf[parquet]' ({error})"
    )


def open_file(path: str) -> Any:
    """An open Parquet file.

    Raises:
      NotFoundError: There is no such file.
      DataLossError: It is none.
    """
    with gfile.tensorflow_errors(path):
        system, name = resolve(path)
        file = system.open_for_reading(name)
    try:
        return pq.ParquetFile(file)
    except ImportError as error:
        raise needs_pyarrow(error) from None
    except (pyarrow.ArrowInvalid, OSError) as error:
        file.close()
        raise errors.DataLossError(
            None, None, f"file '{path}' is damaged or no Parquet file: {error}"
        ) from None


def schema_of(path: str) -> dict[str, tuple[DType, TensorShape]]:
    """The type and shape of an element's component for each column of a file."""
    file = open_file(path)
    try:
        return {field.name: _component_of(field) for field in file.schema_arrow}
    finally:
        file.close()


def _component_of(field: Any) -> tuple[DType, TensorShape]:
    kind = field.type
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
        return _type_of(kind.value_type, field.name), TensorShape([None])
    if pyarrow.types.is_fixed_size_list(kind):
        return _type_of(kind.value_type, field.name), TensorShape([kind.list_size])
    return _type_of(kind, field.name), TensorShape([])


def _type_of(kind: Any, name: str) -> DType:
    is_kind = pyarrow.types
    if (
        is_kind.is_string(kind)
        or is_kind.is_large_string(kind)
        or is_kind.is_binary(kind)
        or is_kind.is_large_binary(kind)
        or is_kind.is_dictionary(kind)
    ):
        return dtypes.string
    try:
        return dtypes.as_dtype(kind.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        raise errors.UnimplementedError(
            None, None, f"Column {name!r} has type {kind}, which is not a tensor's"
        ) from None


class ParquetFiles(Dataset):
    """The rows of Parquet files, one file after the other."""

    def __init__(
        self,
        paths: Sequence[str],
        columns: Sequence[str],
        types: Sequence[DType],
        shapes: Sequence[TensorShape],
    ) -> None:
        super().__init__(types, shapes)
        self.paths, self.columns = list(paths), list(columns)

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _ParquetIterator(self, context)


class _ParquetIterator(PullIterator):
    """Invariant: rows from `_position` on of `_table` come next, then the file goes on."""

    def __init__(self, dataset: ParquetFiles, context: Context) -> None:
        super().__init__(context)
        self._dataset = dataset
        self._index = 0
        self._file: Any = None
        self._batches: Any = None
        self._table: Table | None = None
        self._position = 0
        self._given = 0

    def take(self, count: int) -> list[Element]:
        dataset = self._dataset
        while self._table is None or self._position >= self._table.count:
            self._table = None
            if self._index >= len(dataset.paths):
                return []
            path = dataset.paths[self._index]
            try:
                if self._file is None:
                    self._open(path)
                batch = next(self._batches, None)
                if batch is not None:
                    self._table, self._position = self._converted(batch, path), 0
            except errors.OpError:
                self._following_file()
                raise
            except (pyarrow.ArrowInvalid, OSError) as error:
                given = self._given
                self._following_file()
                raise errors.DataLossError(
                    None, None, f"file '{path}' is damaged behind row {given}: {error}"
                ) from None
            if batch is None:
                self._following_file()
        start = self._position
        self._position = stop = min(start + count, self._table.count)
        self._given += stop - start
        return list[Element](self._table.rows(start, stop))

    def _open(self, path: str) -> None:
        self._file = open_file(path)
        there = set(self._file.schema_arrow.names)
        missing = [name for name in self._dataset.columns if name not in there]
        if missing:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"file '{path}' has no column {missing[0]!r}; it has {sorted(there)}",
            )
        self._batches = self._file.iter_batches(
            batch_size=_BATCH_ROWS, columns=self._dataset.columns
        )

    def _converted(self, batch: Any, path: str) -> Table:
        columns = []
        for name, dtype, shape in zip(
            self._dataset.columns, self._dataset.types, self._dataset.shapes, strict=True
        ):
            array = batch.column(name)
            if array.null_count:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"file '{path}' has {array.null_count} missing values in column {name!r} "
                    f"behind row {self._given}: a tensor has none",
                )
            columns.append(_as_column(array, dtype, shape))
        return Table(columns)

    def _following_file(self) -> None:
        self.close()
        self._index += 1
        self._given = 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._batches = None

    def save(self) -> State:
        return {"index": self._index, "given": self._given}

    def restore(self, state: State) -> None:
        self.close()
        self._index, self._given, self._table = int(state["index"]), 0, None
        while self._given < int(state["given"]):
            if not self.take(int(state["given"]) - self._given):
                break


def _as_column(array: Any, dtype: DType, shape: TensorShape) -> Any:
    kind = numpy_type(dtype)
    if shape.ndims == 0:
        if dtype == dtypes.string:
            return _texts(array)
        return np.ascontiguousarray(array.to_numpy(zero_copy_only=False)).astype(kind, copy=False)
    flat = array.flatten()
    values = _texts(flat) if dtype == dtypes.string else flat.to_numpy(zero_copy_only=False)
    values = values.astype(kind, copy=False)
    if shape.is_fully_defined():
        return values.reshape(len(array), *shape.as_list())
    bounds = np.asarray(array.offsets) - array.offsets[0].as_py()
    column = np.empty(len(array), object)
    for i in range(len(array)):
        column[i] = values[bounds[i] : bounds[i + 1]]
    return column


def _texts(array: Any) -> Any:
    if pyarrow.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not (pyarrow.types.is_binary(array.type) or pyarrow.types.is_large_binary(array.type)):
        array = array.cast(pyarrow.binary())
    column = np.empty(len(array), object)
    column[:] = array.to_pylist()
    return column
