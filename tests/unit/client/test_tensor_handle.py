"""Tensors that a session keeps between steps."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import millrace as tf


@pytest.fixture(autouse=True)
def session() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_a_kept_tensor_can_be_read_fed_and_deleted(session: tf.Session) -> None:
    handle = session.run(tf.get_session_handle(tf.constant([1.0, 2.0])))
    assert handle.eval().tolist() == [1.0, 2.0]
    holder, value = tf.get_session_tensor(handle.handle, tf.float32)
    assert session.run(value * 2.0, {holder: handle.handle}).tolist() == [2.0, 4.0]
    p = tf.placeholder(tf.float32)
    assert session.run(p * 3.0, {p: handle}).tolist() == [3.0, 6.0]
    handle.delete()
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in the session store"):
        handle.eval()
    with pytest.raises(tf.errors.NotFoundError, match="Failed to delete the session tensor"):
        handle.delete()


def test_handles_are_found_inside_structures(session: tf.Session) -> None:
    kept = tf.get_session_handle(tf.constant(3))
    found = session.run({"h": [kept]})["h"][0]
    assert found.eval() == 3
    assert str(found) == found.handle
    assert found.handle.endswith("/job:localhost/replica:0/task:0/device:CPU:0")


def test_a_value_can_be_deleted_by_an_operation(session: tf.Session) -> None:
    raw = session.run(tf.get_session_handle(tf.constant(3))).get_raw_handle()
    holder, delete = tf.delete_session_tensor(raw)
    session.run(delete, {holder: raw})
    with pytest.raises(tf.errors.NotFoundError):
        session.run(delete, {holder: raw})


def test_the_session_forgets_a_value_with_its_last_handle(session: tf.Session) -> None:
    kept = tf.get_session_handle(tf.constant(3))
    handle = session.run(kept)
    name = handle.handle
    holder, value = tf.get_session_tensor(name, tf.int32)
    assert session.run(value, {holder: name}) == 3
    del handle
    gc.collect()
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in the session store"):
        session.run(value, {holder: name})
    raw = session.run(kept).get_raw_handle()
    gc.collect()
    assert session.run(value, {holder: raw}) == 3, "a raw handle keeps the value"


def test_the_type_must_be_right(session: tf.Session) -> None:
    handle = session.run(tf.get_session_handle(tf.constant(3)))
    holder, value = tf.get_session_tensor(handle.handle, tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="has type int32, but float32"):
        session.run(value, {holder: handle.handle})
    with pytest.raises(TypeError, match="must be of type Tensor"):
        tf.get_session_handle(3)
