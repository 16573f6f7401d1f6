"""A step that fails leaves variables as they were, unless what failed comes after the write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.runtime import tiers


@pytest.fixture(params=["compiled", "op by op"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "op by op":
        monkeypatch.setattr(tiers, "MAX_PROGRAMS", 0)
    return str(request.param)


def failing_row(bad: Any) -> tf.Tensor:
    """A gather that fails in the compiled program when `bad` is 9."""
    return tf.gather(tf.constant([1.0, 2.0, 3.0]), bad)


def fails(sess: tf.Session, fetches: Any, feed: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="9"):
        sess.run(fetches, feed)


def test_a_dense_update_does_not_happen_when_another_op_fails() -> None:
    bad = tf.placeholder(tf.int32, [])
    v = tf.Variable([1.0, 2.0])
    update, row = tf.assign_add(v, [1.0, 1.0]), failing_row(bad)
    with tf.Session() as sess:
        sess.run(v.initializer)
        fails(sess, [update.op, row], {bad: 9})
        assert sess.run(v).tolist() == [1, 2]
        sess.run([update.op, row], {bad: 1})
        assert sess.run(v).tolist() == [2, 3]


def test_a_variable_that_is_only_overwritten_keeps_its_value_or_none() -> None:
    bad = tf.placeholder(tf.int32, [])
    v = tf.Variable([1.0, 2.0])
    change, row = tf.assign(v, [5.0, 6.0]), failing_row(bad)
    with tf.Session() as sess:
        fails(sess, [change.op, row], {bad: 9})
        assert not sess.run(tf.is_variable_initialized(v))
        sess.run(v.initializer)
        fails(sess, [change, row], {bad: 9})
        assert sess.run(v).tolist() == [1, 2]
        assert sess.run([change, row], {bad: 1})[0].tolist() == [5, 6]
        assert sess.run(v).tolist() == [5, 6]


@pytest.mark.parametrize("resource", [False, True])
def test_updates_of_rows_do_not_happen_when_another_op_fails(resource: bool) -> None:
    bad = tf.placeholder(tf.int32, [])
    table = tf.get_variable("t", initializer=tf.zeros([4, 2]), use_resource=resource)
    slices = tf.IndexedSlices(tf.ones([2, 2]), tf.constant([0, 3]), tf.constant([4, 2]))
    optimizers = [tf.train.AdagradOptimizer(0.5), tf.train.GradientDescentOptimizer(0.5)]
    updates = [o.apply_gradients([(slices, table)]) for o in optimizers]
    updates.append(tf.scatter_nd_update(table, [[1, 1]], [7.0]))
    row = failing_row(bad)
    variables = tf.global_variables()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for update in updates:
            before = sess.run(variables)
            fails(sess, [update, row], {bad: 9})
            for old, new in zip(before, sess.run(variables), strict=True):
                assert old.tolist() == new.tolist()
            sess.run([update, row], {bad: 0})
            assert sess.run(table).tolist() != before[variables.index(table)].tolist()


def test_one_update_with_a_bad_index_keeps_the_others_from_happening() -> None:
    index = tf.placeholder(tf.int32, [2])
    a, b = tf.Variable(tf.zeros([3])), tf.Variable(tf.zeros([3]))
    first = tf.assign_add(a, tf.ones([3]))
    second = tf.scatter_add(b, index, [1.0, 1.0])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        fails(sess, [first.op, second.op], {index: [0, 9]})
        assert sess.run(a).tolist() == [0, 0, 0]
        assert sess.run(b).tolist() == [0, 0, 0], "not even the good row"


def test_a_write_before_what_fails_counts_and_one_beside_it_does_not() -> None:
    bad = tf.placeholder(tf.int32, [])
    before, beside, after = (tf.Variable(1.0) for _ in range(3))
    wrote = tf.assign_add(before, 1.0)
    again = tf.assign_add(wrote, 10.0)
    with tf.control_dependencies([wrote]):
        row = failing_row(bad)
    with tf.control_dependencies([row]):
        last = tf.assign_add(after, 1.0)
    steps = [again.op, last.op, tf.assign_add(beside, 1.0).op]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        fails(sess, steps, {bad: 9})
        assert sess.run([before, beside, after]) == [2.0, 1.0, 1.0]
        sess.run(steps, {bad: 0})
        assert sess.run([before, beside, after]) == [13.0, 2.0, 2.0]


def test_what_an_update_returns_is_the_new_value() -> None:
    bad = tf.placeholder(tf.int32, [])
    v = tf.Variable([1.0, 2.0])
    update = tf.scatter_add(v, [1, 1], [2.0, 3.0])
    with tf.control_dependencies([update]):
        double = v.read_value() * 2.0
    with tf.Session() as sess:
        sess.run(v.initializer)
        found, doubled, _ = sess.run([update, double, failing_row(bad)], {bad: 0})
        assert found.tolist() == [1, 7]
        assert doubled.tolist() == [2, 14]


def test_an_assertion_before_an_update_is_part_of_its_call(way: str) -> None:
    limit = tf.placeholder(tf.float32, [])
    v = tf.Variable(1.0)
    with tf.control_dependencies([tf.assert_less(limit, 5.0, message="9 or so")]):
        update = tf.assign_add(v, limit)
    with tf.Session() as sess:
        sess.run(v.initializer)
        sess.run(update.op, {limit: 2.0})
        calls = sess._backend.xla_calls
        sess.run(update.op, {limit: 2.0})
        assert sess._backend.xla_calls - calls == (1 if way == "compiled" else 0)
        fails(sess, update.op, {limit: 9.0})
        assert sess.run(v) == 5.0


def test_a_variable_that_may_get_another_shape_keeps_its_own() -> None:
    bad = tf.placeholder(tf.int32, [])
    v = tf.Variable([1.0, 2.0], validate_shape=False)
    grown = tf.assign(v, tf.concat([v.read_value(), [3.0]], 0), validate_shape=False)
    with tf.Session() as sess:
        sess.run(v.initializer)
        fails(sess, [grown.op, failing_row(bad)], {bad: 9})
        assert sess.run(v).tolist() == [1, 2]
        sess.run([grown.op, failing_row(bad)], {bad: 2})
        assert np.array_equal(sess.run(v), [1, 2, 3])
