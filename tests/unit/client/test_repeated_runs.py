"""What a session remembers of a run must not change what a later one gives."""

import collections

import numpy as np
import pytest

import millrace as tf

Pair = collections.namedtuple("Pair", ["first", "second"])
Couple = collections.namedtuple("Couple", ["first", "second"])


def test_each_structure_of_the_same_elements_comes_back_as_itself(graph):
    a, b = tf.constant(1), tf.constant(2)
    nothing = tf.no_op()
    wanted = [
        (a, 1),
        ([a], [1]),
        ((a,), (1,)),
        ([a, b], [1, 2]),
        ((a, b), (1, 2)),
        ([b, a], [2, 1]),
        ([a, a, b, a], [1, 1, 2, 1]),
        ([nothing, a, nothing], [None, 1, None]),
        (nothing, None),
        ([nothing], [None]),
        ([], []),
        ({}, {}),
        (Pair(a, b), Pair(1, 2)),
        (Couple(a, b), Couple(1, 2)),
        ([Pair(a, b)], [Pair(1, 2)]),
        ([Couple(a, b)], [Couple(1, 2)]),
        ([(a, b)], [(1, 2)]),
        ([[a, b]], [[1, 2]]),
        ([a, (b,)], [1, (2,)]),
        ({"x": a, "y": b}, {"x": 1, "y": 2}),
        ({"y": b, "x": a}, {"y": 2, "x": 1}),
        ({"x": [a, nothing], "y": {"z": b}}, {"x": [1, None], "y": {"z": 2}}),
        ({"x": a, "y": "Const_1:0"}, {"x": 1, "y": 2}),
        ("Const_1:0", 2),
        (["Const:0", b], [1, 2]),
    ]
    with tf.Session() as sess:
        for _ in range(3):
            for fetches, value in wanted:
                got = sess.run(fetches)
                assert got == value
                assert type(got) is type(value) or got == 1 or got == 2
                if isinstance(value, list | tuple):
                    assert [type(item) for item in got if isinstance(item, list | tuple)] == [
                        type(item) for item in value if isinstance(item, list | tuple)
                    ]


def test_results_are_the_callers_own(graph):
    a, b = tf.constant([1, 2]), tf.constant([3])
    with tf.Session() as sess:
        first = sess.run([a, b])
        first.append("mine")
        first[0][0] = 7
        second = sess.run([a, b])
    assert len(second) == 2
    assert second[0].tolist() == [1, 2]


def test_a_list_that_was_changed_is_another_fetch(graph):
    a, b = tf.constant(1), tf.constant(2)
    inner, fetches = [a], [a]
    nested = [inner]
    with tf.Session() as sess:
        assert sess.run(fetches) == [1] and sess.run(nested) == [[1]]
        fetches.append(b)
        inner[0] = b
        assert sess.run(fetches) == [1, 2] and sess.run(nested) == [[2]]


def test_feeds_are_checked_and_converted_each_time(graph):
    x = tf.placeholder(tf.float32, [None, 2])
    y = tf.reduce_sum(x)
    with tf.Session() as sess:
        for rows in (1, 3, 1, 3):
            assert sess.run(y, {x: np.ones([rows, 2], np.float32)}) == 2 * rows
        assert sess.run(y, {x: np.ones([1, 2], np.float64)}) == 2
        assert sess.run(y, {x: [[1, 2]]}) == 3
        assert sess.run(y, {x: np.ones([2, 4], np.float32)[:, ::2]}) == 4
        for wrong in (np.ones([1, 3]), np.ones([2]), np.ones([1, 2, 1]), 1.0):
            with pytest.raises(ValueError, match="Cannot feed value of shape"):
                sess.run(y, {x: wrong})
            with pytest.raises(ValueError, match="Cannot feed value of shape"):
                sess.run(y, {x: np.asarray(wrong, np.float32)})
        with pytest.raises(TypeError, match=r"cannot be a tf\.Tensor"):
            sess.run(y, {x: y})
        assert sess.run(y, {x: np.ones([3, 2], np.float32)}) == 6


def test_a_value_goes_to_the_key_that_it_was_given_for(graph):
    x, y = tf.placeholder(tf.int32), tf.placeholder(tf.int32)
    difference = x - y
    with tf.Session() as sess:
        for _ in range(3):
            assert sess.run(difference, {x: 5, y: 3}) == 2
            assert sess.run(difference, {y: 3, x: 5}) == 2
            assert sess.run(difference, {x.name: 3, y.name: 5}) == -2
            assert sess.run(difference, collections.OrderedDict([(y, 1), (x, 5)])) == 4
            assert sess.run(difference, collections.ChainMap({x: 5}, {y: 4})) == 1
            assert sess.run(difference, {(x, y): (7, 1)}) == 6
            assert sess.run([difference, x], {y: 1, x: 7}) == [6, 7]


def test_feeds_that_are_no_dictionary_are_refused_each_time(graph):
    x = tf.placeholder(tf.int32)
    with tf.Session() as sess:
        for _ in range(2):
            assert sess.run(x, {x: 1}) == 1
            with pytest.raises(TypeError, match="feed_dict must be a dictionary"):
                sess.run(x, [x])
            with pytest.raises(TypeError, match="feed_dict must be a dictionary"):
                sess.run(x, 3)


def test_nothing_is_remembered_of_wrong_fetches(graph):
    a = tf.constant(1)
    with tf.Graph().as_default():
        stranger = tf.constant(2)
    with tf.Session(graph=graph) as sess:
        for _ in range(2):
            assert sess.run([a]) == [1]
            with pytest.raises(TypeError, match="invalid type"):
                sess.run([a, None])
            with pytest.raises(TypeError, match="invalid type"):
                sess.run(None)
            with pytest.raises(TypeError, match="invalid type"):
                sess.run([a, 3])
            with pytest.raises(ValueError, match="cannot be interpreted as a Tensor"):
                sess.run([stranger])


def test_a_closed_session_does_not_repeat_a_run(graph):
    a = tf.constant(1)
    x = tf.placeholder(tf.int32)
    sess = tf.Session()
    for _ in range(2):
        assert sess.run([a]) == [1] and sess.run({"x": x}, {x: 2}) == {"x": 2}
    sess.close()
    for fetches, feeds in (([a], None), ({"x": x}, {x: 2}), (a, None)):
        with pytest.raises(RuntimeError, match="closed Session"):
            sess.run(fetches, feeds)


def test_operations_that_are_added_later_are_run(graph):
    a = tf.constant(1)
    with tf.Session() as sess:
        assert sess.run([a]) == [1]
        b = a + 1
        assert sess.run([a, b]) == [1, 2]
        assert sess.run([a]) == [1]


def test_fetching_a_tensor_does_not_compare_it(graph):
    # In TensorFlow 1 equality of tensors is identity, also to what compares by element.
    a = tf.constant([1, 2])
    assert (a == np.array([1, 2])) is False
    assert a in {a: 1} and hash(a) == hash(a)


class Preparations:
    """Counts the steps that a session prepares."""

    def __init__(self, session):
        self.count = 0
        self._prepare = session._backend.prepare
        session._backend.prepare = self

    def __call__(self, *args):
        self.count += 1
        return self._prepare(*args)


def test_a_step_with_feeds_of_several_tensors_is_prepared_once(graph):
    sparse = tf.sparse_placeholder(tf.float32)
    x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    total = tf.sparse_reduce_sum(sparse) + x * y
    with tf.Session() as sess:
        preparations = Preparations(sess)
        for i in range(4):
            value = tf.SparseTensorValue([[0], [i + 1]], [1.0, i], [9])
            assert sess.run(total, {sparse: value, (x, y): (2.0, i)}) == 1 + 3 * i
        assert preparations.count == 1


def test_a_step_with_fetches_of_several_tensors_is_prepared_once(graph):
    x = tf.placeholder(tf.float32, [2])
    sparse = tf.SparseTensor([[0], [2]], x, [3])
    slices = tf.IndexedSlices(x, tf.constant([1, 2]))
    with tf.Session() as sess:
        preparations = Preparations(sess)
        for i in range(4):
            fetched = sess.run({"a": sparse, "b": [slices]}, {x: [i, 5]})
            assert fetched["a"].values.tolist() == fetched["b"][0].values.tolist() == [i, 5]
        assert preparations.count == 1


def test_steps_that_differ_in_a_feed_are_not_taken_for_one_another(graph):
    x, y = tf.placeholder_with_default(1.0, []), tf.placeholder_with_default(2.0, [])
    z = 10 * x + y
    with tf.Session() as sess:
        for _ in range(2):
            assert sess.run([[z]], {(x,): (3.0,)}) == [[32]]
            assert sess.run([[z]], {(y,): (3.0,)}) == [[13]]
            assert sess.run([[z]], {(x, y): (5.0, 6.0)}) == [[56]]
            assert sess.run([[z]], {(y, x): (5.0, 6.0)}) == [[65]]
            assert sess.run([[z]]) == [[12]]
