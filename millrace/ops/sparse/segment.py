"""Segments over chosen rows: ``segment_sum(gather(data, indices), segment_ids)`` in one op.

These carry the lookup of several embeddings per example. Without a given number of segments
the result's shape depends on data (host ops on NumPy); with one, and in the gradients, they
are XLA gathers and scatters.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from millrace.compiler.row_sums import add_to_rows, sums_by_row
from millrace.compiler.xla import jnp
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.define import Op, op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.array import shape as array_shape
from millrace.ops.array.rules import are_rows
from millrace.platform import limits

__all__ = ["sparse_segment_mean", "sparse_segment_sqrt_n", "sparse_segment_sum"]

_FLOATS = "{bfloat16, float16, float32, float64}"
_INDEX_TYPES = "Tidx: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32"
_COUNTED_INDEX_TYPES = (
    "Tidx: {int32, int64} = int32; Tnumsegments: {int32, int64} = int32; "
    "Tsegmentids: {int32, int64} = int32"
)


# -- Shapes ------------------------------------------------------------------------------


def _require_vectors(c: ShapeContext) -> None:
    indices, ids = c.shape("indices"), c.shape("segment_ids")
    for shape in (indices, ids):
        if shape.ndims not in (None, 1):
            raise ValueError(f"Shape must be rank 1 but is rank {shape.ndims}")
    indices.merge_with(ids)


def _rows_behind(c: ShapeContext, name: str, rows: int | None) -> TensorShape:
    _require_vectors(c)
    data = c.shape(name)
    if data.sizes is None:
        return unknown_shape()
    if not data.sizes:
        raise ValueError("Shape must be at least rank 1 but is rank 0")
    return TensorShape([rows, *data.sizes[1:]])


def _open_shape(c: ShapeContext) -> TensorShape:
    ids = c.value("segment_ids")
    rows = None if ids is None or ids.ndim != 1 else (int(ids[-1]) + 1 if ids.size else 0)
    return _rows_behind(c, "data", rows)


def _counted(name: str, data: str) -> Any:
    """The rule for results with a given number of rows."""

    def rule(c: ShapeContext) -> TensorShape:
        value = c.value(name)
        if value is not None and int(value) < 0:
            raise ValueError("Cannot specify a negative value for num_segments")
        return _rows_behind(c, data, None if value is None else int(value))

    return rule


def _unique_shapes(c: ShapeContext) -> list[TensorShape]:
    return [_rows_behind(c, "grad", None), TensorShape([None])]


# -- Kernels -----------------------------------------------------------------------------


def _divisor(counts: Any, norm: str, xp: Any) -> Any:
    """What sums over segments are divided by, given how many members the segments have."""
    counts = xp.maximum(counts, 1)
    return xp.sqrt(counts) if norm == "sqrtn" else counts


def _beside(vector: Any, rows: Any) -> Any:
    return vector.reshape((-1,) + (1,) * (rows.ndim - 1))


def _wide_type(data: Any) -> Any:
    """Half-precision numbers are added up as float32."""
    is_half = data.dtype.itemsize == 2 and data.dtype.kind not in "iu"
    return np.float32 if is_half else data.dtype


def _open_reduction(data: Any, indices: Any, ids: Any, norm: str) -> Any:
    """The host kernel: as many rows as the last number says."""
    if ids.size != indices.size:
        raise ValueError("segment_ids and indices should have same size.")
    if ids.size and int(ids[0]) < 0:
        raise ValueError("segment ids must be >= 0")
    if (ids[1:] < ids[:-1]).any():
        raise ValueError("segment ids are not increasing")
    if not are_rows(indices, data.shape[0]):
        raise ValueError(_out_of_range("indices", data.shape[0])(indices))
    rows = int(ids[-1]) + 1 if ids.size else 0
    limits.check_array(rows * math.prod(data.shape[1:]), data.itemsize, "the segments")
    result = np.zeros((rows, *data.shape[1:]), _wide_type(data))
    if ids.size:
        members = data.take(indices, 0).astype(result.dtype, copy=False)
        add_to_rows(result, ids, members)
        if norm:
            counts = np.bincount(ids, minlength=rows).astype(result.dtype)
            result /= _beside(_divisor(counts, norm, np), result)
    return result


def _counted_reduction(
    data: Any, indices: Any, ids: Any, num_segments: Any, norm: str, check: Any, xp: Any
) -> Any:
    """The kernel for a given number of rows."""
    rows, size = int(num_segments), data.shape[0]
    if rows < 0:
        raise ValueError(f"num_segments must not be negative, but is {rows}")
    check(ids[1:] >= ids[:-1], "segment ids are not increasing")
    check(ids >= 0, "segment ids must be >= 0")
    check(ids < rows, "segment ids must be < num_segments")
    check((indices >= 0) & (indices < size), _out_of_range("indices", size), indices)
    kind = _wide_type(data)
    members = xp.asarray(data)[indices].astype(kind)
    total = _sums(rows, ids, members, xp)
    if norm:
        counts = _sums(rows, ids, xp.ones(ids.shape, kind), xp)
        total = total / _beside(_divisor(counts, norm, xp), total)
    return total


def _sums(rows: int, places: Any, values: Any, xp: Any) -> Any:
    """The sums of values by row."""
    if xp is np:
        return sums_by_row(rows, places, values)
    return jnp.zeros((rows, *values.shape[1:]), values.dtype).at[places].add(values, mode="drop")


def _out_of_range(name: str, limit: int) -> Any:
    def complaint(found: np.ndarray) -> str:
        place = int(np.flatnonzero((found < 0) | (found >= limit))[0])
        return f"Bad: {name}[{place}] == {found[place]} out of range [0, {limit})"

    return complaint


def _row_gradients(grad: Any, ids: Any, norm: str, check: Any, xp: Any) -> Any:
    """For each chosen row its part of the gradient of its segment."""
    segments = grad.shape[0]
    if xp is not np or not are_rows(ids, segments):
        check((ids >= 0) & (ids < segments), _out_of_range("segment_ids", segments), ids)
    if xp is np:
        if norm:
            counts = np.bincount(ids, minlength=segments).astype(grad.dtype)
            grad = grad / _beside(_divisor(counts, norm, np), grad)
        return grad.take(ids, 0)
    if norm:
        counts = _sums(segments, ids, xp.ones(ids.shape, grad.dtype), xp)
        grad = grad / _beside(_divisor(counts, norm, xp), grad)
    return xp.asarray(grad)[ids]


def _scattered_gradient(
    grad: Any, indices: Any, ids: Any, output_dim0: Any, norm: str, check: Any, xp: Any
) -> Any:
    rows = int(output_dim0)
    if xp is not np or not are_rows(indices, rows):
        check((indices >= 0) & (indices < rows), _out_of_range("indices", rows), indices)
    parts = _row_gradients(grad, ids, norm, check, xp)
    return _sums(rows, indices, parts, xp)


def _unique_gradient(grad: Any, indices: Any, ids: Any, norm: str) -> tuple[Any, Any]:
    """The gradient as sorted unique rows and their values; a host kernel."""
    kind = _wide_type(grad)
    grad = grad.astype(kind)
    if not are_rows(ids, grad.shape[0]):
        raise ValueError(_out_of_range("segment_ids", grad.shape[0])(ids))
    if norm:
        counts = np.bincount(ids, minlength=grad.shape[0]).astype(kind)
        grad = grad / _beside(_divisor(counts, norm, np), grad)
    rows, places = np.unique(indices, return_inverse=True)
    values = np.zeros((rows.size, *grad.shape[1:]), kind)
    np.add.at(values, places, grad[ids])
    return values, rows


# -- The three families: sum, mean, sum over the root of the count -----------------------


class _Family:
    """The op types of one way to combine: open, counted, and their gradients."""

    def __init__(self, suffix: str, norm: str, types: str) -> None:
        self.norm = norm
        base = f"SparseSegment{suffix}"

        @op(
            f"{base}(data: T, indices: Tidx, segment_ids: Tsegmentids) -> output: T "
            f"where T: {types}; {_INDEX_TYPES}; sparse_gradient: bool = false",
            shape=_open_shape,
            gradient=self.gradient,
            host=True,
        )
        def open_kernel(data: Any, indices: Any, segment_ids: Any) -> Any:
            return _open_reduction(data, indices, segment_ids, norm)

        @op(
            f"{base}WithNumSegments(data: T, indices: Tidx, segment_ids: Tsegmentids, "
            f"num_segments: Tnumsegments) -> output: T "
            f"where T: {types}; {_COUNTED_INDEX_TYPES}; sparse_gradient: bool = false",
            shape=_counted("num_segments", "data"),
            static=("num_segments",),
            gradient=self.gradient,
        )
        def counted_kernel(
            data: Any, indices: Any, segment_ids: Any, num_segments: Any, *, check: Any, xp: Any
        ) -> Any:
            return _counted_reduction(data, indices, segment_ids, num_segments, norm, check, xp)

        @op(
            f"{base}Grad(grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: int32) "
            f"-> output: T where T: {_FLOATS}; {_INDEX_TYPES}",
            shape=_counted("output_dim0", "grad"),
            static=("output_dim0",),
            gradient=self.gradient_of_gradient,
        )
        def gradient_kernel(
            grad: Any, indices: Any, segment_ids: Any, output_dim0: Any, *, check: Any, xp: Any
        ) -> Any:
            return _scattered_gradient(grad, indices, segment_ids, output_dim0, norm, check, xp)

        @op(
            f"{base}GradV2(grad: T, indices: Tidx, segment_ids: Tsegmentids, "
            "dense_output_dim0: int32) -> (output: T, sorted_unique_indices: Tidx) "
            f"where T: {_FLOATS}; {_INDEX_TYPES}",
            shape=_unique_shapes,
            gradient=NO_GRADIENT,
            host=True,
        )
        def unique_kernel(grad: Any, indices: Any, segment_ids: Any, dense_output_dim0: Any) -> Any:
            return _unique_gradient(grad, indices, segment_ids, norm)

        self.open: Op = open_kernel
        self.counted: Op = counted_kernel
        self.dense_gradient: Op = gradient_kernel
        self.unique_gradient: Op = unique_kernel

    def gradient(self, op: Operation, grad: Any) -> Any:
        """The gradient of the open and the counted op: dense, or IndexedSlices if asked for."""
        data, indices, ids = op.inputs[:3]
        shape = array_shape.shape(data)
        others = [None] * (len(op.inputs) - 1)
        if op.get_attr("sparse_gradient"):
            values, rows = self.unique_gradient(grad, indices, ids, shape[0])
            return IndexedSlices(values, rows, shape), *others
        return self.dense_gradient(grad, indices, ids, shape[0]), *others

    def gradient_of_gradient(self, op: Operation, grad: Any) -> Any:
        """The gradient op is linear in its first input: backwards it is the forward op."""
        first, indices, ids = op.inputs[:3]
        rows = array_shape.shape(first)[0]
        return self.counted(grad, indices, ids, rows), None, None, None

    def build(
        self,
        data: Any,
        indices: Any,
        segment_ids: Any,
        name: str | None,
        num_segments: Any,
        sparse_gradient: bool,
    ) -> Tensor:
        """The open op, or the counted one if the number of segments is given."""
        if num_segments is None:
            return self.open(data, indices, segment_ids, sparse_gradient=sparse_gradient, name=name)
        return self.counted(
            data,
            indices,
            segment_ids,
            num_segments,
            sparse_gradient=sparse_gradient,
            name=name,
        )


_sum = _Family("Sum", "", "real")
_mean = _Family("Mean", "mean", _FLOATS)
_sqrt_n = _Family("SqrtN", "sqrtn", _FLOATS)


def sparse_segment_sum(
    data: Any,
    indices: Any,
    segment_ids: Any,
    name: str | None = None,
    num_segments: Any = None,
    sparse_gradient: bool = False,
) -> Tensor:
    """Sums of the rows of `data` at `indices` that have the same number in `segment_ids`.

    Args:
      data: The tensor.
      indices: Which rows of it, a vector.
      segment_ids: The number of each row's segment, sorted.
      name: The node's name.
      num_segments: How many segments there are; the last number plus one when None.
      sparse_gradient: Whether the gradient is an IndexedSlices.
    """
    return _sum.build(data, indices, segment_ids, name, num_segments, sparse_gradient)


def sparse_segment_mean(
    data: Any,
    indices: Any,
    segment_ids: Any,
    name: str | None = None,
    num_segments: Any = None,
    sparse_gradient: bool = False,
) -> Tensor:
    """As `sparse_segment_sum`, divided by the number of rows in the segment."""
    return _mean.build(data, indices, segment_ids, name, num_segments, sparse_gradient)


def sparse_segment_sqrt_n(
    data: Any,
    indices: Any,
    segment_ids: Any,
    name: str | None = None,
    num_segments: Any = None,
    sparse_gradient: bool = False,
) -> Tensor:
    """As `sparse_segment_sum`, divided by the root of the number of rows in the segment."""
    return _sqrt_n.build(data, indices, segment_ids, name, num_segments, sparse_gradient)
