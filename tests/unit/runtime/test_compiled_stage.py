"""Compiled stages: one XLA call, variables in place, and what happens with many shapes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.graph import registry
from millrace.graph.define import op
from millrace.ops.state import variable_ops
from millrace.passes.prune import prune
from millrace.runtime import executor, tiers
from millrace.runtime.compiled_stage import CompiledStage
from millrace.runtime.plan import Plan
from millrace.runtime.planning import plan_of
from millrace.runtime.resources import ResourceStore
from millrace.runtime.step import SessionState, Step


class Runner:
    """Runs plans with one store, and tells how many XLA programs the last step called."""

    def __init__(self) -> None:
        self.state = SessionState(ResourceStore())
        self.xla_calls = 0

    def plan(self, fetches: Any = (), targets: Any = (), feeds: Any = ()) -> Plan:
        return plan_of(prune(list(fetches), list(targets), list(feeds)))

    def run(self, plan: Plan, *values: Any) -> list[Any]:
        step = Step(self.state, executor.run_values)
        try:
            return executor.run(plan, step, [np.asarray(v) for v in values])
        finally:
            self.xla_calls = step.xla_calls

    def once(self, fetches: Any = (), targets: Any = ()) -> list[Any]:
        return self.run(self.plan(fetches, targets))


@pytest.fixture
def runner() -> Runner:
    return Runner()


@pytest.fixture
def odd_op() -> Iterator[Any]:
    """An op whose kernel states a condition for long inputs only."""

    @op(
        "TestChecksLongInputs(x: float32) -> y: float32",
        shape=lambda c: c.shape(0),
        gradient=registry.NO_GRADIENT,
    )
    def TestChecksLongInputs(x: Any, *, check: Any) -> Any:
        if x.shape[0] > 2:
            check(x > 0, lambda found: f"{found.tolist()} are not positive", x)
        return x * 2

    yield TestChecksLongInputs
    del registry._definitions["TestChecksLongInputs"]


def test_forward_and_backward_are_one_xla_call(runner: Runner) -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    w = tf.Variable(tf.ones([3, 2]))
    loss = tf.reduce_mean(tf.square(tf.tanh(tf.matmul(x, w))))
    update = tf.assign_sub(w, 0.1 * tf.gradients(loss, w)[0])
    runner.once(targets=[w.initializer])
    plan = runner.plan([loss], [update.op], [x])
    runner.run(plan, np.ones((4, 3), np.float32))
    stages = [each for each in plan.stages if isinstance(each, CompiledStage) and not each.is_empty]
    assert runner.xla_calls == len(stages) == 1


def test_conditions_belong_to_the_shape_that_they_were_stated_for(
    runner: Runner, odd_op: Any
) -> None:
    x = tf.placeholder(tf.float32, [None])
    plan = runner.plan([odd_op(x)], feeds=[x])
    long, short = np.array([1, 2, 3], np.float32), np.array([-1, 2], np.float32)
    assert runner.run(plan, long)[0].tolist() == [2, 4, 6]
    assert runner.run(plan, short)[0].tolist() == [-2, 4]
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"\[1.0, -2.0, 3.0\] are not positive"
    ):
        runner.run(plan, np.array([1, -2, 3], np.float32))
    assert runner.run(plan, short)[0].tolist() == [-2, 4]
    assert runner.run(plan, long)[0].tolist() == [2, 4, 6]


def test_after_many_shapes_new_ones_are_not_compiled_and_old_ones_still_are(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "MAX_PROGRAMS", 4)
    x = tf.placeholder(tf.float32, [None])
    plan = runner.plan([tf.reduce_sum(x * 2.0)], feeds=[x])

    def calls(length: int) -> int:
        assert runner.run(plan, np.ones(length, np.float32)) == [2.0 * length]
        return runner.xla_calls

    assert [calls(n) for n in range(1, 8)] == [1, 1, 1, 1, 0, 0, 0]
    assert [calls(n) for n in (1, 4)] == [1, 1], "what was compiled is used"
    assert calls(9) == 0


def test_after_many_values_that_decide_shapes_new_ones_are_not_compiled(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "MAX_PROGRAMS", 3)
    n = tf.placeholder(tf.int32, [1])
    x = tf.placeholder(tf.float32, [])
    plan = runner.plan([tf.fill(n, x)], feeds=[n, x])

    def calls(length: int) -> int:
        (result,) = runner.run(plan, np.array([length], np.int32), np.float32(2))
        assert result.tolist() == [2.0] * length
        return runner.xla_calls

    assert [calls(n) for n in (1, 2, 3, 4, 2, 5)] == [1, 1, 1, 0, 1, 0]


def test_interpreted_stages_update_variables_and_state_conditions_too(
    runner: Runner, odd_op: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "MAX_PROGRAMS", 0)
    v = tf.Variable(1.0)
    x = tf.placeholder(tf.float32, [None])
    runner.once(targets=[v.initializer])
    plan = runner.plan([odd_op(x)], [tf.assign_add(v, 1.0).op], [x])
    runner.run(plan, np.array([1, 2, 3], np.float32))
    assert runner.xla_calls == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="are not positive"):
        runner.run(plan, np.array([1, -2, 3], np.float32))
    assert runner.once([v.value()])[0] in (2.0, 3.0)


def test_a_value_read_earlier_never_changes(runner: Runner) -> None:
    v = tf.Variable(tf.zeros([4]))
    runner.once(targets=[v.initializer])
    read = runner.plan([v.value()])
    update = runner.plan(targets=[tf.assign_add(v, tf.ones([4])).op])
    earlier = [runner.run(read)[0]]
    for _ in range(3):
        runner.run(update)
        earlier.append(runner.run(read)[0])
    assert [value.tolist() for value in earlier] == [[float(i)] * 4 for i in range(4)]


def test_plans_survive_that_their_variables_are_dropped_and_made_in_another_order(
    runner: Runner,
) -> None:
    a, b = tf.Variable(1.0, name="a"), tf.Variable(10.0, name="b")
    set_both = runner.plan(targets=[a.initializer, b.initializer])
    both = runner.plan(targets=[tf.assign_add(a, 1.0).op, tf.assign_add(b, 1.0).op])
    read = runner.plan([a.value(), b.value()])
    runner.run(set_both)
    runner.run(both)
    assert runner.run(read) == [2.0, 11.0]
    for order in ("ab", "ba"):
        runner.state.resources.clear()
        for name in order:
            runner.state.resources.variable("", name)
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
            runner.run(both)
        runner.run(set_both)
        runner.run(both)
        assert runner.run(read) == [2.0, 11.0]


@pytest.mark.parametrize("by_handle", [False, True])
def test_two_nodes_may_be_the_same_variable(runner: Runner, by_handle: bool) -> None:
    make = variable_ops.VarHandleOp if by_handle else variable_ops.VariableV2
    refs = [make(shape=[], dtype=tf.float32, shared_name="v", name=n) for n in ("x", "y")]
    assign = variable_ops.AssignVariableOp if by_handle else variable_ops.Assign
    add = variable_ops.AssignAddVariableOp if by_handle else variable_ops.AssignAdd
    runner.once(targets=[assign.operation(refs[0], 1.0)])
    first = add.operation(refs[0], 1.0)
    with tf.control_dependencies([first]):
        second = add.operation(refs[1], 10.0)
    with tf.control_dependencies([second]):
        read = (
            variable_ops.ReadVariableOp(refs[0], dtype=tf.float32)
            if by_handle
            else tf.identity(refs[0])
        )
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.extend(runner.once([read])), daemon=True)
    thread.start()
    thread.join(60)
    assert outcome == [12.0]


def test_a_failing_step_leaves_variables_readable(runner: Runner) -> None:
    v = tf.Variable([1.0, 2.0])
    x = tf.placeholder(tf.float32, [2])
    runner.once(targets=[v.initializer])
    plan = runner.plan(targets=[tf.assign_add(v, tf.check_numerics(x, "bad")).op], feeds=[x])
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
        runner.run(plan, np.array([np.nan, 1], np.float32))
    runner.once(targets=[v.initializer])
    runner.run(plan, np.array([1, 1], np.float32))
    assert runner.once([v.value()])[0].tolist() == [2.0, 3.0]


def test_variables_of_one_shape_are_updated_in_their_own_buffers(runner: Runner) -> None:
    a, b = tf.Variable(tf.zeros([3])), tf.Variable(tf.ones([3]))
    runner.once(targets=[a.initializer, b.initializer])
    first = tf.assign_add(b, tf.square(a + 1.0))
    with tf.control_dependencies([first]):
        second = tf.assign_add(a, [2.0, 2.0, 2.0])
    plan = runner.plan(targets=[second.op])
    (stage,) = [s for s in plan.stages if not s.is_empty]
    assert [v.name for v in stage.variables.read] != [v.name for v in stage.variables.written]
    runner.run(plan)
    # JAX pairs donated buffers and results of one shape by their order.
    assert stage._form.written == stage._form.donated
    assert [v.tolist() for v in runner.once([a.value(), b.value()])] == [[2] * 3, [2] * 3]
