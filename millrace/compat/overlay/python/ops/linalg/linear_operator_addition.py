"""What libraries take from TensorFlow's python.ops.linalg.linear_operator_addition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import millrace as tf

_Operator = tf.linalg.LinearOperator
_IDENTITIES = (tf.linalg.LinearOperatorIdentity, tf.linalg.LinearOperatorScaledIdentity)
_DIAGONALS = (*_IDENTITIES, tf.linalg.LinearOperatorDiag)
_TRIANGULAR = (*_DIAGONALS, tf.linalg.LinearOperatorLowerTriangular)


def _scaled_identity(first: Any, second: Any, **hints: Any) -> Any:
    factors = [
        getattr(each, "multiplier", tf.ones(each.batch_shape_tensor(), each.dtype))
        for each in (first, second)
    ]
    rows = first.range_dimension_tensor()
    return tf.linalg.LinearOperatorScaledIdentity(rows, factors[0] + factors[1], **hints)


def _diagonal(first: Any, second: Any, **hints: Any) -> Any:
    return tf.linalg.LinearOperatorDiag(first.diag_part() + second.diag_part(), **hints)


def _triangular(first: Any, second: Any, **hints: Any) -> Any:
    return tf.linalg.LinearOperatorLowerTriangular(first.add_to_tensor(second.to_dense()), **hints)


def _full(first: Any, second: Any, **hints: Any) -> Any:
    return tf.linalg.LinearOperatorFullMatrix(first.add_to_tensor(second.to_dense()), **hints)


#: Kinds of operators and how two of a kind are added, the cheapest first.
_KINDS: tuple[tuple[Any, Callable[..., Any]], ...] = (
    (_IDENTITIES, _scaled_identity),
    (_DIAGONALS, _diagonal),
    (_TRIANGULAR, _triangular),
    (_Operator, _full),
)


def add_operators(
    operators: Sequence[Any],
    operator_name: str | None = None,
    addition_tiers: Any = None,
    name: str | None = None,
) -> list[Any]:
    """The sum of operators, of the simplest kind that can hold it, in a list of one.

    Operators of a cheap kind are added before they meet those of a dearer one.

    Raises:
      ValueError: There is no operator, or their shapes do not fit together.
      TypeError: One of them is no operator.
      NotImplementedError: Ways to add of the caller's own.
    """
    if addition_tiers is not None:
        raise NotImplementedError("add_operators: addition_tiers is not in Millrace")
    remaining = list(operators)
    if not remaining:
        raise ValueError(
            f"Argument 'operators' must contain at least one operator.  Found: {remaining}"
        )
    if not all(isinstance(each, _Operator) for each in remaining):
        raise TypeError(f"operators must be LinearOperators. Found: {remaining}")
    for dimension in ("range", "domain"):
        sizes = [(each.name, getattr(each, f"{dimension}_dimension")) for each in remaining]
        if len({str(size) for _, size in sizes} - {"None", "?"}) > 1:
            raise ValueError(f"Operators must have the same {dimension} dimension. Found: {sizes}")
    with tf.name_scope(name, "add_operators"):
        for kind, add in _KINDS:
            alike = [each for each in remaining if isinstance(each, kind)]
            if len(alike) < 2:
                continue
            remaining = [each for each in remaining if not isinstance(each, kind)]
            total = alike[0]
            for each in alike[1:]:
                total = _add(total, each, add, operator_name)
            remaining.append(total)
    return remaining


def _add(first: Any, second: Any, add: Callable[..., Any], name: str | None) -> Any:
    first, second = sorted((first, second), key=lambda each: each.name)
    both = {
        hint: True if getattr(first, hint) and getattr(second, hint) else None
        for hint in ("is_self_adjoint", "is_positive_definite")
    }
    # Sums of positive definite matrices are positive definite, and those have inverses.
    hints = {**both, "is_non_singular": both["is_positive_definite"]}
    return add(first, second, name=name or f"Add/{first.name}__{second.name}/", **hints)
