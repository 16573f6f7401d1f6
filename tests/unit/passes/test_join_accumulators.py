"""Which operations on accumulators become one, and which must not."""

from __future__ import annotations

import millrace as tf
from millrace.passes.constants import detach_constants
from millrace.passes.grouping import order_nodes
from millrace.passes.join_accumulators import (
    APPLY,
    TAKE,
    absorb_handles,
    absorbed_handles,
    join_accumulators,
)
from millrace.passes.prune import prune


def accumulators(count, kind=tf.float32):
    return [tf.ConditionalAccumulator(kind, [2], shared_name=f"a{i}") for i in range(count)]


def joined(fetches=(), targets=(), feeds=()):
    """The program after the pass."""
    program = prune(list(fetches), list(targets), list(feeds))
    return join_accumulators(order_nodes(detach_constants(program)))


def members(program, definition):
    """The names of the nodes that were joined, by group."""
    return [[m.name for m in n.members] for n in program.nodes if n.definition is definition]


def test_what_a_step_applies_to_several_accumulators_is_one_node_without_handles():
    x = tf.placeholder(tf.float32, [2])
    pushes = [a.apply_grad(x * i, name=f"push{i}") for i, a in enumerate(accumulators(3))]
    program = joined(targets=pushes, feeds=[x])
    assert members(program, APPLY) == [["push0", "push1", "push2"]]
    assert not [n for n in program.nodes if n.type.endswith("ConditionalAccumulator")]
    assert len(program.targets) == 3 and len({*program.targets}) == 1


def test_what_a_step_takes_is_one_node_and_its_users_get_their_own_outputs():
    takes = [a.take_grad(1, name=f"take{i}") for i, a in enumerate(accumulators(2))]
    (indices, values, _) = tf.SparseConditionalAccumulator(
        tf.float32, [None, 2], shared_name="rows"
    ).take_grad(1, name="rows")
    program = joined([values, takes[1], indices, takes[0]])
    assert members(program, TAKE) == [["take0", "take1", "rows"]]
    assert [edge.index for edge in program.results] == [3, 1, 2, 0]
    assert [edge.dtype for edge in program.results] == [
        t.dtype for t in (values, takes[1], indices, takes[0])
    ]


def test_a_handle_that_is_fetched_stays():
    (a,) = accumulators(1)
    program = joined([a.accumulator_ref], [a.apply_grad([1.0, 2.0])])
    assert [n.name for n in program.nodes if n.type.endswith("ConditionalAccumulator")] == [
        a.accumulator_ref.op.name
    ]


def test_applies_that_wait_for_different_things_stay_apart():
    queues = [tf.FIFOQueue(1, tf.float32, [[2]], shared_name=f"q{i}") for i in range(2)]
    pushes = [
        a.apply_grad(q.dequeue(), name=f"push{i}")
        for i, (a, q) in enumerate(zip(accumulators(2), queues, strict=True))
    ]
    assert members(joined(targets=pushes), APPLY) == [["push0"], ["push1"]]


def test_an_apply_that_follows_another_is_not_joined_to_it():
    a, b = accumulators(2)
    with tf.control_dependencies([a.apply_grad([1.0, 1.0], name="first")]):
        second = b.apply_grad([2.0, 2.0], name="second")
    assert members(joined(targets=[second]), APPLY) == [["first"], ["second"]]


def test_updates_of_variables_may_follow_some_of_the_takes():
    """TensorFlow's own optimizer for synchronous replicas updates each as its gradient comes."""
    updates = []
    for i, a in enumerate(accumulators(2)):
        updates.append(tf.Variable([0.0, 0.0]).assign_sub(a.take_grad(1, name=f"take{i}")).op)
    assert members(joined(targets=updates), TAKE) == [["take0", "take1"]]


def test_takes_stay_apart_when_something_acts_after_one_of_them():
    a, b = accumulators(2)
    first = a.take_grad(1, name="first")
    hand_on = b.apply_grad(first, name="hand_on")
    second = b.take_grad(1, name="second")
    assert members(joined([second], [hand_on]), TAKE) == [["first"], ["second"]]


def test_a_queue_whose_users_look_it_up_needs_no_node():
    queue = tf.FIFOQueue(3, tf.float32, [[]], shared_name="q")
    other = tf.FIFOQueue(3, tf.float32, [[]], shared_name="other")
    other.queue_ref.op._add_control_input(tf.no_op(name="before"))
    program = prune([queue.dequeue(), other.dequeue(name="late")], [], [])
    program = absorb_handles(program)
    absorbed = {queue.name, other.queue_ref.op.name}
    assert {n.name for n in absorbed_handles(program)} == absorbed
    assert not [n for n in program.nodes if n.type == "FIFOQueueV2"]
    (late,) = [n for n in program.nodes if n.name == "late"]
    assert [n.name for n in late.controls] == ["before"]


def test_a_queue_that_others_use_keeps_its_node():
    queue = tf.FIFOQueue(3, tf.float32, [[]], shared_name="q")
    program = prune([queue.dequeue(), tf.identity(queue.queue_ref)], [], [])
    assert absorb_handles(program) is program
