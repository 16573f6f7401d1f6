"""A worker's gradient of weights is made in the message to the ps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.core.written import Written
from millrace.rpc.shared_memory import Segment
from millrace.runtime import product_stage
from millrace.runtime.compiled_stage import CompiledStage


@pytest.fixture
def in_messages(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of what was made in a message."""
    made: list[tuple[int, ...]] = []
    write = Segment.write

    def note(self: Segment, arrays: list[Any], starts: Any) -> None:
        made.extend(array.shape for array in arrays if type(array) is Written)
        write(self, arrays, starts)

    monkeypatch.setattr(Segment, "write", note)
    return made


class Trainer:
    """A layer whose weights are on the ps, and a step that trains it."""

    def __init__(self, cluster: Any) -> None:
        device = tf.train.replica_device_setter(
            cluster=tf.train.ClusterSpec(cluster.spec), worker_device="/job:worker/task:0"
        )
        random = np.random.RandomState(7)
        self._inputs = random.rand(6, 150).astype(np.float32)
        with tf.Graph().as_default(), tf.device(device):
            self._x = tf.placeholder(tf.float32, [None, 150])
            start = random.rand(150, 150).astype(np.float32)
            self._weights = tf.Variable(start, name="weights")
            self._other = tf.placeholder(tf.float32, [None, 150])
            outputs = tf.nn.relu(tf.matmul(self._x, self._weights) - 36.0)
            optimizer = tf.train.GradientDescentOptimizer(0.1)
            self._step = optimizer.minimize(tf.reduce_mean(tf.square(outputs)))
            # Fed by two placeholders: what does not fit is found only when it runs.
            free = tf.matmul(self._x, self._other, transpose_a=True, name="free")
            self._misfit = tf.assign_sub(self._weights, free)
            self.session = tf.Session(cluster.target("worker"))
            self.session.run(tf.global_variables_initializer())

    def train(self, steps: int) -> Any:
        """The weights after so many steps."""
        for _ in range(steps):
            self.step()
        return self.session.run(self._weights)

    def step(self) -> None:
        """Makes one."""
        self.session.run(self._step, {self._x: self._inputs})

    def misfit(self) -> None:
        """Multiplies what cannot be."""
        self.session.run(self._misfit, {self._x: self._inputs, self._other: self._inputs[:4]})


@pytest.fixture
def trainer(make_cluster: Any) -> Iterator[Callable[[bool], Trainer]]:
    made: list[Trainer] = []
    cluster = make_cluster({"ps": 1, "worker": 1}, "socket")

    def make(in_messages: bool) -> Trainer:
        monkeypatch.setattr(product_stage, "is_better", lambda: in_messages)
        made.append(Trainer(cluster))
        return made[-1]

    with pytest.MonkeyPatch.context() as monkeypatch:
        yield make
    for each in made:
        each.session.close()


def test_weights_are_trained_as_without(trainer: Any, in_messages: list[Any]) -> None:
    before = trainer(False).train(0)
    expected = trainer(False).train(5)
    assert in_messages == []
    trained = trainer(True).train(5)
    assert in_messages == [(150, 150)] * 5
    assert np.abs(expected - before).max() > 0.01
    np.testing.assert_allclose(trained, expected, rtol=1e-5)


def test_a_step_is_still_one_program(trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def noting(run: Callable[..., Any]) -> Callable[..., Any]:
        def note(self: CompiledStage, inputs: list[Any], step: Any) -> Any:
            found = run(self, inputs, step)
            if found is not None:
                calls.append(self.name)
            return found

        return note

    training = trainer(True)
    training.train(2)
    monkeypatch.setattr(CompiledStage, "run", noting(CompiledStage.run))
    monkeypatch.setattr(CompiledStage, "owe", noting(CompiledStage.owe))
    training.step()
    assert len(calls) == 2  # the gradient, and the update on the ps


def test_what_does_not_fit_is_refused_as_by_xla_and_trains_nothing(trainer: Any) -> None:
    said = []
    for in_messages in (False, True):
        training = trainer(in_messages)
        before = training.train(0)
        with pytest.raises(tf.errors.InvalidArgumentError, match="free") as error:
            training.misfit()
        said.append(error.value.message)
        np.testing.assert_array_equal(training.train(0), before)
    assert said[0] == said[1]
