"""Groups between tasks are dissolved, so that word need not go through them."""

from __future__ import annotations

import millrace as tf
from millrace.passes.fewer_messages import after, dissolve_groups, is_little
from millrace.passes.node import Edge, Setting
from millrace.passes.prune import prune

HOME, PS = "/job:worker/replica:0/task:0", "/job:ps/replica:0/task:0"


def program(fetches, targets=(), device=PS):
    made = prune(list(fetches), list(targets), [], Setting(home=HOME))
    for node in made.nodes:
        node.device = node.device or device
    return made


def grouped():
    a, b = tf.no_op(name="a"), tf.no_op(name="b")
    group = tf.group(a, b, name="group")
    given = tf.placeholder_with_default(1.0, [])
    with tf.control_dependencies([group]):
        return tf.identity(given, name="after"), group


def test_who_waits_for_a_group_waits_for_its_members():
    fetched, _ = grouped()
    found = dissolve_groups(program([fetched]))
    (user,) = (node for node in found.nodes if node.name == "after")
    assert [control.name for control in user.controls] == ["a", "b"]
    assert "group" not in {node.name for node in found.nodes}


def test_a_group_that_is_asked_for_stays():
    fetched, group = grouped()
    found = dissolve_groups(program([fetched], [group]))
    assert "group" in {node.name for node in found.nodes}


def test_on_one_task_there_is_nothing_to_save():
    fetched, _ = grouped()
    given = program([fetched], device=HOME)
    assert dissolve_groups(given) is given


def test_little_is_what_surely_has_few_bytes():
    small = prune([tf.zeros([16, 4]) + 1.0], [], []).results[0]
    large = prune([tf.zeros([1024, 1024]) + 1.0], [], []).results[0]
    unknown = prune([tf.placeholder(tf.float32, [None]) + 1.0], [], []).results[0]
    assert is_little(small) and not is_little(large) and not is_little(unknown)
    assert not is_little(Edge(small.node, 7))


def test_after_are_the_nodes_and_all_that_wait_for_them():
    a = tf.placeholder_with_default(1.0, [], name="a")
    b = tf.negative(a, name="b")
    c = tf.negative(b, name="c")
    other = tf.negative(a, name="other")
    nodes = {node.name: node for node in prune([c, other], [], []).nodes}
    order = [nodes[name] for name in ("a", "b", "other", "c")]
    assert after({nodes["b"]}, order) == {nodes["b"], nodes["c"]}
