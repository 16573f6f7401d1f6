"""The worker of a task, on its own."""

from __future__ import annotations

import threading
from typing import Any

import millrace as tf
from millrace.core import errors
from millrace.passes.node import Edge, Node, Program
from millrace.passes.prune import prune
from millrace.passes.transfer import RECEIVE
from millrace.rpc.service import CachedThreads
from millrace.server.worker import Worker

TASK = "/job:ps/replica:0/task:0"
OTHER = "/job:worker/replica:0/task:0"


def worker_with(program: Program) -> tuple[Worker, int]:
    worker = Worker(TASK, lambda address, message: None, CachedThreads("test"))
    session = worker.create_session("s", "master:1", {TASK: "a:1", OTHER: "b:1"}, isolated=False)
    return worker, worker.register(session, program).number


def receive_node() -> Node:
    return Node(
        "receive",
        RECEIVE,
        {
            "T": [tf.float32],
            "source": OTHER.encode(),
            "key": 7,
            "group": b"0",
            "level": 1,
            "names": [b"x:0"],
            "guards": [b""],
        },
    )


def run(worker: Worker, graph: int, number: int) -> tuple[threading.Event, list[Any]]:
    done, outcome = threading.Event(), []

    def on_done(step: Any, results: list[Any], error: errors.OpError | None) -> None:
        outcome.extend((results, error))
        done.set()

    worker.run(graph, number, "master:1", [], False, on_done)
    return done, outcome


def test_a_part_that_fails_does_not_wait_for_values_that_nobody_sends_any_more() -> None:
    with tf.Graph().as_default():
        missing = tf.Variable(1.0)
        program = prune([tf.py_func(lambda v: v, [missing._ref()], tf.float32)], [], [])
    receive = receive_node()
    program.nodes.append(receive)
    program.results.append(Edge(receive, 0))
    worker, graph = worker_with(program)
    done, outcome = run(worker, graph, 1)
    assert done.wait(10)
    assert isinstance(outcome[1], errors.FailedPreconditionError)


def test_values_that_arrive_before_their_step_are_kept_for_it() -> None:
    receive = receive_node()
    worker, graph = worker_with(Program([receive], [], [Edge(receive, 0)], []))
    worker.deliver(5, 7, [3.0], "b:1")
    done, outcome = run(worker, graph, 5)
    assert done.wait(10)
    assert outcome == [[3.0], None]


def test_a_lost_task_fails_the_steps_that_wait_for_it() -> None:
    receive = receive_node()
    worker, graph = worker_with(Program([receive], [], [Edge(receive, 0)], []))
    done, outcome = run(worker, graph, 6)
    worker.lost("b:1", errors.UnavailableError(None, None, "gone"))
    assert done.wait(10)
    assert isinstance(outcome[1], errors.UnavailableError)
