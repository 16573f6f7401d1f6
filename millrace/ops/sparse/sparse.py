"""Sparse tensors: their order and shape, rows and columns, and how they become dense.

A SparseTensor is three tensors; most functions here build one op on them. Kernels whose output
has a size that the inputs' shapes decide are compiled; those whose output size depends on values
run on the host.
"""

from __future__ import annotations

import functools
import math
import numbers
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.constant_value import check_now, constant_value, constant_value_as_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.slices import SparseTensor, SparseTensorValue
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast, constant
from millrace.ops.array import fill as array_fill
from millrace.ops.array import gather as array_gather
from millrace.ops.array import identity as array_identity
from millrace.ops.array import join as array_join
from millrace.ops.array import layout as array_layout
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.array import slicing as array_slicing
from millrace.ops.control_flow import checks, control_flow
from millrace.ops.math import arithmetic, comparison, numeric, reduction

__all__ = [
    "sparse_reorder",
    "sparse_reset_shape",
    "sparse_reshape",
    "sparse_tensor_to_dense",
    "sparse_to_dense",
    "sparse_transpose",
]


def as_sparse(value: Any) -> SparseTensor:
    """A SparseTensor, or a SparseTensorValue made one.

    Raises:
      TypeError: It is neither.
    """
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    if not isinstance(value, SparseTensor):
        raise TypeError("Input must be a SparseTensor.")
    return value


def text(sizes: Any) -> str:
    """Sizes or indices as TensorFlow writes them: ``[3,4]``."""
    return "[" + ",".join(str(int(size)) for size in np.ravel(sizes)) + "]"


def linear_index(xp: Any, indices: Any, sizes: Any) -> Any:
    """The position of each index in the flattened tensor."""
    rank = indices.shape[1]
    strides = xp.concatenate([xp.cumprod(sizes[:0:-1])[::-1], xp.ones([1], np.int64)])
    return xp.sum(indices * strides[:rank], axis=1, dtype=np.int64)


def ordered(indices: Any, xp: Any) -> Any:
    """The order in which indices ascend, row by row."""
    if not indices.shape[1]:
        return xp.arange(indices.shape[0])
    return xp.lexsort(indices.T[::-1])


def known_shape(sparse: SparseTensor) -> list[int] | None:
    """The sizes of a SparseTensor whose shape is fully known, else None."""
    shape = sparse.get_shape()
    return [int(size or 0) for size in shape.as_list()] if shape.is_fully_defined() else None


# -- To dense -----------------------------------------------------------------------------------


def _to_dense_shape(c: ShapeContext) -> TensorShape:
    c.shape("output_shape").assert_has_rank(1)
    c.shape("default_value").assert_has_rank(0)
    return c.value_as_shape("output_shape")


@op(
    "SparseToDense(sparse_indices: Tindices, output_shape: Tindices, sparse_values: T, "
    "default_value: T) -> dense: T where validate_indices: bool = true; T: type; "
    "Tindices: {int32, int64}",
    shape=_to_dense_shape,
    static=("output_shape",),
)
def SparseToDense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any,
    *,
    validate_indices: bool,
    xp: Any,
    check: Any,
) -> Any:
    """A dense tensor with values at indices and a default elsewhere."""
    sizes = tuple(int(size) for size in output_shape)
    rank_of_indices = np.ndim(sparse_indices)
    if rank_of_indices > 2:
        raise ValueError(
            "sparse_indices should be a scalar, vector, or matrix, got shape "
            f"{text(sparse_indices.shape)}"
        )
    count = sparse_indices.shape[0] if rank_of_indices else 1
    columns = sparse_indices.shape[1] if rank_of_indices == 2 else 1
    if len(sizes) != columns:
        raise ValueError(
            f"output_shape has incorrect number of elements: {len(sizes)} should be: {columns}"
        )
    if np.shape(sparse_values) not in ((), (count,)):
        raise ValueError(
            f"sparse_values has incorrect shape {text(np.shape(sparse_values))}, should be [] or "
            f"[{count}]"
        )
    indices = xp.reshape(xp.asarray(sparse_indices), (count, columns)).astype(np.int64)
    if validate_indices:
        check_order(indices, sizes, xp, check)
    else:
        inside = xp.all((indices >= 0) & (indices < np.array(sizes, np.int64)))
        check(inside, f"Indices are not valid (out of bounds).  Shape: {text(sizes)}")
    return scattered(indices, sparse_values, sizes, default_value, xp)


def scattered(indices: Any, values: Any, sizes: tuple[int, ...], default: Any, xp: Any) -> Any:
    """Values at indices, a default elsewhere; later values win."""
    if xp is np:
        dense = np.full(sizes, default, dtype=values.dtype)
        dense[tuple(indices.T)] = values
        return dense
    dense = xp.broadcast_to(xp.asarray(default), sizes)
    return dense.at[tuple(indices.T)].set(values, mode="drop")


def check_order(indices: Any, sizes: tuple[int, ...], xp: Any, check: Any) -> None:
    """Fails the step unless the indices are inside the shape, in order and all different."""
    bounds = np.array(sizes, np.int64)
    inside = xp.all((indices >= 0) & (indices < bounds), axis=1)
    if indices.shape[0] > 1:
        position = linear_index(xp, indices, bounds)
        ascends = xp.concatenate([xp.ones([1], bool), position[1:] > position[:-1]])
    else:
        ascends = xp.ones([indices.shape[0]], bool)

    def complaint(found: Any) -> str:
        for i, index in enumerate(found):
            if not ((index >= 0) & (index < bounds)).all():
                return (
                    f"indices[{i}] = {text(index)} is out of bounds: need 0 <= index < "
                    f"{text(bounds)}"
                )
            before = tuple(found[i - 1]) if i else ()
            if i and tuple(index) == before:
                return f"indices[{i}] = {text(index)} is repeated"
            if i and tuple(index) < before:
                return (
                    f"indices[{i}] = {text(index)} is out of order. Many sparse ops require "
                    "sorted indices.\n    Use `tf.sparse.reorder` to create a correctly ordered "
                    "copy.\n"
                )
        return "indices are not valid"

    check(xp.all(inside & ascends), complaint, indices)


@SparseToDense.gradient
def _(op: Operation, grad: Tensor) -> Any:
    indices, sizes = op.inputs[0], op.inputs[1]
    values_grad = array_gather.gather_nd(grad, indices)
    rest: Any = reduction.reduce_sum(grad)
    return [
        array_fill.zeros_like(indices),
        array_fill.zeros_like(sizes),
        values_grad,
        rest - reduction.reduce_sum(values_grad),
    ]


def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """A dense tensor with `sparse_values` at `sparse_indices` and a default elsewhere.

    Args:
      sparse_indices: [N, rank]; a vector for one dimension, a scalar for one value.
      output_shape: The shape of the result.
      sparse_values: N values, or one for all.
      default_value: What stands elsewhere.
      validate_indices: Whether the indices must be in order and all different.
      name: The operation's name.
    """
    return SparseToDense(
        sparse_indices,
        output_shape,
        sparse_values,
        default_value,
        validate_indices=validate_indices,
        name=name,
    )


def sparse_tensor_to_dense(
    sp_input: Any,
    default_value: Any = None,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """A SparseTensor as a dense tensor, with a default (0 or "") elsewhere."""
    sparse = as_sparse(sp_input)
    if default_value is None:
        default_value = array_fill.zeros([], dtype=sparse.dtype)
    dense: Tensor = SparseToDense(
        sparse.indices,
        sparse.dense_shape,
        sparse.values,
        default_value,
        validate_indices=validate_indices,
        name=name,
    )
    dense.set_shape(sparse.get_shape())  # more may be known than `dense_shape` tells
    return dense


def from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """`tf.sparse.from_dense`: the entries of a tensor that are not zero."""
    with name_scope(name, "dense_to_sparse"):
        dense = convert_to_tensor(tensor)
        indices = array_select.where(comparison.not_equal(dense, array_fill.zeros_like(dense)))
        values = array_gather.gather_nd(dense, indices)
        return SparseTensor(indices, values, array_shape.shape(dense, out_type=dtypes.int64))


# -- Order --------------------------------------------------------------------------------------


def _reorder_shape(c: ShapeContext) -> list[TensorShape]:
    indices, values = c.shape("input_indices").with_rank(2), c.shape("input_values").with_rank(1)
    c.shape("input_shape").assert_has_rank(1)
    return [indices, values]


@op(
    "SparseReorder(input_indices: int64, input_values: T, input_shape: int64) -> "
    "(output_indices: int64, output_values: T) where T: type",
    shape=_reorder_shape,
)
def SparseReorder(input_indices: Any, input_values: Any, input_shape: Any, *, xp: Any) -> Any:
    """Indices and values in the order of rows."""
    indices, values = xp.asarray(input_indices), xp.asarray(input_values)
    order = ordered(indices, xp)
    return indices[order], values[order]


@SparseReorder.gradient
def _(op: Operation, indices_grad: Any, values_grad: Tensor) -> Any:
    indices, shape = op.inputs[0], op.inputs[2]
    count: Any = array_shape.shape(indices)
    entries = numeric.range(count[0])
    ordered = sparse_reorder(SparseTensor(indices, entries, shape))
    inverse = array_layout.invert_permutation(ordered.values)
    return None, array_gather.gather(values_grad, inverse), None


def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """The SparseTensor with its entries in row-major order."""
    sparse = as_sparse(sp_input)
    indices, values = SparseReorder(sparse.indices, sparse.values, sparse.dense_shape, name=name)
    known = known_shape(sparse)
    if known is not None:
        return SparseTensor(indices, values, known)
    result = SparseTensor(indices, values, array_identity.identity(sparse.dense_shape))
    result.set_shape(sparse.get_shape())
    return result


def sparse_transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """The SparseTensor with its dimensions in another order (reversed when `perm` is None)."""
    with name_scope(name, "SparseTranspose", [sp_input]):
        sparse = as_sparse(sp_input)
        shape = sparse.get_shape()
        if perm is None:
            if shape.ndims is not None:
                perm = np.arange(shape.ndims)[::-1]
            else:
                rank: Any = array_shape.rank(sparse)
                perm = rank - 1 - numeric.range(0, rank, 1)
        transposed = array_layout.transpose(sparse.indices)
        indices = array_layout.transpose(array_gather.gather(transposed, perm))
        order = constant_value(convert_to_tensor(perm))
        sizes: Any
        known = known_shape(sparse)
        if order is not None and known is not None:
            sizes = [known[p] for p in order]
        else:
            sizes = array_gather.gather(sparse.dense_shape, perm)
        return sparse_reorder(SparseTensor(indices, sparse.values, sizes))


# -- Shape --------------------------------------------------------------------------------------


def _reshape_shape(c: ShapeContext) -> list[TensorShape]:
    indices = c.shape("input_indices").with_rank(2)
    new_shape = c.shape("new_shape").with_rank(1)
    return [TensorShape([indices[0], new_shape[0]]), new_shape]


@op(
    "SparseReshape(input_indices: int64, input_shape: int64, new_shape: int64) -> "
    "(output_indices: int64, output_shape: int64)",
    shape=_reshape_shape,
    gradient=NO_GRADIENT,
)
def SparseReshape(
    input_indices: Any, input_shape: Any, new_shape: Any, *, xp: Any, check: Any
) -> Any:
    """The same entries in a tensor of another shape."""
    input_indices, input_shape, new_shape = (
        xp.asarray(value) for value in (input_indices, input_shape, new_shape)
    )
    total = xp.prod(input_shape, dtype=np.int64)
    unknown = new_shape == -1
    known = xp.prod(xp.where(unknown, 1, new_shape), dtype=np.int64)
    has_unknown = xp.any(unknown)
    inferred = total // xp.where(known == 0, 1, known)
    sizes = xp.where(unknown, inferred, new_shape)

    def complaint(old: Any, new: Any) -> str:
        holes = [i for i, size in enumerate(new) if size == -1]
        if len(holes) > 1:
            return f"only one output dimension may be -1, not both {holes[0]} and {holes[1]}"
        for i, size in enumerate(new):
            if size < -1:
                return f"size {i} must be non-negative, not {size}"
        values = int(np.prod(old))
        if holes:
            multiple = int(np.prod([size for size in new if size != -1]))
            filled = [values // max(multiple, 1) // 1 if s == -1 else s for s in new]
            return (
                f"Input to reshape is a SparseTensor with {values} dense values, but the requested "
                f"shape requires a multiple of {multiple}. input_shape={text(old)} "
                f"output_shape={text(filled)}"
            )
        return (
            f"Input to reshape is a tensor with {values} dense values, but the requested shape has "
            f"{int(np.prod(new))}. input_shape={text(old)} output_shape={text(new)}"
        )

    fits = xp.prod(sizes, dtype=np.int64) == total
    valid = (xp.sum(unknown) <= 1) & xp.all(new_shape >= -1) & fits
    check(valid | (has_unknown & (known == 0) & (total == 0)), complaint, input_shape, new_shape)
    position = linear_index(xp, input_indices, input_shape)
    columns = []
    for k in range(new_shape.shape[0] - 1, -1, -1):
        size = xp.maximum(sizes[k], 1)
        columns.append(position % size)
        position = position // size
    count = input_indices.shape[0]
    if not columns:
        return xp.zeros((count, 0), np.int64), sizes
    return xp.stack(columns[::-1], axis=1), sizes


@SparseReshape.on_host
def _(node: Any, known: Any) -> Any:
    whole = functools.partial(SparseReshape.kernel, xp=np, check=check_now)

    def reshaped(input_indices: Any, input_shape: Any, new_shape: Any) -> Any:
        if input_shape.ndim != 1 or new_shape.ndim != 1 or input_indices.ndim != 2:
            return whole(input_indices, input_shape, new_shape)
        old, new = input_shape.tolist(), new_shape.tolist()
        total = math.prod(old)
        if -1 in new:
            others = -math.prod(new)
            if others > 0:
                new[new.index(-1)] = total // others
        if input_indices.shape[1] != len(old) or min(new, default=0) < 0 or math.prod(new) != total:
            return whole(input_indices, input_shape, new_shape)
        if old == new:
            return input_indices, input_shape
        position = linear_index(np, input_indices, input_shape)
        found = np.empty((len(position), len(new)), np.int64)
        for k in range(len(new) - 1, -1, -1):
            position, found[:, k] = np.divmod(position, max(new[k], 1))
        return found, np.array(new, np.int64)

    return reshaped


def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """The SparseTensor in another shape, of which one size may be -1.

    Raises:
      ValueError: The shapes, where known, do not have the same number of elements.
    """
    sparse = as_sparse(sp_input)
    new_shape = cast.cast(shape, dtypes.int64)
    with name_scope(name, "SparseReshape", [sparse.values]) as scope:
        indices, sizes = SparseReshape(sparse.indices, sparse.dense_shape, new_shape, name=scope)
        known = known_shape(sparse)
        wanted = constant_value_as_shape(new_shape)
        if known is not None and wanted.ndims is not None:
            sizes = _reshaped(known, wanted, constant_value(new_shape), sizes)
        return SparseTensor(indices, array_identity.identity(sparse.values), sizes)


def _reshaped(known: list[int], wanted: TensorShape, value: Any, sizes: Any) -> Any:
    """The new shape as a constant where it can be known, else as it is."""
    if value is not None and np.sum(value == -1) > 1:
        raise ValueError(f"At most one dimension can be inferred (-1). Found: {value}")
    asked = wanted.as_list()
    total = int(np.prod(known))
    holes = asked.count(None)
    if holes > 1 or (holes and 0 in asked):
        return sizes
    product = int(np.prod([size for size in asked if size is not None]))
    result = [total // product if size is None else size for size in asked]
    if int(np.prod(result)) != total:
        raise ValueError(
            f"Cannot reshape a tensor with {total} elements to shape {asked} "
            f"({int(np.prod(result))} elements)."
        )
    return constant.constant(result, dtypes.int64)


def sparse_reset_shape(sp_input: Any, new_shape: Any = None) -> SparseTensor:
    """The same entries in a tensor of another size: as small as they allow, or `new_shape`.

    Raises:
      ValueError: `new_shape`, where known, is too small or has another rank.
    """
    sparse = as_sparse(sp_input)
    indices = array_identity.identity(sparse.indices)
    values = array_identity.identity(sparse.values)
    old = array_identity.identity(sparse.dense_shape)
    if new_shape is None:
        least = reduction.reduce_max(indices, axis=0)
        sizes: Any = arithmetic.maximum(
            constant.constant(0, dtypes.int64), arithmetic.add(least, array_fill.ones_like(old))
        )
        return SparseTensor(indices, values, sizes)
    sizes = convert_to_tensor(new_shape)
    sizes.shape.assert_has_rank(1)
    sizes = cast.cast(sizes, dtypes.int64)
    if sizes.shape.ndims is not None and old.shape.ndims is not None:
        sizes.shape[0].assert_is_compatible_with(old.shape[0])
    value, known = constant_value(sizes), known_shape(sparse)
    if value is not None and known is not None:
        if not np.all(np.array(known) <= value):
            raise ValueError(
                "Requested new_shape should have dimension sizes >= sp_input.shape.  Found "
                f"new_shape ({np.array(known)}), sp_input.shape ({value})."
            )
        return SparseTensor(indices, values, value)
    same_rank = checks.assert_equal(array_shape.shape(old), array_shape.shape(sizes))
    sizes = control_flow.with_dependencies([same_rank], sizes)
    large = checks.assert_less_equal(old, sizes)
    return SparseTensor(indices, values, control_flow.with_dependencies([large], sizes))


def sparse_expand_dims(sp_input: Any, axis: Any = None, name: str | None = None) -> SparseTensor:
    """`tf.sparse.expand_dims`: the SparseTensor with a dimension of size 1 more."""
    sparse = as_sparse(sp_input)
    rank: Any = sparse.dense_shape.shape[0].value if sparse.dense_shape.shape.ndims else None
    if rank is None:
        rank_vector: Any = array_shape.shape(sparse.dense_shape)
        rank = rank_vector[0]
    with name_scope(name, "expand_dims", [sparse.values]):
        if isinstance(axis, numbers.Integral) or axis is None:
            place: Any = convert_to_tensor(-1 if axis is None else axis, dtypes.int32, name="axis")
        elif isinstance(axis, Tensor):
            place = axis
        else:
            raise TypeError(
                "axis must be an integer value in range [-rank(sp_input) - 1, rank(sp_input)]"
            )
        place = array_select.where_v2(place >= 0, place, place + rank + 1)
        counts: Any = array_shape.shape(sparse.indices)
        column = array_fill.zeros([counts[0], 1], dtypes.int64)
        before = array_slicing.slice(sparse.indices, [0, 0], [-1, place])
        after = array_slicing.slice(sparse.indices, [0, place], [-1, -1])
        indices = array_join.concat([before, column, after], axis=1)
        one = convert_to_tensor([1], dtypes.int64, name="new_shape")
        sizes_before = array_slicing.slice(sparse.dense_shape, [0], [place])
        sizes_after = array_slicing.slice(sparse.dense_shape, [place], [-1])
        sizes = array_join.concat([sizes_before, one, sizes_after], axis=0)
        return SparseTensor(indices, sparse.values, sizes)


def sparse_eye(
    num_rows: Any, num_columns: Any = None, dtype: Any = dtypes.float32, name: str | None = None
) -> SparseTensor:
    """`tf.sparse.eye`: ones on the diagonal."""
    with name_scope(name, "eye", [num_rows, num_columns]):
        rows = _int64(num_rows, "num_rows")
        columns = rows if num_columns is None else _int64(num_columns, "num_columns")
        count = arithmetic.minimum(rows, columns)
        places = numeric.range(count, dtype=dtypes.int64)
        return SparseTensor(
            array_join.stack([places, places], axis=1),
            array_fill.ones(array_shape.expand_dims(count, 0), dtype),
            [rows, columns],
        )


def _int64(value: Any, name: str) -> Tensor:
    if isinstance(value, numbers.Integral):
        return convert_to_tensor(value, dtypes.int64, name=name)
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be an integer value")
    return value if value.dtype == dtypes.int64 else cast.cast(value, dtypes.int64)


def unknown_sparse(rank: int | None = None) -> list[TensorShape]:
    """Shapes of the three parts of a SparseTensor of which only the rank may be known."""
    return [TensorShape([None, rank]), unknown_shape(1), TensorShape([rank])]
