"""Rows of a table in parts on several tasks: sorted by part, in one of a few lengths.

`passes/route_rows.py` puts these ops where rows go from task to task. The indices of a part come
first, then padding (see `padded_unique.py`). Nobody builds these ops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import unknown
from millrace.ops.array_rules import place_text
from millrace.ops.padded_unique import padded_length, padding
from millrace.ops.xla import jnp

__all__: list[str] = []


@op(
    "_RouteRows(data: T, partitions: int32) -> (indices: num_partitions*T, places: int32) where "
    "T: {int32, int64}; num_partitions: int >= 1; merge: bool = false",
    shape=unknown,
    gradient=NO_GRADIENT,
    host=True,
)
def RouteRows(
    data: Any, partitions: Any, *, num_partitions: int, merge: bool, ctx: Any, node: Any
) -> Any:
    """As DynamicPartition of a vector, each part with padding behind it.

    Args:
      data: Indices of rows.
      partitions: Which part each belongs to.
      num_partitions: How many parts there are.
      merge: Whether an index is put only once into its part.
      ctx: Remembers how long the parts were.
      node: The node.

    Returns:
      The parts, and for each element where it is when they lie one after the other.
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
    places = np.empty(data.shape, np.int32)
    parts = []
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
        places[here] = where + np.int32(start)
        start += length
        parts.append(part)
    return parts, places


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
