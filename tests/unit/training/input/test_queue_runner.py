"""Threads that fill queues."""

import pytest

import millrace as tf


@pytest.fixture
def session(graph):
    with tf.Session(graph=graph) as session:
        yield session


@pytest.fixture
def coordinator():
    coordinator = tf.train.Coordinator()
    yield coordinator
    coordinator.clear_stop()


def counted_queue(limit, capacity=10):
    """A queue and an operation that enqueues 1, 2, ... `limit`, and then is out of range."""
    queue = tf.FIFOQueue(capacity, tf.int32, shapes=[[]])
    count = tf.Variable(0)
    return queue, queue.enqueue(count.count_up_to(limit)), count.initializer


def test_a_runner_fills_the_queue_and_closes_it_at_the_end(session):
    queue, enqueue, initialize = counted_queue(3)
    runner = tf.train.QueueRunner(queue, [enqueue])
    session.run(initialize)
    for thread in runner.create_threads(session, start=True):
        thread.join(60)
        assert not thread.is_alive()
    assert session.run(queue.is_closed())
    assert session.run(queue.dequeue_up_to(9)).tolist() == [0, 1, 2]
    assert runner.exceptions_raised == []


def test_the_last_of_several_threads_closes_the_queue(session, coordinator):
    queue, enqueue, initialize = counted_queue(50, capacity=3)
    runner = tf.train.QueueRunner(queue, [enqueue] * 4)
    session.run(initialize)
    threads = runner.create_threads(session, coordinator, start=True)
    assert len(threads) == 5  # one of them closes the queue on a stop
    dequeue = queue.dequeue()
    assert sorted(session.run(dequeue) for _ in range(50)) == list(range(50))
    with pytest.raises(tf.errors.OutOfRangeError):
        session.run(dequeue)
    coordinator.request_stop()
    coordinator.join(threads, stop_grace_period_secs=60)


def test_a_stop_ends_threads_that_wait_for_room(session, coordinator):
    queue = tf.FIFOQueue(1, tf.int32)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(1)])
    threads = runner.create_threads(session, coordinator, daemon=True, start=True)
    assert session.run(queue.dequeue()) == 1
    coordinator.request_stop()
    coordinator.join(threads, stop_grace_period_secs=60)
    assert session.run(queue.is_closed())


def test_other_exceptions_reach_the_coordinator(session, coordinator):
    queue = tf.FIFOQueue(1, tf.int32)

    def fail():
        raise ValueError("bad data")

    runner = tf.train.QueueRunner(queue, [queue.enqueue(tf.py_func(fail, [], tf.int32))])
    threads = runner.create_threads(session, coordinator, start=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad data"):
        coordinator.join(threads, stop_grace_period_secs=60)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_without_a_coordinator_exceptions_are_kept(session):
    queue = tf.FIFOQueue(1, tf.int32)

    def fail():
        raise ValueError("bad data")

    runner = tf.train.QueueRunner(queue, [queue.enqueue(tf.py_func(fail, [], tf.int32))])
    for thread in runner.create_threads(session, start=True):
        thread.join(60)
    (error,) = runner.exceptions_raised
    assert isinstance(error, tf.errors.InvalidArgumentError) and "bad data" in error.message


def test_which_exceptions_mean_the_end_can_be_said(session):
    queue = tf.FIFOQueue(1, tf.int32)

    def fail():
        raise ValueError("the end")

    runner = tf.train.QueueRunner(
        queue,
        [queue.enqueue(tf.py_func(fail, [], tf.int32))],
        queue_closed_exception_types=(tf.errors.InvalidArgumentError,),
    )
    for thread in runner.create_threads(session, start=True):
        thread.join(60)
    assert runner.exceptions_raised == [] and session.run(queue.is_closed())


def test_threads_are_not_made_twice_while_they_run(session, coordinator):
    queue = tf.FIFOQueue(1, tf.int32)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(1)])
    threads = runner.create_threads(session, coordinator, start=True)
    assert runner.create_threads(session, coordinator) == []
    coordinator.request_stop()
    coordinator.join(threads, stop_grace_period_secs=60)
    assert len(runner.create_threads(session, coordinator)) == 2


def test_all_runners_of_a_graph_are_started(session, coordinator):
    for _ in range(2):
        queue, enqueue, initialize = counted_queue(2)
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue]))
        session.run(initialize)
    with session.as_default():
        threads = tf.train.start_queue_runners(coord=coordinator)
    assert len(threads) == 4 and all(thread.daemon for thread in threads)
    coordinator.request_stop()
    coordinator.join(threads, stop_grace_period_secs=60)


def test_runners_need_a_session():
    with pytest.raises(ValueError, match="No default session is registered"):
        tf.train.start_queue_runners()
    with pytest.raises(TypeError, match="sess must be a `tf.Session` object"):
        tf.train.start_queue_runners(sess="session")


def test_a_runner_needs_a_queue_and_operations():
    queue = tf.FIFOQueue(1, tf.int32)
    with pytest.raises(ValueError, match="Must provide queue and enqueue_ops"):
        tf.train.QueueRunner(queue)
    with pytest.raises(TypeError, match="must be a tuple of tf.error types"):
        tf.train.QueueRunner(queue, [queue.enqueue(1)], queue_closed_exception_types=[ValueError])


def test_a_runner_becomes_a_message_and_back(graph):
    with tf.name_scope("scope"):
        queue = tf.FIFOQueue(1, tf.int32, name="q")
        runner = tf.train.QueueRunner(
            queue,
            [queue.enqueue(1)],
            queue_closed_exception_types=(tf.errors.OutOfRangeError, tf.errors.AbortedError),
        )
    message = runner.to_proto()
    assert message.queue_name == "scope/q"
    assert list(message.enqueue_op_name) == ["scope/q_enqueue"]
    assert list(message.queue_closed_exception_types) == [11, 10]
    # Field by field what TensorFlow 2.21 writes for the same runner.
    assert message.SerializeToString() == (
        b'\n\x07scope/q\x12\x0fscope/q_enqueue\x1a\rscope/q_Close"\x0fscope/q_Close_1*\x02\x0b\n'
    )
    again = tf.train.QueueRunner.from_proto(message)
    assert again.name == "scope/q" and again.enqueue_ops[0].type == "QueueEnqueueV2"
    assert again.queue_closed_exception_types == runner.queue_closed_exception_types
    inner = runner.to_proto(export_scope="scope")
    assert inner.queue_name == "q"
    assert runner.to_proto(export_scope="elsewhere") is None
    assert tf.train.QueueRunner.from_proto(inner, import_scope="scope").name == "scope/q"


def test_an_imported_graph_has_its_runners():
    queue, enqueue, _ = counted_queue(2)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue]))
    exported = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        tf.train.import_meta_graph(exported)
        (runner,) = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)
        assert runner.name == queue.name
