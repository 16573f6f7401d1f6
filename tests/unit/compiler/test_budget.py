"""A compile that takes too much fails its caller, names its operations, and is not repeated."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

import millrace as tf
from millrace.compiler import budget
from millrace.compiler.budget import Budget
from millrace.compiler.xla import jax
from millrace.runtime import tiers

ENOUGH = Budget(60.0, 1 << 40)


class Endless:
    """A program whose compile ends when it is let go."""

    def __init__(self):
        self.go = threading.Event()

    def compile(self):
        assert self.go.wait(60)
        return "late"


@pytest.fixture
def endless(until):
    program = Endless()
    yield program
    program.go.set()
    until(lambda: not budget._overdue)


def nodes(**counts):
    return [
        SimpleNamespace(type=kind, name=f"net/{kind}_{i}")
        for kind, count in counts.items()
        for i in range(count)
    ]


def test_a_program_is_compiled_and_errors_of_the_compiler_are_its_callers():
    compiled = budget.compile(jax.jit(lambda x: x + 1).lower(1.0), "add", (), ENOUGH)
    assert compiled(2.0) == 3.0

    def refuse():
        raise RuntimeError("no such instruction")

    with pytest.raises(RuntimeError, match="no such instruction"):
        budget.compile(SimpleNamespace(compile=refuse), "bad", (), ENOUGH)


def test_a_compile_that_takes_too_long_names_its_operations(endless):
    many = nodes(TensorArrayScatterV3=40, MatMul=2)
    with pytest.raises(tf.errors.ResourceExhaustedError) as told:
        budget.compile(endless, "stage 3", many, Budget(0.0, 1 << 40))
    assert "Compiling stage 3 has taken" in told.value.message
    assert "40 TensorArrayScatterV3 (net/TensorArrayScatterV3_0), 2 MatMul" in told.value.message
    assert "MILLRACE_MAX_COMPILE_SECONDS" in told.value.message


def test_a_compile_that_takes_too_much_memory_fails(endless, monkeypatch):
    sizes = iter([1000, 1500, 900_000_000])
    monkeypatch.setattr(budget, "_resident_bytes", lambda: next(sizes, 900_000_000))
    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"900 MB, and may take 100 "):
        budget.compile(endless, "stage", (), Budget(60.0, 100_000_000))


def test_while_one_is_over_its_budget_no_other_begins(endless, until):
    with pytest.raises(tf.errors.ResourceExhaustedError):
        budget.compile(endless, "the first", (), Budget(0.0, 1 << 40))
    second = jax.jit(lambda x: x * 2).lower(1.0)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="the compile of the first is over"):
        budget.compile(second, "the second", (), ENOUGH)
    endless.go.set()
    until(lambda: not budget._overdue)
    assert budget.compile(second, "the second", (), ENOUGH)(4.0) == 8.0


def test_the_environment_states_the_budget(monkeypatch):
    assert budget.from_environment().seconds == 600
    monkeypatch.setenv("MILLRACE_MAX_COMPILE_SECONDS", "2.5")
    monkeypatch.setenv("MILLRACE_MAX_COMPILE_BYTES", "1G")
    assert budget.from_environment() == Budget(2.5, 1 << 30)


def test_many_kinds_of_operations_are_told_shortly():
    kinds = {f"Kind{i}": 10 - i for i in range(9)}
    told = budget.described(nodes(**kinds))
    assert told.startswith("10 Kind0 (net/Kind0_0), 9 Kind1")
    assert told.endswith(" and 9 others")


@pytest.fixture
def spent(monkeypatch):
    """Every compile is over its budget; gives what was to be compiled."""
    asked = []

    def refuse(lowered, name, nodes=(), allowed=None):
        asked.append([node.type for node in nodes])
        raise tf.errors.ResourceExhaustedError(None, None, f"{name}: {budget.described(nodes)}")

    monkeypatch.setattr(budget, "compile", refuse)
    return asked


def product():
    x = tf.placeholder(tf.float32, [None, 4])
    return x, tf.reduce_sum(tf.matmul(tf.tanh(x), x, transpose_b=True))


def test_a_step_that_waits_for_a_compile_over_its_budget_is_told_which_operations(
    spent, monkeypatch
):
    monkeypatch.setenv("MILLRACE_COMPILE", "now")
    x, y = product()
    refused = pytest.raises(tf.errors.ResourceExhaustedError, match="1 MatMul")
    with tf.Session() as sess, refused:
        sess.run(y, {x: [[1.0] * 4]})


def test_steps_go_on_without_a_program_when_a_compile_is_over_its_budget(spent, monkeypatch, until):
    monkeypatch.setenv("MILLRACE_COMPILE", "background")
    monkeypatch.setattr(tiers, "_SECONDS", 0.0)
    monkeypatch.setattr(tiers, "_SECONDS_PER_NODE", 0.0)
    x, y = product()
    with tf.Session() as sess:
        before = sess.run(y, {x: [[1.0] * 4]})

        def asked():
            assert sess.run(y, {x: [[1.0] * 4]}) == before
            return spent

        until(asked)
    assert "MatMul" in spent[0]


def test_all_that_jax_compiles_has_a_budget(monkeypatch):
    told, entered = [], []
    within = budget._within

    def noting(allowed, work, name, nodes):
        entered.append(name)
        return within(allowed, work, name, nodes)

    def listen(event, seconds, **kind):
        if event.endswith("backend_compile_duration"):
            told.append(kind.get("fun_name"))

    monkeypatch.setattr(budget, "_within", noting)
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        x = jax.numpy.arange(13.0)  # a shape of this test's own
        jax.numpy.cumsum(x * 2)
        jax.jit(lambda x: x * 3)(x)
        jax.jit(lambda x: x * 5).lower(x).compile()
        jax.lax.while_loop(lambda x: x[0] < 3, lambda x: x + 1, x)
        budget.jitted(lambda x: x * 7, "named", nodes(Mul=1))(x)
        budget.compile(jax.jit(lambda x: x * 11).lower(x), "stage", (), ENOUGH)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert len(entered) == len(told) >= 7
    assert {"named", "stage"} <= {*entered}


def test_while_one_is_over_its_budget_others_run_without_a_program(endless, monkeypatch):
    monkeypatch.setenv("MILLRACE_COMPILE", "now")
    with pytest.raises(tf.errors.ResourceExhaustedError):
        budget.compile(endless, "the first", (), Budget(0.0, 1 << 40))
    x, y = product()
    with tf.Session() as sess:
        assert sess.run(y, {x: [[0.0] * 4]}) == 0.0
        before = tiers.COUNTS.program_runs
        assert sess.run(y, {x: [[0.0] * 4]}) == 0.0
        assert tiers.COUNTS.program_runs == before
