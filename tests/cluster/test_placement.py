"""Devices of a cluster: what is asked for, what there is, and what is printed."""

import numpy as np
import pytest

import millrace as tf


def device_of(sess, tensor):
    metadata = tf.RunMetadata()
    options = tf.RunOptions(output_partition_graphs=True)
    sess.run(tensor, options=options, run_metadata=metadata)
    return {
        node.name: node.device for graph in metadata.partition_graphs for node in graph.node
    }.get(tensor.op.name)


def test_partial_devices_are_filled_in(cluster):
    with tf.device("/job:ps"):
        a = tf.placeholder_with_default(1.0, []) + 1
    with tf.device("/task:1"):
        b = a * 2
    with tf.device("/cpu:0"):
        c = b * 2
    with tf.Session(cluster.target("worker")) as sess:
        assert sess.run(c) == 8
        assert device_of(sess, a) == "/job:ps/replica:0/task:0/device:CPU:0"
        assert device_of(sess, c) == "/job:worker/replica:0/task:0/device:CPU:0"


def test_a_gpu_that_is_not_there_falls_back_with_soft_placement(any_target):
    with tf.device("/job:ps/task:0/gpu:0"):
        v = tf.Variable(1.0)
    config = tf.ConfigProto(allow_soft_placement=True)
    with tf.Session(any_target, config=config) as sess:
        sess.run(v.initializer)
        assert sess.run(v) == 1.0


def test_without_it_the_error_lists_the_devices_there_are(any_target):
    with tf.device("/job:ps/task:0/gpu:0"):
        x = tf.placeholder_with_default(1.0, [], name="misplaced")
    with tf.Session(any_target) as sess, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        sess.run(x)
    message = caught.value.message
    assert "misplaced" in message and "gpu:0" in message.lower()
    for task in ("ps/replica:0/task:0", "worker/replica:0/task:1"):
        assert f"/job:{task}/device:CPU:0" in message


def test_a_task_that_is_not_in_the_cluster_is_refused(any_target):
    with tf.device("/job:worker/task:7"):
        x = tf.placeholder_with_default(1.0, [])
    sess = tf.Session(any_target)
    with sess, pytest.raises(tf.errors.InvalidArgumentError, match="worker/task:7"):
        sess.run(x)


def test_the_placement_is_printed_on_request(cluster, capfd):
    with tf.device("/job:ps/task:0"):
        x = tf.placeholder_with_default(1.0, [], name="placed")
    config = tf.ConfigProto(log_device_placement=True)
    with tf.Session(cluster.target("worker"), config=config) as sess:
        sess.run(x)
    out, err = capfd.readouterr()
    assert "placed: (PlaceholderWithDefault): /job:ps/replica:0/task:0/device:CPU:0" in out + err


def test_colocated_ops_go_where_their_variable_is(cluster):
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(1.0, name="v")
    with tf.colocate_with(v):
        near = tf.placeholder_with_default(2.0, [], name="near") * 3
    with tf.Session(cluster.target("worker")) as sess:
        assert device_of(sess, near).startswith("/job:ps")


def test_writers_of_a_reference_go_where_it_is(cluster):
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(1.0, name="v", use_resource=False)
    add = tf.assign_add(v, 2.0)
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(v.initializer)
        assert sess.run(add) == 3
        assert device_of(sess, add).startswith("/job:ps")


def test_several_devices_of_a_task_make_towers(make_cluster):
    cluster = make_cluster({"worker": 2}, config=tf.ConfigProto(device_count={"CPU": 4}))
    with tf.device("/job:worker/task:1"):
        w = tf.Variable(np.float32(2.0))
    x = tf.placeholder(tf.float32, [8])
    towers = []
    for i, part in enumerate(tf.split(x, 4)):
        with tf.device(f"/job:worker/task:0/device:CPU:{i}"):
            towers.append(tf.reduce_sum(part * w))
    total = tf.add_n(towers)
    with tf.Session(cluster.target("worker")) as sess:
        assert len(sess.list_devices()) == 8
        sess.run(w.initializer)
        assert sess.run(total, {x: np.arange(8)}) == 56.0
