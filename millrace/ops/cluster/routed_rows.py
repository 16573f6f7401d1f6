"""Rows of a table in parts on several tasks: sorted by part, in one of a few lengths.

`passes/route_rows.py` puts these ops where rows go from task to task. The indices of a part come
first, then padding (see `padded_unique.py`). Nobody builds these ops.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from millrace.compiler.row_sums import add_rows
from millrace.compiler.xla import jnp
from millrace.core import aligned
from millrace.core.written import Written
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import unknown
from millrace.ops.array.rules import bad_partition_text, partition_shapes_text
from millrace.ops.cluster.padded_unique import padded_length, padding

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
        raise ValueError(partition_shapes_text(data.shape, partitions.shape))
    if ((partitions < 0) | (partitions >= num_partitions)).any():
        raise ValueError(bad_partition_text(partitions, num_partitions))
    none = padding(data.dtype)
    if (data == none).any():
        raise ValueError(f"{none} is no index of a row")
    found = _distinct(data, partitions, num_partitions) if merge else None
    if found is None:
        found = []
        for i in range(num_partitions):
            here = np.flatnonzero(partitions == i)
            own, where = data[here], np.arange(len(here))
            if merge:
                own, where = np.unique(own, return_inverse=True)
            found.append((own, here.astype(np.int32), where.astype(np.int32)))
    return _padded(found, data, placed, ctx.session.state_of(node, lambda: [0] * num_partitions))


def _padded(found: list[tuple[Any, Any, Any]], data: Any, placed: bool, lengths: list[int]) -> Any:
    """What a route gives, of what was found for each part; notes how long the parts are."""
    # The shape alone takes no memory.
    places = np.empty(data.shape, np.int32) if placed else np.broadcast_to(np.int32(0), data.shape)
    parts = []
    start = 0
    for i, (own, here, where) in enumerate(found):
        length = lengths[i] = padded_length(len(own), lengths[i])
        part = np.empty(length, data.dtype)
        part[: len(own)] = own
        part[len(own) :] = padding(data.dtype)
        if placed:
            places[here] = where + np.int32(start)
        start += length
        parts.append(part)
    return parts, places, [here for _, here, _ in found], [where for _, _, where in found]


@op(
    "_RouteIds(ids: T) -> (indices: num_partitions*T, places: int32, "
    "elements: num_partitions*int32, numbers: num_partitions*int32) where "
    "T: {int32, int64}; num_partitions: int >= 1; num_ids: int; merge: bool = true; "
    "placed: bool = true",
    shape=unknown,
    gradient=NO_GRADIENT,
    host=True,
)
def RouteIds(
    ids: Any, *, num_partitions: int, num_ids: int, placed: bool, ctx: Any, node: Any
) -> Any:
    """As `RouteRows` that merges, of the parts and rows that `embedding_lookup` gives ids.

    Args:
      ids: Of any shape.
      num_partitions: How many parts there are.
      num_ids: How many ids there are, the first of which are in the first part, and so on; 0 if
        they go round.
      placed: As for `RouteRows`.
      ctx: Remembers how long the parts were.
      node: The node.
    """
    flat = ids.reshape(-1)
    count = num_partitions
    if num_ids:
        each, extras = divmod(num_ids, count)
        borders = [i * each + min(i, extras) for i in range(count + 1)]
        values, limit = flat, num_ids
    else:
        # Part by part, as those of the other kind are.
        values = (flat // count).astype(np.int64)
        limit = int(values.max(initial=0)) + 1
        borders = [i * limit for i in range(count + 1)]
        values += (flat - values * count) * limit
        limit *= count
    bits = int(flat.size).bit_length()
    is_plain = flat.size and flat.min() >= 0 and limit << bits < 1 << 63 and bits < 32
    if not is_plain or (num_ids and flat.max() >= limit):
        rows, parts = _rows_and_parts(flat, count, num_ids)
        return RouteRows.kernel(
            rows, parts, num_partitions=count, merge=True, placed=placed, ctx=ctx, node=node
        )
    found = _sorted(values.astype(np.int64), bits, borders, borders, flat.dtype)
    return _padded(found, flat, placed, ctx.session.state_of(node, lambda: [0] * count))


def _rows_and_parts(flat: Any, count: int, total: int) -> tuple[Any, Any]:
    if not total:
        return flat // count, (flat % count).astype(np.int32)
    each, extras = divmod(total, count)
    parts = np.maximum(flat // (each + 1), (flat - extras) // each)
    rows = np.where(parts < extras, flat % (each + 1), (flat - extras) % each)
    return rows, parts.astype(np.int32)


def _distinct(data: Any, partitions: Any, count: int) -> list[tuple[Any, Any, Any]] | None:
    """For each part its distinct elements, where elements of it are, and which each is.

    One sort of numbers that hold all of it: part, element and place. None if they would not fit.
    """
    if not data.size:
        return None
    least = int(data.min())
    size = int(data.max()) - least + 1
    bits = int(data.size).bit_length()
    if (size * count) << bits >= 1 << 63 or bits > 31:
        return None
    keys = partitions.astype(np.int64)
    keys *= size
    keys += data
    keys -= least
    borders = [i * size for i in range(count + 1)]
    return _sorted(keys, bits, borders, [border - least for border in borders], data.dtype)


def _sorted(
    keys: Any, bits: int, borders: list[int], starts: list[int], dtype: Any
) -> list[tuple[Any, Any, Any]]:
    """As `_distinct`, of numbers that are in the order of parts, and in these of elements.

    Args:
      keys: The numbers, of which nothing is left.
      bits: How many hold the place of one.
      borders: Where each part begins among the numbers, and the last one ends.
      starts: What the numbers of each part are higher than its elements.
      dtype: Of the elements.
    """
    keys <<= bits
    keys |= _counted(keys.size)
    keys.sort()
    where = keys.astype(np.int32)  # The lower bits.
    where &= (1 << bits) - 1
    keys >>= bits
    is_first = np.empty(keys.shape, bool)
    is_first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    firsts = np.flatnonzero(is_first)
    own = keys[firsts]
    numbers = np.cumsum(is_first, dtype=np.int32)
    ends = np.searchsorted(own, borders).tolist()
    firsts = np.append(firsts, keys.size)
    result = []
    for i, (begin, end) in enumerate(itertools.pairwise(ends)):
        elements = slice(firsts[begin], firsts[end])
        number = numbers[elements]
        number -= begin + 1
        result.append(((own[begin:end] - starts[i]).astype(dtype), where[elements], number))
    return result


@functools.lru_cache(8)
def _counted(count: int) -> Any:
    return np.arange(count)


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
    return np.asarray(written_sums(size, values, places, elements, numbers, indices))


def written_sums(
    size: int, values: Any, places: Any, elements: Any, numbers: Any, indices: Any
) -> Written:
    """What `SumBags` makes, to be made where it is wanted."""
    count = len(values)
    if count * size != places.size:
        # Other dimensions were broadcast, too.
        values = np.broadcast_to(values, (places.size // size, *values.shape[1:]))
        count = len(values)
    values = np.ascontiguousarray(values).reshape(count, -1)

    def write(sums: Any) -> None:
        sums.fill(0)
        add_rows(sums, numbers, values, elements // size)

    return Written((len(indices), values.shape[1]), values.dtype, write)
