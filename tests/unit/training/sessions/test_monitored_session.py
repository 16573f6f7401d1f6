"""Monitored sessions, where the stories of tests/parity do not reach."""

import threading
from collections import namedtuple

import numpy as np
import pytest

import millrace as tf


@pytest.fixture(autouse=True)
def add(graph):
    """An operation that makes a step."""
    yield tf.assign_add(tf.train.get_or_create_global_step(), 1)
    tf.summary.FileWriterCache.clear()


class Ends(tf.train.SessionRunHook):
    def __init__(self, calls, error=None):
        self.calls, self.error = calls, error

    def end(self, session):
        self.calls.append(session is not None)
        if self.error:
            raise self.error


def test_a_hook_that_fails_at_the_end_does_not_keep_the_others_from_ending(add, log_lines):
    calls = []
    hooks = [
        Ends(calls, LookupError("first")),
        Ends(calls, LookupError("second")),
        Ends(calls),
    ]
    session = tf.train.MonitoredSession(hooks=hooks)
    session.run(add)
    with pytest.raises(LookupError, match="first") as raised:
        session.close()
    assert calls == [True] * 3
    assert any("end of Ends" in note for note in raised.value.__notes__)
    assert any(level == "ERROR" and "second" in text for level, text in log_lines)
    assert session.should_stop()


def test_the_last_checkpoint_is_written_although_another_hook_fails_at_the_end(add, tmp_path):
    with (
        pytest.raises(LookupError, match="mine"),
        tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path), chief_only_hooks=[Ends([], LookupError("mine"))]
        ) as session,
    ):
        for _ in range(3):
            session.run(add)
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-3")


def test_a_session_is_closed_once(add):
    calls = []
    session = tf.train.MonitoredSession(hooks=[Ends(calls)])
    session.close()
    for use in (session.close, lambda: session.run(add), lambda: session.run_step_fn(lambda s: s)):
        with pytest.raises((RuntimeError, ValueError)):
            use()
    with pytest.raises(RuntimeError, match="already closed"):
        session.run(add)
    assert calls == [True]
    assert session.graph is None


def test_a_hook_that_does_not_accept_a_session_leaves_no_thread(add):
    queue = tf.FIFOQueue(1, tf.int32)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(1)]))

    class Refuses(tf.train.SessionRunHook):
        def after_create_session(self, session, coord):
            raise LookupError("not this one")

    before = set(threading.enumerate())
    with pytest.raises(LookupError, match="not this one"):
        tf.train.MonitoredSession(hooks=[Refuses()])
    new = {*threading.enumerate()} - before
    left = [t for t in new if t.name.startswith("QueueRunnerThread")]
    for thread in left:
        thread.join(60)
    assert not any(thread.is_alive() for thread in left)


def test_an_error_in_a_queue_runner_ends_the_training_and_is_raised(add):
    def fail():
        raise ValueError("bad data")

    queue = tf.FIFOQueue(1, tf.int32)
    enqueue = queue.enqueue(tf.py_func(fail, [], tf.int32))
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue]))
    item = queue.dequeue()
    with (
        pytest.raises(tf.errors.OpError),
        tf.train.MonitoredSession() as session,
    ):
        while not session.should_stop():
            session.run(item)


def test_queue_runners_are_started_again_after_a_fault(add):
    queue = tf.FIFOQueue(4, tf.int64, shapes=[[]])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(np.int64(5))]))
    item = queue.dequeue()
    faults = [tf.errors.AbortedError(None, None, "ps 0 restarted")]

    class Fault(tf.train.SessionRunHook):
        def before_run(self, run_context):
            if faults:
                raise faults.pop()

    with tf.train.MonitoredSession(hooks=[Fault()]) as session:
        assert [int(session.run(item)) for _ in range(10)] == [5] * 10


def test_training_goes_on_from_the_checkpoint_after_a_fault(add, tmp_path, log_lines):
    faults = {7: tf.errors.UnavailableError(None, None, "ps 0 is away")}
    runs = []

    class Fault(tf.train.SessionRunHook):
        def before_run(self, run_context):
            runs.append(1)
            if len(runs) in faults:
                raise faults[len(runs)]

    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), save_checkpoint_steps=4, hooks=[Fault()]
    ) as session:
        steps = [int(session.run(add)) for _ in range(8)]
    assert steps == [1, 2, 3, 4, 5, 6, 5, 6]
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-6")
    assert any("steps are lost" in text for _, text in log_lines)


def test_a_worker_has_no_hooks_of_the_chief(tmp_path):
    with tf.Graph().as_default():
        local = tf.Variable(1.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
        calls = []
        with tf.train.MonitoredTrainingSession(
            is_chief=False,
            checkpoint_dir=str(tmp_path),
            chief_only_hooks=[Ends([], LookupError("for the chief"))],
            hooks=[Ends(calls)],
        ) as session:
            assert session.run(local) == 1
        assert calls == [True]
        assert list(tmp_path.iterdir()) == []


def test_a_worker_whose_chief_never_comes_gives_up(add):
    with pytest.raises(tf.errors.DeadlineExceededError, match="global_step"):
        tf.train.MonitoredTrainingSession(is_chief=False, max_wait_secs=0)


def test_a_chief_whose_model_is_not_ready_says_what_is_missing():
    tf.get_variable("forgotten", [])
    scaffold = tf.train.Scaffold(init_op=tf.train.get_global_step().initializer)
    with pytest.raises(RuntimeError, match="forgotten"):
        tf.train.MonitoredTrainingSession(scaffold=scaffold)


def test_the_file_to_restore_can_be_named(add, tmp_path):
    with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path)) as session:
        for _ in range(3):
            session.run(add)
    with tf.train.SingularMonitoredSession(
        checkpoint_filename_with_path=str(tmp_path / "model.ckpt-0")
    ) as session:
        assert session.run(add) == 1


def test_saver_and_hooks_see_the_session_itself(add, tmp_path):
    """A hook may hand the session that it gets to a Saver."""
    saver = tf.train.Saver()

    class Saves(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            saver.save(run_context.session, str(tmp_path / "mine"))

    with tf.train.MonitoredSession(hooks=[Saves()]) as session:
        session.run(add)
    assert tf.train.checkpoint_exists(str(tmp_path / "mine"))


def test_resources_that_register_themselves_are_initialised_and_reported(graph):
    Resource = namedtuple("Resource", "handle create is_initialized")
    v = tf.Variable(0.0, collections=[], name="thing")
    tf.add_to_collection(
        tf.GraphKeys.RESOURCES,
        Resource(v.op.outputs[0], v.initializer, tf.is_variable_initialized(v)),
    )
    scaffold = tf.train.Scaffold().finalize()
    with tf.Session() as session:
        assert [n.decode() for n in session.run(scaffold.ready_op)] == ["global_step", "thing:0"]
        session.run(scaffold.init_op)
        assert session.run(scaffold.ready_op).size == 0
