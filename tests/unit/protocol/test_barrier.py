"""Elements put together from components. The texts of errors are TensorFlow 2.21's."""

import pytest

from millrace.core import errors
from millrace.protocol.barrier import BarrierState
from millrace.protocol.queue import Dequeue

FIRST_INDEX = -(2**63)


def take(barrier, count, allow_small_batch=False):
    attempt = Dequeue(count, allow_small_batch)
    barrier.submit(attempt)
    return attempt


def test_an_element_is_ready_when_all_its_components_are_there():
    barrier = BarrierState("B", 2)
    barrier.insert_many(0, [b"a", b"b"], [1, 2])
    assert (barrier.ready_size, barrier.incomplete_size) == (0, 2)
    barrier.insert_many(1, [b"b"], ["x"])
    assert (barrier.ready_size, barrier.incomplete_size) == (1, 1)
    assert take(barrier, 1).result() == [(FIRST_INDEX, b"b", 2, "x")]


def test_a_take_waits_for_the_insert_that_completes_it():
    barrier = BarrierState("B", 1)
    waiting = take(barrier, 2)
    assert barrier.insert_many(0, [b"a"], [1])
    assert not waiting.done
    assert waiting in barrier.insert_many(0, [b"b"], [2])


def test_elements_come_in_the_order_in_which_their_keys_were_first_seen():
    barrier = BarrierState("B", 2)
    barrier.insert_many(0, [b"k"], [1])
    barrier.insert_many(0, [b"l"], [1])
    barrier.insert_many(1, [b"l"], [1])
    barrier.insert_many(1, [b"k"], [1])
    assert [element[:2] for element in take(barrier, 2).result()] == [
        (FIRST_INDEX, b"k"),
        (FIRST_INDEX + 1, b"l"),
    ]


def test_a_component_is_given_once():
    barrier = BarrierState("B", 2)
    barrier.insert_many(0, [b"a"], [1])
    with pytest.raises(
        errors.InvalidArgumentError,
        match="^Key a already has a value for component 0 in barrier B$",
    ):
        barrier.insert_many(0, [b"a"], [2])


def test_a_closed_barrier_completes_what_it_has_but_takes_no_new_key():
    barrier = BarrierState("B", 2)
    barrier.insert_many(0, [b"a"], [1])
    barrier.close(cancel_pending_enqueues=False)
    with pytest.raises(errors.CancelledError, match="attempted to insert a brand new key: z"):
        barrier.insert_many(0, [b"z"], [1])
    waiting = take(barrier, 1)
    assert not waiting.done
    barrier.insert_many(1, [b"a"], [2])
    assert waiting.result() == [(FIRST_INDEX, b"a", 1, 2)]
    with pytest.raises(
        errors.OutOfRangeError,
        match=r"^Barrier 'B' is closed and has insufficient elements "
        r"\(requested 2, total size 0\)$",
    ):
        take(barrier, 2).result()


def test_a_closed_barrier_gives_a_small_batch_where_that_is_allowed():
    barrier = BarrierState("B", 1)
    barrier.insert_many(0, [b"a"], [1])
    barrier.close(cancel_pending_enqueues=False)
    assert len(take(barrier, 5, allow_small_batch=True).result()) == 1
    with pytest.raises(errors.OutOfRangeError, match="requested 0, total size 0"):
        take(barrier, 5, allow_small_batch=True).result()


def test_closing_with_cancelling_drops_what_is_incomplete_and_ends_takes():
    barrier = BarrierState("B", 2)
    barrier.insert_many(0, [b"a"], [1])
    waiting = take(barrier, 1)
    barrier.close(cancel_pending_enqueues=True)
    assert barrier.incomplete_size == 0
    with pytest.raises(errors.OutOfRangeError, match="PriorityQueue 'B_queue' is closed"):
        waiting.result()
    with pytest.raises(errors.CancelledError, match="Number of new insertions: 1"):
        barrier.insert_many(1, [b"a"], [2])


def test_a_barrier_is_closed_once_and_may_then_be_cancelled_once():
    barrier = BarrierState("B", 2)
    barrier.insert_many(0, [b"a"], [1])
    barrier.close(cancel_pending_enqueues=False)
    with pytest.raises(errors.CancelledError, match="Barrier 'B' is already closed"):
        barrier.close(cancel_pending_enqueues=False)
    barrier.close(cancel_pending_enqueues=True)
    with pytest.raises(errors.CancelledError, match="Barrier 'B' is already closed"):
        barrier.close(cancel_pending_enqueues=True)


def test_cancelling_a_take_leaves_the_elements():
    barrier = BarrierState("B", 1)
    waiting = take(barrier, 2)
    barrier.insert_many(0, [b"a"], [1])
    barrier.cancel(waiting)
    assert barrier.ready_size == 1
