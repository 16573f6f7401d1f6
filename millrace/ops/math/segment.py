"""Sums, means, products and extremes over segments: rows that carry the same number.

Where the number of segments is the last number plus one (SegmentSum, SparseSegmentMean) the
result's shape depends on data, so these are host ops on NumPy. Where it is given
(UnsortedSegmentSum, SparseSegmentMeanWithNumSegments, the gradients) they are XLA scatters.
Rows of a segment without members hold the neutral value that TensorFlow puts there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.compiler.row_sums import sums_by_row
from millrace.compiler.xla import jnp
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import Op, op
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import gather as array_gather
from millrace.ops.array import join as array_join
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.array.rules import are_rows
from millrace.ops.math import arithmetic, comparison, elementwise
from millrace.ops.math.broadcasting import shape_text
from millrace.platform import limits

__all__ = [
    "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum",
    "unsorted_segment_max", "unsorted_segment_mean", "unsorted_segment_min",
    "unsorted_segment_prod", "unsorted_segment_sqrt_n", "unsorted_segment_sum",
]  # fmt: skip


# -- Segments in order: the last number decides the shape --------------------------------


def _rows_shape(c: ShapeContext) -> TensorShape:
    data, ids = c.shape("data"), c.shape("segment_ids")
    if ids.ndims not in (None, 1):
        raise ValueError(f"Shape must be rank 1 but is rank {ids.ndims}")
    if data.sizes is None:
        return unknown_shape()
    if not data.sizes:
        raise ValueError("Shape must be at least rank 1 but is rank 0")
    value = c.value("segment_ids")
    rows = None if value is None else (int(value[-1]) + 1 if value.size else 0)
    return TensorShape([rows, *data.sizes[1:]])


def _require_increasing(ids: np.ndarray) -> None:
    if np.any(ids[1:] < ids[:-1]):
        raise ValueError("segment ids are not increasing")
    if ids.size and int(ids[0]) < 0:
        raise ValueError(
            f"Segment id {ids[0]} out of range [0, {int(ids[-1]) + 1}), possibly because "
            "'segment_ids' input is not sorted."
        )


def _reduce_segments(data: np.ndarray, ids: np.ndarray, ufunc: np.ufunc, empty: Any) -> np.ndarray:
    """Reduces consecutive rows with the same number; `empty` fills numbers without rows."""
    _require_increasing(ids)
    rows = int(ids[-1]) + 1 if ids.size else 0
    limits.check_array(rows * math.prod(data.shape[1:]), data.itemsize, "the segments")
    result = np.full((rows, *data.shape[1:]), empty, data.dtype)
    if ids.size:
        starts = np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1])
        result[ids[starts]] = ufunc.reduceat(data, starts, axis=0, dtype=data.dtype)
    return result


def _require_one_id_a_row(data: np.ndarray, ids: np.ndarray) -> None:
    if ids.ndim != 1:
        raise ValueError(f"segment_ids should be a vector, got shape {shape_text(ids.shape)}")
    if data.ndim == 0 or data.shape[0] != ids.size:
        raise ValueError("segment_ids should be the same size as dimension 0 of input.")


def _wide(data: np.ndarray) -> np.ndarray:
    """Half-precision numbers are added up as float32."""
    is_half = data.dtype.itemsize == 2 and data.dtype.kind not in "iu"
    return data.astype(np.float32) if is_half else data


def _counts(ids: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Members of each segment, shaped to broadcast against rows; at least 1."""
    counts = np.maximum(np.bincount(ids, minlength=1 if ids.size else 0), 1)
    return counts.reshape((-1,) + (1,) * (like.ndim - 1)).astype(like.dtype)


_NUMBERS = "T: number; Tindices: {int32, int64}"
_REALS = "T: real; Tindices: {int32, int64}"


@op(
    f"SegmentSum(data: T, segment_ids: Tindices) -> output: T where {_NUMBERS}",
    shape=_rows_shape,
    host=True,
)
def SegmentSum(data: Any, segment_ids: Any) -> Any:
    _require_one_id_a_row(data, segment_ids)
    return _reduce_segments(_wide(data), segment_ids, np.add, 0)


@op(
    f"SegmentMean(data: T, segment_ids: Tindices) -> output: T where {_NUMBERS}",
    shape=_rows_shape,
    host=True,
)
def SegmentMean(data: Any, segment_ids: Any) -> Any:
    _require_one_id_a_row(data, segment_ids)
    total = _reduce_segments(_wide(data), segment_ids, np.add, 0)
    counts = _counts(segment_ids, total)
    return np.trunc(total / counts) if total.dtype.kind in "iu" else total / counts


@op(
    f"SegmentProd(data: T, segment_ids: Tindices) -> output: T where {_NUMBERS}",
    shape=_rows_shape,
    host=True,
)
def SegmentProd(data: Any, segment_ids: Any) -> Any:
    _require_one_id_a_row(data, segment_ids)
    return _reduce_segments(_wide(data), segment_ids, np.multiply, 1)


@op(
    f"SegmentMax(data: T, segment_ids: Tindices) -> output: T where {_REALS}",
    shape=_rows_shape,
    host=True,
)
def SegmentMax(data: Any, segment_ids: Any) -> Any:
    _require_one_id_a_row(data, segment_ids)
    return _reduce_segments(_wide(data), segment_ids, np.maximum, 0)


@op(
    f"SegmentMin(data: T, segment_ids: Tindices) -> output: T where {_REALS}",
    shape=_rows_shape,
    host=True,
)
def SegmentMin(data: Any, segment_ids: Any) -> Any:
    _require_one_id_a_row(data, segment_ids)
    return _reduce_segments(_wide(data), segment_ids, np.minimum, 0)


@SegmentSum.gradient
def _(op: Operation, grad: Any) -> Any:
    return array_gather.gather(grad, op.inputs[1]), None


@SegmentMean.gradient
def _(op: Operation, grad: Any) -> Any:
    ids = op.inputs[1]
    ones = array_fill.ones_like(ids, dtype=grad.dtype.base_dtype)
    counts = _beside_rows(SegmentSum(ones, ids), grad)
    return array_gather.gather(grad / counts, ids), None


@SegmentMax.gradient
@SegmentMin.gradient
def _(op: Operation, grad: Any) -> Any:
    data, ids = op.inputs
    chosen = comparison.equal(data, array_gather.gather(op.outputs[0], ids))
    ties = SegmentSum(cast.cast(chosen, grad.dtype.base_dtype), ids)
    shared = array_gather.gather(grad / ties, ids)
    return array_select.where_v2(chosen, shared, array_fill.zeros_like(data)), None


@SegmentProd.gradient
def _(op: Operation, grad: Any) -> Any:
    data, ids = op.inputs
    product = _ProductGradient(data, lambda values: SegmentSum(values, ids))
    others = SegmentProd(product.without_zeros, ids)
    share = product.of_others(
        array_gather.gather(op.outputs[0], ids), array_gather.gather(others, ids)
    )
    return array_gather.gather(product.passed(grad), ids) * share, None


class _ProductGradient:
    """The pieces of the gradient of products over segments, with zeros among the factors.

    A factor's derivative is the product of the others. Without zeros that is the product
    divided by the factor; with one zero, only that factor has a derivative, the product of the
    rest; with more zeros, none has.
    """

    def __init__(self, data: Any, segment_sum_of: Callable[[Any], Any]) -> None:
        zero = convert_to_tensor(0, data.dtype.base_dtype)
        self._is_zero = comparison.equal(data, zero)
        self._zeros = segment_sum_of(cast.cast(self._is_zero, "int32"))
        self.without_zeros = array_select.where_v2(self._is_zero, array_fill.ones_like(data), data)

    def passed(self, grad: Any) -> Any:
        """`grad` of the segments, 0 where two factors are 0."""
        return array_select.where_v2(
            comparison.greater(self._zeros, 1), array_fill.zeros_like(grad), grad
        )

    def of_others(self, product: Any, product_without_zeros: Any) -> Any:
        """For each factor the product of the others, given both products of its segment."""
        divided = product / self.without_zeros
        return array_select.where_v2(self._is_zero, product_without_zeros, divided)


def _beside_rows(vector: Any, rows: Any) -> Any:
    """A vector with as many axes of size 1 behind it as `rows` has."""
    rank = rows.shape.ndims
    if rank is not None:
        return array_shape.reshape(vector, [-1] + [1] * (rank - 1))
    ones = array_fill.ones([array_shape.rank(rows) - 1], dtype="int32")
    return array_shape.reshape(vector, array_join.concat([array_shape.shape(vector), ones], 0))


def segment_sum(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Sums of the rows of `data` that have the same number in the sorted `segment_ids`."""
    return SegmentSum(data, segment_ids, name=name)


def segment_mean(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Means of the rows of `data` that have the same number in the sorted `segment_ids`."""
    return SegmentMean(data, segment_ids, name=name)


def segment_prod(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Products of the rows of `data` that have the same number in the sorted `segment_ids`."""
    return SegmentProd(data, segment_ids, name=name)


def segment_max(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Maxima of the rows of `data` that have the same number in the sorted `segment_ids`."""
    return SegmentMax(data, segment_ids, name=name)


def segment_min(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Minima of the rows of `data` that have the same number in the sorted `segment_ids`."""
    return SegmentMin(data, segment_ids, name=name)


# -- Segments in any order, their number given -------------------------------------------


def _given_rows_shape(c: ShapeContext) -> TensorShape:
    data, ids = c.shape("data"), c.shape("segment_ids")
    count = c.shape("num_segments")
    if count.ndims not in (None, 0):
        raise ValueError(f"Shape must be rank 0 but is rank {count.ndims}")
    if data.sizes is None or ids.sizes is None:
        return unknown_shape()
    if len(ids.sizes) > len(data.sizes):
        raise ValueError(
            f"Shape must be at least rank {len(ids.sizes)} but is rank {len(data.sizes)}"
        )
    for m, n in zip(data.sizes, ids.sizes, strict=False):
        if m is not None and n is not None and m != n:
            raise ValueError(f"Dimensions must be equal, but are {m} and {n}")
    return TensorShape([_row_count(c), *data.sizes[len(ids.sizes) :]])


def _row_count(c: ShapeContext) -> int | None:
    value = c.value("num_segments")
    if value is None:
        return None
    if int(value) < 0:
        raise ValueError(
            f"Dimension size, given by scalar input 2, must be non-negative but is {int(value)}"
        )
    return int(value)


def _scatter_places(data: Any, ids: Any, count: Any, check: Any, xp: Any = jnp) -> tuple[Any, int]:
    """Row numbers for a scatter that drops negative ones, and how many rows there are."""
    if data.shape[: ids.ndim] != ids.shape:
        raise ValueError(
            f"data.shape = {shape_text(data.shape)} does not start with segment_ids.shape = "
            f"{shape_text(ids.shape)}"
        )
    rows = int(count)
    if rows < 0:
        raise ValueError(f"Input num_segments == {rows} must not be negative.")

    def complaint(found: np.ndarray) -> str:
        place = np.argwhere(found >= rows)[0].tolist()
        return (
            f"segment_ids{shape_text(tuple(place))} = {found[tuple(place)]} is out of range "
            f"[0, {rows})"
        )

    if xp is np and are_rows(ids, rows):
        return ids, rows
    check(ids < rows, complaint, ids)
    return xp.where(ids < 0, rows, ids), rows


def _full(rows: int, data: Any, ids: Any, value: Any) -> Any:
    return jnp.full((rows, *data.shape[ids.ndim :]), value, data.dtype)


_UNSORTED = "Tindices: {int32, int64}; Tnumsegments: {int32, int64} = int32"


@op(
    "UnsortedSegmentSum(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> output: T "
    "where T: number; Tindices: {int16, int32, int64}; Tnumsegments: {int32, int64} = int32",
    shape=_given_rows_shape,
    static=("num_segments",),
)
def UnsortedSegmentSum(
    data: Any, segment_ids: Any, num_segments: Any, *, check: Any, xp: Any
) -> Any:
    places, rows = _scatter_places(data, segment_ids, num_segments, check, xp)
    if xp is np:
        flat = data.reshape((places.size, *data.shape[places.ndim :]))
        return sums_by_row(rows, places.reshape(-1), flat)
    return _full(rows, data, segment_ids, 0).at[places].add(data, mode="drop")


@op(
    "UnsortedSegmentProd(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> output: T "
    f"where T: number; {_UNSORTED}",
    shape=_given_rows_shape,
    static=("num_segments",),
)
def UnsortedSegmentProd(data: Any, segment_ids: Any, num_segments: Any, *, check: Any) -> Any:
    places, rows = _scatter_places(data, segment_ids, num_segments, check)
    return _full(rows, data, segment_ids, 1).at[places].multiply(data, mode="drop")


def _bounds(data: Any) -> tuple[Any, Any]:
    info = jnp.iinfo(data.dtype) if data.dtype.kind in "iu" else jnp.finfo(data.dtype)
    return info.min, info.max


@op(
    "UnsortedSegmentMax(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> output: T "
    f"where T: real; {_UNSORTED}",
    shape=_given_rows_shape,
    static=("num_segments",),
)
def UnsortedSegmentMax(data: Any, segment_ids: Any, num_segments: Any, *, check: Any) -> Any:
    places, rows = _scatter_places(data, segment_ids, num_segments, check)
    return _full(rows, data, segment_ids, _bounds(data)[0]).at[places].max(data, mode="drop")


@op(
    "UnsortedSegmentMin(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> output: T "
    f"where T: real; {_UNSORTED}",
    shape=_given_rows_shape,
    static=("num_segments",),
)
def UnsortedSegmentMin(data: Any, segment_ids: Any, num_segments: Any, *, check: Any) -> Any:
    places, rows = _scatter_places(data, segment_ids, num_segments, check)
    return _full(rows, data, segment_ids, _bounds(data)[1]).at[places].min(data, mode="drop")


class _Members:
    """Rows of a per-segment tensor for each member; 0 for members with a negative number."""

    def __init__(self, ids: Any) -> None:
        self._ids = ids
        self._places = arithmetic.maximum(ids, array_fill.zeros_like(ids))

    def gather_all(self, params: Any) -> Any:
        """As `gather`, but members with a negative number get row 0."""
        return array_gather.gather(params, self._places)

    def gather(self, params: Any) -> Any:
        """The row of its segment for each member."""
        gathered = self.gather_all(params)
        return array_select.where_v2(
            self.belongs(gathered), gathered, array_fill.zeros_like(gathered)
        )

    def belongs(self, rows: Any) -> Any:
        """Which members have a segment, shaped to broadcast against `rows`."""
        kept = comparison.greater_equal(self._ids, 0)
        rank, ids_rank = rows.shape.ndims, self._ids.shape.ndims
        if rank is not None and ids_rank is not None:
            for _ in range(rank - ids_rank):
                kept = array_shape.expand_dims(kept, -1)
            return kept
        more = array_fill.ones([array_shape.rank(rows) - array_shape.rank(kept)], dtype="int32")
        return array_shape.reshape(kept, array_join.concat([array_shape.shape(kept), more], 0))


@UnsortedSegmentSum.gradient
def _(op: Operation, grad: Any) -> Any:
    return _Members(op.inputs[1]).gather(grad), None, None


@UnsortedSegmentMax.gradient
@UnsortedSegmentMin.gradient
def _(op: Operation, grad: Any) -> Any:
    data, ids, count = op.inputs
    members = _Members(ids)
    chosen = comparison.equal(data, members.gather(op.outputs[0]))
    chosen = comparison.logical_and(chosen, members.belongs(data))
    ties = UnsortedSegmentSum(cast.cast(chosen, grad.dtype.base_dtype), ids, count)
    shared = members.gather(grad / ties)
    return array_select.where_v2(chosen, shared, array_fill.zeros_like(data)), None, None


@UnsortedSegmentProd.gradient
def _(op: Operation, grad: Any) -> Any:
    data, ids, count = op.inputs
    members = _Members(ids)
    product = _ProductGradient(data, lambda values: UnsortedSegmentSum(values, ids, count))
    others = UnsortedSegmentProd(product.without_zeros, ids, count)
    share = product.of_others(members.gather_all(op.outputs[0]), members.gather_all(others))
    return members.gather(product.passed(grad)) * share, None, None


def unsorted_segment_sum(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Sums of the parts of `data` that have the same number in `segment_ids`.

    Args:
      data: The tensor; its shape starts with that of `segment_ids`.
      segment_ids: The number of each part's segment; parts with a negative one are left out.
      num_segments: How many segments there are.
      name: The node's name.
    """
    return UnsortedSegmentSum(data, segment_ids, num_segments, name=name)


def unsorted_segment_prod(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Products over segments; see `unsorted_segment_sum`."""
    return UnsortedSegmentProd(data, segment_ids, num_segments, name=name)


def unsorted_segment_max(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Maxima over segments; the least number for empty ones. See `unsorted_segment_sum`."""
    return UnsortedSegmentMax(data, segment_ids, num_segments, name=name)


def unsorted_segment_min(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Minima over segments; the greatest number for empty ones. See `unsorted_segment_sum`."""
    return UnsortedSegmentMin(data, segment_ids, num_segments, name=name)


def _members_per_segment(data: Any, ids: Any, count: Any) -> Any:
    """Members of each segment, at least 1, shaped to broadcast against the segments."""
    kind: DType = data.dtype.base_dtype
    counts = UnsortedSegmentSum(array_fill.ones(array_shape.shape(ids), dtype=kind), ids, count)
    rank, ids_rank = data.shape.ndims, ids.shape.ndims
    if rank is not None and ids_rank is not None:
        counts = array_shape.reshape(counts, [-1] + [1] * (rank - ids_rank))
    else:
        more = array_fill.ones([array_shape.rank(data) - array_shape.rank(ids)], dtype="int32")
        counts = array_shape.reshape(
            counts, array_join.concat([array_shape.shape(counts), more], 0)
        )
    return arithmetic.maximum(counts, convert_to_tensor(1, kind))


def unsorted_segment_mean(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Means over segments; 0 for empty ones. See `unsorted_segment_sum`."""
    with name_scope(name, "UnsortedSegmentMean", [data, segment_ids, num_segments]):
        data, ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
        total: Any = UnsortedSegmentSum(data, ids, num_segments)
        return total / _members_per_segment(data, ids, num_segments)


def unsorted_segment_sqrt_n(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Sums over segments divided by the root of their size. See `unsorted_segment_sum`."""
    with name_scope(name, "UnsortedSegmentSqrtN", [data, segment_ids, num_segments]):
        data, ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
        total: Any = UnsortedSegmentSum(data, ids, num_segments)
        return total / elementwise.sqrt(_members_per_segment(data, ids, num_segments))


# -- The V2 forms of the sorted ops, which XLA clients send ------------------------------


def _register_sorted_v2(name: str, base: Op, types: str) -> Op:
    """SegmentSumV2 and its like: sorted segments whose number is given."""

    @op(
        f"{name}(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> output: T "
        f"where T: {types}; {_UNSORTED}",
        shape=_given_rows_shape,
        static=("num_segments",),
        gradient=base.gradient_rule,
    )
    def kernel(data: Any, segment_ids: Any, num_segments: Any, *, check: Any) -> Any:
        return base.kernel(data, segment_ids, num_segments, check=check)

    return kernel


SegmentSumV2 = _register_sorted_v2("SegmentSumV2", UnsortedSegmentSum, "number")
SegmentProdV2 = _register_sorted_v2("SegmentProdV2", UnsortedSegmentProd, "number")
SegmentMaxV2 = _register_sorted_v2("SegmentMaxV2", UnsortedSegmentMax, "real")
SegmentMinV2 = _register_sorted_v2("SegmentMinV2", UnsortedSegmentMin, "real")
