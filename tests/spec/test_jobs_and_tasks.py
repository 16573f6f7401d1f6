"""The seeds' sentences about jobs, tasks, servers, masters, workers and clients."""

from __future__ import annotations

import threading

import pytest

import millrace as tf


def test_a_cluster_is_jobs_and_each_job_is_tasks():
    """000: a cluster is divided into one or more jobs, each with one or more tasks."""
    cluster = tf.train.ClusterSpec(
        {
            "ps": ["192.168.233.201:2222"],
            "worker": ["192.168.233.202:2222", "192.168.233.203:2222"],
        }
    )
    assert sorted(cluster.jobs) == ["ps", "worker"]
    assert [cluster.num_tasks(job) for job in ("ps", "worker")] == [1, 2]


def test_the_dictionary_maps_job_names_to_network_addresses():
    """000: the cluster specification maps names of jobs to lists of network addresses."""
    hosts = {"worker": ["worker0.example.com:2222", "worker1.example.com:2222"]}
    cluster = tf.train.ClusterSpec(hosts)
    assert cluster.as_dict() == hosts
    assert cluster.job_tasks("worker") == hosts["worker"]


def test_a_task_is_identified_by_its_index_in_the_list_of_its_job():
    """000 and 003: a task belongs to a job, and its index is its place in the job's list."""
    cluster = tf.train.ClusterSpec({"worker": ["a:1", "b:2", "c:3"]})
    assert cluster.task_indices("worker") == [0, 1, 2]
    assert cluster.task_address("worker", 1) == "b:2"
    with pytest.raises(ValueError, match="No task with index 3"):
        cluster.task_address("worker", 3)


def test_a_server_knows_its_job_and_its_index(start):
    """000: every server is a member of a named job and has a task index within it."""
    cluster = start(ps=1, worker=2)
    definition = cluster.servers["worker", 1].server_def
    assert (definition.job_name, definition.task_index) == ("worker", 1)


def test_the_description_is_the_same_for_every_task(start):
    """000 and 004: each task is given one and the same description of all tasks."""
    cluster = start(ps=1, worker=2)
    described = {
        tf.train.ClusterSpec(server.server_def.cluster).as_cluster_def().SerializeToString()
        for server in cluster.servers.values()
    }
    assert described == {cluster.spec.as_cluster_def().SerializeToString()}


def test_a_server_has_local_devices_and_reaches_all_others(start):
    """000: a server has devices of its own and can communicate with every other server."""
    cluster = start(ps=1, worker=2)
    for job, task in cluster.servers:
        with tf.Session(cluster.target(job, task)) as sess:
            found = {device.name.rsplit("/", 1)[0] for device in sess.list_devices()}
        assert found == {
            "/job:ps/replica:0/task:0",
            "/job:worker/replica:0/task:0",
            "/job:worker/replica:0/task:1",
        }


def test_one_server_serves_several_clients(start):
    """000 and 003: one server can serve several clients at a time."""
    cluster = start(ps=1)
    with tf.device("/job:ps/task:0"):
        counter = tf.Variable(0, name="counter")
        more = counter.assign_add(1)
    init = tf.global_variables_initializer()
    with tf.Session(cluster.target("ps")) as first, tf.Session(cluster.target("ps")) as second:
        first.run(init)
        first.run(more)
        second.run(more)
        assert first.run(counter) == second.run(counter) == 2


def test_one_client_uses_several_servers(start):
    """000 and 003: a client can interact with more than one server directly."""
    cluster = start(worker=2)
    value = tf.placeholder_with_default(3.0, []) * 2.0
    for task in range(2):
        with tf.Session(cluster.target("worker", task)) as sess:
            assert sess.run(value) == 6.0


def test_a_session_s_target_is_an_address_with_a_scheme(start):
    """003 and 004: ``tf.Session("grpc://" + host)`` chooses the master by its address."""
    cluster = start(ps=1, worker=1)
    target = "grpc://" + cluster.spec.task_address("worker", 0)
    with tf.Session(target) as sess:
        assert sess.run(tf.constant(1) + 1) == 2


def test_every_server_is_a_session_s_target(start):
    """000: all servers implement the master service, a ps as well as a worker."""
    cluster = start(ps=1, worker=1)
    with tf.device("/job:worker/task:0"):
        value = tf.placeholder_with_default(1.0, []) + 1.0
    with tf.Session(cluster.target("ps")) as sess:
        assert sess.run(value) == 2.0


def test_roles_of_jobs_are_flexible(start):
    """000: a worker, too, may keep state."""
    cluster = start(worker=2)
    with tf.device("/job:worker/task:1"):
        kept = tf.Variable(5.0)
    with tf.Session(cluster.target("worker", 0)) as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(kept) == 5.0
    assert cluster.variables_on("worker", 1) == 1


def test_joining_waits_for_as_long_as_the_server_lives(start):
    """002: a ps calls ``server.join()`` and waits without end."""
    cluster = start(ps=1, worker=1)
    joined = threading.Thread(target=cluster.servers["ps", 0].join, daemon=True)
    joined.start()
    with tf.Session(cluster.target("worker")) as sess:  # a ps that waits still serves
        with tf.device("/job:ps/task:0"):
            value = tf.placeholder_with_default(2.0, []) * 2.0
        assert sess.run(value) == 4.0
    assert joined.is_alive()
    cluster.servers["ps", 0].stop()
    joined.join(30)
    assert not joined.is_alive()
