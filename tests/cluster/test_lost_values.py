"""Values that a task has sent to another are lost with the connection: the step must hear of it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import millrace as tf
from millrace.rpc.message import Kind
from millrace.server.drivers import inbound
from millrace.server.drivers.inbound import Inbound

PS, OTHER, WORKER = "/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0"


def test_a_step_fails_whose_part_would_wait_for_what_was_sent_before_its_task_was_given_up(
    make_cluster: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a ps is stopped, is given up by the other ps but not by the worker, and returns."""
    cluster = make_cluster({"ps": 2, "worker": 1}, "socket")
    with tf.device(OTHER):
        sent = tf.Variable(3.0, name="sent")
    with tf.device(PS):
        used = tf.Variable(2.0, name="used")
        sums = tf.assign_add(used, sent * 2.0)
    held, begun = threading.Event(), threading.Event()
    noticed: list[str] = []
    run = Inbound._run
    stopped = cluster["ps", 0]
    lost = stopped.worker.lost

    def note_lost(address: str, error: Exception) -> None:
        lost(address, error)
        noticed.append(address)

    monkeypatch.setattr(stopped.worker, "lost", note_lost)

    def run_late(self: Inbound, channel: Any, message: Any) -> None:
        if self is stopped._inbound and begun.is_set():
            begun.clear()
            threading.Thread(target=lambda: (held.wait(60), run(self, channel, message))).start()
        else:
            run(self, channel, message)

    monkeypatch.setitem(inbound._TABLE, Kind.RUN, run_late)
    with tf.Session(cluster.target("worker")) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(sums) == 8.0
        other = cluster["ps", 1]
        before, failed = other.worker.steps, []

        def step() -> None:
            try:
                session.run(sums, options=tf.RunOptions(timeout_in_ms=60_000))
            except tf.errors.OpError as error:
                failed.append(error)

        begun.set()
        thread = threading.Thread(target=step)
        thread.start()
        until(lambda: other.worker.steps > before)  # Its part is over: all is sent.
        until(lambda: stopped.worker.partitions.steps)  # And it has arrived.
        # Two, if both have dialled at once.
        channels = len(stopped.peers.channels(cluster.spec["ps"][1]))
        assert channels
        other._lose(f"localhost:{cluster.spec['ps'][0].rpartition(':')[2]}", "given up by the test")
        until(lambda: len(noticed) == channels)  # It has forgotten what it was sent.
        assert not stopped.worker.partitions.steps
        held.set()
        thread.join()
        assert len(failed) == 1
        assert isinstance(failed[0], tf.errors.UnavailableError), failed
        assert "may be lost" in failed[0].message
        assert session.run(sums) == 14.0  # and the next step finds all as it was
