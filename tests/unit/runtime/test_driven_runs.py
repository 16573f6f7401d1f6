"""Runs that no thread stays with, driven by whoever brings what they wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.core import errors
from millrace.passes.prune import prune
from millrace.runtime import executor
from millrace.runtime.future import Future
from millrace.runtime.planning import plan_of
from millrace.runtime.resources import ResourceStore
from millrace.runtime.step import SessionState, Step


class Driven:
    """A plan that is driven, and what came of it."""

    def __init__(self, *fetches: Any) -> None:
        self.plan = plan_of(prune(list(fetches), [], []))
        self.step = Step(SessionState(ResourceStore()), executor.run_values)
        self.run = executor.Execution(self.plan, self.step)
        self.resumed: list[Callable[[], None]] = []
        self.ends: list[BaseException | None] = []
        self.run.drive(self.resumed.append, self.ends.append)

    def go_on(self) -> None:
        """What a thread does that has been asked to."""
        self.resumed.pop()()

    def results(self) -> list[float]:
        assert self.ends == [None]
        return [float(self.run.values[slot]) for slot in self.plan.result_slots]


def test_a_run_goes_on_when_it_is_told_to(blocking: Any) -> None:
    first, second = Future("one"), Future("another")
    driven = Driven(blocking("b", second, blocking("a", first) + 1.0) * 2.0)
    assert driven.run.waits_for() == "a (one)" and not driven.resumed
    first.set_result(np.float32(5.0))
    assert not driven.ends
    driven.go_on()
    assert driven.run.waits_for() == "b (another)"
    second.set_result(np.float32(4.0))
    driven.go_on()
    assert driven.results() == [8.0] and driven.run.waits_for() == ""


def test_what_is_there_already_needs_no_other_thread(blocking: Any) -> None:
    done = Future()
    done.set_result(np.float32(3.0))
    driven = Driven(blocking("b", np.float32(2.0), blocking("a", done)))
    assert driven.results() == [2.0] and not driven.resumed


def test_what_comes_while_a_thread_is_at_it_is_taken_by_that_thread(blocking: Any) -> None:
    first, second = Future(), Future()

    def bring(x: Any) -> Any:
        second.set_result(np.float32(4.0))  # While this stage runs.
        return x

    brought = tf.py_func(bring, [blocking("a", first)], tf.float32)
    driven = Driven(brought, blocking("b", second) * 2.0)
    first.set_result(np.float32(3.0))
    driven.go_on()
    assert driven.results() == [3.0, 8.0] and not driven.resumed


@pytest.mark.parametrize("fails_at", ["once", "last"])
def test_an_error_ends_a_run_and_cancels_what_it_does_elsewhere(
    blocking: Any, fails_at: str
) -> None:
    error = errors.OutOfRangeError(None, None, "no more")
    later = Future()
    driven = Driven(blocking("a", error if fails_at == "once" else later) + 1.0)
    if fails_at == "last":
        later.set_error(error)
        driven.go_on()
    (found,) = driven.ends
    assert isinstance(found, errors.OutOfRangeError) and "no more" in str(found)
    assert found.op is not None and found.op.name == "a"
    assert isinstance(driven.step.cancellation.error, errors.CancelledError)


def test_a_run_that_has_ended_holds_nobody(blocking: Any) -> None:
    driven = Driven(blocking("a", np.float32(2.0)))
    assert driven.results() == [2.0]
    assert driven.run._on_finished is None
