"""Runs that wait in the thread that began them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.core import errors
from millrace.passes.prune import prune
from millrace.platform import wait_reporter
from millrace.runtime import executor
from millrace.runtime.future import Future
from millrace.runtime.planning import plan_of
from millrace.runtime.resources import ResourceStore
from millrace.runtime.step import SessionState, Step


def run(*fetches: Any, timeout: float | None = None) -> list[Any]:
    step = Step(SessionState(ResourceStore()), executor.run_values, timeout=timeout)
    return executor.run(plan_of(prune(list(fetches), [], [])), step, [])


def set_later(future: Future, value: float) -> threading.Thread:
    thread = threading.Thread(target=lambda: future.set_result(np.float32(value)))
    thread.start()
    return thread


def test_one_wait_follows_another_and_the_rest_comes_after(blocking: Any) -> None:
    first, second = Future(), Future()
    a = blocking("a", first)
    b = blocking("b", second, a + 1.0)
    meanwhile = tf.py_func(lambda x: x, [1.0], tf.float32)
    threads = [set_later(first, 5.0), set_later(second, 4.0)]
    assert run(b * 2.0, a, meanwhile) == [8.0, 5.0, 1.0]
    for thread in threads:
        thread.join()


def test_what_a_wait_ends_with_names_the_op_and_ends_the_step(blocking: Any) -> None:
    future = Future()
    future.set_error(errors.AbortedError(None, None, "lost"))
    with pytest.raises(tf.errors.AbortedError, match=r"lost\n\t \[\[node a \(TestBlocking"):
        run(blocking("a", future))


def test_a_deadline_ends_the_wait_and_says_what_was_waited_for(blocking: Any) -> None:
    future = Future("a token")
    with pytest.raises(tf.errors.DeadlineExceededError) as caught:
        run(blocking("a", future), timeout=0.01)
    assert caught.value.message == "Timed out waiting for notification: a (a token)"
    assert future.failed


def test_a_wait_that_lasts_speaks_until_it_is_over(
    blocking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    future = Future("a token")
    spoken: list[str] = []

    def tell(reporter: wait_reporter.WaitReporter, words: Any) -> None:
        spoken.append(words())
        if len(spoken) == 3:
            future.set_result(np.float32(1.0))

    monkeypatch.setattr(wait_reporter, "FIRST_SECONDS", 0.001)
    monkeypatch.setattr(wait_reporter.WaitReporter, "tell", tell)
    assert run(blocking("a", future)) == [1.0]
    assert spoken == ["a (a token)"] * 3


def test_values_that_come_at_any_moment_are_heard(blocking: Any) -> None:
    for value in range(200):
        future = Future()
        thread = set_later(future, float(value))
        assert run(blocking(f"a{value}", future)) == [value]
        thread.join()
