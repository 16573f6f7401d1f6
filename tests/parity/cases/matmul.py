"""Matrix products, linear algebra, einsum and tensordot."""

import numpy as np
from parity_kit import array, case, cases, complexes, floats, ints

AB = {"a": floats(2, 3), "b": floats(3, 4)}
LOOSE = {"rtol": 1e-4, "atol": 1e-5}


@cases(
    [
        ("matmul_plain", AB, {}),
        ("matmul_transpose_a", {"a": floats(3, 2), "b": floats(3, 4)}, {"transpose_a": True}),
        ("matmul_transpose_b", {"a": floats(2, 3), "b": floats(4, 3)}, {"transpose_b": True}),
        (
            "matmul_transpose_both",
            {"a": floats(3, 2), "b": floats(4, 3)},
            {"transpose_a": True, "transpose_b": True},
        ),
        ("matmul_batch", {"a": floats(2, 2, 3), "b": floats(2, 3, 2)}, {}),
        (
            "matmul_batch_transposed",
            {"a": floats(2, 3, 2), "b": floats(2, 2, 3)},
            {"transpose_a": True, "transpose_b": True},
        ),
        ("matmul_batch_broadcast", {"a": floats(2, 1, 2, 3), "b": floats(3, 3, 2)}, {}),
        ("matmul_batch_with_matrix", {"a": floats(2, 2, 3), "b": floats(3, 2)}, {}),
        ("matmul_vector_like", {"a": floats(1, 3), "b": floats(3, 1)}, {}),
        ("matmul_adjoint_real", {"a": floats(3, 2), "b": floats(3, 2)}, {"adjoint_a": True}),
    ],
    grad=True,
    second_order=True,
)
def matmul(tf, options, a, b):
    return tf.matmul(a, b, **options)


@cases(
    [
        (
            "matmul_float64",
            {"a": floats(2, 3, dtype=np.float64), "b": floats(3, 2, dtype=np.float64)},
            {},
        ),
        ("matmul_complex", {"a": complexes(2, 3), "b": complexes(3, 2)}, {}),
        ("matmul_adjoint_a", {"a": complexes(3, 2), "b": complexes(3, 2)}, {"adjoint_a": True}),
        ("matmul_adjoint_b", {"a": complexes(2, 3), "b": complexes(2, 3)}, {"adjoint_b": True}),
        (
            "matmul_batch_adjoint",
            {"a": complexes(2, 3, 2), "b": complexes(2, 3, 2)},
            {"adjoint_a": True},
        ),
        ("matmul_inner_empty", {"a": floats(2, 0), "b": floats(0, 3)}, {}),
        ("matmul_outer_empty", {"a": floats(0, 3), "b": floats(3, 2)}, {}),
    ],
    grad=True,
)
def matmul_more(tf, options, a, b):
    return tf.matmul(a, b, **options)


@cases(
    [
        ("matmul_int32", {"a": ints(2, 3), "b": ints(3, 2)}, {}),
        ("matmul_int64", {"a": ints(2, 3, dtype=np.int64), "b": ints(3, 2, dtype=np.int64)}, {}),
        ("matmul_sparse_hints", AB, {"a_is_sparse": True, "b_is_sparse": True}),
        (
            "matmul_float16",
            {"a": floats(2, 3, dtype=np.float16), "b": floats(3, 2, dtype=np.float16)},
            {},
        ),
    ]
)
def matmul_dtypes(tf, options, a, b):
    return tf.matmul(a, b, **options)


@case(inputs=AB, grad=True)
def sparse_matmul(tf, a, b):
    return tf.sparse_matmul(a, b)


@case(inputs={"a": floats(2, 3), "b": floats(3)}, grad=True)
def matvec(tf, a, b):
    return tf.linalg.matvec(a, b)


@case(inputs=AB, grad=True)
def matmul_operator(tf, a, b):
    return a @ b


@case(
    inputs={"a": floats(2, 3), "b": floats(2, 3)},
    raises=("ValueError", "Dimensions must be equal, but are 3 and 2"),
)
def matmul_mismatch(tf, a, b):
    return tf.matmul(a, b)


@case(
    inputs={"a": floats(2, 3), "b": floats(2, 3)},
    variants=["unknown"],
    raises=("InvalidArgumentError",),
)
def matmul_mismatch_at_run_time(tf, a, b):
    return tf.matmul(a, b)


@case(inputs={"a": floats(3), "b": floats(3, 2)}, raises=("ValueError",))
def matmul_of_a_vector(tf, a, b):
    return tf.matmul(a, b)


@case(inputs=AB, raises=("ValueError", "Only one of `transpose_a` and `adjoint_a` can be True"))
def matmul_transposed_and_adjoint(tf, a, b):
    return tf.matmul(a, b, transpose_a=True, adjoint_a=True)


@case(inputs={"a": floats(2, 3), "b": ints(3, 2)}, raises=("TypeError",))
def matmul_of_two_dtypes(tf, a, b):
    return tf.matmul(a, b)


@cases(
    [
        ("tensordot_one", {"a": floats(2, 3), "b": floats(3, 2)}, 1),
        ("tensordot_two", {"a": floats(2, 3, 2), "b": floats(3, 2, 2)}, 2),
        ("tensordot_lists", {"a": floats(2, 3), "b": floats(4, 2)}, [[0], [1]]),
        ("tensordot_several", {"a": floats(2, 3, 4), "b": floats(4, 2, 2)}, [[0, 2], [1, 0]]),
        ("tensordot_outer", {"a": floats(2), "b": floats(3)}, 0),
        ("tensordot_pair_of_ints", {"a": floats(2, 3), "b": floats(2, 4)}, [0, 0]),
    ],
    grad=True,
)
def tensordot(tf, axes, a, b):
    return tf.tensordot(a, b, axes)


@cases(
    [
        ("einsum_matmul", {"a": floats(2, 3), "b": floats(3, 4)}, "ij,jk->ik"),
        ("einsum_batch", {"a": floats(2, 2, 3), "b": floats(2, 3, 2)}, "bij,bjk->bik"),
        ("einsum_transpose_out", {"a": floats(2, 3), "b": floats(3, 4)}, "ij,jk->ki"),
        ("einsum_elementwise", {"a": floats(2, 3), "b": floats(2, 3)}, "ij,ij->ij"),
        ("einsum_dot", {"a": floats(3), "b": floats(3)}, "i,i->"),
        ("einsum_outer", {"a": floats(2), "b": floats(3)}, "i,j->ij"),
        ("einsum_sum_out", {"a": floats(2, 3), "b": floats(3, 4)}, "ij,jk->i"),
        ("einsum_implicit", {"a": floats(2, 3), "b": floats(3, 4)}, "ij,jk"),
        ("einsum_ellipsis", {"a": floats(2, 2, 3), "b": floats(3, 2)}, "...ij,jk->...ik"),
        ("einsum_attention", {"a": floats(1, 2, 2, 2), "b": floats(1, 3, 2, 2)}, "bqhd,bkhd->bhqk"),
    ],
    grad=True,
)
def einsum(tf, equation, a, b):
    return tf.einsum(equation, a, b)


@cases(
    [
        ("einsum_trace", {"a": floats(3, 3)}, "ii->"),
        ("einsum_diagonal", {"a": floats(3, 3)}, "ii->i"),
        ("einsum_transpose", {"a": floats(2, 3)}, "ij->ji"),
        ("einsum_row_sums", {"a": floats(2, 3)}, "ij->i"),
    ],
    grad=True,
)
def einsum_unary(tf, equation, a):
    return tf.einsum(equation, a)


@case(inputs={"a": floats(2, 2), "b": floats(2, 2), "c": floats(2, 2)}, grad=True)
def einsum_of_three(tf, a, b, c):
    return tf.einsum("ij,jk,kl->il", a, b, c)


@case(inputs=AB, raises=("ValueError",))
def einsum_bad_equation(tf, a, b):
    return tf.einsum("ij,jk->iz", a, b)


# --- factorisations


def _spd(tf, x):
    n = int(x.get_shape()[-1])
    eye = tf.eye(n, dtype=x.dtype)
    return tf.matmul(x, x, transpose_b=True) + eye


SQUARE = {"x": floats(3, 3)}
BATCH = {"x": floats(2, 3, 3)}
KNOWN = {"variants": ["known"], **LOOSE}


@cases([("cholesky", SQUARE), ("cholesky_batch", BATCH)], grad=True, **KNOWN)
def cholesky(tf, x):
    return tf.cholesky(_spd(tf, x))


@case(inputs={"x": array([[1.0, 2.0], [2.0, 1.0]])})
def cholesky_of_indefinite(tf, x):
    return tf.cholesky(x)


@cases(
    [
        ("matrix_inverse", SQUARE, "matrix_inverse"),
        ("matrix_determinant", BATCH, "matrix_determinant"),
    ],
    grad=True,
    **KNOWN,
)
def inverse_and_determinant(tf, function, x):
    return getattr(tf, function)(_spd(tf, x))


@case(
    inputs={"x": array([[1.0, 2.0], [2.0, 4.0]])}, raises=("InvalidArgumentError", "not invertible")
)
def inverse_of_singular(tf, x):
    return tf.matrix_inverse(x)


@case(inputs=SQUARE, **KNOWN)
def matrix_inverse_adjoint(tf, x):
    return tf.matrix_inverse(_spd(tf, x), adjoint=True)


@case(inputs={"x": floats(3, 3), "b": floats(3, 2)}, grad=True, **KNOWN)
def matrix_solve(tf, x, b):
    return [tf.matrix_solve(_spd(tf, x), b), tf.matrix_solve(_spd(tf, x), b, adjoint=True)]


@cases(
    [
        ("triangular_solve_lower", {"x": floats(3, 3), "b": floats(3, 2)}, {}),
        ("triangular_solve_upper", {"x": floats(3, 3), "b": floats(3, 2)}, {"lower": False}),
        ("triangular_solve_adjoint", {"x": floats(3, 3), "b": floats(3, 1)}, {"adjoint": True}),
    ],
    grad=True,
    **KNOWN,
)
def matrix_triangular_solve(tf, options, x, b):
    return tf.matrix_triangular_solve(_spd(tf, x), b, **options)


@case(inputs={"x": floats(3, 3), "b": floats(3, 2)}, grad=True, **KNOWN)
def cholesky_solve(tf, x, b):
    return tf.cholesky_solve(tf.cholesky(_spd(tf, x)), b)


@case(inputs={"x": floats(4, 2), "b": floats(4, 1)}, grad=True, **KNOWN)
def matrix_solve_ls(tf, x, b):
    return tf.matrix_solve_ls(x, b, l2_regularizer=0.1)


@case(inputs=SQUARE, grad=True, **KNOWN)
def self_adjoint_eigvals(tf, x):
    values, vectors = tf.self_adjoint_eig(_spd(tf, x))
    # Eigenvectors are known up to a sign: a product of two of them is compared.
    rebuilt = tf.matmul(vectors * values, vectors, transpose_b=True)
    return [values, tf.self_adjoint_eigvals(_spd(tf, x)), rebuilt]


@case(inputs={"x": floats(3, 2)}, grad=True, **KNOWN)
def svd(tf, x):
    s, u, v = tf.svd(x)
    return [s, tf.matmul(u * s, v, transpose_b=True), tf.svd(x, compute_uv=False)]


@case(inputs={"x": floats(3, 2)}, **KNOWN)
def qr(tf, x):
    q, r = tf.qr(x)
    full_q, full_r = tf.qr(x, full_matrices=True)
    return [tf.matmul(q, r), tf.matmul(full_q, full_r), tf.abs(r)]


@case(inputs=SQUARE, grad=True, **KNOWN)
def logdet(tf, x):
    return [tf.linalg.logdet(_spd(tf, x)), *tf.linalg.slogdet(_spd(tf, x))]


@case(inputs={"x": floats(2, 2)}, grad=True, **KNOWN)
def expm(tf, x):
    return tf.linalg.expm(x * 0.3)


@case(inputs={"x": complexes(2, 3)}, grad=True)
def adjoint(tf, x):
    return tf.linalg.adjoint(x)


@case(inputs={"x": floats(2, 3), "v": floats(3)}, grad=True, second_order=True)
def mlp_by_hand(tf, x, v):
    return tf.reduce_sum(tf.tanh(tf.matmul(x, tf.expand_dims(v, 1))))
