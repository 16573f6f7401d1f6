"""Future values and cancellation: set once, heard once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from millrace.core import errors
from millrace.runtime.cancellation import Cancellation
from millrace.runtime.future import Future


def test_a_deferred_is_set_once() -> None:
    future = Future("a value")
    assert not future.done and future.waits_for == "a value"
    assert future.set_result(1)
    assert not future.set_result(2)
    assert not future.set_error(ValueError("late"))
    assert future.done and future.result() == 1


def test_an_error_is_raised_where_the_result_is_asked_for() -> None:
    future = Future()
    future.set_error(ValueError("words"))
    with pytest.raises(ValueError, match="words"):
        future.result()


def test_callbacks_are_called_once_whether_before_or_after() -> None:
    future = Future()
    heard: list[Any] = []
    future.add_callback(lambda d: heard.append(("before", d.result())))
    future.set_result(1)
    future.add_callback(lambda d: heard.append(("after", d.result())))
    assert heard == [("before", 1), ("after", 1)]


def test_of_many_threads_one_sets_the_value() -> None:
    future = Future()
    calls: list[int] = []
    future.add_callback(lambda d: calls.append(d.result()))
    start = threading.Barrier(8)
    won: list[int] = []

    def race(i: int) -> None:
        start.wait()
        if future.set_result(i):
            won.append(i)

    threads = [threading.Thread(target=race, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and calls == won == [future.result()]


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
