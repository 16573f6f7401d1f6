"""A lock: one holder at a time, in the order of asking."""

from __future__ import annotations

import pytest

from millrace.core import errors
from millrace.protocol.attempt import Attempt
from millrace.protocol.mutex import MutexState


def test_the_lock_goes_on_in_the_order_of_asking() -> None:
    lock = MutexState("m")
    first, second, third = Attempt(), Attempt(), Attempt()
    assert lock.submit(first) == [first]
    assert lock.submit(second) == [] == lock.submit(third)
    assert lock.release() == [second]
    assert not third.done
    assert lock.release() == [third]
    assert lock.release() == []
    assert not lock.is_held


def test_who_is_cancelled_does_not_get_the_lock() -> None:
    lock = MutexState("m")
    first, second, third = Attempt(), Attempt(), Attempt()
    for attempt in (first, second, third):
        lock.submit(attempt)
    assert lock.cancel(second) == [second]
    with pytest.raises(errors.CancelledError, match="cancelled"):
        second.result()
    assert lock.cancel(first) == [], "it has the lock already"
    assert lock.release() == [third]


def test_who_waits_for_a_lock_that_goes_away_is_told() -> None:
    lock = MutexState("m")
    holder, waiting = Attempt(), Attempt()
    lock.submit(holder)
    lock.submit(waiting)
    assert lock.abandon() == [waiting]
    with pytest.raises(errors.CancelledError, match="deleted"):
        waiting.result()
