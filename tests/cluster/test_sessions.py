"""Sessions on servers: who shares what, which tasks are used, what a config may ask for."""

import contextlib
import logging
import threading
from pathlib import Path

import numpy as np
import pytest

import millrace as tf
from millrace.core import errors
from millrace.platform import wait_reporter
from millrace.server.master_session import MasterSession


def counter(name="counter", device="/job:ps/task:0"):
    with tf.device(device):
        return tf.Variable(0, name=name)


def test_any_task_of_the_cluster_can_be_connected_to(cluster):
    v = counter()
    add = v.assign_add(1)
    with tf.Session(cluster.target("ps")) as sess:
        sess.run(v.initializer)
    for i, (job, index) in enumerate([("ps", 0), ("worker", 0), ("worker", 1)]):
        for remote in (False, True):
            with tf.Session(cluster.target(job, index, remote=remote)) as sess:
                assert sess.run(add) == 2 * i + remote + 1


def test_several_clients_of_one_server_share_variables_by_name(cluster):
    def client():
        graph = tf.Graph()
        with graph.as_default():
            v = counter("shared")
            return tf.Session(cluster.target("worker"), graph=graph), v, v.assign_add(2)

    one, v, add = client()
    other, w, _ = client()
    with one, other:
        one.run(v.initializer)
        one.run(add)
        assert other.run(w) == 2


def test_one_client_uses_several_servers(cluster):
    v = counter(device="")
    first = tf.Session(cluster.target("worker", 0))
    second = tf.Session(cluster.target("worker", 1))
    with first, second:
        first.run(v.initializer)
        second.run(v.initializer)
        first.run(v.assign_add(5))
        assert (first.run(v), second.run(v)) == (5, 0)


def test_queues_and_accumulators_are_shared_by_name(cluster):
    def build():
        graph = tf.Graph()
        with graph.as_default(), tf.device("/job:ps/task:0"):
            queue = tf.FIFOQueue(10, [tf.int32, tf.string], shared_name="jobs")
            accumulator = tf.ConditionalAccumulator(tf.float32, [2], shared_name="sums")
            ops = {
                "put": queue.enqueue([7, "seven"]),
                "take": queue.dequeue(),
                "give": accumulator.apply_grad([1.0, 2.0]),
                "mean": accumulator.take_grad(2),
            }
        return graph, ops

    graph, ops = build()
    other_graph, other_ops = build()
    with (
        tf.Session(cluster.target("worker", 0), graph=graph) as one,
        tf.Session(cluster.target("worker", 1), graph=other_graph) as other,
    ):
        one.run(ops["put"])
        assert other.run(other_ops["take"]) == [7, b"seven"]
        one.run(ops["give"])
        other.run(other_ops["give"])
        assert one.run(ops["mean"]).tolist() == [1.0, 2.0]


def test_variables_outlive_the_session_that_made_them(any_target):
    v = counter()
    with tf.Session(any_target) as sess:
        sess.run([v.initializer])
        sess.run(v.assign_add(3))
    with tf.Session(any_target) as sess:
        assert sess.run(v) == 3


def test_isolated_sessions_share_nothing(any_target):
    v = counter()
    config = tf.ConfigProto(isolate_session_state=True)
    with tf.Session(any_target) as sess:
        sess.run(v.initializer)
    with tf.Session(any_target, config=config) as one, tf.Session(any_target, config=config) as two:
        with pytest.raises(tf.errors.FailedPreconditionError):
            one.run(v)
        one.run(v.initializer)
        one.run(v.assign_add(1))
        assert one.run(v) == 1
        with pytest.raises(tf.errors.FailedPreconditionError):
            two.run(v)


def test_containers_keep_variables_apart_and_reset_drops_only_the_named(any_target, cluster):
    with tf.device("/job:ps/task:0"):
        with tf.container("mine"):
            a = tf.Variable(1, name="a")
        with tf.container("yours"):
            b = tf.Variable(2, name="b")
    with tf.Session(any_target) as sess:
        sess.run([a.initializer, b.initializer])
    tf.Session.reset(any_target, ["mine"])
    with tf.Session(any_target) as sess:
        assert sess.run(b) == 2
        with pytest.raises(tf.errors.FailedPreconditionError):
            sess.run(a)


def test_reset_ends_the_sessions_of_the_server(any_target):
    v = counter()
    sess = tf.Session(any_target)
    sess.run(v.initializer)
    tf.Session.reset(any_target)
    with pytest.raises((tf.errors.AbortedError, tf.errors.CancelledError)):
        sess.run(v)
    with tf.Session(any_target) as other, pytest.raises(tf.errors.FailedPreconditionError):
        other.run(v)


def test_list_devices_names_those_of_all_tasks_the_sessions_own_first(any_target):
    with tf.Session(any_target) as sess:
        devices = sess.list_devices()
    assert [d.name for d in devices] == [
        f"/job:{job}/replica:0/task:{index}/device:CPU:0"
        for job, index in [("worker", 0), ("ps", 0), ("worker", 1)]
    ]
    assert {d.device_type for d in devices} == {"CPU"}
    assert len({d.incarnation for d in devices}) == 3


def test_device_filters_leave_tasks_out(make_cluster):
    """Seed 002: a worker sees the ps and itself, and does not wait for the other workers."""
    cluster = make_cluster({"ps": 1, "worker": 2})
    cluster["worker", 1].stop()
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:0"])
    v = counter()
    for remote in (False, True):
        with tf.Session(cluster.target("worker", remote=remote), config=config) as sess:
            assert len(sess.list_devices()) == 2
            sess.run(v.initializer)
            with tf.device("/job:worker/task:1"):
                elsewhere = tf.constant(1) + 1
            with pytest.raises(tf.errors.InvalidArgumentError, match="worker/task:1"):
                sess.run(elsewhere)


def test_a_sessions_cluster_def_reaches_servers_that_were_started_without_one():
    servers = [tf.train.Server.create_local_server() for _ in range(3)]
    addresses = [s.target.removeprefix("grpc://") for s in servers]
    config = tf.ConfigProto(
        cluster_def=tf.train.ClusterSpec(
            {"ps": addresses[:1], "worker": addresses[1:]}
        ).as_cluster_def()
    )
    try:
        v = counter()
        with tf.device("/job:worker/task:1"):
            doubled = v.read_value() * 2
        for target in (servers[1].target, servers[1].target.replace("localhost", "127.0.0.1")):
            with tf.Session(target, config=config) as sess:
                sess.run(v.initializer)
                sess.run(v.assign_add(4))
                assert sess.run(doubled) == 8
                assert {d.name.partition("/device")[0] for d in sess.list_devices()} == {
                    "/job:ps/replica:0/task:0",
                    "/job:worker/replica:0/task:0",
                    "/job:worker/replica:0/task:1",
                }
    finally:
        for server in servers:
            server.stop()


def test_a_cluster_def_without_the_task_that_is_connected_to_is_refused():
    server = tf.train.Server.create_local_server()
    spec = tf.train.ClusterSpec({"worker": ["localhost:1"]})
    try:
        with pytest.raises(tf.errors.InvalidArgumentError, match="does not have the task at"):
            tf.Session(server.target, config=tf.ConfigProto(cluster_def=spec.as_cluster_def()))
    finally:
        server.stop()


def test_a_graph_may_grow_while_the_session_is_open(any_target):
    v = counter()
    with tf.Session(any_target) as sess:
        sess.run(v.initializer)
        for i in range(1, 4):
            assert sess.run(v.assign_add(1)) == i


def test_a_callable_runs_over_tasks(any_target):
    v = counter()
    x = tf.placeholder(tf.int32, [])
    with tf.Session(any_target) as sess:
        sess.run(v.initializer)
        add = sess.make_callable([v.assign_add(x)], feed_list=[x])
        assert add(3) == [3]
        assert add(4) == [7]


def test_a_partial_run_over_tasks_gives_and_takes_in_parts(any_target):
    a, b, c = (tf.placeholder(tf.float32, [], name=n) for n in "abc")
    with tf.device("/job:ps/task:0"):
        first = a + b
    with tf.device("/job:worker/task:1"):
        second = first * c
    with tf.Session(any_target) as sess:
        run = sess.partial_run_setup([first, second], [a, b, c])
        assert sess.partial_run(run, first, {a: 1, b: 2}) == 3
        assert sess.partial_run(run, second, {c: 10}) == 30


def test_a_partial_run_that_is_not_finished_ends_with_its_session(any_target, cluster, until):
    a, b = (tf.placeholder(tf.float32, [], name=n) for n in "ab")
    with tf.device("/job:ps/task:0"):
        total = a + b
    with tf.Session(any_target) as sess:
        run = sess.partial_run_setup([total], [a, b])
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="can't be computed from the feeds"
        ):
            sess.partial_run(run, total, {a: 1})
    until(lambda: not cluster.busy())


def test_an_error_names_the_op_its_task_and_the_line_that_built_it(any_target):
    with tf.device("/job:ps/task:0"):
        x = tf.placeholder(tf.float32, name="x")
        wrong = tf.reshape(x, [2, 2], name="wrong")  # built here
    with tf.Session(any_target) as sess, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        sess.run(wrong, {x: [1.0, 2.0, 3.0]})
    error = caught.value
    assert error.op is wrong.op and error.node_def.name == "wrong"
    assert "/job:ps/replica:0/task:0" in error.message
    assert "3 values" in error.message
    lines = Path(__file__).read_text().splitlines()
    line = next(i for i, text in enumerate(lines, 1) if text.endswith("# built here"))
    assert f"defined at {__file__}:{line}" in error.message


def test_after_an_error_the_session_can_be_used_on(any_target):
    v = counter()
    with tf.device("/job:ps/task:0"):
        wrong = tf.check_numerics(tf.log(tf.cast(v, tf.float32) - 1.0), "no number")
    with tf.Session(any_target) as sess:
        sess.run(v.initializer)
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError, match="no number"):
                sess.run(wrong)
        assert sess.run(v.assign_add(1)) == 1


def test_arrays_that_were_fed_or_fetched_are_the_clients_own(any_target):
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(np.zeros(1000, np.float32), use_resource=False)
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[3]])
        x = tf.placeholder(tf.float32, [3])
        put, take = queue.enqueue(x), queue.dequeue()
    with tf.Session(any_target) as sess:
        sess.run(v.initializer)
        before = sess.run(v)
        sess.run(v.assign_add(tf.ones(1000)))
        assert before.sum() == 0
        after = sess.run(v)
        after[:] = 5
        assert sess.run(v).sum() == 1000
        fed = np.ones(3, np.float32)
        sess.run(put, {x: fed})
        fed[:] = 9
        assert sess.run(take).tolist() == [1, 1, 1]


def test_a_step_of_one_session_reads_what_another_has_written(cluster, background):
    """Readers over a task border never see half of an update."""
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(np.zeros(50_000, np.float32))
        add = tf.assign_add(v, tf.ones(50_000), use_locking=True).op
    with tf.device("/job:worker/task:0"):
        spread = tf.reduce_max(v.read_value()) - tf.reduce_min(v.read_value())
    one = tf.Session(cluster.target("worker", 0))
    other = tf.Session(cluster.target("worker", 1))
    with one, other:
        one.run(v.initializer)
        writing = background(lambda: [other.run(add) for _ in range(100)])
        while writing.is_running:
            assert one.run(spread) == 0
        writing.result()


def test_sessions_and_their_graphs_are_forgotten_on_every_task(cluster, until):
    v = counter()
    for _ in range(3):
        for remote in (False, True):
            with tf.Session(cluster.target("worker", remote=remote)) as sess:
                sess.run(v.initializer)
                sess.run(v.assign_add(1))
    for server in cluster.servers.values():
        until(lambda held=server.worker.sessions: not held.by_handle and not held.graphs)
        assert not server._master.sessions


def test_runs_that_the_client_forgets_are_forgotten_on_every_task(cluster, until):
    v = counter()
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(v.initializer)
        for _ in range(3):
            sess.run(v.assign_add(1))
        sess._runs.clear()
        sess._steps.clear()
        until(lambda: not cluster["ps", 0].worker.sessions.graphs)
        assert sess.run(v) == 3


class TestWaiting:
    """A session whose tasks are not there waits, says for whom, and goes on when they come."""

    @pytest.fixture(autouse=True)
    def impatient(self, monkeypatch):
        monkeypatch.setattr(wait_reporter, "FIRST_SECONDS", 0.05)
        monkeypatch.setattr(wait_reporter, "INTERVAL_SECONDS", 0.05)

    @pytest.mark.parametrize("remote", [False, True])
    def test_creation_says_which_task_it_waits_for(
        self, make_cluster, background, until, caplog, remote
    ):
        cluster = make_cluster({"ps": 1, "worker": 1})
        address = cluster["ps", 0].target.removeprefix("grpc://")
        cluster["ps", 0].stop()
        v = counter()
        graph = tf.get_default_graph()
        with caplog.at_level(logging.WARNING, logger="tensorflow"), told(caplog) as text:
            creating = background(
                lambda: tf.Session(cluster.target("worker", remote=remote), graph=graph)
            )
            until(lambda: text().count("/job:ps/replica:0/task:0") > 1)
            assert address in text() and "check that its process runs" in text()
        cluster.start("ps", 0)
        with creating.result() as sess:
            sess.run(v.initializer)

    def test_a_client_says_which_server_it_waits_for(self, background, until, caplog, free_port):
        three = tf.constant(3)
        graph = tf.get_default_graph()
        with told(caplog) as text:
            creating = background(lambda: tf.Session(f"grpc://localhost:{free_port}", graph=graph))
            until(lambda: f"grpc://localhost:{free_port}" in text())
        server = tf.train.Server({"a": [f"localhost:{free_port}"]})
        with creating.result() as sess:
            assert sess.run(three) == 3
        server.stop()

    def test_a_blocked_step_says_what_it_waits_for(self, cluster, background, until, caplog):
        with tf.device("/job:ps/task:0"):
            queue = tf.FIFOQueue(1, [tf.int32], shared_name="empty")
            size = queue.size()
            take = queue.dequeue(name="take_one")
        with tf.device("/job:worker/task:0"):
            doubled = take * 2
        sess = tf.Session(cluster.target("worker"))
        with told(caplog) as text:
            waiting = background(lambda: sess.run(doubled))
            until(lambda: "/job:ps/replica:0/task:0" in text())
        assert sess.run(size) == 0
        sess.close()
        with pytest.raises(tf.errors.CancelledError):
            waiting.result()

    def test_stopping_the_server_ends_the_wait(self, make_cluster, background, until):
        cluster = make_cluster({"ps": 1, "worker": 1})
        cluster["ps", 0].stop()
        server = cluster["worker", 0]
        creating = background(lambda: tf.Session(server.target))
        until(lambda: server._master._opening)
        server.stop()
        with pytest.raises(errors.OpError):
            creating.result()


@contextlib.contextmanager
def told(caplog):
    """What was logged so far, as one text."""
    with caplog.at_level(logging.WARNING):
        yield lambda: caplog.text


def test_a_finalizer_does_not_wait_for_the_end_of_its_session(cluster, monkeypatch, until):
    """The collector comes in the middle of anything, also while its thread holds a lock."""
    session = tf.Session(cluster.target("worker"))
    session.run(tf.constant(1.0))
    sessions, handle = cluster["worker", 0].worker.sessions, session._backend.handle
    go_on, close = threading.Event(), MasterSession.close

    def close_slowly(self):
        assert go_on.wait(60)
        close(self)

    monkeypatch.setattr(MasterSession, "close", close_slowly)
    session.__del__()
    assert sessions.has_session(handle)
    go_on.set()
    until(lambda: not sessions.has_session(handle))
