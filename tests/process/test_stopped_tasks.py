"""Real processes that are stopped (SIGSTOP) and go on: found by heartbeat, and fenced."""

import signal

import pytest

import millrace as tf
from millrace.platform.ports import HeldPorts

PS = "/job:ps/replica:0/task:0"


@pytest.fixture(params=["grpc+fast", "grpc"])
def protocol(request):
    return request.param


@pytest.fixture
def go(tmp_path):
    """A file for which gradients wait."""
    return tmp_path / "go"


def test_a_stopped_ps_fails_the_steps_that_wait_for_it(start, protocol):
    ps = start("ps", 0, "serve", protocol=protocol)
    trains = start("worker", 0, "train", protocol=protocol)
    blocked = start("worker", 1, "blocked", protocol=protocol)
    trains.hears(r"^step 3")
    blocked.hears(r"^blocks")
    ps.send_signal(signal.SIGSTOP)
    for worker in (trains, blocked):
        line = worker.hears(r"^error")
        assert "UnavailableError" in line and PS in line
        assert "Check" in line
    ps.send_signal(signal.SIGCONT)
    trains.hears(r"^step")


def test_what_was_sent_to_a_stopped_ps_is_not_applied_when_it_goes_on(start, go):
    ps = start("ps", 0, "serve")
    worker = start("worker", 0, "gradient", str(go))
    worker.hears("^computes")
    ps.send_signal(signal.SIGSTOP)
    go.touch()  # The gradient is sent, and lies in the ps's socket.
    assert "UnavailableError" in worker.hears("^error")
    go.unlink()
    ps.send_signal(signal.SIGCONT)
    worker.hears("^session")
    worker.hears("^value 0")  # The worker was told that it failed: so it did.
    go.touch()
    worker.hears("^step 1")


def test_steps_that_are_repeated_because_a_ps_was_stopped_are_applied_once(make_process):
    with HeldPorts(3) as held:
        spec = {"ps": held.addresses[:2], "worker": held.addresses[2:]}
        options = {"heartbeat": 0.5}
        make_process("ps", 0, spec, "serve", **options)
        stopped = make_process("ps", 1, spec, "serve", **options)
        worker = make_process("worker", 0, spec, "count", "300", **options)
        for _ in range(3):
            worker.hears("^step .*")
            stopped.send_signal(signal.SIGSTOP)
            worker.hears("The current session will be closed")
            stopped.send_signal(signal.SIGCONT)
            worker.hears("^step .*")
        values = worker.hears("^values").split()[1:]
    assert set(values[:-1]) == {f"{values[-1]}.0"}


def test_a_stopped_worker_is_given_up_and_what_it_sends_late_is_refused(start, protocol, go, until):
    ps = start("ps", 0, "serve", protocol=protocol)
    worker = start("worker", 0, "gradient", str(go), protocol=protocol)
    worker.hears("^computes")
    assert ps.status()["graphs"] > 0
    worker.send_signal(signal.SIGSTOP)
    until(lambda: ps.status()["graphs"] == 0)
    go.touch()
    worker.send_signal(signal.SIGCONT)
    assert PS in worker.hears("^error")
    worker.hears("^at last AbortedError")
    worker.hears("^session")
    worker.hears("^value 0")  # The late gradient was not applied.
    worker.hears("^step 1")


def test_a_worker_whose_interpreter_is_busy_for_long_is_not_given_up(start):
    start("ps", 0, "serve")
    worker = start("worker", 0, "gradient", "hold the interpreter")
    worker.hears("^computes")
    worker.hears("^step 1")
    assert not [line for line in worker.said if line.startswith("error")]


def test_a_client_of_a_stopped_server_is_told(start, background):
    ps = start("ps", 0, "serve")
    ps.hears("^up")
    config = tf.ConfigProto(device_filters=["/job:ps"])
    with tf.Graph().as_default(), tf.Session(f"grpc://{ps.address}", config=config) as sess:
        taken = tf.FIFOQueue(1, [tf.int32], shared_name="empty").dequeue()
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(taken, options=tf.RunOptions(timeout_in_ms=100))
        call = background(lambda: sess.run(taken))
        ps.send_signal(signal.SIGSTOP)
        with pytest.raises(tf.errors.UnavailableError, match=f"{ps.address}.*run_step.*stopped"):
            call.result()
