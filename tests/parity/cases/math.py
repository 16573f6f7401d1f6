"""Elementwise unary math, its gradients of first and second order, and its edges."""

import numpy as np
from parity_kit import array, case, cases, complexes, floats, ints, positive

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


@cases(
    [
        (f"unary_{n}_float64", {"x": floats(3, low=0.2, high=0.9, dtype=F64)}, n)
        for n in UNARY
        if n != "acosh"
    ],
    grad=True,
)
def unary_double(tf, function, x):
    return getattr(tf, function)(x)


@cases(
    [
        (f"unary_{n}_float16", {"x": floats(3, low=0.2, high=0.9, dtype=np.float16)}, n)
        for n in HALF_OK
    ]
)
def unary_half(tf, function, x):
    return getattr(tf, function)(x)


COMPLEX_UNARY = [
    "negative",
    "square",
    "sqrt",
    "rsqrt",
    "exp",
    "expm1",
    "log",
    "log1p",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "sigmoid",
    "reciprocal",
    "asinh",
    "acosh",
    "atanh",
    "asin",
    "acos",
    "atan",
]


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
        for n in (
            "abs",
            "exp",
            "log",
            "sqrt",
            "tanh",
            "sigmoid",
            "sign",
            "reciprocal",
            "floor",
            "log1p",
            "square",
        )
    ]
)
def edges(tf, function, x):
    return getattr(tf, function)(x)
