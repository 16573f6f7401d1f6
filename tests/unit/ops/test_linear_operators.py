"""`tf.linalg.LinearOperator`: each kind does what its dense matrix does.

Shapes, hints and values of these operators were compared with TensorFlow 1.15.5's.
"""

from typing import Any

import numpy as np
import pytest

import millrace as tf

L = tf.linalg
_RANDOM = np.random.RandomState(1)
A = _RANDOM.rand(3, 3).astype(np.float32)
SPD = (A @ A.T + np.eye(3)).astype(np.float32)
X = _RANDOM.rand(3, 2).astype(np.float32)
D = np.array([1.0, 2.0, 3.0], np.float32)

#: The operator, and its hints: square, self-adjoint, positive definite, non-singular.
KINDS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "full": (lambda: L.LinearOperatorFullMatrix(A), (True, None, None, None)),
    "spd": (
        lambda: L.LinearOperatorFullMatrix(SPD, is_self_adjoint=True, is_positive_definite=True),
        (True, True, True, True),
    ),
    "triangular": (lambda: L.LinearOperatorLowerTriangular(A), (True, None, None, None)),
    "diagonal": (lambda: L.LinearOperatorDiag(D), (True, True, None, None)),
    "identity": (lambda: L.LinearOperatorIdentity(3), (True, True, True, True)),
    "scaled": (lambda: L.LinearOperatorScaledIdentity(3, 2.5), (True, True, None, None)),
    "reflection": (lambda: L.LinearOperatorHouseholder(D), (True, True, False, None)),
    "product": (
        lambda: L.LinearOperatorFullMatrix(A).matmul(L.LinearOperatorDiag(D)),
        (True, None, None, None),
    ),
    "blocks": (
        lambda: L.LinearOperatorBlockDiag(
            [L.LinearOperatorFullMatrix(A[:2, :2]), L.LinearOperatorDiag(D[:1])]
        ),
        (True, None, None, None),
    ),
    "Kronecker": (
        lambda: L.LinearOperatorKronecker(
            [L.LinearOperatorFullMatrix(A[:1, :1] + 1), L.LinearOperatorDiag(D)]
        ),
        (True, None, None, None),
    ),
    "low-rank update": (
        lambda: L.LinearOperatorLowRankUpdate(
            L.LinearOperatorDiag(D, is_positive_definite=True), X, [0.5, 0.25], X + 0.1
        ),
        (True, None, None, None),
    ),
    "adjoint": (lambda: L.LinearOperatorFullMatrix(A).adjoint(), (True, None, None, None)),
    "inverse": (
        lambda: L.LinearOperatorFullMatrix(A, is_non_singular=True).inverse(),
        (True, None, None, True),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_operator_does_what_its_matrix_does(kind: str) -> None:
    build, hints = KINDS[kind]
    operator = build()
    found = (
        operator.is_square,
        operator.is_self_adjoint,
        operator.is_positive_definite,
        operator.is_non_singular,
    )
    assert found == hints
    fetches = {
        "dense": operator.to_dense(),
        "product": operator.matmul(X),
        "adjoint": operator.matmul(X, adjoint=True),
        "vector": operator.matvec(D),
        "solution": operator.solve(X),
        "diagonal": operator.diag_part(),
        "determinant": operator.determinant(),
        "logarithm": operator.log_abs_determinant(),
    }
    with tf.Session() as session:
        values = session.run(fetches)
    dense = values["dense"]
    assert np.allclose(values["product"], dense @ X, atol=1e-4)
    assert np.allclose(values["adjoint"], dense.T @ X, atol=1e-4)
    assert np.allclose(values["vector"], dense @ D, atol=1e-4)
    assert np.allclose(dense @ values["solution"], X, atol=1e-3)
    assert np.allclose(values["diagonal"], np.diag(dense), atol=1e-5)
    assert np.allclose(values["determinant"], np.linalg.det(dense), rtol=1e-3)
    assert np.allclose(values["logarithm"], np.linalg.slogdet(dense)[1], atol=1e-3)


def test_promises_that_cannot_hold_are_refused() -> None:
    with pytest.raises(ValueError, match="always self adjoint"):
        L.LinearOperatorIdentity(3, is_self_adjoint=False)
    with pytest.raises(ValueError, match="Cannot take the Cholesky"):
        L.LinearOperatorFullMatrix(A).cholesky()
    with pytest.raises(ValueError, match="non-empty list"):
        L.LinearOperatorComposition([])
