"""Barriers in sessions. Their rules are tested with `protocol.barrier`."""

import pytest

import millrace as tf
from millrace.ops.data_flow.barrier import Barrier


@pytest.fixture
def session(graph):
    with tf.Session(graph=graph) as session:
        yield session


def test_elements_are_taken_when_their_components_are_there(session, background):
    barrier = Barrier((tf.float32, tf.string), shapes=((), (2,)))
    first = barrier.insert_many(0, ["a", "b", "c"], [1.0, 2.0, 3.0])
    second = barrier.insert_many(1, ["c", "a"], [["c1", "c2"], ["a1", "a2"]])
    take = barrier.take_many(2)
    call = background(lambda: session.run(take))
    session.run(first)
    session.run(second)
    taken = call.result()
    assert taken.keys.tolist() == [b"c", b"a"]
    assert taken.values[0].tolist() == [3, 1]
    assert taken.values[1].tolist() == [[b"c1", b"c2"], [b"a1", b"a2"]]
    assert session.run([barrier.ready_size(), barrier.incomplete_size()]) == [0, 1]


def test_static_shapes_are_those_of_the_components():
    barrier = Barrier((tf.float32, tf.string), shapes=((), (2,)))
    taken = barrier.take_many(3)
    assert [t.shape.as_list() for t in (taken.indices, taken.keys, *taken.values)] == [
        [3],
        [3],
        [3],
        [3, 2],
    ]
    small = barrier.take_many(3, allow_small_batch=True)
    assert small.values[1].shape.as_list() == [None, 2]


def test_a_closed_barrier_is_out_of_range(session):
    barrier = Barrier((tf.float32,))
    session.run(barrier.insert_many(0, ["k"], [1.0]))
    session.run(barrier.close())
    taken = session.run(barrier.take_many(5, allow_small_batch=True))
    assert taken.values[0].tolist() == [1]
    with pytest.raises(tf.errors.OutOfRangeError, match="is closed and has insufficient"):
        session.run(barrier.take_many(1))
    with pytest.raises(tf.errors.CancelledError, match="already closed"):
        session.run(barrier.close())


@pytest.mark.parametrize(
    ("component", "keys", "values", "message"),
    [
        (2, ["x"], [1.0], r"component ID is out of range 2 > num_components \(= 2\)"),
        (1, ["x"], [1.0], "Signature mismatch, have: string_ref, string, float->"),
        (0, ["x", "y"], [1.0], "a row of values for each key"),
        (0, ["x"], [[1.0]], r"Shape mismatch in tuple component 0. Expected \[\], got \[1\]"),
    ],
)
def test_what_does_not_fit_is_refused(session, component, keys, values, message):
    barrier = Barrier((tf.float32, tf.string), shapes=((), (2,)))
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run(barrier.insert_many(component, keys, values))


def test_empty_components_are_refused():
    with pytest.raises(ValueError, match="Empty tensors are not supported"):
        Barrier((tf.float32,), shapes=((0,),))
