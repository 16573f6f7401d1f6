"""Corners of the math ops: what does not fit a type, NaN, infinities, zeros, odd axes."""

import numpy as np
from parity_kit import array, case, cases, complexes, floats, ints, positive

F64 = np.float64
NAN, INF = np.nan, np.inf
SPD = array([[4.0, 1.0], [1.0, 3.0]], F64)


@cases(
    [
        (f"cast_out_of_range_to_{d}", {"x": array([-1.5, 300.75, 1e10, NAN, INF, -1e10])}, d)
        for d in ("int8", "uint8", "int16", "uint16", "int32", "int64", "uint32", "uint64", "bool")
    ]
)
def cast_out_of_range(tf, dtype, x):
    return tf.cast(x, getattr(tf, dtype))


@case(inputs={"x": ints(4, low=-300, high=300)})
def cast_of_ints_wraps(tf, x):
    return [tf.cast(x, tf.uint8), tf.cast(x, tf.int8), tf.saturate_cast(x, tf.uint8)]


@case(inputs={"x": array([5.0, -5.0, 5.5, 7.0, -5.0]), "y": array([3.0, 3.0, -3.0, -3.5, INF])})
def floor_of_float_quotients(tf, x, y):
    return [x // y, x % y, tf.truncatemod(x, y)]


@case(inputs={"x": array([-8, 8, 1, 1]), "y": array([1, 32, 40, -1])})
def shifts_beyond_the_width(tf, x, y):
    return [tf.bitwise.left_shift(x, y), tf.bitwise.right_shift(x, y)]


@case(inputs={"x": array([[1.0, NAN, 5.0], [NAN, 1.0, 5.0], [5.0, 1.0, NAN]])})
def extremes_beside_nan(tf, x):
    return [
        tf.argmax(x, 1),
        tf.argmin(x, 1),
        tf.reduce_max(x, 1),
        tf.reduce_min(x, 1),
        tf.maximum(x, 2.0),
        tf.clip_by_value(x, 0.0, 2.0),
    ]


@case(
    inputs={"x": array([0.0, 1.0, -2.0]), "y": array([0.0, 0.0, 3.0])}, grad=True, numeric="edges"
)
def quotients_of_zeros(tf, x, y):
    return [tf.div_no_nan(x, y), tf.math.xdivy(x, y), tf.math.multiply_no_nan(x, y)]


@case(inputs={"x": array([[0.0, 2.0, 3.0], [4.0, 0.0, 0.0]])}, grad=True, numeric="zeros")
def cumprod_with_zeros(tf, x):
    return tf.cumprod(x, 1)


@case(inputs={"x": positive(4), "i": array([0, 0, 2, -1])}, grad=["x"])
def unsorted_segments_leave_out_negative_numbers(tf, x, i):
    return [
        tf.unsorted_segment_sum(x, i, 3),
        tf.unsorted_segment_mean(x, i, 3),
        tf.unsorted_segment_sqrt_n(x, i, 3),
    ]


@case(
    inputs={"x": array([2.0, 3.0, 0.0, 5.0, 0.0, 0.0]), "i": array([0, 0, 1, 1, 2, 2])},
    grad=["x"],
    numeric="zeros",
)
def products_of_segments_with_zeros(tf, x, i):
    return [tf.segment_prod(x, i), tf.unsorted_segment_prod(x, i, 3)]


@case(inputs={"x": floats(3, 2)}, grad=True, variants=["known"], rtol=1e-4, atol=1e-5)
def pseudo_inverse(tf, x):
    return [tf.linalg.pinv(x), tf.linalg.matrix_rank(x)]


@case(inputs={"x": SPD}, grad=True, variants=["known"])
def functions_of_a_matrix(tf, x):
    return [
        tf.linalg.sqrtm(x),
        tf.linalg.expm(x),
        tf.linalg.logdet(x),
        tf.linalg.slogdet(x)[1],
        tf.self_adjoint_eigvals(x),
    ]


@case(inputs={"x": SPD}, variants=["known"])
def triangular_factors(tf, x):
    factors, order = tf.linalg.lu(x)
    return [factors, order, tf.linalg.lu_solve(factors, order, tf.ones([2, 1], tf.float64))]


@case(inputs={"a": floats(2, 2, 3), "b": floats(2, 3)}, grad=True)
def matrix_times_vector(tf, a, b):
    return [tf.linalg.matvec(a, b), tf.linalg.matvec(a, b[:, :2], transpose_a=True)]


@case(inputs={"a": complexes(2, 3), "b": complexes(2, 3)}, grad=True)
def products_with_adjoints(tf, a, b):
    return [tf.matmul(a, b, adjoint_a=True), tf.matmul(a, b, adjoint_b=True)]


@case(inputs={"a": floats(5, 1, 2, 3), "b": floats(4, 3, 2)}, grad=True)
def products_of_broadcast_batches(tf, a, b):
    return tf.matmul(a, b)


@cases(
    [
        ("tensordot_of_inner_axes", {"a": floats(2, 3, 4), "b": floats(4, 2)}, [[0, 2], [1, 0]]),
        ("tensordot_of_nothing", {"a": floats(2), "b": floats(3)}, 0),
        ("tensordot_of_negative_axes", {"a": floats(2, 3), "b": floats(2, 3)}, [[-1], [-1]]),
    ],
    grad=True,
)
def tensordot(tf, axes, a, b):
    return tf.tensordot(a, b, axes)


@case(inputs={"x": floats(2, 3), "a": array([0]), "b": array([1, -2])}, grad=["x"])
def reductions_over_fed_axes(tf, x, a, b):
    return [
        tf.reduce_mean(x, a),
        tf.reduce_sum(tf.square(x), b),
        tf.reduce_max(x, a, keepdims=True),
        tf.reduce_prod(x, b),
    ]


@case(inputs={"x": floats(2), "y": floats(2)}, grad=True)
def linspace_between_tensors(tf, x, y):
    return [tf.linspace(x, y, 4), tf.linspace(x, y, 3, axis=1), tf.linspace(x, y, 1)]


@case(inputs={"x": array([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0])})
def bins_of_a_histogram(tf, x):
    return [
        tf.histogram_fixed_width(x, [0.0, 5.0], nbins=5),
        tf.histogram_fixed_width_bins(x, [0.0, 5.0], nbins=5),
        tf.histogram_fixed_width(x, [0.0, 5.0], nbins=3, dtype=tf.int64),
    ]


@case(inputs={"x": array([0.1, 1.1, 0.1])})
def ranges_of_floats(tf, x):
    return [tf.range(x[0], x[1], x[2]), tf.range(0.0, 1.0, 0.1), tf.range(5.0, 0.0, -1.5)]


@case(
    inputs={"x": array([1.0, 5.0, 3.0]), "low": array([2.0, 2.0, 2.0]), "high": array(4.0)},
    grad=True,
    variants=["known"],
    numeric="edges",
)
def clip_between_tensors(tf, x, low, high):
    return tf.raw_ops.ClipByValue(t=x, clip_value_min=low, clip_value_max=high)


@case(inputs={"x": floats(2, 4), "n": array(2)}, grad=["x"])
def nth_element(tf, x, n):
    return [tf.raw_ops.NthElement(input=x, n=n), tf.raw_ops.NthElement(input=x, n=1, reverse=True)]


@case(inputs={"x": floats(3, 4)}, grad=True)
def top_entries(tf, x):
    values, indices = tf.nn.top_k(x, 2)
    return [values, indices]


@case(inputs={"x": floats(2, 2), "n": array(-1)}, raises=("InvalidArgumentError", "range"))
def argmax_along_an_axis_that_is_not_there(tf, x, n):
    return tf.argmax(x, n - 5)


@case(
    inputs={"x": array([2, 3]), "y": array([-1, 2])},
    raises=("InvalidArgumentError", "negative integer powers"),
)
def negative_powers_of_integers(tf, x, y):
    return x**y


@case(inputs={"x": floats(2, 2), "i": array([1, 0])}, raises=("InvalidArgumentError", "increasing"))
def segments_out_of_order(tf, x, i):
    return tf.segment_sum(x, i)


@case(
    inputs={"x": floats(2, 2), "i": array([0, 7])}, raises=("InvalidArgumentError", "out of range")
)
def unsorted_segment_beyond_the_last(tf, x, i):
    return tf.unsorted_segment_sum(x, i, 3)


@case(inputs={"x": array([[1.0, 1.0], [1.0, 1.0]])}, raises=("InvalidArgumentError", "invertible"))
def inverse_of_a_singular_matrix(tf, x):
    return tf.matrix_inverse(x)
