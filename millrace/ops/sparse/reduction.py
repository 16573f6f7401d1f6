"""Sums, maxima and softmax of sparse tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.xla import jax
from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast, constant
from millrace.ops.array import gather as array_gather
from millrace.ops.array import shape as array_shape
from millrace.ops.math import numeric, reduction
from millrace.ops.sparse import arithmetic as sparse_arithmetic
from millrace.ops.sparse.sparse import as_sparse, linear_index

__all__ = [
    "sparse_reduce_max",
    "sparse_reduce_max_sparse",
    "sparse_reduce_sum",
    "sparse_reduce_sum_sparse",
    "sparse_softmax",
]


def _reduced_shape(c: ShapeContext) -> TensorShape:
    shape, axes = c.value_as_shape("input_shape"), c.value("reduction_axes")
    if shape.ndims is None or axes is None:
        return unknown_shape()
    rank = shape.ndims
    if any(not -rank <= axis < rank for axis in np.ravel(axes)):
        return unknown_shape()
    gone = {int(axis) % rank for axis in np.ravel(axes)}
    sizes = shape.as_list()
    if c.attr("keep_dims"):
        return TensorShape([1 if i in gone else size for i, size in enumerate(sizes)])
    return TensorShape([size for i, size in enumerate(sizes) if i not in gone])


def _kept_axes(rank: int, axes: Any) -> list[int]:
    gone = set()
    for axis in np.ravel(axes).tolist():
        if not -rank <= axis < rank:
            raise ValueError(
                f"Invalid reduction dimension {axis}, for input with {rank} dimensions."
            )
        gone.add(axis % rank)
    return [i for i in range(rank) if i not in gone]


def _dense_groups(
    indices: Any, shape: Any, axes: Any, keep_dims: bool, xp: Any
) -> tuple[Any, int, tuple[int, ...]]:
    """(group of each entry, number of groups, shape of the result)."""
    indices = xp.asarray(indices)
    sizes = [int(size) for size in shape]
    kept = _kept_axes(len(sizes), axes)
    kept_sizes = [sizes[i] for i in kept]
    count = int(np.prod(kept_sizes))
    if kept:
        groups = linear_index(xp, indices[:, np.array(kept)], np.array(kept_sizes, np.int64))
    else:
        groups = xp.zeros(indices.shape[0], np.int64)
    if keep_dims:
        return groups, count, tuple(s if i in kept else 1 for i, s in enumerate(sizes))
    return groups, count, tuple(kept_sizes)


_REDUCE = "(input_indices: int64, input_values: T, input_shape: int64, reduction_axes: int32) -> "


@op(
    f"SparseReduceSum{_REDUCE}output: T where keep_dims: bool = false; T: number",
    shape=_reduced_shape,
    static=("input_shape", "reduction_axes"),
)
def SparseReduceSum(
    input_indices: Any,
    input_values: Any,
    input_shape: Any,
    reduction_axes: Any,
    *,
    keep_dims: bool,
    xp: Any,
) -> Any:
    """Sums over dimensions, as a dense tensor."""
    groups, count, shape = _dense_groups(input_indices, input_shape, reduction_axes, keep_dims, xp)
    sums: Any
    if xp is np:
        sums = np.zeros(count, input_values.dtype)
        np.add.at(sums, groups, input_values)
    else:
        sums = jax.ops.segment_sum(xp.asarray(input_values), groups, count)
    return sums.reshape(shape)


@SparseReduceSum.gradient
def _(op: Operation, grad: Tensor) -> Any:
    indices: Any = op.inputs[0]
    shape: Any = op.inputs[2]
    kept: Any = reduction.reduced_shape(shape, op.inputs[3])
    scale = shape // cast.cast(kept, dtypes.int64)
    values_grad = array_gather.gather_nd(array_shape.reshape(grad, kept), indices // scale)
    return None, values_grad, None, None


@op(
    f"SparseReduceMax{_REDUCE}output: T where keep_dims: bool = false; T: real",
    shape=_reduced_shape,
    gradient=NO_GRADIENT,
    static=("input_shape", "reduction_axes"),
)
def SparseReduceMax(
    input_indices: Any,
    input_values: Any,
    input_shape: Any,
    reduction_axes: Any,
    *,
    keep_dims: bool,
    xp: Any,
) -> Any:
    """Largest entries over dimensions, as a dense tensor; 0 where there is none."""
    groups, count, shape = _dense_groups(input_indices, input_shape, reduction_axes, keep_dims, xp)
    most: Any
    if xp is np:
        most = np.zeros(count, input_values.dtype)
        first = np.full(count, -1)
        first[groups[::-1]] = np.arange(len(groups))[::-1]
        most[first >= 0] = input_values[first[first >= 0]]
        np.maximum.at(most, groups, input_values)
        return most.reshape(shape)
    values = xp.asarray(input_values)
    most = jax.ops.segment_max(values, groups, count)
    present = jax.ops.segment_sum(xp.ones(values.shape, np.int32), groups, count) > 0
    return xp.where(present, most, xp.zeros((), values.dtype)).reshape(shape)


def _sparse_result_shape(c: ShapeContext) -> list[TensorShape]:
    return [unknown_shape(2), unknown_shape(1), unknown_shape(1)]


_SPARSE_OUT = (
    "(output_indices: int64, output_values: T, output_shape: int64) where keep_dims: bool = false"
)


def _sparse_groups(
    indices: Any, values: Any, shape: Any, axes: Any, keep_dims: bool, combine: Any
) -> tuple[Any, Any, Any]:
    kept = _kept_axes(len(shape), axes)
    columns = indices[:, kept]
    position = linear_index(np, columns, shape[kept]) if kept else np.zeros(len(indices), np.int64)
    _, first, inverse = np.unique(position, return_index=True, return_inverse=True)
    result = values[first].copy()
    rest = np.ones(len(values), bool)
    rest[first] = False
    combine.at(result, inverse[rest], values[rest])
    if not keep_dims:
        return columns[first], result, shape[kept]
    wide = np.zeros((len(first), len(shape)), np.int64)
    wide[:, kept] = columns[first]
    sizes = np.ones(len(shape), np.int64)
    sizes[kept] = shape[kept]
    return wide, result, sizes


@op(
    f"SparseReduceSumSparse{_REDUCE}{_SPARSE_OUT}; T: number",
    shape=_sparse_result_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def SparseReduceSumSparse(
    input_indices: Any,
    input_values: Any,
    input_shape: Any,
    reduction_axes: Any,
    *,
    keep_dims: bool,
) -> Any:
    """Sums over dimensions, as a sparse tensor."""
    return _sparse_groups(
        input_indices, input_values, input_shape, reduction_axes, keep_dims, np.add
    )


@op(
    f"SparseReduceMaxSparse{_REDUCE}{_SPARSE_OUT}; T: real",
    shape=_sparse_result_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def SparseReduceMaxSparse(
    input_indices: Any,
    input_values: Any,
    input_shape: Any,
    reduction_axes: Any,
    *,
    keep_dims: bool,
) -> Any:
    """Largest entries over dimensions, as a sparse tensor."""
    return _sparse_groups(
        input_indices, input_values, input_shape, reduction_axes, keep_dims, np.maximum
    )


def _axes(sparse: SparseTensor, axis: Any) -> Any:
    if axis is not None:
        return axis
    rank = sparse.get_shape().ndims
    if rank is not None:
        return constant.constant(np.arange(rank), dtypes.int32)
    return numeric.range(0, array_shape.rank(sparse))


def _either(new: Any, old: Any, new_name: str, old_name: str) -> Any:
    if old is None:
        return new
    if new is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'.")
    return old


def _reduce(op_type: Any, sp_input: Any, axis: Any, keepdims: Any) -> Any:
    sparse = as_sparse(sp_input)
    return op_type(
        sparse.indices,
        sparse.values,
        sparse.dense_shape,
        _axes(sparse, axis),
        keep_dims=bool(keepdims),
    )


def sparse_reduce_sum(
    sp_input: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Sums of a SparseTensor over dimensions, dense."""
    keepdims = _either(keepdims, keep_dims, "keepdims", "keep_dims")
    axis = _either(axis, reduction_axes, "axis", "reduction_axes")
    return _reduce(SparseReduceSum, sp_input, axis, keepdims)


def sparse_reduce_max(
    sp_input: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Largest entries of a SparseTensor over dimensions, dense; 0 where there is none."""
    keepdims = _either(keepdims, keep_dims, "keepdims", "keep_dims")
    axis = _either(axis, reduction_axes, "axis", "reduction_axes")
    return _reduce(SparseReduceMax, sp_input, axis, keepdims)


def sparse_reduce_sum_sparse(
    sp_input: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> SparseTensor:
    """Sums of a SparseTensor over dimensions, sparse."""
    keepdims = _either(keepdims, keep_dims, "keepdims", "keep_dims")
    axis = _either(axis, reduction_axes, "axis", "reduction_axes")
    return SparseTensor(*_reduce(SparseReduceSumSparse, sp_input, axis, keepdims))


def sparse_reduce_max_sparse(
    sp_input: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> SparseTensor:
    """Largest entries of a SparseTensor over dimensions, sparse."""
    keepdims = _either(keepdims, keep_dims, "keepdims", "keep_dims")
    axis = _either(axis, reduction_axes, "axis", "reduction_axes")
    return SparseTensor(*_reduce(SparseReduceMaxSparse, sp_input, axis, keepdims))


# -- Softmax --------------------------------------------------------------------------------------


@op(
    "SparseSoftmax(sp_indices: int64, sp_values: T, sp_shape: int64) -> output: T where "
    "T: {float16, float32, float64}",
    shape=lambda c: c.shape("sp_values").with_rank(1),
)
def SparseSoftmax(sp_indices: Any, sp_values: Any, sp_shape: Any, *, xp: Any, check: Any) -> Any:
    """Softmax over the entries of each row; entries must be in order."""
    if sp_shape.shape[0] < 2:
        check(
            xp.zeros([], bool),
            lambda sizes: (
                "Input should have rank >= 2, but received shape: " + " ".join(map(str, sizes))
            ),
            sp_shape,
        )
    count = sp_values.shape[0]
    if count == 0:
        return sp_values
    rows = xp.asarray(sp_indices)[:, :-1]
    begins = xp.concatenate([xp.zeros([1], bool), xp.any(rows[1:] != rows[:-1], axis=1)])
    groups = xp.cumsum(begins)
    values = jax.numpy.asarray(sp_values)
    most = jax.ops.segment_max(values, groups, count)
    weights = jax.numpy.exp(values - most[groups])
    return weights / jax.ops.segment_sum(weights, groups, count)[groups]


@SparseSoftmax.gradient
def _(op: Operation, grad: Any) -> Any:
    indices, shape, output = op.inputs[0], op.inputs[2], op.outputs[0]
    product = SparseTensor(indices, output * grad, shape)
    total: Any = sparse_reduce_sum(product, [-1], keepdims=True)
    shifted: Any = sparse_arithmetic.sparse_dense_cwise_add(
        SparseTensor(indices, grad, shape), -total
    )
    return None, shifted.values * output, None


def sparse_softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Softmax over the last dimension, of the entries that there are."""
    sparse = as_sparse(sp_input)
    with name_scope(name, "SparseSoftmax", [sparse.indices, sparse.values]):
        values = SparseSoftmax(sparse.indices, sparse.values, sparse.dense_shape)
        return SparseTensor(sparse.indices, values, sparse.dense_shape)
