"""Optimizers: their slots, nodes and errors. (Their numbers are compared in tests/parity.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.core import errors


@pytest.fixture(params=[False, True], ids=["reference", "resource"])
def use_resource(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "GradientDescent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "Momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.5),
    "Adam": lambda: tf.train.AdamOptimizer(0.1),
    "Adagrad": lambda: tf.train.AdagradOptimizer(0.5),
    "AdagradDA": lambda: tf.train.AdagradDAOptimizer(0.5, tf.train.get_or_create_global_step()),
    "Adadelta": lambda: tf.train.AdadeltaOptimizer(5.0),
    "RMSProp": lambda: tf.train.RMSPropOptimizer(0.1),
    "Ftrl": lambda: tf.train.FtrlOptimizer(0.5),
    "ProximalGradientDescent": lambda: tf.train.ProximalGradientDescentOptimizer(0.1),
    "ProximalAdagrad": lambda: tf.train.ProximalAdagradOptimizer(0.5),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_makes_a_dense_and_a_sparse_loss_smaller(name: str, use_resource: bool) -> None:
    table = tf.Variable(np.ones((5, 2), np.float32), use_resource=use_resource)
    weights = tf.Variable(np.ones((2, 1), np.float32), use_resource=use_resource)
    step = tf.train.get_or_create_global_step()
    rows = tf.gather(table, [1, 3, 1])
    loss = tf.reduce_sum(tf.square(tf.matmul(rows, weights) - 1.0))
    train = OPTIMIZERS[name]().minimize(loss, global_step=step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first = session.run(loss)
        for _ in range(3):
            session.run(train)
        assert session.run(loss) < first
        assert session.run(step) == 3
        untouched = session.run(table)[[0, 2, 4]]
        if name != "AdagradDA":
            np.testing.assert_array_equal(untouched, np.ones((3, 2)))


def test_slots_are_named_after_their_variable_and_beside_it(
    graph: tf.Graph, use_resource: bool
) -> None:
    with tf.device("/job:ps"):
        w = tf.Variable([1.0], name="w", use_resource=use_resource)
    optimizer = tf.train.AdamOptimizer()
    optimizer.minimize(tf.reduce_sum(w))
    assert optimizer.get_slot_names() == ["m", "v"]
    assert optimizer.get_slot(w, "m").name == "w/Adam:0"
    assert optimizer.get_slot(w, "v").name == "w/Adam_1:0"
    assert optimizer.get_slot(w, "other") is None
    names = ["beta1_power:0", "beta2_power:0", "w/Adam:0", "w/Adam_1:0"]
    assert [v.name for v in optimizer.variables()] == names
    for variable in optimizer.variables():
        assert type(variable) is type(w)
        assert variable.device == "/job:ps"
        assert variable.op.colocation_groups() == [b"loc:@w"]
        assert variable not in tf.trainable_variables()
    again = tf.Variable.from_proto(w.to_proto())
    assert optimizer.get_slot(again, "m") is optimizer.get_slot(w, "m")


def test_slots_of_parts_are_saved_as_parts() -> None:
    whole = tf.get_variable("w", [4, 2], partitioner=tf.fixed_size_partitioner(2))
    optimizer = tf.train.AdamOptimizer()
    optimizer.minimize(tf.reduce_sum(whole.as_tensor()), var_list=whole)
    specs = [
        (optimizer.get_slot(part, slot)._save_slice_info.full_name, part._save_slice_info.spec)
        for part in whole
        for slot in ("m", "v")
    ]
    assert specs == [
        ("w/Adam", "4 2 0,2:0,2"),
        ("w/Adam_1", "4 2 0,2:0,2"),
        ("w/Adam", "4 2 2,2:0,2"),
        ("w/Adam_1", "4 2 2,2:0,2"),
    ]


def test_the_train_op_is_named_after_the_optimizer_and_collected(graph: tf.Graph) -> None:
    w = tf.Variable([1.0], name="w")
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(w), global_step=step)
    assert (train.name, train.type) == ("GradientDescent", "AssignAdd")
    assert tf.get_collection(tf.GraphKeys.TRAIN_OP) == [train]
    update = graph.get_operation_by_name("GradientDescent/update_w/ApplyGradientDescent")
    assert update.type == "ApplyGradientDescent"


def test_gradients_can_be_changed_before_they_are_applied(use_resource: bool) -> None:
    w = tf.Variable([1.0, 2.0], use_resource=use_resource)
    unused = tf.Variable([1.0], use_resource=use_resource)
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    pairs = optimizer.compute_gradients(tf.reduce_sum(w * w), [w, unused])
    assert pairs[1][0] is None
    train = optimizer.apply_gradients([(g if g is None else g * 10.0, v) for g, v in pairs])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run(w).tolist() == [-19, -38]


def test_a_learning_rate_may_be_a_tensor_or_a_function() -> None:
    w = tf.Variable([1.0])
    rate = tf.placeholder(tf.float32, [])
    by_tensor = tf.train.GradientDescentOptimizer(rate).minimize(tf.reduce_sum(w))
    by_function = tf.train.GradientDescentOptimizer(lambda: 2.0).minimize(tf.reduce_sum(w))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(by_tensor, {rate: 0.25})
        assert session.run(w).tolist() == [0.75]
        session.run(by_function)
        assert session.run(w).tolist() == [-1.25]


def test_a_constraint_holds_after_every_step(use_resource: bool) -> None:
    w = tf.Variable([1.0, 2.0], constraint=lambda v: tf.maximum(v, 0.0), use_resource=use_resource)
    train = tf.train.GradientDescentOptimizer(1.5).minimize(tf.reduce_sum(w))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run(w).tolist() == [0, 0.5]


@pytest.mark.parametrize("gate", [0, 1, 2])
def test_every_way_to_gate_gradients_gives_the_same(gate: int) -> None:
    w = tf.Variable([1.0, 2.0])
    loss = tf.reduce_sum(w * w)
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss, gate_gradients=gate)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run(w).tolist() == [0, 0]


def test_what_cannot_be_trained_is_refused() -> None:
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    integers = tf.Variable([1])
    floats = tf.Variable([1.0])
    with pytest.raises(ValueError, match="No variables to optimize"):
        optimizer.minimize(tf.constant(1.0), var_list=[])
    with pytest.raises(ValueError, match="Invalid type"):
        optimizer.minimize(tf.reduce_sum(integers))
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        optimizer.minimize(tf.constant(1.0), var_list=[floats])
    with pytest.raises(ValueError, match="No variables provided"):
        optimizer.apply_gradients([])
    with pytest.raises(ValueError, match="gate_gradients must be one of"):
        optimizer.compute_gradients(tf.reduce_sum(floats), gate_gradients=7)
    with pytest.raises(ValueError, match="Must specify the optimizer name"):
        tf.train.GradientDescentOptimizer(0.1, name="")
    constrained = tf.Variable(np.ones((2, 2), np.float32), constraint=tf.abs)
    with pytest.raises(RuntimeError, match="constraint function on a sparse variable"):
        optimizer.minimize(tf.reduce_sum(tf.gather(constrained, [0])), var_list=[constrained])


def test_a_row_out_of_range_fails_a_sparse_update_and_writes_nothing(use_resource: bool) -> None:
    table = tf.Variable(np.ones((3, 2), np.float32), use_resource=use_resource)
    indices = tf.placeholder(tf.int32, [None])
    gradient = tf.IndexedSlices(tf.ones([2, 2]), indices)
    train = tf.train.MomentumOptimizer(1.0, 0.5).apply_gradients([(gradient, table)])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(errors.InvalidArgumentError, match="Index 3 at offset 1"):
            session.run(train, {indices: [0, 3]})
        np.testing.assert_array_equal(session.run(table)[1:], np.ones((2, 2)))
        session.run(train, {indices: [1, 1]})
        np.testing.assert_array_equal(session.run(table)[1], [-1, -1])


def test_a_sparse_gradient_that_names_a_row_twice_is_added_up_first() -> None:
    table = tf.Variable(np.zeros((3, 1), np.float32))
    gradient = tf.IndexedSlices(tf.constant([[1.0], [2.0], [4.0]]), tf.constant([2, 0, 2]))
    train = tf.train.AdagradOptimizer(1.0).apply_gradients([(gradient, table)])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        expected = [[-2 / np.sqrt(4.1)], [0], [-5 / np.sqrt(25.1)]]
        np.testing.assert_allclose(session.run(table), expected, rtol=1e-5)
