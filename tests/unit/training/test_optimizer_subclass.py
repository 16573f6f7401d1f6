"""Optimizers that programs write themselves, and what a step of any optimizer costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millrace as tf


class SignDescent(tf.train.Optimizer):
    """Uses every hook that TensorFlow documents for subclasses, and notes the calls."""

    def __init__(self, rate, use_locking=False, name="SignDescent"):
        super().__init__(use_locking, name)
        self._rate = rate
        self.calls = []

    def _create_slots(self, var_list):
        self.calls.append("slots")
        for v in var_list:
            self._zeros_slot(v, "count", self._name)
            self._get_or_make_slot(v, tf.ones(v.shape), "one", "One")
            self._get_or_make_slot_with_initializer(
                v, tf.constant_initializer(3.0), v.shape, tf.float32, "three", "Three"
            )
        first = min(var_list, key=lambda v: v.name)
        self._create_non_slot_variable(initial_value=0.0, name="steps", colocate_with=first)

    def _prepare(self):
        self.calls.append("prepare")
        self._rate_tensor = tf.convert_to_tensor(self._call_if_callable(self._rate), name="rate")

    def _apply_dense(self, grad, var):
        self.calls.append(f"dense {var.op.name}")
        return tf.assign_sub(var, self._rate_tensor * tf.sign(grad)).op

    def _resource_apply_dense(self, grad, var):
        self.calls.append(f"resource dense {var.op.name}")
        return var.assign_sub(self._rate_tensor * tf.sign(grad), read_value=False)

    def _apply_sparse(self, grad, var):
        self.calls.append(f"sparse {var.op.name}")
        return tf.scatter_sub(var, grad.indices, self._rate_tensor * tf.sign(grad.values)).op

    def _resource_apply_sparse(self, grad, var, indices):
        self.calls.append(f"resource sparse {var.op.name}")
        updates = -self._rate_tensor * tf.sign(grad)
        return tf.raw_ops.ResourceScatterAdd(resource=var.handle, indices=indices, updates=updates)

    def _finish(self, update_ops, name_scope):
        self.calls.append("finish")
        steps = self._get_non_slot_variable("steps", graph=tf.get_default_graph())
        with tf.control_dependencies(update_ops):
            counted = steps.assign_add(1.0, read_value=False)
        return tf.group(*update_ops, counted, name=name_scope)

    def _valid_dtypes(self):
        return {tf.float32}


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_a_subclass_is_asked_for_each_kind_of_gradient(use_resource: bool) -> None:
    table = tf.Variable(np.ones((4, 2), np.float32), name="table", use_resource=use_resource)
    bias = tf.Variable([1.0, -2.0], name="bias", use_resource=use_resource)
    optimizer = SignDescent(lambda: 0.5)
    train = optimizer.minimize(tf.reduce_sum(tf.gather(table, [0, 1, 1]) * bias))
    kind = "resource " if use_resource else ""
    assert optimizer.calls == [
        "slots",
        "prepare",
        f"{kind}sparse table",
        f"{kind}dense bias",
        "finish",
    ]
    assert train.name == "SignDescent"
    assert optimizer.get_slot_names() == ["count", "one", "three"]
    assert [v.name for v in optimizer.variables()] == [
        "bias/One:0",
        "bias/SignDescent:0",
        "bias/Three:0",
        "steps:0",
        "table/One:0",
        "table/SignDescent:0",
        "table/Three:0",
    ]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        rows, values = session.run([table, bias])
        # Rows that occur twice are summed before: the sign is that of the sum.
        np.testing.assert_allclose(rows, [[0.5, 1.5], [0.5, 1.5], [1, 1], [1, 1]])
        np.testing.assert_allclose(values, [0.5, -2.5])
        steps = optimizer._get_non_slot_variable("steps", graph=tf.get_default_graph())
        assert session.run(steps) == 1
        assert session.run(optimizer.get_slot(table, "three")).tolist() == [[3, 3]] * 4


def test_a_subclass_says_which_types_it_takes() -> None:
    doubles = tf.Variable(np.ones(3), name="doubles")
    with pytest.raises(ValueError, match=r"Invalid type tf.float64 for .*: \[tf.float32\]"):
        SignDescent(0.1).minimize(tf.reduce_sum(doubles))


def test_a_subclass_without_the_hook_that_is_needed_says_so() -> None:
    class Nothing(tf.train.Optimizer):
        pass

    v = tf.Variable([1.0])
    with pytest.raises(NotImplementedError):
        Nothing(False, "Nothing").minimize(tf.reduce_sum(v))


def test_a_wrapper_can_change_gradients_on_their_way() -> None:
    class Clipped(tf.train.GradientDescentOptimizer):
        def apply_gradients(self, grads_and_vars, global_step=None, name=None):
            pairs = [(tf.clip_by_norm(g, 1.0), v) for g, v in grads_and_vars]
            return super().apply_gradients(pairs, global_step, name)

    v = tf.Variable([3.0, 4.0])
    train = Clipped(1.0).minimize(tf.reduce_sum(v * v))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        np.testing.assert_allclose(session.run(v), [2.4, 3.2], rtol=1e-6)


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "GradientDescent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "Momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.5, use_nesterov=True),
    "Adam": lambda: tf.train.AdamOptimizer(0.1),
    "Adagrad": lambda: tf.train.AdagradOptimizer(0.5),
    "AdagradDA": lambda: tf.train.AdagradDAOptimizer(0.5, tf.train.get_or_create_global_step()),
    "Adadelta": lambda: tf.train.AdadeltaOptimizer(5.0),
    "RMSProp": lambda: tf.train.RMSPropOptimizer(0.1, centered=True),
    "Ftrl": lambda: tf.train.FtrlOptimizer(0.5),
    "ProximalGradientDescent": lambda: tf.train.ProximalGradientDescentOptimizer(0.1),
    "ProximalAdagrad": lambda: tf.train.ProximalAdagradOptimizer(0.5),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_all_updates_of_a_step_are_one_xla_call(name: str) -> None:
    """Dense ones and those of repeated rows, with the averages and the global step."""
    kernel = tf.Variable(np.ones((3, 2), np.float32), use_resource=True)
    bias = tf.Variable(np.ones(2, np.float32))
    table = tf.Variable(np.ones((5, 3), np.float32))
    ids = tf.placeholder(tf.int32, [None])
    loss = tf.reduce_sum(tf.square(tf.matmul(tf.gather(table, ids), kernel) + bias))
    step = tf.train.get_or_create_global_step()
    train = OPTIMIZERS[name]().minimize(loss, global_step=step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, {ids: [1, 3, 1]})
        before = session._backend.xla_calls
        session.run(train, {ids: [2, 2, 4]})
        assert session._backend.xla_calls - before == 1
