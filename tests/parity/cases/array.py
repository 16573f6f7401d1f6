"""Array ops: making, reshaping, joining, cutting and rearranging tensors."""

import numpy as np
from parity_kit import (
    array,
    bools,
    case,
    cases,
    complexes,
    floats,
    ints,
    permutation,
    strings,
)

X34 = {"x": floats(3, 4)}
X234 = {"x": floats(2, 3, 4)}
WORDS = [["a", "bb", ""], ["dddd", "e", "ff"]]
ALL_DTYPES = [
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64", "bool", "complex64", "complex128",
]  # fmt: skip


# --- constants and fills ----------------------------------------------------------------------


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
    return [tf.zeros([2, 3], getattr(tf, dtype)), tf.ones([2], getattr(tf, dtype)), tf.ones([], dtype)]


@case()
def zeros_default_dtype_scalar_and_empty(tf):
    return [tf.zeros([]), tf.zeros([0, 2]), tf.zeros((3,)), tf.zeros([1], dtype=tf.string)]


@case(inputs={"s": array([2, 3], np.int32)})
def zeros_of_fed_shape(tf, s):
    return [tf.zeros(s), tf.ones(s, tf.int64), tf.fill(s, 2.5)]


@case(inputs=X34)
def zeros_and_ones_like(tf, x):
    return [tf.zeros_like(x), tf.ones_like(x), tf.zeros_like(x, dtype=tf.int32), tf.ones_like(x, tf.bool)]


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


# --- shape, size, rank ------------------------------------------------------------------------


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


# --- reshape, squeeze, expand_dims, transpose ---------------------------------------------------


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


# --- joining and splitting ----------------------------------------------------------------------

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


# --- slicing ------------------------------------------------------------------------------------


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


@case(inputs=X34, variants=["known"], raises=("InvalidArgumentError", "Expected size[0] in [0, 1], but got 2"))
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
        ("strided_slice_ellipsis", {"x": floats(2, 3, 4)}, [0, 1], [0, 3], [1, 1], {"ellipsis_mask": 1}),
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


# --- tile, pad, reverse, roll -------------------------------------------------------------------


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


# --- gather and scatter ---------------------------------------------------------------------------


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
        ("gather_batch_dims", {"x": floats(2, 3, 2)}, [[0, 2], [1, 1]], {"axis": 1, "batch_dims": 1}),
        ("gather_batch_dims_m1", {"x": floats(2, 3)}, [[0, 2], [1, 1]], {"axis": 1, "batch_dims": -1}),
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


@case(inputs={"x": floats(3, 2), "i": array([3])}, raises=("InvalidArgumentError", "is not in [0, 3)"))
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


@case(inputs={"x": floats(3, 2), "i": array([[0, 2]])}, raises=("InvalidArgumentError", "does not index into"))
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


@case(inputs={"x": floats(1), "i": array([[7]])}, raises=("InvalidArgumentError", "does not index into"))
def scatter_nd_out_of_range(tf, x, i):
    return tf.scatter_nd(i, x, [3])


@cases(
    [
        (f"tensor_scatter_{n}", {"x": floats(4, 2), "u": floats(3, 2)}, f"tensor_scatter_{n}", [[0], [2], [3]])
        for n in ("update", "add", "sub")
    ]
    + [
        (f"tensor_scatter_nd_{n}", {"x": floats(4), "u": floats(2)}, f"tensor_scatter_nd_{n}", [[0], [3]])
        for n in ("max", "min")
    ]
    + [("tensor_scatter_add_repeats", {"x": floats(4), "u": floats(3)}, "tensor_scatter_add", [[1], [1], [0]])],
    grad=True,
)
def tensor_scatter(tf, function, indices, x, u):
    return getattr(tf, function)(x, indices, u)


# --- where, masks, partitions --------------------------------------------------------------------


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


@case(inputs={"on": floats(), "off": floats()}, grad=True, numeric="OneHot stops gradients in TensorFlow")
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


@case(inputs={"x": floats(2), "p": array([0, 3])}, raises=("InvalidArgumentError", "is not in [0, 2)"))
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


# --- identity, diagonal, bands --------------------------------------------------------------------


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
        ("matrix_diag_k_padding", {"x": floats(2)}, {"k": -1, "num_rows": 3, "num_cols": 4, "padding_value": 9.0}),
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
        ("matrix_diag_part_band_align", {"x": floats(3, 4)}, {"k": (-1, 1), "align": "LEFT_RIGHT", "padding_value": 5.0}),
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
        for n, lower, upper in [("lower", -1, 0), ("upper", 0, -1), ("diagonal", 0, 0), ("band", 1, 1), ("all", -1, -1)]
    ]
    + [("matrix_band_part_batch", {"x": floats(2, 3, 3)}, 1, 0)],
    grad=True,
)
def matrix_band_part(tf, lower, upper, x):
    return tf.matrix_band_part(x, lower, upper)


# --- space and batch, depth ------------------------------------------------------------------------


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
        ("extract_image_patches_valid", {"x": floats(1, 3, 4, 2)}, [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID"),
        ("extract_image_patches_same", {"x": floats(1, 4, 4, 1)}, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], "SAME"),
        ("extract_image_patches_rates", {"x": floats(1, 4, 4, 1)}, [1, 2, 2, 1], [1, 1, 1, 1], [1, 2, 2, 1], "VALID"),
    ],
    grad=True,
)
def extract_image_patches(tf, sizes, strides, rates, padding, x):
    return tf.extract_image_patches(x, sizes, strides, rates, padding)


# --- orderings, indices, odds and ends ----------------------------------------------------------------


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
        ("searchsorted_left", {"s": array([[1, 3, 5], [2, 4, 6]]), "v": array([[0, 3], [6, 7]])}, {}),
        ("searchsorted_right", {"s": array([1, 3, 3, 5]), "v": array([3, 0, 9])}, {"side": "right"}),
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
        tf.get_static_value(tf.constant([1, 2]) ),
        tf.get_static_value(tf.shape(tf.zeros([4, 2]))),
        str(tf.get_static_value(x)),
        str(tf.zeros([tf.shape(x)[0], 5]).get_shape().ndims),
        known,
    ]


@case(inputs={"h": array([[0, 0], [1, 1]], np.int64), "t": array([[0, 0], [1, 0]], np.int64)}, variants=["known"])
def edit_distance(tf, h, t):
    hypothesis = tf.SparseTensor(h, ["a", "b"], [2, 2])
    truth = tf.SparseTensor(t, ["a", "c"], [2, 2])
    return [tf.edit_distance(hypothesis, truth), tf.edit_distance(hypothesis, truth, normalize=False)]
