"""Constants outside the order of execution, and those that wait."""

from __future__ import annotations

import numpy as np

import millrace as tf
from millrace.passes.constants import bind_waiting_constants, detach_constants
from millrace.passes.node import Node, Program
from millrace.passes.prune import prune
from millrace.passes.rendezvous import RECEIVES
from tests.cluster.test_split_loops import Builder


def names(nodes):
    return sorted(node.name for node in nodes)


def test_what_a_constant_waits_for_its_users_wait_for():
    first = tf.no_op(name="first")
    with tf.control_dependencies([first]):
        constant = tf.constant(3.0, name="constant")
    program = detach_constants(prune([tf.negative(constant, name="user")], [], []))
    assert names(program.nodes) == ["first", "user"]
    (user,) = (node for node in program.nodes if node.name == "user")
    assert names(user.controls) == ["first"] and user.inputs[0].node.type == "Const"


def test_a_chain_of_constants_that_wait_for_each_other_is_followed_to_its_end():
    first = tf.no_op(name="first")
    with tf.control_dependencies([first]):
        one = tf.constant(1.0)
    with tf.control_dependencies([one]):
        other = tf.constant(2.0)
    program = detach_constants(prune([tf.negative(other, name="user")], [], []))
    (user,) = (node for node in program.nodes if node.name == "user")
    assert names(user.controls) == ["first"]


def test_in_a_loop_of_tf1_a_constant_that_waits_stays():
    build = Builder()
    build.device = ""
    build.constant("start", np.int32(0))
    build.constant("limit", np.int32(3))
    build.count("i", "loop", "start", "limit")
    build.done()
    fetched = tf.get_default_graph().get_tensor_by_name("i/exit:0")
    program = detach_constants(prune([fetched], [], []))
    assert [node.name for node in program.nodes if node.type == "Const"] == ["i/one"]


def received() -> Node:
    attrs = {
        "tensor_type": tf.float32,
        "tensor_name": b"x",
        "send_device": b"/job:ps/task:0",
        "send_device_incarnation": 1,
        "recv_device": b"/job:worker/task:0",
        "client_terminated": False,
    }
    return Node("received", RECEIVES[0], attrs)


def test_behind_a_receive_of_tensorflows_a_constant_that_waits_can_be_dead():
    given = prune([tf.constant(3.0, name="constant")], [], [])
    (constant,) = given.nodes
    receive = received()
    constant.controls = [receive]
    program = Program([receive, constant], [], given.results, [receive])
    bound = bind_waiting_constants(program)
    (result,) = bound.results
    assert result.node.type == "Identity" and result.node.controls == [bound.nodes[0]]
    assert result.node.inputs[0].node.controls == []
    assert bind_waiting_constants(given) is given  # Nothing in it can be dead.
