"""Running plans whose stages may wait: order, failures, deadlines."""

from __future__ import annotations

import threading
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


def step(**options: Any) -> Step:
    return Step(SessionState(ResourceStore()), executor.run_values, **options)


def run(fetches: list[Any], targets: list[Any] | None = None, **options: Any) -> list[Any]:
    plan = plan_of(prune(fetches, [t.op for t in targets or []], []))
    return executor.run(plan, step(**options), [])


def set_later(future: Future, value: Any) -> None:
    threading.Timer(0.02, future.set_result, (np.float32(value),)).start()


def test_an_answer_at_once_needs_no_waiting(blocking: Any) -> None:
    assert run([blocking("q", np.float32(3.0)) * 2.0]) == [6.0]


def test_what_does_not_depend_on_a_wait_runs_before_it_ends(blocking: Any) -> None:
    first, second = Future(), Future()
    a, b = blocking("a", first), blocking("b", second)
    seen: list[float] = []

    def notice(x: Any) -> Any:
        seen.append(float(x))
        second.set_result(np.float32(10.0))  # Only then can b's part go on.
        return x

    noticed = tf.py_func(notice, [a + 1.0], tf.float32)
    set_later(first, 1.0)
    assert run([noticed, b + 5.0]) == [2.0, 15.0]
    assert seen == [2.0]


def test_waits_one_after_the_other(blocking: Any) -> None:
    first, second = Future(), Future()
    a = blocking("a", first)
    b = blocking("b", second, a * 2.0)
    set_later(first, 1.0)
    set_later(second, 7.0)
    assert run([a, b + 1.0]) == [1.0, 8.0]


def test_a_failure_ends_the_other_waits_of_the_step(blocking: Any) -> None:
    endless = Future("something that never comes")
    a, b = blocking("a", endless), blocking("b", ValueError("no good"))
    with pytest.raises(errors.InvalidArgumentError, match="no good"):
        run([a, b])
    assert endless.done
    with pytest.raises(errors.CancelledError, match="Another op of this step failed"):
        endless.result()


def test_an_error_that_arrives_late_names_the_node(blocking: Any) -> None:
    future = Future()
    a = blocking("the_node", future)
    threading.Timer(
        0.02, future.set_error, (errors.OutOfRangeError(None, None, "closed and empty"),)
    ).start()
    with pytest.raises(errors.OutOfRangeError, match="closed and empty") as caught:
        run([a])
    assert caught.value.op is a.op
    assert "the_node" in str(caught.value)


def test_a_deadline_says_what_was_waited_for(blocking: Any) -> None:
    a = blocking("a", Future("an element of the queue"))
    with pytest.raises(errors.DeadlineExceededError) as caught:
        run([a], timeout=0.05)
    assert "a (an element of the queue)" in str(caught.value)


def test_a_pure_failure_after_a_wait_is_raised(blocking: Any) -> None:
    future = Future()
    checked = tf.check_numerics(blocking("a", future), "bad")
    set_later(future, np.inf)
    with pytest.raises(errors.InvalidArgumentError, match="bad"):
        run([checked])


def test_cancelling_the_step_ends_it(blocking: Any) -> None:
    a = blocking("a", Future())
    plan, context = plan_of(prune([a], [], [])), step()
    timer = threading.Timer(0.02, context.cancellation.cancel)
    timer.start()
    with pytest.raises(errors.CancelledError):
        executor.run(plan, context, [])


def test_a_plan_without_waits_does_not_block() -> None:
    assert not plan_of(prune([tf.constant(1.0) + 2.0], [], [])).blocks


def test_one_plan_serves_many_threads_at_once() -> None:
    x = tf.placeholder(tf.float32, [])
    plan = plan_of(prune([tf.as_string(x * 2.0)], [], [x]))
    state = SessionState(ResourceStore())
    results: dict[int, Any] = {}

    def work(i: int) -> None:
        for _ in range(20):
            context = Step(state, executor.run_values)
            results[i] = executor.run(plan, context, [np.float32(i)])[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [float(results[i]) for i in range(4)] == [0.0, 2.0, 4.0, 6.0]


def test_stages_that_can_run_do_so_in_the_order_of_the_plan(blocking: Any) -> None:
    future, ran = Future(), []

    def note(name: str, x: Any) -> Any:
        def run(value: Any) -> Any:
            ran.append(name)
            return value

        return tf.py_func(run, [x], tf.float32, name=name)

    first = note("first", 1.0)
    second = note("second", first)
    other = note("other", 2.0)
    waited = note("waited", blocking("a", future))
    future.set_result(np.float32(1.0))
    names = [node.name for s in plan_of(prune([second, other], [], [])).stages for node in s.nodes]
    run([second, other, waited])
    assert [name for name in ran if name != "waited"] == [n for n in names if n in ran]
