"""What `Session.run` takes as fetches, and gives back in their shape."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import millrace as tf
from millrace.client import fetches as fetches_module
from millrace.client.fetches import register_session_run_conversion_functions


@pytest.fixture(autouse=True)
def session() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Box:
    content: Any


def test_a_scalar_comes_back_as_a_numpy_scalar_and_an_array_as_an_array(
    session: tf.Session,
) -> None:
    number = session.run(tf.constant(1.5))
    assert type(number) is np.float32 and number == 1.5
    array = session.run(tf.constant([2, 3]))
    assert array.dtype == np.int32 and array.tolist() == [2, 3]
    assert session.run(tf.constant("x")) == b"x"
    words = session.run(tf.constant(["x", "yy"]))
    assert words.dtype == object and words.tolist() == [b"x", b"yy"]


@pytest.mark.parametrize(
    ("structure", "expected"),
    [
        (lambda a, n: a, 1),
        (lambda a, n: n, None),
        (lambda a, n: "a:0", 1),
        (lambda a, n: b"a:0", 1),
        (lambda a, n: "n", None),
        (lambda a, n: [a, n, a], [1, None, 1]),
        (lambda a, n: (a, (n,)), (1, (None,))),
        (lambda a, n: {"k": a, "l": [n, a]}, {"k": 1, "l": [None, 1]}),
        (lambda a, n: Point(a, [a]), Point(1, [1])),
        (lambda a, n: [], []),
        (lambda a, n: {}, {}),
        (lambda a, n: Box(a), Box(1)),
        (lambda a, n: [a, "a:0", a.op], [1, 1, None]),
    ],
)
def test_results_have_the_structure_of_the_fetches(
    session: tf.Session, structure: Any, expected: Any
) -> None:
    a, n = tf.constant(1, name="a"), tf.no_op(name="n")
    for _ in range(2):  # The second time from the cache.
        result = session.run(structure(a, n))
        assert result == expected
        assert type(result) is type(expected) or np.isscalar(result)


def test_other_mappings_keep_their_type_and_order(session: tf.Session) -> None:
    a = tf.constant(1)
    ordered = session.run(collections.OrderedDict([("z", a), ("y", a)]))
    assert type(ordered) is collections.OrderedDict and list(ordered) == ["z", "y"]
    assert type(session.run(collections.defaultdict(int, {"z": a}))) is collections.defaultdict


def test_sparse_tensors_and_slices_come_back_as_values(session: tf.Session) -> None:
    sparse = tf.SparseTensor(indices=[[0, 1]], values=[5.0], dense_shape=[2, 2])
    found = session.run(sparse)
    assert isinstance(found, tf.SparseTensorValue)
    assert found.indices.tolist() == [[0, 1]] and found.dense_shape.tolist() == [2, 2]
    slices = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([3]))
    without, with_shape = session.run(
        [slices, tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([3]), tf.constant([4, 1]))]
    )
    assert without.dense_shape is None and without.indices.tolist() == [3]
    assert with_shape.dense_shape.tolist() == [4, 1]


def test_variables_are_fetched_by_value(session: tf.Session) -> None:
    for use_resource in (False, True):
        v = tf.Variable(4.0, use_resource=use_resource)
        session.run(v.initializer)
        assert session.run([v, {"v": v}]) == [4.0, {"v": 4.0}]


def test_results_are_the_callers_own(session: tf.Session) -> None:
    v = tf.Variable([1.0, 2.0])
    session.run(v.initializer)
    first = session.run(v)
    first[:] = 9
    session.run(tf.assign_add(v, [1.0, 1.0]))
    assert session.run(v).tolist() == [2.0, 3.0]
    constant = tf.constant([1.0, 2.0])
    session.run(constant)[:] = 9
    assert session.run(constant).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("fetch", "kind", "message"),
    [
        (None, TypeError, "None has invalid type"),
        ([None], TypeError, "None has invalid type"),
        (7, TypeError, "Can not convert a int into a Tensor or Operation."),
        (np.array([1]), TypeError, "Can not convert a ndarray into a Tensor or Operation."),
        ({"a", "b"}, TypeError, "Can not convert a set into a Tensor or Operation."),
        ("zz", ValueError, "The name 'zz' refers to an Operation not in the graph."),
        ("zz:0", ValueError, "The operation, 'zz', does not exist in the graph."),
        ("a:7", ValueError, "The operation, 'a', exists but only has 1 outputs."),
    ],
)
def test_what_cannot_be_fetched_is_refused(
    session: tf.Session, fetch: Any, kind: Any, message: str
) -> None:
    tf.constant(1, name="a")
    with pytest.raises(kind) as caught:
        session.run(fetch)
    assert message in str(caught.value)


def test_an_element_of_another_graph_or_one_that_is_marked_is_refused(session: tf.Session) -> None:
    a = tf.constant(1)
    with tf.Graph().as_default():
        foreign = tf.constant(1)
    for element in (foreign, foreign.op):
        with pytest.raises(ValueError, match="is not an element of this graph"):
            session.run(element)
    a.graph.prevent_fetching(a.op)
    with pytest.raises(tf.errors.InaccessibleTensorError, match="marked as not fetchable"):
        session.run(a)


def test_a_type_can_register_how_it_is_fetched_and_fed(
    session: tf.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetches_module, "_expansions", [])

    class Pair:
        def __init__(self, left: Any, right: Any) -> None:
            self.left, self.right = left, right

    register_session_run_conversion_functions(
        Pair,
        lambda pair: ([pair.left, pair.right], lambda values: Pair(*values)),
        lambda pair, value: [(pair.left, value[0]), (pair.right, value[1])],
    )
    pair = Pair(tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, []))
    for left in (1, 5):
        found = session.run({"p": pair}, {pair: (left, 2)})["p"]
        assert isinstance(found, Pair) and (found.left, found.right) == (left, 2)
    with pytest.raises(ValueError, match="already been registered"):
        register_session_run_conversion_functions(Pair, lambda pair: ([], None))
