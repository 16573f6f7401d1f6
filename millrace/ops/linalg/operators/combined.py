"""Operators made of others: products, blocks, Kronecker products, low-rank updates, inverses."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.tensor import Tensor
from millrace.ops.array import join, layout, shape
from millrace.ops.linalg import linear_algebra
from millrace.ops.linalg.operators.base import LinearOperator, broadcast_matrices
from millrace.ops.linalg.operators.plain import LinearOperatorDiag, LinearOperatorIdentity
from millrace.ops.math import arithmetic


def _all(operators: Sequence[LinearOperator], hint: str) -> bool | None:
    return True if all(getattr(each, hint) for each in operators) else None


def _batch_of(operators: Sequence[LinearOperator]) -> TensorShape:
    found = operators[0].batch_shape
    for each in operators[1:]:
        found = shape.broadcast_static_shape(found, each.batch_shape)
    return found


class _Joined(LinearOperator):
    """What is made of a list of operators."""

    def __init__(self, operators: Any, joint: str, **hints: Any) -> None:
        self._operators = list(operators)
        if not self._operators:
            raise ValueError(f"Expected a non-empty list of operators. Found: {operators}")
        first = self._operators[0].dtype
        if any(each.dtype != first for each in self._operators):
            kinds = [each.dtype.name for each in self._operators]
            raise TypeError(f"Expected all operators to have the same dtype. Found {kinds}")
        name = hints.pop("name", None) or joint.join(each.name for each in self._operators)
        for hint in ("is_non_singular", "is_square"):
            if hints.get(hint) is None:
                hints[hint] = _all(self._operators, hint)
        parents = [p for each in self._operators for p in each.graph_parents]
        super().__init__(first, parents, name=name, **hints)

    @property
    def operators(self) -> list[LinearOperator]:
        """The operators that it is made of."""
        return self._operators


class LinearOperatorComposition(_Joined):
    """A product of operators, the last acting first."""

    def __init__(
        self, operators: Any, is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
        is_square: bool | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            operators, "_o_", is_non_singular=is_non_singular, is_self_adjoint=is_self_adjoint,
            is_positive_definite=is_positive_definite, is_square=is_square, name=name,
        )  # fmt: skip

    def _shape(self) -> TensorShape:
        for left, right in zip(self._operators, self._operators[1:], strict=False):
            left.domain_dimension.assert_is_compatible_with(right.range_dimension)
        ends = [self._operators[0].range_dimension, self._operators[-1].domain_dimension]
        return _batch_of(self._operators).concatenate(ends)

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        order = self._operators if adjoint else self._operators[::-1]
        for each in order:
            x = each.matmul(x, adjoint=adjoint, adjoint_arg=adjoint_arg)
            adjoint_arg = False
        return x

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        order = self._operators[::-1] if adjoint else self._operators
        for each in order:
            rhs = each.solve(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)
            adjoint_arg = False
        return rhs

    def _determinant(self) -> Tensor:
        return functools.reduce(arithmetic.multiply, [o.determinant() for o in self._operators])

    def _log_abs_determinant(self) -> Tensor:
        return functools.reduce(
            arithmetic.add, [each.log_abs_determinant() for each in self._operators]
        )


class LinearOperatorBlockDiag(_Joined):
    """Operators along the diagonal, zeros elsewhere."""

    def __init__(
        self, operators: Any, is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
        is_square: bool | None = True, name: str | None = None,
    ) -> None:  # fmt: skip
        operators = list(operators)
        if is_self_adjoint is None:
            is_self_adjoint = _all(operators, "is_self_adjoint")
        if is_positive_definite is None:
            is_positive_definite = _all(operators, "is_positive_definite")
        super().__init__(
            operators, "_ds_", is_non_singular=is_non_singular, is_self_adjoint=is_self_adjoint,
            is_positive_definite=is_positive_definite, is_square=is_square, name=name,
        )  # fmt: skip

    def _shape(self) -> TensorShape:
        rows = [each.range_dimension.value for each in self._operators]
        columns = [each.domain_dimension.value for each in self._operators]
        ends = [None if None in sizes else sum(sizes) for sizes in (rows, columns)]
        return _batch_of(self._operators).concatenate(ends)

    def _parts(self, x: Any, adjoint: bool) -> list[Tensor]:
        sizes = [
            each.range_dimension_tensor() if adjoint else each.domain_dimension_tensor()
            for each in self._operators
        ]
        parts, start = [], convert_to_tensor(0)
        for size in sizes:
            parts.append(x[..., start : start + size, :])
            start = start + size
        return parts

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        x = layout.matrix_transpose(x, conjugate=True) if adjoint_arg else x
        made = [
            each.matmul(part, adjoint=adjoint)
            for each, part in zip(self._operators, self._parts(x, adjoint), strict=True)
        ]
        return join.concat(_one_batch(made), axis=-2)

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        rhs = layout.matrix_transpose(rhs, conjugate=True) if adjoint_arg else rhs
        made = [
            each.solve(part, adjoint=adjoint)
            for each, part in zip(self._operators, self._parts(rhs, not adjoint), strict=True)
        ]
        return join.concat(_one_batch(made), axis=-2)

    def _determinant(self) -> Tensor:
        return functools.reduce(arithmetic.multiply, [o.determinant() for o in self._operators])

    def _log_abs_determinant(self) -> Tensor:
        return functools.reduce(
            arithmetic.add, [each.log_abs_determinant() for each in self._operators]
        )

    def _diag_part(self) -> Tensor:
        return join.concat([each.diag_part() for each in self._operators], axis=-1)


def _one_batch(values: list[Tensor]) -> list[Tensor]:
    return broadcast_matrices(*values) if len(values) > 1 else values


class LinearOperatorKronecker(_Joined):
    """The Kronecker product of operators."""

    def __init__(
        self, operators: Any, is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
        is_square: bool | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        operators = list(operators)
        if is_self_adjoint is None:
            is_self_adjoint = _all(operators, "is_self_adjoint")
        if is_positive_definite is None:
            is_positive_definite = _all(operators, "is_positive_definite")
        super().__init__(
            operators, "_x_", is_non_singular=is_non_singular, is_self_adjoint=is_self_adjoint,
            is_positive_definite=is_positive_definite, is_square=is_square, name=name,
        )  # fmt: skip

    def _shape(self) -> TensorShape:
        ends: list[Any] = [1, 1]
        for each in self._operators:
            sizes = (each.range_dimension.value, each.domain_dimension.value)
            ends = [
                None if e is None or s is None else e * s for e, s in zip(ends, sizes, strict=True)
            ]
        return _batch_of(self._operators).concatenate(ends)

    def _to_dense(self) -> Tensor:
        made = self._operators[0].to_dense()
        for each in self._operators[1:]:
            right = each.to_dense()
            left = shape.expand_dims(shape.expand_dims(made, -2), -1)
            product = left * shape.expand_dims(shape.expand_dims(right, -3), -2)
            sizes = shape.shape(made)[-2:] * shape.shape(right)[-2:]
            batch = shape.shape(product)[:-4]
            made = shape.reshape(product, join.concat([batch, sizes], 0))
        made.set_shape(self._shape())
        return made

    def _powers(self) -> list[int]:
        sizes = [each.domain_dimension.value for each in self._operators]
        whole = functools.reduce(lambda a, b: a * b, sizes)
        return [whole // size for size in sizes]

    def _determinant(self) -> Tensor:
        powers = self._powers()
        found = [
            each.determinant() ** convert_to_tensor(float(p), dtype=self._dtype)
            for each, p in zip(self._operators, powers, strict=True)
        ]
        return functools.reduce(arithmetic.multiply, found)

    def _log_abs_determinant(self) -> Tensor:
        powers = self._powers()
        found = [o.log_abs_determinant() * p for o, p in zip(self._operators, powers, strict=True)]
        return functools.reduce(arithmetic.add, found)


class LinearOperatorLowRankUpdate(LinearOperator):
    """``L + U D V'``, with few columns in U and V."""

    def __init__(
        self, base_operator: LinearOperator, u: Any, diag_update: Any = None, v: Any = None,
        is_diag_update_positive: bool | None = None, is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
        is_square: bool | None = None, name: str = "LinearOperatorLowRankUpdate",
    ) -> None:  # fmt: skip
        self._base = base_operator
        self._u = convert_to_tensor(u, name="u")
        self._v = self._u if v is None else convert_to_tensor(v, name="v")
        positive = is_diag_update_positive or diag_update is None
        if v is None and positive and base_operator.is_positive_definite:
            is_positive_definite = True if is_positive_definite is None else is_positive_definite
        if v is None and base_operator.is_self_adjoint:
            is_self_adjoint = True if is_self_adjoint is None else is_self_adjoint
        if diag_update is None:
            rank = self._u.shape[-1].value
            size = shape.shape(self._u)[-1] if rank is None else rank
            self._middle: LinearOperator = LinearOperatorIdentity(size, dtype=self._u.dtype)
            self._diag_update: Tensor | None = None
        else:
            self._diag_update = convert_to_tensor(diag_update, name="diag_update")
            self._middle = LinearOperatorDiag(self._diag_update)
        parents = [*base_operator.graph_parents, self._u, self._v]
        super().__init__(
            base_operator.dtype, parents, is_non_singular, is_self_adjoint, is_positive_definite,
            is_square, name,
        )  # fmt: skip

    @property
    def base_operator(self) -> LinearOperator:
        """L."""
        return self._base

    @property
    def u(self) -> Tensor:
        """U."""
        return self._u

    @property
    def v(self) -> Tensor:
        """V."""
        return self._v

    @property
    def diag_operator(self) -> LinearOperator:
        """D."""
        return self._middle

    @property
    def diag_update(self) -> Tensor | None:
        """The diagonal of D, if it was given."""
        return self._diag_update

    def _shape(self) -> TensorShape:
        batch = shape.broadcast_static_shape(self._base.batch_shape, self._u.shape[:-2])
        return batch.concatenate(self._base.shape[-2:])

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        x = layout.matrix_transpose(x, conjugate=True) if adjoint_arg else x
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        inner = self._middle.matmul(linear_algebra.matmul(right, x, adjoint_a=True), adjoint)
        return self._base.matmul(x, adjoint) + linear_algebra.matmul(left, inner)

    def _to_dense(self) -> Tensor:
        update = linear_algebra.matmul(
            self._u, self._middle.matmul(layout.matrix_transpose(self._v, conjugate=True))
        )
        return self._base.to_dense() + update

    def _capacitance(self) -> Tensor:
        """``D⁻¹ + V' L⁻¹ U``, of the size of the update."""
        solved = self._base.solve(self._u)
        product = linear_algebra.matmul(self._v, solved, adjoint_a=True)
        return self._middle.inverse().add_to_tensor(product)

    def _determinant(self) -> Tensor:
        from_middle = self._base.determinant() * self._middle.determinant()
        return linear_algebra_determinant(self._capacitance()) * from_middle

    def _log_abs_determinant(self) -> Tensor:
        small = _full(self._capacitance()).log_abs_determinant()
        return small + self._middle.log_abs_determinant() + self._base.log_abs_determinant()

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        rhs = layout.matrix_transpose(rhs, conjugate=True) if adjoint_arg else rhs
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        first = self._base.solve(rhs, adjoint)
        inner = linear_algebra.matmul(right, first, adjoint_a=True)
        inner = _full(self._capacitance()).solve(inner, adjoint)
        return first - self._base.solve(linear_algebra.matmul(left, inner), adjoint)


def _full(matrix: Tensor) -> LinearOperator:
    from millrace.ops.linalg.operators.plain import LinearOperatorFullMatrix

    return LinearOperatorFullMatrix(matrix)


def linear_algebra_determinant(matrix: Tensor) -> Tensor:
    """The determinants of small matrices."""
    return _full(matrix).determinant()


class _Of(LinearOperator):
    """What is made of one operator."""

    def __init__(self, operator: LinearOperator, word: str, hints: dict[str, Any]) -> None:
        self._operator = operator
        name = hints.pop("name", None) or f"{operator.name}_{word}"
        for hint in ("is_non_singular", "is_self_adjoint", "is_positive_definite", "is_square"):
            if hints.get(hint) is None:
                hints[hint] = getattr(operator, hint)
        super().__init__(operator.dtype, operator.graph_parents, name=name, **hints)

    @property
    def operator(self) -> LinearOperator:
        """The operator that it is made of."""
        return self._operator


class LinearOperatorAdjoint(_Of):
    """The adjoint of an operator."""

    def __init__(self, operator: LinearOperator, **hints: Any) -> None:
        super().__init__(operator, "adjoint", hints)

    def _shape(self) -> TensorShape:
        known = self._operator.shape
        if known.ndims is None:
            return known
        return known[:-2].concatenate([known[-1], known[-2]])

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        return self._operator.matmul(x, adjoint=not adjoint, adjoint_arg=adjoint_arg)

    def _to_dense(self) -> Tensor:
        return layout.matrix_transpose(self._operator.to_dense(), conjugate=True)

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        return self._operator.solve(rhs, adjoint=not adjoint, adjoint_arg=adjoint_arg)

    def _log_abs_determinant(self) -> Tensor:
        return self._operator.log_abs_determinant()

    def _adjoint(self) -> LinearOperator:
        return self._operator


class LinearOperatorInversion(_Of):
    """The inverse of an operator."""

    def __init__(self, operator: LinearOperator, **hints: Any) -> None:
        if operator.is_non_singular is False:
            raise ValueError(f"operator and supplied hints must have is_non_singular: {operator}")
        hints["is_non_singular"] = True
        super().__init__(operator, "inv", hints)

    def _shape(self) -> TensorShape:
        return self._operator.shape

    def _shape_tensor(self) -> Tensor:
        return self._operator.shape_tensor()

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        return self._operator.solve(x, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        return self._operator.matmul(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _determinant(self) -> Tensor:
        return 1.0 / self._operator.determinant()

    def _log_abs_determinant(self) -> Tensor:
        return -self._operator.log_abs_determinant()

    def _inverse(self) -> LinearOperator:
        return self._operator


LinearOperator._after = lambda self, other: LinearOperatorComposition(  # type: ignore[method-assign]
    [self, other]
)
LinearOperator._adjoint = lambda self: LinearOperatorAdjoint(self)  # type: ignore[method-assign]
LinearOperator._inverse = lambda self: LinearOperatorInversion(self)  # type: ignore[method-assign]
