"""Datasets of SQLite queries."""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from millrace.core import dtypes, errors
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape
from millrace.data.pipeline.dataset import (
    Context,
    Dataset,
    EndOfSequence,
    PullIterator,
    State,
)
from millrace.data.pipeline.element import Element, numpy_type
from millrace.platform import gfile, lazy_import

# A task that reads no database need not load it.
if TYPE_CHECKING:
    import sqlite3
else:
    sqlite3 = lazy_import.module("sqlite3")


class QueryRows(Dataset):
    """The rows that a query finds; a component for each column."""

    def __init__(
        self,
        driver: str,
        source: str,
        query: str,
        types: Sequence[DType],
        shapes: Sequence[TensorShape],
    ) -> None:
        super().__init__(types, shapes)
        if driver != "sqlite":
            raise ValueError(
                "tensorflow/core/kernels: The database type, "
                f"{driver}, is not supported by SqlDataset. The set of supported databases is: "
                "{'sqlite'}."
            )
        self.source, self.query = source, query

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _QueryIterator(self, context)


class _QueryIterator(PullIterator):
    def __init__(self, dataset: QueryRows, context: Context) -> None:
        super().__init__(context)
        self._dataset = dataset
        self._connection: sqlite3.Connection | None = None
        self._rows: Any = None
        self._count = 0

    def next(self) -> Element:
        dataset = self._dataset
        try:
            if self._rows is None:
                gfile.stat(dataset.source)  # says what is missing, and who may not look
                path = urllib.parse.quote(dataset.source)
                self._connection = sqlite3.connect(
                    f"file:{path}?mode=ro", uri=True, check_same_thread=False
                )
                self._connection.set_authorizer(_only_this_file)
                self._rows = self._connection.execute(dataset.query)
            row = self._rows.fetchone()
        except sqlite3.Error as error:
            raise errors.InvalidArgumentError(
                None, None, f"Query {dataset.query!r} on '{dataset.source}': {error}"
            ) from None
        if row is None:
            raise EndOfSequence
        if len(row) != len(dataset.types):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"The number of columns in query ({len(row)}) must match the number of elements "
                f"in output_types ({len(dataset.types)}).",
            )
        self._count += 1
        return tuple(_value(value, dtype) for value, dtype in zip(row, dataset.types, strict=True))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._rows = None

    def save(self) -> State:
        return {"count": self._count}

    def restore(self, state: State) -> None:
        self.close()
        self._count = 0
        for _ in range(int(state["count"])):
            self.next()


def _only_this_file(action: int, *details: Any) -> int:
    """What a query may do: anything but open another file."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK


def _value(value: Any, dtype: DType) -> Any:
    if dtype == dtypes.string:
        if value is None:
            return b""
        return value if isinstance(value, bytes) else str(value).encode()
    kind: Any = numpy_type(dtype)
    return kind(0 if value is None else value) if dtype != dtypes.bool else np.bool_(value)
