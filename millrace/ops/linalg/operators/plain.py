"""Operators that hold their own numbers: full, diagonal, triangular, identity, reflection."""

from __future__ import annotations

from typing import Any

from millrace.core.dtypes import as_dtype, float32
from millrace.core.tensor_shape import TensorShape
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.tensor import Tensor
from millrace.ops.array import diag, fill, join, layout, shape
from millrace.ops.array.cast import cast
from millrace.ops.linalg import linear_algebra, matrix_factorization
from millrace.ops.linalg.operators.base import LinearOperator, broadcast_matrices, conjugated
from millrace.ops.math import elementwise, reduction


def _adjoint_of(x: Any, adjoint_arg: bool) -> Any:
    return layout.matrix_transpose(x, conjugate=True) if adjoint_arg else x


class LinearOperatorFullMatrix(LinearOperator):
    """A matrix without structure."""

    def __init__(
        self, matrix: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None, is_square: bool | None = None,
        name: str = "LinearOperatorFullMatrix",
    ) -> None:  # fmt: skip
        self._matrix = convert_to_tensor(matrix, name="matrix")
        if self._matrix.shape.ndims is not None and self._matrix.shape.ndims < 2:
            raise ValueError(
                f"Argument matrix must have at least 2 dimensions. Found: {self._matrix}"
            )
        super().__init__(
            self._matrix.dtype, [self._matrix], is_non_singular, is_self_adjoint,
            is_positive_definite, is_square, name,
        )  # fmt: skip

    def _shape(self) -> TensorShape:
        return self._matrix.shape

    def _shape_tensor(self) -> Tensor:
        return shape.shape(self._matrix)

    def _to_dense(self) -> Tensor:
        return self._matrix


class LinearOperatorLowerTriangular(LinearOperator):
    """A lower triangular matrix; what is above the diagonal is not looked at."""

    def __init__(
        self, tril: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None, is_square: bool | None = None,
        name: str = "LinearOperatorLowerTriangular",
    ) -> None:  # fmt: skip
        if is_square is False:
            raise ValueError("Only square lower triangular operators supported at this time.")
        given = convert_to_tensor(tril, name="tril")
        self._tril = diag.matrix_band_part(given, -1, 0)
        super().__init__(
            given.dtype, [given], is_non_singular, is_self_adjoint, is_positive_definite, True, name
        )

    def _shape(self) -> TensorShape:
        return self._tril.shape

    def _shape_tensor(self) -> Tensor:
        return shape.shape(self._tril)

    def _to_dense(self) -> Tensor:
        return self._tril

    def _diag_part(self) -> Tensor:
        return diag.matrix_diag_part(self._tril)

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        left, right = broadcast_matrices(self._tril, _adjoint_of(rhs, adjoint_arg))
        return matrix_factorization.matrix_triangular_solve(left, right, True, adjoint)

    def _determinant(self) -> Tensor:
        return reduction.reduce_prod(self._diag_part(), axis=-1)

    def _log_abs_determinant(self) -> Tensor:
        return reduction.reduce_sum(elementwise.log(elementwise.abs(self._diag_part())), axis=-1)


class LinearOperatorDiag(LinearOperator):
    """A diagonal matrix."""

    def __init__(
        self, diag: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None, is_square: bool | None = None,
        name: str = "LinearOperatorDiag",
    ) -> None:  # fmt: skip
        if is_square is False:
            raise ValueError("Only square diagonal operators supported.")
        self._diag = convert_to_tensor(diag, name="diag")
        if self._diag.shape.ndims == 0:
            raise ValueError(f"Argument diag must have at least 1 dimension. Found: {self._diag}")
        if not self._diag.dtype.is_complex:
            if is_self_adjoint is False:
                raise ValueError("A real diagonal operator is always self adjoint.")
            is_self_adjoint = True
        super().__init__(
            self._diag.dtype, [self._diag], is_non_singular, is_self_adjoint, is_positive_definite,
            True, name,
        )  # fmt: skip

    @property
    def diag(self) -> Tensor:
        """The diagonal."""
        return self._diag

    def _shape(self) -> TensorShape:
        known = self._diag.shape
        return known.concatenate(known[-1:]) if known.ndims is not None else known

    def _shape_tensor(self) -> Tensor:
        whole = shape.shape(self._diag)
        return join.concat([whole, whole[-1:]], 0)

    def _to_dense(self) -> Tensor:
        return diag.matrix_diag(self._diag)

    def _diag_part(self) -> Tensor:
        return self._diag

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        scale = shape.expand_dims(conjugated(self._diag, adjoint), -1)
        return scale * _adjoint_of(x, adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        scale = shape.expand_dims(conjugated(self._diag, adjoint), -1)
        return _adjoint_of(rhs, adjoint_arg) / scale

    def _determinant(self) -> Tensor:
        return reduction.reduce_prod(self._diag, axis=-1)

    def _log_abs_determinant(self) -> Tensor:
        return reduction.reduce_sum(elementwise.log(elementwise.abs(self._diag)), axis=-1)

    def _inverse(self) -> LinearOperator:
        return LinearOperatorDiag(
            1.0 / self._diag, self._is_non_singular, self._is_self_adjoint,
            self._is_positive_definite, True,
        )  # fmt: skip

    def _cholesky(self) -> LinearOperator:
        return LinearOperatorDiag(elementwise.sqrt(self._diag), True, True, True, True)


class _Square(LinearOperator):
    """Operators given by a number of rows and a batch shape."""

    def __init__(self, num_rows: Any, batch_shape: Any, dtype: Any, **hints: Any) -> None:
        self._num_rows = convert_to_tensor(num_rows, dtype="int32")
        self._batch = convert_to_tensor(
            [] if batch_shape is None else batch_shape, dtype="int32", name="batch_shape"
        )
        super().__init__(as_dtype(dtype), is_square=True, **hints)

    def _shape(self) -> TensorShape:
        rows, batch = constant_value(self._num_rows), constant_value(self._batch)
        count = None if rows is None else int(rows)
        outer = TensorShape(None) if batch is None else TensorShape([int(n) for n in batch])
        return outer.concatenate([count, count])

    def _shape_tensor(self) -> Tensor:
        return join.concat([self._batch, join.stack([self._num_rows, self._num_rows])], 0)


class LinearOperatorIdentity(_Square):
    """The identity."""

    def __init__(
        self, num_rows: Any, batch_shape: Any = None, dtype: Any = None,
        is_non_singular: bool | None = True, is_self_adjoint: bool | None = True,
        is_positive_definite: bool | None = True, is_square: bool | None = True,
        assert_proper_shapes: bool = False, name: str = "LinearOperatorIdentity",
    ) -> None:  # fmt: skip
        if not is_self_adjoint:
            raise ValueError("An identity operator is always self adjoint.")
        if not is_non_singular:
            raise ValueError("An identity operator is always non-singular.")
        if not is_positive_definite:
            raise ValueError("An identity operator is always positive-definite.")
        super().__init__(
            num_rows, batch_shape, dtype or float32, is_non_singular=True, is_self_adjoint=True,
            is_positive_definite=True, name=name,
        )  # fmt: skip

    def _to_dense(self) -> Tensor:
        return diag.eye(self._num_rows, batch_shape=self._batch, dtype=self._dtype)

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        x = _adjoint_of(x, adjoint_arg)
        if self.batch_shape.ndims == 0:
            return x
        return x + fill.zeros(join.concat([self._batch, [1, 1]], 0), self._dtype)

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        return self._matmul(rhs, adjoint, adjoint_arg)

    def _diag_part(self) -> Tensor:
        return fill.ones(self._shape_tensor()[:-1], self._dtype)

    def _determinant(self) -> Tensor:
        return fill.ones(self._batch, self._dtype)

    def _log_abs_determinant(self) -> Tensor:
        return fill.zeros(self._batch, self._dtype)

    def _inverse(self) -> LinearOperator:
        return self

    def _cholesky(self) -> LinearOperator:
        return self


class LinearOperatorScaledIdentity(LinearOperator):
    """A multiple of the identity."""

    def __init__(
        self, num_rows: Any, multiplier: Any, is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
        is_square: bool | None = True, assert_proper_shapes: bool = False,
        name: str = "LinearOperatorScaledIdentity",
    ) -> None:  # fmt: skip
        if not is_square:
            raise ValueError("A ScaledIdentity operator is always square.")
        self._multiplier = convert_to_tensor(multiplier, name="multiplier")
        self._num_rows = convert_to_tensor(num_rows, dtype="int32")
        if not self._multiplier.dtype.is_complex:
            is_self_adjoint = True
        super().__init__(
            self._multiplier.dtype, [self._multiplier], is_non_singular, is_self_adjoint,
            is_positive_definite, True, name,
        )  # fmt: skip

    @property
    def multiplier(self) -> Tensor:
        """The factor."""
        return self._multiplier

    def _shape(self) -> TensorShape:
        rows = constant_value(self._num_rows)
        count = None if rows is None else int(rows)
        return self._multiplier.shape.concatenate([count, count])

    def _shape_tensor(self) -> Tensor:
        square = join.stack([self._num_rows, self._num_rows])
        return join.concat([shape.shape(self._multiplier), square], 0)

    def _to_dense(self) -> Tensor:
        return diag.matrix_diag(self._diag_part())

    def _diag_part(self) -> Tensor:
        ones = fill.ones(shape.reshape(self._num_rows, [1]), self._dtype)
        return shape.expand_dims(self._multiplier, -1) * ones

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        return self._spread(adjoint) * _adjoint_of(x, adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        return _adjoint_of(rhs, adjoint_arg) / self._spread(adjoint)

    def _spread(self, adjoint: bool) -> Tensor:
        factor = conjugated(self._multiplier, adjoint)
        return shape.expand_dims(shape.expand_dims(factor, -1), -1)

    def _determinant(self) -> Tensor:
        return self._multiplier ** cast(self._num_rows, self._dtype)

    def _log_abs_determinant(self) -> Tensor:
        rows = cast(self._num_rows, self._dtype.real_dtype)
        return elementwise.log(elementwise.abs(self._multiplier)) * rows


class LinearOperatorZeros(_Square):
    """Zeros."""

    def __init__(
        self, num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = None,
        is_non_singular: bool | None = False, is_self_adjoint: bool | None = True,
        is_positive_definite: bool | None = False, is_square: bool | None = True,
        assert_proper_shapes: bool = False, name: str = "LinearOperatorZeros",
    ) -> None:  # fmt: skip
        if num_columns is not None and num_columns is not num_rows and num_columns != num_rows:
            raise NotImplementedError("LinearOperatorZeros of other than square matrices")
        if is_non_singular:
            raise ValueError("A zero operator is always singular.")
        if is_positive_definite:
            raise ValueError("A zero operator is always not positive-definite.")
        super().__init__(
            num_rows, batch_shape, dtype or float32, is_non_singular=False, is_self_adjoint=True,
            is_positive_definite=False, name=name,
        )  # fmt: skip

    def _to_dense(self) -> Tensor:
        return fill.zeros(self._shape_tensor(), self._dtype)

    def _determinant(self) -> Tensor:
        return fill.zeros(self._batch, self._dtype)


class LinearOperatorHouseholder(LinearOperator):
    """A reflection: ``I − 2 v v' / |v|²``."""

    def __init__(
        self, reflection_axis: Any, is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
        is_square: bool | None = None, name: str = "LinearOperatorHouseholder",
    ) -> None:  # fmt: skip
        self._axis = convert_to_tensor(reflection_axis, name="reflection_axis")
        if is_positive_definite:
            raise ValueError("A Householder operator is always not positive definite.")
        if is_self_adjoint is False:
            raise ValueError("A Householder operator is always self adjoint.")
        super().__init__(self._axis.dtype, [self._axis], is_non_singular, True, False, True, name)

    @property
    def reflection_axis(self) -> Tensor:
        """The axis v."""
        return self._axis

    def _shape(self) -> TensorShape:
        known = self._axis.shape
        return known.concatenate(known[-1:]) if known.ndims is not None else known

    def _shape_tensor(self) -> Tensor:
        whole = shape.shape(self._axis)
        return join.concat([whole, whole[-1:]], 0)

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        x = _adjoint_of(x, adjoint_arg)
        length = reduction.reduce_sum(self._axis * self._axis, axis=-1, keepdims=True)
        unit = shape.expand_dims(self._axis / elementwise.sqrt(length), -1)
        return x - 2 * unit * linear_algebra.matmul(unit, x, adjoint_a=True)

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        return self._matmul(rhs, adjoint, adjoint_arg)

    def _determinant(self) -> Tensor:
        return -fill.ones(self._shape_tensor()[:-2], self._dtype)

    def _log_abs_determinant(self) -> Tensor:
        return fill.zeros(self._shape_tensor()[:-2], self._dtype)


def _cholesky(self: LinearOperator) -> LinearOperator:
    return LinearOperatorLowerTriangular(
        matrix_factorization.cholesky(self.to_dense()),
        is_non_singular=True,
        is_self_adjoint=False,
    )


LinearOperator._cholesky = _cholesky  # type: ignore[method-assign]
