"""Arrays of byte strings: how host kernels take them apart and put them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from millrace.core import pieces


def strings(values: Iterable[bytes], shape: tuple[int, ...] | None = None) -> Any:
    """An array of strings (one of them may look like a sequence to NumPy, so not `np.array`)."""
    items = values if isinstance(values, list) else list(values)
    result = pieces.array_of(items, object)
    return result if shape is None else result.reshape(shape)


def each(array: Any, function: Callable[[bytes], bytes]) -> Any:
    """The array with a function applied to every string."""
    return strings([function(s) for s in array.ravel().tolist()], array.shape)


def text(value: Any) -> str:
    """A byte string for a message."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def scalar_bytes(value: Any, name: str) -> bytes:
    """A scalar string.

    Raises:
      ValueError: It is no scalar.
    """
    if value.ndim:
        raise ValueError(f"{name} must be scalar, got shape {list(value.shape)}")
    word: bytes = value[()]
    return word
