"""Large constants of one value: they take no memory in graphs, messages and plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.core.convert import is_filled
from millrace.passes.prune import prune
from millrace.runtime import executor
from millrace.runtime.planning import plan_of
from millrace.runtime.resources import ResourceStore, VariableSlot
from millrace.runtime.step import SessionState, Step

SHAPE = (300, 200)


def test_a_constant_of_one_value_is_a_short_message_as_in_tensorflow() -> None:
    message = tf.constant(0.5, shape=SHAPE).op.node_def
    assert message.ByteSize() < 200
    assert list(message.attr["value"].tensor.float_val) == [0.5]


def test_it_keeps_its_shortness_when_a_graph_is_imported(graph: tf.Graph) -> None:
    tf.constant(7, shape=SHAPE, name="seven")
    definition = graph.as_graph_def()
    with tf.Graph().as_default() as other:
        tf.import_graph_def(definition, name="")
        op = other.get_operation_by_name("seven")
        assert is_filled(op.attrs["value"])
        assert other.as_graph_def().ByteSize() == definition.ByteSize()
        with tf.Session() as sess:
            np.testing.assert_array_equal(sess.run("seven:0"), np.full(SHAPE, 7))


@pytest.mark.parametrize("dtype", [tf.float32, tf.int64, tf.bool, tf.complex64, tf.string])
def test_its_value_is_an_array_of_the_callers_own(dtype: Any) -> None:
    one = {tf.bool: True, tf.string: b"x"}.get(dtype, 3)
    with tf.Session() as sess:
        value = sess.run(tf.constant(one, dtype, shape=SHAPE))
    assert value.shape == SHAPE and (value == one).all()
    value[0, 0] = one  # It may be written.


def test_it_takes_part_in_arithmetic_and_decides_shapes() -> None:
    ones = tf.constant(1.0, shape=SHAPE)
    with tf.Session() as sess:
        assert sess.run(tf.reduce_sum(ones * 2 + ones)) == 3 * SHAPE[0] * SHAPE[1]
        wide = tf.reshape(tf.zeros([1]), tf.constant(1, shape=[40])[:3])
        assert sess.run(wide).shape == (1, 1, 1)
        assert sess.run(tf.strings.length(tf.constant("abc", shape=SHAPE))).sum() == 180_000


def test_a_variable_that_starts_from_it_is_all_that_is_made() -> None:
    variable = tf.Variable(tf.constant(0.1, shape=SHAPE))
    plan = plan_of(prune([], [variable.initializer], []))
    assert plan.constants == []
    assert all(not stage.inputs for stage in plan.stages)
    store = ResourceStore()
    executor.run(plan, Step(SessionState(store), executor.run_values), [])
    ((_, _, slot),) = store.all_of(VariableSlot)
    np.testing.assert_array_equal(np.asarray(slot.value), np.full(SHAPE, np.float32(0.1)))
