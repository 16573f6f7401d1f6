"""Python generators as datasets: the state of each pass, and what is made of what they yield.

The graph has three Python functions: one starts a generator and returns its number, one asks it for
the next values, one drops it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.ops.data import structure


class Generators:
    """The passes of one `from_generator` that are under way.

    Args:
      start: Returns an iterator, given the arguments.
      spec: The structure of what it yields.
    """

    def __init__(self, start: Callable[..., Any], spec: Any) -> None:
        self._start = start
        self._spec = spec
        self._leaves = structure.flatten(spec)
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._arguments: dict[int, tuple[Any, ...]] = {}
        self._under_way: dict[int, Iterator[Any]] = {}

    def begin(self, *arguments: Any) -> Any:
        """The number of a new pass."""
        with self._lock:
            number = next(self._numbers)
            self._arguments[number] = arguments
        return np.array(number, np.int64)

    def following(self, number: Any) -> Sequence[Any]:
        """The next values of a pass as flat arrays; StopIteration at the end."""
        key = int(number)
        values = self._under_way.get(key)
        if values is None:
            values = iter(self._start(*self._arguments.pop(key)))
            self._under_way[key] = values
        return self._flat(next(values))

    def end(self, number: Any) -> Any:
        """Drops a pass."""
        self._arguments.pop(int(number), None)
        values = self._under_way.pop(int(number), None)
        close = getattr(values, "close", None)
        if close is not None:
            close()
        return np.array(0, np.int64)

    def _flat(self, value: Any) -> list[Any]:
        try:
            if isinstance(value, list) and structure.is_nested(self._spec):
                value = tuple(value)
            parts = structure.flatten_up_to(self._spec, value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                "`generator` yielded an element that did not match the expected structure. The "
                f"expected structure was {structure.legacy_types(self._spec)}, but the yielded "
                f"element was {value}."
            ) from error
        return [self._array(part, leaf) for part, leaf in zip(parts, self._leaves, strict=True)]

    def _array(self, part: Any, leaf: Any) -> Any:
        try:
            array = _converted(part, leaf.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise TypeError(
                "`generator` yielded an element that could not be converted to the expected type. "
                f"The expected type was {leaf.dtype.name}, but the yielded element was {part}."
            ) from error
        if not leaf.shape.is_compatible_with(array.shape):
            raise TypeError(
                f"`generator` yielded an element of shape {array.shape} where an element of shape "
                f"{leaf.shape} was expected."
            )
        return array


def _converted(part: Any, dtype: dtypes.DType) -> Any:
    if dtype == dtypes.string:
        array = np.asarray(part, dtype=object)
        encode = np.frompyfunc(_as_bytes, 1, 1)
        return np.asarray(encode(array), dtype=object)
    array = np.asarray(part)
    if array.dtype.kind in "SUO":
        array = array.astype(dtype.as_numpy_dtype)
    return array.astype(dtype.as_numpy_dtype, copy=False)


def _as_bytes(text: Any) -> bytes:
    if isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode()
    raise TypeError(f"{text!r} is no string")
