"""Elementwise math: unary and binary functions, comparison, logic, casts, ranges, scans."""

import numpy as np
from parity_kit import array, bools, case, cases, complexes, floats, ints, positive

F64 = np.float64
UNIT = floats(2, 3, low=-0.9, high=0.9)
ANY = floats(2, 3)
POS = positive(2, 3)
ABOVE_ONE = floats(2, 3, low=1.2, high=3.0)

# name -> (domain, differentiate twice?). Twice wherever TensorFlow's gradient op has a gradient.
UNARY = {
    "abs": (ANY, True),
    "negative": (ANY, True),
    "square": (ANY, True),
    "sqrt": (POS, True),
    "rsqrt": (POS, True),
    "exp": (ANY, True),
    "expm1": (ANY, True),
    "log": (POS, True),
    "log1p": (POS, True),
    "sin": (ANY, True),
    "cos": (ANY, True),
    "tan": (UNIT, True),
    "asin": (UNIT, True),
    "acos": (UNIT, True),
    "atan": (ANY, True),
    "sinh": (ANY, True),
    "cosh": (ANY, True),
    "tanh": (ANY, True),
    "asinh": (ANY, True),
    "acosh": (ABOVE_ONE, True),
    "atanh": (UNIT, True),
    "sigmoid": (ANY, True),
    "log_sigmoid": (ANY, True),
    "reciprocal": (POS, True),
    "erf": (ANY, True),
    "erfc": (ANY, True),
    "lgamma": (POS, True),
    "digamma": (POS, True),
}


@cases([(f"unary_{n}", {"x": d}, n) for n, (d, _) in UNARY.items()], grad=True, second_order=True)
def unary(tf, function, x):
    return getattr(tf, function)(x)


@cases(
    [
        (f"unary_math_{n}", {"x": d}, n)
        for n, d in [
            ("erfinv", UNIT),
            ("erfcinv", floats(2, 3, low=0.2, high=1.8)),
            ("ndtri", floats(2, 3, low=0.1, high=0.9)),
            ("bessel_i0", ANY),
            ("bessel_i0e", ANY),
            ("bessel_i1", ANY),
            ("bessel_i1e", ANY),
            ("softplus", ANY),
            ("softsign", ANY),
        ]
    ],
    grad=True,
    rtol=1e-4,
)
def unary_math(tf, function, x):
    return getattr(tf.math, function)(x)


@case(inputs={"x": array([0.0, 2.0, -4.0])}, grad=True, numeric="0 is no smooth point")
def reciprocal_no_nan(tf, x):
    return tf.math.reciprocal_no_nan(x)


HALF_OK = [n for n in UNARY if n not in ("lgamma", "digamma", "acosh", "erf", "erfc")]


@cases([(f"unary_{n}_float64", {"x": floats(3, low=0.2, high=0.9, dtype=F64)}, n) for n in UNARY if n != "acosh"], grad=True)
def unary_double(tf, function, x):
    return getattr(tf, function)(x)


@cases([(f"unary_{n}_float16", {"x": floats(3, low=0.2, high=0.9, dtype=np.float16)}, n) for n in HALF_OK])
def unary_half(tf, function, x):
    return getattr(tf, function)(x)


COMPLEX_UNARY = [
    "negative", "square", "sqrt", "rsqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "sinh", "cosh",
    "tanh", "sigmoid", "reciprocal", "asinh", "acosh", "atanh", "asin", "acos", "atan",
]  # fmt: skip


@cases([(f"unary_{n}_complex", {"x": complexes(3)}, n) for n in COMPLEX_UNARY], grad=True)
def unary_complex(tf, function, x):
    return getattr(tf, function)(x)


@cases(
    [
        (f"unary_{n}_{d}", {"x": ints(4, dtype=np.dtype(d))}, n)
        for n in ("abs", "negative", "square", "sign")
        for d in ("int32", "int64")
    ]
)
def unary_ints(tf, function, x):
    return getattr(tf, function)(x)


@cases(
    [
        (f"rounding_{n}", {"x": array([-2.5, -1.5, -0.5, -0.2, 0.0, 0.5, 1.5, 2.5, 2.7])}, n)
        for n in ("floor", "ceil", "round", "rint", "sign")
    ],
    grad=True,
    numeric="steps at some of the points",
)
def rounding(tf, function, x):
    return getattr(tf, function)(x)


@case(inputs={"x": ints(4)})
def round_of_ints(tf, x):
    return [tf.round(x), tf.floor(tf.cast(x, tf.float64))]


@case(inputs={"x": array([1.0, np.inf, -np.inf, np.nan])})
def finite_tests(tf, x):
    return [tf.is_finite(x), tf.is_inf(x), tf.is_nan(x)]


@cases(
    [
        (f"edge_{n}", {"x": array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e30, 1e-30])}, n)
        for n in ("abs", "exp", "log", "sqrt", "tanh", "sigmoid", "sign", "reciprocal", "floor", "log1p", "square")
    ]
)
def edges(tf, function, x):
    return getattr(tf, function)(x)


# --- binary -----------------------------------------------------------------------------------------

BINARY_SHAPES = {
    "same": ((2, 3), (2, 3)),
    "row": ((2, 3), (3,)),
    "column": ((2, 3), (2, 1)),
    "outer": ((2, 1), (1, 3)),
    "scalar": ((), (2, 3)),
    "rank3": ((2, 1, 3), (2, 1)),
}
SMOOTH = {
    "add": (ANY, ANY),
    "subtract": (ANY, ANY),
    "multiply": (ANY, ANY),
    "divide": (ANY, POS),
    "truediv": (ANY, POS),
    "realdiv": (ANY, POS),
    "pow": (POS, ANY),
    "maximum": (ANY, ANY),
    "minimum": (ANY, ANY),
    "squared_difference": (ANY, ANY),
    "atan2": (ANY, ANY),
    "div_no_nan": (ANY, POS),
}


def _ranged(shape, like):
    return positive(*shape) if like is POS else floats(*shape)


@cases(
    [
        (f"binary_{n}_{k}", {"x": _ranged(a, left), "y": _ranged(b, right)}, n)
        for n, (left, right) in SMOOTH.items()
        for k, (a, b) in BINARY_SHAPES.items()
        if k in ("same", "row", "column") or n in ("add", "multiply", "maximum", "pow", "divide")
    ],
    grad=True,
)
def binary(tf, function, x, y):
    return getattr(tf, function)(x, y)


@cases(
    [
        (f"binary_{n}_second_order", {"x": _ranged((2, 2), left), "y": _ranged((2,), right)}, n)
        for n, (left, right) in SMOOTH.items()
        if n not in ("realdiv", "truediv")
    ],
    grad=True,
    second_order=True,
)
def binary_second_order(tf, function, x, y):
    return getattr(tf, function)(x, y)


@cases(
    [
        (f"binary_{n}_{d}", {"x": ints(5, dtype=np.dtype(d)), "y": ints(5, low=1, high=4, dtype=np.dtype(d))}, n)
        for n in (
            "add", "subtract", "multiply", "maximum", "minimum", "floordiv", "floormod", "mod", "truncatediv",
            "truncatemod", "div", "truediv", "squared_difference",
        )
        for d in ("int32", "int64")
    ]
)  # fmt: skip
def binary_ints(tf, function, x, y):
    return getattr(tf, function)(x, y)


@cases(
    [
        (f"binary_{n}_{d}", {"x": ints(5, low=0, high=200, dtype=np.dtype(d)), "y": ints(5, low=1, high=100, dtype=np.dtype(d))}, n)
        for n in ("add", "multiply", "maximum")
        for d in ("uint8", "int16", "int8")
    ]
)
def binary_small_ints(tf, function, x, y):
    return getattr(tf, function)(x, y)


@cases(
    [
        (f"binary_{n}_float64", {"x": positive(3, dtype=F64), "y": positive(3, dtype=F64)}, n)
        for n in [*SMOOTH, "floordiv", "floormod", "mod", "div", "truncatemod"]
    ]
)
def binary_double(tf, function, x, y):
    return getattr(tf, function)(x, y)


@cases(
    [
        (f"binary_{n}_complex", {"x": complexes(2, 2), "y": complexes(2)}, n)
        for n in ("add", "subtract", "multiply", "divide", "pow", "squared_difference", "div_no_nan")
    ],
    grad=True,
)
def binary_complex(tf, function, x, y):
    return getattr(tf, function)(x, y)


@cases(
    [(f"binary_{n}_floats", {"x": floats(6, low=-7, high=7), "y": floats(6, low=1, high=3)}, n)
     for n in ("floordiv", "floormod", "mod", "floor_div", "div")],
    grad=True,
    numeric="steps",
)  # fmt: skip
def binary_steps(tf, function, x, y):
    return getattr(tf, function)(x, y)


@cases(
    [
        ("pow_ints", {"x": ints(4, low=1, high=5), "y": ints(4, low=0, high=4)}, "pow"),
        ("pow_int64", {"x": ints(4, dtype=np.int64), "y": ints(4, low=0, high=3, dtype=np.int64)}, "pow"),
    ]
)
def pow_ints(tf, function, x, y):
    return getattr(tf, function)(x, y)


@case(inputs={"x": array([0.0, 0.0, 2.0]), "y": array([2.0, 0.0, 0.0])}, grad=True, numeric="edge of the domain")
def pow_at_zero(tf, x, y):
    return tf.pow(x, y)


@case(inputs={"x": array([1.0, 2.0, 0.0]), "y": array([0.0, 4.0, 0.0])}, grad=True, numeric="edge of the domain")
def div_no_nan_by_zero(tf, x, y):
    return tf.div_no_nan(x, y)


@case(inputs={"x": array([1.0, 2.0, 2.0]), "y": array([1.0, 3.0, 1.0])}, grad=True, numeric="ties")
def maximum_of_ties(tf, x, y):
    return [tf.maximum(x, y), tf.minimum(x, y)]


@case(inputs={"x": array([1, 2]), "y": array([0, 1])}, raises=("InvalidArgumentError", "division by zero"))
def integer_division_by_zero(tf, x, y):
    return tf.floordiv(x, y)


@cases(
    [
        ("xlogy", {"x": array([0.0, 1.0, 2.0]), "y": array([0.0, 2.0, 3.0])}, "xlogy"),
        ("xlog1py", {"x": array([0.0, 1.0, 2.0]), "y": array([0.0, 2.0, 3.0])}, "xlog1py"),
        ("xdivy", {"x": array([0.0, 1.0, 2.0]), "y": array([0.0, 2.0, 3.0])}, "xdivy"),
        ("multiply_no_nan", {"x": array([np.inf, 1.0, 2.0]), "y": array([0.0, 2.0, 3.0])}, "multiply_no_nan"),
        ("nextafter", {"x": array([1.0, 2.0, 0.0], F64), "y": array([2.0, 1.0, 0.0], F64)}, "nextafter"),
    ]
)
def no_nan_products(tf, function, x, y):
    return getattr(tf.math, function)(x, y)


@case(inputs={"a": positive(3), "x": positive(3)}, grad=["x"], rtol=1e-4)
def igamma_family(tf, a, x):
    return [tf.igamma(a, x), tf.igammac(a, x)]


@case(inputs={"a": positive(3), "b": positive(3), "x": floats(3, low=0.1, high=0.9)}, grad=["x"], rtol=1e-4)
def betainc(tf, a, b, x):
    return tf.betainc(a, b, x)


@case(inputs={"x": floats(3, low=1.5, high=4.0), "q": positive(3)}, grad=["q"], rtol=1e-4)
def zeta(tf, x, q):
    return tf.zeta(x, q)


@case(inputs={"x": positive(3)}, grad=True, rtol=1e-4, atol=1e-5)
def polygamma(tf, x):
    return tf.polygamma(tf.ones_like(x), x)


@case(inputs={"x": positive(2, 3)}, grad=True)
def lbeta(tf, x):
    return tf.lbeta(x)


@case(inputs={"x": floats(2, 3), "y": floats(2, 3)}, grad=True)
def cross(tf, x, y):
    return tf.cross(x, y)


@case(inputs={"x": floats(2)}, grad=True)
def scalar_mul(tf, x):
    return [tf.scalar_mul(3.0, x), tf.scalar_mul(tf.constant(0.5), x)]


OPERATORS = {
    "plus": lambda x, y: x + y,
    "minus": lambda x, y: x - y,
    "times": lambda x, y: x * y,
    "divided": lambda x, y: x / y,
    "power": lambda x, y: abs(x) ** y,
    "unary_minus": lambda x, y: -x + y,
    "abs": lambda x, y: abs(x) + y,
    "reflected": lambda x, y: (2.0 - x) * (3.0 / y) + (1.0 + x) * 2.0 + 2.0**y,
    "numpy_left": lambda x, y: np.float32(2.0) * x + np.ones([3], np.float32) * y,
}


@cases([(f"operator_{n}", {"x": ANY, "y": POS}, f) for n, f in OPERATORS.items()], grad=True)
def operators(tf, function, x, y):
    return function(x, y)


@case(inputs={"x": ANY, "y": POS})
def operators_that_do_not_differentiate(tf, x, y):
    return [x // y, x % y, x < y, x <= y, x > y, x >= y, 7.0 // y, 7.0 % y]


@case(inputs={"x": ints(3), "y": ints(3, low=1, high=5)})
def operators_on_ints(tf, x, y):
    return [x / y, x // y, x % y, x + 2, 3 - x, x * y, 2**y, -x, abs(x)]


@case(inputs={"x": bools(4), "y": bools(4)})
def operators_on_bools(tf, x, y):
    return [x & y, x | y, x ^ y, ~x, x & True, False | y]


@case(inputs={"x": bools()}, raises=("TypeError",))
def a_tensor_has_no_truth_value(tf, x):
    return 1 if x else 2


@case(inputs={"x": floats(2), "y": ints(2)}, raises=("TypeError", "has type int32 that does not match type float32"))
def add_of_two_dtypes(tf, x, y):
    return tf.add(x, y)


@case(inputs={"x": floats(2), "y": floats(2, dtype=F64)}, raises=("TypeError", "has type float64 that does not match type float32"))
def plus_of_two_dtypes(tf, x, y):
    return x + y


@case(inputs={"x": ints(2)}, raises=("TypeError",))
def int_plus_python_float(tf, x):
    return x + 1.5


@case(inputs={"x": bools(2)}, raises=("TypeError", "not in list of allowed values"))
def exp_of_bools(tf, x):
    return tf.exp(x)


@case(inputs={"x": floats(2, 3), "y": floats(2, 4)}, raises=("ValueError", "Dimensions must be equal"))
def add_of_incompatible_shapes(tf, x, y):
    return tf.add(x, y)


@case(
    inputs={"x": floats(2, 3), "y": floats(2, 4)},
    variants=["unknown"],
    raises=("InvalidArgumentError", "[2,3]", "[2,4]"),
)
def add_of_incompatible_shapes_at_run_time(tf, x, y):
    return tf.add(x, y)


# --- comparison and logic -------------------------------------------------------------------------------


@cases(
    [
        (f"compare_{n}_{d}", {"x": ints(6, low=0, high=3, dtype=np.dtype(d)), "y": ints(6, low=0, high=3, dtype=np.dtype(d))}, n)
        for n in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
        for d in ("float32", "int32", "int64", "float64")
    ]
    + [
        ("compare_equal_bool", {"x": bools(4), "y": bools(4)}, "equal"),
        ("compare_not_equal_complex", {"x": complexes(2), "y": complexes(2)}, "not_equal"),
        ("compare_less_broadcast", {"x": floats(2, 1), "y": floats(3)}, "less"),
        ("compare_equal_broadcast", {"x": ints(2, 1), "y": ints(3)}, "equal"),
    ]
)
def compare(tf, function, x, y):
    return getattr(tf, function)(x, y)


@case(inputs={"x": array([np.nan, 1.0]), "y": array([np.nan, 1.0])})
def compare_nan(tf, x, y):
    return [tf.equal(x, y), tf.not_equal(x, y), tf.less(x, y)]


@cases([(f"logical_{n}", {"x": bools(2, 3), "y": bools(3)}, f"logical_{n}") for n in ("and", "or", "xor")])
def logical(tf, function, x, y):
    return getattr(tf, function)(x, y)


@case(inputs={"x": bools(2, 3)})
def logical_not(tf, x):
    return tf.logical_not(x)


@case(inputs={"x": ints(2)}, raises=("TypeError",))
def logical_and_of_ints(tf, x):
    return tf.logical_and(x, x)


@cases(
    [
        (f"bitwise_{n}", {"x": ints(4, low=0, high=50), "y": ints(4, low=0, high=6)}, n)
        for n in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
    ]
)
def bitwise(tf, function, x, y):
    return getattr(tf.bitwise, function)(x, y)


@case(inputs={"x": ints(3), "y": ints(3, low=0, high=9, dtype=np.uint8)})
def bitwise_invert(tf, x, y):
    return [tf.bitwise.invert(x), tf.bitwise.invert(y)]


# --- casts and complex numbers -----------------------------------------------------------------------------


CAST_TARGETS = ("float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool", "complex64")


@cases(
    [(f"cast_float32_to_{d}", {"x": array([0.0, 0.4, 1.6, 2.0, 100.0])}, d) for d in CAST_TARGETS]
    + [(f"cast_int32_to_{d}", {"x": array([0, 1, 7, 100])}, d) for d in CAST_TARGETS]
    + [(f"cast_bool_to_{d}", {"x": array([True, False])}, d) for d in CAST_TARGETS]
    + [(f"cast_negative_to_{d}", {"x": array([-1.5, -0.2, -3.0])}, d) for d in ("int8", "int32", "int64")]
)
def cast(tf, dtype, x):
    return tf.cast(x, getattr(tf, dtype))


@cases([(f"cast_gradient_to_{d}", {"x": floats(3)}, d) for d in ("float64", "float16", "complex64", "int32")], grad=True, numeric="rounds")
def cast_gradient(tf, dtype, x):
    return [tf.cast(x, getattr(tf, dtype)), x * 2.0]


@case(inputs={"x": array([0.5, 1.5, 300.7, -5.0])})
def casts_by_name(tf, x):
    return [tf.to_int32(x), tf.to_int64(x), tf.to_float(tf.to_int32(x)), tf.to_double(x), tf.to_bfloat16(x)]


@case(inputs={"x": array([-7.0, 3.2, 300.0, 1e9])})
def saturate_cast(tf, x):
    return [tf.saturate_cast(x, tf.uint8), tf.saturate_cast(x, tf.int8), tf.saturate_cast(x, tf.float16)]


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


# --- ranges, scans, sums of lists ------------------------------------------------------------------------------


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


@case(inputs={"a": array(0), "b": array(3), "d": array(-1)}, raises=("InvalidArgumentError", "Requires start >= limit"))
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
    [(f"{f}_{n}", {"x": positive(2, 3)}, f, o) for f in ("cumsum", "cumprod") for n, o in SCANS.items()],
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


# --- clipping and norms ----------------------------------------------------------------------------------------


@cases(
    [
        ("clip_by_value", {"x": ANY}, lambda tf, x: tf.clip_by_value(x, -0.7, 0.9)),
        ("clip_by_value_tensor_bounds", {"x": ANY}, lambda tf, x: tf.clip_by_value(x, [-0.5, -1.0, 0.0], 1.0)),
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
    return [tf.clip_by_norm(slices, 0.5), tf.clip_by_global_norm([slices], 0.5)[0][0], tf.global_norm([slices])]


@case(inputs={"x": ANY}, grad=True)
def multiply_by_self_counts_twice(tf, x):
    return x * x + x


@case(inputs={"x": array([1.0, 2.0])})
def check_numerics_passes(tf, x):
    return [tf.check_numerics(x, "fine"), tf.verify_tensor_all_finite(x, "fine")]


@case(inputs={"x": array([1.0, np.nan])}, raises=("InvalidArgumentError", "broken : Tensor had NaN"))
def check_numerics_nan(tf, x):
    return tf.check_numerics(x, "broken")


@case(inputs={"x": array([1.0, np.inf])}, raises=("InvalidArgumentError", "broken : Tensor had"))
def check_numerics_inf(tf, x):
    return tf.check_numerics(x, "broken")


# --- Fourier transforms -----------------------------------------------------------------------------------------


@cases([(n, {"x": complexes(2, 4)}, n) for n in ("fft", "ifft", "fft2d", "ifft2d")], grad=True, atol=1e-5)
def fourier(tf, function, x):
    return getattr(tf, function)(x)


@case(inputs={"x": complexes(2, 2, 2)}, grad=True, atol=1e-5)
def fft3d(tf, x):
    return [tf.fft3d(x), tf.ifft3d(x)]


@cases([("rfft", {"x": floats(2, 4)}, {}), ("rfft_length", {"x": floats(2, 4)}, {"fft_length": [6]})], grad=True, atol=1e-5)
def rfft(tf, options, x):
    return tf.signal.rfft(x, **options)


@case(inputs={"x": complexes(2, 3)}, atol=1e-5)
def irfft(tf, x):
    return [tf.signal.irfft(x), tf.signal.irfft(x, [5]), tf.signal.irfft2d(x)]


@case(inputs={"x": floats(2, 4)}, grad=True, atol=1e-5)
def rfft2d(tf, x):
    return tf.signal.rfft2d(x)
