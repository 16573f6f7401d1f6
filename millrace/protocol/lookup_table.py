"""Lookup tables: static ones, which are filled once, and mutable ones.

Keys are ints or bytes; a value is a Python scalar, bytes, or an array when values are tensors.
Arrays come in and go out; the dictionary in between knows nothing of their shapes.

Invariants: a static table answers nothing before it is filled, and never changes after; a table
with reserved keys never holds one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from millrace.core import errors
from millrace.protocol.replication.mirror import WHOLE, Event, Listener

Array = np.ndarray[Any, Any]
NumpyType: TypeAlias = np.dtype[Any]
#: A key or a value: a number, bytes, or an array of them.
Entry: TypeAlias = Any


class TableState:
    """What all tables share.

    Args:
      name: Its name, for errors.
      value_type: The NumPy type of values; object for strings.
      value_shape: The shape of one value.
    """

    def __init__(self, name: str, value_type: NumpyType, value_shape: tuple[int, ...] = ()) -> None:
        self.name = name
        self.value_type = value_type
        self.value_shape = value_shape
        self._entries: dict[Any, Any] = {}
        #: Is told of all that changes it, if another task follows.
        self.listener: Listener | None = None

    def _note(self, what: str) -> None:
        """Tells who follows that all entries are others."""
        if self.listener is not None:
            self.listener(None, self.as_event()._replace(what=what))

    def as_event(self) -> Event:
        """Its whole state."""
        return _pairs_event(WHOLE, list(self._entries.items()))

    def follow(self, event: Event) -> None:
        """The same has happened elsewhere."""
        what, _, values = event
        if what == "remove":
            for key in values[0].ravel().tolist():
                self._entries.pop(key, None)
            return
        if what == WHOLE:
            self._entries.clear()
        self._entries.update(_pairs_of(values))

    def serve_followed(self) -> None:
        """Others may use it: it is as it should be."""

    def __len__(self) -> int:
        return len(self._entries)

    def _check_key(self, key: Entry) -> None:
        """Raises ValueError if a key is reserved."""

    def find(self, keys: Array, default: Array) -> Array:
        """The values of keys; where there is none, the default, or its row for the key.

        Raises:
          ValueError: The default has another shape than a value, or than all values.
        """
        result = np.empty((keys.size, *self.value_shape), self.value_type)
        shape = (*keys.shape, *self.value_shape)
        if default.shape == self.value_shape:
            defaults: Any = None
            one_default = _stored(default)
        elif default.shape == shape:
            defaults = default.reshape(result.shape)
        else:
            raise ValueError(
                f"Expected shape {_text(self.value_shape)} or {_text(shape)} for default value, "
                f"got {_text(default.shape)}"
            )
        for i, key in enumerate(keys.ravel().tolist()):
            self._check_key(key)
            found = self._entries.get(key)
            if found is not None:
                result[i] = found
            else:
                result[i] = one_default if defaults is None else defaults[i]
        return result.reshape(shape)

    def pairs(self, keys: Array, values: Array) -> list[tuple[Entry, Entry]]:
        """(key, value) pairs of two arrays.

        Raises:
          ValueError: The values do not have the shape that the keys call for.
        """
        shape = (*keys.shape, *self.value_shape)
        if values.shape != shape:
            raise ValueError(f"Expected shape {_text(shape)} for value, got {_text(values.shape)}")
        flat = values.reshape(keys.size, *self.value_shape)
        rows: list[Any] = flat.tolist() if not self.value_shape else [row.copy() for row in flat]
        return list(zip(keys.ravel().tolist(), rows, strict=True))

    def export(self, key_type: NumpyType) -> tuple[Array, Array]:
        """All keys and all values."""
        keys = np.empty(len(self._entries), key_type)
        keys[:] = list(self._entries)
        values = np.empty((len(self._entries), *self.value_shape), self.value_type)
        for i, value in enumerate(self._entries.values()):
            values[i] = value
        return keys, values

    def fill(self, pairs: Sequence[tuple[Entry, Entry]]) -> None:
        """Initialises or restores the table."""
        raise NotImplementedError

    def insert(self, pairs: Sequence[tuple[Entry, Entry]]) -> None:
        """Adds entries, or replaces them."""
        raise NotImplementedError

    def remove(self, keys: Array) -> None:
        """Removes entries, where they are."""
        raise NotImplementedError


class StaticTable(TableState):
    """A table that is filled once."""

    def __init__(self, name: str, value_type: NumpyType) -> None:
        super().__init__(name, value_type)
        self.is_filled = False

    def find(self, keys: Array, default: Array) -> Array:
        """See `TableState.find`.

        Raises:
          FailedPreconditionError: The table has not been filled.
        """
        self._check_filled()
        return super().find(keys, default)

    def export(self, key_type: NumpyType) -> tuple[Array, Array]:
        """See `TableState.export`."""
        self._check_filled()
        return super().export(key_type)

    def _check_filled(self) -> None:
        if not self.is_filled:
            raise errors.FailedPreconditionError(
                None,
                None,
                "Table not initialized. Run tf.tables_initializer() first.",
            )

    def fill(self, pairs: Sequence[tuple[Entry, Entry]]) -> None:
        """Gives the table its entries; again only with the same ones.

        Raises:
          FailedPreconditionError: A key has two values, or the table has other entries already.
        """
        entries: dict[Any, Any] = {}
        for key, value in pairs:
            if entries.setdefault(key, value) != value:
                raise errors.FailedPreconditionError(
                    None,
                    None,
                    f"HashTable has different value for same key. Key {_shown(key)} has "
                    f"{_shown(entries[key])} and trying to add value {_shown(value)}",
                )
        if self.is_filled and entries != self._entries:
            raise errors.FailedPreconditionError(
                None, None, "Table was already initialized with different data."
            )
        self._entries, self.is_filled = entries, True
        self._note(WHOLE)

    def follow(self, event: Event) -> None:
        """See `TableState.follow`."""
        super().follow(event)
        self.is_filled = bool(event.words)

    def as_event(self) -> Event:
        """See `TableState.as_event`."""
        return super().as_event()._replace(words=self.is_filled)

    def insert(self, pairs: Sequence[tuple[Entry, Entry]]) -> None:
        """Not possible."""
        raise errors.UnimplementedError(
            None, None, "Insert not supported by InitializableLookupTable implementations"
        )

    def remove(self, keys: Array) -> None:
        """Not possible."""
        raise errors.UnimplementedError(
            None, None, "Remove not supported by InitializableLookupTable implementations"
        )


class MutableTable(TableState):
    """A table whose entries come and go."""

    def fill(self, pairs: Sequence[tuple[Entry, Entry]]) -> None:
        """Replaces all entries."""
        for key, _ in pairs:
            self._check_key(key)
        self._entries = dict(pairs)
        self._note(WHOLE)

    def insert(self, pairs: Sequence[tuple[Entry, Entry]]) -> None:
        """Adds entries, or replaces them."""
        for key, _ in pairs:
            self._check_key(key)
        self._entries.update(pairs)
        if self.listener is not None:
            self.listener(None, _pairs_event("insert", pairs))

    def remove(self, keys: Array) -> None:
        """Removes entries, where they are."""
        for key in keys.ravel().tolist():
            self._check_key(key)
        for key in keys.ravel().tolist():
            self._entries.pop(key, None)
        if self.listener is not None:
            self.listener(None, Event("remove", None, [keys]))


class DenseTable(MutableTable):
    """A mutable table with two keys that must not be used.

    TensorFlow marks free places with them; a table that it has written contains them.
    """

    def __init__(
        self,
        name: str,
        value_type: NumpyType,
        value_shape: tuple[int, ...],
        empty_key: Entry,
        deleted_key: Entry,
    ) -> None:
        super().__init__(name, value_type, value_shape)
        self._empty_key = empty_key
        self._deleted_key = deleted_key

    def _check_key(self, key: Entry) -> None:
        for name, reserved in (("empty", self._empty_key), ("deleted", self._deleted_key)):
            if reserved is not None and key == reserved:
                raise ValueError(f"Using the {name}_key as a table key is not allowed")

    def fill(self, pairs: Sequence[tuple[Entry, Entry]]) -> None:
        """Replaces all entries; those of reserved keys are free places."""
        reserved = (self._empty_key, self._deleted_key)
        super().fill([pair for pair in pairs if pair[0] not in reserved])


def _pairs_event(what: str, pairs: Sequence[tuple[Entry, Entry]]) -> Event:
    """An event with entries: their keys, and their values."""
    return Event(what, None, [_column([k for k, _ in pairs]), _column([v for _, v in pairs])])


def _column(entries: list[Entry]) -> Array:
    if entries and isinstance(entries[0], bytes):
        column = np.empty(len(entries), object)
        column[:] = entries
        return column
    return np.array(entries)


def _pairs_of(values: Sequence[Array]) -> list[tuple[Entry, Entry]]:
    keys, rows = values
    entries = rows.tolist() if rows.ndim == 1 else [row.copy() for row in rows]
    return list(zip(keys.tolist(), entries, strict=True))


def _stored(array: Array) -> Entry:
    return array.item() if array.ndim == 0 else array


def _shown(value: Entry) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _text(shape: Sequence[int]) -> str:
    return f"[{','.join(str(size) for size in shape)}]"


def parse_lines(
    filename: str,
    data: bytes,
    key: tuple[int, str],
    value: tuple[int, str],
    vocab_size: int,
    delimiter: bytes,
    offset: int,
) -> list[tuple[Entry, Entry]]:
    """The entries that a text file holds, one a line.

    Args:
      filename: The file's name, for errors.
      data: What is in it.
      key: Column and type name of keys; column -2 is the whole line, -1 the line's number.
      value: Column and type name of values.
      vocab_size: How many lines to read; all if -1.
      delimiter: What separates columns.
      offset: Added to line numbers.

    Raises:
      InvalidArgumentError: A line lacks a column or is empty, a field is no number, or there
        are fewer lines than asked for.
    """
    if len(delimiter) != 1:
        raise ValueError("delimiter should be only 1 char")
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise errors.OutOfRangeError(
            None, None, f"Read less bytes than requested: {filename} is empty"
        )
    if vocab_size >= 0:
        if vocab_size > len(lines):
            raise ValueError(
                f"Invalid vocab_size in {filename}: expected {vocab_size} but got {len(lines)}"
            )
        lines = lines[:vocab_size]
    pairs = []
    position = 0
    least = max(key[0], value[0]) + 1
    for number, raw in enumerate(lines):
        position += len(raw) + 1
        line = raw.removesuffix(b"\r")
        if not line:
            raise ValueError(
                f"Invalid content in {filename}: empty line found at position {position}."
            )
        fields = line.split(delimiter) if least > 0 else []
        if len(fields) < least:
            raise ValueError(
                f"Invalid number of columns in {filename} line {number} ({_shown(line)}) : "
                f"expected at least {least} got {len(fields)}"
            )
        pairs.append(
            tuple(
                number + offset
                if column == -1
                else _parsed(line if column == -2 else fields[column], kind, number)
                for column, kind in (key, value)
            )
        )
    return pairs  # type: ignore[return-value]


def _parsed(field: bytes, kind: str, number: int) -> Entry:
    if kind == "string":
        return field
    try:
        if kind in ("float32", "float64"):
            found = float(field)
            return float(np.float32(found)) if kind == "float32" else found
        return int(field)
    except ValueError:
        name = {"float32": "float", "float64": "double"}.get(kind, kind)
        raise ValueError(f"Field {_shown(field)} in line {number} is not a valid {name}.") from None
