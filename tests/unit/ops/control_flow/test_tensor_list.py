"""Lists of tensors, as loops of TensorFlow's v2 clients use them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.ops.control_flow import tensor_list as lists


@pytest.fixture
def sess() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def pushed(*rows: list[float]) -> Any:
    handle = lists.EmptyTensorList([2], -1, element_dtype=tf.float32)
    for row in rows:
        handle = lists.TensorListPushBack(handle, tf.constant(row))
    return handle


def test_what_is_pushed_last_is_popped_first(sess: tf.Session) -> None:
    handle = pushed([1.0, 2.0], [3.0, 4.0])
    rest, last = lists.TensorListPopBack(handle, [2], element_dtype=tf.float32)
    values = sess.run([last, lists.TensorListLength(rest), lists.TensorListLength(handle)])
    assert [values[0].tolist(), *values[1:]] == [[3.0, 4.0], 1, 2]


def test_an_empty_list_has_nothing_to_pop(sess: tf.Session) -> None:
    popped = lists.TensorListPopBack(pushed(), [2], element_dtype=tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="pop from an empty list"):
        sess.run(popped[1])


def test_elements_that_were_not_set_are_zeros(sess: tf.Session) -> None:
    handle = lists.TensorListReserve([2], 3, element_dtype=tf.float32)
    handle = lists.TensorListSetItem(handle, 1, tf.constant([5.0, 6.0]))
    stacked = lists.TensorListStack(handle, [2], element_dtype=tf.float32)
    item = lists.TensorListGetItem(handle, 1, [2], element_dtype=tf.float32)
    values = sess.run([stacked, item])
    np.testing.assert_array_equal(values[0], [[0, 0], [5, 6], [0, 0]])
    np.testing.assert_array_equal(values[1], [5, 6])


def test_an_element_of_another_shape_is_refused(sess: tf.Session) -> None:
    handle = lists.TensorListPushBack(pushed(), tf.constant([1.0, 2.0, 3.0]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="elements of shape"):
        sess.run(lists.TensorListLength(handle))


def test_lists_add_up_element_by_element(sess: tf.Session) -> None:
    one = lists.TensorListFromTensor(tf.constant([[1.0, 2.0], [3.0, 4.0]]), [2])
    total = tf.raw_ops.AddN(inputs=[one, one, tf.raw_ops.ZerosLike(x=one)])
    stacked = lists.TensorListStack(total, [2], element_dtype=tf.float32)
    np.testing.assert_array_equal(sess.run(stacked), [[2, 4], [6, 8]])


def test_rows_are_scattered_and_gathered(sess: tf.Session) -> None:
    handle = lists.TensorListScatterV2(tf.constant([[1.0, 1.0], [2.0, 2.0]]), [2, 0], [2], -1)
    some = lists.TensorListGather(handle, [0, 1, 2], [2], element_dtype=tf.float32)
    np.testing.assert_array_equal(sess.run(some), [[2, 2], [0, 0], [1, 1]])


def test_an_optional_has_its_value_or_none(sess: tf.Session) -> None:
    there = lists.OptionalFromValue([tf.constant(3.0)])
    got = lists.OptionalGetValue(there, output_types=[tf.float32], output_shapes=[[]])
    has = [lists.OptionalHasValue(there), lists.OptionalHasValue(lists.OptionalNone())]
    assert sess.run([got[0], *has]) == [3.0, True, False]
