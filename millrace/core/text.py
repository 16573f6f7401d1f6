"""Bytes and text: `tf.compat.as_bytes` and its relatives."""

from __future__ import annotations

import numbers
import os
from typing import Any

import numpy as np

#: What `isinstance` takes for "a string", "a whole number" and so on.
bytes_or_text_types = (bytes, str)
integral_types = (numbers.Integral, np.integer)
real_types = (numbers.Real, np.integer, np.floating)
complex_types = (numbers.Complex, np.number)


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """The bytes of a string.

    Raises:
      TypeError: The value is neither bytes nor text.
    """
    if isinstance(bytes_or_text, bytearray):
        return bytes(bytes_or_text)
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """The text of a string.

    Raises:
      TypeError: The value is neither bytes nor text.
    """
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_str(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """`as_text`, under the name that was right for Python 2 as well."""
    return as_text(bytes_or_text, encoding)


def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """The text of bytes, and ``str(value)`` of anything else."""
    return value.decode(encoding) if isinstance(value, bytes) else str(value)


def path_to_str(path: Any) -> Any:
    """The text of a path object; anything else as it is."""
    return as_str_any(os.fspath(path)) if hasattr(path, "__fspath__") else path
