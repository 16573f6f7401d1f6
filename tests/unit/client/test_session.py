"""Sessions: their life, defaults, devices, callables, timeouts, threads."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millrace as tf

SECONDS = 60.0


def in_thread(function: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Runs a function in a thread; its result or exception goes into the list."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(function())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


def wait_until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)


# -- Life ------------------------------------------------------------------------------------


def test_a_session_is_the_default_inside_its_block_and_closed_after_it(graph: tf.Graph) -> None:
    other = tf.Graph()
    session = tf.Session(graph=other)
    with session as entered:
        assert entered is session
        assert tf.get_default_session() is session
        assert tf.get_default_graph() is other
    assert tf.get_default_session() is None
    assert tf.get_default_graph() is graph
    with pytest.raises(RuntimeError, match="Attempted to use a closed Session."):
        session.run([])


def test_as_default_neither_closes_nor_changes_the_graph(graph: tf.Graph) -> None:
    session = tf.Session(graph=tf.Graph())
    with session.as_default():
        assert tf.get_default_session() is session
        assert tf.get_default_graph() is graph
    assert session.list_devices()
    session.close()


def test_default_sessions_nest(graph: tf.Graph) -> None:
    with tf.Session() as outer:
        with tf.Session() as inner:
            assert tf.get_default_session() is inner
            with outer.as_default():
                assert tf.get_default_session() is outer
            assert tf.get_default_session() is inner
        assert tf.get_default_session() is outer


def test_closing_twice_is_closing_once() -> None:
    a = tf.constant(1)
    session = tf.Session()
    session.close()
    session.close()
    for use in (
        lambda: session.run(a),
        lambda: session.list_devices(),
        lambda: session.make_callable(a),
        lambda: session.partial_run_setup([a]),
        lambda: a.eval(session=session),
    ):
        with pytest.raises(RuntimeError, match="Attempted to use a closed Session."):
            use()


def test_an_empty_graph_cannot_be_run() -> None:
    with tf.Session() as session, pytest.raises(RuntimeError, match="The Session graph is empty"):
        session.run([])


def test_a_session_sees_what_is_added_to_its_graph() -> None:
    with tf.Session() as session:
        a = tf.constant(1.0)
        assert session.run(a) == 1.0
        b = a + 1.0
        assert session.run([a, b]) == [1.0, 2.0]


def test_a_session_sees_edits_of_existing_operations() -> None:
    a, b = tf.constant(1.0), tf.constant(5.0)
    c = tf.negative(a)
    with tf.Session() as session:
        assert session.run(c) == -1.0
        c.op._update_input(0, b)
        assert session.run(c) == -5.0


def test_sessions_have_variables_of_their_own() -> None:
    v = tf.Variable(1.0)
    with tf.Session() as first, tf.Session() as second:
        first.run(v.initializer)
        first.run(tf.assign_add(v, 1.0))
        with pytest.raises(tf.errors.FailedPreconditionError, match="Variable"):
            second.run(v)
        second.run(v.initializer)
        assert (first.run(v), second.run(v)) == (2.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((7,), TypeError, "target must be a string"),
        (("", 7), TypeError, "graph must be a tf.Graph"),
        (("", None, 7), TypeError, "config must be a tf.ConfigProto"),
        (("bogus",), tf.errors.NotFoundError, "No session factory registered"),
    ],
)
def test_bad_arguments_are_refused(arguments: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        tf.Session(*arguments)


def test_a_session_tells_its_graph_and_target(graph: tf.Graph) -> None:
    tf.constant(1.0)
    with tf.Session() as session:
        assert session.graph is graph
        assert session.graph_def == graph.as_graph_def()
        assert session.sess_str == b""


# -- Interactive -----------------------------------------------------------------------------


def test_an_interactive_session_is_the_default_until_it_is_closed() -> None:
    session = tf.InteractiveSession()
    assert tf.get_default_session() is session
    assert tf.constant(3.0).eval() == 3.0
    session.close()
    session.close()
    assert tf.get_default_session() is None


def test_an_interactive_session_may_be_closed_out_of_order() -> None:
    first = tf.InteractiveSession()
    with tf.Session() as second:
        first.close()
        assert tf.get_default_session() is second
    assert tf.get_default_session() is None
    with tf.Session():
        third = tf.InteractiveSession()
    assert tf.get_default_session() is third
    third.close()


def test_a_second_interactive_session_warns() -> None:
    first = tf.InteractiveSession()
    with pytest.warns(UserWarning, match="An interactive session is already active"):
        second = tf.InteractiveSession()
    second.close()
    first.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tf.InteractiveSession().close()


def test_an_interactive_session_makes_its_graph_the_default(graph: tf.Graph) -> None:
    other = tf.Graph()
    session = tf.InteractiveSession(graph=other)
    assert tf.get_default_graph() is other
    session.close()
    assert tf.get_default_graph() is graph


# -- Callables -------------------------------------------------------------------------------


def test_a_callable_takes_its_feeds_as_arguments() -> None:
    p, q, n = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, []), tf.no_op()
    with tf.Session() as session:
        multiply = session.make_callable({"y": p * q, "n": n}, [p, q])
        for factor in (3, 4):
            result = multiply([1, 2], factor)
            assert result["n"] is None
            assert result["y"].tolist() == [factor, 2 * factor]
        assert session.make_callable(n)() is None
        with pytest.raises(TypeError, match="Expected 2 feed values, got 1"):
            multiply([1, 2])
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            multiply([1, 2, 3], 1)
        with pytest.raises(TypeError, match="without accept_options"):
            multiply([1, 2], 1, options=tf.RunOptions())
        with pytest.raises(TypeError, match="`feed_list` must be a list or tuple"):
            session.make_callable(p, p)
        with pytest.raises(ValueError, match="'zz' refers to an Operation not in the graph"):
            session.make_callable("zz")
    with pytest.raises(RuntimeError, match="closed Session"):
        multiply([1, 2], 3)


def test_a_callable_can_take_options() -> None:
    p = tf.placeholder(tf.float32, [])
    with tf.Session() as session:
        call = session.make_callable(p * 2.0, [p], accept_options=True)
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        assert call(3, options=options, run_metadata=metadata) == 6.0
        assert metadata.step_stats.dev_stats


# -- Devices ---------------------------------------------------------------------------------


def test_the_devices_of_a_session_are_as_many_cpus_as_asked_for() -> None:
    with tf.Session() as session:
        (device,) = session.list_devices()
        assert device.name == "/job:localhost/replica:0/task:0/device:CPU:0"
        assert device.device_type == "CPU"
        assert device.memory_limit_bytes > 0 and 0 <= device.incarnation < 2**64
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 3})) as session:
        assert [d.name[-5:] for d in session.list_devices()] == ["CPU:0", "CPU:1", "CPU:2"]


@pytest.mark.parametrize(
    "device",
    ["/cpu:0", "/device:CPU:*", "/job:localhost/replica:0/task:0/device:CPU:0", ""],
)
def test_a_device_that_is_there_is_used(device: str) -> None:
    with tf.device(device):
        a = tf.add(1.0, 2.0)
    with tf.Session() as session:
        assert session.run(a) == 3.0


@pytest.mark.parametrize("device", ["/cpu:1", "/gpu:0", "/job:ps", "/task:1"])
def test_a_device_that_is_not_there_is_an_error_that_names_those_that_are(device: str) -> None:
    with tf.device(device):
        a = tf.add(1.0, 2.0, name="a")
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(a)
        message = str(caught.value)
        assert "Cannot assign a device for operation a" in message
        assert "/job:localhost/replica:0/task:0/device:CPU:0" in message


def test_soft_placement_forgives_the_device_but_not_the_task() -> None:
    config = tf.ConfigProto(allow_soft_placement=True)
    for device in ("/cpu:1", "/gpu:0"):
        with tf.device(device):
            a = tf.add(1.0, 2.0)
        with tf.Session(config=config) as session:
            assert session.run(a) == 3.0
    for device in ("/job:ps", "/task:1"):
        with tf.device(device):
            a = tf.add(1.0, 2.0)
        with (
            tf.Session(config=config) as session,
            pytest.raises(tf.errors.InvalidArgumentError, match="Cannot assign a device"),
        ):
            session.run(a)


def test_placement_is_logged_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with tf.device("/cpu:1"):
        a = tf.add(tf.placeholder(tf.float32, [], name="p"), 2.0, name="sum")
    config = tf.ConfigProto(device_count={"CPU": 2}, log_device_placement=True)
    with tf.Session(config=config) as session:
        session.run(a, {"p:0": 1.0})
    lines = capsys.readouterr().out.splitlines()
    assert "sum: (AddV2): /job:localhost/replica:0/task:0/device:CPU:1" in lines


# -- Errors and waits ------------------------------------------------------------------------


def test_an_error_names_the_op_and_leaves_the_session_usable() -> None:
    x = tf.placeholder(tf.float32, [2])
    checked = tf.check_numerics(x, "words", name="checked")
    v = tf.Variable(1.0)
    with tf.Session() as session:
        session.run(v.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match="words") as caught:
            session.run(checked, {x: [1, np.nan]})
        error = caught.value
        assert error.op is checked.op
        assert error.node_def.name == "checked"
        assert error.error_code == tf.errors.INVALID_ARGUMENT
        assert __file__ in str(error)
        assert session.run(checked, {x: [1, 2]}).tolist() == [1.0, 2.0]
        assert session.run(v) == 1.0


def test_a_step_that_fails_does_not_update_variables() -> None:
    x = tf.placeholder(tf.float32, [])
    v = tf.Variable(1.0)
    with tf.control_dependencies([tf.check_numerics(x, "bad")]):
        update = tf.assign_add(v, 1.0)
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(update, {x: 0.0})
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(update, {x: np.inf})
        assert session.run(v) in (2.0, 3.0)
        session.run(update, {x: 0.0})


def waiting_queue() -> tuple[Any, Any]:
    queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]], name="q")
    return queue, queue.dequeue(name="d")


def test_a_step_that_takes_too_long_is_given_up() -> None:
    queue, dequeue = waiting_queue()
    with tf.Session() as session:
        with pytest.raises(tf.errors.DeadlineExceededError, match="waiting for notification: d"):
            session.run(dequeue, options=tf.RunOptions(timeout_in_ms=30))
        session.run(queue.enqueue(1.0))
        assert session.run(dequeue, options=tf.RunOptions(timeout_in_ms=30000)) == 1.0
    with (
        tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=30)) as session,
        pytest.raises(tf.errors.DeadlineExceededError),
    ):
        session.run(dequeue)


def test_closing_a_session_ends_its_waiting_steps() -> None:
    _, dequeue = waiting_queue()
    session = tf.Session()
    thread, outcome = in_thread(lambda: session.run(dequeue))
    wait_until(lambda: session._backend._steps)  # type: ignore[attr-defined]
    session.close()
    thread.join(SECONDS)
    assert isinstance(outcome[0], tf.errors.CancelledError | RuntimeError)


def test_a_waiting_step_does_not_keep_others_from_running() -> None:
    queue, dequeue = waiting_queue()
    with tf.Session() as session:
        waiting = [in_thread(lambda: session.run(dequeue)) for _ in range(5)]
        for i in range(5):
            session.run(queue.enqueue(float(i)))
        for thread, _ in waiting:
            thread.join(SECONDS)
        assert sorted(outcome[0] for _, outcome in waiting) == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_steps_of_several_threads_do_not_lose_updates() -> None:
    v = tf.Variable(0.0)
    increment = tf.assign_add(v, 1.0)
    with tf.Session() as session:
        session.run(v.initializer)
        workers = [in_thread(lambda: [session.run(increment) for _ in range(50)]) for _ in range(4)]
        for thread, _ in workers:
            thread.join(SECONDS)
        assert not [o for _, o in workers if isinstance(o[0], Exception)]
        assert session.run(v) == 200.0


def test_a_graph_may_grow_while_other_threads_run_it() -> None:
    a = tf.placeholder(tf.float32, [])
    total = a + 1.0
    with tf.Session() as session:
        stop = threading.Event()

        begun = threading.Semaphore(0)

        def run() -> str:
            while not stop.is_set():
                assert session.run(total, {a: 1.0}) == 2.0
                begun.release()
            return "well"

        workers = [in_thread(run) for _ in range(2)]
        assert begun.acquire(timeout=SECONDS)
        for i in range(30):
            assert session.run(total * float(i), {a: 1.0}) == 2.0 * i
        stop.set()
        for thread, outcome in workers:
            thread.join(SECONDS)
            assert outcome == ["well"]


def test_reset_drops_containers_of_the_target_only() -> None:
    with tf.container("box"):
        v = tf.Variable(1.0)
    with tf.Session() as session:
        session.run(v.initializer)
        tf.Session.reset("", ["box"])
        assert session.run(v) == 1.0, "an in-process session's state is its own"
