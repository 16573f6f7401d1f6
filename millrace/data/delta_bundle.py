"""Incremental checkpoints (*deltas*): what changed since a full one, their *base*.

A delta is a bundle (`data.tensor_bundle`). It has small tensors whole; of a table it has the rows
that differ from the base's, and their numbers in the whole tensor:

    _millrace/delta/base                  [name of the base, checksum of its index]
    _millrace/delta/rows/<part>/<name>    int64 [n]
    _millrace/delta/values/<part>/<name>  [n, …]

Every delta stands on a full checkpoint, never on another delta: a damaged or deleted one spoils no
other. Both are in one folder, which can be moved. The base is compared with what is to be saved,
not a record of what was updated: it does not matter who changed a row, and a base that cannot be
read is found while the model still lives.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

import google_crc32c
import numpy as np

from millrace.core import dtypes, errors
from millrace.core.dtypes import DType
from millrace.data import tensor_bundle
from millrace.data.tensor_bundle import (
    DELTA_BASE_KEY,
    BundleReader,
    BundleWriter,
    TensorInfo,
    index_name,
)
from millrace.data.tensor_slice import TensorSlice
from millrace.platform import gfile

_ROWS = "_millrace/delta/rows/"
_VALUES = "_millrace/delta/values/"
#: Smaller tensors are written whole: comparing them would spare nothing.
_MIN_TABLE_BYTES = 16 << 10


def index_checksum(prefix: str) -> int:
    """The checksum of a checkpoint's index, which has the checksums of all that it holds."""
    with gfile.GFile(index_name(prefix), "rb") as file:
        return int(google_crc32c.value(file.read()))


def data_bytes(prefix: str) -> int:
    """The size of a checkpoint's data files."""
    return sum(gfile.stat(name).length for name in gfile.glob(f"{prefix}.data-?????-of-?????"))


def base_of(prefix: str) -> str | None:
    """The checkpoint that a delta is based on; None for a full checkpoint, or one of format V1.

    Raises:
      OpError: The checkpoint cannot be read.
    """
    if not tensor_bundle.exists(prefix):
        return None
    with BundleReader(prefix) as reader:
        return _stated_base(reader, prefix)[0] if DELTA_BASE_KEY in reader else None


def _stated_base(reader: BundleReader, prefix: str) -> tuple[str, int]:
    """The base that a delta names, and the checksum of its index."""
    try:
        name, checksum = (text.decode() for text in reader.read(DELTA_BASE_KEY).tolist())
        if os.path.basename(name) != name:
            raise ValueError(name)
        return gfile.join(os.path.dirname(prefix), name), int(checksum)
    except (ValueError, TypeError, AttributeError):
        raise errors.DataLossError(
            None, None, f"{index_name(prefix)}: what it says of its base is damaged"
        ) from None


def open_bundle(prefix: str) -> BundleReader:
    """A reader of a full checkpoint or a delta; to be closed.

    Raises:
      NotFoundError: There is no such checkpoint.
      DataLossError: It is damaged, or its base is missing or was written over.
    """
    reader = BundleReader(prefix)
    if DELTA_BASE_KEY not in reader:
        return reader
    reader.close()
    return DeltaReader(prefix)


# -- Writing -------------------------------------------------------------------------------


class DeltaWriter:
    """Writes a delta: `add` for each tensor, then `finish` or `discard`.

    Args:
      prefix: Name of the delta.
      base: Name of a full checkpoint in the folder that the delta will be in.

    Raises:
      OpError: The base cannot be read.
    """

    def __init__(self, prefix: str, base: str) -> None:
        self._base = BundleReader(base)
        self._writer = BundleWriter(prefix)
        stated = [os.path.basename(base).encode(), str(index_checksum(base)).encode()]
        self._writer.add(DELTA_BASE_KEY, np.array(stated, object), dtypes.string)

    def add(
        self, name: str, shape: tuple[int, ...], part: TensorSlice, value: Any, dtype: DType
    ) -> None:
        """Writes what changed of a tensor, or of a part of one.

        Args:
          name: The tensor.
          shape: Its shape.
          part: Which part of it `value` is.
          value: The values.
          dtype: Its type.

        Raises:
          DataLossError: The base is damaged.
        """
        if not self._is_table(name, shape, part, dtype):
            self._writer.add_slice(name, shape, part, value, dtype)
            return
        content = np.ascontiguousarray(value)
        changed = self._changed_rows(name, part, content)
        first = part.ranges(shape)[0][0]
        key = f"{part}/{name}"
        self._writer.add(_ROWS + key, changed + first, dtypes.int64)
        self._writer.add(_VALUES + key, content[changed], dtype)

    def _is_table(self, name: str, shape: tuple[int, ...], part: TensorSlice, dtype: DType) -> bool:
        """Whether rows are written; the same for all parts of a tensor."""
        if len(shape) < 2 or dtype in (dtypes.string, dtypes.variant) or name not in self._base:
            return False
        if math.prod(shape) * np.dtype(dtype.as_numpy_dtype).itemsize < _MIN_TABLE_BYTES:
            return False
        has_whole_rows = part.ranges(shape)[1:] == TensorSlice.whole(len(shape)).ranges(shape)[1:]
        return has_whole_rows and self._base.info(name) == TensorInfo(dtype.base_dtype, shape)

    def _changed_rows(self, name: str, part: TensorSlice, value: Any) -> Any:
        found, first = [np.zeros(0, np.int64)], 0
        for old in self._base.rows(name, part):
            new = value[first : first + len(old)]
            found.append(np.flatnonzero((_words(old) != _words(new)).any(axis=1)) + first)
            first += len(old)
        return np.concatenate(found)

    def finish(self) -> None:
        """Puts the delta in place."""
        self._base.close()
        self._writer.finish()

    def discard(self) -> None:
        """Gives up; what was written is removed as far as that is possible."""
        self._base.close()
        self._writer.discard()


def _words(rows: Any) -> Any:
    """The bytes of each row, in words as large as fit: equal floats may be other bytes."""
    content = rows.reshape(len(rows), -1).view(np.uint8)
    size = math.gcd(content.shape[1], 8)
    return content.view(np.dtype(f"u{size}"))


# -- Reading -------------------------------------------------------------------------------


class DeltaReader(BundleReader):
    """Reads a delta as if it were a full checkpoint.

    Attributes:
      base: Name of the checkpoint that it is based on.

    Args:
      prefix: Name of the delta.

    Raises:
      NotFoundError: There is no such checkpoint.
      DataLossError: It is damaged, or its base is missing or was written over.
    """

    def __init__(self, prefix: str) -> None:
        super().__init__(prefix)
        #: The parts of each table of which there are rows.
        self._tables: dict[str, list[str]] = {}
        for key in super().names():
            if key.startswith(_ROWS):
                part, _, table = key.removeprefix(_ROWS).partition("/")
                self._tables.setdefault(table, []).append(part)
        name, checksum = _stated_base(self, prefix)
        if not tensor_bundle.exists(name):
            raise errors.DataLossError(
                None,
                None,
                f"{prefix} is incremental: it has what changed since {name}, which is missing. "
                "Copy the files of that checkpoint back to the folder, or restore another one.",
            )
        if index_checksum(name) != checksum:
            raise errors.DataLossError(
                None,
                None,
                f"{prefix} is incremental: it has what changed since {name}, which was written "
                f"over since then (the checksum of {index_name(name)} is another one). Copy that "
                "checkpoint's own files back to the folder, or restore another one.",
            )
        self.base = name
        self._base = BundleReader(name)

    def close(self) -> None:
        """Closes the files that are open."""
        super().close()
        self._base.close()

    def names(self) -> Iterator[str]:
        """The tensors, in order."""
        own = {key for key in super().names() if not key.startswith("_millrace/delta/")}
        return iter(sorted(own | self._tables.keys()))

    def __contains__(self, name: str) -> bool:
        return name in self._tables or super().__contains__(name)

    def info(self, name: str) -> TensorInfo:
        """Type and shape of a tensor; NotFoundError if there is none of this name."""
        return self._base.info(name) if name in self._tables else super().info(name)

    def parts(self, name: str) -> list[TensorSlice]:
        """The parts in which a tensor was saved; none if it was saved whole."""
        return self._base.parts(name) if name in self._tables else super().parts(name)

    def read(self, name: str) -> Any:
        """The value of a tensor."""
        if name not in self._tables:
            return super().read(name)
        value = self._base.read(name)
        self._put_rows(name, value, 0, ())
        return value

    def read_slice(self, name: str, part: TensorSlice) -> Any:
        """A part of a tensor; see `BundleReader.read_slice`."""
        if name not in self._tables:
            return super().read_slice(name, part)
        value = self._base.read_slice(name, part)
        first, *others = part.ranges(self.info(name).shape)
        self._put_rows(name, value, first[0], tuple(slice(*bounds) for bounds in others))
        return value

    def _put_rows(self, name: str, value: Any, first: int, columns: tuple[slice, ...]) -> None:
        """Replaces the rows that changed in those that begin with row `first`."""
        for part in self._tables[name]:
            rows = super().read(f"{_ROWS}{part}/{name}") - first
            values = super().read(f"{_VALUES}{part}/{name}")
            if len(rows) != len(values) or values.shape[1:] != self.info(name).shape[1:]:
                raise errors.DataLossError(
                    None,
                    None,
                    f"{index_name(self._prefix)}: the changed rows of {name} are damaged",
                )
            here = (rows >= 0) & (rows < len(value))
            value[rows[here]] = values[here][(slice(None), *columns)]


def compact(prefix: str) -> str | None:
    """Makes a full checkpoint of a delta, under the same name; until it is there, the delta is.

    Returns:
      The base that it needed; None if it is a full checkpoint already.

    Raises:
      OpError: There is no such checkpoint, it or its base cannot be read, or the full one cannot
        be written.
    """
    with open_bundle(prefix) as reader:
        if not isinstance(reader, DeltaReader):
            return None
        writer = BundleWriter(prefix)
        try:
            for name in reader.names():
                writer.add(name, reader.read(name), reader.info(name).dtype)
        except BaseException:
            writer.discard()
            raise
        writer.finish()
        return reader.base
