"""A task that answers late, because its machine is busy: who waits for it may recover, not end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import millrace as tf
from millrace.core import errors
from millrace.server import master_session, meeting, peers


class Slow:
    """Holds calls until it is told to let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def __call__(self, method: Any) -> Any:
        def held(*args: Any, **kwargs: Any) -> Any:
            assert self.let_go.wait(60)
            return method(*args, **kwargs)

        return held


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.let_go.set()


def too_late() -> Any:
    """The ps is named, and it is an error from which sessions recover."""
    return pytest.raises(errors.RECOVERABLE, match="/job:ps/replica:0/task:0.* 0.2 s")


def step_is_too_late(cluster: Any, monkeypatch: Any, limit: tuple[Any, str]) -> None:
    """A step on a slow ps fails once its limit is low; the session itself is made."""
    with tf.device("/job:ps/task:0"):
        one = tf.Variable(1, name="one")
    with tf.Session(cluster.target("worker")) as session:
        monkeypatch.setattr(*limit, 0.2)
        with too_late():
            session.run(one.initializer)


def test_a_task_that_takes_too_long_for_a_new_session_is_an_error_that_sessions_recover_from(
    cluster: Any, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = cluster["ps", 0].worker.sessions
    monkeypatch.setattr(sessions, "create_session", slow(sessions.create_session))
    monkeypatch.setattr(master_session, "_REGISTER_SECONDS", 0.2)
    with too_late():
        tf.Session(cluster.target("worker"))


def test_a_task_that_takes_too_long_for_a_graph_is_an_error_that_sessions_recover_from(
    cluster: Any, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = cluster["ps", 0].worker.sessions
    monkeypatch.setattr(sessions, "register", slow(sessions.register))
    step_is_too_late(cluster, monkeypatch, (master_session, "_REGISTER_SECONDS"))


def test_a_task_that_takes_too_long_to_meet_another_is_an_error_that_sessions_recover_from(
    make_cluster: Any, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers.Peers, "meet", slow(peers.Peers.meet))
    cluster = make_cluster({"ps": 1, "worker": 1}, "socket")
    step_is_too_late(cluster, monkeypatch, (peers, "_MEET_SECONDS"))


def test_a_monitored_session_outlives_a_task_that_answers_late(
    cluster: Any, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine where all cores are busy: the first attempts run out of time."""
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
        add = tf.assign_add(step, 1)
    worker = cluster["ps", 0].worker
    create, late = worker.sessions.create_session, []

    def create_session(*args: Any) -> Any:
        if len(late) == 3:
            return create(*args)
        late.append(args)
        if len(late) == 3:  # The next attempt has all the time that it needs.
            monkeypatch.setattr(master_session, "_REGISTER_SECONDS", 120.0)
        return slow(create)(*args)

    monkeypatch.setattr(worker.sessions, "create_session", create_session)
    monkeypatch.setattr(master_session, "_REGISTER_SECONDS", 0.2)
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:0"])
    with tf.train.MonitoredTrainingSession(cluster.target("worker"), config=config) as session:
        assert session.run(add) == 1
    assert len(late) == 3


def test_a_task_that_does_not_answer_a_new_session_is_asked_over_new_connections(
    cluster: Any, background: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that a cut network has left behind would be tried by the system, too seldom."""
    cluster["ps", 0].stop()
    mine = cluster["worker", 0].peers
    address = cluster.spec["ps"][0]
    used = [mine.connection(address)]
    renew = mine.renew

    def renewing(address: str) -> None:
        renew(address)
        used.append(mine.connection(address))

    monkeypatch.setattr(mine, "renew", renewing)
    monkeypatch.setattr(meeting, "_RENEW_SECONDS", 0.0)
    waiting = background(lambda: tf.Session(cluster.target("worker")))
    until(lambda: len(used) > 2)
    monkeypatch.setattr(meeting, "_RENEW_SECONDS", 60.0)
    assert len(set(used)) == len(used) and waiting.is_running
    cluster.start("ps", 0)
    waiting.result().close()
