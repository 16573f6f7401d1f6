"""The seeds' sentences about where operations and variables go."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf

PS = ["ps0.example.com:2222", "ps1.example.com:2222", "ps2.example.com:2222"]
WORKERS = ["worker0.example.com:2222", "worker1.example.com:2222"]
CLUSTER = {"ps": PS, "worker": WORKERS}


def test_device_pins_operations_to_a_task():
    """000: ``tf.device`` puts operations on a certain process, by the same function as on a GPU."""
    with tf.device("/job:worker/task:7"):
        a = tf.constant(1.0)
        with tf.device("/gpu:0"):
            b = a + 1.0
    assert a.device == "/job:worker/task:7"
    assert b.device == "/job:worker/task:7/device:GPU:0"


def test_variables_go_round_the_ps_tasks():
    """003: with 3 ps tasks, weights_1, biases_1, weights_2, biases_2 go to tasks 0, 1, 2, 0."""
    with tf.device(tf.train.replica_device_setter(ps_tasks=3)):
        weights_1 = tf.Variable(tf.zeros([784, 100]))
        biases_1 = tf.Variable(tf.zeros([100]))
        weights_2 = tf.Variable(tf.zeros([100, 10]))
        biases_2 = tf.Variable(tf.zeros([10]))
    found = [v.device for v in (weights_1, biases_1, weights_2, biases_2)]
    assert found == [f"/job:ps/task:{task}" for task in (0, 1, 2, 0)]


def test_only_variables_go_to_the_ps_tasks():
    """003: the setter may wrap a whole model: it moves variables, all else is the worker's."""
    setter = tf.train.replica_device_setter(worker_device="/job:worker/task:1", cluster=CLUSTER)
    with tf.device(setter):
        x = tf.placeholder(tf.float32, [None, 4])
        w = tf.Variable(tf.zeros([4, 2]))
        y = tf.nn.softmax(tf.matmul(x, w))
    assert w.device == "/job:ps/task:0"
    assert {x.device, y.device} == {"/job:worker/task:1"}


def test_parameters_on_the_cpu_of_the_ps_and_the_training_on_the_worker_s_gpu():
    """001: parameters go to ``/job:ps/cpu:0``, training operations to the worker's ``gpu:0``."""
    setter = tf.train.replica_device_setter(
        worker_device="/job:worker/task:0/gpu:0",
        ps_device="/job:ps/cpu:0",
        cluster={"ps": PS[:1], "worker": WORKERS},
    )
    with tf.device(setter):
        w = tf.Variable(tf.zeros([2]), name="w")
        loss = tf.reduce_sum(w)
    assert w.device == "/job:ps/task:0/device:CPU:0"
    assert loss.device == "/job:worker/task:0/device:GPU:0"


def test_the_setter_maps_the_same_variables_to_the_same_tasks_in_every_client():
    """000: each client maps the parameters to the same tasks, deterministically."""
    placed = []
    for task in range(2):
        with (
            tf.Graph().as_default(),
            tf.device(
                tf.train.replica_device_setter(
                    worker_device=f"/job:worker/task:{task}", cluster=CLUSTER
                )
            ),
        ):
            for name in "abcde":
                tf.get_variable(name, [2])
            placed.append({v.name: v.device for v in tf.global_variables()})
    assert placed[0] == placed[1]
    assert len(set(placed[0].values())) == 3


def test_greedy_load_balancing_goes_by_bytes():
    """003: ``GreedyLoadBalancingStrategy`` puts a variable where the fewest bytes are."""
    strategy = tf.contrib.training.GreedyLoadBalancingStrategy(
        2, tf.contrib.training.byte_size_load_fn
    )
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, ps_strategy=strategy)):
        large = tf.get_variable("large", [1000, 10])
        small = [tf.get_variable(f"small_{i}", [10]) for i in range(3)]
    assert large.device == "/job:ps/task:0"
    assert {v.device for v in small} == {"/job:ps/task:1"}


def test_a_partitioned_variable_is_spread_over_the_ps_tasks(start):
    """003: a variable made with a partitioner is cut in 3 parts, one for each of 3 ps tasks."""
    cluster = start(ps=3, worker=1)
    setter = tf.train.replica_device_setter(
        worker_device="/job:worker/task:0", cluster=cluster.spec
    )
    rows = np.arange(14.0, dtype=np.float32).reshape(7, 2)
    with tf.device(setter):
        table = tf.get_variable("table", initializer=rows, partitioner=tf.fixed_size_partitioner(3))
        found = tf.nn.embedding_lookup(table, [6, 0, 3], partition_strategy="div")
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(sess.run(found), rows[[6, 0, 3]])
    assert [cluster.variables_on("ps", task) for task in range(3)] == [1, 1, 1]


def test_what_crosses_jobs_is_sent_there_without_being_asked_for(start):
    """000 and 004: the transfers between ps and worker are inserted into the graph."""
    cluster = start(ps=1, worker=1)
    with tf.device("/job:ps/task:0"):
        w = tf.Variable(3.0)
    with tf.device("/job:worker/task:0"):
        loss = tf.square(w)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    metadata = tf.RunMetadata()
    options = tf.RunOptions(output_partition_graphs=True)
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train, options=options, run_metadata=metadata)
        assert sess.run(w) == pytest.approx(2.4)
    sends = [
        node.op
        for graph in metadata.partition_graphs
        for node in graph.node
        if node.op.startswith("_Send")
    ]
    assert sends  # the variable to the worker, the gradient to the ps


def test_soft_placement_moves_what_a_device_cannot_run(start):
    """001: with ``allow_soft_placement`` an operation goes elsewhere if its device is not there."""
    cluster = start(worker=1)
    with tf.device("/job:worker/task:0/gpu:0"):
        value = tf.placeholder_with_default(1.0, []) + 1.0
    with (
        tf.Session(cluster.target("worker")) as sess,
        pytest.raises(tf.errors.InvalidArgumentError, match="GPU:0"),
    ):
        sess.run(value)
    config = tf.ConfigProto(allow_soft_placement=True)
    with tf.Session(cluster.target("worker"), config=config) as sess:
        assert sess.run(value) == 2.0


def test_device_filters_leave_the_other_workers_out(start):
    """001: ``device_filters`` name the ps job and the own task: others need not be up."""
    cluster = start(ps=1, worker=2)
    cluster.servers["worker", 1].stop()
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:0"])
    with tf.Session(cluster.target("worker", 0), config=config) as sess:
        tasks = {device.name.rsplit("/", 1)[0] for device in sess.list_devices()}
    assert tasks == {"/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"}


def test_a_ps_updates_the_parameters_whose_gradients_a_worker_computes(start):
    """004: a ps stores parameters and updates them; a worker computes their gradients."""
    cluster = start(ps=1, worker=1)
    with tf.device(tf.train.replica_device_setter(cluster=cluster.spec)):
        w = tf.get_variable("w", initializer=[3.0, 4.0])
        loss = tf.reduce_sum(tf.square(w))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    metadata = tf.RunMetadata()
    options = tf.RunOptions(output_partition_graphs=True)
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train, options=options, run_metadata=metadata)
        np.testing.assert_allclose(sess.run(w), [2.4, 3.2], rtol=1e-6)
    nodes = [node for graph in metadata.partition_graphs for node in graph.node]
    (update,) = [node for node in nodes if node.op == "ApplyGradientDescent"]
    products = [node for node in nodes if node.name.startswith("gradients/") and node.op == "Mul"]
    assert "/job:ps" in update.device
    assert products and all("/job:worker" in node.device for node in products)
    assert cluster.variables_on("ps") == 1 and cluster.variables_on("worker") == 0


def test_a_master_coordinates_several_workers(start):
    """004: the master service coordinates several worker services, for one ``sess.run``."""
    cluster = start(worker=3)
    parts = []
    for task in range(3):
        with tf.device(f"/job:worker/task:{task}"):
            parts.append(tf.placeholder_with_default(float(task), []) + 1.0)
    with tf.device("/job:worker/task:1"):
        total = tf.add_n(parts)
    metadata = tf.RunMetadata()
    options = tf.RunOptions(output_partition_graphs=True)
    with tf.Session(cluster.target("worker", 0)) as sess:
        assert sess.run(total, options=options, run_metadata=metadata) == 6.0
    used = {node.device for graph in metadata.partition_graphs for node in graph.node}
    assert {f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(3)} <= used
