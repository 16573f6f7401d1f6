"""Arithmetic of sparse tensors with each other and with dense ones, and the operators ``*`` ``/``.

What is dense, or as large as the input, is compiled; the union of two sets of indices is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler import row_sums
from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, like
from millrace.graph.slices import SparseTensor, SparseTensorValue
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import gather as array_gather
from millrace.ops.array import join as array_join
from millrace.ops.array import layout as array_layout
from millrace.ops.array import shape as array_shape
from millrace.ops.array import slicing as array_slicing
from millrace.ops.math import complex_numbers, elementwise, reduction
from millrace.ops.sparse.slicing import at_positions
from millrace.ops.sparse.sparse import as_sparse, linear_index, text, unknown_sparse

__all__ = [
    "sparse_add",
    "sparse_maximum",
    "sparse_minimum",
    "sparse_tensor_dense_matmul",
]


# -- Two sparse tensors ---------------------------------------------------------------------------


def _check_same_shape(a_shape: Any, b_shape: Any) -> None:
    if len(a_shape) != len(b_shape):
        raise ValueError(
            "Operands do not have the same ranks; got shapes: "
            f"{' '.join(map(str, a_shape))} and {' '.join(map(str, b_shape))}"
        )
    for i, (a, b) in enumerate(zip(a_shape, b_shape, strict=True)):
        if a != b:
            raise ValueError(f"Operands' shapes do not match: got {a} and {b} for dimension {i}")


def _union(
    a_indices: Any, a_values: Any, b_indices: Any, b_values: Any, shape: Any
) -> tuple[Any, Any, Any]:
    """(indices of both in order, values of a there or 0, values of b there or 0)."""
    both = np.concatenate([a_indices, b_indices])
    positions = linear_index(np, both, shape)
    _, first, inverse = np.unique(positions, return_index=True, return_inverse=True)
    left, right = (np.zeros(len(first), a_values.dtype) for _ in range(2))
    left[inverse[: len(a_values)]] = a_values
    right[inverse[len(a_values) :]] = b_values
    return both[first], left, right


@op(
    "SparseAdd(a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, "
    "b_shape: int64, thresh: Treal) -> "
    "(sum_indices: int64, sum_values: T, sum_shape: int64) where T: number; Treal: real",
    shape=lambda c: unknown_sparse(c.shape("a_shape").with_rank(1)[0].value),
    host=True,
)
def SparseAdd(
    a_indices: Any,
    a_values: Any,
    a_shape: Any,
    b_indices: Any,
    b_values: Any,
    b_shape: Any,
    thresh: Any,
) -> Any:
    """A sum; where both had an entry, one below the threshold is left out."""
    _check_same_shape(a_shape, b_shape)
    indices, left, right = _union(a_indices, a_values, b_indices, b_values, a_shape)
    ones = np.ones(len(a_values) + len(b_values), np.int8)
    _, a_only, b_only = _union(
        a_indices, ones[: len(a_values)], b_indices, ones[len(a_values) :], a_shape
    )
    total = left + right
    kept = (np.abs(total) >= thresh) | (a_only + b_only < 2)
    return indices[kept], total[kept], a_shape


@op(
    "SparseAddGrad(backprop_val_grad: T, a_indices: int64, b_indices: int64, "
    "sum_indices: int64) -> (a_val_grad: T, b_val_grad: T) where T: number",
    shape=lambda c: [
        TensorShape([c.shape("a_indices").with_rank(2)[0]]),
        TensorShape([c.shape("b_indices").with_rank(2)[0]]),
    ],
    gradient=NO_GRADIENT,
    host=True,
)
def SparseAddGrad(backprop_val_grad: Any, a_indices: Any, b_indices: Any, sum_indices: Any) -> Any:
    """Gradients at the entries of the sum, zero where the threshold left one out."""
    return (
        at_positions(a_indices, sum_indices, backprop_val_grad),
        at_positions(b_indices, sum_indices, backprop_val_grad),
    )


@SparseAdd.gradient
def _(op: Operation, indices_grad: Any, values_grad: Tensor, shape_grad: Any) -> Any:
    a_grad, b_grad = SparseAddGrad(values_grad, op.inputs[0], op.inputs[3], op.outputs[0])
    a_grad.set_shape(op.inputs[1].shape)
    b_grad.set_shape(op.inputs[4].shape)
    return None, a_grad, None, None, b_grad, None, None


def _same_indices(c: ShapeContext) -> list[TensorShape]:
    rank = c.shape("a_indices").with_rank(2)[1]
    return [TensorShape([None, rank]), TensorShape([None])]


_PAIR = (
    "(a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, "
    "b_shape: int64) -> (output_indices: int64, output_values: T) where "
)


@op(f"SparseSparseMaximum{_PAIR}T: real", shape=_same_indices, gradient=NO_GRADIENT, host=True)
def SparseSparseMaximum(
    a_indices: Any, a_values: Any, a_shape: Any, b_indices: Any, b_values: Any, b_shape: Any
) -> Any:
    """The larger entry of two sparse tensors; what one lacks is zero."""
    _check_same_shape(a_shape, b_shape)
    indices, left, right = _union(a_indices, a_values, b_indices, b_values, a_shape)
    return indices, np.maximum(left, right)


@op(f"SparseSparseMinimum{_PAIR}T: number", shape=_same_indices, gradient=NO_GRADIENT, host=True)
def SparseSparseMinimum(
    a_indices: Any, a_values: Any, a_shape: Any, b_indices: Any, b_values: Any, b_shape: Any
) -> Any:
    """The smaller entry of two sparse tensors; what one lacks is zero."""
    _check_same_shape(a_shape, b_shape)
    indices, left, right = _union(a_indices, a_values, b_indices, b_values, a_shape)
    return indices, np.minimum(left, right)


def _pairwise(op_type: Any, name: str | None, sp_a: Any, sp_b: Any) -> SparseTensor:
    with name_scope(name, op_type.name, [sp_a.values, sp_b.values]) as scope:
        indices, values = op_type(
            sp_a.indices,
            sp_a.values,
            sp_a.dense_shape,
            sp_b.indices,
            sp_b.values,
            sp_b.dense_shape,
            name=scope,
        )
    return SparseTensor(indices, values, sp_a.dense_shape)


def sparse_maximum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """The larger entry of two SparseTensors; what one lacks is zero."""
    return _pairwise(SparseSparseMaximum, name, as_sparse(sp_a), as_sparse(sp_b))


def sparse_minimum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """The smaller entry of two SparseTensors; what one lacks is zero."""
    return _pairwise(SparseSparseMinimum, name, as_sparse(sp_a), as_sparse(sp_b))


# -- Sparse plus dense ----------------------------------------------------------------------------


@op(
    "SparseTensorDenseAdd(a_indices: Tindices, a_values: T, a_shape: Tindices, b: T) -> "
    "output: T where T: number; Tindices: index",
    shape=like("b"),
)
def SparseTensorDenseAdd(
    a_indices: Any, a_values: Any, a_shape: Any, b: Any, *, xp: Any, check: Any
) -> Any:
    """A dense tensor with a sparse one added."""
    sizes = np.array(b.shape, np.int64)
    if a_shape.shape[0] != b.ndim:
        raise ValueError(
            f"Two operands have different ranks; received: {a_shape.shape[0]} and {b.ndim}"
        )

    def wrong_size(found: Any) -> str:
        for i, (sparse, dense) in enumerate(zip(found, sizes, strict=True)):
            if sparse != dense:
                return (
                    f"Dimension {i} does not equal (no broadcasting is supported): sparse side "
                    f"{sparse} vs dense side {dense}"
                )
        return "shapes differ"

    def wrong_index(found: Any) -> str:
        row, column = np.argwhere((found < 0) | (found >= sizes))[0]
        return (
            f"Sparse tensor has an invalid index on dimension {column}: a_indices({row},{column}) "
            f"= {found[row, column]}, dense tensor shape: {' '.join(map(str, sizes))}"
        )

    check(xp.all(a_shape == sizes), wrong_size, a_shape)
    check(xp.all((a_indices >= 0) & (a_indices < sizes)), wrong_index, a_indices)
    if xp is np:
        result = b.copy()
        np.add.at(result, tuple(a_indices.T), a_values)
        return result
    return xp.asarray(b).at[tuple(a_indices.T)].add(a_values)


@SparseTensorDenseAdd.gradient
def _(op: Operation, grad: Tensor) -> Any:
    return None, array_gather.gather_nd(grad, op.inputs[0]), None, grad


def sparse_add(a: Any, b: Any, threshold: Any = None, thresh: Any = None) -> Any:
    """The sum of two tensors of which at least one is sparse.

    Args:
      a: A SparseTensor or a dense tensor.
      b: Another.
      threshold: Where both have an entry, a sum whose size is below is left out; 0 keeps all.
      thresh: The old name of `threshold`.

    Returns:
      A SparseTensor when both are sparse, else a dense tensor.

    Raises:
      TypeError: Neither is sparse.
    """
    if thresh is not None:
        threshold = thresh
    kinds = (SparseTensor, SparseTensorValue)
    if not isinstance(a, kinds) and not isinstance(b, kinds):
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    if not isinstance(a, kinds) or not isinstance(b, kinds):
        sparse, dense = (as_sparse(a), b) if isinstance(a, kinds) else (as_sparse(b), a)
        return SparseTensorDenseAdd(sparse.indices, sparse.values, sparse.dense_shape, dense)
    a, b = as_sparse(a), as_sparse(b)
    least = convert_to_tensor(
        0 if threshold is None else threshold, a.dtype.base_dtype.real_dtype, name="threshold"
    )
    indices, values, size = SparseAdd(
        a.indices, a.values, a.dense_shape, b.indices, b.values, b.dense_shape, least
    )
    a.get_shape().assert_is_compatible_with(b.get_shape())
    static = array_shape.broadcast_static_shape(a.get_shape(), b.get_shape())
    if static.is_fully_defined():
        size = static.as_list()
    return SparseTensor(indices, values, size)


# -- Sparse times dense, entry by entry ---------------------------------------------------------


def _dense_entries(sp_indices: Any, sp_shape: Any, dense: Any, xp: Any, check: Any) -> Any:
    """The entries of a dense tensor, broadcast to the sparse one, at its indices."""
    sp_indices, sp_shape, dense = (xp.asarray(v) for v in (sp_indices, sp_shape, dense))
    rank = sp_indices.shape[1]
    sizes = np.array(dense.shape, np.int64)

    def told(found: Any) -> str:
        return (
            "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: "
            f"{text(found)} vs. {text(sizes)}"
        )

    if dense.ndim > rank:
        check(xp.zeros([], bool), told, sp_shape)
        return xp.zeros(sp_indices.shape[0], dense.dtype)
    ends = sp_shape[rank - dense.ndim :]
    check(xp.all((sizes == ends) | (sizes == 1)), told, sp_shape)
    columns = tuple(
        xp.zeros_like(sp_indices[:, 0]) if size == 1 else sp_indices[:, rank - dense.ndim + i]
        for i, size in enumerate(dense.shape)
    )
    if not columns:
        return xp.broadcast_to(dense, (sp_indices.shape[0],))
    return dense[columns]


_CWISE = "(sp_indices: int64, sp_values: T, sp_shape: int64, dense: T) -> output: T where T: number"


def _cwise_shape(c: ShapeContext) -> TensorShape:
    return TensorShape([c.shape("sp_indices").with_rank(2)[0]])


@op(f"SparseDenseCwiseAdd{_CWISE}", shape=_cwise_shape, gradient=NO_GRADIENT)
def SparseDenseCwiseAdd(
    sp_indices: Any, sp_values: Any, sp_shape: Any, dense: Any, *, xp: Any, check: Any
) -> Any:
    """The entries of a sparse tensor plus those of a dense one."""
    return sp_values + _dense_entries(sp_indices, sp_shape, dense, xp, check)


@op(f"SparseDenseCwiseMul{_CWISE}", shape=_cwise_shape)
def SparseDenseCwiseMul(
    sp_indices: Any, sp_values: Any, sp_shape: Any, dense: Any, *, xp: Any, check: Any
) -> Any:
    """The entries of a sparse tensor times those of a dense one."""
    return sp_values * _dense_entries(sp_indices, sp_shape, dense, xp, check)


@op(f"SparseDenseCwiseDiv{_CWISE}", shape=_cwise_shape)
def SparseDenseCwiseDiv(
    sp_indices: Any, sp_values: Any, sp_shape: Any, dense: Any, *, xp: Any, check: Any
) -> Any:
    """The entries of a sparse tensor divided by those of a dense one."""
    divisor = _dense_entries(sp_indices, sp_shape, dense, xp, check)
    if np.issubdtype(sp_values.dtype, np.integer):
        quotient = xp.abs(sp_values) // xp.abs(divisor)  # towards zero, as C does
        return quotient * xp.sign(sp_values) * xp.sign(divisor)
    return sp_values / divisor


def _entries_for_gradient(op: Operation) -> tuple[Any, Any, Any]:
    """(the dense tensor's entries, their indices in it, its shape)."""
    indices: Any = op.inputs[0]
    shape: Any = op.inputs[2]
    dense = op.inputs[3]
    dense_shape: Any = cast.cast(array_shape.shape(dense), dtypes.int64)
    more: Any = array_shape.size(shape)
    added = array_shape.expand_dims(more - array_shape.size(dense_shape), 0)
    ones = array_fill.ones(added, dtypes.int64)
    scaling = shape // array_join.concat([ones, dense_shape], 0)
    scaled = array_slicing.slice(indices // scaling, array_join.concat([[0], added], 0), [-1, -1])
    return array_gather.gather_nd(dense, scaled), scaled, dense_shape


def _dense_gradient(op: Operation, scaled: Any, entries_grad: Any, dense_shape: Any) -> Any:
    return sparse_add(
        array_fill.zeros_like(op.inputs[3]), SparseTensor(scaled, entries_grad, dense_shape)
    )


@SparseDenseCwiseMul.gradient
def _(op: Operation, grad: Any) -> Any:
    entries, scaled, dense_shape = _entries_for_gradient(op)
    dense_grad = _dense_gradient(op, scaled, grad * op.inputs[1], dense_shape)
    return None, grad * entries, None, dense_grad


@SparseDenseCwiseDiv.gradient
def _(op: Operation, grad: Any) -> Any:
    entries, scaled, dense_shape = _entries_for_gradient(op)
    values: Any = op.inputs[1]
    slope = -values / elementwise.square(entries)
    return None, grad / entries, None, _dense_gradient(op, scaled, grad * slope, dense_shape)


def sparse_dense_cwise_add(sp_t: SparseTensor, dense_t: Any) -> SparseTensor:
    """The entries of a SparseTensor plus those of a dense one there."""
    values = SparseDenseCwiseAdd(sp_t.indices, sp_t.values, sp_t.dense_shape, dense_t)
    return SparseTensor(sp_t.indices, values, sp_t.dense_shape)


def _operator(op_type: Any, label: str) -> Any:
    def apply(sparse: SparseTensor, other: Any) -> SparseTensor:
        with name_scope(None, label, [sparse.values, other]) as scope:
            dense = convert_to_tensor(other, sparse.dtype.base_dtype, name="y")
            values = op_type(sparse.indices, sparse.values, sparse.dense_shape, dense, name=scope)
            return SparseTensor(sparse.indices, values, sparse.dense_shape)

    return apply


_TRUE_DIVISION_TYPES = {
    dtypes.int8: dtypes.float32,
    dtypes.uint8: dtypes.float32,
    dtypes.int16: dtypes.float32,
    dtypes.uint16: dtypes.float32,
    dtypes.int32: dtypes.float64,
    dtypes.int64: dtypes.float64,
}


def _true_division(sparse: SparseTensor, other: Any) -> SparseTensor:
    with name_scope(None, "truediv", [sparse.values, other]) as scope:
        values: Any = sparse.values
        dense: Any = convert_to_tensor(other, sparse.dtype.base_dtype, name="y")
        kind = _TRUE_DIVISION_TYPES.get(sparse.dtype.base_dtype)
        if kind is not None:
            values, dense = cast.cast(values, kind), cast.cast(dense, kind)
        quotient = SparseDenseCwiseDiv(
            sparse.indices, values, sparse.dense_shape, dense, name=scope
        )
        return SparseTensor(sparse.indices, quotient, sparse.dense_shape)


for _name, _function in (
    ("__mul__", _operator(SparseDenseCwiseMul, "mul")),
    ("__div__", _operator(SparseDenseCwiseDiv, "div")),
    ("__truediv__", _true_division),
):
    setattr(SparseTensor, _name, _function)


# -- Matrix product ------------------------------------------------------------------------------


def _matmul_shape(c: ShapeContext) -> TensorShape:
    c.shape("a_indices").assert_has_rank(2)
    c.shape("a_values").assert_has_rank(1)
    a = c.value_as_shape("a_shape").with_rank(2)
    b = c.shape("b").with_rank(2)
    rows, inner = (a[1], a[0]) if c.attr("adjoint_a") else (a[0], a[1])
    inner_b, columns = (b[1], b[0]) if c.attr("adjoint_b") else (b[0], b[1])
    if inner.value is not None and inner_b.value is not None and inner.value != inner_b.value:
        raise ValueError(f"Dimensions must be equal, but are {inner.value} and {inner_b.value}")
    return TensorShape([rows, columns])


@op(
    "SparseTensorDenseMatMul(a_indices: Tindices, a_values: T, a_shape: int64, b: T) -> "
    "product: T where T: type; Tindices: index = int64; adjoint_a: bool = false; "
    "adjoint_b: bool = false",
    shape=_matmul_shape,
    static=("a_shape",),
)
def SparseTensorDenseMatMul(
    a_indices: Any,
    a_values: Any,
    a_shape: Any,
    b: Any,
    *,
    adjoint_a: bool,
    adjoint_b: bool,
    xp: Any,
    check: Any,
) -> Any:
    """A sparse matrix times a dense one."""
    a_indices, a_values, b = (xp.asarray(value) for value in (a_indices, a_values, b))
    if len(a_shape) != 2:
        raise ValueError("Tensor 'a_shape' must have 2 elements")
    rows, columns = a_indices[:, 0], a_indices[:, 1]
    size, inner = int(a_shape[0]), int(a_shape[1])
    if adjoint_a:
        rows, columns, size, inner = columns, rows, inner, size
        a_values = xp.conj(a_values)
    if adjoint_b:
        b = xp.conj(b).T
    if b.shape[0] != inner:
        raise ValueError(
            "Cannot multiply A and B because inner dimension does not match: "
            f"{inner} vs. {b.shape[0]}.  Did you forget a transpose?  Dimensions of A: "
            f"[{size}, {inner}).  Dimensions of B: {text(b.shape)}"
        )
    bounds = np.array([inner, size] if adjoint_a else [size, inner], np.int64)

    def complaint(found: Any) -> str:
        row, column = np.argwhere((found < 0) | (found >= bounds))[0]
        label = "m" if (column == 0) != adjoint_a else "k"
        return (
            f"{label} ({found[row, column]}) from index[{row},{column}] out of bounds "
            f"(>={bounds[column]})"
        )

    check(xp.all((a_indices >= 0) & (a_indices < bounds)), complaint, a_indices)
    if xp is np and b.dtype.char in "fd" and b.size and max(size, inner) < 1 << 31:
        product = np.zeros((size, b.shape[1]), b.dtype)
        to, source = (np.ascontiguousarray(part, np.int32) for part in (rows, columns))
        row_sums.add_rows(
            product, to, np.ascontiguousarray(b), source, np.ascontiguousarray(a_values)
        )
        return product
    parts = xp.expand_dims(a_values, 1) * b[columns]
    if xp is np:
        product = np.zeros((size, b.shape[1]), parts.dtype)
        np.add.at(product, rows, parts)
        return product
    return xp.zeros((size, b.shape[1]), parts.dtype).at[rows].add(parts)


@SparseTensorDenseMatMul.gradient
def _(op: Operation, grad: Tensor) -> Any:
    indices: Any = op.inputs[0]
    values, shape, b = op.inputs[1], op.inputs[2], op.inputs[3]
    adjoint_a, adjoint_b = op.attrs["adjoint_a"], op.attrs["adjoint_b"]
    b_grad: Any = SparseTensorDenseMatMul(
        indices, values, shape, grad, adjoint_a=not adjoint_a, adjoint_b=False
    )
    if adjoint_b:
        b_grad = array_layout.matrix_transpose(b_grad, conjugate=True)
    rows, columns = indices[:, 0], indices[:, 1]
    if adjoint_a:
        rows, columns = columns, rows
    factor: Any = b
    if adjoint_b:
        factor = array_layout.transpose(b)
    elif b.dtype.is_complex:
        factor = complex_numbers.conj(b)
    taken: Any = array_gather.gather(grad, rows)
    values_grad = reduction.reduce_sum(taken * array_gather.gather(factor, columns), 1)
    if adjoint_a and values.dtype.is_complex:
        values_grad = complex_numbers.conj(values_grad)
    return None, values_grad, None, b_grad


def sparse_tensor_dense_matmul(
    sp_a: Any,
    b: Any,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of a sparse matrix and a dense one (or, the other way round, of both)."""
    if isinstance(b, SparseTensor | SparseTensorValue):
        flip = adjoint_a == adjoint_b
        product = sparse_tensor_dense_matmul(b, sp_a, adjoint_a != flip, adjoint_b != flip)
        return array_layout.transpose(product)
    sparse = as_sparse(sp_a)
    with name_scope(name, "SparseTensorDenseMatMul", [sparse.indices, sparse.values, b]):
        dense = convert_to_tensor(b, name="b")
        return SparseTensorDenseMatMul(
            sparse.indices,
            sparse.values,
            sparse.dense_shape,
            dense,
            adjoint_a=adjoint_a,
            adjoint_b=adjoint_b,
        )
