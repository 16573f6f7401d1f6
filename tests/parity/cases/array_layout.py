"""Array ops that rearrange: tile, pad, reverse, diagonals, space and batch, orderings."""

import numpy as np
from parity_kit import (
    array,
    case,
    cases,
    complexes,
    floats,
    ints,
    permutation,
    strings,
)

X34 = {"x": floats(3, 4)}
PAIR = {"x": floats(2, 3), "y": floats(2, 3)}
X234 = {"x": floats(2, 3, 4)}
WORDS = [["a", "bb", ""], ["dddd", "e", "ff"]]
ALL_DTYPES = [
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "complex64",
    "complex128",
]


# --- tile, pad, reverse, roll


@cases(
    [
        ("tile_matrix", X34, [2, 1]),
        ("tile_both", {"x": floats(1, 2)}, [3, 2]),
        ("tile_vector", {"x": floats(2)}, [3]),
        ("tile_zero_times", {"x": floats(2)}, [0]),
        ("tile_scalar", {"x": floats()}, np.zeros([0], np.int32)),
    ],
    grad=True,
)
def tile(tf, multiples, x):
    return tf.tile(x, multiples)


@case(inputs={"x": strings(["a", "b"])})
def tile_strings(tf, x):
    return tf.tile(x, [2])


@case(inputs={"x": floats(2, 2), "m": array([2, 3])}, grad=["x"])
def tile_fed_multiples(tf, x, m):
    return tf.tile(x, m)


@case(inputs=X34, raises=("ValueError",))
def tile_of_wrong_rank(tf, x):
    return tf.tile(x, [2])


@cases(
    [
        ("pad_constant", X34, [[1, 0], [0, 2]], {}),
        ("pad_constant_value", X34, [[1, 1], [0, 0]], {"constant_values": 7.0}),
        ("pad_reflect", X34, [[1, 2], [2, 1]], {"mode": "REFLECT"}),
        ("pad_symmetric", X34, [[1, 2], [4, 1]], {"mode": "SYMMETRIC"}),
        ("pad_lower_case_mode", X34, [[1, 0], [0, 0]], {"mode": "symmetric"}),
        ("pad_vector", {"x": floats(3)}, [[2, 1]], {}),
        ("pad_nothing", X34, [[0, 0], [0, 0]], {}),
    ],
    grad=True,
)
def pad(tf, paddings, options, x):
    return tf.pad(x, paddings, **options)


@case(inputs={"x": ints(2, 2), "p": array([[0, 1], [2, 0]])})
def pad_fed_paddings(tf, x, p):
    return [tf.pad(x, p), tf.pad(x, p, constant_values=9)]


@case(inputs={"x": strings(["a"])})
def pad_strings(tf, x):
    return tf.pad(x, [[1, 1]])


@case(inputs=X34, raises=("ValueError",))
def pad_of_wrong_rank(tf, x):
    return tf.pad(x, [[1, 1]])


@case(inputs=X34, raises=("ValueError", "expected to be one of"))
def pad_of_unknown_mode(tf, x):
    return tf.pad(x, [[1, 1], [0, 0]], mode="WRAP")


@cases(
    [
        ("reverse_rows", X34, [0]),
        ("reverse_both", X34, [0, 1]),
        ("reverse_negative", X34, [-1]),
        ("reverse_nothing", X34, np.zeros([0], np.int32)),
    ],
    grad=True,
)
def reverse(tf, axis, x):
    return tf.reverse(x, axis)


@case(inputs={"x": strings(WORDS)})
def reverse_strings(tf, x):
    return tf.reverse(x, [1])


@case(inputs=X34, raises=("ValueError",))
def reverse_axis_twice(tf, x):
    return tf.reverse(x, [0, -2])


@cases(
    [
        ("reverse_sequence_batch_first", {"x": floats(3, 4)}, {"seq_axis": 1, "batch_axis": 0}),
        ("reverse_sequence_time_first", {"x": floats(4, 3, 2)}, {"seq_axis": 0, "batch_axis": 1}),
        ("reverse_sequence_old_names", {"x": floats(3, 4)}, {"seq_dim": 1, "batch_dim": 0}),
    ],
    grad=True,
)
def reverse_sequence(tf, options, x):
    return tf.reverse_sequence(x, [2, 0, 4], **options)


@cases(
    [
        ("roll_vector", {"x": floats(5)}, 2, 0),
        ("roll_negative", {"x": floats(5)}, -1, 0),
        ("roll_two_axes", X34, [1, -2], [0, 1]),
        ("roll_same_axis_twice", X34, [1, 1], [1, 1]),
        ("roll_more_than_length", {"x": floats(3)}, 7, 0),
    ],
    grad=True,
)
def roll(tf, shift, axis, x):
    return tf.roll(x, shift, axis)


@cases(
    [
        ("repeat_scalar_count", {"x": floats(2, 2)}, 3, {"axis": 0}),
        ("repeat_counts", {"x": floats(2, 3)}, [1, 0, 2], {"axis": 1}),
        ("repeat_flattened", {"x": floats(2, 2)}, 2, {}),
    ],
    grad=True,
)
def repeat(tf, counts, options, x):
    return tf.repeat(x, counts, **options)


# --- identity, diagonal, bands


@case(inputs=X34, grad=True)
def identity(tf, x):
    return tf.identity(x)


@case(inputs=PAIR, grad=True)
def identity_n(tf, x, y):
    return tf.identity_n([x, y])


@case(inputs=PAIR, grad=True, numeric="stop_gradient hides a path on purpose")
def stop_gradient(tf, x, y):
    return tf.stop_gradient(x * x) * y


@case(inputs=X34, variants=["known"])
def guarantee_const(tf, x):
    return tf.guarantee_const(x)


@case(inputs={"x": floats(3, 4).with_partial(None, None)}, grad=True)
def ensure_shape(tf, x):
    return tf.ensure_shape(x, [None, 4])


@case(inputs=X34, variants=["unknown"], raises=("InvalidArgumentError", "is not compatible with"))
def ensure_shape_fails(tf, x):
    return tf.ensure_shape(x, [None, 3])


@case(inputs=X34, raises=("ValueError",))
def set_shape_contradiction(tf, x):
    x.set_shape([2, None])


@cases(
    [
        ("eye_square", {}, (3,), {}),
        ("eye_rectangular", {}, (2, 3), {}),
        ("eye_batch", {}, (2,), {"batch_shape": [2, 1]}),
        ("eye_dtype", {}, (2,), {"num_columns": 1, "dtype": np.int32}),
    ]
)
def eye(tf, arguments, options):
    return tf.eye(*arguments, **options)


@cases(
    [
        ("diag_vector", {"x": floats(3)}, "diag"),
        ("diag_matrix", {"x": floats(2, 2)}, "diag"),
        ("diag_part_matrix", {"x": floats(3, 3)}, "diag_part"),
        ("diag_part_4d", {"x": floats(2, 3, 2, 3)}, "diag_part"),
        ("matrix_diag_vector", {"x": floats(3)}, "matrix_diag"),
        ("matrix_diag_batch", {"x": floats(2, 3)}, "matrix_diag"),
        ("matrix_diag_part_wide", {"x": floats(2, 2, 3)}, "matrix_diag_part"),
        ("matrix_diag_part_tall", {"x": floats(3, 2)}, "matrix_diag_part"),
        ("trace_matrix", {"x": floats(3, 3)}, "trace"),
        ("trace_batch", {"x": floats(2, 2, 3)}, "trace"),
    ],
    grad=True,
)
def diagonals(tf, function, x):
    return getattr(tf, function)(x)


@cases(
    [
        ("matrix_diag_k", {"x": floats(2)}, {"k": 1}),
        (
            "matrix_diag_k_padding",
            {"x": floats(2)},
            {"k": -1, "num_rows": 3, "num_cols": 4, "padding_value": 9.0},
        ),
        ("matrix_diag_band", {"x": floats(2, 3)}, {"k": (-1, 0)}),
        ("matrix_diag_band_align", {"x": floats(2, 3)}, {"k": (0, 1), "align": "LEFT_RIGHT"}),
    ],
    grad=True,
)
def matrix_diag_options(tf, options, x):
    return tf.matrix_diag(x, **options)


@cases(
    [
        ("matrix_diag_part_k", {"x": floats(3, 4)}, {"k": 2}),
        ("matrix_diag_part_band", {"x": floats(3, 4)}, {"k": (-1, 1)}),
        (
            "matrix_diag_part_band_align",
            {"x": floats(3, 4)},
            {"k": (-1, 1), "align": "LEFT_RIGHT", "padding_value": 5.0},
        ),
    ],
    grad=True,
)
def matrix_diag_part_options(tf, options, x):
    return tf.matrix_diag_part(x, **options)


@cases(
    [
        ("matrix_set_diag", {"x": floats(3, 3), "d": floats(3)}, {}),
        ("matrix_set_diag_batch", {"x": floats(2, 2, 3), "d": floats(2, 2)}, {}),
        ("matrix_set_diag_k", {"x": floats(3, 3), "d": floats(2)}, {"k": 1}),
        ("matrix_set_diag_band", {"x": floats(3, 3), "d": floats(2, 3)}, {"k": (0, 1)}),
    ],
    grad=True,
)
def matrix_set_diag(tf, options, x, d):
    return tf.matrix_set_diag(x, d, **options)


@cases(
    [
        (f"matrix_band_part_{n}", {"x": floats(3, 4)}, lower, upper)
        for n, lower, upper in [
            ("lower", -1, 0),
            ("upper", 0, -1),
            ("diagonal", 0, 0),
            ("band", 1, 1),
            ("all", -1, -1),
        ]
    ]
    + [("matrix_band_part_batch", {"x": floats(2, 3, 3)}, 1, 0)],
    grad=True,
)
def matrix_band_part(tf, lower, upper, x):
    return tf.matrix_band_part(x, lower, upper)


# --- space and batch, depth


@cases(
    [
        ("space_to_batch_nd_plain", {"x": floats(1, 4, 2, 1)}, [2, 2], [[0, 0], [0, 0]]),
        ("space_to_batch_nd_padded", {"x": floats(1, 3, 3, 2)}, [2, 2], [[1, 0], [0, 1]]),
        ("space_to_batch_nd_1d", {"x": floats(2, 3, 2)}, [3], [[0, 0]]),
    ],
    grad=True,
)
def space_to_batch_nd(tf, block, paddings, x):
    return tf.space_to_batch_nd(x, block, paddings)


@cases(
    [
        ("batch_to_space_nd_plain", {"x": floats(4, 1, 2, 1)}, [2, 2], [[0, 0], [0, 0]]),
        ("batch_to_space_nd_cropped", {"x": floats(4, 2, 2, 1)}, [2, 2], [[1, 0], [0, 1]]),
    ],
    grad=True,
)
def batch_to_space_nd(tf, block, crops, x):
    return tf.batch_to_space_nd(x, block, crops)


@case(inputs={"x": floats(1, 4, 4, 1)}, grad=True)
def space_to_batch_and_back(tf, x):
    y = tf.space_to_batch(x, [[0, 0], [0, 0]], block_size=2)
    return [y, tf.batch_to_space(y * 2.0, [[0, 0], [0, 0]], block_size=2)]


@cases(
    [
        ("space_to_depth", {"x": floats(1, 4, 2, 2)}, "space_to_depth"),
        ("depth_to_space", {"x": floats(2, 2, 1, 8)}, "depth_to_space"),
    ],
    grad=True,
)
def depth_and_space(tf, function, x):
    return getattr(tf, function)(x, 2)


@case(inputs={"x": floats(1, 3, 3, 1)}, raises=("ValueError",))
def space_to_depth_uneven(tf, x):
    return tf.space_to_depth(x, 2)


@case()
def required_space_to_batch_paddings(tf):
    return tf.required_space_to_batch_paddings([5, 4], [2, 3], base_paddings=[[1, 0], [0, 0]])


@cases(
    [
        (
            "extract_image_patches_valid",
            {"x": floats(1, 3, 4, 2)},
            [1, 2, 2, 1],
            [1, 1, 1, 1],
            [1, 1, 1, 1],
            "VALID",
        ),
        (
            "extract_image_patches_same",
            {"x": floats(1, 4, 4, 1)},
            [1, 3, 3, 1],
            [1, 2, 2, 1],
            [1, 1, 1, 1],
            "SAME",
        ),
        (
            "extract_image_patches_rates",
            {"x": floats(1, 4, 4, 1)},
            [1, 2, 2, 1],
            [1, 1, 1, 1],
            [1, 2, 2, 1],
            "VALID",
        ),
    ],
    grad=True,
)
def extract_image_patches(tf, sizes, strides, rates, padding, x):
    return tf.extract_image_patches(x, sizes, strides, rates, padding)


# --- orderings, indices, odds and ends


@cases(
    [
        ("meshgrid_default", {"x": floats(2), "y": floats(3)}, {}),
        ("meshgrid_ij", {"x": floats(2), "y": floats(3)}, {"indexing": "ij"}),
    ],
    grad=True,
)
def meshgrid(tf, options, x, y):
    return tf.meshgrid(x, y, **options)


@case(inputs={"x": permutation(5)})
def invert_permutation(tf, x):
    return tf.invert_permutation(x)


@case(inputs={"x": array([0, 0, 1])}, raises=("InvalidArgumentError", "duplicated"))
def invert_permutation_of_duplicates(tf, x):
    return tf.invert_permutation(x)


@case(inputs={"i": array([22, 41, 37])})
def unravel_index(tf, i):
    return tf.unravel_index(i, [7, 6])


@cases(
    [
        ("sort_vector", {"x": floats(5)}, {}),
        ("sort_descending", X34, {"direction": "DESCENDING"}),
        ("sort_axis_0", X34, {"axis": 0}),
    ],
    grad=True,
)
def sort(tf, options, x):
    return [tf.sort(x, **options)]


@cases(
    [
        ("argsort_vector", {"x": floats(5)}, {}),
        ("argsort_descending", X34, {"direction": "DESCENDING"}),
        ("argsort_axis_0", X34, {"axis": 0, "stable": True}),
        ("argsort_ints", {"x": permutation(6)}, {}),
    ]
)
def argsort(tf, options, x):
    return tf.argsort(x, **options)


@cases(
    [
        (
            "searchsorted_left",
            {"s": array([[1, 3, 5], [2, 4, 6]]), "v": array([[0, 3], [6, 7]])},
            {},
        ),
        (
            "searchsorted_right",
            {"s": array([1, 3, 3, 5]), "v": array([3, 0, 9])},
            {"side": "right"},
        ),
        ("searchsorted_int64", {"s": array([0.5, 1.5]), "v": array([1.0])}, {"out_type": np.int64}),
    ]
)
def searchsorted(tf, options, s, v):
    return tf.searchsorted(s, v, **options)


@cases(
    [
        ("bitcast_same_size", {"x": floats(3)}, "int32"),
        ("bitcast_wider", {"x": ints(2, 2)}, "int64"),
        ("bitcast_narrower", {"x": ints(2)}, "uint8"),
        ("bitcast_complex", {"x": complexes(2)}, "float64"),
    ]
)
def bitcast(tf, dtype, x):
    return tf.bitcast(x, getattr(tf, dtype))


@case(inputs={"x": array([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0], np.float32)})
def histogram_fixed_width(tf, x):
    bounds = [0.0, 5.0]
    return [
        tf.histogram_fixed_width(x, bounds, nbins=5),
        tf.histogram_fixed_width_bins(x, bounds, nbins=5),
        tf.histogram_fixed_width(x, bounds, nbins=3, dtype=tf.int64),
    ]


@case(inputs={"x": strings(["abc", "", "xyz"])})
def fingerprint(tf, x):
    return tf.fingerprint(x)


@case()
def convert_to_tensor(tf):
    return [
        tf.convert_to_tensor(3),
        tf.convert_to_tensor([1.0, 2.0], dtype=tf.float64),
        tf.convert_to_tensor(np.float32(2)),
        tf.convert_to_tensor([True, False]),
        tf.convert_to_tensor("text"),
        tf.convert_to_tensor(2, preferred_dtype=tf.float32),
        tf.convert_to_tensor(2.5, preferred_dtype=tf.int32),
        tf.convert_to_tensor(tf.TensorShape([2, 3])),
        tf.convert_to_tensor(tf.TensorShape([]), dtype=tf.int64),
    ]


@case(raises=("ValueError",))
def convert_to_tensor_of_unknown_shape(tf):
    return tf.convert_to_tensor(tf.TensorShape([None, 2]))


@case(inputs={"x": floats(2)}, raises=("ValueError", "Tensor conversion requested dtype int32"))
def convert_to_tensor_of_another_dtype(tf, x):
    return tf.convert_to_tensor(x, dtype=tf.int32)


@case(raises=("ValueError", "None values not supported"))
def convert_none(tf):
    return tf.convert_to_tensor(None)


@case(inputs={"x": floats(2, 3)})
def constant_values_are_inferred(tf, x):
    known = tf.stack([tf.constant(2), tf.constant(3)]) * 2
    return [
        tf.get_static_value(tf.constant([1, 2])),
        tf.get_static_value(tf.shape(tf.zeros([4, 2]))),
        str(tf.get_static_value(x)),
        str(tf.zeros([tf.shape(x)[0], 5]).get_shape().ndims),
        known,
    ]


@case(
    inputs={"h": array([[0, 0], [1, 1]], np.int64), "t": array([[0, 0], [1, 0]], np.int64)},
    variants=["known"],
)
def edit_distance(tf, h, t):
    hypothesis = tf.SparseTensor(h, ["a", "b"], [2, 2])
    truth = tf.SparseTensor(t, ["a", "c"], [2, 2])
    return [
        tf.edit_distance(hypothesis, truth),
        tf.edit_distance(hypothesis, truth, normalize=False),
    ]
