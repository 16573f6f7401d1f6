"""Large work on Python objects, in pieces.

One call into C, such as joining or sorting a list, holds the interpreter until it ends: every
other client of the process waits. So what may be large is done in pieces; between two of them
others get their turn. The collector of cyclic garbage is such a call too: it looks at all
containers there are, and a kernel that makes millions of them has it pause (`collector_pauses`).
"""

from __future__ import annotations

import contextlib
import gc
import heapq
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

#: Elements, and bytes, of one piece: some milliseconds of work.
ELEMENTS = 1 << 16
BYTES = 1 << 22


def slices(count: int) -> Iterator[slice]:
    """The pieces of so many elements, in order."""
    for start in range(0, count, ELEMENTS):
        yield slice(start, min(start + ELEMENTS, count))


def join(separator: bytes, strings: Any) -> bytes:
    """`separator.join(strings)`, for a list or an array of one dimension."""
    if len(strings) <= ELEMENTS:
        return separator.join(strings)
    return separator.join([separator.join(strings[part]) for part in slices(len(strings))])


def split(string: bytes, mark: bytes) -> Iterator[bytes]:
    """What `string.split(mark)` gives, one after the other."""
    start = 0
    while len(string) - start > BYTES:
        end = string.find(mark, start + BYTES)
        if end < 0:
            break
        yield from string[start:end].split(mark)
        start = end + len(mark)
    yield from string[start:].split(mark) if start else string.split(mark)


def array_of(values: Sequence[Any], dtype: Any) -> Any:
    """A vector of the values of a list."""
    result = np.empty(len(values), dtype)
    for part in slices(len(values)):
        result[part] = values[part]
    return result


def ordered(values: Any) -> list[Any]:
    """The different values of a vector of objects, in order."""
    found: set[Any] = set()
    for part in slices(len(values)):
        found.update(values[part].tolist())
    if len(found) <= ELEMENTS:
        return sorted(found)
    every = list(found)
    runs = [sorted(every[part]) for part in slices(len(every))]
    return list(heapq.merge(*runs))


def numbered(values: Any) -> tuple[Any, Any]:
    """The different values of a vector, in order, and for each element the number of its value."""
    if values.dtype != object:
        found, numbers = np.unique(values, return_inverse=True)
        return found, numbers.reshape(-1)
    different = ordered(values)
    numbers_of = {value: i for i, value in enumerate(different)}
    numbers = np.empty(len(values), np.int64)
    for part in slices(len(values)):
        numbers[part] = [numbers_of[value] for value in values[part].tolist()]
    return array_of(different, object), numbers


_lock = threading.Lock()
#: How many kernels want the collector to pause, and whether it was on before the first.
_pausing = [0, False]


@contextlib.contextmanager
def collector_pauses() -> Iterator[None]:
    """Lets the collector of cyclic garbage wait; what is made and dropped meanwhile has no cycles.

    The state is the process's: it runs again when the last of all threads has left.
    """
    with _lock:
        if _pausing[0] == 0:
            _pausing[1] = gc.isenabled()
            gc.disable()
        _pausing[0] += 1
    try:
        yield
    finally:
        with _lock:
            _pausing[0] -= 1
            if _pausing[0] == 0 and _pausing[1]:
                gc.enable()
