"""Binary math with broadcasting, operators, comparison, logic and bits."""

import numpy as np
from parity_kit import array, bools, case, cases, complexes, floats, ints, positive

F64 = np.float64
UNIT = floats(2, 3, low=-0.9, high=0.9)
ANY = floats(2, 3)
POS = positive(2, 3)
ABOVE_ONE = floats(2, 3, low=1.2, high=3.0)

# --- binary

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
        (
            f"binary_{n}_{d}",
            {"x": ints(5, dtype=np.dtype(d)), "y": ints(5, low=1, high=4, dtype=np.dtype(d))},
            n,
        )
        for n in (
            "add",
            "subtract",
            "multiply",
            "maximum",
            "minimum",
            "floordiv",
            "floormod",
            "mod",
            "truncatediv",
            "truncatemod",
            "div",
            "truediv",
            "squared_difference",
        )
        for d in ("int32", "int64")
    ]
)
def binary_ints(tf, function, x, y):
    return getattr(tf, function)(x, y)


@cases(
    [
        (
            f"binary_{n}_{d}",
            {
                "x": ints(5, low=0, high=200, dtype=np.dtype(d)),
                "y": ints(5, low=1, high=100, dtype=np.dtype(d)),
            },
            n,
        )
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
        for n in (
            "add",
            "subtract",
            "multiply",
            "divide",
            "pow",
            "squared_difference",
            "div_no_nan",
        )
    ],
    grad=True,
)
def binary_complex(tf, function, x, y):
    return getattr(tf, function)(x, y)


@cases(
    [
        (f"binary_{n}_floats", {"x": floats(6, low=-7, high=7), "y": floats(6, low=1, high=3)}, n)
        for n in ("floordiv", "floormod", "mod", "floor_div", "div")
    ],
    grad=True,
    numeric="steps",
)
def binary_steps(tf, function, x, y):
    return getattr(tf, function)(x, y)


@cases(
    [
        ("pow_ints", {"x": ints(4, low=1, high=5), "y": ints(4, low=0, high=4)}, "pow"),
        (
            "pow_int64",
            {"x": ints(4, dtype=np.int64), "y": ints(4, low=0, high=3, dtype=np.int64)},
            "pow",
        ),
    ]
)
def pow_ints(tf, function, x, y):
    return getattr(tf, function)(x, y)


@case(
    inputs={"x": array([0.0, 0.0, 2.0]), "y": array([2.0, 0.0, 0.0])},
    grad=True,
    numeric="edge of the domain",
)
def pow_at_zero(tf, x, y):
    return tf.pow(x, y)


@case(
    inputs={"x": array([1.0, 2.0, 0.0]), "y": array([0.0, 4.0, 0.0])},
    grad=True,
    numeric="edge of the domain",
)
def div_no_nan_by_zero(tf, x, y):
    return tf.div_no_nan(x, y)


@case(inputs={"x": array([1.0, 2.0, 2.0]), "y": array([1.0, 3.0, 1.0])}, grad=True, numeric="ties")
def maximum_of_ties(tf, x, y):
    return [tf.maximum(x, y), tf.minimum(x, y)]


@case(
    inputs={"x": array([1, 2]), "y": array([0, 1])},
    raises=("InvalidArgumentError", "division by zero"),
)
def integer_division_by_zero(tf, x, y):
    return tf.floordiv(x, y)


@cases(
    [
        ("xlogy", {"x": array([0.0, 1.0, 2.0]), "y": array([0.0, 2.0, 3.0])}, "xlogy"),
        ("xlog1py", {"x": array([0.0, 1.0, 2.0]), "y": array([0.0, 2.0, 3.0])}, "xlog1py"),
        ("xdivy", {"x": array([0.0, 1.0, 2.0]), "y": array([0.0, 2.0, 3.0])}, "xdivy"),
        (
            "multiply_no_nan",
            {"x": array([np.inf, 1.0, 2.0]), "y": array([0.0, 2.0, 3.0])},
            "multiply_no_nan",
        ),
        (
            "nextafter",
            {"x": array([1.0, 2.0, 0.0], F64), "y": array([2.0, 1.0, 0.0], F64)},
            "nextafter",
        ),
    ]
)
def no_nan_products(tf, function, x, y):
    return getattr(tf.math, function)(x, y)


@case(inputs={"a": positive(3), "x": positive(3)}, grad=["x"], rtol=1e-4)
def igamma_family(tf, a, x):
    return [tf.igamma(a, x), tf.igammac(a, x)]


@case(
    inputs={"a": positive(3), "b": positive(3), "x": floats(3, low=0.1, high=0.9)},
    grad=["x"],
    rtol=1e-4,
)
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


@case(
    inputs={"x": floats(2), "y": ints(2)},
    raises=("TypeError", "has type int32 that does not match type float32"),
)
def add_of_two_dtypes(tf, x, y):
    return tf.add(x, y)


@case(
    inputs={"x": floats(2), "y": floats(2, dtype=F64)},
    raises=("TypeError", "has type float64 that does not match type float32"),
)
def plus_of_two_dtypes(tf, x, y):
    return x + y


@case(inputs={"x": ints(2)}, raises=("TypeError",))
def int_plus_python_float(tf, x):
    return x + 1.5


@case(inputs={"x": bools(2)}, raises=("TypeError", "not in list of allowed values"))
def exp_of_bools(tf, x):
    return tf.exp(x)


@case(
    inputs={"x": floats(2, 3), "y": floats(2, 4)}, raises=("ValueError", "Dimensions must be equal")
)
def add_of_incompatible_shapes(tf, x, y):
    return tf.add(x, y)


@case(
    inputs={"x": floats(2, 3), "y": floats(2, 4)},
    variants=["unknown"],
    raises=("InvalidArgumentError", "[2,3]", "[2,4]"),
)
def add_of_incompatible_shapes_at_run_time(tf, x, y):
    return tf.add(x, y)


# --- comparison and logic


@cases(
    [
        (
            f"compare_{n}_{d}",
            {
                "x": ints(6, low=0, high=3, dtype=np.dtype(d)),
                "y": ints(6, low=0, high=3, dtype=np.dtype(d)),
            },
            n,
        )
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


@cases(
    [
        (f"logical_{n}", {"x": bools(2, 3), "y": bools(3)}, f"logical_{n}")
        for n in ("and", "or", "xor")
    ]
)
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
