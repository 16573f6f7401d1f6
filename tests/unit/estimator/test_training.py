"""train_and_evaluate on a cluster: what each task does, and how long it waits."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any, ClassVar

import pytest

import millrace as tf
from millrace.estimator import training
from millrace.estimator.evaluator import ContinuousEvalListener, EvalResult, EvalStatus
from millrace.training.sessions.waiting import Clock

CLUSTER = {"chief": ["h:1"], "worker": ["h:2", "h:3"], "ps": ["h:4"]}


@dataclasses.dataclass
class Time:
    """A clock that moves when somebody sleeps; things happen at moments."""

    now: float = 1000.0
    happenings: dict[float, Any] = dataclasses.field(default_factory=dict)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for moment in [m for m in self.happenings if m <= self.now]:
            self.happenings.pop(moment)()

    def clock(self) -> Clock:
        return Clock(now=lambda: self.now, sleep=self.sleep, wall=lambda: self.now)


def checkpoint(folder: Path, step: int, written: float | None = None) -> None:
    """Puts a checkpoint into a folder, as a training's chief does."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.create_global_step()
        session.run(tf.train.get_global_step().initializer)
        session.run(tf.assign(tf.train.get_global_step(), step))
        tf.train.Saver().save(session, str(folder / "model.ckpt"), global_step=step)
    if written is not None:
        os.utime(folder / "checkpoint", (written, written))


class Recorded(tf.estimator.Estimator):
    """An estimator whose training and evaluation only note that they were asked for."""

    def __init__(self, folder: Path, time: Time) -> None:
        super().__init__(lambda features: None, str(folder))
        self.calls: list[Any] = []
        self.time = time

    def _assert_members_are_not_overridden(self) -> None:
        pass

    def train(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append(("train", self.time.now - 1000, len(kwargs["saving_listeners"])))

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        step = int(kwargs["checkpoint_path"].rpartition("-")[2])
        self.calls.append(("evaluate", self.time.now - 1000, step))
        return {"loss": 1.0, "global_step": step}


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def executor(
        kind: str, index: int, time: Time, max_steps: int | None = 10, **spec: Any
    ) -> training.TrainingExecutor:
        place = {"cluster": CLUSTER, "task": {"type": kind, "index": index}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(place))
        monkeypatch.setattr(tf.train, "Server", FakeServer)
        FakeServer.started = []
        listener = spec.pop("listener", None)
        return training.TrainingExecutor(
            Recorded(tmp_path, time),
            tf.estimator.TrainSpec(lambda: None, max_steps=max_steps),
            tf.estimator.EvalSpec(lambda: None, **spec),
            continuous_eval_listener=listener,
            clock=time.clock(),
        )

    return executor


class FakeServer:
    started: ClassVar[list[Any]] = []

    def __init__(self, cluster: Any, job_name: str, task_index: int, **_: Any) -> None:
        self.task = f"{job_name}:{task_index}"

    def start(self) -> None:
        self.started.append(self.task)

    def join(self) -> None:
        self.started.append("join")


def test_a_chief_trains_at_once(make: Any) -> None:
    executor = make("chief", 0, Time())
    executor.run()
    assert FakeServer.started == ["chief:0"]
    assert executor.estimator.calls == [("train", 0.0, 0)]


def test_a_ps_serves(make: Any) -> None:
    make("ps", 0, Time()).run()
    assert FakeServer.started == ["ps:0", "join"]


def test_a_worker_waits_for_the_delay_of_its_number(make: Any) -> None:
    executor = make("worker", 1, Time())
    executor.run()
    assert executor.estimator.calls == [("train", 10.0, 0)]


def test_a_worker_starts_when_the_chief_has_written_its_first_checkpoint(
    make: Any, tmp_path: Path
) -> None:
    checkpoint(tmp_path, 5, written=900.0)  # an earlier job's
    time = Time(happenings={1003.0: lambda: checkpoint(tmp_path, 5, written=1003.0)})
    executor = make("worker", 1, time)
    executor.run()
    assert executor.estimator.calls == [("train", 3.0, 0)]


def test_an_evaluator_starts_when_there_is_a_trained_model(make: Any, tmp_path: Path) -> None:
    time = Time(
        happenings={
            1002.0: lambda: checkpoint(tmp_path, 0),
            1007.0: lambda: checkpoint(tmp_path, 10),
        }
    )
    executor = make("evaluator", 0, time)
    executor.run()
    assert executor.estimator.calls == [("evaluate", 7.0, 10)]


def test_an_evaluator_keeps_to_its_period_but_does_not_let_the_last_checkpoint_wait(
    make: Any, tmp_path: Path
) -> None:
    checkpoint(tmp_path, 3)
    time = Time(
        happenings={
            1020.0: lambda: checkpoint(tmp_path, 5),
            1065.0: lambda: checkpoint(tmp_path, 10),
        }
    )
    executor = make("evaluator", 0, time, start_delay_secs=0, throttle_secs=50)
    executor.run()
    assert executor.estimator.calls == [
        ("evaluate", 0.0, 3),
        ("evaluate", 50.0, 5),
        ("evaluate", 65.0, 10),
    ]


def test_a_listener_may_end_an_evaluator(make: Any, tmp_path: Path) -> None:
    class Once(ContinuousEvalListener):
        told: ClassVar[list[EvalResult]] = []

        def after_eval(self, eval_result: EvalResult) -> bool:
            self.told.append(eval_result)
            return False

    checkpoint(tmp_path, 3)
    executor = make("evaluator", 0, Time(), max_steps=None, listener=Once())
    executor.run()
    assert [each.status for each in Once.told] == [EvalStatus.EVALUATED]
    assert Once.told[0].global_step == 3


def test_there_is_one_evaluator(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = make("evaluator", 1, Time())
    with pytest.raises(ValueError, match="there can only be one `evaluator` task"):
        tf.estimator.train_and_evaluate(
            executor.estimator,
            tf.estimator.TrainSpec(lambda: None),
            tf.estimator.EvalSpec(lambda: None),
        )


def test_a_ps_and_an_evaluator_do_not_train(make: Any) -> None:
    executor = make("ps", 0, Time())
    with pytest.raises(ValueError, match="use tf.estimator.train_and_evaluate"):
        tf.estimator.Estimator.train(executor.estimator, lambda: None)
