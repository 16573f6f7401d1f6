"""Taking a program apart: which partition gets which arguments, results, targets and keys."""

from __future__ import annotations

import millrace as tf
from millrace.passes import pipeline
from millrace.passes.node import Setting
from millrace.passes.partitions import split
from millrace.passes.prune import prune

HOME, PS = "/job:worker/replica:0/task:0", "/job:ps/replica:0/task:0"
DEVICES = (f"{HOME}/device:CPU:0", f"{PS}/device:CPU:0")


def parts(fetches, targets=(), feeds=(), **setting):
    whole = prune(
        list(fetches), list(targets), list(feeds), Setting(devices=DEVICES, home=HOME, **setting)
    )
    return split(pipeline.for_cluster(whole))


def test_there_is_always_a_partition_for_home():
    with tf.device(PS):
        found = parts([tf.placeholder_with_default(1.0, []) * 2.0])
    assert set(found) == {HOME, PS}
    assert not found[HOME].program.nodes and found[PS].results == [0]


def test_each_task_is_given_what_it_needs_and_returns_what_it_makes():
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.placeholder(tf.float32, [], name="y")
    with tf.device(PS):
        there = x * 2.0
    here = y * 3.0
    found = parts([there, here], feeds=[x, y])
    assert (found[PS].arguments, found[PS].results) == ([0], [0])
    assert (found[HOME].arguments, found[HOME].results) == ([1], [1])


def test_in_a_partial_run_home_is_given_everything_and_returns_everything():
    x = tf.placeholder(tf.float32, [], name="x")
    with tf.device(PS):
        there = x * 2.0
    found = parts([there], feeds=[x], feeds_one_by_one=True)
    assert found[HOME].arguments == [0] and found[HOME].results == [0]
    assert not found[PS].arguments and not found[PS].results
    assert found[HOME].sends_to == [PS] and found[PS].sends_to == [HOME]


def test_a_training_step_defers_the_partition_of_the_parameter_server():
    with tf.device(PS):
        v = tf.Variable(1.0, name="v")
    gradient = tf.identity(v) * 2.0
    with tf.device(PS):
        update = tf.assign_sub(v, gradient).op
    (part,) = (part for task, part in parts([], [update]).items() if task == PS)
    assert part.first_key is not None and len(part.read_keys) == 1
    assert part.first_key not in part.read_keys and part.targets == [0]
