"""The order of a program's nodes, and the stages that they are grouped into."""

from __future__ import annotations

import millrace as tf
from millrace.passes.constants import detach_constants
from millrace.passes.grouping import group_stages, order_nodes
from millrace.passes.node import Setting
from millrace.passes.prune import prune


def test_nodes_of_one_age_go_by_name():
    a, b = tf.no_op(name="a"), tf.no_op(name="b")
    program = prune([], [b, a], [])
    for node in program.nodes:
        node.order = 7
    assert [node.name for node in order_nodes(program).nodes] == ["a", "b"]
    assert [node.name for node in program.nodes] == ["b", "a"]


def test_pure_nodes_share_a_stage_and_what_is_not_compilable_has_its_own():
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.negative(x, name="y")
    z = tf.negative(tf.exp(y, name="exp"), name="z")
    setting = Setting(compilable=lambda program: lambda node: node.name != "exp")
    program = order_nodes(detach_constants(prune([z], [], [x], setting)))
    stages = group_stages(program).stages
    assert stages is not None and program.stages is None
    assert [([n.name for n in s.nodes], s.compiled) for s in stages] == [
        (["y"], True),
        (["exp"], False),
        (["z"], True),
    ]


def test_feeds_that_come_one_by_one_keep_stages_apart():
    x, y = (tf.placeholder(tf.float32, [], name=name) for name in "xy")
    fetched = [tf.negative(x, name="a"), tf.negative(y, name="b")]
    for one_by_one, count in ((False, 1), (True, 2)):
        setting = Setting(feeds_one_by_one=one_by_one)
        program = group_stages(order_nodes(prune(fetched, [], [x, y], setting)))
        assert program.stages is not None and len(program.stages) == count
