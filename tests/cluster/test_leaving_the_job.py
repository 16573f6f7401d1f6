"""Sessions that begin when some tasks have left the job well."""

import logging
from typing import Any

import pytest

import millrace as tf
from millrace.server import meeting


@pytest.fixture
def without_worker_1(cluster: Any) -> Any:
    """A cluster whose worker 1 has ended well, and whose chief was restarted after that."""
    worker = cluster["worker", 1]
    worker._tell_left()
    worker.stop()
    cluster["worker", 0].stop()
    cluster.start("worker", 0)
    return cluster


def count() -> tuple[Any, Any]:
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
        return step, tf.assign_add(step, 1)


def plain(target: str) -> int:
    _, add = count()
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        return int(session.run(add))


def monitored(target: str) -> int:
    _, add = count()
    with tf.train.MonitoredTrainingSession(target, is_chief=True) as session:
        return int(session.run(add))


def supervised(target: str) -> int:
    _, add = count()
    supervisor = tf.train.Supervisor(is_chief=True)
    with supervisor.managed_session(target) as session:
        return int(session.run(add))


def managed(target: str) -> int:
    _, add = count()
    init = tf.global_variables_initializer()
    with tf.train.SessionManager().prepare_session(target, init_op=init) as session:
        return int(session.run(add))


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("train", [plain, monitored, supervised, managed])
def test_a_restarted_chief_does_not_wait_for_a_worker_that_has_left(
    without_worker_1: Any, background: Any, caplog: Any, train: Any, remote: bool
) -> None:
    target = without_worker_1.target("worker", remote=remote)
    graph = tf.get_default_graph()

    def go() -> int:
        with graph.as_default():
            return train(target)

    with caplog.at_level(logging.INFO):
        assert background(go).result() == 1
    said = [r.getMessage() for r in caplog.records if "has left the job" in r.getMessage()]
    assert said and all("/job:worker/replica:0/task:1" in words for words in said)


def test_tasks_that_were_restarted_are_told_who_had_left(cluster: Any, background: Any) -> None:
    worker = cluster["worker", 1]
    worker._tell_left()
    worker.stop()
    cluster["ps", 0].stop()
    cluster.start("ps", 0)
    # The chief alone remembers, and recovers its session.
    background(lambda: tf.Session(cluster.target("worker"))).result().close()
    cluster["worker", 0].stop()
    cluster.start("worker", 0)
    background(lambda: tf.Session(cluster.target("worker"))).result().close()


def test_a_worker_that_died_is_still_waited_for(cluster: Any, background: Any, until: Any) -> None:
    cluster["worker", 1].stop()
    asked: list[str] = []
    peers = cluster["worker", 0].peers
    connection = peers.connection

    def noting(address: str) -> Any:
        asked.append(address)
        return connection(address)

    peers.connection = noting
    waiting = background(lambda: tf.Session(cluster.target("worker")))
    until(lambda: asked.count(cluster.spec["worker"][1]) > 2)
    assert waiting.is_running
    cluster.start("worker", 1)
    waiting.result().close()


def test_a_graph_that_names_a_task_that_has_left_waits_for_it(
    without_worker_1: Any, background: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tf.device("/job:worker/task:1"):
        there = tf.add(1, 1)
    asked: list[str] = []
    ask = meeting.Meeting._ask

    def noting(self: meeting.Meeting, task: str, *rest: Any) -> Any:
        asked.append(task)
        return ask(self, task, *rest)

    monkeypatch.setattr(meeting.Meeting, "_ask", noting)
    waiting = background(lambda: tf.Session(without_worker_1.target("worker"), there.graph))
    until(lambda: "/job:worker/replica:0/task:1" in asked)
    without_worker_1.start("worker", 1)
    with waiting.result() as session:
        assert session.run(there) == 2


@pytest.mark.parametrize("remote", [False, True])
def test_a_step_that_names_a_task_that_had_left_meets_it_when_it_is_back(
    without_worker_1: Any, background: Any, remote: bool
) -> None:
    with tf.Session(without_worker_1.target("worker", remote=remote)) as session:
        assert session.run(tf.add(1, 0)) == 1
        names = [device.name for device in session.list_devices()]
        assert not any("worker/replica:0/task:1" in name for name in names)
        with tf.device("/job:worker/task:1"):
            there = tf.add(1, 1)
        running = background(lambda: session.run(there))
        without_worker_1.start("worker", 1)
        assert running.result() == 2
        names = [device.name for device in session.list_devices()]
        assert any("worker/replica:0/task:1" in name for name in names)


def test_closing_a_session_ends_a_step_that_waits_for_a_task_that_has_left(
    without_worker_1: Any, background: Any, until: Any
) -> None:
    session = tf.Session(without_worker_1.target("worker"))
    with tf.device("/job:worker/task:1"):
        there = tf.add(1, 1)
    first = session._backend._meeting
    running = background(lambda: session.run(there))
    until(lambda: session._backend._meeting is not first)
    session.close()
    with pytest.raises((tf.errors.UnavailableError, tf.errors.CancelledError)):
        running.result()
