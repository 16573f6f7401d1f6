"""Steps that a task repeats by itself: how often it is asked, and all that ends them."""

import numpy as np
import pytest

import millrace as tf
from millrace.platform import wait_reporter
from millrace.server.drivers.partition_run import RepeatedRun

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"
TASK = "/job:ps/replica:0/task:0"
TIMEOUT = tf.RunOptions(timeout_in_ms=60_000)


class Belt:
    """A runner that takes from one queue of the ps and puts into another one."""

    def __init__(self, where=PS, **runner):
        with tf.device(PS):
            self.source = tf.FIFOQueue(1000, [tf.float32], shapes=[[]], shared_name="source")
            self.sink = tf.FIFOQueue(1000, [tf.float32], shapes=[[]], shared_name="sink")
            self.values = tf.placeholder(tf.float32, [None])
            self.put = self.source.enqueue_many([self.values])
            self.take = self.sink.dequeue()
            self.close = self.source.close()
            self.size = self.source.size()
            taken = self.source.dequeue()
        with tf.device(where):
            moved = taken + 1.0
        with tf.device(PS):
            self.move = self.sink.enqueue(moved)
            self.runner = tf.train.QueueRunner(self.sink, [self.move], **runner)

    def started(self, session, coord=None):
        """The runner's threads, after the first value has passed."""
        threads = self.runner.create_threads(session, coord=coord, start=True)
        self.fill(session, 1)
        assert self.get(session, 1) == [2]
        return threads

    def fill(self, session, *values):
        session.run(self.put, {self.values: values}, options=TIMEOUT)

    def get(self, session, count):
        return [float(session.run(self.take, options=TIMEOUT)) for _ in range(count)]


def repeated(cluster):
    """The steps that the ps repeats."""
    runs = cluster["ps", 0].worker._runs
    return {n: run for n, run in list(runs.items()) if isinstance(run, RepeatedRun)}


def waits(cluster):
    """Whether a repetition waits for something to take."""
    executions = [each._execution for each in list(repeated(cluster).values())]
    return any(each is not None and each.waits_for() for each in executions)


def test_a_runner_asks_once_for_all_its_steps(any_cluster):
    belt = Belt()
    worker = any_cluster["worker", 0]
    with tf.Session(worker.target) as session, tf.Session(any_cluster.target("worker", 1)) as other:
        threads = belt.started(session)
        traffic = worker.peers.traffic()[TASK]
        before = traffic.messages_sent, traffic.messages_received
        belt.fill(other, *range(50))
        assert belt.get(other, 50) == list(range(1, 51))
        traffic = worker.peers.traffic()[TASK]
        assert (traffic.messages_sent, traffic.messages_received) == before
        other.run(belt.close)
        join(threads)
    assert not belt.runner.exceptions_raised
    assert not repeated(any_cluster)


def join(threads):
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), thread.name


def test_every_repetition_counts_as_a_step(cluster):
    belt = Belt()
    ps = cluster["ps", 0].worker
    with tf.Session(cluster.target("worker")) as session:
        threads = belt.runner.create_threads(session, start=True)
        belt.fill(session, *range(10))
        before = ps.steps
        belt.get(session, 10)
        belt.fill(session, *range(10))
        belt.get(session, 10)
        session.run(belt.close)
        join(threads)
        assert ps.steps - before >= 10 + 10 + 10  # repeated, taken, taken


def test_a_step_that_is_repeated_for_long_keeps_nothing_of_its_rounds(cluster, until):
    belt = Belt()
    with tf.Session(cluster.target("worker")) as session:
        threads = belt.runner.create_threads(session, start=True)
        held = []
        for _ in range(3):
            belt.fill(session, *range(20))
            belt.get(session, 20)
            until(lambda: waits(cluster))
            (repetition,) = repeated(cluster).values()
            held.append(len(repetition.step.cancellation._callbacks))
        assert held == held[:1] * 3
        session.run(belt.close)
        join(threads)


def test_rounds_of_accumulators_leave_nothing_behind_in_a_repeated_step(cluster, until):
    with tf.device(PS):
        accumulators = [
            tf.ConditionalAccumulator(tf.float32, [], shared_name=f"sums{i}") for i in range(2)
        ]
        push = [each.apply_grad(tf.constant(2.0), 1000) for each in accumulators]
        sums = [each.take_grad(2) for each in accumulators]
        queue = tf.FIFOQueue(1000, [tf.float32], shapes=[[]], shared_name="means")
        runner = tf.train.QueueRunner(queue, [queue.enqueue(tf.add_n(sums))])
        take = queue.dequeue()
    with tf.Session(cluster.target("worker")) as session:
        coord = tf.train.Coordinator()
        threads = runner.create_threads(session, coord=coord, start=True)
        held = []
        for _ in range(5):
            session.run(push)
            session.run(push)
            assert session.run(take, options=TIMEOUT) == 4.0
            until(lambda: waits(cluster))
            (repetition,) = repeated(cluster).values()
            held.append(len(repetition.step.cancellation._callbacks))
        assert held == held[:1] * 5
    coord.request_stop()
    join(threads)


def test_random_numbers_differ_from_one_repetition_to_the_next(cluster):
    with tf.device(PS):
        queue = tf.FIFOQueue(3, [tf.float32], shapes=[[]], shared_name="numbers")
        enqueue = queue.enqueue(tf.random_uniform([], seed=5))
        take = queue.dequeue_many(6)
        runner = tf.train.QueueRunner(queue, [enqueue])
    drawn = []
    for _ in range(2):
        coord = tf.train.Coordinator()
        with tf.Session(cluster.target("worker")) as session:
            threads = runner.create_threads(session, coord=coord, start=True)
            drawn.append(session.run(take, options=TIMEOUT))
            coord.request_stop()
            join(threads)
        tf.Session.reset(cluster.target("worker"))
    assert len(set(drawn[0])) == 6
    np.testing.assert_array_equal(drawn[0], drawn[1])  # as in a session without runners


def test_the_end_of_the_input_ends_a_runner_and_closes_its_queue(any_cluster):
    belt = Belt()
    with tf.Session(any_cluster.target("worker")) as session:
        threads = belt.runner.create_threads(session, start=True)
        belt.fill(session, 1, 2, 3)
        session.run(belt.close)
        join(threads)
        assert belt.get(session, 3) == [2, 3, 4]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(belt.take, options=TIMEOUT)
    assert not belt.runner.exceptions_raised


def test_an_error_of_a_repetition_reaches_the_coordinator_with_its_operation(any_cluster):
    with tf.device(PS):
        queue = tf.FIFOQueue(1000, [tf.float32], shapes=[[]], shared_name="q")
        source = tf.FIFOQueue(1000, [tf.float32], shapes=[[]], shared_name="s")
        values = tf.placeholder(tf.float32, [None])
        put = source.enqueue_many([values])
        checked = tf.check_numerics(source.dequeue(), "not a number", name="checked")
        runner = tf.train.QueueRunner(queue, [queue.enqueue(checked)])
    coord = tf.train.Coordinator()
    with tf.Session(any_cluster.target("worker")) as session:
        threads = runner.create_threads(session, coord=coord, start=True)
        session.run(put, {values: [1, 2, np.nan]})
        join(threads)
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a number") as caught:
            coord.join(threads)
    assert caught.value.op is checked.op
    assert not repeated(any_cluster)


def test_the_coordinator_stops_a_runner_that_waits(any_cluster, until):
    belt = Belt()
    coord = tf.train.Coordinator()
    # As queue runners do, the queue that is filled is closed: that the runner waits for another
    # one must be told by whoever wrote the program.
    belt.runner._cancel_op = belt.source.close(cancel_pending_enqueues=True)
    with tf.Session(any_cluster.target("worker")) as session:
        threads = belt.started(session, coord)
        until(lambda: repeated(any_cluster))
        coord.request_stop()
        join(threads)
        coord.join(threads)
    assert not repeated(any_cluster)


def test_no_repetition_begins_after_the_coordinator_has_stopped(any_cluster, until):
    """The one that waits is finished, as if it had been asked for alone."""
    nothing = tf.no_op()
    belt = Belt(cancel_op=nothing, close_op=nothing)
    coord = tf.train.Coordinator()
    with tf.Session(any_cluster.target("worker")) as session:
        threads = belt.started(session, coord)
        until(lambda: waits(any_cluster))
        coord.request_stop()
        known = any_cluster["ps", 0].worker.partitions.steps
        until(lambda: not any(each.repeats for each in list(known.values())))
        belt.fill(session, 1, 2, 3)
        join(threads)
        assert belt.get(session, 1) == [2]
        assert session.run(belt.size) == 2


def test_a_coordinator_that_stopped_before_begins_nothing(cluster):
    belt = Belt()
    coord = tf.train.Coordinator()
    coord.request_stop()
    with tf.Session(cluster.target("worker")) as session:
        belt.fill(session, 1, 2)
        join(belt.runner.create_threads(session, coord=coord, start=True))
        assert session.run(belt.size) == 2


def test_closing_the_session_ends_its_repetitions_and_no_others(any_cluster, until):
    belt = Belt()
    with tf.Session(any_cluster.target("worker", 1)) as other:
        others = belt.runner.create_threads(other, start=True)
        until(lambda: len(repeated(any_cluster)) == 1)
        coord = tf.train.Coordinator()
        with tf.Session(any_cluster.target("worker")) as session:
            threads = belt.runner.create_threads(session, coord=coord, start=True)
            until(lambda: len(repeated(any_cluster)) == 2)
        until(lambda: len(repeated(any_cluster)) == 1)
        coord.request_stop()
        join(threads)
        belt.fill(other, *range(10))
        assert sorted(belt.get(other, 10)) == list(range(1, 11))
        other.run(belt.close)
        join(others)


@pytest.mark.parametrize("lost", ["ps", "worker"])
def test_a_task_that_is_lost_ends_the_repetitions_at_the_other_one(make_cluster, until, lost):
    cluster = make_cluster({"ps": 1, "worker": 2}, "socket")
    belt = Belt()
    coord = tf.train.Coordinator()
    session = tf.Session(cluster.target("worker"))
    threads = belt.started(session, coord)
    until(lambda: repeated(cluster))
    if lost == "worker":
        cluster["ps", 0]._lose(cluster.spec["worker"][0], "as if it were gone")
    else:
        cluster["ps", 0].stop()
    until(lambda: not repeated(cluster))
    join(threads)
    with pytest.raises(tf.errors.UnavailableError):
        coord.join(threads)
    session.close()


def test_what_needs_the_runners_own_task_is_asked_for_each_time(cluster):
    belt = Belt(where=WORKER)
    with tf.Session(cluster.target("worker")) as session:
        assert session._make_repeated(belt.move)[1] is None
        threads = belt.runner.create_threads(session, start=True)
        belt.fill(session, *range(5))
        assert belt.get(session, 5) == [1, 2, 3, 4, 5]
        session.run(belt.close)
        join(threads)


def test_a_step_with_a_deadline_or_a_value_or_of_a_client_elsewhere_does_not_stand(cluster):
    belt = Belt()
    late = tf.ConfigProto(operation_timeout_in_ms=60_000)
    with tf.Session(cluster.target("worker"), config=late) as session:
        assert session._make_repeated(belt.move)[1] is None
    with tf.Session(cluster.target("worker", remote=True)) as session:
        assert session._make_repeated(belt.move)[1] is None
    with tf.Session(cluster.target("ps")) as session:  # its own work
        assert session._make_repeated(belt.move)[1] is None
    with tf.Session(cluster.target("worker")) as session:
        assert session._make_repeated(belt.size)[1] is None
        assert session._make_repeated(belt.move)[1] is not None


def test_a_part_that_is_not_alone_is_refused(cluster):
    """A master that asks for it all the same is told so, and nothing runs."""
    belt = Belt(where=WORKER)
    with tf.Session(cluster.target("worker")) as session:
        backend = session._backend
        prepared = backend.prepare([], [belt.move], [])
        repeated_step = backend.repeated_step(backend.prepare([], [belt.close], []))
        repeated_step._prepared = prepared
        with pytest.raises(tf.errors.InvalidArgumentError, match="exchanges nothing"):
            repeated_step.run()


def test_a_repetition_that_waits_for_long_says_what_for(cluster, monkeypatch, until):
    belt = Belt()
    told = []
    monkeypatch.setattr(wait_reporter, "FIRST_SECONDS", 0.05)
    monkeypatch.setattr(wait_reporter, "INTERVAL_SECONDS", 0.05)
    monkeypatch.setattr("millrace.server.drivers.partition_run.FIRST_SECONDS", 0.05)
    warning = lambda text, *args: told.append(text % args)  # noqa: E731
    monkeypatch.setattr(wait_reporter.logging, "warning", warning)
    with tf.Session(cluster.target("worker")) as session:
        threads = belt.runner.create_threads(session, start=True)
        until(lambda: any(f"for {TASK}. There ({TASK}) it waits for" in text for text in told))
        session.run(belt.close)
        join(threads)
