"""A worker by itself: parts that are run, cancelled, forgotten; no network."""

import numpy as np
import pytest

import millrace as tf
from millrace.core import errors
from millrace.passes.prune import prune
from millrace.protocol.step.events import PartitionFinished, RunRequested
from millrace.rpc.message import Kind
from millrace.rpc.service import CachedThreads
from millrace.runtime import executor
from millrace.runtime.step import Step
from millrace.server import worker_sessions
from millrace.server.drivers.partition_run import PartitionRun
from millrace.server.drivers.step_errors import cause_of
from millrace.server.drivers.wire import RunRequest
from millrace.server.worker import Worker

TASK = "/job:ps/replica:0/task:0"


@pytest.fixture
def sent():
    """What the worker posts."""
    return []


@pytest.fixture
def worker(sent):
    threads = CachedThreads("test worker")
    made = Worker(TASK, lambda address, message: sent.append((address, message)), threads)
    yield made
    made.close()
    threads.shutdown()


def session(worker, handle="s", master="m:1", isolated=False, client=""):
    where = {TASK: "here:1"}
    return worker.sessions.create_session(handle, master, where, isolated, client=client)


def register(worker, owner, fetches=(), targets=()):
    program = prune(list(fetches), list(targets), [])
    for node in program.nodes:
        node.device = f"{TASK}/device:CPU:0"
    return worker.sessions.register(owner, program)


class Outcome:
    """What a run told."""

    def __init__(self):
        self.told = []

    def __call__(self, step, results, error):
        self.told.append((results, error))

    @property
    def error(self):
        return self.told[0][1] if self.told else None


def run(worker, graph, number=5, feeds=(), master="m:1"):
    outcome = Outcome()
    worker.run(graph.number, number, master, RunRequest(feeds), outcome)
    return outcome


def test_a_part_runs_and_tells_its_results(worker, until):
    graph = register(worker, session(worker), [tf.placeholder_with_default(2.0, []) * 3.0])
    outcome = run(worker, graph)
    until(lambda: outcome.told)
    results, error = outcome.told[0]
    assert error is None and float(results[0]) == 6.0
    assert not worker.partitions.running


def test_a_graph_or_session_that_is_not_known_is_aborted(worker):
    outcome = Outcome()
    worker.run(123, 5, "m:1", RunRequest([]), outcome)
    assert isinstance(outcome.error, errors.AbortedError) and "restarted" in outcome.error.message
    with pytest.raises(errors.AbortedError, match="not known"):
        worker.sessions.session("nobody")


def test_numbers_of_graphs_cannot_be_guessed_by_who_knew_another_life_of_the_task(worker):
    owner = session(worker)
    numbers = [register(worker, owner, [tf.constant(i) + 1]).number for i in range(3)]
    assert min(numbers) > 1 << 32


def test_too_many_or_too_few_values_are_refused(worker):
    graph = register(worker, session(worker), [tf.constant(1.0) + 1.0])
    outcome = run(worker, graph, feeds=[1.0])
    assert isinstance(outcome.error, errors.InvalidArgumentError)
    assert not worker.partitions.running


def blocked(worker, until, number=5, owner=None, master="m:1"):
    taken = tf.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()
    graph = register(worker, owner or session(worker), [taken])
    outcome = run(worker, graph, number, master=master)
    until(lambda: "Dequeue" in worker.waits(number))
    return graph, outcome


def test_cancelling_ends_a_step_with_the_cause(worker, until):
    _, outcome = blocked(worker, until)
    worker.cancel(5, errors.UnavailableError(None, None, "the ps is gone"))
    until(lambda: outcome.told)
    assert isinstance(outcome.error, errors.UnavailableError)
    assert not worker.partitions.running


def test_a_step_that_is_cancelled_before_it_begins_does_not_run(worker):
    graph = register(worker, session(worker), [tf.FIFOQueue(1, [tf.float32]).dequeue()])
    worker.cancel(5, errors.AbortedError(None, None, "failed elsewhere"))
    outcome = run(worker, graph)
    assert isinstance(outcome.error, errors.AbortedError)


def test_a_step_that_is_cancelled_while_it_begins_is_not_missed(worker):
    graph = register(worker, session(worker), [tf.constant(1.0) + 1.0])
    step = Step(graph.session.state, executor.run_values)
    worker.cancel(5, errors.AbortedError(None, None, "just before"))
    with pytest.raises(errors.AbortedError, match="just before"):
        worker.begin(graph, 5, step)
    assert not worker.is_running(5)
    worker.begin(graph, 6, step)
    worker.cancel(6, errors.AbortedError(None, None, "just after"))
    assert step.cancellation.error.message == "just after"
    with pytest.raises(errors.AbortedError, match="just after"):
        worker.take(6, 1, "values")
    worker.end(6)


def send_value(worker, master, number=5):
    """A part of a step has sent something to another ps, and is over."""
    addresses = {TASK: "here:1", "/job:ps/replica:0/task:1": "there:1"}
    owner = worker.sessions.create_session(f"s{master}", master, addresses, False)
    graph = register(worker, owner, [tf.constant(1.0) + 1.0])
    run = PartitionRun(worker, graph, number, Step(owner.state, executor.run_values))
    worker.partitions.on(RunRequested(number, master, graph.facts))
    worker._runs[number] = run
    run.step.exchange.send("/job:ps/replica:0/task:1", 7, [np.zeros(3)])
    worker.tell(PartitionFinished(number))


def test_a_master_hears_that_what_was_sent_for_it_to_a_lost_task_was_in_vain(worker, sent, until):
    send_value(worker, "m:1")
    worker.lost("there:1", errors.UnavailableError(None, None, "nothing was heard"))
    until(lambda: len(sent) == 2)
    address, message = sent[1]
    assert address == "m:1" and message.kind is Kind.DONE
    assert (message.step, message.key) == (5, errors.UNAVAILABLE)
    assert b"may be lost" in message.text and b"nothing was heard" in message.text
    worker.lost("there:1", errors.UnavailableError(None, None, "again"))
    assert len(sent) == 2  # Each step is told of once.


def test_a_lost_master_need_not_be_told(worker, sent):
    send_value(worker, "there:1")  # to the master itself
    worker.lost("there:1", errors.UnavailableError(None, None, "nothing was heard"))
    assert len(sent) == 1


def test_deleting_a_session_ends_its_steps_and_forgets_its_graphs(worker, until):
    _, outcome = blocked(worker, until)
    worker.sessions.delete_session("s")
    until(lambda: outcome.told)
    assert isinstance(outcome.error, errors.CancelledError)
    assert not worker.sessions.graphs and not worker.sessions.by_handle


def test_a_step_whose_session_is_closed_does_not_blame_the_queues_that_went_with_it(worker):
    owner = session(worker)
    graph = register(worker, owner, [tf.FIFOQueue(1, [tf.float32]).dequeue()])
    worker.partitions.on(RunRequested(5, "m:1", graph.facts))
    worker.sessions.delete_session("s")
    gone = errors.OutOfRangeError(None, None, "The queue is closed.")
    *_, told = worker.decide(PartitionFinished(5, error=gone))
    assert isinstance(told.error, errors.CancelledError) and "closed" in told.error.message


def test_a_graph_cannot_be_registered_for_a_session_that_was_closed_meanwhile(worker):
    owner = session(worker)
    worker.sessions.delete_session("s")
    with pytest.raises(errors.CancelledError):
        register(worker, owner, [tf.constant(1.0) + 1.0])
    assert not worker.sessions.graphs


def test_a_lost_master_ends_its_steps_and_sessions_and_no_others(worker, until):
    _, lost = blocked(worker, until, 5, session(worker, "a", "m:1"), "m:1")
    _, kept = blocked(worker, until, 6, session(worker, "b", "m:2"), "m:2")
    worker.lost("m:1", errors.UnavailableError(None, None, "m:1 is gone"))
    worker.lost_master("m:1")
    until(lambda: lost.told)
    assert isinstance(lost.error, errors.UnavailableError)
    assert not kept.told and list(worker.sessions.by_handle) == ["b"]


def test_sessions_that_were_made_and_never_used_are_forgotten_at_last(worker, monkeypatch):
    monkeypatch.setattr(worker_sessions, "_MAX_IDLE_SESSIONS", 10)
    used = session(worker, "used")
    register(worker, used, [tf.constant(1.0) + 1.0])
    for i in range(50):
        session(worker, f"s{i}")
    assert len(worker.sessions.by_handle) <= 12 and "used" in worker.sessions.by_handle
    assert "s49" in worker.sessions.by_handle


def test_an_op_that_says_only_that_it_was_cancelled_has_the_cause_of_its_step(worker):
    step = Step(session(worker).state, executor.run_values)
    said = errors.CancelledError(None, None, "Dequeue operation was cancelled")
    assert cause_of(said, step) is said
    cause = errors.UnavailableError(None, None, "the ps is gone")
    step.cancellation.cancel(cause)
    assert cause_of(said, step) is cause
    wrong = errors.InvalidArgumentError(None, None, "wrong")
    assert cause_of(wrong, step) is wrong
    assert isinstance(cause_of(KeyError("x"), step), errors.InternalError)


def test_a_worker_that_was_stopped_says_so_whatever_is_asked(worker):
    owner = session(worker)
    graph = register(worker, owner, [tf.constant(1) + 1])
    worker.close()
    asked = (
        lambda: worker.sessions.session("s"),
        lambda: worker.sessions.graph(graph.number),
        lambda: session(worker, "t"),
        lambda: register(worker, owner, [tf.constant(1)]),
        lambda: worker.begin(graph, 5, Step(owner.state, executor.run_values)),
    )
    for ask in asked:
        with pytest.raises(tf.errors.UnavailableError, match="has stopped"):
            ask()


def test_a_step_during_which_the_worker_is_stopped_fails_whatever_it_found(worker, until):
    v = tf.Variable(1)
    stops = tf.py_func(lambda: worker.close() or np.int32(1), [], tf.int32)
    with tf.control_dependencies([stops]):
        # True of a variable that is gone, and a lie about the job.
        found = tf.is_variable_initialized(v)
    outcome = run(worker, register(worker, session(worker), [found]))
    until(lambda: outcome.told)
    assert isinstance(outcome.error, tf.errors.UnavailableError), outcome.told


def test_parts_run_where_messages_are_read_only_if_no_other_client_waits_there(worker):
    remote = session(worker, "a", "m:1", client="10.0.0.5")
    assert remote.runs_at_once  # Nobody else uses the master's channel.
    trainer = session(worker, "b", "m:1")
    assert trainer.runs_at_once and not remote.runs_at_once
    worker.sessions.delete_session("b")
    assert remote.runs_at_once
    again = session(worker, "c", "m:2", client="10.0.0.5")
    assert not remote.runs_at_once and not again.runs_at_once  # It would have two threads.
    worker.sessions.delete_session("c")
    assert remote.runs_at_once
