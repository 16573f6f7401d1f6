"""From fetches, targets and feeds to the nodes that a step needs."""

from __future__ import annotations

from typing import Any

import pytest

import millrace as tf
from millrace.ops.state import variable_ops
from millrace.passes.prune import prune


def names(program: Any) -> set[str]:
    return {node.name for node in program.nodes}


def test_only_what_the_fetches_need_is_kept() -> None:
    a, b = tf.placeholder(tf.float32, [], name="a"), tf.placeholder(tf.float32, [], name="b")
    c = tf.negative(a, name="c")
    tf.negative(b, name="d")
    program = prune([c], [], [])
    assert names(program) == {"a", "c"}
    assert [edge.name for edge in program.results] == ["c:0"]


def test_targets_and_control_inputs_are_needed_too() -> None:
    a = tf.no_op(name="a")
    with tf.control_dependencies([a]):
        b = tf.no_op(name="b")
    c = tf.no_op(name="c")
    program = prune([], [b, c], [])
    assert names(program) == {"a", "b", "c"}
    assert [node.name for node in program.targets] == ["b", "c"]
    (node,) = (n for n in program.nodes if n.name == "b")
    assert [control.name for control in node.controls] == ["a"]


def test_the_graph_is_cut_at_fed_tensors() -> None:
    a = tf.placeholder(tf.float32, [], name="a")
    b = tf.negative(a, name="b")
    c = tf.negative(b, name="c")
    program = prune([c, b], [], [b])
    assert names(program) == {"c"}
    (argument,) = program.arguments
    assert program.results[1] == argument
    assert program.nodes[0].inputs == [argument]
    assert argument.dtype == tf.float32


def test_other_outputs_of_a_node_with_a_fed_one_are_computed() -> None:
    first, second = tf.split(tf.constant([1.0, 2.0]), 2, name="s")
    program = prune([tf.add(first, second, name="t")], [], [first])
    (total,) = (n for n in program.nodes if n.name == "t")
    assert [edge.node.type for edge in total.inputs] == ["_Arg", "Split"]


def test_a_fed_placeholder_is_nothing_to_wait_for() -> None:
    a = tf.placeholder(tf.float32, [], name="a")
    with tf.control_dependencies([a]):
        b = tf.no_op(name="b")
    assert names(prune([], [b], [a])) == {"b"}
    # Another fed op may have effects that b was told to wait for.
    with tf.control_dependencies([tf.negative(a, name="n")]):
        c = tf.no_op(name="c")
    assert names(prune([], [c], [c.graph.get_tensor_by_name("n:0"), a])) == {"c", "n"}


def test_nodes_keep_device_order_types_and_origin() -> None:
    with tf.device("/cpu:1"):
        v = tf.Variable(1.0, name="v", use_resource=False)
    (node,) = prune([], [v.op], []).nodes
    assert node.device == "/device:CPU:1"
    assert node.output_types[0]._is_ref_dtype
    assert node.source is v.op and node.order == v.op._id


def test_a_fetch_that_is_fetched_twice_is_one_node() -> None:
    a = tf.constant(1.0)
    program = prune([a, a], [a.op], [])
    assert len(program.nodes) == 1
    assert program.results[0] == program.results[1]


def test_operations_of_one_shared_name_are_one_variable() -> None:
    make = variable_ops.VarHandleOp
    x, y = (make(shape=[], dtype=tf.float32, shared_name="v", name=n) for n in "xy")
    named, other = (
        make(shape=[], dtype=tf.float32, name="v"),
        make(shape=[], dtype=tf.float32, container="box", shared_name="v", name="other"),
    )
    program = prune([x, y, named, other], [], [])
    assert len(program.nodes) == 2
    assert program.results[0] == program.results[1] == program.results[2]
    wrong = make(shape=[], dtype=tf.int32, shared_name="v", name="wrong")
    with pytest.raises(tf.errors.InvalidArgumentError, match="has type float32, not int32"):
        prune([x, wrong], [], [])
