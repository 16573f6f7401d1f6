"""Products of matrices, and norms of vectors and matrices.

MatMul contracts with the axes that its transpose flags name: no transposed copy is made. The
batch forms broadcast their leading axes. Factorizations are in `matrix_factorization`,
contractions of several axes in `contraction`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.xla import jnp, lax
from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import ShapeContext, broadcast_shapes
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import diag as array_diag
from millrace.ops.array import layout as array_layout
from millrace.ops.array import shape as array_shape
from millrace.ops.linalg import matrix_factorization
from millrace.ops.math import arithmetic, complex_numbers, elementwise, reduction
from millrace.ops.math.broadcasting import (
    can_broadcast,
    overload_pair,
    shape_text,
    sum_batches_to_inputs,
)

__all__ = ["batch_matmul", "cross", "matmul", "norm", "sparse_matmul", "trace"]


# -- Shapes ------------------------------------------------------------------------------


def _product_sizes(
    a: tuple[int | None, int | None], b: tuple[int | None, int | None]
) -> list[int | None]:
    if a[1] is not None and b[0] is not None and a[1] != b[0]:
        raise ValueError(f"Dimensions must be equal, but are {a[1]} and {b[0]}")
    return [a[0], b[1]]


def _matrix_sizes(shape: TensorShape, transposed: bool) -> tuple[int | None, int | None]:
    if shape.sizes is None:
        return None, None
    if len(shape.sizes) != 2:
        raise ValueError(f"Shape must be rank 2 but is rank {len(shape.sizes)}")
    rows, columns = shape.sizes
    return (columns, rows) if transposed else (rows, columns)


def _matmul_shape(c: ShapeContext) -> TensorShape:
    a = _matrix_sizes(c.shape(0), c.attr("transpose_a"))
    b = _matrix_sizes(c.shape(1), c.attr("transpose_b"))
    return TensorShape(_product_sizes(a, b))


def _batch_shape(c: ShapeContext) -> TensorShape:
    shapes = c.shape(0), c.shape(1)
    for shape in shapes:
        if shape.ndims is not None and shape.ndims < 2:
            raise ValueError(f"Shape must be at least rank 2 but is rank {shape.ndims}")
    if any(shape.sizes is None for shape in shapes):
        return unknown_shape()
    a = _matrix_sizes(shapes[0][-2:], c.attr("adj_x"))
    b = _matrix_sizes(shapes[1][-2:], c.attr("adj_y"))
    return broadcast_shapes(shapes[0][:-2], shapes[1][:-2]).concatenate(_product_sizes(a, b))


# -- Kernels and gradients ---------------------------------------------------------------


def _require_product(a: Any, b: Any, inner_a: int, inner_b: int) -> None:
    for i, operand in enumerate((a, b)):
        if operand.ndim < 2:
            raise ValueError(f"In[{i}] ndims must be >= 2: {operand.ndim}")
    if a.shape[inner_a] != b.shape[inner_b]:
        raise ValueError(
            f"Matrix size-incompatible: In[0]: {shape_text(a.shape)}, In[1]: {shape_text(b.shape)}"
        )


def _matrix_product(a: Any, b: Any, transpose_a: bool, transpose_b: bool, xp: Any) -> Any:
    inner_a, inner_b = (0 if transpose_a else 1), (1 if transpose_b else 0)
    _require_product(a, b, inner_a, inner_b)
    if xp is jnp:
        return lax.dot_general(jnp.asarray(a), jnp.asarray(b), (((inner_a,), (inner_b,)), ((), ())))
    return xp.matmul(a.T if transpose_a else a, b.T if transpose_b else b)


@op(
    "MatMul(a: T, b: T) -> product: T where transpose_a: bool = false; transpose_b: bool = false; "
    "T: {bfloat16, float16, float32, float64, int32, int64, uint8, uint16, uint32, uint64, "
    "complex64, complex128}; grad_a: bool = false; grad_b: bool = false",
    shape=_matmul_shape,
)
def MatMul(a: Any, b: Any, *, xp: Any, transpose_a: bool, transpose_b: bool) -> Any:
    return _matrix_product(a, b, transpose_a, transpose_b, xp)


@MatMul.on_host
def _(node: Any, known: Any) -> Any:
    flip_a, flip_b = node.attrs["transpose_a"], node.attrs["transpose_b"]

    def product(a: Any, b: Any) -> Any:
        if a.ndim != 2 or b.ndim != 2:
            raise ValueError("They are no matrices")
        return (a.T if flip_a else a).dot(b.T if flip_b else b)

    return product


@MatMul.gradient
def _(op: Operation, grad: Any) -> Any:
    a, b = (complex_numbers.conj(t) for t in op.inputs)
    flip_a, flip_b = op.get_attr("transpose_a"), op.get_attr("transpose_b")
    if flip_a:
        grad_a = MatMul(b, grad, transpose_a=flip_b, transpose_b=True, grad_a=True)
    else:
        grad_a = MatMul(grad, b, transpose_b=not flip_b, grad_a=True)
    if flip_b:
        grad_b = MatMul(grad, a, transpose_a=True, transpose_b=flip_a, grad_b=True)
    else:
        grad_b = MatMul(a, grad, transpose_a=not flip_a, grad_b=True)
    return grad_a, grad_b


@op(
    "SparseMatMul(a: Ta, b: Tb) -> product: float32 where transpose_a: bool = false; "
    "transpose_b: bool = false; a_is_sparse: bool = false; b_is_sparse: bool = false; "
    "Ta: {float32, bfloat16} = float32; Tb: {float32, bfloat16} = float32",
    shape=_matmul_shape,
)
def SparseMatMul(a: Any, b: Any, *, xp: Any, transpose_a: bool, transpose_b: bool) -> Any:
    """A product of dense matrices of which one holds many zeros; here like any other."""
    a, b = a.astype(np.float32), b.astype(np.float32)
    return _matrix_product(a, b, transpose_a, transpose_b, xp)


@SparseMatMul.gradient
def _(op: Operation, grad: Any) -> Any:
    a, b = op.inputs
    sparse = {a: op.get_attr("a_is_sparse"), b: op.get_attr("b_is_sparse")}
    sparse[grad] = grad.op.type == "ReluGrad"
    flip_a, flip_b = op.get_attr("transpose_a"), op.get_attr("transpose_b")

    def product(left: Any, right: Any, like: Tensor, flip_left: bool, flip_right: bool) -> Any:
        result = SparseMatMul(
            left,
            right,
            transpose_a=flip_left,
            transpose_b=flip_right,
            a_is_sparse=sparse[left],
            b_is_sparse=sparse[right],
        )
        return cast.cast(result, like.dtype.base_dtype)

    return (
        product(b, grad, a, flip_b, True) if flip_a else product(grad, b, a, False, not flip_b),
        product(grad, a, b, True, flip_a) if flip_b else product(a, grad, b, not flip_a, False),
    )


def _batch_product(x: Any, y: Any, adj_x: bool, adj_y: bool, xp: Any) -> Any:
    _require_product(x, y, -2 if adj_x else -1, -1 if adj_y else -2)
    if not can_broadcast(x.shape[:-2], y.shape[:-2]):
        raise ValueError(
            "In[0] and In[1] must have compatible batch dimensions: "
            f"{shape_text(x.shape)} vs. {shape_text(y.shape)}"
        )
    return xp.matmul(_adjoint(x, xp) if adj_x else x, _adjoint(y, xp) if adj_y else y)


def _adjoint(x: Any, xp: Any) -> Any:
    return xp.conj(xp.swapaxes(x, -1, -2))


_BATCH_FLAGS = (
    "adj_x: bool = false; adj_y: bool = false; grad_x: bool = false; grad_y: bool = false"
)


@op(
    "BatchMatMul(x: T, y: T) -> output: T where T: {bfloat16, float16, float32, float64, int32, "
    f"int64, complex64, complex128}}; {_BATCH_FLAGS}",
    shape=_batch_shape,
)
def BatchMatMul(x: Any, y: Any, *, xp: Any, adj_x: bool, adj_y: bool) -> Any:
    return _batch_product(x, y, adj_x, adj_y, xp)


@op(
    "BatchMatMulV2(x: T, y: T) -> output: T where T: {bfloat16, float16, float32, float64, int16, "
    f"int32, int64, uint8, uint16, uint32, uint64, complex64, complex128}}; {_BATCH_FLAGS}",
    shape=_batch_shape,
)
def BatchMatMulV2(x: Any, y: Any, *, xp: Any, adj_x: bool, adj_y: bool) -> Any:
    return _batch_product(x, y, adj_x, adj_y, xp)


_V3_TYPES = (
    "{bfloat16, float16, float32, float64, uint8, int8, int16, int32, int64, complex64, complex128}"
)


@op(
    f"BatchMatMulV3(x: Ta, y: Tb) -> output: Tout where Ta: {_V3_TYPES}; Tb: {_V3_TYPES}; "
    "Tout: {bfloat16, float16, float32, float64, int16, int32, int64, complex64, complex128}; "
    f"{_BATCH_FLAGS}",
    shape=_batch_shape,
)
def BatchMatMulV3(x: Any, y: Any, *, xp: Any, Tout: Any, adj_x: bool, adj_y: bool) -> Any:
    x, y = x.astype(Tout.as_numpy_dtype), y.astype(Tout.as_numpy_dtype)
    return _batch_product(x, y, adj_x, adj_y, xp)


@BatchMatMul.gradient
@BatchMatMulV2.gradient
@BatchMatMulV3.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs
    flip_x, flip_y = op.get_attr("adj_x"), op.get_attr("adj_y")
    if flip_x:
        grad_x = BatchMatMulV2(y, grad, adj_x=flip_y, adj_y=True, grad_x=True)
    else:
        grad_x = BatchMatMulV2(grad, y, adj_y=not flip_y, grad_x=True)
    if flip_y:
        grad_y = BatchMatMulV2(grad, x, adj_x=True, adj_y=flip_x, grad_y=True)
    else:
        grad_y = BatchMatMulV2(x, grad, adj_x=not flip_x, grad_y=True)
    return sum_batches_to_inputs(x, y, grad_x, grad_y)


# -- Public products ---------------------------------------------------------------------


def _is_batch(tensor: Tensor) -> bool:
    return tensor.shape.ndims is None or tensor.shape.ndims > 2


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
    *,
    output_type: Any = None,
) -> Tensor:
    """The product of two matrices, or of two batches of matrices.

    Args:
      a: A matrix; with more axes, a batch of them. Batch axes broadcast.
      b: The other matrix, or batch.
      transpose_a: Whether `a` is transposed first.
      transpose_b: Whether `b` is transposed first.
      adjoint_a: Whether `a` is transposed and conjugated first.
      adjoint_b: Whether `b` is transposed and conjugated first.
      a_is_sparse: A hint that `a` holds many zeros.
      b_is_sparse: A hint that `b` holds many zeros.
      name: The node's name.
      output_type: The type of the result; that of `a` when None.

    Raises:
      ValueError: A matrix is to be both transposed and adjoint, or sizes do not fit.
    """
    with name_scope(name, "MatMul", [a, b]) as scope:
        for flip, adjoin, which in ((transpose_a, adjoint_a, "a"), (transpose_b, adjoint_b, "b")):
            if flip and adjoin:
                raise ValueError(
                    f"Only one of `transpose_{which}` and `adjoint_{which}` can be True. Received "
                    f"`transpose_{which}`={flip}, `adjoint_{which}`={adjoin}."
                )
        a = convert_to_tensor(a, name="a")
        b = convert_to_tensor(b, preferred_dtype=a.dtype.base_dtype, name="b")
        is_sparse = (a_is_sparse or b_is_sparse) and all(
            t.dtype.base_dtype in (dtypes.float32, dtypes.bfloat16) for t in (a, b)
        )
        if not (a_is_sparse or b_is_sparse) and (_is_batch(a) or _is_batch(b)):
            # The batch ops know only the adjoint: conjugating twice leaves the transpose.
            a, adjoint_a = (complex_numbers.conj(a), True) if transpose_a else (a, adjoint_a)
            b, adjoint_b = (complex_numbers.conj(b), True) if transpose_b else (b, adjoint_b)
            if output_type is not None and dtypes.as_dtype(output_type) != a.dtype.base_dtype:
                return BatchMatMulV3(
                    a, b, Tout=output_type, adj_x=adjoint_a, adj_y=adjoint_b, name=scope
                )
            return BatchMatMulV2(a, b, adj_x=adjoint_a, adj_y=adjoint_b, name=scope)
        a, transpose_a = (complex_numbers.conj(a), True) if adjoint_a else (a, transpose_a)
        b, transpose_b = (complex_numbers.conj(b), True) if adjoint_b else (b, transpose_b)
        flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        if is_sparse:
            result = SparseMatMul(
                a, b, a_is_sparse=a_is_sparse, b_is_sparse=b_is_sparse, name=scope, **flags
            )
            both_half = a.dtype.base_dtype == b.dtype.base_dtype == dtypes.bfloat16
            return cast.cast(result, dtypes.bfloat16) if both_half else result
        if output_type is not None and dtypes.as_dtype(output_type) != a.dtype.base_dtype:
            return BatchMatMulV3(
                a, b, Tout=output_type, adj_x=transpose_a, adj_y=transpose_b, name=scope
            )
        return MatMul(a, b, name=scope, **flags)


def sparse_matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of two dense float32 or bfloat16 matrices that hold many zeros."""
    return SparseMatMul(
        a,
        b,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        a_is_sparse=a_is_sparse,
        b_is_sparse=b_is_sparse,
        name=name,
    )


def batch_matmul(
    x: Any, y: Any, adj_x: bool = False, adj_y: bool = False, name: str | None = None
) -> Tensor:
    """The old name of `matmul` for batches."""
    return BatchMatMulV2(x, y, adj_x=bool(adj_x), adj_y=bool(adj_y), name=name or "BatchMatMul")


def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """A matrix (or a batch of them) times a vector (or a batch of them)."""
    with name_scope(name, "MatVec", [a, b]):
        product = matmul(
            a,
            array_shape.expand_dims(b, -1),
            transpose_a=transpose_a,
            adjoint_a=adjoint_a,
            a_is_sparse=a_is_sparse,
            b_is_sparse=b_is_sparse,
        )
        return array_shape.squeeze(product, -1)


overload_pair("matmul", matmul, "matmul")


# -- Cross products, traces, norms -------------------------------------------------------


def _cross_shape(c: ShapeContext) -> TensorShape:
    a, b = c.shape(0), c.shape(1)
    if a.ndims is not None and b.ndims is not None and a.ndims != b.ndims:
        raise ValueError(f"Shapes must be equal rank, but are {a.ndims} and {b.ndims}")
    shape = a.merge_with(b)
    if shape.sizes is not None:
        if not shape.sizes:
            raise ValueError("Shape must be at least rank 1 but is rank 0")
        if shape.sizes[-1] not in (None, 3):
            raise ValueError(f"Dimension must be 3 but is {shape.sizes[-1]}")
    return shape


@op("Cross(a: T, b: T) -> product: T where T: real", shape=_cross_shape)
def Cross(a: Any, b: Any, *, xp: Any) -> Any:
    if a.shape != b.shape or a.ndim < 1 or a.shape[-1] != 3:
        raise ValueError(
            "Cross-products are only defined for 3-element vectors of one shape: "
            f"{shape_text(a.shape)} and {shape_text(b.shape)}"
        )
    return xp.cross(a, b)


@Cross.gradient
def _(op: Operation, grad: Any) -> Any:
    a, b = op.inputs
    return Cross(b, grad), Cross(grad, a)


def cross(a: Any, b: Any, name: str | None = None) -> Tensor:
    """The cross product of vectors with 3 elements, along the last axis."""
    return Cross(a, b, name=name)


def trace(x: Any, name: str | None = None) -> Tensor:
    """The sum of the main diagonal of the last two axes."""
    with name_scope(name, "Trace", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        return reduction.reduce_sum(array_diag.matrix_diag_part(x), [-1], name=scope)


_NAMED_NORMS = ("euclidean", "fro")


def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The norm of vectors, matrices or the whole tensor.

    Args:
      tensor: The tensor.
      ord: 'euclidean', 'fro', 1, 2, infinity, or for vectors any positive number.
      axis: An integer (vectors along it), a pair (matrices), or None (all as one vector).
      keepdims: Whether reduced axes stay, with size 1.
      name: The name scope.
      keep_dims: The old name of `keepdims`.

    Raises:
      ValueError: `ord` or `axis` is none of these.
    """
    keepdims = reduction.either("keepdims", keepdims, "keep_dims", keep_dims)
    of_matrix = isinstance(axis, list | tuple) and len(axis) == 2
    if of_matrix:
        axis = tuple(axis)
        if not all(isinstance(a, int | np.integer) for a in axis) or axis[0] == axis[1]:
            raise ValueError(
                f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {axis}"
            )
        supported: tuple[Any, ...] = (*_NAMED_NORMS, 1, 2, np.inf)
        if ord not in supported:
            raise ValueError(
                f"'ord' must be a supported matrix norm in {list(supported)}, got {ord}"
            )
    else:
        if not (axis is None or isinstance(axis, int | np.integer | Tensor)):
            raise ValueError(
                f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {axis}"
            )
        if ord != "euclidean" if isinstance(ord, str) else ord <= 0:
            raise ValueError(f"'ord' must be a supported vector norm, got {ord}")
        axis = axis if axis is None or isinstance(axis, Tensor) else (int(axis),)
    with name_scope(name, "norm", [tensor]):
        x = convert_to_tensor(tensor)
        kept = _norm_with_kept_axes(x, ord, axis, of_matrix)
        if keepdims:
            return kept
        if axis is None:
            return array_shape.squeeze(kept)
        return array_shape.squeeze(kept, axis)


def _norm_with_kept_axes(x: Any, ord: Any, axis: Any, of_matrix: bool) -> Any:
    if ord in _NAMED_NORMS or (ord == 2 and not of_matrix):
        squares = x * complex_numbers.conj(x)
        return elementwise.sqrt(reduction.reduce_sum(squares, axis, keepdims=True))
    if of_matrix and ord == 2:
        return _spectral_norm(x, axis)
    sizes: Any = elementwise.abs(x)
    if ord in (1, np.inf):
        if of_matrix:
            inner, outer = axis if ord == 1 else axis[::-1]
            sums = reduction.reduce_sum(sizes, inner, keepdims=True)
            return reduction.reduce_max(sums, outer, keepdims=True)
        pick = reduction.reduce_sum if ord == 1 else reduction.reduce_max
        return pick(sizes, axis, keepdims=True)
    powers = reduction.reduce_sum(arithmetic.pow(sizes, ord), axis, keepdims=True)
    return arithmetic.pow(powers, 1.0 / ord)


def _spectral_norm(x: Any, axis: tuple[int, int]) -> Any:
    """The greatest singular value of the matrices in two axes, which are kept."""
    rank = x.shape.ndims
    if rank is None:
        raise ValueError("The spectral norm needs a tensor of known rank")
    first, second = (a % rank for a in axis)
    others = [i for i in range(rank) if i not in (first, second)]
    matrices = array_layout.transpose(x, [*others, first, second])
    values = matrix_factorization.svd(matrices, compute_uv=False)
    greatest = reduction.reduce_max(values, -1, keepdims=True)
    kept = array_shape.expand_dims(greatest, -1)
    back = np.argsort([*others, first, second]).tolist()
    return array_layout.transpose(kept, back)
