"""Array ops that pick and place: slicing, gather, scatter, where, masks, partitions."""

import numpy as np
from parity_kit import (
    array,
    bools,
    case,
    cases,
    floats,
    ints,
    strings,
)

X34 = {"x": floats(3, 4)}
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


# --- slicing


@cases(
    [
        ("slice_plain", X34, [1, 0], [2, 3]),
        ("slice_to_the_end", X34, [1, 2], [-1, -1]),
        ("slice_empty", X34, [0, 0], [0, 2]),
        ("slice_vector", {"x": floats(5)}, [2], [2]),
        ("slice_int64", X34, np.array([0, 1], np.int64), np.array([2, 2], np.int64)),
    ],
    grad=True,
)
def slices(tf, begin, size, x):
    return tf.slice(x, begin, size)


@case(inputs={"x": strings(WORDS)})
def slice_strings(tf, x):
    return tf.slice(x, [0, 1], [2, 1])


@case(inputs={"x": floats(3, 4), "b": array([1, 1]), "s": array([1, 2])}, grad=["x"])
def slice_fed_begin_and_size(tf, x, b, s):
    return tf.slice(x, b, s)


@case(
    inputs=X34,
    variants=["known"],
    raises=("InvalidArgumentError", "Expected size[0] in [0, 1], but got 2"),
)
def slice_past_the_end_at_run_time(tf, x):
    return tf.slice(x, [2, 0], [2, 1])


INDEXING = {
    "int": lambda tf, x: x[1],
    "negative_int": lambda tf, x: x[-1],
    "two_ints": lambda tf, x: x[1, 2],
    "range": lambda tf, x: x[1:3],
    "open_ended": lambda tf, x: x[:2],
    "negative_range": lambda tf, x: x[-2:],
    "step": lambda tf, x: x[::2],
    "negative_step": lambda tf, x: x[::-1],
    "negative_step_range": lambda tf, x: x[2:0:-1, ::-2],
    "newaxis": lambda tf, x: x[:, tf.newaxis],
    "none": lambda tf, x: x[None, ..., None],
    "ellipsis": lambda tf, x: x[..., 0],
    "ellipsis_first": lambda tf, x: x[0, ...],
    "ellipsis_alone": lambda tf, x: x[...],
    "mixed": lambda tf, x: x[1, ..., ::2, tf.newaxis],
    "empty": lambda tf, x: x[2:1],
    "past_the_end": lambda tf, x: x[1:100],
    "columns": lambda tf, x: x[:, 1],
    "columns_kept": lambda tf, x: x[:, 1:2],
}


@cases([(f"index_{n}", {"x": floats(3, 4, 2)}, f) for n, f in INDEXING.items()], grad=True)
def indexing(tf, function, x):
    return function(tf, x)


@case(inputs={"x": floats(3, 4), "i": array(2)}, grad=["x"])
def index_by_tensor(tf, x, i):
    return [x[i], x[:, i], x[i - 1 : i + 1], x[0 : tf.constant(2)]]


@case(inputs={"x": strings(WORDS)})
def index_strings(tf, x):
    return [x[0], x[:, ::2], x[1, 1]]


@case(inputs={"x": ints(4)})
def iterate_over_a_tensor(tf, x):
    return [part for part in tf.unstack(x * 2)]


@case(inputs=X34, raises=("ValueError", "out of bounds"))
def index_out_of_bounds(tf, x):
    return x[3]


@case(inputs=X34, raises=("ValueError",))
def index_too_many(tf, x):
    return x[0, 0, 0]


@case(inputs=X34, variants=["unknown"], raises=("InvalidArgumentError", "out of bounds"))
def index_out_of_bounds_at_run_time(tf, x):
    return x[3]


@cases(
    [
        ("strided_slice_plain", X34, [0, 1], [3, 4], [2, 1], {}),
        ("strided_slice_no_strides", X34, [1, 1], [3, 3], None, {}),
        ("strided_slice_masks", X34, [1, 1], [3, 3], [1, 1], {"begin_mask": 1, "end_mask": 2}),
        ("strided_slice_shrink", X34, [1, 0], [2, 4], [1, 1], {"shrink_axis_mask": 1}),
        ("strided_slice_new_axis", X34, [0, 0], [3, 4], [1, 1], {"new_axis_mask": 1}),
        (
            "strided_slice_ellipsis",
            {"x": floats(2, 3, 4)},
            [0, 1],
            [0, 3],
            [1, 1],
            {"ellipsis_mask": 1},
        ),
        ("strided_slice_negative", X34, [-1, -1], [-3, -4], [-1, -2], {}),
    ],
    grad=True,
)
def strided_slice(tf, begin, end, strides, masks, x):
    return tf.strided_slice(x, begin, end, strides, **masks)


@case(inputs=X34, raises=("ValueError", "strides[0] must be non-zero"))
def strided_slice_zero_stride(tf, x):
    return tf.strided_slice(x, [0], [1], [0])


@case(inputs=X34, grad=True, second_order=True)
def index_second_order(tf, x):
    return tf.square(x[1:, ::2])


# --- gather and scatter


@cases(
    [
        ("gather_rows", X34, [2, 0, 2], {}),
        ("gather_scalar_index", X34, 1, {}),
        ("gather_matrix_of_indices", X34, [[0, 1], [2, 2]], {}),
        ("gather_axis_1", X34, [3, 0], {"axis": 1}),
        ("gather_negative_axis", X234, [1, 1], {"axis": -1}),
        ("gather_middle_axis_2d", X234, [[0, 2], [1, 1]], {"axis": 1}),
        ("gather_vector", {"x": floats(5)}, [4, 4, 0], {}),
        ("gather_no_indices", X34, np.zeros([0], np.int32), {}),
        ("gather_int64", X34, np.array([1, 2], np.int64), {}),
        (
            "gather_batch_dims",
            {"x": floats(2, 3, 2)},
            [[0, 2], [1, 1]],
            {"axis": 1, "batch_dims": 1},
        ),
        (
            "gather_batch_dims_m1",
            {"x": floats(2, 3)},
            [[0, 2], [1, 1]],
            {"axis": 1, "batch_dims": -1},
        ),
    ],
    grad=True,
)
def gather(tf, indices, options, x):
    return tf.gather(x, indices, **options)


@case(inputs={"x": strings(WORDS), "i": array([1, 0, 1])})
def gather_strings(tf, x, i):
    return tf.gather(x, i)


@case(inputs={"x": floats(4, 2), "i": array([[1, 1], [3, 0]], np.int64)}, grad=["x"])
def gather_fed_indices(tf, x, i):
    return tf.gather(x, i)


@case(
    inputs={"x": floats(3, 2), "i": array([3])}, raises=("InvalidArgumentError", "is not in [0, 3)")
)
def gather_out_of_range(tf, x, i):
    return tf.gather(x, i)


@case(inputs={"x": floats(2, 3), "i": array([[0, 2], [1, 1]])}, grad=["x"])
def batch_gather(tf, x, i):
    return tf.batch_gather(x, i)


@cases(
    [
        ("gather_nd_elements", X34, [[0, 1], [2, 3]], {}),
        ("gather_nd_rows", X34, [[2], [0], [2]], {}),
        ("gather_nd_blocks", X234, [[[0, 1]], [[1, 2]]], {}),
        ("gather_nd_batch_dims", X234, [[[1], [0]], [[2], [2]]], {"batch_dims": 1}),
    ],
    grad=True,
)
def gather_nd(tf, indices, options, x):
    return tf.gather_nd(x, indices, **options)


@case(inputs={"x": strings(WORDS)})
def gather_nd_strings(tf, x):
    return tf.gather_nd(x, [[1, 2], [0, 0]])


@case(
    inputs={"x": floats(3, 2), "i": array([[0, 2]])},
    raises=("InvalidArgumentError", "does not index into"),
)
def gather_nd_out_of_range(tf, x, i):
    return tf.gather_nd(x, i)


@cases(
    [
        ("scatter_nd_vector", {"x": floats(3)}, [[4], [1], [1]], [6]),
        ("scatter_nd_rows", {"x": floats(2, 3)}, [[0], [2]], [4, 3]),
        ("scatter_nd_elements", {"x": floats(2)}, [[0, 1], [2, 2]], [3, 3]),
    ],
    grad=True,
)
def scatter_nd(tf, indices, shape, x):
    return tf.scatter_nd(indices, x, shape)


@case(inputs={"x": ints(3), "s": array([5])})
def scatter_nd_fed_shape(tf, x, s):
    return tf.scatter_nd([[0], [3], [3]], x, s)


@case(
    inputs={"x": floats(1), "i": array([[7]])},
    raises=("InvalidArgumentError", "does not index into"),
)
def scatter_nd_out_of_range(tf, x, i):
    return tf.scatter_nd(i, x, [3])


@cases(
    [
        (
            f"tensor_scatter_{n}",
            {"x": floats(4, 2), "u": floats(3, 2)},
            f"tensor_scatter_{n}",
            [[0], [2], [3]],
        )
        for n in ("update", "add", "sub")
    ]
    + [
        (
            f"tensor_scatter_nd_{n}",
            {"x": floats(4), "u": floats(2)},
            f"tensor_scatter_nd_{n}",
            [[0], [3]],
        )
        for n in ("max", "min")
    ]
    + [
        (
            "tensor_scatter_add_repeats",
            {"x": floats(4), "u": floats(3)},
            "tensor_scatter_add",
            [[1], [1], [0]],
        )
    ],
    grad=True,
)
def tensor_scatter(tf, function, indices, x, u):
    return getattr(tf, function)(x, indices, u)


# --- where, masks, partitions


@cases(
    [
        ("where_same_shape", {"c": bools(2, 3), "x": floats(2, 3), "y": floats(2, 3)}, "where"),
        ("where_vector_of_rows", {"c": bools(3), "x": floats(3, 2), "y": floats(3, 2)}, "where"),
        ("where_scalar_condition", {"c": bools(), "x": floats(2), "y": floats(2)}, "where"),
        ("where_v2_broadcast", {"c": bools(3, 1), "x": floats(2), "y": floats()}, "where_v2"),
        ("where_v2_same", {"c": bools(3), "x": floats(3), "y": floats(3)}, "where_v2"),
    ],
    grad=True,
)
def where(tf, function, c, x, y):
    return getattr(tf, function)(c, x, y)


@cases(
    [
        ("where_indices_bool", {"c": bools(3, 4)}),
        ("where_indices_vector", {"c": bools(6)}),
        ("where_indices_float", {"c": array([[0.0, 1.5], [-1.0, 0.0]], np.float32)}),
        ("where_indices_int", {"c": array([0, 3, 0, 1])}),
        ("where_indices_none", {"c": array([False, False])}),
    ]
)
def where_indices(tf, c):
    return tf.where(c)


@case(inputs={"c": bools(3), "x": strings(["a", "b", "c"]), "y": strings(["x", "y", "z"])})
def where_strings(tf, c, x, y):
    return tf.where(c, x, y)


@case(inputs={"c": bools(2), "x": floats(2, 3)}, raises=("ValueError", "x and y must both be"))
def where_with_only_x(tf, c, x):
    return tf.where(c, x)


@case(inputs={"c": bools(2), "x": floats(3), "y": floats(3)}, raises=("ValueError",))
def where_mismatch(tf, c, x, y):
    return tf.where(c, x, y)


@cases(
    [
        ("boolean_mask_vector", {"x": floats(4)}, [True, False, True, True], {}),
        ("boolean_mask_rows", X34, [True, False, True], {}),
        ("boolean_mask_full", {"x": floats(2, 2)}, [[True, False], [False, True]], {}),
        ("boolean_mask_axis", X34, [False, True, True, False], {"axis": 1}),
        ("boolean_mask_none", X34, [False, False, False], {}),
    ],
    grad=True,
)
def boolean_mask(tf, mask, options, x):
    return tf.boolean_mask(x, mask, **options)


@case(inputs={"x": floats(4), "m": bools(4)}, grad=["x"], variants=["known", "partial"])
def boolean_mask_fed(tf, x, m):
    return tf.boolean_mask(x, m)


@case(inputs=X34, raises=("ValueError",))
def boolean_mask_of_scalar(tf, x):
    return tf.boolean_mask(x, True)


@cases(
    [
        ("sequence_mask_plain", {"n": array([1, 3, 2])}, {}),
        ("sequence_mask_maxlen", {"n": array([1, 3, 0])}, {"maxlen": 5}),
        ("sequence_mask_dtype", {"n": array([2, 0], np.int64)}, {"maxlen": 2, "dtype": np.float32}),
        ("sequence_mask_2d", {"n": array([[1, 2], [0, 3]])}, {}),
        ("sequence_mask_scalar", {"n": array(2)}, {"maxlen": 3}),
    ]
)
def sequence_mask(tf, options, n):
    return tf.sequence_mask(n, **options)


@cases(
    [
        ("one_hot_plain", {"i": array([0, 2, 1])}, 3, {}),
        ("one_hot_out_of_range", {"i": array([0, -1, 5])}, 3, {}),
        ("one_hot_values", {"i": array([0, 2])}, 3, {"on_value": 5.0, "off_value": -1.0}),
        ("one_hot_axis_0", {"i": array([0, 2])}, 3, {"axis": 0}),
        ("one_hot_2d_middle", {"i": array([[0, 2], [1, 1]])}, 3, {"axis": 1}),
        ("one_hot_int_dtype", {"i": array([0, 1], np.int64)}, 2, {"dtype": np.int32}),
        ("one_hot_bool", {"i": array([0, 1])}, 2, {"on_value": True, "off_value": False}),
        ("one_hot_scalar", {"i": array(1)}, 4, {}),
        ("one_hot_uint8", {"i": array([1, 0], np.uint8)}, 2, {}),
    ]
)
def one_hot(tf, depth, options, i):
    return tf.one_hot(i, depth, **options)


@case(
    inputs={"on": floats(), "off": floats()},
    grad=True,
    numeric="OneHot stops gradients in TensorFlow",
)
def one_hot_of_fed_values(tf, on, off):
    return tf.one_hot([0, 2], 3, on, off) + on


@case(inputs={"i": array([1, 0]), "d": array(3)})
def one_hot_fed_depth(tf, i, d):
    return tf.one_hot(i, d)


@case(raises=("TypeError",))
def one_hot_values_of_two_dtypes(tf):
    return tf.one_hot([0], 2, on_value=1.0, off_value=0)


@cases(
    [
        ("unique_ints", {"x": array([3, 1, 3, 2, 1])}, {}),
        ("unique_int64_index", {"x": array([3, 1, 3], np.int64)}, {"out_idx": np.int64}),
        ("unique_floats", {"x": array([0.5, 0.5, -1.0], np.float32)}, {}),
        ("unique_strings", {"x": strings(["b", "a", "b"])}, {}),
        ("unique_empty", {"x": array([], np.int32)}, {}),
    ]
)
def unique(tf, options, x):
    return [tf.unique(x, **options), tf.unique_with_counts(x, **options)]


@case(inputs={"x": array([1, 2, 3, 4, 5, 6]), "y": array([1, 3, 5])})
def setdiff1d(tf, x, y):
    return tf.setdiff1d(x, y)


@case(inputs={"x": strings(["a", "b", "c"]), "y": strings(["b"])})
def setdiff1d_strings(tf, x, y):
    return tf.setdiff1d(x, y, index_dtype=tf.int64)


@cases(
    [
        ("dynamic_partition_vector", {"x": floats(5)}, [0, 1, 1, 0, 2], 3),
        ("dynamic_partition_rows", {"x": floats(4, 2)}, [1, 0, 1, 1], 2),
        ("dynamic_partition_empty_part", {"x": floats(3)}, [2, 2, 0], 3),
        ("dynamic_partition_matrix", {"x": floats(2, 2)}, [[0, 1], [1, 0]], 2),
    ],
    grad=True,
)
def dynamic_partition(tf, partitions, count, x):
    return tf.dynamic_partition(x, partitions, count)


@case(inputs={"x": strings(["a", "b", "c"]), "p": array([1, 0, 1])})
def dynamic_partition_strings(tf, x, p):
    return tf.dynamic_partition(x, p, 2)


@case(
    inputs={"x": floats(2), "p": array([0, 3])}, raises=("InvalidArgumentError", "is not in [0, 2)")
)
def dynamic_partition_out_of_range(tf, x, p):
    return tf.dynamic_partition(x, p, 2)


@cases(
    [
        ("dynamic_stitch_rows", {"x": floats(2, 2), "y": floats(3, 2)}, [[1, 3], [0, 2, 4]]),
        ("dynamic_stitch_repeats", {"x": floats(2), "y": floats(2)}, [[0, 1], [1, 2]]),
        ("dynamic_stitch_scalar", {"x": floats(), "y": floats(2)}, [1, [0, 2]]),
    ],
    grad=True,
    numeric="a repeated index lets only the last value through, TF's gradient counts both",
)
def dynamic_stitch(tf, indices, x, y):
    return tf.dynamic_stitch([tf.constant(i) for i in indices], [x, y])


@case(inputs={"x": strings(["a", "b"]), "y": strings(["c"])})
def dynamic_stitch_strings(tf, x, y):
    return tf.dynamic_stitch([[2, 0], [1]], [x, y])
