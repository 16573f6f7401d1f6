"""Deferred values and cancellation: set once, heard once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from millrace.core import errors
from millrace.runtime.cancellation import Cancellation
from millrace.runtime.deferred import Deferred


def test_a_deferred_is_set_once() -> None:
    deferred = Deferred("a value")
    assert not deferred.done and deferred.waits_for == "a value"
    assert deferred.set_result(1)
    assert not deferred.set_result(2)
    assert not deferred.set_error(ValueError("late"))
    assert deferred.done and deferred.result() == 1


def test_an_error_is_raised_where_the_result_is_asked_for() -> None:
    deferred = Deferred()
    deferred.set_error(ValueError("words"))
    with pytest.raises(ValueError, match="words"):
        deferred.result()


def test_callbacks_are_called_once_whether_before_or_after() -> None:
    deferred = Deferred()
    heard: list[Any] = []
    deferred.add_callback(lambda d: heard.append(("before", d.result())))
    deferred.set_result(1)
    deferred.add_callback(lambda d: heard.append(("after", d.result())))
    assert heard == [("before", 1), ("after", 1)]


def test_of_many_threads_one_sets_the_value() -> None:
    deferred = Deferred()
    calls: list[int] = []
    deferred.add_callback(lambda d: calls.append(d.result()))
    start = threading.Barrier(8)
    won: list[int] = []

    def race(i: int) -> None:
        start.wait()
        if deferred.set_result(i):
            won.append(i)

    threads = [threading.Thread(target=race, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and calls == won == [deferred.result()]


def test_cancelling_calls_each_callback_once() -> None:
    cancellation = Cancellation()
    heard: list[str] = []
    cancellation.register(lambda: heard.append("a"))
    token = cancellation.register(lambda: heard.append("b"))
    cancellation.deregister(token)
    cancellation.deregister(None)
    assert cancellation.error is None
    cancellation.cancel(errors.CancelledError(None, None, "first"))
    cancellation.cancel(errors.CancelledError(None, None, "second"))
    assert heard == ["a"]
    assert cancellation.error is not None and cancellation.error.message == "first"
    assert cancellation.register(lambda: heard.append("c")) is None
    assert heard == ["a"]


def test_cancelling_without_a_reason_has_one() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    assert isinstance(cancellation.error, errors.CancelledError)
