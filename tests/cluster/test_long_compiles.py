"""A graph that XLA compiles for very long is its client's own trouble."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import millrace as tf
from millrace.compiler import budget


class HeldCompile:
    """Holds every compile of a program with an op whose name begins with "slow"."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch, until: Any) -> Iterator[HeldCompile]:
    hold = HeldCompile()
    within = budget._within

    def holding(allowed: Any, compile_it: Any, name: str, nodes: Any) -> Any:
        def wait() -> Any:
            hold.began.set()
            assert hold.go.wait(60)
            return compile_it()

        is_slow = any(node.name.startswith("slow") for node in nodes)
        return within(allowed, wait if is_slow else compile_it, name, nodes)

    monkeypatch.setattr(budget, "_within", holding)
    yield hold
    hold.go.set()
    until(lambda: not budget._overdue)


def slow_step(target: str) -> float:
    with tf.Graph().as_default(), tf.Session(target) as session:
        x = tf.placeholder(tf.float32, [3])
        return float(session.run(tf.reduce_sum(tf.tanh(x, name="slow")), {x: [0.0] * 3}))


def steps_of_another(target: str, count: int) -> list[float]:
    """Steps that read and write a variable, of a graph that nobody has compiled."""
    with tf.Graph().as_default(), tf.Session(target) as session:
        x = tf.placeholder(tf.float32, [None])
        total = tf.get_variable("total", initializer=0.0)
        add = tf.assign_add(total, tf.reduce_sum(tf.exp(x)))
        session.run(total.initializer)
        return [float(session.run(add, {x: [0.0] * (i % 2 + 1)})) for i in range(count)]


def test_clients_step_while_the_graph_of_another_is_compiled(
    make_cluster: Any, background: Any, held: HeldCompile
) -> None:
    target = make_cluster({"local": 1}).target("local", remote=True)
    slow = background(lambda: slow_step(target))
    assert held.began.wait(60)
    assert steps_of_another(target, 6) == [1.0, 3.0, 4.0, 6.0, 7.0, 9.0]
    assert slow.is_running
    held.go.set()
    assert slow.result() == 0.0


def test_a_compile_over_its_budget_fails_its_client_only(
    make_cluster: Any, background: Any, held: HeldCompile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_MAX_COMPILE_SECONDS", "0")
    target = make_cluster({"local": 1}).target("local", remote=True)
    slow = background(lambda: slow_step(target))
    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"Tanh \(slow\)"):
        slow.result()
    monkeypatch.delenv("MILLRACE_MAX_COMPILE_SECONDS")
    assert budget._overdue
    assert steps_of_another(target, 4) == [1.0, 3.0, 4.0, 6.0]
    held.go.set()
