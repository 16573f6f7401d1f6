"""The same functions under their other names: tf.math, tf.linalg, tf.io, tf.debugging, …

Values are compared like any case's; what matters here is that each name answers, with its own
argument order and defaults.
"""

import numpy as np
from parity_kit import array, bools, case, cases, floats, ints, positive, scenario, strings

P = {"x": positive(2, 3)}
UNARY_MATH = [
    "abs",
    "ceil",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "exp",
    "expm1",
    "floor",
    "is_finite",
    "is_nan",
    "is_inf",
    "l2_normalize",
    "lgamma",
    "log",
    "log1p",
    "log_sigmoid",
    "negative",
    "reciprocal",
    "rint",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "softplus",
    "softsign",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "zero_fraction",
    "reduce_sum",
    "reduce_mean",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_logsumexp",
    "cumsum",
    "cumprod",
    "argmax",
    "argmin",
    "count_nonzero",
    "log_softmax",
    "softmax",
    "atan",
    "asinh",
    "conj",
    "real",
    "imag",
]


@cases([(f"math_{n}", P, n) for n in UNARY_MATH if n != "l2_normalize"])
def math_unary(tf, name, x):
    return getattr(tf.math, name)(x)


@cases(
    [
        (f"math_{n}", {"x": positive(2, 3), "y": positive(3)}, n)
        for n in (
            "add",
            "subtract",
            "multiply",
            "divide",
            "truediv",
            "maximum",
            "minimum",
            "pow",
            "squared_difference",
            "atan2",
            "equal",
            "not_equal",
            "less",
            "less_equal",
            "greater",
            "greater_equal",
            "floordiv",
            "floormod",
            "mod",
            "divide_no_nan",
        )
    ]
)
def math_binary(tf, name, x, y):
    return getattr(tf.math, name)(x, y)


@case(inputs={"x": bools(3), "y": bools(3)})
def math_logic(tf, x, y):
    m = tf.math
    return [
        m.logical_and(x, y),
        m.logical_or(x, y),
        m.logical_xor(x, y),
        m.logical_not(x),
        m.reduce_all(x),
        m.reduce_any(x),
    ]


@case(inputs={"x": floats(4, 2), "i": array([0, 0, 1, 2])})
def math_segments(tf, x, i):
    m = tf.math
    return [
        m.segment_sum(x, i),
        m.segment_mean(x, i),
        m.unsorted_segment_sum(x, i, 3),
        m.unsorted_segment_max(x, i, 3),
    ]


@case(inputs={"x": floats(3, 4)})
def math_others(tf, x):
    m = tf.math
    return [
        m.top_k(x, 2),
        m.in_top_k(x, [0, 1, 2], 2),
        m.add_n([x, x]),
        m.accumulate_n([x, x]),
        m.scalar_mul(2.0, x),
        m.l2_normalize(x, 1),
        m.invert_permutation([1, 0]),
        m.bincount([1, 1]),
        m.confusion_matrix([0, 1], [1, 1]),
    ]


@case(inputs={"x": floats(2, 3), "y": floats(3, 2)})
def linalg_names(tf, x, y):
    la = tf.linalg
    square = tf.matmul(x, y) + 3.0 * tf.eye(2)
    return [
        la.matmul(x, y),
        la.transpose(x),
        la.matrix_transpose(x),
        la.diag(x[0]),
        la.diag_part(square),
        la.trace(square),
        la.band_part(x, 0, -1),
        la.det(square),
        la.inv(square),
        la.norm(x),
        la.eye(2),
        la.set_diag(square, x[0][:2]),
        la.tensordot(x, y, 1),
        la.einsum("ij,jk->ik", x, y),
        la.l2_normalize(x, 1),
        la.cross(x, x + 1.0),
        la.solve(square, tf.ones([2, 1])),
        la.tensor_diag(x[0]),
        la.tensor_diag_part(square),
        la.global_norm([x]),
    ]


@case(inputs={"x": strings(["a b", " 12 "])})
def strings_names(tf, x):
    s = tf.strings
    return [
        s.join([x, x]),
        s.strip(x),
        s.substr(x, 0, 1),
        s.regex_replace(x, "a", "z"),
        s.to_hash_bucket(x, 10),
        s.to_hash_bucket_fast(x, 10),
        s.to_hash_bucket_strong(x, 10, [1, 2]),
        s.reduce_join(x),
        s.as_string(tf.constant([1])),
        s.to_number(["1.5"]),
    ]


@case(inputs={"x": strings(["1,2"])})
def io_names(tf, x):
    return [
        tf.io.decode_csv(x, [[0], [0]]),
        tf.io.decode_raw(tf.constant(["abcd"]), tf.int32),
        tf.io.decode_base64(tf.io.encode_base64(x)),
        tf.io.parse_tensor(tf.io.serialize_tensor(x), tf.string),
    ]


@case(inputs={"x": floats(2, 3)})
def debugging_names(tf, x):
    d = tf.debugging
    checks = [
        d.assert_equal(x, x),
        d.assert_rank(x, 2),
        d.assert_less(x, x + 1.0),
        d.assert_all_finite(x, "m"),
        d.assert_near(x, x),
    ]
    with tf.control_dependencies(checks):
        return [d.check_numerics(x, "m"), d.is_finite(x), d.is_nan(x)]


@case(inputs={"x": floats(2, 3)})
def dtypes_names(tf, x):
    return [
        tf.dtypes.cast(x, tf.int32),
        tf.dtypes.saturate_cast(x, tf.int8),
        tf.dtypes.complex(x, x),
        tf.dtypes.as_dtype("float32").name,
    ]


@case(inputs={"x": floats(2, 3)})
def manip_and_nn_names(tf, x):
    return [
        tf.manip.reshape(x, [3, 2]),
        tf.manip.reverse(x, [0]),
        tf.manip.tile(x, [1, 2]),
        tf.manip.roll(x, 1, 0),
        tf.manip.gather_nd(x, [[0, 1]]),
        tf.manip.scatter_nd([[1]], [2.0], [3]),
        tf.nn.silu(x),
        tf.nn.swish(x),
        tf.nn.tanh(x),
        tf.nn.sigmoid(x),
        tf.nn.softplus(x),
        tf.reverse_v2(x, [1]),
        tf.nn.max_pool2d(tf.reshape(x, [1, 2, 3, 1]), 2, 1, "SAME"),
        tf.nn.avg_pool2d(tf.reshape(x, [1, 2, 3, 1]), 2, 1, "SAME"),
    ]


@case(inputs={"v": floats(2)})
def sparse_names(tf, v):
    s = tf.sparse.SparseTensor([[0, 1], [2, 0]], v, [3, 2])
    return [
        tf.sparse.to_dense(s),
        tf.sparse.reorder(s),
        tf.sparse.reshape(s, [2, 3]),
        tf.sparse.transpose(s),
        tf.sparse.reduce_sum(s, 1),
        tf.sparse.add(s, s),
        tf.sparse.concat(0, [s, s]),
        tf.sparse.retain(s, [True, False]),
        tf.sparse.slice(s, [0, 0], [1, 2]),
        tf.sparse.sparse_dense_matmul(s, tf.ones([2, 1])),
        tf.sparse.matmul(s, tf.ones([2, 1])),
        tf.sparse.fill_empty_rows(s, 0.0)[0],
        tf.sparse.softmax(s),
        tf.sparse.maximum(s, s),
        tf.sparse.minimum(s, s),
        tf.sparse.reset_shape(s),
    ]


@case(inputs={"x": floats(2, 4)})
def spectral_names(tf, x):
    z = tf.complex(x, x)
    return [
        tf.spectral.fft(z),
        tf.signal.fft(z),
        tf.spectral.rfft(x),
        tf.signal.ifft(z),
        tf.spectral.irfft(tf.spectral.rfft(x)),
    ]


@scenario
def random_names(run, tf):
    draws = [
        tf.random.uniform([3]),
        tf.random.normal([3]),
        tf.random.truncated_normal([3]),
        tf.random.shuffle([1, 2, 3]),
        tf.random.multinomial([[0.0, 0.0]], 3),
        tf.random.categorical([[0.0, 0.0]], 3),
        tf.random.gamma([3], 1.0),
        tf.random.poisson(1.0, [3]),
    ]
    run.note([[v.dtype.name, list(v.shape)] for v in run.value(draws)])


@scenario
def initializer_names(run, tf):
    i = tf.initializers
    makers = [
        i.zeros(),
        i.ones(),
        i.constant(2.0),
        i.random_normal(),
        i.random_uniform(),
        i.truncated_normal(),
        i.glorot_normal(),
        i.glorot_uniform(),
        i.orthogonal(),
        i.variance_scaling(),
        i.uniform_unit_scaling(),
        i.identity(),
    ]
    values = run.value([m([3, 3]) for m in makers])
    run.note([[v.dtype.name, list(v.shape)] for v in values])


@scenario
def queue_and_train_names(run, tf):
    run.note(
        [
            tf.queue.FIFOQueue is tf.FIFOQueue,
            tf.queue.QueueBase is tf.QueueBase,
            tf.io.PaddingFIFOQueue is tf.PaddingFIFOQueue,
        ]
    )
    run.note(
        [tf.io.FixedLenFeature is tf.FixedLenFeature, tf.sparse.SparseTensor is tf.SparseTensor]
    )
    run.note([tf.half == tf.float16, tf.double == tf.float64, tf.dtypes.float32 == tf.float32])


@case(inputs={"x": ints(3), "y": ints(3)})
def to_functions(tf, x, y):
    return [
        tf.to_complex64(tf.to_float(x)),
        tf.to_complex128(tf.to_double(y)),
        tf.to_int64(x),
        tf.to_float(np.int64(3)),
    ]
