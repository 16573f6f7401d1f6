"""The code fragments of the seeds about clusters, servers and devices, run as they stand."""

import numpy as np

import millrace as tf


def test_hello_distributed_tensorflow(servers):
    """Seed 000, "Hello distributed TensorFlow!": a server as a single-process cluster."""
    c = tf.constant("Hello, distributed TensorFlow!")
    server = tf.train.Server.create_local_server()
    servers.append(server)
    sess = tf.Session(server.target)
    assert sess.run(c) == b"Hello, distributed TensorFlow!"
    sess.close()


def test_two_local_servers(servers, addresses):
    """Seed 000, "Create a cluster": ``{"local": [two addresses]}``, a server for each task."""
    hosts = addresses(2)
    # In task 0:
    cluster = tf.train.ClusterSpec({"local": hosts})
    servers.append(tf.train.Server(cluster, job_name="local", task_index=0))
    # In task 1:
    cluster = tf.train.ClusterSpec({"local": hosts})
    servers.append(tf.train.Server(cluster, job_name="local", task_index=1))
    with tf.device("/job:local/task:1"):
        x = tf.placeholder_with_default(20.0, []) + 1.0
    with tf.device("/job:local/task:0"):
        y = x * 2.0
    for server in servers:
        with tf.Session(server.target) as sess:
            assert sess.run(y) == 42.0


def test_every_task_has_a_master_and_a_worker(servers, addresses):
    """Seeds 000 and 004: a server has a master that creates sessions and a worker that executes."""
    hosts = addresses(2)
    cluster = tf.train.ClusterSpec({"ps": hosts[:1], "worker": hosts[1:]})
    servers.append(tf.train.Server(cluster, job_name="ps", task_index=0))
    servers.append(tf.train.Server(cluster, job_name="worker", task_index=0))
    parts = []
    for job in ("ps", "worker"):
        with tf.device(f"/job:{job}/task:0"):
            parts.append(tf.placeholder_with_default(1.0, []) + 1.0)
    for server in servers:
        with tf.Session(server.target) as sess:
            assert sess.run(parts) == [2.0, 2.0]


def test_weights_on_two_ps_tasks_and_the_layers_on_a_worker(servers, addresses):
    """Seed 000, "Specifying distributed devices in your model" (and seed 004): worker task 7."""
    hosts = addresses(3)
    cluster = tf.train.ClusterSpec({"ps": hosts[:2], "worker": {7: hosts[2]}})
    servers.append(tf.train.Server(cluster, job_name="ps", task_index=0))
    servers.append(tf.train.Server(cluster, job_name="ps", task_index=1))
    servers.append(tf.train.Server(cluster, job_name="worker", task_index=7))
    with tf.device("/job:ps/task:0"):
        weights_1 = tf.Variable(tf.truncated_normal([8, 16], stddev=0.3, seed=1))
        biases_1 = tf.Variable(tf.zeros([16]))
    with tf.device("/job:ps/task:1"):
        weights_2 = tf.Variable(tf.truncated_normal([16, 3], stddev=0.3, seed=2))
        biases_2 = tf.Variable(tf.zeros([3]) + 0.1)
    with tf.device("/job:worker/task:7"):
        rng = np.random.RandomState(0)
        examples = rng.randn(30, 8).astype(np.float32)
        input, labels = tf.constant(examples), tf.constant(examples[:, :3].argmax(1))
        layer_1 = tf.nn.relu(tf.matmul(input, weights_1) + biases_1)
        logits = tf.nn.relu(tf.matmul(layer_1, weights_2) + biases_2)
        loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        train_op = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with tf.Session(f"grpc://{hosts[2]}") as sess:
        sess.run(tf.global_variables_initializer())
        first = sess.run(loss)
        for _ in range(100):
            sess.run(train_op)
        assert sess.run(loss) < first / 2
    held = [len(server.worker.status()["variables"]) for server in servers]
    assert held == [2, 2, 0]


def test_a_model_whose_parts_are_on_three_tasks(servers, addresses):
    """Seed 004, model parallelism: parts of the model are computed on different devices."""
    hosts = addresses(3)
    cluster = tf.train.ClusterSpec({"worker": hosts})
    servers.extend(tf.train.Server(cluster, job_name="worker", task_index=i) for i in range(3))
    rng = np.random.RandomState(1)
    x = value = tf.placeholder(tf.float32, [None, 6])
    y = tf.placeholder(tf.float32, [None, 1])
    for task, (inputs, outputs) in enumerate([(6, 8), (8, 8), (8, 1)]):
        with tf.device(f"/job:worker/task:{task}"):
            w = tf.Variable(rng.randn(inputs, outputs).astype(np.float32) * 0.4)
            value = tf.matmul(value, w)
            if task < 2:
                value = tf.tanh(value)
    with tf.device("/job:worker/task:2"):
        loss = tf.reduce_mean(tf.square(value - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    feed = {x: rng.randn(20, 6), y: rng.randn(20, 1)}
    with tf.Session(servers[0].target) as sess:
        sess.run(tf.global_variables_initializer())
        first = sess.run(loss, feed)
        for _ in range(60):
            sess.run(train, feed)
        assert sess.run(loss, feed) < first * 0.8
    assert [len(s.worker.status()["variables"]) for s in servers] == [1, 1, 1]


def test_clients_of_two_workers_see_each_others_updates(servers, addresses):
    """Seed 003, between-graph replication: variables of the same name are shared on the ps."""
    hosts = addresses(3)
    cluster = tf.train.ClusterSpec({"ps": hosts[:1], "worker": hosts[1:]})
    servers.append(tf.train.Server(cluster, job_name="ps", task_index=0))
    servers.extend(tf.train.Server(cluster, job_name="worker", task_index=i) for i in range(2))
    sessions = []
    for task in range(2):
        graph = tf.Graph()
        with (
            graph.as_default(),
            tf.device(
                tf.train.replica_device_setter(
                    worker_device=f"/job:worker/task:{task}", cluster=cluster
                )
            ),
        ):
            var = tf.Variable(0.0, name="var")
            sessions.append(
                (tf.Session(servers[1 + task].target, graph=graph), var, var.assign_add(1.0))
            )
    (one, var, add), (other, seen, _) = sessions
    one.run(var.initializer)
    one.run(add)
    assert other.run(seen) == 1.0
    one.close()
    other.close()
