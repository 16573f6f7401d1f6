"""The base class: what every matrix can do, by its dense form unless a kind knows better.

A kind states `_shape`, `_shape_tensor` and one of `_matmul` and `_to_dense`; what it can do more
cheaply than a dense matrix it overrides (`_solve`, `_log_abs_determinant`, …).
"""

from __future__ import annotations

from typing import Any

from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.tensor import Tensor
from millrace.ops.array import diag, fill, join, layout, shape
from millrace.ops.control_flow import checks
from millrace.ops.linalg import linear_algebra, matrix_factorization
from millrace.ops.math import complex_numbers, elementwise, reduction

__all__ = ["LinearOperator"]


class LinearOperator:
    """A batch of matrices ``[…, M, N]`` that act on vectors, known by structure."""

    def __init__(
        self,
        dtype: Any,
        graph_parents: Any = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        """Takes what is promised of the matrices.

        Raises:
          ValueError: The promises cannot all hold.
        """
        if is_positive_definite and is_non_singular is False:
            raise ValueError("A positive definite matrix is always non-singular.")
        if is_positive_definite:
            is_non_singular = True
        if is_non_singular and is_square is False:
            raise ValueError("A non-singular matrix is always square.")
        if is_self_adjoint and is_square is False:
            raise ValueError("A self-adjoint matrix is always square.")
        if is_non_singular or is_self_adjoint:
            is_square = True
        self._dtype = dtype
        self._graph_parents = list(graph_parents or [])
        self._is_non_singular = is_non_singular
        self._is_self_adjoint = is_self_adjoint
        self._is_positive_definite = is_positive_definite
        self._is_square_hint = is_square
        self._name = name or type(self).__name__

    # -- What kinds state ------------------------------------------------------------------

    def _shape(self) -> TensorShape:
        raise NotImplementedError(f"{type(self).__name__} states no shape")

    def _shape_tensor(self) -> Tensor:
        known = self._shape()
        if known.is_fully_defined():
            return convert_to_tensor(known.as_list())
        return shape.shape(self._to_dense())

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        return linear_algebra.matmul(self._to_dense(), x, adjoint_a=adjoint, adjoint_b=adjoint_arg)

    def _to_dense(self) -> Tensor:
        whole = self.shape_tensor()
        eye = diag.eye(whole[-1], dtype=self._dtype, batch_shape=whole[:-2])
        return self._matmul(eye, False, False)

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        if self.is_square is False:
            raise NotImplementedError("Solve is not yet implemented for non-square operators.")
        rhs = layout.matrix_transpose(rhs, conjugate=True) if adjoint_arg else rhs
        if self._is_positive_definite and self._is_self_adjoint:
            chol = matrix_factorization.cholesky(self._to_dense())
            return matrix_factorization.cholesky_solve(chol, rhs)
        return matrix_factorization.matrix_solve(self._to_dense(), rhs, adjoint=adjoint)

    def _diag_part(self) -> Tensor:
        return diag.matrix_diag_part(self._to_dense())

    def _determinant(self) -> Tensor:
        if self._is_positive_definite:
            return elementwise.exp(self.log_abs_determinant())
        return matrix_factorization.matrix_determinant(self._to_dense())

    def _log_abs_determinant(self) -> Tensor:
        if self._is_positive_definite and self._is_self_adjoint:
            found = diag.matrix_diag_part(matrix_factorization.cholesky(self._to_dense()))
            return 2 * reduction.reduce_sum(elementwise.log(found), axis=-1)
        return matrix_factorization.slogdet(self._to_dense())[1]

    def _trace(self) -> Tensor:
        return reduction.reduce_sum(self.diag_part(), axis=-1)

    # -- What it is ------------------------------------------------------------------------

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self._dtype

    @property
    def name(self) -> str:
        """The name of its scope."""
        return self._name

    @property
    def graph_parents(self) -> list[Any]:
        """The tensors that it is made of."""
        return self._graph_parents

    @property
    def is_non_singular(self) -> bool | None:
        """Whether every matrix has an inverse, if that is promised."""
        return self._is_non_singular

    @property
    def is_self_adjoint(self) -> bool | None:
        """Whether every matrix equals its adjoint, if that is promised."""
        return self._is_self_adjoint

    @property
    def is_positive_definite(self) -> bool | None:
        """Whether ``x' A x > 0`` for all x but 0, if that is promised."""
        return self._is_positive_definite

    @property
    def is_square(self) -> bool | None:
        """Whether the matrices are square, if that is known."""
        rows, columns = self.range_dimension.value, self.domain_dimension.value
        if rows is not None and columns is not None:
            found: bool = rows == columns
            if self._is_square_hint is not None and self._is_square_hint != found:
                raise ValueError(
                    f"User provided hint that is_square={self._is_square_hint}, but the operator "
                    f"has shape {self.shape}"
                )
            return found
        return self._is_square_hint

    @property
    def shape(self) -> TensorShape:
        """The static shape, ``[…, M, N]``."""
        return self._shape()

    @property
    def batch_shape(self) -> TensorShape:
        """The static shape without the last two dimensions."""
        return self.shape[:-2]

    @property
    def tensor_rank(self) -> int | None:
        """The number of dimensions."""
        return self.shape.ndims

    @property
    def domain_dimension(self) -> Any:
        """N, the length of vectors that it takes."""
        known = self.shape
        return known[-1] if known.ndims is not None else TensorShape([None])[0]

    @property
    def range_dimension(self) -> Any:
        """M, the length of vectors that it gives."""
        known = self.shape
        return known[-2] if known.ndims is not None else TensorShape([None])[0]

    def shape_tensor(self, name: str = "shape_tensor") -> Tensor:
        """The shape, as a tensor."""
        with name_scope(f"{self._name}/{name}/"):
            return self._shape_tensor()

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """The shape without the last two dimensions, as a tensor."""
        return self.shape_tensor(name)[:-2]

    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Tensor:
        """The number of dimensions, as a tensor."""
        return shape.size(self.shape_tensor(name))

    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Tensor:
        """N, as a tensor."""
        return self.shape_tensor(name)[-1]

    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Tensor:
        """M, as a tensor."""
        return self.shape_tensor(name)[-2]

    # -- What it does ----------------------------------------------------------------------

    def matmul(
        self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul"
    ) -> Any:
        """``A x``, for matrices x, or the composition with another operator."""
        if isinstance(x, LinearOperator):
            return self._composed(x, adjoint, adjoint_arg)
        with name_scope(f"{self._name}/{name}/"):
            x = convert_to_tensor(x, dtype=self._dtype)
            mine = self.range_dimension if adjoint else self.domain_dimension
            if x.shape.ndims is not None:
                mine.assert_is_compatible_with(x.shape[-1 if adjoint_arg else -2])
            return self._matmul(x, adjoint, adjoint_arg)

    def _composed(self, other: LinearOperator, adjoint: bool, adjoint_arg: bool) -> Any:
        left = self.adjoint() if adjoint else self
        right = other.adjoint() if adjoint_arg else other
        return left._after(right)

    def _after(self, other: LinearOperator) -> LinearOperator:
        raise NotImplementedError  # Set by `combined`, which has the composition.

    def __matmul__(self, other: Any) -> Any:
        return self.matmul(other)

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Tensor:
        """``A x``, for vectors x."""
        x = convert_to_tensor(x, dtype=self._dtype)
        return shape.squeeze(self.matmul(shape.expand_dims(x, -1), adjoint, name=name), axis=[-1])

    def solve(
        self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve"
    ) -> Tensor:
        """The X of ``A X = rhs``, for matrices.

        Raises:
          NotImplementedError: The matrices are known to have no inverse.
        """
        if self._is_non_singular is False:
            raise NotImplementedError(
                "Exact solve not implemented for an operator that is expected to be singular."
            )
        with name_scope(f"{self._name}/{name}/"):
            rhs = convert_to_tensor(rhs, dtype=self._dtype)
            return self._solve(rhs, adjoint, adjoint_arg)

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Tensor:
        """The x of ``A x = rhs``, for vectors."""
        rhs = convert_to_tensor(rhs, dtype=self._dtype)
        found = self.solve(shape.expand_dims(rhs, -1), adjoint, name=name)
        return shape.squeeze(found, axis=[-1])

    def to_dense(self, name: str = "to_dense") -> Tensor:
        """The matrices."""
        with name_scope(f"{self._name}/{name}/"):
            return self._to_dense()

    def diag_part(self, name: str = "diag_part") -> Tensor:
        """The diagonals."""
        with name_scope(f"{self._name}/{name}/"):
            return self._diag_part()

    def trace(self, name: str = "trace") -> Tensor:
        """The sums of the diagonals."""
        with name_scope(f"{self._name}/{name}/"):
            return self._trace()

    def determinant(self, name: str = "det") -> Tensor:
        """The determinants."""
        self._demand_square("Determinant")
        with name_scope(f"{self._name}/{name}/"):
            return self._determinant()

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        """The logarithms of the determinants' absolute values."""
        self._demand_square("Determinant")
        with name_scope(f"{self._name}/{name}/"):
            return self._log_abs_determinant()

    def _demand_square(self, what: str) -> None:
        if self.is_square is False:
            raise NotImplementedError(
                f"{what} not implemented for an operator that is expected to not be square."
            )

    def add_to_tensor(self, x: Any, name: str = "add_to_tensor") -> Tensor:
        """``A + x``."""
        with name_scope(f"{self._name}/{name}/"):
            return self._to_dense() + convert_to_tensor(x, dtype=self._dtype)

    def adjoint(self, name: str = "adjoint") -> LinearOperator:
        """The operator of the adjoint matrices."""
        if self._is_self_adjoint:
            return self
        return self._adjoint()

    H = property(adjoint)

    def _adjoint(self) -> LinearOperator:
        raise NotImplementedError  # Set by `combined`.

    def inverse(self, name: str = "inverse") -> LinearOperator:
        """The operator of the inverse matrices."""
        self._demand_square("Inverse")
        return self._inverse()

    def _inverse(self) -> LinearOperator:
        raise NotImplementedError  # Set by `combined`.

    def cholesky(self, name: str = "cholesky") -> LinearOperator:
        """The operator of the Cholesky factors.

        Raises:
          ValueError: The matrices are not promised to be positive definite and self-adjoint.
        """
        if not (self._is_positive_definite and self._is_self_adjoint):
            raise ValueError(
                "Cannot take the Cholesky decomposition: Not a positive definite self adjoint "
                "matrix."
            )
        return self._cholesky()

    def _cholesky(self) -> LinearOperator:
        raise NotImplementedError  # Set by `plain`.

    def assert_non_singular(self, name: str = "assert_non_singular") -> Any:
        """An op that fails where a matrix has no inverse."""
        smallest = elementwise.abs(self.determinant())
        return checks.assert_greater(
            smallest, fill.zeros_like(smallest), message="Singular matrix encountered."
        )

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Any:
        """An op that fails where a matrix is not positive definite."""
        return matrix_factorization.cholesky(self._to_dense()).op

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Any:
        """An op that fails where a matrix is not its own adjoint."""
        dense = self._to_dense()
        return checks.assert_equal(
            dense,
            layout.matrix_transpose(dense, conjugate=True),
            message="Matrix was not equal to its adjoint.",
        )


def broadcast_matrices(*values: Tensor) -> list[Tensor]:
    """The same matrices with one batch shape."""
    known = [each.shape[:-2] for each in values]
    if all(each.is_fully_defined() and each == known[0] for each in known):
        return list(values)
    batch = shape.shape(values[0])[:-2]
    for each in values[1:]:
        batch = shape.broadcast_dynamic_shape(batch, shape.shape(each)[:-2])
    return [
        shape.broadcast_to(each, join.concat([batch, shape.shape(each)[-2:]], 0)) for each in values
    ]


def conjugated(value: Tensor, adjoint: bool) -> Tensor:
    """The complex conjugate where an adjoint is wanted."""
    return complex_numbers.conj(value) if adjoint and value.dtype.is_complex else value
