"""Queues in sessions: waiting, closing, cancelling, sharing; and what their Python side refuses."""

import numpy as np
import pytest

import millrace as tf
from millrace.ops.data_flow.queue_kernels import Queue


@pytest.fixture
def session(graph):
    with tf.Session(graph=graph) as session:
        yield session


def queues_of(session):
    return [queue for _, _, queue in session._backend.state.resources.all_of(Queue)]


def waiting(session, name="_dequeues"):
    """How many attempts of one kind wait at the session's queues."""
    return sum(len(getattr(queue.state, name)) for queue in queues_of(session))


# -- Waiting -----------------------------------------------------------------------------


def test_a_dequeue_waits_for_an_element(session, background, until):
    queue = tf.FIFOQueue(3, tf.int32)
    call = background(lambda: session.run(queue.dequeue()))
    until(lambda: waiting(session) == 1)
    session.run(queue.enqueue(7))
    assert call.result() == 7


def test_an_enqueue_waits_for_room(session, background, until):
    queue = tf.FIFOQueue(1, tf.int32)
    session.run(queue.enqueue(1))
    enqueue = queue.enqueue(2)
    call = background(lambda: session.run(enqueue))
    until(lambda: waiting(session, "_enqueues") == 1)
    assert session.run(queue.size()) == 1
    assert session.run(queue.dequeue()) == 1
    call.result()
    assert session.run(queue.dequeue()) == 2


def test_one_step_may_wait_for_what_it_enqueues_itself(session):
    queue = tf.FIFOQueue(1, tf.int32)
    enqueue, dequeue = queue.enqueue(5), queue.dequeue()
    assert session.run([dequeue, enqueue]) == [5, None]


def test_many_steps_wait_at_one_queue_and_are_served_in_order(session, background, until):
    queue = tf.FIFOQueue(1, tf.int32)
    dequeue = queue.dequeue()
    calls = []
    for i in range(20):
        calls.append(background(lambda: session.run(dequeue)))
        until(lambda i=i: waiting(session) == i + 1)
    session.run(queue.enqueue_many([list(range(20))]))
    assert [call.result() for call in calls] == list(range(20))


def test_a_step_that_times_out_says_what_it_waited_for_and_leaves_the_elements(session):
    queue = tf.FIFOQueue(3, tf.int32, shapes=[[]], name="numbers")
    session.run(queue.enqueue(1))
    with pytest.raises(tf.errors.DeadlineExceededError, match="3 elements in FIFOQueue"):
        session.run(queue.dequeue_many(3), options=tf.RunOptions(timeout_in_ms=50))
    assert session.run(queue.size()) == 1
    assert waiting(session) == 0


@pytest.mark.parametrize("count", [None, 3])
def test_a_queue_that_starves_says_that_nobody_started_its_runners(session, count):
    queue = tf.FIFOQueue(3, tf.int32, shapes=[[]])
    dequeue = queue.dequeue() if count is None else queue.dequeue_many(count)
    with pytest.raises(tf.errors.DeadlineExceededError, match="started its queue runners"):
        session.run(dequeue, options=tf.RunOptions(timeout_in_ms=50))
    session.run(queue.enqueue(1))
    session.run(queue.dequeue())
    with pytest.raises(tf.errors.DeadlineExceededError) as found:
        session.run(dequeue, options=tf.RunOptions(timeout_in_ms=50))
    assert "runners" not in found.value.message


def test_another_failure_in_the_step_cancels_its_wait_and_leaves_the_elements(session):
    queue = tf.FIFOQueue(3, tf.int32, shapes=[[]])
    session.run(queue.enqueue(1))
    bad = tf.py_func(lambda: 1 // 0, [], tf.int64)
    with pytest.raises(tf.errors.UnknownError, match="ZeroDivisionError"):
        session.run([queue.dequeue_many(2), bad])
    assert session.run(queue.size()) == 1


def test_closing_the_session_cancels_its_waiting_steps(graph, background, until):
    queue = tf.FIFOQueue(3, tf.int32)
    dequeue = queue.dequeue()
    session = tf.Session(graph=graph)
    call = background(lambda: session.run(dequeue))
    until(lambda: waiting(session) == 1)
    session.close()
    with pytest.raises(tf.errors.CancelledError):
        call.result()


# -- Closing -----------------------------------------------------------------------------


def test_a_closed_queue_is_drained_and_then_out_of_range(session):
    queue = tf.FIFOQueue(3, tf.int32, shapes=[[]], name="q")
    session.run(queue.enqueue_many([[1, 2]]))
    assert not session.run(queue.is_closed())
    session.run(queue.close())
    assert session.run(queue.is_closed())
    with pytest.raises(tf.errors.CancelledError, match=r"FIFOQueue '_\d+_q' is closed."):
        session.run(queue.enqueue(3))
    with pytest.raises(tf.errors.OutOfRangeError, match=r"requested 3, current size 2"):
        session.run(queue.dequeue_many(3))
    assert session.run(queue.dequeue_up_to(3)).tolist() == [1, 2]
    with pytest.raises(tf.errors.OutOfRangeError) as caught:
        session.run(queue.dequeue(name="last"))
    assert "[[node last (QueueDequeueV2)" in str(caught.value)


def test_closing_while_full_waits_and_cancelling_does_not(session, background, until):
    queue = tf.FIFOQueue(1, tf.int32)
    session.run(queue.enqueue(1))
    enqueue_op, close_op = queue.enqueue(2), queue.close()
    enqueue = background(lambda: session.run(enqueue_op))
    until(lambda: waiting(session, "_enqueues") == 1)
    close = background(lambda: session.run(close_op))
    until(lambda: waiting(session, "_enqueues") == 2)
    assert not session.run(queue.is_closed())
    session.run(queue.close(cancel_pending_enqueues=True))
    for call in (enqueue, close):
        with pytest.raises(tf.errors.CancelledError, match="Enqueue operation was cancelled"):
            call.result()
    assert session.run(queue.dequeue()) == 1


# -- Elements ----------------------------------------------------------------------------


def test_an_element_does_not_follow_what_was_fed(session):
    queue = tf.FIFOQueue(3, tf.float32)
    fed = np.array([1.0, 2.0], np.float32)
    x = tf.placeholder(tf.float32)
    session.run(queue.enqueue(x), {x: fed})
    fed[:] = 0
    assert session.run(queue.dequeue()).tolist() == [1, 2]


def test_rows_enqueued_together_do_not_follow_what_was_fed(session):
    queue = tf.FIFOQueue(3, tf.float32, shapes=[[2]])
    fed = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    x = tf.placeholder(tf.float32, [None, 2])
    session.run(queue.enqueue_many(x), {x: fed})
    fed[:] = 0
    assert session.run(queue.dequeue_many(2)).tolist() == [[1, 2], [3, 4]]


def test_an_enqueued_variable_keeps_its_value_of_then(session):
    variable = tf.Variable([1.0, 2.0])
    queue = tf.FIFOQueue(3, tf.float32)
    enqueue, update = queue.enqueue(variable), variable.assign_add([1.0, 1.0])
    session.run(variable.initializer)
    session.run(enqueue)
    session.run(update)
    assert session.run(queue.dequeue()).tolist() == [1, 2]


def test_components_of_all_kinds_go_through(session):
    queue = tf.FIFOQueue(3, [tf.string, tf.bfloat16, tf.bool], shapes=[[2], [], [1]])
    session.run(queue.enqueue((["a", "b"], tf.constant(1.5, tf.bfloat16), [True])))
    texts, number, truth = session.run(queue.dequeue_many(1))
    assert texts.tolist() == [[b"a", b"b"]]
    assert number.astype(np.float32).tolist() == [1.5]
    assert truth.tolist() == [[True]]


def test_no_elements_are_an_empty_batch(session):
    queue = tf.PaddingFIFOQueue(3, [tf.float32], shapes=[[None, 2]])
    session.run(queue.enqueue_many([np.zeros((0, 1, 2), np.float32)]))
    assert session.run(queue.size()) == 0
    assert session.run(queue.dequeue_many(0)).shape == (0, 0, 2)


def test_padding_fills_up_with_zeros_and_empty_strings(session):
    queue = tf.PaddingFIFOQueue(9, [tf.int32, tf.string], shapes=[[None], [None]])
    x, y = tf.placeholder(tf.int32), tf.placeholder(tf.string)
    for numbers, texts in (([1, 2, 3], ["a"]), ([4], ["b", "c"])):
        session.run(queue.enqueue((x, y)), {x: numbers, y: texts})
    numbers, texts = session.run(queue.dequeue_many(2))
    assert numbers.tolist() == [[1, 2, 3], [4, 0, 0]]
    assert texts.tolist() == [[b"a", b""], [b"b", b"c"]]


def test_a_seed_makes_the_order_of_a_shuffle_repeat():
    def order(seed):
        with tf.Graph().as_default(), tf.Session() as session:
            queue = tf.RandomShuffleQueue(50, 0, tf.int32, shapes=[[]], seed=seed)
            session.run(queue.enqueue_many([list(range(50))]))
            return session.run(queue.dequeue_many(50)).tolist()

    assert order(3) == order(3)
    assert order(3) != order(4)
    assert sorted(order(None)) == list(range(50))
    assert order(None) != order(None)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 2.0, 3.0], r"Shape mismatch in tuple component 0. Expected \[2\], got \[3\]"),
        (1.0, r"Shape mismatch in tuple component 0. Expected \[2\], got \[\]"),
    ],
)
def test_an_element_of_the_wrong_shape_is_refused(session, values, message):
    queue = tf.FIFOQueue(3, tf.float32, shapes=[[2]])
    x = tf.placeholder(tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run(queue.enqueue(x), {x: values})


def test_rows_must_be_equally_many(session):
    queue = tf.FIFOQueue(3, [tf.float32, tf.float32])
    x = tf.placeholder(tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="1 has 2, and should have 1"):
        session.run(queue.enqueue_many((x, [1.0, 2.0])), {x: [1.0]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="a row for each element"):
        session.run(queue.enqueue_many((x, [1.0, 2.0])), {x: 1.0})


def test_batches_need_shapes(session):
    queue = tf.FIFOQueue(3, tf.float32)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="require the components to have specified shapes"
    ):
        session.run(queue.dequeue_many(1))


# -- Names -------------------------------------------------------------------------------


def test_queues_of_one_shared_name_are_one_queue(session):
    one = tf.FIFOQueue(3, tf.int32, shared_name="shared")
    two = tf.FIFOQueue(3, tf.int32, shared_name="shared")
    session.run(one.enqueue(4))
    assert session.run(two.dequeue()) == 4


def test_queues_without_a_shared_name_belong_to_their_session(graph):
    queue = tf.FIFOQueue(3, tf.int32)
    with tf.Session(graph=graph) as one, tf.Session(graph=graph) as two:
        one.run(queue.enqueue(4))
        assert one.run(queue.size()) == 1
        assert two.run(queue.size()) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: tf.FIFOQueue(4, tf.int32, shapes=[[]], shared_name="s"),
            "Shared queue 's' has capacity 3 but requested capacity was 4",
        ),
        (
            lambda: tf.FIFOQueue(3, tf.float32, shapes=[[]], shared_name="s"),
            "has component types int32 but requested component types were float",
        ),
        (
            lambda: tf.FIFOQueue(3, tf.int32, shared_name="s"),
            r"has component shapes \[\[\]\] but requested component shapes were \[\]",
        ),
        (
            lambda: tf.RandomShuffleQueue(3, 0, tf.int32, shapes=[[]], shared_name="s"),
            "Expected FIFOQueue, found RandomShuffleQueueV2",
        ),
    ],
)
def test_those_who_share_a_queue_must_agree_on_it(session, make, message):
    session.run(tf.FIFOQueue(3, tf.int32, shapes=[[]], shared_name="s").size())
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run(make().size())


def test_clearing_a_container_ends_the_waits_in_it(graph, background, until):
    with tf.container("box"):
        queue = tf.FIFOQueue(3, tf.int32)
    assert queue.queue_ref.op.get_attr("container") == b"box"
    dequeue = queue.dequeue()
    with tf.Session(graph=graph) as session:
        call = background(lambda: session.run(dequeue))
        until(lambda: waiting(session) == 1)
        session._backend.reset(["box"])
        with pytest.raises(tf.errors.CancelledError, match="was removed"):
            call.result()


def test_old_references_to_queues_work(session):
    raw = tf.raw_ops
    handle = raw.FIFOQueue(component_types=[tf.int32], shapes=[[]], name="old")
    assert handle.dtype.name == "string_ref"
    session.run(raw.QueueEnqueueMany(handle=handle, components=[[1, 2, 3]]))
    assert session.run(raw.QueueSize(handle=handle)) == 3
    (batch,) = raw.QueueDequeueMany(handle=handle, n=2, component_types=[tf.int32])
    assert session.run(batch).tolist() == [1, 2]
    container, name = session.run(handle)
    assert container == b"localhost" and name.endswith(b"_old")


def test_types_that_are_not_the_queues_are_refused(session):
    queue = tf.FIFOQueue(3, [tf.int32, tf.int32])
    raw = tf.raw_ops
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="Signature mismatch, have: resource->float expected: resource->int32, int32",
    ):
        session.run(raw.QueueDequeueV2(handle=queue.queue_ref, component_types=[tf.float32]))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="have: resource, int32-> expected: resource, int32, int32->",
    ):
        session.run(queue.enqueue((1,)))


# -- The Python side ---------------------------------------------------------------------


def test_operations_are_named_after_the_queue():
    queue = tf.FIFOQueue(2, [tf.float32, tf.int32], shapes=[[2], []], name="a/q")
    assert queue.name == "a/q" and queue.queue_ref.device == "/device:CPU:*"
    names = [
        queue.enqueue(([1.0, 2.0], 3)).name,
        queue.enqueue_many(([[1.0, 2.0]], [3])).name,
        queue.dequeue()[0].op.name,
        queue.dequeue_many(2)[0].op.name,
        queue.dequeue_up_to(2)[0].op.name,
        queue.close().name,
        queue.is_closed().op.name,
        queue.size().op.name,
    ]
    assert names == [
        "q_enqueue",
        "q_EnqueueMany",
        "q_Dequeue",
        "q_DequeueMany",
        "q_DequeueUpTo",
        "q_Close",
        "q_Is_Closed",
        "q_Size",
    ]


def test_dequeued_tensors_have_static_shapes():
    queue = tf.FIFOQueue(2, [tf.float32, tf.int32], shapes=[[2], []])
    assert [t.shape.as_list() for t in queue.dequeue()] == [[2], []]
    assert [t.shape.as_list() for t in queue.dequeue_many(5)] == [[5, 2], [5]]
    assert [t.shape.as_list() for t in queue.dequeue_up_to(5)] == [[None, 2], [None]]
    assert tf.FIFOQueue(2, tf.float32).dequeue().shape.ndims is None


def test_a_queue_with_names_takes_and_gives_dicts(session):
    queue = tf.FIFOQueue(3, [tf.int32, tf.float32], names=["i", "f"], shapes=[[], []])
    session.run(queue.enqueue({"i": 1, "f": 2.0}))
    assert session.run(queue.dequeue()) == {"i": 1, "f": 2.0}
    with pytest.raises(ValueError, match="You must enqueue a dictionary"):
        queue.enqueue((1, 2.0))
    with pytest.raises(ValueError, match="do not match names of Queue"):
        queue.enqueue({"i": 1})
    with pytest.raises(ValueError, match="Queue must have names"):
        tf.FIFOQueue(3, tf.int32).enqueue({"i": 1})


def test_one_of_several_queues_is_chosen_in_the_step(session):
    queues = [tf.FIFOQueue(3, tf.int32, shapes=[[]]) for _ in range(2)]
    index = tf.placeholder(tf.int32, [])
    chosen = tf.QueueBase.from_list(index, queues)
    session.run(chosen.enqueue(9), {index: 1})
    assert session.run([queue.size() for queue in queues]) == [0, 1]
    with pytest.raises(TypeError, match="A list of queues expected"):
        tf.QueueBase.from_list(index, [1])
    with pytest.raises(TypeError, match="matching component dtypes"):
        tf.QueueBase.from_list(index, [queues[0], tf.FIFOQueue(1, tf.float32)])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: tf.FIFOQueue(1, tf.int32, shapes=[[None]]), ValueError, "must be fully defined"),
        (lambda: tf.FIFOQueue(1, tf.int32, shapes=1), TypeError, "Shapes must be a TensorShape"),
        (lambda: tf.FIFOQueue(1, tf.int32, shapes=[[1], [2]]), ValueError, "same length as dtypes"),
        (lambda: tf.FIFOQueue(1, tf.int32, names=["a", "b"]), ValueError, "List of names"),
        (
            lambda: tf.PaddingFIFOQueue(1, tf.int32, shapes=[None]),
            ValueError,
            "a list of shapes must be provided",
        ),
        (
            lambda: tf.PaddingFIFOQueue(1, tf.int32, shapes=[tf.TensorShape(None)]),
            ValueError,
            "must have a defined rank",
        ),
    ],
)
def test_a_queue_that_makes_no_sense_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_minimum_must_leave_room(session):
    with pytest.raises(tf.errors.InvalidArgumentError, match="3 must be < capacity 3"):
        session.run(tf.RandomShuffleQueue(3, 3, tf.int32).size())


def test_what_cannot_fit_is_refused_while_the_graph_is_built():
    queue = tf.FIFOQueue(2, [tf.float32, tf.int32], shapes=[[2], []])
    with pytest.raises(ValueError, match="are incompatible"):
        queue.enqueue(([1.0], 2))
    with pytest.raises(ValueError, match="are not compatible"):
        queue.enqueue_many(([[1.0, 2.0]], [2, 3]))
    with pytest.raises(TypeError, match="int32"):
        queue.enqueue(([1.0, 2.0], 2.5))


def test_a_seeded_shuffle_queue_gives_elements_in_tensorflows_order() -> None:
    """The orders were recorded from TensorFlow 2.21."""

    def order(seed: int | None, graph_seed: int | None) -> list[int]:
        with tf.Graph().as_default(), tf.Session() as sess:
            if graph_seed is not None:
                tf.set_random_seed(graph_seed)
            queue = tf.RandomShuffleQueue(100, 0, [tf.int32], shapes=[[]], seed=seed)
            sess.run(queue.enqueue_many([list(range(10))]))
            return sess.run(queue.dequeue_many(10)).tolist()  # type: ignore[no-any-return]

    assert order(7, None) == [7, 1, 5, 6, 4, 3, 2, 0, 9, 8]
    assert order(None, 5) == [7, 3, 8, 6, 0, 5, 2, 1, 4, 9]
    assert order(7, 2**40 + 3) == [0, 4, 8, 3, 1, 7, 5, 2, 9, 6]
