"""Rows of a table in parts on several tasks: sorted by part, in one of a few lengths.

`passes/route_rows.py` puts these ops where rows go from task to task. The indices of a part come
first, then padding (see `padded_unique.py`). Nobody builds these ops.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from millrace.core import aligned
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import unknown
from millrace.ops.array_rules import place_text
from millrace.ops.padded_unique import padded_length, padding
from millrace.ops.row_sums import add_rows
from millrace.ops.xla import jnp

__all__: list[str] = []


@op(
    "_RouteRows(data: T, partitions: int32) -> (indices: num_partitions*T, places: int32, "
    "elements: num_partitions*int32, numbers: num_partitions*int32) where "
    "T: {int32, int64}; num_partitions: int >= 1; merge: bool = false; placed: bool = true",
    shape=unknown,
    gradient=NO_GRADIENT,
    host=True,
)
def RouteRows(
    data: Any,
    partitions: Any,
    *,
    num_partitions: int,
    merge: bool,
    placed: bool,
    ctx: Any,
    node: Any,
) -> Any:
    """As DynamicPartition of a vector, each part with padding behind it.

    Args:
      data: Indices of rows.
      partitions: Which part each belongs to.
      num_partitions: How many parts there are.
      merge: Whether an index is put only once into its part.
      placed: Whether anybody looks at the values of `places`, and not only how many there are.
      ctx: Remembers how long the parts were.
      node: The node.

    Returns:
      The parts; for each element where it is when they lie one after the other; for each part
      which elements are in it, in the order of their indices, and which of its indices each has.
    """
    if data.shape != partitions.shape:
        raise ValueError(
            f"data.shape must start with partitions.shape, got data.shape = {data.shape}, "
            f"partitions.shape = {partitions.shape}"
        )
    bad = (partitions < 0) | (partitions >= num_partitions)
    if bad.any():
        flat = int(np.argmax(bad))
        raise ValueError(
            f"partitions{place_text(partitions.shape, flat)} = {partitions[flat]} is not in "
            f"[0, {num_partitions})"
        )
    none = padding(data.dtype)
    if (data == none).any():
        raise ValueError(f"{none} is no index of a row")
    lengths = ctx.session.state_of(node, lambda: [0] * num_partitions)
    # The shape alone takes no memory.
    places = np.empty(data.shape, np.int32) if placed else np.broadcast_to(np.int32(0), data.shape)
    parts, elements, numbers = [], [], []
    start = 0
    found = _distinct(data, partitions, num_partitions) if merge else None
    for i in range(num_partitions):
        if found is not None:
            own, here, where = found[i]
        else:
            here = np.flatnonzero(partitions == i)
            own, where = data[here], np.arange(len(here))
            if merge:
                own, where = np.unique(own, return_inverse=True)
        length = lengths[i] = padded_length(len(own), lengths[i])
        part = np.full(length, none)
        part[: len(own)] = own
        if placed:
            places[here] = where + np.int32(start)
        start += length
        parts.append(part)
        elements.append(here.astype(np.int32))
        numbers.append(where.astype(np.int32, copy=False))
    return parts, places, elements, numbers


def _distinct(data: Any, partitions: Any, count: int) -> list[tuple[Any, Any, Any]] | None:
    """For each part its distinct elements, where elements of it are, and which each is.

    One sort of numbers that hold all of it: part, element and place. None if they would not fit.
    """
    if not data.size:
        return None
    least = int(data.min())
    size = int(data.max()) - least + 1
    bits = int(data.size).bit_length()
    if (size * count) << bits >= 1 << 63:
        return None
    keys = partitions.astype(np.int64)
    keys *= size
    keys += data
    keys -= least
    keys <<= bits
    keys |= np.arange(data.size)
    keys.sort()
    where = keys & ((1 << bits) - 1)
    keys >>= bits
    is_first = np.empty(keys.shape, bool)
    is_first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    number = np.cumsum(is_first, dtype=np.int32)
    own = keys[is_first]
    borders = np.arange(count + 1) * size
    ends, own_ends = np.searchsorted(keys, borders), np.searchsorted(own, borders)
    result = []
    for i in range(count):
        elements = slice(ends[i], ends[i + 1])
        values = own[own_ends[i] : own_ends[i + 1]] + (least - i * size)
        numbers = number[elements] - np.int32(own_ends[i] + 1)
        result.append((values.astype(data.dtype), where[elements], numbers))
    return result


@op(
    "_RoutedStitch(places: int32, data: N*T) -> merged: T where N: int >= 1",
    shape=unknown,
    gradient=NO_GRADIENT,
)
def RoutedStitch(places: Any, data: list[Any]) -> Any:
    """The rows of all parts, each as often and where it is wanted."""
    joined = jnp.concatenate([jnp.asarray(rows) for rows in data])
    return joined.at[places].get(mode="promise_in_bounds")


@op(
    "_SumRouted(values: T, places: int32, indices: N*Tindices) -> sums: N*T where N: int >= 1; "
    "Tindices: {int32, int64}",
    shape=unknown,
    gradient=NO_GRADIENT,
)
def SumRouted(values: Any, places: Any, indices: list[Any]) -> Any:
    """For each part, as many rows as it has indices: what `values` has for one is added up."""
    lengths = [index.shape[0] for index in indices]
    total = jnp.zeros((sum(lengths), *values.shape[1:]), values.dtype)
    total = total.at[places].add(values, mode="promise_in_bounds")
    return jnp.split(total, np.cumsum(lengths)[:-1])


@op(
    "_BagOfRows(rows: T, places: int32, elements: int32, numbers: int32) -> sums: T where "
    "T: {float32, float64}; size: int >= 1",
    shape=unknown,
    gradient=NO_GRADIENT,
    host=True,
)
def BagOfRows(rows: Any, places: Any, elements: Any, numbers: Any, *, size: int) -> Any:
    """The sums over each `size` elements that follow each other, of one part's rows.

    Args:
      rows: The rows of the part's indices.
      places: As many as there are elements.
      elements: Which elements are in the part.
      numbers: Which row each of them has.
      size: How many elements are added up.
    """
    if places.size % size:
        raise ValueError(f"{places.size} rows cannot be added up by {size}")
    if len(numbers) and int(numbers.max()) >= len(rows):
        raise ValueError(f"a part has {len(rows)} rows, and row {numbers.max()} was asked of it")
    sums = aligned.empty((places.size // size, *rows.shape[1:]), rows.dtype)
    sums.fill(0)
    width = math.prod(rows.shape[1:])
    add_rows(sums.reshape(-1, width), elements // size, rows.reshape(-1, width), numbers)
    return sums


@op(
    "_SumBags(values: T, places: int32, elements: int32, numbers: int32, indices: Tindices) -> "
    "sums: T where T: {float32, float64}; Tindices: {int32, int64}; size: int >= 1",
    shape=unknown,
    gradient=NO_GRADIENT,
    host=True,
)
def SumBags(
    values: Any, places: Any, elements: Any, numbers: Any, indices: Any, *, size: int
) -> Any:
    """As `SumRouted` of one part, of values of which each stands for `size` that are the same.

    Args:
      values: A row for each `size` elements, perhaps with a dimension of 1 behind the first.
      places: As many as there are elements.
      elements: Which elements are in the part.
      numbers: Which index each of them has.
      indices: The part's indices.
      size: How many elements share a row.
    """
    count = len(values)
    if count * size != places.size:
        # Other dimensions were broadcast, too.
        values = np.broadcast_to(values, (places.size // size, *values.shape[1:]))
        count = len(values)
    values = np.ascontiguousarray(values).reshape(count, -1)
    sums = np.zeros((len(indices), values.shape[1]), values.dtype)
    add_rows(sums, numbers, values, elements // size)
    return sums
