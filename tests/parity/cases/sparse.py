"""SparseTensor ops."""

import numpy as np
from parity_kit import array, case, cases, floats, scenario

INDICES = [[0, 1], [0, 3], [2, 0]]
SHAPE = [3, 4]
V = {"v": floats(3)}
VX = {"v": floats(3), "x": floats(4, 2)}
KNOWN = {"variants": ["known", "partial"]}


def _sparse(tf, v, indices=INDICES, shape=SHAPE):
    return tf.SparseTensor(tf.constant(indices, tf.int64), v, tf.constant(shape, tf.int64))


@case(inputs=V)
def sparse_tensor_itself(tf, v):
    s = _sparse(tf, v)
    return [s, s.get_shape().as_list(), s.dtype.name, tf.shape(s), tf.identity(s)]


@cases(
    [
        ("to_dense", V, {}),
        ("to_dense_default", V, {"default_value": -1.0}),
    ],
    grad=True,
)
def sparse_tensor_to_dense(tf, options, v):
    return tf.sparse_tensor_to_dense(_sparse(tf, v), **options)


@case(inputs={"v": array(["a", "b", "c"], object)})
def sparse_tensor_to_dense_of_strings(tf, v):
    return tf.sparse_tensor_to_dense(_sparse(tf, v), default_value="?")


@case(inputs=V, raises=("InvalidArgumentError", "out of order"))
def sparse_tensor_to_dense_out_of_order(tf, v):
    return tf.sparse_tensor_to_dense(_sparse(tf, v, [[2, 0], [0, 1], [0, 3]]))


@case(inputs=V, raises=("InvalidArgumentError", "out of bounds"))
def sparse_tensor_to_dense_out_of_bounds(tf, v):
    return tf.sparse_tensor_to_dense(_sparse(tf, v, [[0, 1], [0, 3], [9, 0]]))


@cases(
    [
        ("sparse_to_dense_matrix", V, INDICES, SHAPE, {"default_value": 9.0}),
    ],
    grad=True,
)
def sparse_to_dense(tf, indices, shape, options, v):
    return tf.sparse_to_dense(indices, shape, v, **options)


@case(inputs=V)
def sparse_to_dense_of_a_vector_of_indices(tf, v):
    # TensorFlow's gradient takes the vector for one index.
    return [
        tf.sparse_to_dense([1, 3, 4], [6], v),
        tf.sparse_to_dense([4, 0, 2], [6], v, validate_indices=False),
    ]


@case(inputs={"v": floats()})
def sparse_to_dense_scalar_value(tf, v):
    return tf.sparse_to_dense([0, 2], [4], v)


@case(inputs=V)
def sparse_reorder(tf, v):
    return tf.sparse_reorder(_sparse(tf, v, [[2, 0], [0, 3], [0, 1]]))


@case(inputs=V, grad=True, **KNOWN)
def sparse_reorder_gradient(tf, v):
    return tf.sparse_reorder(_sparse(tf, v, [[2, 0], [0, 3], [0, 1]])).values


@cases([("reshape_known", V, [2, 6]), ("reshape_inferred", V, [-1, 3])])
def sparse_reshape(tf, shape, v):
    return tf.sparse_reshape(_sparse(tf, v), shape)


@case(inputs=V)
def sparse_transpose(tf, v):
    return [tf.sparse_transpose(_sparse(tf, v)), tf.sparse_transpose(_sparse(tf, v), [1, 0])]


@case(inputs=V)
def sparse_slice(tf, v):
    return tf.sparse_slice(_sparse(tf, v), [0, 1], [2, 3])


@case(inputs=V)
def sparse_split(tf, v):
    return tf.sparse_split(sp_input=_sparse(tf, v), num_split=2, axis=1)


@cases([("concat_rows", V, 0), ("concat_columns", V, 1), ("concat_negative", V, -1)])
def sparse_concat(tf, axis, v):
    return tf.sparse_concat(axis, [_sparse(tf, v), _sparse(tf, v * 2.0, [[1, 1], [2, 2], [2, 3]])])


@case(inputs=V)
def sparse_concat_expanding(tf, v):
    return tf.sparse_concat(
        0, [_sparse(tf, v), _sparse(tf, v, shape=[3, 6])], expand_nonconcat_dim=True
    )


@case(inputs=V)
def sparse_retain(tf, v):
    return tf.sparse_retain(_sparse(tf, v), [True, False, True])


@case(inputs=V)
def sparse_mask_of_slices(tf, v):
    slices = tf.IndexedSlices(
        tf.reshape(v, [3, 1]), tf.constant([12, 26, 37]), tf.constant([50, 1])
    )
    return tf.sparse_mask(slices, [12, 37])


@case(inputs=V)
def sparse_fill_empty_rows(tf, v):
    return tf.sparse_fill_empty_rows(_sparse(tf, v), 7.0)


@case(inputs=V, grad=True, **KNOWN)
def sparse_fill_empty_rows_gradient(tf, v):
    return tf.sparse_fill_empty_rows(_sparse(tf, v), tf.constant(7.0, v.dtype))[0].values


@case(inputs=V)
def sparse_reset_shape(tf, v):
    return [tf.sparse_reset_shape(_sparse(tf, v)), tf.sparse_reset_shape(_sparse(tf, v), [5, 6])]


@case(inputs={"i": array([1, 0, 2], np.int64)})
def sparse_to_indicator(tf, i):
    return tf.sparse_to_indicator(_sparse(tf, i), 4)


@case(inputs={"i": array([1, 0, 2], np.int64), "v": floats(3)})
def sparse_merge(tf, i, v):
    return tf.sparse_merge(_sparse(tf, i), _sparse(tf, v), 5)


@cases(
    [
        ("reduce_sum_all", V, {}),
        ("reduce_sum_axis", V, {"axis": 1}),
        ("reduce_sum_keepdims", V, {"axis": 0, "keepdims": True}),
        ("reduce_sum_old_names", V, {"reduction_axes": [0], "keep_dims": True}),
    ],
    grad=True,
    **KNOWN,
)
def sparse_reduce_sum(tf, options, v):
    return tf.sparse_reduce_sum(_sparse(tf, v), **options)


@cases([("reduce_max_all", V, {}), ("reduce_max_axis", V, {"axis": 1})])
def sparse_reduce_max(tf, options, v):
    return tf.sparse_reduce_max(_sparse(tf, v), **options)


@case(inputs=V)
def sparse_reduce_sparse(tf, v):
    return [
        tf.sparse_reduce_sum_sparse(_sparse(tf, v), 1),
        tf.sparse_reduce_max_sparse(_sparse(tf, v), 0),
    ]


@cases(
    [
        ("add_sparse", {"v": floats(3), "w": floats(3)}, {}),
        ("add_sparse_threshold", {"v": floats(3), "w": floats(3)}, {"thresh": 1.0}),
    ]
)
def sparse_add(tf, options, v, w):
    return tf.sparse_add(_sparse(tf, v), _sparse(tf, w, [[0, 1], [1, 1], [2, 0]]), **options)


@case(inputs={"v": floats(3), "w": floats(3)}, grad=True, **KNOWN)
def sparse_add_gradient(tf, v, w):
    return tf.sparse_add(_sparse(tf, v), _sparse(tf, w, [[0, 1], [1, 1], [2, 0]])).values


@case(inputs={"v": floats(3), "x": floats(3, 4)}, grad=True, **KNOWN)
def sparse_add_to_dense(tf, v, x):
    return [tf.sparse_add(_sparse(tf, v), x), tf.sparse_add(x, _sparse(tf, v))]


@cases(
    [
        ("matmul_plain", VX, {}, INDICES, SHAPE),
        (
            "matmul_adjoint_a",
            {"v": floats(3), "x": floats(3, 2)},
            {"adjoint_a": True},
            INDICES,
            SHAPE,
        ),
        (
            "matmul_adjoint_b",
            {"v": floats(3), "x": floats(2, 4)},
            {"adjoint_b": True},
            INDICES,
            SHAPE,
        ),
    ],
    grad=True,
    **KNOWN,
)
def sparse_tensor_dense_matmul(tf, options, indices, shape, v, x):
    return tf.sparse_tensor_dense_matmul(_sparse(tf, v, indices, shape), x, **options)


@case(inputs={"v": floats(3), "x": floats(3, 2)}, raises=("ValueError",))
def sparse_tensor_dense_matmul_mismatch(tf, v, x):
    return tf.sparse_tensor_dense_matmul(_sparse(tf, v), x)


@case(inputs=V, grad=True, **KNOWN)
def sparse_softmax(tf, v):
    return tf.sparse_softmax(_sparse(tf, v)).values


@case(inputs={"v": floats(3), "w": floats(3)})
def sparse_maximum_and_minimum(tf, v, w):
    a, b = _sparse(tf, v), _sparse(tf, w, [[0, 1], [1, 1], [2, 0]])
    return [tf.sparse_maximum(a, b), tf.sparse_minimum(a, b)]


@case(inputs={"v": floats(3), "d": floats(3, 4)}, grad=True, **KNOWN)
def sparse_times_dense(tf, v, d):
    s = _sparse(tf, v)
    return [(s * d).values, (s / (tf.abs(d) + 1.0)).values]


@case(inputs={"x": array([[0, 5, 0], [7, 0, 0]])})
def sparse_from_dense(tf, x):
    return tf.sparse.from_dense(x)


@case(inputs=V, **KNOWN)
def sparse_elementwise(tf, v):
    s = _sparse(tf, v)
    return [
        tf.abs(s),
        tf.square(s),
        tf.cast(s, tf.int32),
        tf.negative(s),
        tf.sign(s),
        tf.tanh(s),
        tf.sqrt(tf.square(s)),
    ]


@case(inputs=V, **KNOWN)
def sparse_expand_dims(tf, v):
    return [tf.sparse.expand_dims(_sparse(tf, v), 0), tf.sparse.expand_dims(_sparse(tf, v), -1)]


@case()
def sparse_eye(tf):
    return [tf.sparse.eye(2), tf.sparse.eye(2, 3, dtype=tf.int32)]


@case(inputs=V)
def serialize_and_deserialize(tf, v):
    many = tf.serialize_many_sparse(_sparse(tf, v))
    return [
        tf.deserialize_many_sparse(many, tf.float32, rank=2),
        tf.shape(many),
        tf.shape(tf.serialize_sparse(_sparse(tf, v))),
    ]


@case()
def sparse_cross_hashed(tf):
    a = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], tf.constant(["a", "b", "c"]), [2, 2])
    b = tf.SparseTensor([[0, 0], [1, 0]], tf.constant(["d", "e"]), [2, 1])
    return [
        tf.sparse.cross([a, b]),
        tf.sparse.cross_hashed([a, b], num_buckets=100, hash_key=956888297470),
    ]


@scenario
def sparse_placeholder(run, tf):
    p = tf.sparse_placeholder(tf.float32, shape=[3, 4])
    free = tf.sparse_placeholder(tf.int32)
    run.note([str(p.get_shape()), str(free.get_shape())])
    value = tf.SparseTensorValue(
        np.array(INDICES, np.int64),
        np.array([1.0, 2.0, 3.0], np.float32),
        np.array(SHAPE, np.int64),
    )
    run([tf.sparse_tensor_to_dense(p), p], {p: value})
    dense = tf.sparse_tensor_to_dense(free)
    fed = tf.SparseTensorValue(
        np.array([[1]], np.int64), np.array([5], np.int32), np.array([3], np.int64)
    )
    run(dense, {free: fed})


@scenario(replay="feeds a tuple")
def sparse_fed_as_a_tuple(run, tf):
    p = tf.sparse_placeholder(tf.float32)
    fetched = run.session.run(
        p,
        {
            p: (
                np.array([[0, 0]], np.int64),
                np.array([1.5], np.float32),
                np.array([1, 1], np.int64),
            )
        },
    )
    run.note([type(fetched).__name__, fetched.values.tolist(), fetched.dense_shape.tolist()])


@scenario
def sparse_errors_at_construction(run, tf):
    run.raises("ValueError", lambda: tf.SparseTensor([[0]], [1.0], [2, 2]))
    run.raises("ValueError", lambda: tf.SparseTensor([[0], [1]], [1.0], [2]))
    run.raises("TypeError", lambda: tf.sparse_add(tf.constant([1.0]), tf.constant([1.0])))


@case(inputs=V)
def indexed_slices_convert(tf, v):
    slices = tf.IndexedSlices(tf.reshape(v, [3, 1]), tf.constant([0, 2, 0]), tf.constant([4, 1]))
    return [slices, tf.convert_to_tensor(slices), (-slices).values]


@case(
    inputs={
        "a": array([[1, 2, 3], [3, 3, 4]], np.int64),
        "b": array([[3, 9, 1], [4, 0, 0]], np.int64),
    },
    **KNOWN,
)
def sets(tf, a, b):
    return [
        tf.sets.set_intersection(a, b),
        tf.sets.set_union(a, b),
        tf.sets.set_difference(a, b),
        tf.sets.set_size(tf.sets.set_union(a, b)),
    ]
