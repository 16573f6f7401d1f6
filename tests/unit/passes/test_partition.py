"""Partitioning: what goes to which task, where TensorFlow 1.x control flow rules."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.ops import frames as v1
from millrace.passes.partition import Part, partition
from millrace.passes.program_def import from_graph_def, to_graph_def
from millrace.passes.prune import prune
from millrace.server.master import task_of

HOME = "/job:worker/replica:0/task:0"
OTHER = "/job:ps/replica:0/task:0"


def parts_of(fetches: list[Any], feeds: list[Any]) -> dict[str, Part]:
    program = prune(fetches, [], feeds)
    for node in program.nodes:
        node.device = node.device or f"{HOME}/device:CPU:0"
    return partition(program, task_of, HOME)


def types(part: Part) -> list[str]:
    return sorted(node.type for node in part.program.nodes)


def conditional_of_constants() -> tuple[Any, Any, Any]:
    """TensorFlow's v1 ``tf.cond(p, lambda: 1.0, lambda: 2.0)``, merged on another task."""
    p = tf.placeholder(tf.bool, [])
    off, on = v1.Switch(p, p)
    with tf.control_dependencies([tf.identity(on)]):
        one = tf.constant(1.0)
    with tf.control_dependencies([tf.identity(off)]):
        two = tf.constant(2.0)
    with tf.device(f"{OTHER}/device:CPU:0"):
        merged, _ = v1.Merge([two, one])
    return p, merged, (one, two)


def test_a_constant_of_a_branch_is_sent_since_it_may_be_dead() -> None:
    with tf.Graph().as_default():
        p, merged, _ = conditional_of_constants()
        parts = parts_of([merged], [p])
    assert types(parts[HOME]).count("Const") == 2
    assert types(parts[OTHER]) == ["Merge", "_ReceiveTensors"]


def test_a_constant_that_waits_for_nothing_is_not_sent() -> None:
    with tf.Graph().as_default():
        c = tf.constant(1.0)
        with tf.device(f"{OTHER}/device:CPU:0"):
            y = tf.negative(c)
        parts = parts_of([y], [])
    assert types(parts[OTHER]) == ["Neg"]


def test_a_message_keeps_what_a_constant_of_a_branch_waits_for() -> None:
    with tf.Graph().as_default():
        p, merged, _ = conditional_of_constants()
        home = parts_of([merged], [p])[HOME]
        program = from_graph_def(to_graph_def(home.program))
    constants = [node for node in program.nodes if node.type == "Const"]
    assert [len(node.controls) for node in constants] == [1, 1]


def test_a_message_says_nothing_of_colocation() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        with tf.colocate_with(x):
            y = tf.negative(x)
        message = to_graph_def(parts_of([y], [x])[HOME].program)
    assert all("_class" not in node.attr for node in message.node)
