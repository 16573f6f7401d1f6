"""What a partition sends last goes with the message that it is over, if nothing comes after."""

from __future__ import annotations

import millrace as tf
from millrace.passes.node import Setting
from millrace.passes.partition import partition
from millrace.passes.prune import prune
from millrace.passes.send_last import send_last
from millrace.passes.transfer import SEND

HOME, PS = "/job:worker/replica:0/task:0", "/job:ps/replica:0/task:0"


def last_sends(fetches, targets=(), **setting):
    program = prune(list(fetches), list(targets), [], Setting(home=HOME, **setting))
    for node in program.nodes:
        node.device = node.device or HOME
    found = send_last(partition(program))
    return [node.attrs["last"] for node in found.nodes if node.definition is SEND]


def updated():
    with tf.device(PS):
        v = tf.Variable(1.0, name="v")
        return tf.identity(tf.assign_add(v, 1.0)), v


def test_a_message_after_all_that_a_partition_does_is_the_last():
    value, _ = updated()
    assert last_sends([value * 2.0]) == [True]


def test_a_message_before_something_that_has_effects_is_not():
    with tf.device(PS):
        early = tf.placeholder_with_default(1.0, [], name="early")
        queue = tf.FIFOQueue(3, tf.float32, [[]])
        enqueue = queue.enqueue(2.0)
    assert last_sends([early * 2.0], [enqueue]) == [False]


def test_in_a_partial_run_nothing_is_the_last():
    value, _ = updated()
    assert last_sends([value * 2.0], feeds_one_by_one=True) == [False]
