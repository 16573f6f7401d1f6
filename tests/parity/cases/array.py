"""Array ops: making tensors, asking for shapes, reshaping, joining and splitting."""

import numpy as np
from parity_kit import (
    array,
    bools,
    case,
    cases,
    complexes,
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


# --- constants and fills


@cases([(f"constant_{d}", {}, d) for d in ALL_DTYPES])
def constant(tf, dtype):
    return tf.constant([[0, 1], [1, 3]] if dtype != "bool" else [[True, False]], getattr(tf, dtype))


@cases(
    [
        ("constant_inferred_int", {}, 7, {}),
        ("constant_inferred_float", {}, [1.5, 2.0], {}),
        ("constant_inferred_bool", {}, True, {}),
        ("constant_inferred_complex", {}, 1 + 2j, {}),
        ("constant_inferred_string", {}, ["a", "b\u00e9"], {}),
        ("constant_numpy_int64", {}, np.arange(3), {}),
        ("constant_numpy_float64", {}, np.linspace(0, 1, 3), {}),
        ("constant_broadcast_to_shape", {}, 4.0, {"shape": [2, 3]}),
        ("constant_reshaped", {}, [1, 2, 3, 4], {"shape": [2, 2]}),
        ("constant_short_list_repeats_last", {}, [1, 2], {"shape": [2, 3]}),
        ("constant_empty", {}, [], {}),
        ("constant_empty_int", {}, [], {"dtype": "int32"}),
        ("constant_empty_2d", {}, np.zeros((0, 3), np.float32), {}),
    ]
)
def constant_inferred(tf, value, options):
    return tf.constant(value, **options)


@case(raises=("TypeError", "Expected Tensor's shape: (2, 3)"))
def constant_with_a_shape_that_does_not_hold_the_values(tf):
    return tf.constant([1, 2, 3], shape=[2, 3], verify_shape=True)


@case(raises=("TypeError",))
def constant_of_mixed_types(tf):
    return tf.constant([1, "a"])


@case(raises=("ValueError",))
def constant_of_ragged_lists(tf):
    return tf.constant([[1, 2], [3]])


@cases([(f"zeros_ones_{d}", {}, d) for d in ["float32", "float64", "int32", "int64", "bool"]])
def zeros_and_ones(tf, dtype):
    return [
        tf.zeros([2, 3], getattr(tf, dtype)),
        tf.ones([2], getattr(tf, dtype)),
        tf.ones([], dtype),
    ]


@case()
def zeros_default_dtype_scalar_and_empty(tf):
    return [tf.zeros([]), tf.zeros([0, 2]), tf.zeros((3,)), tf.zeros([1], dtype=tf.string)]


@case(inputs={"s": array([2, 3], np.int32)})
def zeros_of_fed_shape(tf, s):
    return [tf.zeros(s), tf.ones(s, tf.int64), tf.fill(s, 2.5)]


@case(inputs=X34)
def zeros_and_ones_like(tf, x):
    return [
        tf.zeros_like(x),
        tf.ones_like(x),
        tf.zeros_like(x, dtype=tf.int32),
        tf.ones_like(x, tf.bool),
    ]


@case(inputs={"x": strings(WORDS)})
def zeros_like_of_strings(tf, x):
    return tf.zeros_like(x)


@case(inputs=X34)
def zeros_like_without_optimizing(tf, x):
    return [tf.zeros_like(x, optimize=False), tf.ones_like(x, optimize=False)]


@case(inputs={"v": floats()}, grad=True)
def fill_gradient(tf, v):
    return tf.fill([2, 3], v)


@cases(
    [
        ("fill_string", {}, [2], "hi"),
        ("fill_bool", {}, [2, 1], True),
        ("fill_empty", {}, [0, 2], 1.0),
        ("fill_scalar", {}, [], 3),
    ]
)
def fill(tf, dims, value):
    return tf.fill(dims, value)


@case(raises=("ValueError",))
def fill_with_negative_dimension(tf):
    return tf.fill([-2], 1.0)


@case(inputs={"x": floats(2, 3)}, grad=True)
def placeholder_with_default_passes_the_feed(tf, x):
    return tf.placeholder_with_default(x, [2, None])


@case()
def placeholder_with_default_unfed(tf):
    return tf.placeholder_with_default([[1.0, 2.0]], [None, 2])


@case(raises=("InvalidArgumentError", "must feed"))
def placeholder_unfed(tf):
    return tf.placeholder(tf.float32, [2], name="forgotten")


# --- shape, size, rank


@cases(
    [
        ("shape_matrix", X34),
        ("shape_scalar", {"x": floats()}),
        ("shape_empty", {"x": floats(0, 3)}),
        ("shape_strings", {"x": strings(WORDS)}),
        ("shape_partial_middle", {"x": floats(2, 3, 4).with_partial(2, None, 4)}),
    ]
)
def shapes(tf, x):
    return [
        tf.shape(x),
        tf.shape(x, out_type=tf.int64),
        tf.size(x),
        tf.size(x, out_type=tf.int64),
        tf.rank(x),
    ]


@case(inputs={"x": floats(2, 3), "y": floats(4)})
def shape_n(tf, x, y):
    return tf.shape_n([x, y])


@case(inputs=X34)
def shape_flows_into_static_shape(tf, x):
    return [
        tf.zeros(tf.shape(x)),
        tf.zeros(tf.stack([tf.shape(x)[0], 7])),
        tf.zeros([tf.shape(x)[1], 2]),
        tf.reshape(x, tf.concat([[1], tf.shape(x)], 0)),
        tf.zeros(tf.shape(x)[1:]),
        tf.fill(tf.shape(x)[:1], 1.0),
    ]


@case(inputs={"x": ints(2, 3), "y": ints(3)})
def broadcast_dynamic_shape(tf, x, y):
    return tf.broadcast_dynamic_shape(tf.shape(x), tf.shape(y))


@case()
def broadcast_static_shape(tf):
    result = tf.broadcast_static_shape(tf.TensorShape([2, 1, None]), tf.TensorShape([3, 1]))
    return [str(result.as_list())]


@case(raises=("ValueError",))
def broadcast_static_shape_of_incompatible(tf):
    return tf.broadcast_static_shape(tf.TensorShape([2]), tf.TensorShape([3]))


@cases(
    [
        ("broadcast_to_matrix", {"x": floats(3)}, [2, 3]),
        ("broadcast_to_column", {"x": floats(2, 1)}, [2, 3]),
        ("broadcast_to_scalar", {"x": floats()}, [2, 2]),
        ("broadcast_to_more_ranks", {"x": floats(2, 1, 3)}, [4, 2, 2, 3]),
        ("broadcast_to_same", {"x": floats(2, 3)}, [2, 3]),
        ("broadcast_to_empty", {"x": floats(1, 3)}, [0, 3]),
    ],
    grad=True,
)
def broadcast_to(tf, shape, x):
    return tf.broadcast_to(x, shape)


@case(inputs={"x": strings(["a"])})
def broadcast_to_strings(tf, x):
    return tf.broadcast_to(x, [2, 3])


@case(inputs={"x": floats(2, 3)}, raises=("ValueError",))
def broadcast_to_incompatible(tf, x):
    return tf.broadcast_to(x, [2, 2])


# --- reshape, squeeze, expand_dims, transpose


@cases(
    [
        ("reshape_flat", X34, [-1]),
        ("reshape_infer", X34, [2, -1]),
        ("reshape_to_3d", X34, [3, 2, 2]),
        ("reshape_infer_first", {"x": floats(2, 3, 4)}, [-1, 4]),
        ("reshape_empty", {"x": floats(0, 4)}, [0, 2, 2]),
        ("reshape_to_scalar", {"x": floats(1, 1)}, []),
        ("reshape_scalar_to_vector", {"x": floats()}, [1]),
        ("reshape_int64_target", X34, np.array([4, 3], np.int64)),
        ("reshape_float64", {"x": floats(4, dtype=np.float64)}, [2, 2]),
        ("reshape_complex", {"x": complexes(4)}, [2, -1]),
    ],
    grad=True,
)
def reshape(tf, target, x):
    return tf.reshape(x, target)


@case(inputs={"x": strings(WORDS)})
def reshape_strings(tf, x):
    return tf.reshape(x, [3, 2])


@case(inputs={"x": floats(3, 4), "s": array([6, 2])}, grad=["x"])
def reshape_to_fed_shape(tf, x, s):
    return tf.reshape(x, s)


@case(inputs=X34, raises=("ValueError", "Cannot reshape a tensor with 12 elements"))
def reshape_wrong_size(tf, x):
    return tf.reshape(x, [5])


@case(inputs=X34, raises=("InvalidArgumentError", "Only one input size may be -1"))
def reshape_two_unknowns(tf, x):
    return tf.reshape(x, [-1, -1])


@case(inputs=X34, variants=["unknown"], raises=("InvalidArgumentError", "12 values"))
def reshape_wrong_size_at_run_time(tf, x):
    return tf.reshape(x, [5])


@cases(
    [
        ("squeeze_all", {"x": floats(1, 3, 1)}, {}),
        ("squeeze_axis", {"x": floats(1, 3, 1)}, {"axis": [0]}),
        ("squeeze_axis_scalar", {"x": floats(1, 3, 1)}, {"axis": 2}),
        ("squeeze_negative", {"x": floats(1, 3, 1)}, {"axis": [-1]}),
        ("squeeze_old_name", {"x": floats(1, 3, 1)}, {"squeeze_dims": [0, 2]}),
        ("squeeze_nothing", {"x": floats(2, 3)}, {}),
        ("squeeze_to_scalar", {"x": floats(1, 1)}, {}),
    ],
    grad=True,
)
def squeeze(tf, options, x):
    return tf.squeeze(x, **options)


@case(inputs={"x": floats(2, 3)}, raises=("ValueError", "Can not squeeze dim[0]"))
def squeeze_of_a_long_axis(tf, x):
    return tf.squeeze(x, axis=[0])


@cases(
    [(f"expand_dims_{str(a).replace('-', 'm')}", X34, {"axis": a}) for a in (0, 1, 2, -1, -3)]
    + [
        ("expand_dims_scalar", {"x": floats()}, {"axis": 0}),
        ("expand_dims_old_name", X34, {"dim": 1}),
    ],
    grad=True,
)
def expand_dims(tf, options, x):
    return tf.expand_dims(x, **options)


@case(inputs=X34, raises=("ValueError",))
def expand_dims_out_of_range(tf, x):
    return tf.expand_dims(x, 4)


@cases(
    [
        ("transpose_reversed", X234, {}),
        ("transpose_perm", X234, {"perm": [1, 2, 0]}),
        ("transpose_matrix", X34, {}),
        ("transpose_swap_last", X234, {"perm": [0, 2, 1]}),
        ("transpose_vector", {"x": floats(3)}, {}),
        ("transpose_scalar", {"x": floats()}, {}),
        ("transpose_empty", {"x": floats(0, 2)}, {}),
        ("transpose_conjugate", {"x": complexes(2, 3)}, {"conjugate": True}),
        ("transpose_complex_plain", {"x": complexes(2, 3)}, {}),
        ("transpose_4d", {"x": floats(1, 2, 3, 2)}, {"perm": [0, 3, 1, 2]}),
    ],
    grad=True,
)
def transpose(tf, options, x):
    return tf.transpose(x, **options)


@case(inputs={"x": strings(WORDS)})
def transpose_strings(tf, x):
    return tf.transpose(x)


@case(inputs={"x": floats(2, 3), "p": array([1, 0])}, grad=["x"])
def transpose_fed_permutation(tf, x, p):
    return tf.transpose(x, p)


@case(inputs=X34, raises=("InvalidArgumentError", "is missing from"))
def transpose_bad_permutation(tf, x):
    return tf.transpose(x, [0, 0])


@case(inputs=X234, grad=True)
def matrix_transpose(tf, x):
    return tf.matrix_transpose(x)


# --- joining and splitting

PAIR = {"x": floats(2, 3), "y": floats(2, 3)}


@cases(
    [
        ("concat_rows", PAIR, 0),
        ("concat_columns", {"x": floats(2, 3), "y": floats(2, 1)}, 1),
        ("concat_negative_axis", {"x": floats(2, 1, 2), "y": floats(2, 1, 3)}, -1),
        ("concat_with_empty", {"x": floats(0, 3), "y": floats(2, 3)}, 0),
        ("concat_float64", {"x": floats(2, dtype=np.float64), "y": floats(3, dtype=np.float64)}, 0),
        ("concat_complex", {"x": complexes(2), "y": complexes(1)}, 0),
    ],
    grad=True,
)
def concat(tf, axis, x, y):
    return tf.concat([x, y], axis)


@cases(
    [
        ("concat_ints", {"x": ints(2, 2), "y": ints(1, 2)}, 0),
        ("concat_bools", {"x": bools(2), "y": bools(2)}, 0),
        ("concat_strings", {"x": strings(["a"]), "y": strings(["b", ""])}, 0),
    ]
)
def concat_other(tf, axis, x, y):
    return tf.concat([x, y], axis)


@case(inputs=X34, grad=True)
def concat_of_one(tf, x):
    return tf.concat([x], 1)


@case(inputs={"x": floats(2, 3), "a": array(1)}, grad=["x"])
def concat_fed_axis(tf, x, a):
    return tf.concat([x, x * 2.0], a)


@case(inputs={"x": floats(2, 3), "y": floats(2, 4)}, raises=("ValueError", "Dimension"))
def concat_mismatch(tf, x, y):
    return tf.concat([x, y], 0)


@case(inputs={"x": floats(2), "y": ints(2)}, raises=("TypeError",))
def concat_of_two_dtypes(tf, x, y):
    return tf.concat([x, y], 0)


@cases(
    [(f"stack_axis_{str(a).replace('-', 'm')}", PAIR, a) for a in (0, 1, 2, -1, -3)]
    + [("stack_scalars", {"x": floats(), "y": floats()}, 0)],
    grad=True,
)
def stack(tf, axis, x, y):
    return tf.stack([x, y], axis=axis)


@case(inputs={"x": strings(["a"]), "y": strings(["b"])})
def stack_strings(tf, x, y):
    return tf.stack([x, y])


@case(inputs={"x": ints()})
def stack_autopacks_python_lists(tf, x):
    return [tf.convert_to_tensor([x, 3, x]), tf.convert_to_tensor([[x, 1], [2, x]])]


@case(inputs={"x": floats(2, 3), "y": floats(3, 2)}, raises=("ValueError",))
def stack_mismatch(tf, x, y):
    return tf.stack([x, y])


@case(inputs={"x": floats(1, 3), "y": floats(1, 3)}, variants=["known"])
def parallel_stack(tf, x, y):
    return tf.parallel_stack([x, y])


@cases(
    [
        ("unstack_rows", X34, {}),
        ("unstack_columns", X34, {"axis": 1}),
        ("unstack_negative", X234, {"axis": -2}),
        ("unstack_num", X34, {"num": 3}),
        ("unstack_vector", {"x": floats(3)}, {}),
    ],
    grad=True,
)
def unstack(tf, options, x):
    return tf.unstack(x, **options)


@case(inputs=X34, variants=["unknown"], raises=("ValueError", "Cannot infer"))
def unstack_of_unknown_shape(tf, x):
    return tf.unstack(x)


@case(inputs=X34, raises=("ValueError",))
def unstack_axis_out_of_range(tf, x):
    return tf.unstack(x, axis=2)


@cases(
    [
        ("split_even", X34, 2, {"axis": 1}),
        ("split_even_rows", X34, 3, {}),
        ("split_negative_axis", X34, 4, {"axis": -1}),
        ("split_sizes", X34, [1, 3], {"axis": 1}),
        ("split_sizes_with_unknown", X34, [1, -1, 2], {"axis": 1}),
        ("split_sizes_with_zero", X34, [0, 3], {}),
        ("split_one", X34, 1, {}),
    ],
    grad=True,
)
def split(tf, sizes, options, x):
    return tf.split(x, sizes, **options)


@case(inputs={"x": strings(WORDS)})
def split_strings(tf, x):
    return tf.split(x, 3, axis=1)


@case(inputs={"x": floats(5), "s": array([2, 3])}, grad=["x"], variants=["known"])
def split_fed_sizes(tf, x, s):
    return tf.split(x, s, num=2)


@case(inputs=X34, raises=("ValueError",))
def split_uneven(tf, x):
    return tf.split(x, 3, axis=1)


@case(inputs=X34, raises=("ValueError",))
def split_sizes_do_not_add_up(tf, x):
    return tf.split(x, [1, 1], axis=1)
