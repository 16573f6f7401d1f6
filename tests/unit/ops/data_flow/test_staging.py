"""Staging areas in sessions. Their rules are tested with `protocol.staging`."""

import numpy as np
import pytest

import millrace as tf
from millrace.ops.data_flow.staging import MapStagingArea, StagingArea


@pytest.fixture
def session(graph):
    with tf.Session(graph=graph) as session:
        yield session


def test_tensors_wait_for_a_later_step(session):
    area = StagingArea([tf.float32, tf.int32], shapes=[[2], []])
    x = tf.placeholder(tf.float32, [2])
    put = area.put([x, tf.constant(1)])
    fed = np.array([1.0, 2.0], np.float32)
    session.run(put, {x: fed})
    fed[:] = 0
    assert session.run(area.size()) == 1
    assert session.run(area.peek(0))[0].tolist() == [1, 2]
    values, number = session.run(area.get())
    assert values.tolist() == [1, 2] and number == 1
    assert session.run(area.size()) == 0


def test_a_get_waits_for_a_put_and_a_full_area_for_a_get(session, background):
    area = StagingArea([tf.int32], capacity=1)
    x = tf.placeholder(tf.int32, [])
    put, get = area.put([x]), area.get()
    call = background(lambda: session.run(get))
    session.run(put, {x: 1})
    assert call.result() == [1]
    session.run(put, {x: 2})
    full = background(lambda: session.run(put, {x: 3}))
    assert session.run(get) == [2]
    full.result()
    assert session.run(get) == [3]


def test_closing_the_session_ends_a_waiting_get(graph, background, until):
    get = StagingArea([tf.int32]).get()
    session = tf.Session(graph=graph)
    call = background(lambda: session.run(get))
    until(lambda: session._backend._steps)
    session.close()
    with pytest.raises(tf.errors.CancelledError):
        call.result()


def test_clearing_drops_everything(session):
    area = StagingArea([tf.int32])
    session.run(area.put(tf.constant(1)))
    session.run(area.clear())
    assert session.run(area.size()) == 0


def test_a_map_finds_tuples_by_key(session):
    area = MapStagingArea([tf.float32, tf.int32], names=["f", "i"], ordered=True)
    for key in (5, 1):
        session.run(area.put(key, {"f": tf.constant(key / 2), "i": tf.constant(key)}))
    assert session.run(area.peek(5)) == {"f": 2.5, "i": 5}
    assert session.run(area.get()) == (1, {"f": 0.5, "i": 1})
    _, part = area.get(5, indices=["i"])
    assert session.run(part) == {"i": 5}
    assert session.run([area.size(), area.incomplete_size()]) == [1, 0]
    session.run(area.clear())
    assert session.run(area.size()) == 0


def test_the_tensors_of_a_key_may_come_one_by_one(session):
    area = MapStagingArea([tf.float32, tf.int32])
    session.run(area.put(1, [tf.constant(2)], indices=[1]))
    assert session.run([area.size(), area.incomplete_size()]) == [0, 1]
    session.run(area.put(1, [tf.constant(0.5)], indices=[0]))
    _, values = area.get(1)
    assert session.run(values) == [0.5, 2]


def test_static_shapes_and_names_are_stated_by_the_area():
    area = StagingArea([tf.float32], shapes=[[3]], shared_name="stage")
    assert area.name == "stage"
    assert area.get()[0].shape.as_list() == [3]
    assert area.put([tf.zeros([3])]).get_attr("shared_name") == b"stage"


@pytest.mark.parametrize(
    ("put", "message"),
    [
        (lambda area: area.put({"g": 1}), "must have names to enqueue a dictionary"),
        (lambda area: area.put([tf.zeros([1])]), "incompatible"),
        (lambda area: area.put([tf.constant([1, 2])]), "Datatypes do not match"),
        (lambda area: area.put([tf.zeros([2])] * 2), "Unexpected number of inputs 2 vs 1"),
    ],
)
def test_what_does_not_fit_is_refused_while_the_graph_is_built(put, message):
    with pytest.raises(ValueError, match=message):
        put(StagingArea([tf.float32], shapes=[[2]]))


def test_a_map_refuses_names_and_places_that_it_does_not_have():
    area = MapStagingArea([tf.float32], names=["f"])
    with pytest.raises(ValueError, match="do not match names of staging area"):
        area.put(1, {"g": 1})
    with pytest.raises(ValueError, match="You must enqueue a dictionary"):
        area.put(1, [1.0])
    with pytest.raises(ValueError, match="Named index not in Staging Area names"):
        area.get(1, indices=["z"])
    with pytest.raises(ValueError, match="Empty indices"):
        area.get(1, indices=[])
    with pytest.raises(ValueError, match="Indices must be supplied"):
        MapStagingArea([tf.float32]).put(1, [tf.constant(1.0)])
