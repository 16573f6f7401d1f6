"""Sparse ops: errors, edge cases, and what is compiled; values are in the parity cases."""

import numpy as np
import pytest

import millrace as tf
from millrace.core import errors

INDICES = [[0, 1], [0, 3], [2, 0]]


def sparse(indices=INDICES, values=(1.0, 2.0, 3.0), shape=(3, 4)):
    values = np.asarray(values)
    if values.dtype == np.float64:
        values = values.astype(np.float32)
    where = np.array(indices, np.int64).reshape(len(values), len(shape))
    return tf.SparseTensor(where, tf.constant(values), np.array(shape, np.int64))


def unknown(value):
    """The same SparseTensor, of which nothing is known before the run."""
    return tf.SparseTensor(
        tf.placeholder_with_default(value.indices, [None, None]),
        tf.placeholder_with_default(value.values, [None]),
        tf.placeholder_with_default(value.dense_shape, [None]),
    )


def run(build, feed=None):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(build(), feed)


def parts(value):
    return value.indices.tolist(), value.values.tolist(), value.dense_shape.tolist()


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (
            lambda: tf.sparse_tensor_to_dense(unknown(sparse([[2, 0], [0, 1], [0, 3]]))),
            r"indices\[1\] = \[0,1\] is out of order",
        ),
        (
            lambda: tf.sparse_tensor_to_dense(unknown(sparse([[0, 0], [0, 1], [0, 1]]))),
            r"indices\[2\] = \[0,1\] is repeated",
        ),
        (
            lambda: tf.sparse_tensor_to_dense(unknown(sparse([[0, 0], [0, 1], [0, -3]]))),
            r"indices\[2\] = \[0,-3\] is out of bounds: need 0 <= index < \[3,4\]",
        ),
        (
            lambda: tf.sparse_tensor_to_dense(
                unknown(sparse([[0, 0], [0, 1], [9, 1]])), validate_indices=False
            ),
            r"Indices are not valid \(out of bounds\)",
        ),
        (
            lambda: tf.sparse_tensor_dense_matmul(
                unknown(sparse([[0, 1], [0, 9]], [1.0, 2.0])), tf.ones([4, 2])
            ),
            r"k \(9\) from index\[1,1\] out of bounds \(>=4\)",
        ),
        (
            lambda: tf.sparse_tensor_dense_matmul(
                unknown(sparse([[0, 1], [7, 2]], [1.0, 2.0])), tf.ones([4, 2])
            ),
            r"m \(7\) from index\[1,0\] out of bounds \(>=3\)",
        ),
        (
            lambda: tf.sparse_tensor_dense_matmul(
                unknown(sparse()), tf.placeholder_with_default(np.ones([3, 2], np.float32), None)
            ),
            "inner dimension does not match: 4 vs. 3",
        ),
        (
            lambda: tf.sparse_add(unknown(sparse()), unknown(sparse(shape=[3, 5]))),
            "Operands' shapes do not match: got 4 and 5 for dimension 1",
        ),
        (
            lambda: tf.sparse_maximum(
                unknown(sparse()), unknown(sparse([[0, 1, 1]], [1.0], [3, 5, 6]))
            ),
            "Operands do not have the same ranks; got shapes: 3 4 and 3 5 6",
        ),
        (
            lambda: tf.sparse_add(
                unknown(sparse()), tf.placeholder_with_default(np.ones([3, 5], np.float32), None)
            ),
            "Dimension 1 does not equal",
        ),
        (
            lambda: tf.sparse_add(unknown(sparse([[0, 0], [0, 1], [9, 3]])), tf.ones([3, 4])),
            "invalid index on dimension 0",
        ),
        (
            lambda: tf.sparse_concat(0, [unknown(sparse()), unknown(sparse(shape=[3, 5]))]),
            "expected 4 for dimension 1 but got 5 at position 1",
        ),
        (
            lambda: tf.sparse_concat(5, [unknown(sparse()), unknown(sparse())]),
            r"Concat dimension must be in range \[-2, 2\), got 5",
        ),
        (
            lambda: tf.sparse_split(sp_input=sparse(), num_split=9, axis=1),
            r"splitting dimension size \(4\), got 9",
        ),
        (
            lambda: tf.sparse_reshape(unknown(sparse()), [5, 5]),
            "12 dense values, but the requested shape has 25",
        ),
        (
            lambda: tf.sparse_reshape(unknown(sparse()), [-1, -1]),
            "only one output dimension may be -1, not both 0 and 1",
        ),
        (
            lambda: tf.sparse_fill_empty_rows(unknown(sparse([[0, 0], [0, 1], [9, 3]])), 7.0)[0],
            r"indices\(2, 0\) is invalid: 9 >= 3",
        ),
        (lambda: tf.sparse_reduce_sum(sparse(), 5), "Invalid reduction dimension 5"),
        (lambda: sparse() * np.float32([1, 2, 3]), "broadcasts dense to sparse only"),
        (lambda: sparse() * np.ones([2, 3, 4], np.float32), "broadcasts dense to sparse only"),
        (
            lambda: tf.sparse_softmax(unknown(sparse([[0], [1], [2]], shape=[3]))),
            "Input should have rank >= 2",
        ),
        (
            lambda: tf.deserialize_many_sparse(tf.serialize_many_sparse(sparse()), tf.int32),
            r"Requested SparseTensor of type int32 but SparseTensor\[0\].values.dtype\(\) == float",
        ),
        (
            lambda: tf.sparse.cross([sparse(values=[1, 2, 3]), sparse([[3, 0]], [1], [4, 1])]),
            "Expected batch size 3 got 4 at position 1",
        ),
        (
            lambda: tf.sets.union(
                tf.placeholder_with_default([[1, 2], [3, 4]], None),
                tf.placeholder_with_default([[1, 2]], None),
            ),
            r"Mismatched shapes \[2\] vs \[1\]",
        ),
    ],
)
def test_a_bad_value_is_an_invalid_argument(build, words):
    with tf.Graph().as_default(), tf.Session() as session:
        fetch = build()
        with pytest.raises(errors.InvalidArgumentError, match=words):
            session.run(fetch)


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: tf.sparse_reorder(tf.constant(1)), TypeError, "Input must be a SparseTensor"),
        (lambda: tf.sparse_add(tf.ones([2]), tf.ones([2])), TypeError, "At least one input"),
        (lambda: tf.sparse_split(sparse(), 2, 1), ValueError, "Keyword arguments are required"),
        (lambda: tf.sparse_reshape(sparse(), [5, 5]), ValueError, "Cannot reshape a tensor with"),
        (lambda: tf.sparse_retain(sparse(), [True]), ValueError, "not compatible"),
        (lambda: tf.sparse_reset_shape(sparse(), [2, 9]), ValueError, "should have dimension"),
        (lambda: tf.sparse_fill_empty_rows(sparse(), [7.0]), ValueError, "rank"),
        (lambda: tf.sparse_merge(sparse(), sparse(), "x"), TypeError, "vocab_size has to be"),
        (lambda: tf.sets.size(tf.constant([1])), TypeError, "Expected `SparseTensor`"),
        (lambda: tf.sets.union([[1.0]], [[1.0]]), TypeError, "invalid dtype"),
        (lambda: tf.sets.union([1], [2]), ValueError, "at least rank 2"),
    ],
)
def test_a_bad_argument_fails_while_the_graph_is_built(build, error, words):
    with tf.Graph().as_default(), pytest.raises(error, match=words):
        build()


def test_entries_that_only_one_side_has_survive_the_threshold():
    other = lambda: sparse([[0, 1], [1, 1], [2, 0]], [-1.0, 0.1, -2.9])  # noqa: E731
    got = run(lambda: tf.sparse_add(sparse(), other(), 0.15))
    assert got.indices.tolist() == [[0, 3], [1, 1]]


def test_empty_rows_are_filled_in_place_and_others_keep_their_order():
    value = run(
        lambda: tf.raw_ops.SparseFillEmptyRows(
            indices=np.array([[3, 0], [1, 1], [1, 0]]),
            values=[1.0, 2.0, 3.0],
            dense_shape=np.array([5, 2]),
            default_value=9.0,
        )
    )
    assert value[0].tolist() == [[0, 0], [1, 1], [1, 0], [2, 0], [3, 0], [4, 0]]
    assert value[1].tolist() == [9, 2, 3, 9, 1, 9]
    assert value[2].tolist() == [True, False, True, False, True]
    assert value[3].tolist() == [4, 1, 2]


def test_a_tensor_without_entries_goes_through():
    def nothing():
        return sparse(np.zeros((0, 2)), np.zeros(0, np.float32))

    assert run(lambda: tf.sparse_tensor_to_dense(nothing())).tolist() == np.zeros((3, 4)).tolist()
    assert run(lambda: tf.sparse_reduce_sum(nothing(), 1)).tolist() == [0, 0, 0]
    assert run(lambda: tf.sparse_tensor_dense_matmul(nothing(), tf.ones([4, 2]))).shape == (3, 2)
    filled, empty = run(lambda: tf.sparse_fill_empty_rows(nothing(), 1.0))
    assert filled.values.tolist() == [1, 1, 1]
    assert empty.all()
    assert parts(run(lambda: tf.sparse_add(nothing(), sparse()))) == parts(run(sparse))
    assert run(lambda: tf.sparse_reorder(nothing())).values.shape == (0,)
    assert run(lambda: tf.sparse_softmax(nothing())).values.shape == (0,)


def test_slices_may_reach_beyond_the_end():
    assert parts(run(lambda: tf.sparse_slice(sparse(), [0, 1], [2, 9]))) == (
        [[0, 0], [0, 2]],
        [1, 2],
        [2, 3],
    )
    assert run(lambda: tf.sparse_slice(sparse(), [0, 7], [2, 9])).dense_shape.tolist() == [2, 0]


def test_the_gradient_of_a_slice_reaches_what_was_taken():
    with tf.Graph().as_default(), tf.Session() as session:
        value = sparse()
        taken = tf.sparse_slice(value, [0, 2], [3, 2])
        (grad,) = tf.gradients(taken.values * 5.0, value.values)
        assert session.run(grad).tolist() == [0, 5, 0]


def test_uneven_splits_are_larger_first():
    got = run(lambda: tf.sparse_split(sp_input=sparse(), num_split=3, axis=-1))
    assert [part.dense_shape.tolist() for part in got] == [[3, 2], [3, 1], [3, 1]]
    assert [part.indices.tolist() for part in got] == [[[0, 1], [2, 0]], [], [[0, 0]]]


def test_reductions_to_sparse_keep_only_what_is_there():
    assert parts(run(lambda: tf.sparse_reduce_sum_sparse(sparse(), 1))) == ([[0], [2]], [3, 3], [3])
    assert parts(run(lambda: tf.sparse_reduce_sum_sparse(sparse(), 1, keepdims=True))) == (
        [[0, 0], [2, 0]],
        [3, 3],
        [3, 1],
    )
    assert parts(run(lambda: tf.sparse_reduce_max_sparse(sparse()))) == ([[]], [3], [])
    negative = run(lambda: tf.sparse_reduce_max(sparse(values=[-1.0, -2.0, -3.0]), 1))
    assert negative.tolist() == [-1, 0, -3]


def test_integers_divide_to_fractions():
    quotient = run(lambda: sparse(values=np.int32([4, 5, 6])) / 2)
    assert quotient.values.dtype == np.float64
    assert quotient.values.tolist() == [2, 2.5, 3]


def test_a_dense_matrix_may_come_first():
    product = run(lambda: tf.sparse_tensor_dense_matmul(tf.ones([2, 3]), sparse()))
    assert product.tolist() == [[3, 1, 0, 2]] * 2


def test_serialized_tensors_of_different_sizes_become_one():
    def build():
        rows = tf.stack([tf.serialize_sparse(sparse()), tf.serialize_sparse(sparse(shape=[5, 4]))])
        return tf.deserialize_many_sparse(rows, tf.float32)

    got = run(build)
    assert got.dense_shape.tolist() == [2, 5, 4]
    assert got.values.tolist() == [1, 2, 3] * 2
    words = np.array(["a", "b"], object)
    rows = lambda: tf.serialize_many_sparse(sparse([[0, 0], [1, 1]], words, [2, 2]))  # noqa: E731
    back = run(lambda: tf.deserialize_many_sparse(rows(), tf.string))
    assert parts(back) == ([[0, 0], [1, 1]], [b"a", b"b"], [2, 2])


# The hashes below are TensorFlow 2.21's.


def _words():
    return tf.SparseTensor([[0, 0], [1, 0], [1, 1]], tf.constant(["a", "b", "c"]), [2, 2])


def _numbers():
    values = tf.constant(np.array([5, -6, 7]))
    return tf.SparseTensor([[0, 0], [1, 0], [1, 2]], values, [2, 3])


def test_crosses_are_hashed_as_in_tensorflow():
    got = run(lambda: tf.sparse.cross_hashed([_words(), _numbers()]))
    assert got.values.tolist() == [
        1019146045564160463,
        82304837287974854,
        443223928722139976,
        3416122002609312130,
        2520330290548275089,
    ]
    assert got.dense_shape.tolist() == [2, 4]
    dense = lambda: tf.constant([["x", "y"], ["z", "w"]])  # noqa: E731
    got = run(lambda: tf.sparse.cross_hashed([dense(), _words()]))
    assert got.values.tolist()[:2] == [1484974617627318892, 3920818148696658747]
    got = run(lambda: tf.sparse.cross([_words(), _numbers()], separator="-"))
    assert got.values.tolist() == [b"a-5", b"b--6", b"b-7", b"c--6", b"c-7"]


@pytest.mark.parametrize(
    ("strong", "buckets", "expected"),
    [
        (False, 1000, [3, 11, 731, 275, 673]),
        (True, 1000, [780, 550, 199, 989, 881]),
        (False, 0, [5789356392852566003, 4036665250312907204]),
        (True, 0, [2109478183522621973, 6200269087045074550]),
    ],
)
def test_salted_crosses_are_hashed_as_in_tensorflow(strong, buckets, expected):
    def build():
        inputs = [_words(), _numbers()]
        return tf.raw_ops.SparseCrossHashed(
            indices=[t.indices for t in inputs],
            values=[t.values for t in inputs],
            shapes=[t.dense_shape for t in inputs],
            dense_inputs=[],
            num_buckets=np.int64(buckets),
            strong_hash=strong,
            salt=np.array([3, 4]),
        )[1]

    assert run(build).tolist()[: len(expected)] == expected


def test_sets_of_sparse_and_dense_rows():
    dense = np.array([[1, 2, 3], [3, 3, 4]])
    few = lambda: sparse([[0, 0], [0, 1], [1, 0]], np.array([1, 9, 3]), [2, 2])  # noqa: E731
    assert run(lambda: tf.sets.difference(few(), dense)).values.tolist() == [9]
    assert run(lambda: tf.sets.difference(dense, few())).values.tolist() == [2, 3, 4]
    assert run(lambda: tf.sets.union(few(), few())).values.tolist() == [1, 9, 3]
    assert run(lambda: tf.sets.size(few())).tolist() == [2, 1]


def test_a_sparse_model_is_one_program():
    with tf.Graph().as_default(), tf.Session() as session:
        value = tf.sparse_placeholder(tf.float32, shape=[3, 4])
        weights = tf.constant(np.ones([4, 2], np.float32))
        product = tf.sparse_tensor_dense_matmul(value, weights)
        loss = tf.reduce_sum(product * product)
        fed = tf.SparseTensorValue(
            np.array(INDICES, np.int64), np.float32([1, 2, 3]), np.array([3, 4], np.int64)
        )
        assert session.run([loss, tf.gradients(loss, weights)[0]], {value: fed})[0] == 36
        assert session._backend.xla_calls == 1
