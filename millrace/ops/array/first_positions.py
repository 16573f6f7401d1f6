"""Where each value of a vector first occurs, without sorting. Knows no op."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

#: Numbers below this, or below eight times their count, are looked up in a table; no larger ones.
_FEW_ENTRIES, _MOST_ENTRIES = 1 << 20, 1 << 24


class _Table(threading.local):
    """The memory of the table, which nobody clears: each call only reads what it has written."""

    def __init__(self) -> None:
        self.entries: Any = np.empty(0, np.int32)

    def of(self, count: int) -> Any:
        if len(self.entries) < count:
            self.entries = np.zeros(max(count, 2 * len(self.entries)), np.int32)
        return self.entries


_table = _Table()


def first_positions(x: Any) -> Any:
    """For each element the position where its value first occurs, as int32.

    Args:
      x: A vector of NumPy's.

    Returns:
      None if the elements are no whole numbers, or negative or large ones: then it takes sorting.
    """
    if x.dtype.char not in "ilq" or not len(x):
        return None
    unsigned = x.view(np.uint32 if x.dtype.itemsize == 4 else np.uint64)
    most = int(np.maximum.reduce(unsigned))  # A negative number is a large one.
    if most >= min(_MOST_ENTRIES, max(_FEW_ENTRIES, 8 * len(x))):
        return None
    table = _table.of(most + 1)
    order = np.arange(len(x), dtype=np.int32)
    table[x[::-1]] = order[::-1]  # Of several entries the last one stays.
    return table[x]
