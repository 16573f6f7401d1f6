"""Matrices: flags, batches, errors, factorizations, contractions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.ops.linalg.contraction import Einsum
from tests.unit.ops.conftest import run

RANDOM = np.random.default_rng(0)
FLIPS = list(itertools.product([False, True], repeat=2))
A, B = RANDOM.normal(size=(2, 3)), RANDOM.normal(size=(3, 4))


def fed(value: Any, dtype: Any = np.float64, shape: Any = "same") -> tf.Tensor:
    array = np.array(value, dtype)
    return tf.placeholder_with_default(array, array.shape if shape == "same" else shape)


@pytest.mark.parametrize(("flip_a", "flip_b"), FLIPS)
@pytest.mark.parametrize("sparse", [False, True])
def test_products_and_their_gradients_with_every_transposition(
    flip_a: bool, flip_b: bool, sparse: bool
) -> None:
    kind = np.float32 if sparse else np.float64
    a, b = fed(A.T if flip_a else A, kind), fed(B.T if flip_b else B, kind)
    product = tf.matmul(a, b, transpose_a=flip_a, transpose_b=flip_b, a_is_sparse=sparse)
    np.testing.assert_allclose(run(product), A @ B, rtol=1e-5)
    grad_a, grad_b = run(tf.gradients(product, [a, b]))
    ones = np.ones([2, 4])
    expected_a, expected_b = ones @ B.T, A.T @ ones
    np.testing.assert_allclose(grad_a, expected_a.T if flip_a else expected_a, rtol=1e-5)
    np.testing.assert_allclose(grad_b, expected_b.T if flip_b else expected_b, rtol=1e-5)


@pytest.mark.parametrize(("flip_a", "flip_b"), FLIPS)
@pytest.mark.parametrize("shape", ["same", None])
def test_batches_broadcast_and_their_gradients_are_summed(
    flip_a: bool, flip_b: bool, shape: Any
) -> None:
    left, right = RANDOM.normal(size=(5, 1, 2, 3)), RANDOM.normal(size=(4, 3, 2))
    a = fed(left.swapaxes(-1, -2) if flip_a else left, shape=shape)
    b = fed(right.swapaxes(-1, -2) if flip_b else right, shape=shape)
    product = tf.matmul(a, b, adjoint_a=flip_a, adjoint_b=flip_b)
    assert product.op.type == "BatchMatMulV2"
    np.testing.assert_allclose(run(product), left @ right)
    grad_a, grad_b = run(tf.gradients(product, [a, b]))
    ones = np.ones([5, 4, 2, 2])
    expected_a = (ones @ right.swapaxes(-1, -2)).sum(1, keepdims=True)
    expected_b = (left.swapaxes(-1, -2) @ ones).sum(0)
    np.testing.assert_allclose(grad_a.swapaxes(-1, -2) if flip_a else grad_a, expected_a)
    np.testing.assert_allclose(grad_b.swapaxes(-1, -2) if flip_b else grad_b, expected_b)


def test_sizes_that_do_not_fit_are_named_while_building_and_running() -> None:
    with pytest.raises(ValueError, match="Dimensions must be equal, but are 3 and 2"):
        tf.matmul(fed(A), fed(A))
    with pytest.raises(ValueError, match="Shape must be rank 2 but is rank 1"):
        tf.matmul(fed([1.0]), fed(A))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"Matrix size-incompatible: In\[0\]: \[2,3\], In\[1\]: \[2,3\]",
    ):
        run(tf.matmul(fed(A, shape=None), fed(A, shape=None)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="compatible batch dimensions"):
        run(tf.matmul(fed(np.ones([2, 1, 1]), shape=None), fed(np.ones([3, 1, 1]), shape=None)))


def test_a_matrix_is_not_both_transposed_and_adjoint() -> None:
    with pytest.raises(ValueError, match="Only one of `transpose_a` and `adjoint_a`"):
        tf.matmul(fed(A), fed(A), transpose_a=True, adjoint_a=True)


def test_the_operator_multiplies_matrices() -> None:
    product = fed(A) @ B
    assert (product.op.name, product.op.type) == ("matmul", "MatMul")
    np.testing.assert_allclose(run(product), A @ B)
    np.testing.assert_allclose(run(A @ fed(B)), A @ B)


def test_the_adjoint_of_complex_matrices_is_conjugated() -> None:
    z = A + 1j * RANDOM.normal(size=A.shape)
    product = run(tf.matmul(fed(z, np.complex128), fed(z, np.complex128), adjoint_a=True))
    np.testing.assert_allclose(product, z.conj().T @ z)
    batch = fed([z, z], np.complex128)
    np.testing.assert_allclose(run(tf.matmul(batch, batch, transpose_a=True))[0], z.T @ z)


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (tf.matrix_inverse, "Input is not invertible"),
        (lambda x: tf.matrix_solve(x, x), "Input matrix is not invertible"),
    ],
)
def test_singular_matrices_fail_the_step(function: Any, complaint: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=complaint):
        run(function(fed([[1.0, 1], [1, 1]])))


def test_only_the_lower_triangle_of_a_symmetric_matrix_is_read() -> None:
    half = [[4.0, 99], [2, 3]]
    np.testing.assert_allclose(run(tf.cholesky(fed(half))), np.linalg.cholesky([[4, 2], [2, 3]]))
    values, _ = run(tf.self_adjoint_eig(fed(half)))
    np.testing.assert_allclose(values, np.linalg.eigvalsh([[4, 2], [2, 3]]))


def test_a_matrix_is_put_together_again_from_its_factors() -> None:
    x = fed(A)
    values, u, v = tf.svd(x)
    rebuilt = tf.matmul(u * values, v, adjoint_b=True)
    q, r = tf.qr(x)
    for product in (rebuilt, q @ r):
        np.testing.assert_allclose(run(product), A, atol=1e-12)
    square = A @ A.T
    lower = tf.cholesky(fed(square))
    np.testing.assert_allclose(run(tf.matmul(lower, lower, transpose_b=True)), square)
    factors = tf.linalg.lu(fed(square))
    solved = tf.linalg.lu_solve(factors.lu, factors.p, fed(np.eye(2)))
    np.testing.assert_allclose(run(solved), np.linalg.inv(square))


def test_singular_values_alone_need_no_vectors() -> None:
    values = tf.svd(fed(A), compute_uv=False)
    np.testing.assert_allclose(run(values), np.linalg.svd(A, compute_uv=False))


def test_systems_are_solved_in_the_sense_of_least_squares() -> None:
    rhs = RANDOM.normal(size=(3, 1))
    tall = A.T
    expected = np.linalg.lstsq(tall, rhs, rcond=None)[0]
    for fast in (True, False):
        solution = tf.matrix_solve_ls(fed(tall), fed(rhs), fast=fast)
        np.testing.assert_allclose(run(solution), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("i->", [(3,)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("ab,bc,cd,de->ae", [(2, 3), (3, 2), (2, 3), (3, 2)]),
        ("i,j->ij", [(2,), (3,)]),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_einsum_is_numpys(equation: str, shapes: Any, known: bool) -> None:
    arrays = [RANDOM.normal(size=shape) for shape in shapes]
    tensors = [fed(a, shape=a.shape if known else [None] * a.ndim) for a in arrays]
    result = tf.einsum(equation, *tensors)
    expected = np.einsum(equation, *arrays)
    np.testing.assert_allclose(run(result), expected)
    assert result.shape.is_compatible_with(expected.shape)
    assert result.shape.ndims == expected.ndim
    grads = run(tf.gradients(result, tensors))
    assert [g.shape for g in grads] == [tuple(shape) for shape in shapes]


def test_einsum_in_many_terms_is_contracted_in_pairs() -> None:
    result = tf.einsum("ij,jk,kl->il", *(fed(np.ones([2, 2])) for _ in range(3)))
    assert [op.type for op in result.graph.get_operations()].count("Einsum") == 2


def test_a_label_twice_in_the_result_spreads_over_the_diagonal() -> None:
    assert run(Einsum([fed([1.0, 2])], equation="i->ii")).tolist() == [[1, 0], [0, 2]]


@pytest.mark.parametrize(
    ("equation", "complaint"),
    [
        ("ij,jk->iz", "label z not present"),
        ("ij->ik->il", "incorrect format"),
        ("ij->i", "expecting 1"),
    ],
)
def test_malformed_equations_are_refused_while_building(equation: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        tf.einsum(equation, fed(A), fed(B))


@pytest.mark.parametrize("known", ["sizes", "rank", "nothing"])
@pytest.mark.parametrize("axes", [1, [[1], [0]], [[-1], [0]], 0])
def test_tensordot_is_numpys_however_little_is_known(axes: Any, known: str) -> None:
    shapes = {"sizes": [(2, 3), (3, 4)], "rank": [[None] * 2] * 2, "nothing": [None] * 2}[known]
    a, b = fed(A, shape=shapes[0]), fed(B, shape=shapes[1])
    result = tf.tensordot(a, b, axes)
    np.testing.assert_allclose(run(result), np.tensordot(A, B, axes))
    assert [g.shape for g in run(tf.gradients(result, [a, b]))] == [(2, 3), (3, 4)]


def test_tensordot_refuses_axes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="Different number of contraction axes"):
        tf.tensordot(fed(A), fed(B), [[0], [0, 1]])
    with pytest.raises(ValueError, match="must not be larger than the number of dimensions"):
        tf.tensordot(fed(A), fed(B), 3)


@pytest.mark.parametrize(
    ("ord", "axis"),
    [
        ("euclidean", None),
        (1, 0),
        (2, -1),
        (3, 1),
        (np.inf, 1),
        ("fro", [0, 1]),
        (1, [0, 1]),
        (2, [-2, -1]),
        (np.inf, (0, 1)),
    ],
)
@pytest.mark.parametrize("keepdims", [True, False])
def test_norms_are_numpys(ord: Any, axis: Any, keepdims: bool) -> None:
    result = run(tf.norm(fed(A), ord, axis, keepdims=keepdims))
    flat = A.ravel() if axis is None else A
    expected = np.linalg.norm(
        flat,
        None if ord == "euclidean" else ord,
        tuple(axis) if isinstance(axis, list) else axis,
        keepdims=keepdims and axis is not None,
    )
    np.testing.assert_allclose(result, np.reshape(expected, result.shape))


@pytest.mark.parametrize(("ord", "axis"), [("fro", 0), (0, 0), (3, [0, 1]), (2, [0, 0]), (2, "a")])
def test_norms_that_do_not_exist_are_refused(ord: Any, axis: Any) -> None:
    with pytest.raises(ValueError, match="'ord' must be|'axis' must be"):
        tf.norm(fed(A), ord, axis)
