"""What `Session.run` takes as feeds: keys, values, types, shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import millrace as tf


@pytest.fixture(autouse=True)
def session() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_a_tensor_is_fed_by_itself_or_by_name(session: tf.Session) -> None:
    p = tf.placeholder(tf.float32, [2], name="p")
    double = p * 2.0
    for key in (p, "p:0"):
        assert session.run(double, {key: [1, 2]}).tolist() == [2.0, 4.0]
    assert session.run(p, {p: [1, 2]}).tolist() == [1.0, 2.0]


def test_any_tensor_can_be_fed(session: tf.Session) -> None:
    a = tf.constant(1.0)
    b = a + 1.0
    c = b * 10.0
    assert session.run(c) == 20.0
    assert session.run(c, {a: 5.0}) == 60.0
    assert session.run([b, c], {b: 7.0}) == [7.0, 70.0]
    v = tf.Variable(3.0, use_resource=False)
    assert session.run(v * 2.0, {v: 4.0}) == 8.0, "a fed variable need not be initialised"


def test_a_feed_that_nothing_needs_is_ignored(session: tf.Session) -> None:
    p = tf.placeholder(tf.float32, [2])
    assert session.run(tf.constant(1.0), {p: [1, 2]}) == 1.0


def test_the_last_of_two_values_for_one_tensor_counts(session: tf.Session) -> None:
    p = tf.placeholder(tf.float32, [], name="p")
    assert session.run(p, {p: 1, "p:0": 2}) == 2.0


def test_a_missing_feed_names_the_placeholder(session: tf.Session) -> None:
    p = tf.placeholder(tf.float32, [2], name="p")
    for fetch in (p * 2.0, p, tf.identity(p).op):
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(fetch)
        assert "You must feed a value for placeholder tensor 'p'" in str(caught.value)
        assert caught.value.op is p.op


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (tf.float32, [1, 2], [1.0, 2.0]),
        (tf.float32, [True, False], [1.0, 0.0]),
        (tf.int32, (1, 2), [1, 2]),
        (tf.int32, range(3), [0, 1, 2]),
        (tf.int32, np.array([1.7]), [1]),
        (tf.int32, np.int64(3), 3),
        (tf.int64, 2**40, 2**40),
        (tf.uint8, [255], [255]),
        (tf.bool, [True, False], [True, False]),
        (tf.complex64, 1 + 2j, 1 + 2j),
        (tf.float16, 1.5, 1.5),
        (tf.bfloat16, 1.5, 1.5),
        (tf.float32, np.array([1, 2], ">f4"), [1.0, 2.0]),
        (tf.float32, np.arange(8.0).reshape(2, 4)[:, ::2], [[0, 2], [4, 6]]),
        (tf.float32, np.asfortranarray(np.arange(4.0).reshape(2, 2)), [[0, 1], [2, 3]]),
        (tf.float32, np.zeros((0, 2)), []),
        (tf.string, "abc", b"abc"),
        (tf.string, ["a", "ü"], [b"a", "ü".encode()]),
        (tf.string, [b"a", b"\xff\x00"], [b"a", b"\xff\x00"]),
        (tf.string, np.array(["a", "bc"]), [b"a", b"bc"]),
        (tf.string, [["a"], ["b"]], [[b"a"], [b"b"]]),
    ],
)
def test_values_become_arrays_of_the_tensors_type(
    session: tf.Session, dtype: Any, value: Any, expected: Any
) -> None:
    p = tf.placeholder(dtype)
    result = session.run(tf.identity(p), {p: value})
    assert np.asarray(result).tolist() == expected or result == expected
    if dtype != tf.string:
        assert result.dtype == dtype.as_numpy_dtype


@pytest.mark.parametrize(
    ("dtype", "value", "kind"),
    [
        (tf.int32, 2**40, TypeError),
        (tf.uint8, -1, TypeError),
        (tf.float32, ["a", "b"], ValueError),
        (tf.int32, [[1], [1, 2]], ValueError),
    ],
)
def test_a_value_that_does_not_fit_the_type_is_refused(
    session: tf.Session, dtype: Any, value: Any, kind: Any
) -> None:
    p = tf.placeholder(dtype)
    with pytest.raises(kind):
        session.run(p, {p: value})


def test_a_tensor_is_no_value(session: tf.Session) -> None:
    p = tf.placeholder(tf.float32, [])
    with pytest.raises(TypeError, match=r"value of a feed cannot be a tf.Tensor object"):
        session.run(p, {p: tf.constant(1.0)})


@pytest.mark.parametrize(("declared", "value"), [([2], [1, 2, 3]), ([None, 2], [1, 2]), ([2], 1.0)])
def test_a_value_of_the_wrong_shape_is_refused(
    session: tf.Session, declared: Any, value: Any
) -> None:
    p = tf.placeholder(tf.float32, declared, name="p")
    for _ in range(2):
        with pytest.raises(ValueError, match="Cannot feed value of shape .* for Tensor p:0"):
            session.run(p, {p: value})


def test_an_unknown_size_takes_any(session: tf.Session) -> None:
    p = tf.placeholder(tf.float32, [None, 2])
    for rows in (0, 1, 3):
        assert session.run(tf.reduce_sum(p), {p: np.ones((rows, 2))}) == 2 * rows


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (7, "Can not convert a int into a Tensor."),
        (None, "Can not convert a NoneType into a Tensor."),
        ("zz:0", "refers to a Tensor which does not exist"),
        ("p", "refers to an Operation, not a Tensor"),
    ],
)
def test_a_key_that_is_no_tensor_is_refused(session: tf.Session, key: Any, message: str) -> None:
    p = tf.placeholder(tf.float32, [], name="p")
    with pytest.raises(TypeError, match="Cannot interpret feed_dict key as Tensor") as caught:
        session.run(tf.constant(1), {key: 1})
    assert message in str(caught.value)
    with pytest.raises(TypeError, match="Cannot interpret feed_dict key as Tensor"):
        session.run(tf.constant(1), {p.op: 1})
    with pytest.raises(TypeError, match="feed_dict must be a dictionary"):
        session.run(tf.constant(1), [1])  # type: ignore[arg-type]


def test_a_tensor_of_another_graph_or_one_that_is_marked_cannot_be_fed(
    session: tf.Session,
) -> None:
    a = tf.constant(1.0)
    with tf.Graph().as_default():
        foreign = tf.placeholder(tf.float32)
    with pytest.raises(TypeError, match="is not an element of this graph"):
        session.run(a, {foreign: 1.0})
    a.graph.prevent_feeding(a)
    with pytest.raises(ValueError, match="Tensor Const:0 may not be fed."):
        session.run(a, {a: 1.0})


def test_sparse_tensors_and_slices_are_fed_as_values_or_tuples(session: tf.Session) -> None:
    sparse = tf.sparse_placeholder(tf.float32)
    for value in (tf.SparseTensorValue([[0, 1]], [5.0], [2, 2]), ([[0, 1]], [5.0], [2, 2])):
        assert session.run(sparse, {sparse: value}).values.tolist() == [5.0]
    slices = tf.IndexedSlices(tf.placeholder(tf.float32), tf.placeholder(tf.int32))
    value = tf.IndexedSlicesValue([[1.0]], [3], None)
    assert session.run(slices, {slices: value}).indices.tolist() == [3]


def test_keys_may_be_nested_with_values_to_match(session: tf.Session) -> None:
    p, q = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.int32, [])
    for number in (3, 4):  # The second time must not come from the cache of plain keys.
        values = (([1, 2],), number)
        first, second = session.run([p, q], {((p,), q): values})
        assert (first.tolist(), second) == ([1.0, 2.0], number)
        assert session.run(q, {(q,): (number,)}) == number
    with pytest.raises(ValueError, match="Key had 2 elements, but value had 1 elements"):
        session.run([p, q], {(p, q): ([1, 2],)})


def test_a_fed_array_may_be_changed_after_the_step(session: tf.Session) -> None:
    p = tf.placeholder(tf.float32, [100, 100])
    v = tf.Variable(tf.zeros([100, 100]))
    assign = tf.assign(v, p)
    array = np.ones((100, 100), np.float32)
    session.run(assign.op, {p: array})
    array[:] = 7
    assert session.run(v).max() == 1.0
