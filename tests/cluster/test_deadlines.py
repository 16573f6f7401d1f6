"""Deadlines, closed sessions and clients that are gone, while a step computes."""

import threading
import time
from typing import Any

import pytest

import millrace as tf
from millrace.runtime import answered_in_time, executor

TASKS = ("/job:worker/task:0", "/job:ps/task:0")
SHORT = tf.RunOptions(timeout_in_ms=300)


def endless(where: str = "", value: Any = None) -> Any:
    """A loop that never ends, which no compiler can tell."""
    with tf.device(where):
        start = tf.random_uniform([]) if value is None else value
        return tf.while_loop(lambda x: x < 1e30, lambda x: tf.sin(x) + 1.0, [start])


def idle(cluster: Any) -> bool:
    return not cluster.busy() and not [
        thread for thread in threading.enumerate() if thread.name == "millrace computes"
    ]


@pytest.mark.parametrize("known", [False, True])
def test_a_deadline_ends_a_loop_in_this_process(known: bool, until: Any) -> None:
    loop = endless(value=tf.constant(1.0) if known else None)
    with tf.Session() as session:
        with pytest.raises(tf.errors.DeadlineExceededError, match="Timed out.*while"):
            session.run(loop, options=SHORT)
        assert session.run(tf.add(1, 2)) == 3


def test_the_configs_deadline_ends_a_loop_in_this_process() -> None:
    loop = endless()
    with (
        tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=300)) as session,
        pytest.raises(tf.errors.DeadlineExceededError),
    ):
        session.run(loop)


def test_a_loop_that_is_ended_leaves_variables_as_they_were() -> None:
    kept = tf.Variable(3.0)
    changed = tf.assign_add(kept, endless())
    replaced = tf.Variable(4.0)
    set_again = tf.assign(replaced, endless())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for update in (changed, set_again):
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(update, options=SHORT)
        assert session.run([kept, replaced]) == [3.0, 4.0]


def test_a_loop_in_a_loop_and_in_a_branch_is_ended() -> None:
    yes = tf.random_uniform([]) < 2
    branch = tf.cond(yes, endless, lambda: tf.constant(0.0))
    nested = tf.while_loop(
        lambda x: x < 1e30,
        lambda x: tf.while_loop(lambda y: y < 1e30, lambda y: tf.sin(y) + 1.0, [x]),
        [tf.random_uniform([])],
    )
    with tf.Session() as session:
        for loop in (branch, nested):
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(loop, options=SHORT)


def test_closing_a_session_ends_its_loop(background: Any, until: Any) -> None:
    loop = endless()
    session = tf.Session()
    running = background(lambda: session.run(loop))
    until(lambda: bool(session._backend._steps))
    session.close()
    with pytest.raises(tf.errors.CancelledError):
        running.result()


def test_a_program_that_cannot_be_stopped_is_said_to_go_on_and_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go = threading.Event(), threading.Event()
    run = executor.run

    def stubborn(*args: Any) -> Any:
        begun.set()
        assert go.wait(60)
        return run(*args)

    x = tf.placeholder(tf.float32, [2, 2])
    product = tf.matmul(x, x)
    with tf.Session() as session:
        monkeypatch.setattr(answered_in_time.executor, "run", stubborn)
        said = "cannot be stopped.*nothing else"
        with pytest.raises(tf.errors.DeadlineExceededError, match=said):
            session.run(product, {x: [[1, 2], [3, 4]]}, options=SHORT)
        assert begun.is_set()
        with pytest.raises(tf.errors.DeadlineExceededError, match="of an earlier step"):
            session.run(product, {x: [[1, 2], [3, 4]]}, options=SHORT)
        go.set()
        assert session.run(product, {x: [[1, 0], [0, 1]]}).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("where", TASKS)
def test_a_deadline_ends_a_loop_on_every_task(
    any_cluster: Any, until: Any, where: str, remote: bool
) -> None:
    loop = endless(where)
    with tf.Session(any_cluster.target("worker", remote=remote)) as session:
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(loop, options=SHORT)
        until(lambda: idle(any_cluster))
        assert session.run(tf.add(1, 2)) == 3


@pytest.mark.parametrize("where", TASKS)
def test_closing_a_session_ends_its_loop_on_every_task(
    cluster: Any, background: Any, until: Any, where: str
) -> None:
    loop = endless(where)
    session = tf.Session(cluster.target("worker"))
    running = background(lambda: session.run(loop))
    until(lambda: cluster.busy() != [])
    session.close()
    with pytest.raises((tf.errors.CancelledError, tf.errors.AbortedError)):
        running.result()
    until(lambda: idle(cluster))


@pytest.mark.parametrize("where", TASKS)
def test_a_client_that_is_gone_leaves_no_loop_behind(
    cluster: Any, background: Any, until: Any, where: str
) -> None:
    loop = endless(where)
    session = tf.Session(cluster.target("worker", remote=True))
    running = background(lambda: session.run(loop))
    until(lambda: cluster.busy() != [])
    session._backend._connection.close()
    with pytest.raises(tf.errors.OpError):
        running.result()
    until(lambda: idle(cluster))


def test_other_steps_run_while_a_loop_does(cluster: Any, background: Any) -> None:
    loop = endless("/job:ps/task:0")
    with tf.device("/job:ps/task:0"):
        other = tf.add(1, 2)
    with tf.Session(cluster.target("worker")) as session:
        running = background(lambda: session.run(loop, options=tf.RunOptions(timeout_in_ms=2000)))
        began = time.monotonic()
        assert session.run(other) == 3
        assert running.is_running or time.monotonic() - began > 2
        with pytest.raises(tf.errors.DeadlineExceededError):
            running.result()
