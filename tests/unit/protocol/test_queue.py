"""The discipline of queues, event by event. The texts of errors are TensorFlow 2.21's."""

import pytest

from millrace.core import errors
from millrace.protocol.queue import (
    Close,
    Dequeue,
    Enqueue,
    FifoQueueState,
    PaddingFifoQueueState,
    PriorityQueueState,
    RandomShuffleQueueState,
)


def elements(*values):
    return [(value,) for value in values]


def submitted(queue, attempt):
    queue.submit(attempt)
    return attempt


def taken(attempt):
    return [element[0] for element in attempt.result()]


def filled(queue, *values):
    assert submitted(queue, Enqueue(elements(*values))).done
    return queue


def test_elements_come_out_in_the_order_in_which_they_went_in():
    queue = filled(FifoQueueState("q", 10), 1, 2, 3)
    assert taken(submitted(queue, Dequeue(1))) == [1]
    assert taken(submitted(queue, Dequeue(2))) == [2, 3]
    assert len(queue) == 0


def test_an_enqueue_waits_for_room_and_fills_it_element_by_element():
    queue = FifoQueueState("q", 2)
    many = submitted(queue, Enqueue(elements(1, 2, 3, 4)))
    assert not many.done and len(queue) == 2
    assert taken(submitted(queue, Dequeue(1))) == [1]
    assert not many.done and len(queue) == 2
    assert many in queue.submit(Dequeue(1))
    assert many.done
    assert taken(submitted(queue, Dequeue(2))) == [3, 4]


def test_the_event_that_settles_an_attempt_reports_it():
    queue = FifoQueueState("q", 1)
    waiting = submitted(queue, Dequeue(1))
    enqueue = Enqueue(elements(5))
    assert set(queue.submit(enqueue)) == {enqueue, waiting}
    assert taken(waiting) == [5]


def test_attempts_are_served_in_the_order_in_which_they_came():
    queue = FifoQueueState("q", 10)
    first, second = submitted(queue, Dequeue(2)), submitted(queue, Dequeue(1))
    filled(queue, 1)
    assert not first.done and not second.done  # the first holds the element
    assert len(queue) == 0
    filled(queue, 2, 3)
    assert taken(first) == [1, 2]
    assert taken(second) == [3]


def test_capacity_below_zero_means_no_limit():
    queue = FifoQueueState("q", -1)
    assert submitted(queue, Enqueue(elements(*range(1000)))).done


def test_closing_waits_for_the_enqueues_before_it():
    queue = FifoQueueState("q", 1)
    many = submitted(queue, Enqueue(elements(1, 2)))
    close = submitted(queue, Close())
    assert not close.done and not queue.is_closed
    assert taken(submitted(queue, Dequeue(1))) == [1]
    assert many.done and close.done and queue.is_closed
    assert taken(submitted(queue, Dequeue(1))) == [2]


def test_a_closed_queue_refuses_enqueues_and_a_second_close():
    queue = FifoQueueState("q", 5)
    submitted(queue, Close()).result()
    with pytest.raises(errors.CancelledError, match=r"^FIFOQueue 'q' is closed\.$"):
        submitted(queue, Enqueue(elements(1))).result()
    with pytest.raises(errors.CancelledError, match=r"^Queue 'q' is already closed\.$"):
        submitted(queue, Close()).result()


def test_closing_with_cancelling_fails_the_enqueues_that_wait_and_keeps_what_is_in():
    queue = FifoQueueState("q", 2)
    many = submitted(queue, Enqueue(elements(1, 2, 3)))
    assert queue.close_and_cancel() == [many]
    with pytest.raises(errors.CancelledError, match="Enqueue operation was cancelled"):
        many.result()
    assert taken(submitted(queue, Dequeue(2))) == [1, 2]
    assert queue.close_and_cancel() == []


def test_a_dequeue_of_too_many_from_a_closed_queue_fails_and_leaves_the_elements():
    queue = filled(FifoQueueState("q", 5), 1, 2)
    submitted(queue, Close())
    with pytest.raises(
        errors.OutOfRangeError,
        match=r"^FIFOQueue 'q' is closed and has insufficient elements "
        r"\(requested 3, current size 2\)$",
    ):
        submitted(queue, Dequeue(3)).result()
    assert taken(submitted(queue, Dequeue(2))) == [1, 2]


def test_closing_makes_a_waiting_dequeue_give_back_what_it_holds():
    queue = filled(FifoQueueState("q", 5), 1, 2)
    waiting = submitted(queue, Dequeue(3))
    assert len(queue) == 0
    submitted(queue, Close())
    with pytest.raises(errors.OutOfRangeError, match=r"requested 1, current size 0"):
        waiting.result()
    assert taken(submitted(queue, Dequeue(2))) == [1, 2]


def test_a_dequeue_up_to_takes_the_rest_of_a_closed_queue_but_not_nothing():
    queue = filled(FifoQueueState("q", 5), 1, 2)
    waiting = submitted(queue, Dequeue(3, allow_small_batch=True))
    assert not waiting.done  # not closed yet: there may be more
    submitted(queue, Close())
    assert taken(waiting) == [1, 2]
    with pytest.raises(errors.OutOfRangeError, match=r"requested 3, current size 0"):
        submitted(queue, Dequeue(3, allow_small_batch=True)).result()


def test_cancelling_a_dequeue_returns_its_elements_to_those_behind_it():
    queue = filled(FifoQueueState("q", 5), 1, 2)
    first, second = submitted(queue, Dequeue(3)), submitted(queue, Dequeue(2))
    assert queue.cancel(first) == [first, second]
    with pytest.raises(errors.CancelledError, match="Dequeue operation was cancelled"):
        first.result()
    assert taken(second) == [1, 2]
    assert queue.cancel(first) == []


def test_cancelling_an_enqueue_lets_those_behind_it_go_on():
    queue = FifoQueueState("q", 1)
    first = submitted(queue, Enqueue(elements(1, 2)))
    second = submitted(queue, Enqueue(elements(3)))
    queue.cancel(first)
    assert first.done and not second.done
    assert taken(submitted(queue, Dequeue(1))) == [1]
    assert second.done
    assert taken(submitted(queue, Dequeue(1))) == [3]


def test_a_queue_that_goes_away_fails_all_that_wait():
    queue = FifoQueueState("q", 0)
    enqueue, dequeue = submitted(queue, Enqueue(elements(1))), submitted(queue, Dequeue(1))
    assert set(queue.abandon()) == {enqueue, dequeue}
    for attempt in (enqueue, dequeue):
        with pytest.raises(errors.CancelledError, match="'q' was removed"):
            attempt.result()


def test_a_shuffling_queue_keeps_a_minimum_until_it_is_closed():
    queue = RandomShuffleQueueState("r", 10, min_after_dequeue=2, choose=lambda n: 0)
    filled(queue, 1, 2, 3)
    assert taken(submitted(queue, Dequeue(1))) == [1]
    waiting = submitted(queue, Dequeue(2))
    assert not waiting.done and len(queue) == 2
    submitted(queue, Close())
    assert sorted(taken(waiting)) == [2, 3]


def test_a_shuffling_queue_takes_the_element_that_the_number_says():
    numbers = iter([2, 0, 0])
    queue = RandomShuffleQueueState("r", 10, 0, choose=lambda n: next(numbers))
    filled(queue, "a", "b", "c")
    assert taken(submitted(queue, Dequeue(3))) == ["c", "a", "b"]


def test_a_priority_queue_gives_the_lowest_number_first_and_equals_in_order():
    queue = PriorityQueueState("p", 10)
    submitted(queue, Enqueue([(3, "c"), (1, "a"), (2, "b"), (1, "aa")]))
    assert [e[1] for e in submitted(queue, Dequeue(4)).result()] == ["a", "aa", "b", "c"]


def test_elements_that_return_to_a_priority_queue_come_before_their_equals():
    queue = PriorityQueueState("p", 10)
    submitted(queue, Enqueue([(1, "first"), (1, "second")]))
    waiting = submitted(queue, Dequeue(3))
    queue.cancel(waiting)
    submitted(queue, Enqueue([(1, "third")]))
    order = [e[1] for e in submitted(queue, Dequeue(3)).result()]
    assert order == ["first", "second", "third"]


def test_errors_name_the_kind_of_queue():
    queue = PaddingFifoQueueState("p", 1)
    submitted(queue, Close())
    with pytest.raises(errors.OutOfRangeError, match="^PaddingFIFOQueue 'p' is closed"):
        submitted(queue, Dequeue(1)).result()


def test_what_is_present_is_taken_without_waiting_for_more():
    queue = filled(FifoQueueState("q", 10), 1, 2, 3)
    assert queue.take_present(2) == (elements(1, 2), [])
    assert queue.take_present(5) == (elements(3), [])
    assert queue.take_present(5) == ([], [])


def test_who_takes_what_is_present_makes_room_and_goes_before_nobody():
    queue = filled(FifoQueueState("q", 2), 1, 2)
    waiting = submitted(queue, Enqueue(elements(3)))
    assert queue.take_present(1) == (elements(1), [waiting])
    first = submitted(queue, Dequeue(3))
    assert queue.take_present(9) == ([], [])
    assert submitted(queue, Enqueue(elements(4))).done and taken(first) == [2, 3, 4]
