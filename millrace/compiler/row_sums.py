"""Adding up rows by number, on the host: a few hundred nanoseconds a row would be too many.

NumPy has no loop for it (`np.add.at` takes an element at a time, `np.add.reduceat` a row in a
microsecond), XLA's scatter needs the rows spread out in memory first. SciPy's product of a sparse
and a dense matrix is that loop. SciPy is there because JAX needs it; its loops are loaded without
the package around them, which takes longer to import than a worker has to spare. The loop's name
is private, so it is tried before it is used (docs/decisions/0013-rows-by-number.md).
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import math
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

_LOOPS = "_sparsetools"
#: Of each type, as many ones as were needed so far; and as many numbers in order.
_ones: dict[Any, Any] = {}
_numbers = np.arange(1024, dtype=np.int32)


def add_rows(total: Any, to: Any, rows: Any, source: Any, factors: Any = None) -> None:
    """Adds for every k row `source[k]` of `rows` to row `to[k]` of `total`, in their order.

    Args:
      total: A matrix without gaps, of a floating type that NumPy has.
      to: int32, all of them rows of `total`: nobody checks.
      rows: A matrix without gaps, as wide as `total` and of its type.
      source: int32, as many as `to`, all of them rows of `rows`.
      factors: What each row is multiplied by, of the type of `total`; None for 1.
    """
    loop = _loop()
    if loop is None:
        # Element by element: NumPy takes three times as long to add up whole rows.
        width = total.shape[1]
        elements = to[:, None].astype(np.intp) * width + np.arange(width)
        parts = rows[source] if factors is None else rows[source] * factors[:, None]
        np.add.at(total.reshape(-1), elements.reshape(-1), parts.reshape(-1))
        return
    count = len(to)
    if factors is None:
        factors = _ones.get(total.dtype)
        if factors is None or len(factors) < count:
            factors = _ones[total.dtype] = np.ones(count, total.dtype)
        factors = factors[:count]
    loop(count, total.shape[1], to, source, factors, rows.reshape(-1), total.reshape(-1))


def in_order(count: int) -> Any:
    """The numbers from 0 to `count` - 1, as int32; nobody changes them."""
    global _numbers
    if count > len(_numbers):
        _numbers = np.arange(2 * count, dtype=np.int32)
    return _numbers[:count]


def add_to_rows(table: Any, rows: Any, values: Any) -> None:
    """Adds to each of `rows` of a table its values, in their order and in place.

    Args:
      table: An array without gaps.
      rows: All of them rows of `table`; they may repeat.
      values: As many rows of `table`'s form.
    """
    width = math.prod(table.shape[1:])
    if table.dtype.char not in "fd" or not table.flags.c_contiguous or not width:
        np.add.at(table, rows, values)
        return
    changes = np.ascontiguousarray(values, table.dtype).reshape(len(rows), width)
    add_rows(table.reshape(-1, width), rows.astype(np.int32), changes, in_order(len(rows)))


def sums_by_row(count: int, positions: Any, values: Any) -> Any:
    """For each of `count` rows the sum of the `values` whose position it is.

    Args:
      count: How many rows the result has.
      positions: A row for each of `values`; those out of range are left out.
      values: Arrays of any shape, along the first axis.
    """
    inside = (positions >= 0) & (positions < count)
    if not inside.all():
        positions, values = positions[inside], values[inside]
    total = np.zeros((count, *values.shape[1:]), values.dtype)
    if not total.size or not len(positions):
        return total
    if values.dtype not in (np.float32, np.float64):
        np.add.at(total, positions, values)
        return total
    width = total.size // count
    rows = np.ascontiguousarray(values).reshape(len(positions), width)
    order = in_order(len(positions))
    add_rows(total.reshape(count, width), positions.astype(np.int32), rows, order)
    return total


@functools.cache
def _loop() -> Callable[..., None] | None:
    """SciPy's loop over rows, or None if there is none of that name."""
    try:
        found: Any = getattr(_load(), "coo_matmat_dense", None)
        if found is None:
            return None
        # What it is called with here must be what it means.
        total = np.zeros((2, 2), np.float32)
        index = np.array([1, 1, 0], np.int32)
        rows = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
        ones = np.ones(3, np.float32)
        found(3, 2, index, np.array([0, 2, 1], np.int32), ones, rows.reshape(-1), total.reshape(-1))
    except (ImportError, OSError, TypeError, ValueError):
        return None
    return found if total.tolist() == [[3, 4], [6, 8]] else None


def _load() -> Any:
    package = importlib.util.find_spec("scipy")
    for folder in package.submodule_search_locations or () if package is not None else ():
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            file = pathlib.Path(folder) / "sparse" / f"{_LOOPS}{suffix}"
            if file.exists():
                spec = importlib.util.spec_from_file_location(f"{__name__}.{_LOOPS}", file)
                assert spec is not None and spec.loader is not None
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                return module
    return None
