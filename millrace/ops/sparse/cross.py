"""Feature crosses: every combination of the features of a row, as strings or hash buckets.

Host kernels. The hashes are part of saved models: they are those of TensorFlow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.strings import fingerprint
from millrace.ops.strings.string_arrays import strings

__all__: list[str] = []

#: The key with which crosses are hashed unless a program gives another.
DEFAULT_HASH_KEY = 956888297470


def _cross_shape(c: ShapeContext) -> list[TensorShape]:
    return [TensorShape([None, 2]), TensorShape([None]), TensorShape([2])]


class _Column(NamedTuple):
    """A column's features, row after row, and how many each row has."""

    entries: Any
    counts: Any


def _columns(
    indices: list[Any], values: list[Any], shapes: list[Any], dense: list[Any]
) -> tuple[list[_Column], int]:
    """The columns (sparse ones first), and the number of rows."""
    sizes = [int(shape[0]) for shape in shapes] + [
        part.shape[0] if part.ndim else 0 for part in dense
    ]
    for i, part in enumerate(dense):
        if part.ndim != 2:
            raise ValueError(
                f"Dense inputs should be a matrix but received shape {list(part.shape)} at "
                f"position {i}"
            )
    for i, size in enumerate(sizes):
        if size != sizes[0]:
            raise ValueError(f"Expected batch size {sizes[0]} got {size} at position {i}")
    columns: list[_Column] = []
    for where, entries, size in zip(indices, values, sizes, strict=False):
        bounds = np.searchsorted(where[:, 0], np.arange(size + 1))
        columns.append(_Column(entries[bounds[0] : bounds[-1]], np.diff(bounds)))
    columns.extend(_Column(part.ravel(), np.full(*part.shape)) for part in dense)
    return columns, sizes[0] if sizes else 0


def _crossed(columns: list[_Column], rows: int) -> tuple[Any, list[Any], Any]:
    """All combinations of each row, of which the last column varies fastest.

    Returns:
      Their indices, of each column the features that they are made of, and the shape.
    """
    counts = np.ones(rows, np.int64)
    for column in columns:
        counts = counts * column.counts
    row = np.repeat(np.arange(rows), counts)
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    rest, chosen = place, []
    for entries, lengths in reversed(columns):
        starts = np.cumsum(lengths) - lengths
        chosen.append(entries[starts[row] + rest % lengths[row]])
        rest = rest // lengths[row]
    indices = np.stack([row, place], 1).astype(np.int64)
    return indices, chosen[::-1], np.array([rows, counts.max(initial=0)], np.int64)


def _joined(columns: list[_Column], rows: int, separator: bytes) -> Any:
    def written(values: Any) -> list[bytes]:
        if values.dtype == object:
            found: list[bytes] = values.tolist()
            return found
        return [str(value).encode() for value in values.tolist()]

    indices, chosen, shape = _crossed(columns, rows)
    parts = [written(values) for values in chosen]
    return indices, strings(separator.join(cross) for cross in zip(*parts, strict=True)), shape


def _hashed(
    columns: list[_Column], rows: int, first: int | None, buckets: int, hash_strings: Any
) -> Any:
    """Crosses as hashes: fingerprints of the features, concatenated from left to right."""
    numbers = [
        column._replace(entries=hash_strings(column.entries.tolist()))
        if column.entries.dtype == object
        else column
        for column in columns
    ]
    indices, chosen, shape = _crossed(numbers, rows)
    parts = [values.astype(np.uint64) for values in chosen]
    if first is None:
        total, rest = parts[0], parts[1:]
    else:
        total, rest = np.full(len(indices), first & (1 << 64) - 1, np.uint64), parts
    for part in rest:
        total = fingerprint.concatenate64(total, part)
    limit = buckets if buckets > 0 else np.iinfo(np.int64).max
    return indices, (total % np.uint64(limit)).astype(np.int64), shape


_INPUTS = "(indices: N*int64, values: [sparse_types], shapes: N*int64, dense_inputs: [dense_types]"
_TYPES = "sparse_types: list({int64, string}) >= 0; dense_types: list({int64, string}) >= 0"


@op(
    f"SparseCross{_INPUTS}) -> "
    "(output_indices: int64, output_values: out_type, output_shape: int64) where N: int >= 0; "
    f"hashed_output: bool; num_buckets: int >= 0; hash_key: int; {_TYPES}; "
    "out_type: {int64, string}; internal_type: {int64, string}",
    shape=_cross_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def SparseCross(
    indices: list[Any],
    values: list[Any],
    shapes: list[Any],
    dense_inputs: list[Any],
    *,
    hashed_output: bool,
    num_buckets: int,
    hash_key: int,
) -> Any:
    """Crosses as strings or hash buckets, as TensorFlow 1 asks for them."""
    columns, rows = _columns(indices, values, shapes, dense_inputs)
    if not hashed_output:
        return _joined(columns, rows, b"_X_")
    return _hashed(columns, rows, hash_key, num_buckets, fingerprint.fingerprint64)


@op(
    f"SparseCrossV2{_INPUTS}, sep: string) -> "
    "(output_indices: int64, output_values: string, output_shape: int64) where N: int >= 0; "
    f"{_TYPES}",
    shape=_cross_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def SparseCrossV2(
    indices: list[Any], values: list[Any], shapes: list[Any], dense_inputs: list[Any], sep: Any
) -> Any:
    """Crosses as strings."""
    columns, rows = _columns(indices, values, shapes, dense_inputs)
    return _joined(columns, rows, sep.item())


@op(
    f"SparseCrossHashed{_INPUTS}, num_buckets: int64, strong_hash: bool, salt: int64) -> "
    "(output_indices: int64, output_values: int64, output_shape: int64) where N: int >= 0; "
    f"{_TYPES}",
    shape=_cross_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def SparseCrossHashed(
    indices: list[Any],
    values: list[Any],
    shapes: list[Any],
    dense_inputs: list[Any],
    num_buckets: Any,
    strong_hash: Any,
    salt: Any,
) -> Any:
    """Crosses as hash buckets, with a salt, and with a keyed hash if wanted."""
    columns, rows = _columns(indices, values, shapes, dense_inputs)
    key = (int(salt[0]), int(salt[1]))
    # An integer is hashed by its lowest four bytes, in TensorFlow too.
    columns = [
        column
        if column.entries.dtype == object
        else column._replace(entries=strings(v.tobytes()[:4] for v in column.entries))
        for column in columns
    ]

    def keyed(batch: list[bytes]) -> Any:
        return np.array([fingerprint.siphash(s, key) for s in batch], np.uint64)

    hash_strings = keyed if strong_hash else fingerprint.fingerprint64
    return _hashed(columns, rows, None, int(num_buckets), hash_strings)


def _parts(inputs: Any, complaint: str) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    if not isinstance(inputs, list | tuple):
        raise TypeError("Inputs must be a list")
    if not all(isinstance(item, SparseTensor | Tensor) for item in inputs):
        raise TypeError(complaint)

    def whole(tensor: Tensor) -> Tensor:
        return tensor if tensor.dtype == dtypes.string else cast.cast(tensor, dtypes.int64)

    sparse = [item for item in inputs if isinstance(item, SparseTensor)]
    dense = [whole(item) for item in inputs if not isinstance(item, SparseTensor)]
    return (
        [item.indices for item in sparse],
        [whole(item.values) for item in sparse],
        [item.dense_shape for item in sparse],
        dense,
    )


def sparse_cross(inputs: Any, name: str | None = None, separator: Any = None) -> SparseTensor:
    """`tf.sparse.cross`: every combination of the features of a row, joined by a separator."""
    mark = convert_to_tensor("_X_" if separator is None else separator, dtypes.string)
    parts = _parts(inputs, "All inputs must be Tensor or SparseTensor.")
    return SparseTensor(*SparseCrossV2(*parts, mark, name=name))


def sparse_cross_hashed(
    inputs: Any, num_buckets: int = 0, hash_key: int | None = None, name: str | None = None
) -> SparseTensor:
    """`tf.sparse.cross_hashed`: every combination of the features of a row, as a hash bucket.

    Args:
      inputs: SparseTensors and matrices of strings or integers.
      num_buckets: How many buckets; 0 for as many as there are hashes.
      hash_key: Starts the hashes; programs that use several crosses give each its own.
      name: The operation's name.
    """
    indices, values, shapes, dense = _parts(inputs, "All inputs must be SparseTensors")
    is_text = all(tensor.dtype == dtypes.string for tensor in [*values, *dense])
    parts = SparseCross(
        indices,
        values,
        shapes,
        dense,
        hashed_output=True,
        num_buckets=num_buckets,
        hash_key=hash_key or DEFAULT_HASH_KEY,
        out_type=dtypes.int64,
        internal_type=dtypes.string if is_text else dtypes.int64,
        name=name,
    )
    return SparseTensor(*parts)
