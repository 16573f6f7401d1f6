"""A client that asks for many steps at once, and one that asks for one after the other.

The steps of the greedy one compute for as long as the test wants, on a real server and over real
connections; how many have begun is counted, and no time is measured.
"""

from __future__ import annotations

import threading
import types
from typing import Any

import pytest

import millrace as tf
from millrace.ops import timestamp
from millrace.runtime.allotments import Allotments
from millrace.server import master_service

SECONDS = 60.0
#: How many steps of one client compute at a time, and how many the greedy one asks for.
SHARES, ASKED = 2, 24


class Kernel:
    """What ``tf.timestamp`` does meanwhile: it computes until it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        #: Of the server.
        self.allotments: Allotments
        self._lock = threading.Lock()
        self._gate = threading.Semaphore(0)

    def time(self) -> float:
        with self._lock:
            self.begun += 1
        assert self._gate.acquire(timeout=SECONDS)
        return 1.0

    def waiting(self) -> int:
        """How many steps wait for their turn."""
        return sum(map(len, list(self.allotments._waiting.values())))

    def finish(self, count: int = 1) -> None:
        self._gate.release(count)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    monkeypatch.setattr(timestamp, "time", types.SimpleNamespace(time=made.time))
    monkeypatch.setenv("MILLRACE_MAX_COMPUTING_STEPS_PER_CLIENT", str(SHARES))

    def make(most: float) -> Allotments:
        made.allotments = Allotments(most)
        return made.allotments

    monkeypatch.setattr(master_service, "Allotments", make)
    return made


def ask(session: Any, background: Any) -> list[Any]:
    computed = session.graph.get_tensor_by_name("Timestamp:0")
    return [background(lambda: session.run(computed)) for _ in range(ASKED)]


def take_turns(honest: Any, kernel: Kernel, until: Any) -> None:
    """Every step of the greedy client's that ends lets one more begin, and no step of the other's
    waits for any of them."""
    total = honest.graph.get_tensor_by_name("total:0")
    until(lambda: kernel.begun == SHARES and kernel.waiting() == ASKED - SHARES)
    for step in range(ASKED):
        assert honest.run(total) == 6.0
        assert kernel.begun == min(SHARES + step, ASKED)
        kernel.finish()
        until(lambda n=step: kernel.begun == min(SHARES + n + 1, ASKED))


def graph() -> tf.Graph:
    with tf.Graph().as_default() as made, tf.device("/job:ps/task:0"):
        tf.timestamp()
        tf.reduce_sum(tf.constant([1.0, 2.0, 3.0]), name="total")
    return made


def test_a_client_with_many_steps_at_once_does_not_keep_another_waiting(
    make_cluster, kernel, background, until
):
    cluster = make_cluster({"ps": 1}, "socket")
    target = cluster.target("ps", remote=True)
    with tf.Session(target, graph=graph()) as greedy:
        calls = ask(greedy, background)
        until(lambda: kernel.begun == SHARES)
        with tf.Session(target, graph=graph()) as honest:
            take_turns(honest, kernel, until)
        assert [call.result() for call in calls] == [1.0] * ASKED


def test_nor_does_a_machine_with_many_sessions_each_with_one_step(
    make_cluster, kernel, background, until, monkeypatch
):
    cluster = make_cluster({"ps": 1}, "socket")
    target = cluster.target("ps", remote=True)
    others: list[str] = []
    connection = master_service.client

    def machine() -> str:
        others.append(connection())
        return "honest" if others[-1] == others[0] else "greedy"

    monkeypatch.setattr(master_service, "client", machine)
    with tf.Session(target, graph=graph()) as honest:
        honest.run("total:0")
        sessions = [tf.Session(target, graph=graph()) for _ in range(ASKED)]
        calls = [background(lambda s=session: s.run("Timestamp:0")) for session in sessions]
        take_turns(honest, kernel, until)
        assert [call.result() for call in calls] == [1.0] * ASKED
        for session in sessions:
            session.close()
