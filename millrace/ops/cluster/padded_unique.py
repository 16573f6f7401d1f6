"""Fixed-length forms of ops whose outputs are as long as the data says.

`passes/pad_unique.py` puts these where the users of the outputs leave padding out, so that
an update of rows is one XLA program. An index that is the largest of its type is padding: no
table has such a row, and XLA's scatters drop what is past the end. Nobody builds these ops.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from millrace.compiler.xla import jnp, lax
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, unknown
from millrace.ops.array.first_positions import first_positions
from millrace.ops.array.rules import bad_partition_text, partition_shapes_text, place_text

__all__: list[str] = []

#: Knuth's multiplier for hashing by multiplication: 2^32 divided by the golden ratio.
_GOLDEN = np.uint32(2654435769)
_LEAST_LENGTH = 8
#: From so many rows on, chance adds few to them.
_VARYING = 256


@functools.cache
def padding(dtype: Any) -> Any:
    """The index that stands for none."""
    none = np.asarray(np.iinfo(dtype).max, dtype)
    none.flags.writeable = False
    return none


def _unique_shapes(c: ShapeContext) -> Any:
    return [c.shape(0), c.shape(0)]


@op(
    "_PaddedUnique(x: T) -> (y: T, idx: out_idx) where T: {int32, int64}; "
    "out_idx: index = int32; padded: bool = false",
    shape=_unique_shapes,
    gradient=NO_GRADIENT,
)
def PaddedUnique(x: Any, *, padded: bool, check: Any, xp: Any) -> Any:
    """As Unique, but a value stays where it first occurs, and padding is put for the others.

    Args:
      x: A vector.
      padded: Whether it has padding already.
      check: States that it has none otherwise.
      xp: NumPy or JAX.
    """
    if x.ndim != 1:
        raise ValueError("unique expects a 1D vector.")
    count = x.shape[0]
    if not count:
        return x, np.zeros(0, np.int32)
    none = padding(x.dtype)
    if not padded:
        check(x != none, f"{none} is no index of a row")
    place = xp.arange(count, dtype=np.int32)
    if xp is np:
        first = first_positions(x)
        if first is None:
            _, firsts, inverse = np.unique(x, return_index=True, return_inverse=True)
            first = firsts.astype(np.int32)[inverse]
    else:
        first = _first_places(jnp.asarray(x), place)
    return xp.where(first == place, x, none), first


def _first_places(x: Any, place: Any) -> Any:
    """For each element where its value first occurs.

    Elements meet in a table of hashes, where the earliest of each entry wins, and all that
    equal it are done. Those with another value of the same hash go on to the next round.
    """
    count = x.shape[0]
    bits = max(8, (4 * count - 1).bit_length())
    low = x.astype(jnp.uint32)
    if x.dtype.itemsize > 4:
        low = low ^ (x >> 32).astype(jnp.uint32)
    entry = ((low * _GOLDEN) >> np.uint32(32 - bits)).astype(jnp.int32)
    size = 1 << bits

    def one_round(state: Any) -> Any:
        first, waits = state
        table = jnp.full(size + 1, count, jnp.int32)
        table = table.at[jnp.where(waits, entry, size)].min(place)
        winner = jnp.where(waits, table[entry], 0)
        done = waits & (x[winner] == x)
        return jnp.where(done, winner, first), waits & ~done

    start = jnp.zeros(count, jnp.int32), jnp.ones(count, bool)
    first, _ = lax.while_loop(lambda state: state[1].any(), one_round, start)
    return first


@op(
    "_MaskedPartition(data: T, partitions: int32) -> outputs: num_partitions*T where "
    "T: {int32, int64}; num_partitions: int >= 1",
    shape=unknown,
    gradient=NO_GRADIENT,
)
def MaskedPartition(data: Any, partitions: Any, *, num_partitions: int, check: Any, xp: Any) -> Any:
    """As DynamicPartition of a vector, but elements stay where they are, among padding."""
    if data.shape != partitions.shape:
        raise ValueError(partition_shapes_text(data.shape, partitions.shape))
    check(
        (partitions >= 0) & (partitions < num_partitions),
        lambda found: bad_partition_text(found, num_partitions),
        partitions,
    )
    none = padding(data.dtype)
    return [xp.where(partitions == i, data, none) for i in range(num_partitions)]


@op(
    "_MaskedStitch(indices: N*int32, data: N*T) -> merged: T where N: int >= 1",
    shape=unknown,
    gradient=NO_GRADIENT,
)
def MaskedStitch(indices: list[Any], data: list[Any], *, xp: Any) -> Any:
    """The inverse of a masked partition of 0, 1, 2, …: each row from the part that has it."""
    merged = data[0]
    none = padding(np.int32)
    for index, rows in zip(indices[1:], data[1:], strict=True):
        column = xp.reshape(index, index.shape + (1,) * (rows.ndim - 1))
        merged = xp.where(column == none, merged, rows)
    return merged


@op(
    "_MaskedTake(params: T, indices: Tindices) -> output: T where Tindices: {int32, int64}; "
    "in_place: bool = false; zeros: bool = false",
    shape=unknown,
    gradient=NO_GRADIENT,
)
def MaskedTake(
    params: Any, indices: Any, *, in_place: bool, zeros: bool, check: Any, xp: Any
) -> Any:
    """As Gather of rows; where the index is padding, any row.

    Args:
      params: The table.
      indices: A vector.
      in_place: Whether an index is its own place, or padding.
      zeros: Whether to put zeros where it is padding.
      check: States that the others name rows.
      xp: NumPy or JAX.
    """
    if in_place and params.shape[0] == indices.shape[0]:
        rows = xp.asarray(params)
    else:
        rows = _take(params, indices, check, xp)
    if zeros:
        column = xp.reshape(indices, indices.shape + (1,) * (rows.ndim - 1))
        rows = xp.where(column == padding(indices.dtype), xp.zeros((), rows.dtype), rows)
    return rows


@op(
    "_MaskedResourceTake(resource: resource, indices: Tindices) -> output: dtype where "
    "dtype: type; Tindices: {int32, int64}",
    shape=unknown,
    gradient=NO_GRADIENT,
    stateful=True,
)
def MaskedResourceTake(resource: Any, indices: Any, *, check: Any, xp: Any) -> Any:
    """As `MaskedTake`, of the variable behind a handle."""
    return _take(resource.read(), indices, check, xp)


def _take(params: Any, indices: Any, check: Any, xp: Any) -> Any:
    check_padded(indices, params.shape[0], check)
    if not params.shape[0]:
        return xp.zeros(indices.shape + params.shape[1:], params.dtype)
    rows = xp.where(indices == padding(indices.dtype), 0, indices)
    return xp.take(params, rows, axis=0, mode="clip")


def check_padded(indices: Any, count: int, check: Any) -> None:
    """Fails the step unless all of `indices` that are not padding name one of `count` rows."""
    none = padding(indices.dtype)

    def complaint(found: Any) -> str:
        flat = found.reshape(-1)
        bad = int(np.argmax((flat != none) & ((flat < 0) | (flat >= count))))
        return f"indices{place_text(found.shape, bad)} = {flat[bad]} is not in [0, {count})"

    check((indices == none) | ((indices >= 0) & (indices < count)), complaint, indices)


@op(
    "_PaddedCast(x: SrcT) -> y: DstT where SrcT: {int32, int64}; DstT: {int32, int64}",
    shape=lambda c: c.shape(0),
    gradient=NO_GRADIENT,
)
def PaddedCast(x: Any, *, DstT: Any, xp: Any) -> Any:
    """As Cast; padding stays padding."""
    to = DstT.as_numpy_dtype
    return xp.where(x == padding(x.dtype), padding(to), xp.asarray(x).astype(to))


def padded_length(count: int, last: int = 0) -> int:
    """How long something with `count` rows is made.

    There are eight lengths to each power of two. The length of the step before stays as long as
    it is not far too long, so that numbers around a border do not lead to and fro; and a new one
    has room for what chance will add, so that the next steps need no other program.

    Args:
      count: The rows that there are.
      last: The length of the step before; 0 if there was none.
    """
    length = _rounded(count)
    if length <= last <= 2 * length:
        return last
    return _rounded(count + 2 * math.isqrt(count)) if count >= _VARYING else length


def _rounded(count: int) -> int:
    step = 1 << max(count.bit_length() - 4, 3)
    return max(_LEAST_LENGTH, -(-count // step) * step)
