"""What the shape rules and kernels of the array ops share. Knows no op."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from millrace.compiler.xla import jnp, lax
from millrace.core.tensor_shape import TensorShape
from millrace.graph.shape_inference import ShapeContext


def shape_text(sizes: Any) -> str:
    """Sizes as TensorFlow's messages write them: ``[2,?]``."""
    return "[" + ",".join("?" if size is None else str(int(size)) for size in sizes) + "]"


#: Types of indices as numbers without a sign, with the largest: a negative one is larger than any
#: position.
_UNSIGNED = {
    np.dtype(np.int32): (np.uint32, (1 << 31) - 1),
    np.dtype(np.int64): (np.uint64, (1 << 63) - 1),
}


def are_rows(indices: Any, count: int) -> bool:
    """Whether all of `indices`, an array of NumPy's, are in [0, count)."""
    if not indices.size:
        return True
    unsigned, most = _UNSIGNED.get(indices.dtype, (None, 0))
    if unsigned is None or count > most:
        return bool(((indices >= 0) & (indices < count)).all())
    return bool(np.maximum.reduce(indices.view(unsigned), None) < count)


def normal_axis(axis: Any, rank: int, message: str) -> int:
    """`axis` counted from the front; ValueError with `message` if there is no such axis."""
    place = operator.index(axis)
    if not -rank <= place < rank:
        raise ValueError(message)
    return place % rank


def known_axis(c: ShapeContext, which: int | str, rank: int) -> int | None:
    """The axis that a scalar input names, where it is known.

    Raises:
      ValueError: There is no such axis.
    """
    value = c.value(which)
    if value is None:
        return None
    axis = int(value.item())
    return normal_axis(
        axis, rank, f"Axis {axis} is not in the interval [{-rank}, {rank}) of the dimensions"
    )


def require_rank(shape: TensorShape, rank: int) -> None:
    """Raises ValueError, in TensorFlow's words, if the rank is known and another."""
    if shape.sizes is not None and len(shape.sizes) != rank:
        raise ValueError(f"Shape must be rank {rank} but is rank {len(shape.sizes)}")


def require_rank_at_least(shape: TensorShape, rank: int) -> None:
    """Raises ValueError, in TensorFlow's words, if the rank is known and smaller."""
    if shape.sizes is not None and len(shape.sizes) < rank:
        raise ValueError(f"Shape must be at least rank {rank} but is rank {len(shape.sizes)}")


def zero_of(dtype: Any) -> Any:
    """The zero of an array's type: the empty string for strings."""
    return b"" if np.dtype(dtype).kind == "O" else np.zeros((), dtype)


def place_text(shape: tuple[int, ...], flat: int) -> str:
    """The place of an element, as in ``indices[1,0]``; empty for a scalar."""
    if not shape:
        return ""
    return "[" + ",".join(str(i) for i in np.unravel_index(flat, shape)) + "]"


def partition_shapes_text(data: Any, partitions: Any) -> str:
    """Says that the parts given for a tensor's slices are not one for each."""
    return (
        "data.shape must start with partitions.shape, got data.shape = "
        f"{shape_text(data)}, partitions.shape = {shape_text(partitions)}"
    )


def bad_partition_text(partitions: Any, count: int) -> str:
    """Names the first of some parts' numbers that is none of `count`."""
    flat = partitions.reshape(-1)
    first = int(np.argmax((flat < 0) | (flat >= count)))
    place = place_text(partitions.shape, first)
    return f"partitions{place} = {flat[first]} is not in [0, {count})"


def padded(x: Any, rows: list[tuple[int, int]], value: Any, xp: Any) -> Any:
    """An array with `value` around it."""
    if xp is np:
        sizes = [n + before + after for n, (before, after) in zip(x.shape, rows, strict=True)]
        result = np.full(sizes, value, x.dtype)
        result[tuple(slice(b, b + n) for n, (b, _) in zip(x.shape, rows, strict=True))] = x
        return result
    x = jnp.asarray(x)
    edge = jnp.asarray(value, x.dtype)
    return lax.pad(x, edge, [(before, after, 0) for before, after in rows])
