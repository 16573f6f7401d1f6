"""Reductions over axes, argmax and argmin."""

import numpy as np
from parity_kit import array, bools, case, cases, complexes, floats, ints, positive, strings

X = {"x": positive(2, 3, 2)}
AXES = {
    "all": {},
    "none": {"axis": None},
    "first": {"axis": 0},
    "last": {"axis": -1},
    "two": {"axis": [0, 2]},
    "tuple": {"axis": (1,)},
    "empty_list": {"axis": []},
    "keepdims": {"axis": 1, "keepdims": True},
    "keep_dims_old": {"axis": [0, 1], "keep_dims": True},
    "all_keepdims": {"keepdims": True},
    "reduction_indices": {"reduction_indices": [1]},
    "reduction_indices_scalar": {"reduction_indices": 1},
}
NUMERIC = (
    "reduce_sum",
    "reduce_mean",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_logsumexp",
)


@cases([(f"{f}_{n}", X, f, o) for f in NUMERIC for n, o in AXES.items()], grad=True)
def reductions(tf, function, options, x):
    return getattr(tf, function)(x, **options)


V2_AXES = ("all", "first", "last", "two", "keepdims")


@cases(
    [
        (f"{f}_{n}", X, f, AXES[n])
        for f in ("reduce_euclidean_norm", "reduce_variance", "reduce_std")
        for n in V2_AXES
    ],
    grad=True,
)
def reductions_math(tf, function, options, x):
    return getattr(tf.math, function)(x, **options)


@cases(
    [
        (f"{f}_{n}", {"x": bools(2, 3, 2)}, f, o)
        for f in ("reduce_all", "reduce_any")
        for n, o in AXES.items()
    ]
)
def reductions_logical(tf, function, options, x):
    return getattr(tf, function)(x, **options)


@cases(
    [
        (f"{f}_second_order", {"x": positive(2, 3)}, f)
        for f in NUMERIC
        if f not in ("reduce_max", "reduce_min")
    ],
    grad=True,
    second_order=True,
)
def reductions_second_order(tf, function, x):
    return tf.square(getattr(tf, function)(x, axis=1))


@cases(
    [
        (f"{f}_{d}", {"x": ints(2, 3, dtype=np.dtype(d))}, f)
        for f in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod")
        for d in ("int32", "int64", "float64", "float16")
    ]
)
def reductions_dtypes(tf, function, x):
    return [getattr(tf, function)(x), getattr(tf, function)(x, axis=1)]


@cases(
    [
        (f"{f}_complex", {"x": complexes(2, 3)}, f)
        for f in ("reduce_sum", "reduce_mean", "reduce_prod")
    ],
    grad=True,
)
def reductions_complex(tf, function, x):
    return getattr(tf, function)(x, axis=0)


@cases(
    [
        (f"{f}_of_nothing", {"x": array(np.zeros((2, 0), np.float32))}, f)
        for f in (
            "reduce_sum",
            "reduce_mean",
            "reduce_max",
            "reduce_min",
            "reduce_prod",
            "reduce_logsumexp",
        )
    ]
)
def reductions_of_nothing(tf, function, x):
    return [
        getattr(tf, function)(x),
        getattr(tf, function)(x, axis=1),
        getattr(tf, function)(x, axis=0),
    ]


@case(inputs={"x": array(np.zeros((0,), np.bool_))})
def reduce_all_of_nothing(tf, x):
    return [tf.reduce_all(x), tf.reduce_any(x)]


@cases([(f"{f}_of_scalar", {"x": positive()}, f) for f in NUMERIC], grad=True)
def reductions_of_scalar(tf, function, x):
    return getattr(tf, function)(x)


@cases(
    [
        (f"{f}_ties", {"x": array([[1.0, 3.0, 3.0], [2.0, 2.0, 0.0]])}, f)
        for f in ("reduce_max", "reduce_min")
    ],
    grad=True,
    numeric="ties share the gradient",
)
def reductions_with_ties(tf, function, x):
    return getattr(tf, function)(x, axis=1)


@case(inputs={"x": array([[0.0, 2.0, 3.0], [4.0, 0.0, 0.0]])}, grad=True)
def reduce_prod_with_zeros(tf, x):
    return tf.reduce_prod(x, 1)


@case(inputs={"x": array([np.nan, 1.0]), "y": array([np.inf, -np.inf, 0.0])})
def reductions_of_nan_and_inf(tf, x, y):
    return [
        tf.reduce_sum(x),
        tf.reduce_sum(y),
        tf.reduce_max(y),
        tf.reduce_min(y),
        tf.reduce_logsumexp(y[:1]),
    ]


@case(inputs={"x": array([-np.inf, -np.inf])})
def logsumexp_of_minus_infinity(tf, x):
    return tf.reduce_logsumexp(x)


@case(inputs={"x": floats(2, 3, 2), "a": array([0, 2])}, grad=["x"])
def reduce_sum_fed_axes(tf, x, a):
    return tf.reduce_sum(x, a)


@case(inputs={"x": floats(2, 3), "a": array([0])}, grad=["x"])
def reduce_mean_fed_axes_keeping(tf, x, a):
    return tf.reduce_mean(x, a, keepdims=True)


@case(inputs={"x": floats(2, 3)}, raises=("ValueError", "Invalid reduction dimension"))
def reduce_axis_out_of_range(tf, x):
    return tf.reduce_sum(x, axis=2)


@case(
    inputs={"x": floats(2, 3)},
    variants=["unknown"],
    raises=("InvalidArgumentError", "Invalid reduction dimension"),
)
def reduce_axis_out_of_range_at_run_time(tf, x):
    return tf.reduce_sum(x, axis=2)


@case(inputs={"x": floats(2, 3)}, raises=("ValueError",))
def reduce_axis_given_twice(tf, x):
    return tf.reduce_sum(x, axis=1, reduction_indices=1)


@case(inputs={"x": floats(2, 3)}, raises=("TypeError",))
def reduce_all_of_floats(tf, x):
    return tf.reduce_all(x)


@cases(
    [
        ("count_nonzero_all", {"x": ints(2, 3, low=-1, high=2)}, {}),
        ("count_nonzero_axis", {"x": ints(2, 3, low=-1, high=2)}, {"axis": 0}),
        (
            "count_nonzero_keepdims",
            {"x": ints(2, 3, low=-1, high=2)},
            {"axis": 1, "keepdims": True},
        ),
        ("count_nonzero_dtype", {"x": bools(2, 3)}, {"dtype": np.int32}),
        ("count_nonzero_float", {"x": array([0.0, 1e-20, -2.0])}, {}),
        ("count_nonzero_strings", {"x": strings(["", "a", ""])}, {}),
        (
            "count_nonzero_old_names",
            {"x": ints(2, 3, low=0, high=2)},
            {"reduction_indices": [0], "keep_dims": True},
        ),
    ]
)
def count_nonzero(tf, options, x):
    return tf.count_nonzero(x, **options)


ARG = {
    "default": {},
    "axis_1": {"axis": 1},
    "negative": {"axis": -1},
    "int32": {"axis": 1, "output_type": np.int32},
    "dimension_old": {"dimension": 1},
}


@cases(
    [(f"{f}_{n}", {"x": floats(3, 4)}, f, o) for f in ("argmax", "argmin") for n, o in ARG.items()]
)
def arg_extremes(tf, function, options, x):
    return getattr(tf, function)(x, **options)


@case(inputs={"x": floats(3, 4)})
def arg_extremes_old_functions(tf, x):
    return [tf.arg_max(x, 1), tf.arg_min(x, dimension=0)]


@case(inputs={"x": array([[1, 5, 5], [0, 0, -1]])})
def argmax_takes_the_first_of_ties(tf, x):
    return [tf.argmax(x, 1), tf.argmin(x, 1), tf.argmax(x, 0)]


@case(inputs={"x": floats(3, 4), "a": array(0)})
def argmax_fed_axis(tf, x, a):
    return tf.argmax(x, a)


@case(
    inputs={"x": array(np.zeros((2, 0), np.float32))},
    raises=("InvalidArgumentError", "Reduction axis 1 is empty"),
)
def argmax_of_nothing(tf, x):
    return tf.argmax(x, 1)


@case(inputs={"x": floats(3, 4)}, raises=("ValueError",))
def argmax_axis_out_of_range(tf, x):
    return tf.argmax(x, 2)


@cases(
    [
        ("moments_batch", {"x": floats(4, 3)}, [0], {}),
        ("moments_spatial", {"x": floats(2, 2, 2, 3)}, [0, 1, 2], {}),
        ("moments_keep_dims", {"x": floats(4, 3)}, [1], {"keep_dims": True}),
        ("moments_keepdims", {"x": floats(4, 3)}, [0, 1], {"keepdims": True}),
    ],
    grad=True,
)
def moments(tf, axes, options, x):
    return tf.nn.moments(x, axes, **options)


@case(inputs={"x": floats(4, 3), "w": positive(4, 1)}, grad=True, second_order=False)
def weighted_moments(tf, x, w):
    return tf.nn.weighted_moments(x, [0], w)


@case(inputs={"x": floats(4, 3)}, grad=True)
def sufficient_statistics(tf, x):
    count, mean_ss, variance_ss, shift = tf.nn.sufficient_statistics(x, [0])
    return [mean_ss, variance_ss, tf.nn.normalize_moments(count, mean_ss, variance_ss, shift)]


@case(inputs={"x": floats(4, 3)}, grad=True)
def sufficient_statistics_shifted(tf, x):
    count, mean_ss, variance_ss, shift = tf.nn.sufficient_statistics(
        x, [0], shift=tf.constant(0.5, x.dtype)
    )
    return [count, *tf.nn.normalize_moments(count, mean_ss, variance_ss, shift)]
