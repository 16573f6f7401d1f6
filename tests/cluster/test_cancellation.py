"""What ends a wait: a deadline, a closed session, a lost task, a client that is gone, an error
elsewhere. On every task, with the right class."""

import threading
import time

import pytest

import millrace as tf
from millrace.protocol.step import master
from millrace.rpc.service import Connection
from millrace.runtime.executor import Execution
from millrace.server import master_session

PS, WORKER, OTHER = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"


def blocked_ops(where=PS):
    """(a value made from what an empty queue gives, an op that fills it)."""
    with tf.device(where):
        queue = tf.FIFOQueue(1000, [tf.float32], shapes=[[]], name="empty", shared_name="empty")
        taken = queue.dequeue()
        put = queue.enqueue(1.0)
    with tf.device(WORKER):
        doubled = taken * 2
    with tf.device(OTHER):
        noted = tf.FIFOQueue(1000, [tf.float32], shapes=[[]], name="notes").enqueue(1.0)
        with tf.control_dependencies([noted]):  # so that this task, too, has something to do now
            tripled = doubled + taken
    return tripled, put


def wait_until_blocked(until, *servers):
    for server in servers:
        until(lambda worker=server.worker: worker.partitions.running, "no step came to run")


@pytest.mark.parametrize("remote", [False, True])
def test_a_deadline_ends_the_step_on_every_task(any_cluster, until, remote):
    value, put = blocked_ops()
    with tf.Session(any_cluster.target("worker", remote=remote)) as sess:
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(value, options=tf.RunOptions(timeout_in_ms=50))
        until(lambda: not any_cluster.busy())
        sess.run(put)  # nobody took it in the meantime
        assert sess.run(value) == 3.0


def test_the_configs_deadline_holds_for_every_step(any_target, cluster):
    value, _ = blocked_ops()
    config = tf.ConfigProto(operation_timeout_in_ms=50)
    sess = tf.Session(any_target, config=config)
    with sess, pytest.raises(tf.errors.DeadlineExceededError):
        sess.run(value)


@pytest.mark.parametrize("remote", [False, True])
def test_closing_the_session_ends_its_steps_on_every_task(
    any_cluster, background, until, remote, monkeypatch
):
    # Nobody gives up waiting for a task that is not told, or does not end its part when it is.
    monkeypatch.setattr(master, "STOP_SECONDS", 600.0)
    monkeypatch.setattr(master_session, "_CLOSE_SECONDS", 600.0)
    value, _ = blocked_ops()
    sess = tf.Session(any_cluster.target("worker", remote=remote))
    waiting = background(lambda: sess.run(value))
    wait_until_blocked(until, *any_cluster.servers.values())
    background(sess.close).result()
    with pytest.raises(tf.errors.CancelledError):
        waiting.result()
    until(lambda: not any_cluster.busy())


@pytest.mark.parametrize("lost", [("ps", 0), ("worker", 1)])
def test_a_lost_task_ends_the_step_on_the_others(any_cluster, background, until, lost):
    value, _ = blocked_ops()
    with tf.Session(any_cluster.target("worker")) as sess:
        waiting = background(lambda: sess.run(value))
        wait_until_blocked(until, *any_cluster.servers.values())
        any_cluster[lost].stop()
        with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError)) as caught:
            waiting.result()
        assert f"/job:{lost[0]}/replica:0/task:{lost[1]}" in caught.value.message
        until(lambda: not any_cluster.busy())


def test_a_lost_master_ends_the_step_on_the_others(any_cluster, background, until):
    value, _ = blocked_ops()
    sess = tf.Session(any_cluster.target("worker", remote=True))
    waiting = background(lambda: sess.run(value))
    wait_until_blocked(until, *any_cluster.servers.values())
    any_cluster["worker", 0].stop()
    with pytest.raises((tf.errors.UnavailableError, tf.errors.CancelledError)):
        waiting.result()
    until(lambda: not any_cluster.busy())
    for task in (("ps", 0), ("worker", 1)):
        until(lambda worker=any_cluster[task].worker: not worker.sessions.by_handle)
    sess.close()


def test_a_master_that_vanishes_leaves_no_session_on_the_other_tasks(make_cluster, until):
    cluster = make_cluster({"ps": 1, "worker": 1}, "socket")
    with tf.device(PS):
        v = tf.Variable(1.0)
    sess = tf.Session(cluster.target("worker"))
    sess.run(v.initializer)
    held, worker = cluster["ps", 0].worker.sessions, cluster["worker", 0]
    assert held.by_handle and held.graphs
    for channel in list(worker.peers._open):  # as if its process had been killed
        channel.close()
    until(lambda: not held.by_handle and not held.graphs)
    with pytest.raises((tf.errors.AbortedError, tf.errors.UnavailableError)):
        sess.run(v)
    sess.close()
    with tf.Session(cluster.target("worker")) as again:
        assert again.run(v) == 1.0


def test_a_client_that_is_gone_leaves_no_step_behind(any_cluster, until, background):
    value, _ = blocked_ops()
    sess = tf.Session(any_cluster.target("worker", remote=True))
    waiting = background(lambda: sess.run(value))
    wait_until_blocked(until, *any_cluster.servers.values())
    sess._backend._connection.close()  # as when its process is killed
    with pytest.raises(tf.errors.OpError):
        waiting.result()
    until(lambda: not any_cluster.busy())


def test_a_client_that_is_gone_leaves_no_partial_run_behind(
    any_cluster, until, background, monkeypatch
):
    value, _ = blocked_ops()
    x = tf.placeholder(tf.float32, [])
    total, early = value + x, x + 1.0
    sess = tf.Session(any_cluster.target("worker", remote=True))
    run = sess.partial_run_setup([early, total], [x])
    assert sess.partial_run(run, early, {x: 1.0}) == 2.0
    waits, wait = threading.Event(), Execution.wait

    def noted(execution, stages=None):
        waits.set()
        return wait(execution, stages)

    monkeypatch.setattr(Execution, "wait", noted)
    waiting = background(lambda: sess.partial_run(run, total))
    assert waits.wait(60)
    sess._backend._connection.close()
    with pytest.raises(tf.errors.OpError):
        waiting.result()
    until(lambda: not any_cluster.busy())


def test_a_client_that_is_gone_while_a_session_is_made_is_not_waited_for(
    make_cluster, until, background
):
    cluster = make_cluster({"ps": 1, "worker": 1})
    cluster["ps", 0].stop()
    master = cluster["worker", 0]._master
    from millrace.rpc import service_messages

    connection = Connection(cluster["worker", 0].target.removeprefix("grpc://"))
    creating = background(
        lambda: connection.master().create_session(service_messages.CreateSessionRequest())
    )
    until(lambda: master._opening)
    connection.close()
    with pytest.raises(tf.errors.OpError):
        creating.result()
    until(lambda: not master._opening)
    assert not master.sessions


@pytest.mark.parametrize("where", [PS, WORKER, OTHER])
def test_an_error_on_one_task_ends_the_waits_on_the_others(any_cluster, until, where):
    value, _ = blocked_ops()
    x = tf.placeholder(tf.float32, [])
    with tf.device(where):
        wrong = tf.check_numerics(x, "this one", name="wrong")
    with tf.Session(any_cluster.target("worker")) as sess:
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError, match="this one") as caught:
                sess.run([value, wrong], {x: float("nan")})
            assert caught.value.op is wrong.op
        until(lambda: not any_cluster.busy())


def test_a_restarted_task_is_another_one_to_an_old_session(any_cluster):
    """An old session gets AbortedError; a new one works; graphs of others are never run."""
    with tf.device(PS):
        v = tf.Variable(1.0, name="v")
        add = v.assign_add(1.0)
    old = tf.Session(any_cluster.target("worker", 0))
    old.run(v.initializer)
    assert old.run(add) == 2.0
    any_cluster["ps", 0].stop()
    with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError)):
        old.run(add)
    any_cluster.start("ps", 0)
    with tf.Session(any_cluster.target("worker", 1)) as new:
        new.run(v.initializer)
        assert new.run(add) == 2.0
        deadline = time.monotonic() + 60
        while True:
            with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError)) as caught:
                old.run(add)
            if isinstance(caught.value, tf.errors.AbortedError):
                break
            assert time.monotonic() < deadline, caught.value
        assert "restarted" in caught.value.message
        assert new.run(v) == 2.0
    old.close()
    with tf.Session(any_cluster.target("worker", 0)) as again:
        assert again.run(add) == 3.0


def test_a_step_that_is_interrupted_is_ended_on_every_task(any_cluster, until, monkeypatch):
    """Ctrl-C while a step waits."""
    value, _ = blocked_ops()

    def interrupted(plan, step, feeds):
        wait_until_blocked(until, *any_cluster.servers.values())
        raise KeyboardInterrupt

    with tf.Session(any_cluster.target("worker")) as sess:
        monkeypatch.setattr(master_session.executor, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sess.run(value)
        monkeypatch.undo()
        until(lambda: not any_cluster.busy())


@pytest.mark.parametrize("remote", [False, True], ids=["steps", "clients"])
def test_five_hundred_that_are_blocked_do_not_stop_the_one_that_frees_them(cluster, until, remote):
    value, put = blocked_ops()
    with tf.device(PS):
        many = tf.FIFOQueue(1000, [tf.float32], shapes=[[]], shared_name="empty").enqueue_many(
            [tf.ones([500])]
        )
    sess = tf.Session(cluster.target("worker", remote=remote))
    sess.run(put)
    assert sess.run(value) == 3.0
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(sess.run(value)), daemon=True)
        for _ in range(500)
    ]
    for thread in threads:
        thread.start()
    until(lambda: len(cluster["ps", 0].worker.partitions.running) == 500)
    with sess if remote else tf.Session(cluster.target("worker", 1)) as other:
        other.run(many)
        for thread in threads:
            thread.join(60)
        assert found == [3.0] * 500
    sess.close()
