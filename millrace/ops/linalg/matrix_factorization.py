"""Factorizations of matrices, and what is solved with them.

All take batches: the last two axes hold the matrices. Kernels are LAPACK's, through JAX. A
matrix that cannot be inverted fails the step; the other factorizations give NaN then, as
TensorFlow's do.
Gradients come from JAX where TensorFlow's graphs have no op for them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from millrace.compiler.xla import jax, jnp, lax
from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import JAX_GRADIENT
from millrace.graph.shape_inference import ShapeContext, broadcast_shapes
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import diag as array_diag
from millrace.ops.array import fill as array_fill
from millrace.ops.array import gather as array_gather
from millrace.ops.array import layout as array_layout
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.functions import vector_jacobian
from millrace.ops.linalg import linear_algebra
from millrace.ops.math import arithmetic, comparison, complex_numbers, elementwise, reduction
from millrace.ops.math.broadcasting import shape_text, sum_batches_to_inputs

__all__ = [
    "cholesky", "cholesky_solve", "matrix_determinant", "matrix_inverse", "matrix_solve",
    "matrix_solve_ls", "matrix_square_root", "matrix_triangular_solve", "qr",
    "self_adjoint_eig", "self_adjoint_eigvals", "svd",
]  # fmt: skip

_TYPES = "{float64, float32, float16, complex64, complex128}"


# -- Shapes ------------------------------------------------------------------------------


def _matrices(shape: TensorShape) -> tuple[TensorShape, int | None, int | None] | None:
    """(batch, rows, columns), or None where the rank is not known."""
    if shape.sizes is None:
        return None
    if len(shape.sizes) < 2:
        raise ValueError(f"Shape must be at least rank 2 but is rank {len(shape.sizes)}")
    return shape[:-2], shape.sizes[-2], shape.sizes[-1]


def _square(shape: TensorShape) -> tuple[TensorShape, int | None] | None:
    """(batch, rows) of square matrices, or None where the rank is not known."""
    parts = _matrices(shape)
    if parts is None:
        return None
    batch, rows, columns = parts
    if rows is not None and columns is not None and rows != columns:
        raise ValueError(f"Dimensions must be equal, but are {rows} and {columns}")
    return batch, rows if rows is not None else columns


def _square_shape(c: ShapeContext) -> TensorShape:
    parts = _square(c.shape(0))
    return unknown_shape() if parts is None else parts[0].concatenate([parts[1], parts[1]])


def _determinant_shape(c: ShapeContext) -> list[TensorShape]:
    parts = _square(c.shape(0))
    return [unknown_shape() if parts is None else parts[0]] * c.output_count


def _solution_shape(c: ShapeContext) -> TensorShape:
    left, right = _square(c.shape(0)), _matrices(c.shape(1))
    if left is None or right is None:
        return unknown_shape()
    if None not in (left[1], right[1]) and left[1] != right[1]:
        raise ValueError(f"Dimensions must be equal, but are {left[1]} and {right[1]}")
    rows = left[1] if left[1] is not None else right[1]
    return broadcast_shapes(left[0], right[0]).concatenate([rows, right[2]])


def _system_shape(c: ShapeContext) -> TensorShape:
    """As `_solution_shape`, but batches are the same on both sides: one tells the other."""
    left, right = _square(c.shape(0)), _matrices(c.shape(1))
    if left is None and right is not None:
        return c.shape(1)
    if left is not None and right is None:
        return left[0].concatenate([left[1], None])
    if left is not None and right is not None:
        left[0].merge_with(right[0])
    return _solution_shape(c)


def _least_squares_shape(c: ShapeContext) -> TensorShape:
    left, right = _matrices(c.shape(0)), _matrices(c.shape(1))
    if left is None or right is None:
        return unknown_shape()
    if None not in (left[1], right[1]) and left[1] != right[1]:
        raise ValueError(f"Dimensions must be equal, but are {left[1]} and {right[1]}")
    return left[0].merge_with(right[0]).concatenate([left[2], right[2]])


def _least(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return 0 if 0 in (a, b) else None
    return min(a, b)


# -- Kernels on batches ------------------------------------------------------------------


def _require_square(x: Any) -> None:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"Input matrix must be square, got shape {shape_text(x.shape)}")


def _adjoint(x: Any) -> Any:
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def _single(x: Any) -> Any:
    """LAPACK has no half precision: such matrices are worked on as float32."""
    return jnp.asarray(x).astype(np.float32) if x.dtype == np.float16 else jnp.asarray(x)


# -- Cholesky ----------------------------------------------------------------------------


@op(f"Cholesky(input: T) -> output: T where T: {_TYPES}", shape=_square_shape)
def Cholesky(input: Any) -> Any:
    _require_square(input)
    # Only the lower triangle is read.
    return jnp.tril(lax.linalg.cholesky(_single(input), symmetrize_input=False))


@Cholesky.gradient
def _(op: Operation, grad: Any) -> Any:
    (half,) = vector_jacobian.jax_gradient(op, grad)
    return (half + adjoint(half)) * convert_to_tensor(0.5, half.dtype.base_dtype)


@op(
    "CholeskyGrad(l: T, grad: T) -> output: T where T: {float16, float32, float64}",
    shape=_square_shape,
    gradient=JAX_GRADIENT,
)
def CholeskyGrad(l: Any, grad: Any) -> Any:  # noqa: E741 - TensorFlow's name
    factor, grad = _single(l), _single(grad)
    middle = jnp.tril(jnp.matmul(_adjoint(factor), grad))
    diagonal = jnp.diagonal(middle, axis1=-2, axis2=-1)
    middle = middle - 0.5 * diagonal[..., None] * jnp.eye(factor.shape[-1], dtype=factor.dtype)

    def solve(b: Any) -> Any:
        return lax.linalg.triangular_solve(
            factor, b, left_side=True, lower=True, transpose_a=True, conjugate_a=True
        )

    result = _adjoint(solve(_adjoint(solve(middle))))
    return 0.5 * (result + _adjoint(result))


def cholesky(input: Any, name: str | None = None) -> Tensor:
    """The lower triangular factor of symmetric positive definite matrices."""
    return Cholesky(input, name=name)


def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """Solves ``A X = rhs`` given the Cholesky factor of A."""
    with name_scope(name, "cholesky_solve", [chol, rhs]):
        first = MatrixTriangularSolve(chol, rhs, lower=True, adjoint=False)
        return MatrixTriangularSolve(chol, first, lower=True, adjoint=True)


# -- Inverse, determinant, solve ---------------------------------------------------------


@op(
    f"MatrixInverse(input: T) -> output: T where adjoint: bool = false; T: {_TYPES}",
    shape=_square_shape,
)
def MatrixInverse(input: Any, *, adjoint: bool, check: Any) -> Any:
    _require_square(input)
    matrix = _single(input)
    result = jnp.linalg.inv(_adjoint(matrix) if adjoint else matrix)
    check(jnp.isfinite(result), "Input is not invertible.")
    return result


@MatrixInverse.gradient
def _(op: Operation, grad: Any) -> Any:
    inverse, flip = op.outputs[0], op.get_attr("adjoint")
    inner = linear_algebra.matmul(grad, inverse, adjoint_a=flip, adjoint_b=not flip)
    return elementwise.Neg(linear_algebra.matmul(inverse, inner, adjoint_a=not flip))


def matrix_inverse(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """The inverses of square matrices (of their adjoints, if `adjoint`)."""
    return MatrixInverse(input, adjoint=adjoint, name=name)


@op(
    "MatrixDeterminant(input: T) -> output: T "
    "where T: {float16, float32, float64, complex64, complex128}",
    shape=lambda c: _determinant_shape(c)[0],
)
def MatrixDeterminant(input: Any) -> Any:
    _require_square(input)
    return jnp.linalg.det(_single(input))


def _beside_matrices(scalars: Any) -> Any:
    return array_shape.expand_dims(array_shape.expand_dims(scalars, -1), -1)


@MatrixDeterminant.gradient
def _(op: Operation, grad: Any) -> Any:
    inverse = matrix_inverse(op.inputs[0], adjoint=True)
    determinant = complex_numbers.conj(op.outputs[0])
    return _beside_matrices(grad * determinant) * inverse


def matrix_determinant(input: Any, name: str | None = None) -> Tensor:
    """The determinants of square matrices."""
    return MatrixDeterminant(input, name=name)


@op(
    "LogMatrixDeterminant(input: T) -> (sign: T, log_abs_determinant: T) "
    "where T: {float16, float32, float64, complex64, complex128}",
    shape=_determinant_shape,
)
def LogMatrixDeterminant(input: Any) -> Any:
    _require_square(input)
    return tuple(jnp.linalg.slogdet(_single(input)))


@LogMatrixDeterminant.gradient
def _(op: Operation, grad_sign: Any, grad_log: Any) -> Any:
    return _beside_matrices(grad_log) * matrix_inverse(op.inputs[0], adjoint=True)


class LogDeterminant(NamedTuple):
    """What `slogdet` returns."""

    sign: Tensor
    log_abs_determinant: Tensor


def slogdet(input: Any, name: str | None = None) -> Any:
    """Sign and logarithm of the absolute value of determinants."""
    return LogDeterminant(*LogMatrixDeterminant(input, name=name))


def logdet(matrix: Any, name: str | None = None) -> Tensor:
    """The logarithm of the determinant of symmetric positive definite matrices."""
    with name_scope(name, "logdet", [matrix]):
        diagonal = complex_numbers.real(array_diag.matrix_diag_part(cholesky(matrix)))
        total: Any = reduction.reduce_sum(elementwise.log(diagonal), [-1])
        return 2.0 * total


def _require_right_side(matrix: Any, rhs: Any) -> None:
    _require_square(matrix)
    if rhs.ndim < 2 or rhs.shape[-2] != matrix.shape[-1]:
        raise ValueError(
            "Input matrix and right-hand side must have the same number of rows: "
            f"{shape_text(matrix.shape)} vs. {shape_text(rhs.shape)}"
        )


@op(
    f"MatrixSolve(matrix: T, rhs: T) -> output: T where adjoint: bool = false; T: {_TYPES}",
    shape=_system_shape,
)
def MatrixSolve(matrix: Any, rhs: Any, *, adjoint: bool, check: Any) -> Any:
    _require_right_side(matrix, rhs)
    left = _single(matrix)
    result = jnp.linalg.solve(_adjoint(left) if adjoint else left, _single(rhs))
    check(jnp.isfinite(result), "Input matrix is not invertible.")
    return result


@MatrixSolve.gradient
def _(op: Operation, grad: Any) -> Any:
    flip = op.get_attr("adjoint")
    grad_rhs = matrix_solve(op.inputs[0], grad, adjoint=not flip)
    return _gradient_of_matrix(op.outputs[0], grad_rhs, flip), grad_rhs


def _gradient_of_matrix(solution: Any, grad_rhs: Any, adjoint: bool) -> Any:
    """The gradient of the matrix of a linear system, from that of its right-hand side."""
    left, right = (solution, grad_rhs) if adjoint else (grad_rhs, solution)
    return elementwise.Neg(linear_algebra.matmul(left, right, adjoint_b=True))


def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Solves ``matrix X = rhs`` (or with the adjoint of the matrix)."""
    return MatrixSolve(matrix, rhs, adjoint=adjoint, name=name)


@op(
    "MatrixTriangularSolve(matrix: T, rhs: T) -> output: T where lower: bool = true; "
    "adjoint: bool = false; T: {bfloat16, float64, float32, float16, complex64, complex128}",
    shape=_solution_shape,
)
def MatrixTriangularSolve(matrix: Any, rhs: Any, *, lower: bool, adjoint: bool) -> Any:
    _require_right_side(matrix, rhs)
    half = matrix.dtype.itemsize == 2
    left = jnp.asarray(matrix).astype(np.float32 if half else matrix.dtype)
    right = jnp.asarray(rhs).astype(left.dtype)
    batch = jnp.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    return lax.linalg.triangular_solve(
        jnp.broadcast_to(left, batch + left.shape[-2:]),
        jnp.broadcast_to(right, batch + right.shape[-2:]),
        left_side=True,
        lower=lower,
        transpose_a=adjoint,
        conjugate_a=adjoint,
    )


@MatrixTriangularSolve.gradient
def _(op: Operation, grad: Any) -> Any:
    matrix, rhs = op.inputs
    lower, flip = op.get_attr("lower"), op.get_attr("adjoint")
    grad_rhs = matrix_triangular_solve(matrix, grad, lower=lower, adjoint=not flip)
    full = _gradient_of_matrix(op.outputs[0], grad_rhs, flip)
    triangle = (
        array_diag.matrix_band_part(full, -1, 0)
        if lower
        else array_diag.matrix_band_part(full, 0, -1)
    )
    return sum_batches_to_inputs(matrix, rhs, triangle, grad_rhs)


def matrix_triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """Solves ``matrix X = rhs`` for triangular matrices.

    Args:
      matrix: The matrices; only their lower (or upper) triangle is read.
      rhs: The right-hand sides.
      lower: Whether they are lower triangular.
      adjoint: Whether to solve with the adjoint.
      name: The node's name.
    """
    with name_scope(name, "triangular_solve", [matrix, rhs]):
        return MatrixTriangularSolve(matrix, rhs, lower=lower, adjoint=adjoint)


@op(
    "MatrixSolveLs(matrix: T, rhs: T, l2_regularizer: float64) -> output: T "
    f"where T: {_TYPES}; fast: bool = true",
    shape=_least_squares_shape,
    gradient=JAX_GRADIENT,
)
def MatrixSolveLs(matrix: Any, rhs: Any, l2_regularizer: Any, *, fast: bool) -> Any:
    left, right = _single(matrix), _single(rhs)
    if not fast:
        return jnp.matmul(jnp.linalg.pinv(left), right)
    rows, columns = left.shape[-2:]
    weight = jnp.asarray(l2_regularizer).astype(left.dtype)
    if rows >= columns:
        gram = jnp.matmul(_adjoint(left), left) + weight * jnp.eye(columns, dtype=left.dtype)
        return jnp.linalg.solve(gram, jnp.matmul(_adjoint(left), right))
    gram = jnp.matmul(left, _adjoint(left)) + weight * jnp.eye(rows, dtype=left.dtype)
    return jnp.matmul(_adjoint(left), jnp.linalg.solve(gram, right))


def matrix_solve_ls(
    matrix: Any,
    rhs: Any,
    l2_regularizer: float = 0.0,
    fast: bool = True,
    name: str | None = None,
) -> Tensor:
    """Solves ``matrix X = rhs`` in the sense of least squares.

    Args:
      matrix: The matrices, of any proportions.
      rhs: The right-hand sides.
      l2_regularizer: The weight of the squared norm of the solution.
      fast: Whether to solve the normal equations; else through singular values.
      name: The node's name.
    """
    return MatrixSolveLs(matrix, rhs, l2_regularizer, fast=fast, name=name or "matrix_solve_ls")


# -- QR, SVD, eigenvalues ----------------------------------------------------------------


def _qr_shape(c: ShapeContext) -> list[TensorShape]:
    parts = _matrices(c.shape(0))
    if parts is None:
        return [unknown_shape()] * 2
    batch, rows, columns = parts
    inner = rows if c.attr("full_matrices") else _least(rows, columns)
    return [batch.concatenate([rows, inner]), batch.concatenate([inner, columns])]


@op(
    f"Qr(input: T) -> (q: T, r: T) where full_matrices: bool = false; T: {_TYPES}",
    shape=_qr_shape,
    gradient=JAX_GRADIENT,
)
def Qr(input: Any, *, full_matrices: bool) -> Any:
    return tuple(jnp.linalg.qr(_single(input), mode="complete" if full_matrices else "reduced"))


class QrFactors(NamedTuple):
    """What `qr` returns."""

    q: Tensor
    r: Tensor


def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> Any:
    """(q, r): matrices as the product of orthogonal and upper triangular ones."""
    return QrFactors(*Qr(input, full_matrices=full_matrices, name=name))


def _svd_shape(c: ShapeContext) -> list[TensorShape]:
    parts = _matrices(c.shape(0))
    if parts is None:
        return [unknown_shape()] * 3
    batch, rows, columns = parts
    inner = _least(rows, columns)
    values = batch.concatenate([inner])
    if not c.attr("compute_uv"):
        return [values, TensorShape([0]), TensorShape([0])]
    full = c.attr("full_matrices")
    return [
        values,
        batch.concatenate([rows, rows if full else inner]),
        batch.concatenate([columns, columns if full else inner]),
    ]


@op(
    "Svd(input: T) -> (s: T, u: T, v: T) where compute_uv: bool = true; "
    f"full_matrices: bool = false; T: {_TYPES}",
    shape=_svd_shape,
    gradient=JAX_GRADIENT,
)
def Svd(input: Any, *, compute_uv: bool, full_matrices: bool) -> Any:
    matrix = _single(input)
    kind = matrix.dtype
    if not compute_uv:
        values = jnp.linalg.svd(matrix, compute_uv=False)
        return values.astype(kind), jnp.zeros((0,), kind), jnp.zeros((0,), kind)
    u, values, v_adjoint = jnp.linalg.svd(matrix, full_matrices=full_matrices)
    return values.astype(kind), u, _adjoint(v_adjoint)


def svd(
    tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None
) -> Any:
    """The singular value decomposition: (s, u, v), or s alone.

    Args:
      tensor: The matrices.
      full_matrices: Whether u and v are square.
      compute_uv: Whether to compute u and v.
      name: The node's name.
    """
    values, u, v = Svd(tensor, compute_uv=compute_uv, full_matrices=full_matrices, name=name)
    values = complex_numbers.real(values)
    return (values, u, v) if compute_uv else values


def _eigen_shape(c: ShapeContext) -> list[TensorShape]:
    parts = _square(c.shape(0))
    if parts is None:
        return [unknown_shape(), unknown_shape() if c.attr("compute_v") else TensorShape([0])]
    batch, rows = parts
    vectors = batch.concatenate([rows, rows]) if c.attr("compute_v") else TensorShape([0])
    return [batch.concatenate([rows]), vectors]


@op(
    f"SelfAdjointEigV2(input: T) -> (e: T, v: T) where compute_v: bool = true; T: {_TYPES}",
    shape=_eigen_shape,
)
def SelfAdjointEigV2(input: Any, *, compute_v: bool) -> Any:
    _require_square(input)
    matrix = _single(input)
    # Only the lower triangle is read.
    values, vectors = jnp.linalg.eigh(matrix, UPLO="L", symmetrize_input=False)
    if not compute_v:
        vectors = jnp.zeros((0,), matrix.dtype)
    return values.astype(matrix.dtype), vectors


@SelfAdjointEigV2.gradient
def _(op: Operation, grad_values: Any, grad_vectors: Any) -> Any:
    (full,) = vector_jacobian.jax_gradient(op, grad_values, grad_vectors)
    # The upper triangle is not read: its part of the gradient belongs to the lower one.
    folded = array_diag.matrix_band_part(full + adjoint(full), -1, 0)
    half = convert_to_tensor(0.5, full.dtype.base_dtype)
    return folded - half * array_diag.matrix_band_part(folded, 0, 0)


def self_adjoint_eig(tensor: Any, name: str | None = None) -> Any:
    """(e, v): eigenvalues in rising order and eigenvectors of self-adjoint matrices."""
    return SelfAdjointEigV2(tensor, compute_v=True, name=name)


def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """The eigenvalues of self-adjoint matrices, in rising order."""
    values, _ = SelfAdjointEigV2(tensor, compute_v=False, name=name)
    return values


def _lu_shape(c: ShapeContext) -> list[TensorShape]:
    parts = _square(c.shape(0))
    if parts is None:
        return [unknown_shape()] * 2
    batch, rows = parts
    return [batch.concatenate([rows, rows]), batch.concatenate([rows])]


@op(
    f"Lu(input: T) -> (lu: T, p: output_idx_type) where T: {_TYPES}; "
    "output_idx_type: {int32, int64} = int32",
    shape=_lu_shape,
    gradient=JAX_GRADIENT,
)
def Lu(input: Any, *, check: Any) -> Any:
    _require_square(input)
    factors, _, permutation = lax.linalg.lu(_single(input))
    check(jnp.diagonal(factors, axis1=-2, axis2=-1) != 0, "Input is not invertible.")
    return factors, permutation


class LuFactors(NamedTuple):
    """What `lu` returns."""

    lu: Tensor
    p: Tensor


def lu(input: Any, output_idx_type: Any = dtypes.int32, name: str | None = None) -> Any:
    """(lu, p): lower and upper factors in one matrix, and the permutation of rows."""
    return LuFactors(*Lu(input, output_idx_type=output_idx_type, name=name))


# -- Built from these --------------------------------------------------------------------


def adjoint(matrix: Any, name: str | None = None) -> Tensor:
    """The conjugate transpose of matrices."""
    with name_scope(name, "adjoint", [matrix]):
        matrix = convert_to_tensor(matrix, name="matrix")
        return array_layout.matrix_transpose(matrix, conjugate=True)


@op(
    f"MatrixExponential(input: T) -> output: T where T: {_TYPES}",
    shape=_square_shape,
    gradient=JAX_GRADIENT,
)
def MatrixExponential(input: Any) -> Any:
    _require_square(input)
    return jax.scipy.linalg.expm(_single(input))


def expm(input: Any, name: str | None = None) -> Tensor:
    """The exponential of square matrices."""
    return MatrixExponential(input, name=name or "matrix_exponential")


@jax.custom_jvp
def _square_root(matrix: Any) -> Any:
    root = jax.scipy.linalg.sqrtm(matrix)
    return root if jnp.iscomplexobj(matrix) else jnp.real(root)


@_square_root.defjvp
def _(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    # The differential solves the Sylvester equation S dS + dS S = dA.
    root = _square_root(primals[0])
    identity = jnp.eye(root.shape[0], dtype=root.dtype)
    system = jnp.kron(root, identity) + jnp.kron(identity, root.T)
    return root, jnp.linalg.solve(system, jnp.ravel(tangents[0])).reshape(root.shape)


@op(
    f"MatrixSquareRoot(input: T) -> output: T where T: {_TYPES}",
    shape=_square_shape,
    gradient=JAX_GRADIENT,
)
def MatrixSquareRoot(input: Any) -> Any:
    _require_square(input)
    return jnp.vectorize(_square_root, signature="(n,n)->(n,n)")(_single(input))


def matrix_square_root(input: Any, name: str | None = None) -> Tensor:
    """Square matrices whose product with themselves is the input."""
    return MatrixSquareRoot(input, name=name)


def _epsilon(x: Tensor) -> float:
    return float(np.finfo(x.dtype.base_dtype.real_dtype.as_numpy_dtype).eps)


def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The Moore-Penrose inverse of matrices.

    Args:
      a: The matrices.
      rcond: Singular values below this share of the greatest count as 0; 10 times the larger
        side times the machine's precision when None.
      validate_args: Accepted for compatibility.
      name: The name scope.
    """
    with name_scope(name or "pinv"):
        matrix = convert_to_tensor(a, name="a")
        sides = [size for size in (matrix.shape.sizes or ())[-2:] if size is not None]
        if rcond is None:
            rcond = 10.0 * max(sides, default=1) * _epsilon(matrix)
        values, u, v = svd(matrix)
        greatest: Any = reduction.reduce_max(values, -1, keepdims=True)
        limit = rcond * greatest
        kept = array_select.where_v2(
            comparison.greater(values, limit), values, convert_to_tensor(np.inf, values.dtype)
        )
        scaled = v / cast.cast(array_shape.expand_dims(kept, -2), v.dtype)
        return linear_algebra.matmul(scaled, u, adjoint_b=True)


def matrix_rank(
    a: Any, tol: Any = None, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """How many singular values of each matrix are greater than `tol`."""
    with name_scope(name or "matrix_rank"):
        matrix = convert_to_tensor(a, name="a")
        values = svd(matrix, compute_uv=False)
        if tol is None:
            side = max([size for size in (matrix.shape.sizes or ())[-2:] if size], default=1)
            greatest: Any = reduction.reduce_max(values, -1, keepdims=True)
            tol = _epsilon(matrix) * side * greatest
        return reduction.reduce_sum(cast.cast(comparison.greater(values, tol), "int32"), -1)


def lu_solve(
    lower_upper: Any, perm: Any, rhs: Any, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """Solves ``X Y = rhs`` given what `lu` made of X (a single matrix)."""
    with name_scope(name or "lu_solve"):
        factors = convert_to_tensor(lower_upper, name="lower_upper")
        permuted = array_gather.gather(rhs, perm)
        unit = array_diag.matrix_set_diag(
            array_diag.matrix_band_part(factors, -1, 0),
            array_fill.ones_like(array_diag.matrix_diag_part(factors)),
        )
        first = matrix_triangular_solve(unit, permuted, lower=True)
        return matrix_triangular_solve(factors, first, lower=False)


def normalize(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """(tensor / norm, norm), the norm with its axes kept; see `norm` for the arguments."""
    with name_scope(name, "normalize", [tensor]):
        x: Any = convert_to_tensor(tensor)
        length: Any = linear_algebra.norm(x, ord, axis, keepdims=True)
        length = cast.cast(length, x.dtype.base_dtype)
        return arithmetic.truediv(x, length), length
