"""Saved states as bytes: a closed set of kinds, so that reading one runs nobody's code.

Numbers, bytes, text, None, arrays (of numbers, or of bytes), NumPy scalars, lists and dicts.
Datasets inside elements (windows) cannot be saved, and say so.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from millrace.core import errors

_LENGTH = struct.Struct("<q")
_FLOAT = struct.Struct("<d")


def packed(value: Any) -> bytes:
    """The bytes that `unpacked` makes the value of.

    Raises:
      UnimplementedError: There is something in it that cannot be saved.
    """
    parts: list[bytes] = []
    _pack(value, parts)
    return b"".join(parts)


def _pack(value: Any, parts: list[bytes]) -> None:
    if value is None:
        parts.append(b"N")
    elif isinstance(value, bool):
        parts.append(b"T" if value else b"F")
    elif isinstance(value, int):
        parts.append(b"I")
        _pack_bytes(str(value).encode(), parts)
    elif isinstance(value, float):
        parts.append(b"D" + _FLOAT.pack(value))
    elif isinstance(value, bytes):
        parts.append(b"B")
        _pack_bytes(value, parts)
    elif isinstance(value, str):
        parts.append(b"S")
        _pack_bytes(value.encode(), parts)
    elif isinstance(value, list | tuple):
        parts.append(b"L" + _LENGTH.pack(len(value)))
        for item in value:
            _pack(item, parts)
    elif isinstance(value, dict):
        parts.append(b"M" + _LENGTH.pack(len(value)))
        for key, item in value.items():
            _pack_bytes(key.encode(), parts)
            _pack(item, parts)
    elif isinstance(value, np.ndarray | np.generic):
        _pack_array(value, parts)
    else:
        raise errors.UnimplementedError(
            None,
            None,
            f"The state of an iterator holds a {type(value).__name__}: it cannot be saved",
        )


def _pack_bytes(data: bytes, parts: list[bytes]) -> None:
    parts += (_LENGTH.pack(len(data)), data)


def _pack_array(value: Any, parts: list[bytes]) -> None:
    array = np.asarray(value)
    if array.dtype == object:
        parts.append(b"O")
        _pack(list(array.shape), parts)
        _pack(list(array.ravel()), parts)
        return
    parts.append(b"G" if isinstance(value, np.generic) else b"A")
    _pack(array.dtype.name, parts)
    _pack(list(array.shape), parts)
    _pack_bytes(np.ascontiguousarray(array).tobytes(), parts)


def unpacked(data: bytes) -> Any:
    """The value that `packed` was given.

    Raises:
      DataLossError: These bytes are none.
    """
    reader = _Reader(data)
    try:
        value = reader.value()
    except (struct.error, KeyError, ValueError, TypeError, UnicodeDecodeError) as error:
        raise errors.DataLossError(None, None, f"An iterator's state is damaged: {error}") from None
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _bytes(self) -> bytes:
        (length,) = _LENGTH.unpack_from(self._data, self._at)
        start = self._at + _LENGTH.size
        if not 0 <= length <= len(self._data) - start:
            raise ValueError(f"{length} bytes are said to follow")
        self._at = start + length
        return self._data[start : self._at]

    def _count(self) -> int:
        (count,) = _LENGTH.unpack_from(self._data, self._at)
        self._at += _LENGTH.size
        if not 0 <= count <= len(self._data):
            raise ValueError(f"{count} items are said to follow")
        return int(count)

    def value(self) -> Any:
        kind = self._data[self._at : self._at + 1]
        self._at += 1
        simple = {b"N": None, b"T": True, b"F": False}
        if kind in simple:
            return simple[kind]
        if kind == b"I":
            return int(self._bytes())
        if kind == b"D":
            (number,) = _FLOAT.unpack_from(self._data, self._at)
            self._at += _FLOAT.size
            return number
        if kind == b"B":
            return self._bytes()
        if kind == b"S":
            return self._bytes().decode()
        if kind == b"L":
            return [self.value() for _ in range(self._count())]
        if kind == b"M":
            count = self._count()
            return {self._bytes().decode(): self.value() for _ in range(count)}
        if kind == b"O":
            shape, values = self.value(), self.value()
            array = np.empty(len(values), object)
            array[:] = values
            return array.reshape(shape)
        if kind in (b"A", b"G"):
            dtype, shape = np.dtype(self.value()), self.value()
            if dtype.hasobject:
                raise ValueError("an array of objects")
            array = np.frombuffer(self._bytes(), dtype).reshape(shape).copy()
            return array[()] if kind == b"G" else array
        raise ValueError(f"{kind!r} begins no value")
