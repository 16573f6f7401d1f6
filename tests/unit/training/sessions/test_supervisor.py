"""Supervisor, its threads, and basic_train_loop, where the stories of tests/parity do not reach."""

import os
import threading

import numpy as np
import pytest

import millrace as tf
from millrace.training.sessions.supervisor_threads import (
    SVStepCounterThread,
    SVSummaryThread,
    SVTimerCheckpointThread,
)


@pytest.fixture(autouse=True)
def step(graph):
    return tf.Variable(0, name="global_step", trainable=False, dtype=tf.int64)


def events(folder):
    return [
        event
        for name in sorted(os.listdir(folder))
        if "tfevents" in name
        for event in tf.train.summary_iterator(os.path.join(folder, name))
    ]


def told(folder, kind):
    return [event for event in events(folder) if event.WhichOneof("what") == kind]


class Numbers:
    """A session whose runs give numbers, one after the other."""

    def __init__(self, *numbers):
        self._numbers = list(numbers)

    def run(self, fetches):
        return self._numbers.pop(0)


def test_the_speed_is_measured_from_one_loop_to_the_next(step, tmp_path, fake_clock, log_lines):
    supervisor = tf.train.Supervisor(logdir=str(tmp_path))
    thread = SVStepCounterThread(supervisor, Numbers(5, 25, 25, 40), clock=fake_clock.clock)
    thread.start_loop()
    for seconds in (10, 5, 0):
        fake_clock.time += seconds
        thread.run_loop()
    supervisor.summary_writer.close()
    written = [(e.step, e.summary.value[0]) for e in told(tmp_path, "summary")]
    assert [(at, value.tag, value.simple_value) for at, value in written] == [
        (25, "global_step/sec", 2.0),
        (25, "global_step/sec", 0.0),
        (40, "global_step/sec", float("inf")),
    ]
    assert ("INFO", "global_step/sec: 2") in log_lines


def test_the_speed_of_another_counter_can_be_measured(step):
    other = tf.Variable(0, name="examples", dtype=tf.int64)
    supervisor = tf.train.Supervisor()
    thread = SVStepCounterThread(supervisor, Numbers(), step_counter=other)
    assert thread._summary_tag == "examples/sec"


def test_the_speed_is_logged_ten_times(step, log_lines, fake_clock):
    supervisor = tf.train.Supervisor()
    thread = SVStepCounterThread(supervisor, Numbers(*range(20)), clock=fake_clock.clock)
    thread.start_loop()
    for _ in range(15):
        fake_clock.time += 1
        thread.run_loop()
    assert len([text for _, text in log_lines if "/sec" in text]) == 10


def test_summaries_are_written_with_their_step(step, tmp_path, log_lines):
    tf.summary.scalar("loss", tf.constant(0.5))
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_summaries_secs=0)
    with supervisor.managed_session("") as session:
        session.run(step.initializer)
        thread = SVSummaryThread(supervisor, session)
        thread.run_loop()
    assert [(e.step, e.summary.value[0].tag) for e in told(tmp_path, "summary")] == [(0, "loss")]
    assert ("INFO", "Recording summary at step 0.") in log_lines


def test_summaries_without_a_step_have_none(tmp_path):
    with tf.Graph().as_default():
        tf.summary.scalar("loss", tf.constant(0.5))
        supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_summaries_secs=0)
        with supervisor.managed_session("") as session:
            SVSummaryThread(supervisor, session).run_loop()
    assert [event.step for event in told(tmp_path, "summary")] == [0]


def test_a_checkpoint_is_noted_in_the_event_file(step, tmp_path, log_lines):
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0)
    with supervisor.managed_session("") as session:
        SVTimerCheckpointThread(supervisor, session).run_loop()
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-0")
    logs = [event.session_log for event in told(tmp_path, "session_log")]
    statuses = [log.status for log in logs]
    assert statuses == [1, 3, 2]  # START, CHECKPOINT, STOP
    assert logs[1].checkpoint_path == str(tmp_path / "model.ckpt")
    assert ("INFO", f"Saving checkpoint to path {tmp_path / 'model.ckpt'}") in log_lines


def test_all_services_run_until_the_stop(step, tmp_path):
    tf.summary.scalar("loss", tf.constant(0.5))
    supervisor = tf.train.Supervisor(logdir=str(tmp_path))
    session = supervisor.prepare_or_wait_for_session("", start_standard_services=False)
    threads = supervisor.start_standard_services(session)
    assert [type(thread) for thread in threads] == [
        SVSummaryThread,
        SVStepCounterThread,
        SVTimerCheckpointThread,
    ]
    supervisor.stop()
    session.close()
    assert not any(thread.is_alive() for thread in threads)


def test_a_service_that_fails_ends_the_training(step, tmp_path):
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_summaries_secs=0)

    def fail(*args, **kwargs):
        raise tf.errors.ResourceExhaustedError(None, None, "no space left on device")

    supervisor.saver.save = fail
    with (
        pytest.raises(tf.errors.ResourceExhaustedError, match="no space left"),
        supervisor.managed_session("") as session,
    ):
        supervisor.wait_for_stop()
        session.run(step)


def test_a_supervisor_can_be_used_again_after_a_stop(step, tmp_path):
    add = tf.assign_add(step, 1)
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0)
    for start in (0, 3):
        with supervisor.managed_session("") as session:
            assert session.run(step) == start
            for _ in range(3):
                session.run(add)
            supervisor.saver.save(session, supervisor.save_path, supervisor.global_step)
    files = [name for name in os.listdir(tmp_path) if "tfevents" in name]
    assert len(files) == 2


def test_the_names_of_tensorflow_0_are_there(step):
    supervisor = tf.train.Supervisor()
    assert not supervisor.ShouldStop()
    session = supervisor.PrepareSession("")
    with supervisor.StopOnException():
        raise tf.errors.OutOfRangeError(None, None, "the end")
    assert supervisor.ShouldStop()
    supervisor.WaitForStop()
    supervisor.Stop()
    session.close()
    for name in ("StartQueueRunners", "StartStandardServices", "RequestStop", "Loop"):
        assert callable(getattr(supervisor, name))


def test_a_loop_is_called_with_its_arguments(step):
    supervisor = tf.train.Supervisor()
    seen = threading.Event()
    calls = []

    def call(one, two):
        calls.append((one, two))
        seen.set()

    with supervisor.managed_session(""):
        supervisor.Loop(60, call, args=(1,), kwargs={"two": 2})
        assert seen.wait(60)
    assert calls == [(1, 2)]


def test_variables_without_a_device_are_named(step):
    with tf.device("/job:ps/task:0"):
        tf.get_variable("placed", [])
    tf.get_variable("unplaced", [])
    with pytest.raises(ValueError, match="device set: global_step, unplaced. .*replica_device"):
        tf.train.Supervisor(is_chief=False)


def test_a_global_step_that_is_no_integer_is_not_used(log_lines):
    with tf.Graph().as_default():
        tf.Variable(0.0, name="global_step")
        assert tf.train.Supervisor().global_step is None
    assert any("not an int type" in text for _, text in log_lines)


def test_none_switches_services_off(step, tmp_path):
    tf.summary.scalar("loss", tf.constant(0.5))
    supervisor = tf.train.Supervisor(
        logdir=str(tmp_path), saver=None, summary_op=None, global_step=None, summary_writer=None
    )
    with supervisor.managed_session("") as session:
        assert supervisor.start_standard_services(session) == []
        with pytest.raises(RuntimeError, match="requires a summary writer.*is_chief=True"):
            supervisor.summary_computed(session, b"")
    assert sorted(os.listdir(tmp_path)) == ["graph.pbtxt"]


def test_the_init_function_and_feeds_are_used(step):
    x = tf.placeholder(tf.float32, [])
    v = tf.Variable(x, trainable=False)
    seen = []
    supervisor = tf.train.Supervisor(
        init_feed_dict={x: 4.0}, init_fn=lambda session: seen.append(session.run(v))
    )
    with supervisor.managed_session("") as session:
        assert session.run(v) == 4
    assert seen == [4.0]


def test_a_given_session_manager_makes_the_sessions(step):
    class Manager(tf.train.SessionManager):
        def prepare_session(self, master, **arguments):
            assert master == "somewhere"
            return super().prepare_session("", **arguments)

    manager = Manager()
    supervisor = tf.train.Supervisor(session_manager=manager)
    assert supervisor.session_manager is manager
    with supervisor.managed_session("somewhere") as session:
        assert session.run(step) == 0


def test_the_interval_of_a_waiting_supervisor_is_passed_on(step):
    with tf.Graph().as_default():
        quick = tf.train.Supervisor(is_chief=False)
        slow = tf.train.Supervisor(is_chief=False, recovery_wait_secs=30)
    assert quick.session_manager._recovery_wait_secs is None
    assert slow.session_manager._recovery_wait_secs == 30


@pytest.mark.parametrize("kind", [tf.errors.AbortedError, tf.errors.UnavailableError])
def test_a_train_loop_goes_on_after_a_fault(step, kind, fake_clock):
    add = tf.assign_add(step, 1)
    supervisor = tf.train.Supervisor()
    outcomes = iter([None, kind(None, None, "ps 0 restarted"), None, None])
    steps = []

    def train(session):
        fault = next(outcomes, supervisor)
        if fault is supervisor:
            supervisor.request_stop()
        elif fault is not None:
            raise fault
        else:
            steps.append(int(session.run(add)))

    tf.train.basic_train_loop(supervisor, train, clock=fake_clock.clock)
    assert steps == [1, 1, 2]
    assert fake_clock.sleeps == []


def test_a_train_loop_does_not_spin_while_a_task_is_away(step, fake_clock, log_lines):
    supervisor = tf.train.Supervisor()
    attempts = []

    def train(session):
        attempts.append(1)
        if len(attempts) > 40:
            supervisor.request_stop()
            return
        raise tf.errors.UnavailableError(None, None, "ps 0 is away")

    tf.train.basic_train_loop(supervisor, train, clock=fake_clock.clock)
    assert fake_clock.time - 1000 > 10
    assert any("Waiting for" in text and "ps 0 is away" in text for _, text in log_lines)


def test_summaries_may_be_messages_or_bytes(step, tmp_path):
    summary = tf.summary.scalar("x", tf.constant(1.0))
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), summary_op=None, save_model_secs=0)
    with supervisor.managed_session("") as session:
        value = session.run(summary)
        supervisor.summary_computed(session, value)
        supervisor.summary_computed(session, tf.Summary.FromString(value), np.int64(7))
    assert [event.step for event in told(tmp_path, "summary")][-2:] == [0, 7]
