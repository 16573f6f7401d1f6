"""Sums of linear operators: their kinds and hints are TensorFlow 1.15.5's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.compat.overlay.python.ops.linalg.linear_operator_addition import add_operators

_MAKE = {
    "identity": lambda: tf.linalg.LinearOperatorIdentity(2),
    "scaled": lambda: tf.linalg.LinearOperatorScaledIdentity(2, 3.0),
    "diag": lambda: tf.linalg.LinearOperatorDiag([1.0, 2.0]),
    "triangular": lambda: tf.linalg.LinearOperatorLowerTriangular([[1.0, 0.0], [2.0, 3.0]]),
    "full": lambda: tf.linalg.LinearOperatorFullMatrix([[1.0, 2.0], [3.0, 4.0]]),
}


@pytest.mark.parametrize(
    ("kinds", "sum_kind"),
    [
        ("identity identity", "ScaledIdentity"),
        ("identity scaled", "ScaledIdentity"),
        ("identity diag", "Diag"),
        ("diag triangular", "LowerTriangular"),
        ("identity triangular", "LowerTriangular"),
        ("full triangular", "FullMatrix"),
        ("diag diag triangular full", "FullMatrix"),
    ],
)
def test_a_sum_is_of_the_simplest_kind_that_holds_it(kinds: str, sum_kind: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        parts: list[Any] = [_MAKE[kind]() for kind in kinds.split()]
        (total,) = add_operators(parts)
        dense = session.run([total.to_dense(), *(part.to_dense() for part in parts)])
    assert type(total).__name__ == f"LinearOperator{sum_kind}"
    np.testing.assert_allclose(dense[0], sum(dense[1:]))


def test_positive_definite_operators_have_a_positive_definite_sum() -> None:
    with tf.Graph().as_default():
        first = tf.linalg.LinearOperatorDiag([1.0], is_positive_definite=True)
        (total,) = add_operators([first, tf.linalg.LinearOperatorIdentity(1)])
    assert (total.is_non_singular, total.is_self_adjoint, total.is_positive_definite) == (True,) * 3


def test_operators_of_other_sizes_and_none_at_all_are_refused() -> None:
    with tf.Graph().as_default():
        small, large = tf.linalg.LinearOperatorDiag([1.0]), tf.linalg.LinearOperatorDiag([1.0, 2.0])
        with pytest.raises(ValueError, match="must have the same range dimension"):
            add_operators([small, large])
        with pytest.raises(ValueError, match="at least one operator"):
            add_operators([])
