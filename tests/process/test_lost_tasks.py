"""Real processes: a ps that is killed and comes back, and Ctrl-C."""

import signal
import subprocess
import sys

SECONDS = 180.0


def test_a_killed_ps_fails_the_workers_steps_at_once_and_a_new_one_is_used(start):
    # A connection that is closed is noticed at once: nobody is given up for his silence here.
    ps = start("ps", 0, "serve", heartbeat=8)
    trains = start("worker", 0, "train", heartbeat=8)
    blocked = start("worker", 1, "blocked", heartbeat=8)
    trains.hears(r"^step 3")
    blocked.hears(r"^blocks")
    ps.popen.send_signal(signal.SIGKILL)
    for worker in (trains, blocked):
        line = worker.hears(r"^error")
        assert "UnavailableError" in line or "AbortedError" in line
        assert "/job:ps/replica:0/task:0" in line
    again = start("ps", 0, "serve", heartbeat=8)
    again.hears("^up")
    for worker in (trains, blocked):
        assert "AbortedError" in worker.hears(r"^at last")
        worker.hears(r"^session")
    trains.hears(r"^step 2")


def test_a_killed_worker_leaves_the_other_alone(start):
    start("ps", 0, "serve", heartbeat=8)
    first, second = (start("worker", i, "train", heartbeat=8) for i in range(2))
    first.hears("^step")
    second.hears("^step")
    second.popen.send_signal(signal.SIGKILL)
    for _ in range(20):
        first.hears("^step")
    assert not [line for line in first.said if line.startswith("error")]


def test_a_task_ends_on_ctrl_c_while_it_serves_and_while_a_step_waits(start):
    ps, worker = (
        start("ps", 0, "serve", heartbeat=8),
        start("worker", 0, "blocked", heartbeat=8),
    )
    worker.hears("^blocks")
    for process in (worker, ps):
        process.popen.send_signal(signal.SIGINT)
        process.hears("^interrupted")
        assert process.popen.wait(SECONDS) == 0


def test_a_program_that_ends_without_stopping_its_server_ends(tmp_path):
    code = (
        "import millrace as tf\n"
        "server = tf.train.Server.create_local_server()\n"
        "sess = tf.Session(server.target)\n"
        "print(sess.run(tf.constant(1) + 1))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
