"""Casts, complex numbers, ranges, scans, clipping, norms, Fourier transforms."""

import numpy as np
from parity_kit import array, case, cases, complexes, floats, ints, positive

F64 = np.float64
UNIT = floats(2, 3, low=-0.9, high=0.9)
ANY = floats(2, 3)
POS = positive(2, 3)
ABOVE_ONE = floats(2, 3, low=1.2, high=3.0)

# --- casts and complex numbers


CAST_TARGETS = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int8",
    "int32",
    "int64",
    "uint8",
    "bool",
    "complex64",
)


@cases(
    [(f"cast_float32_to_{d}", {"x": array([0.0, 0.4, 1.6, 2.0, 100.0])}, d) for d in CAST_TARGETS]
    + [(f"cast_int32_to_{d}", {"x": array([0, 1, 7, 100])}, d) for d in CAST_TARGETS]
    + [(f"cast_bool_to_{d}", {"x": array([True, False])}, d) for d in CAST_TARGETS]
    + [
        (f"cast_negative_to_{d}", {"x": array([-1.5, -0.2, -3.0])}, d)
        for d in ("int8", "int32", "int64")
    ]
)
def cast(tf, dtype, x):
    return tf.cast(x, getattr(tf, dtype))


@cases(
    [
        (f"cast_gradient_to_{d}", {"x": floats(3)}, d)
        for d in ("float64", "float16", "complex64", "int32")
    ],
    grad=True,
    numeric="rounds",
)
def cast_gradient(tf, dtype, x):
    return [tf.cast(x, getattr(tf, dtype)), x * 2.0]


@case(inputs={"x": array([0.5, 1.5, 300.7, -5.0])})
def casts_by_name(tf, x):
    return [
        tf.to_int32(x),
        tf.to_int64(x),
        tf.to_float(tf.to_int32(x)),
        tf.to_double(x),
        tf.to_bfloat16(x),
    ]


@case(inputs={"x": array([-7.0, 3.2, 300.0, 1e9])})
def saturate_cast(tf, x):
    return [
        tf.saturate_cast(x, tf.uint8),
        tf.saturate_cast(x, tf.int8),
        tf.saturate_cast(x, tf.float16),
    ]


@case(inputs={"x": floats(3), "y": floats(3)}, grad=True)
def complex_of_parts(tf, x, y):
    z = tf.complex(x, y)
    return [z, tf.real(z * z), tf.imag(z * z), tf.conj(z)]


@case(inputs={"z": complexes(4)}, grad=True)
def complex_functions(tf, z):
    return [tf.abs(z), tf.real(z), tf.imag(z), tf.conj(z), tf.angle(z)]


@case(inputs={"x": floats(3)})
def complex_functions_of_real(tf, x):
    return [tf.real(x), tf.imag(x), tf.conj(x), tf.angle(x)]


# --- ranges, scans, sums of lists


@cases(
    [
        ("range_limit", {}, (5,), {}),
        ("range_start_limit", {}, (2, 6), {}),
        ("range_delta", {}, (0, 10, 3), {}),
        ("range_negative_delta", {}, (5, 0, -2), {}),
        ("range_float", {}, (0.0, 1.0, 0.25), {}),
        ("range_mixed", {}, (0, 2.5), {}),
        ("range_empty", {}, (3, 3), {}),
        ("range_dtype", {}, (4,), {"dtype": np.int64}),
        ("range_keywords", {}, (), {"start": 1, "limit": 4, "delta": 1}),
    ]
)
def ranges(tf, arguments, options):
    return tf.range(*arguments, **options)


@case(inputs={"n": array(4)})
def range_fed(tf, n):
    return [tf.range(n), tf.range(1, n + 1), tf.range(tf.cast(n, tf.float32))]


@case(raises=("ValueError",))
def range_with_zero_delta(tf):
    return tf.range(0, 3, 0)


@case(
    inputs={"a": array(0), "b": array(3), "d": array(-1)},
    raises=("InvalidArgumentError", "Requires start >= limit"),
)
def range_in_the_wrong_direction(tf, a, b, d):
    return tf.range(a, b, d)


@cases(
    [
        ("linspace", {}, 0.0, 1.0, 5),
        ("linspace_one", {}, 3.0, 9.0, 1),
        ("linspace_negative", {}, 2.0, -2.0, 4),
        ("linspace_float64", {}, np.float64(0), np.float64(1), 3),
    ]
)
def linspace(tf, start, stop, num):
    return [tf.linspace(start, stop, num), tf.lin_space(start, stop, num)]


SCANS = {
    "plain": {},
    "axis_1": {"axis": 1},
    "negative_axis": {"axis": -1},
    "exclusive": {"axis": 1, "exclusive": True},
    "reverse": {"axis": 0, "reverse": True},
    "both": {"axis": 1, "exclusive": True, "reverse": True},
}


@cases(
    [
        (f"{f}_{n}", {"x": positive(2, 3)}, f, o)
        for f in ("cumsum", "cumprod")
        for n, o in SCANS.items()
    ],
    grad=True,
)
def scans(tf, function, options, x):
    return getattr(tf, function)(x, **options)


@cases(
    [
        (f"cumulative_logsumexp_{n}", {"x": floats(2, 3)}, o)
        for n, o in SCANS.items()
        if "exclusive" not in o
    ],
    grad=True,
)
def cumulative_logsumexp(tf, options, x):
    return tf.math.cumulative_logsumexp(x, **options)


@cases(
    [
        (f"cumulative_logsumexp_{n}", {"x": floats(2, 3)}, o)
        for n, o in SCANS.items()
        if "exclusive" in o
    ],
    grad=True,
    numeric="the logarithm of an empty sum is infinite",
)
def cumulative_logsumexp_exclusive(tf, options, x):
    return tf.math.cumulative_logsumexp(x, **options)


@case(inputs={"x": ints(2, 3)})
def scans_of_ints(tf, x):
    return [tf.cumsum(x, 1), tf.cumprod(x, 0)]


@case(inputs={"x": floats(2, 3), "y": floats(2, 3), "z": floats(2, 3)}, grad=True)
def add_n(tf, x, y, z):
    return [tf.add_n([x, y, z]), tf.accumulate_n([x, z]), tf.add_n([y])]


@case(inputs={"x": ints(3), "y": ints(3)})
def add_n_ints(tf, x, y):
    return tf.add_n([x, y, x])


@case(inputs={"x": floats(2), "y": floats(3)}, raises=("ValueError",))
def add_n_mismatch(tf, x, y):
    return tf.add_n([x, y])


@case(raises=("ValueError",))
def add_n_of_nothing(tf):
    return tf.add_n([])


@case(inputs={"x": floats(3)}, grad=True)
def polyval(tf, x):
    return tf.math.polyval([2.0, -1.0, 0.5], x)


@case(inputs={"v": array([1, 1, 2, 5, 0]), "w": floats(5)})
def bincount(tf, v, w):
    return [
        tf.bincount(v),
        tf.bincount(v, weights=w),
        tf.bincount(v, minlength=8),
        tf.bincount(v, maxlength=3),
        tf.bincount(v, dtype=tf.int64),
    ]


@case(inputs={"l": array([0, 1, 2, 2]), "p": array([0, 2, 2, 1]), "w": array([1, 2, 1, 3])})
def confusion_matrix(tf, l, p, w):  # noqa: E741
    return [
        tf.confusion_matrix(l, p),
        tf.confusion_matrix(l, p, num_classes=4),
        tf.confusion_matrix(l, p, weights=w),
        tf.confusion_matrix(l, p, dtype=tf.float32),
    ]


@case(inputs={"x": array([1, 2, 3]), "y": array([1, 3, 3, 2])})
def monotone_tests(tf, x, y):
    return [
        tf.is_non_decreasing(x),
        tf.is_strictly_increasing(x),
        tf.is_non_decreasing(y),
        tf.is_strictly_increasing(y[:3]),
    ]


# --- clipping and norms


@cases(
    [
        ("clip_by_value", {"x": ANY}, lambda tf, x: tf.clip_by_value(x, -0.7, 0.9)),
        (
            "clip_by_value_tensor_bounds",
            {"x": ANY},
            lambda tf, x: tf.clip_by_value(x, [-0.5, -1.0, 0.0], 1.0),
        ),
        ("clip_by_norm_clips", {"x": ANY}, lambda tf, x: tf.clip_by_norm(x, 1.0)),
        ("clip_by_norm_leaves", {"x": ANY}, lambda tf, x: tf.clip_by_norm(x, 100.0)),
        ("clip_by_norm_axes", {"x": ANY}, lambda tf, x: tf.clip_by_norm(x, 1.0, axes=[1])),
        ("clip_by_average_norm", {"x": ANY}, lambda tf, x: tf.clip_by_average_norm(x, 0.1)),
        ("norm_default", {"x": ANY}, lambda tf, x: tf.norm(x)),
        ("norm_axis", {"x": ANY}, lambda tf, x: tf.norm(x, axis=1)),
        ("norm_l1", {"x": ANY}, lambda tf, x: tf.norm(x, ord=1, axis=0, keepdims=True)),
        ("norm_inf", {"x": ANY}, lambda tf, x: tf.norm(x, ord=np.inf, axis=1)),
        ("norm_p3", {"x": POS}, lambda tf, x: tf.norm(x, ord=3, axis=-1)),
        ("norm_frobenius", {"x": ANY}, lambda tf, x: tf.norm(x, ord="fro", axis=[0, 1])),
        ("norm_keep_dims", {"x": ANY}, lambda tf, x: tf.norm(x, axis=1, keep_dims=True)),
    ],
    grad=True,
)
def clipping_and_norms(tf, function, x):
    return function(tf, x)


@case(inputs={"x": ANY, "y": floats(3)}, grad=True)
def global_norm(tf, x, y):
    return tf.global_norm([x, None, y])


@case(inputs={"x": ANY, "y": floats(3)}, grad=True)
def clip_by_global_norm(tf, x, y):
    clipped, norm = tf.clip_by_global_norm([x, y], 1.5)
    return [*clipped, norm]


@case(inputs={"x": ANY, "y": floats(3)})
def clip_by_global_norm_with_a_given_norm(tf, x, y):
    clipped, norm = tf.clip_by_global_norm([x, None, y], 1.5, use_norm=tf.constant(3.0))
    return [clipped[0], clipped[2], norm]


@case(inputs={"x": array([1.0, np.inf])})
def clip_by_global_norm_of_infinity(tf, x):
    return tf.clip_by_global_norm([x], 1.0)[0]


@case(inputs={"x": ints(2, 3)})
def clip_by_value_of_ints(tf, x):
    return tf.clip_by_value(x, -1, 2)


@case(inputs={"x": floats(4, 2), "i": array([0, 3])}, variants=["known"])
def clip_of_indexed_slices(tf, x, i):
    slices = tf.IndexedSlices(x[:2], i, tf.constant([4, 2]))
    return [
        tf.clip_by_norm(slices, 0.5),
        tf.clip_by_global_norm([slices], 0.5)[0][0],
        tf.global_norm([slices]),
    ]


@case(inputs={"x": ANY}, grad=True)
def multiply_by_self_counts_twice(tf, x):
    return x * x + x


@case(inputs={"x": array([1.0, 2.0])})
def check_numerics_passes(tf, x):
    return [tf.check_numerics(x, "fine"), tf.verify_tensor_all_finite(x, "fine")]


@case(
    inputs={"x": array([1.0, np.nan])}, raises=("InvalidArgumentError", "broken : Tensor had NaN")
)
def check_numerics_nan(tf, x):
    return tf.check_numerics(x, "broken")


@case(inputs={"x": array([1.0, np.inf])}, raises=("InvalidArgumentError", "broken : Tensor had"))
def check_numerics_inf(tf, x):
    return tf.check_numerics(x, "broken")


# --- Fourier transforms


@cases(
    [(n, {"x": complexes(2, 4)}, n) for n in ("fft", "ifft", "fft2d", "ifft2d")],
    grad=True,
    atol=1e-5,
)
def fourier(tf, function, x):
    return getattr(tf, function)(x)


@case(inputs={"x": complexes(2, 2, 2)}, grad=True, atol=1e-5)
def fft3d(tf, x):
    return [tf.fft3d(x), tf.ifft3d(x)]


@cases(
    [("rfft", {"x": floats(2, 4)}, {}), ("rfft_length", {"x": floats(2, 4)}, {"fft_length": [6]})],
    grad=True,
    atol=1e-5,
)
def rfft(tf, options, x):
    return tf.signal.rfft(x, **options)


@case(inputs={"x": complexes(2, 3)}, atol=1e-5)
def irfft(tf, x):
    return [tf.signal.irfft(x), tf.signal.irfft(x, [5]), tf.signal.irfft2d(x)]


@case(inputs={"x": floats(2, 4)}, grad=True, atol=1e-5)
def rfft2d(tf, x):
    return tf.signal.rfft2d(x)
