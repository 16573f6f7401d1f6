"""Updates that follow later: only where nothing can go wrong, and seen by nobody as late."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.passes.prune import prune
from millrace.runtime import compiled_stage, executor
from millrace.runtime.compiled_stage import CompiledStage
from millrace.runtime.kernel_call import StoredState
from millrace.runtime.plan import Plan
from millrace.runtime.resources import OWED, ResourceStore, VariableSlot
from millrace.runtime.step import SessionState, Step

GRADIENT = np.array([1.0, -2.0, 0.5], np.float32)


class Training:
    """Adam on one variable, by gradients that are fed."""

    def __init__(self) -> None:
        self.state = SessionState(ResourceStore())
        self.fed = tf.placeholder(tf.float32, [3])
        self.v = tf.get_variable("v", initializer=np.ones(3, np.float32))
        train = tf.train.AdamOptimizer(0.5).apply_gradients([(self.fed, self.v)])
        self.read = Plan(prune([self.v.value()], [], []))
        self.run(Plan(prune([], [tf.global_variables_initializer()], [])))
        self.plan = Plan(prune([], [train], [self.fed]))

    def step(self) -> Step:
        return Step(self.state, executor.run_values)

    def run(self, plan: Plan, *values: Any) -> list[Any]:
        return executor.run(plan, self.step(), list(values))

    @property
    def stage(self) -> Any:
        return self.plan.stages[-1]

    def may_owe(self) -> bool:
        return bool(self.stage.may_owe(self.state.resources))

    def owe(self, gradient: Any = GRADIENT) -> Any:
        return self.stage.owe([gradient], self.step())

    def value(self) -> Any:
        return self.run(self.read)[0].copy()

    def slots(self) -> dict[str, VariableSlot]:
        return {name: slot for _, name, slot in self.state.resources.all_of(VariableSlot)}


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Training:
    """A training of which an update may follow later: it was asked for once, and made."""
    monkeypatch.setattr(compiled_stage, "_LONG_SECONDS", 60.0)  # however busy the machine is
    made = Training()
    assert made.stage.is_sure
    made.run(made.plan, GRADIENT)
    assert not made.may_owe() and made.owe() is None  # Nobody wanted to know of it.
    made.run(made.plan, GRADIENT)
    assert made.may_owe()
    return made


def test_updates_that_follow_later_are_the_same(training: Training) -> None:
    for _ in range(4):
        training.owe()()
    with tf.Graph().as_default():
        other = Training()
        for _ in range(6):
            other.run(other.plan, GRADIENT)
        np.testing.assert_array_equal(training.value(), other.value())


def test_whoever_looks_at_the_variable_meanwhile_waits_for_the_update(training: Training) -> None:
    before = training.value()
    update = training.owe()
    slot = training.slots()["v"]
    assert slot.value is OWED
    found: list[Any] = []
    readers = [
        threading.Thread(target=lambda: found.append(training.value())),
        threading.Thread(target=lambda: found.append(StoredState.read_slot(slot).copy())),
        threading.Thread(target=lambda: training.run(training.plan, GRADIENT)),
    ]
    for reader in readers[:2]:
        reader.start()
    assert all(reader.is_alive() for reader in readers[:2]) and not found
    update()
    for reader in readers[:2]:
        reader.join(10)
    assert len(found) == 2
    for value in found:
        assert (value != before).all()
        np.testing.assert_array_equal(value, training.value())
    readers[2].start()  # Its lock is free.
    readers[2].join(10)
    assert (training.value() != found[0]).all()


def test_a_variable_that_others_have_changed_is_updated_at_once(training: Training) -> None:
    training.run(Plan(prune([], [training.v.initializer], [])))
    assert not training.may_owe() and training.owe() is None
    np.testing.assert_array_equal(training.value(), [1.0, 1.0, 1.0])
    training.run(training.plan, GRADIENT)
    assert training.owe() is not None


def test_a_gradient_of_another_shape_is_not_trusted(training: Training) -> None:
    assert training.owe(np.ones(4, np.float32)) is None
    assert training.owe() is not None


def test_a_long_update_is_made_at_once(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_stage, "_LONG_SECONDS", 0.0)
    training.owe()()
    assert training.owe() is None
    training.run(training.plan, GRADIENT)
    assert training.owe() is None
    monkeypatch.setattr(compiled_stage, "_LONG_SECONDS", 100.0)
    training.run(training.plan, GRADIENT)
    assert training.owe() is not None


def test_an_update_that_fails_leaves_the_variables_as_they_were(training: Training) -> None:
    before = training.value()

    def fail(*_: Any) -> None:
        raise RuntimeError("no memory")

    program = training.stage._programs[()]
    training.stage._programs[()] = fail
    with pytest.raises(RuntimeError, match="no memory"):
        training.owe()()
    np.testing.assert_array_equal(training.value(), before)
    training.stage._programs[()] = program
    assert training.owe() is None
    training.run(training.plan, GRADIENT)
    assert (training.value() != before).all()


def test_a_variable_that_was_dropped_meanwhile_stays_so(training: Training) -> None:
    update = training.owe()
    slots = training.slots()
    slots["v"].value = None
    update()
    assert slots["v"].value is None
    assert not slots["v"].lock.locked()


@pytest.mark.parametrize("wanted", [True, False])
def test_an_update_whose_result_is_wanted_is_not_made_later(wanted: bool) -> None:
    v = tf.get_variable("v", initializer=np.ones(3, np.float32))
    fed = tf.placeholder(tf.float32, [3])
    update = tf.train.GradientDescentOptimizer(0.1).apply_gradients([(fed, v)])
    with tf.control_dependencies([update]):
        result = tf.identity(v)
    plan = Plan(prune([result] if wanted else [], [update], [fed]))
    stages = [stage for stage in plan.stages if isinstance(stage, CompiledStage)]
    assert any(stage.is_sure for stage in stages) is not wanted
    assert not plan.ends_with_update  # There is nothing to answer with before.
