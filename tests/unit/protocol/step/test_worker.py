"""Partitions of steps on one task, by their rules alone."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.core import errors
from millrace.protocol.step import instructions as do
from millrace.protocol.step import worker
from millrace.protocol.step.events import (
    Cancelled,
    LastRoundRequested,
    PartitionBegun,
    PartitionFacts,
    PartitionFinished,
    PeerLost,
    RepetitionRequested,
    RunRefused,
    RunRequested,
    SessionClosed,
    StepEnded,
    TaskStopped,
    ValuesArrived,
    ValuesMade,
    ValuesWanted,
    VariablesRead,
    WaitAbandoned,
)
from millrace.protocol.step.worker import TaskSteps

GONE = errors.UnavailableError(None, None, "gone")
FACTS = PartitionFacts("s", frozenset({"other:1"}), awaits=7)


@pytest.fixture
def steps() -> TaskSteps:
    return TaskSteps("/job:ps/task:0")


def run(steps: TaskSteps, number: int = 5, **how: Any) -> list[Any]:
    return steps.on(RunRequested(number, "m:1", how.pop("facts", FACTS), **how))


def test_a_partition_runs_and_is_answered_once(steps: TaskSteps) -> None:
    assert run(steps) == [do.Execute(5)]
    assert steps.running == [5] and steps.needed() == {"m:1", "other:1"}
    done = PartitionFinished(5, values=["r"])
    assert steps.on(done) == [do.PUBLISH, do.Reply(5, ["r"])]
    assert steps.on(done) == [] and not steps.steps


@pytest.mark.parametrize(
    ("key", "quick", "at_once"), [(7, True, True), (7, False, False), (8, True, False)]
)
def test_a_quick_partition_that_has_all_it_waits_for_runs_at_once(
    steps: TaskSteps, key: int, quick: bool, at_once: bool
) -> None:
    assert run(steps, first=(key, ["g"]), is_quick=quick) == [do.Execute(5, at_once)]
    assert steps.on(ValuesWanted(5, key)) == [do.Deliver(5, key, ["g"])]


def test_values_come_before_their_step_while_it_runs_and_after_it(steps: TaskSteps) -> None:
    assert steps.on(ValuesArrived(5, 1, ["early"], "other:1")) == []
    run(steps)
    assert steps.on(ValuesWanted(5, 1)) == [do.Deliver(5, 1, ["early"])]
    assert steps.on(ValuesWanted(5, 2)) == []
    assert steps.on(ValuesArrived(5, 2, ["late"])) == [do.Deliver(5, 2, ["late"])]
    steps.on(PartitionFinished(5))
    assert steps.on(ValuesArrived(5, 3, ["too late"])) == [] and not steps.steps


def test_a_step_that_failed_before_it_began_is_refused_with_the_first_cause(
    steps: TaskSteps,
) -> None:
    assert steps.on(Cancelled(5, GONE)) == []
    steps.on(Cancelled(5, errors.AbortedError(None, None, "second")))
    assert run(steps) == [do.Refuse(5, GONE)]
    assert steps.on(ValuesWanted(5, 1)) == [do.EndWait(5, 1, GONE)]


def test_cancelling_ends_all_waits_and_the_partition_tells_why(steps: TaskSteps) -> None:
    run(steps)
    steps.on(ValuesWanted(5, 1))
    assert steps.on(Cancelled(5, GONE)) == [do.EndWait(5, 1, GONE), do.Cancel(5, GONE)]
    assert steps.on(Cancelled(5, GONE)) == steps.on(ValuesArrived(5, 1, ["x"])) == []
    assert steps.on(ValuesWanted(5, 2)) == [do.EndWait(5, 2, GONE)]
    assert steps.on(PartitionFinished(5, error=GONE)) == [do.PUBLISH, do.Fail(5, GONE)]


def test_a_step_is_run_once_and_the_one_that_runs_is_not_touched(steps: TaskSteps) -> None:
    run(steps)
    (refused,) = run(steps)
    assert isinstance(refused, do.Refuse) and "twice" in refused.error.message
    assert steps.on(RunRefused(5, GONE)) == [do.Refuse(5, GONE)]
    assert steps.on(PartitionFinished(5)) == [do.PUBLISH, do.Reply(5)]
    assert steps.on(RunRefused(6, GONE)) == [do.Refuse(6, GONE)]
    assert steps.on(ValuesArrived(6, 1, ["x"])) == [] and not steps.steps


def test_a_lost_task_fails_what_needs_it_and_drops_what_it_sent_for_nobody(
    steps: TaskSteps,
) -> None:
    run(steps, 5)
    run(steps, 6, facts=PartitionFacts("s"))
    steps.on(ValuesArrived(7, 1, ["x"], "other:1"))
    steps.on(ValuesArrived(8, 1, ["x"], "another:1"))
    assert steps.on(PeerLost("other:1", GONE)) == [do.Cancel(5, GONE)]
    assert sorted(steps.steps) == [5, 6, 8]
    assert steps.on(PeerLost("m:1", GONE)) == [do.Cancel(6, GONE)]


def test_a_master_hears_that_what_was_sent_for_an_ended_partition_was_lost(
    steps: TaskSteps,
) -> None:
    run(steps)
    made = ValuesMade(5, "other:1", 1, b"", ["x"])
    assert steps.on(made) == [do.PUBLISH, do.SendValues(5, "other:1", 1, b"", ["x"])]
    steps.on(ValuesMade(5, "m:1", 2, b"", ["x"]))  # which the master notices by itself
    steps.on(PartitionFinished(5))
    (lost,) = steps.on(PeerLost("other:1", GONE))
    assert isinstance(lost, do.SendLost) and (lost.step, lost.to) == (5, "m:1")
    assert "may be lost" in lost.error.message
    assert steps.on(PeerLost("other:1", GONE)) == steps.on(PeerLost("m:1", GONE)) == []


def test_what_a_partition_sends_while_it_runs_fails_it_and_nobody_else_is_told(
    steps: TaskSteps,
) -> None:
    run(steps)
    steps.on(ValuesMade(5, "other:1", 1, b"", ["x"]))
    assert steps.on(PeerLost("other:1", GONE)) == [do.Cancel(5, GONE)]


def test_snapshots_are_refreshed_before_variables_are_told(steps: TaskSteps) -> None:
    found = steps.on(VariablesRead(5, "m:1", 3, ["v"], b"location"))
    assert found == [do.PUBLISH, do.SendVariables(5, "m:1", 3, ["v"], b"location")]


def test_the_partition_of_the_own_master_ends_with_its_step(steps: TaskSteps) -> None:
    assert steps.on(PartitionBegun(5, FACTS)) == []
    assert steps.needed() == {"other:1"}
    steps.on(ValuesWanted(5, 1))
    (ended,) = steps.on(StepEnded(5))
    assert isinstance(ended, do.EndWait)
    assert steps.on(PartitionBegun(5, FACTS))[0].step == 5  # It is over: refused.


def test_values_are_kept_for_others_until_the_master_ends_the_step(
    steps: TaskSteps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_MAX_KEPT", 2)
    facts = PartitionFacts("s", keeps_values=True)
    for number in range(4):
        run(steps, number, facts=facts)
        steps.on(ValuesArrived(number, "key", ["x"]))
        steps.on(PartitionFinished(number))
    assert sorted(steps.steps) == [2, 3] and not steps.running
    assert steps.on(ValuesWanted(3, "key")) == [do.Deliver(3, "key", ["x"])]
    steps.on(Cancelled(2, GONE))
    steps.on(Cancelled(3, GONE))
    assert not steps.steps


def test_a_wait_that_is_abandoned_leaves_nothing(steps: TaskSteps) -> None:
    steps.on(ValuesWanted(5, "a"))
    steps.on(ValuesWanted(5, "b"))
    assert [each.key for each in steps.on(WaitAbandoned(5, "a"))] == ["a"]
    steps.on(WaitAbandoned(5, "b"))
    assert not steps.steps and steps.on(WaitAbandoned(5, "b")) == []


def test_ended_steps_are_remembered_within_bounds(
    steps: TaskSteps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_MAX_ENDED", 10)
    for number in range(50):
        run(steps, number)
        steps.on(PartitionFinished(number))
    assert len(steps._ended) == 10


def test_a_closed_session_is_blamed_and_not_the_queues_that_went_with_it(steps: TaskSteps) -> None:
    closed = errors.CancelledError(None, None, "Session has been closed.")
    run(steps, 5)
    run(steps, 6, facts=PartitionFacts("another"))
    assert steps.on(SessionClosed("s", closed)) == [do.Cancel(5, closed)]
    gone = errors.OutOfRangeError(None, None, "The queue is closed.")
    assert steps.on(PartitionFinished(5, error=gone))[-1] == do.Fail(5, closed)
    assert steps.on(PartitionFinished(6, error=gone))[-1] == do.Fail(6, gone)


def test_a_stopped_task_says_so_whatever_its_partitions_found(steps: TaskSteps) -> None:
    run(steps)
    assert steps.on(TaskStopped(GONE)) == [do.Cancel(5, GONE)]
    assert steps.on(PartitionFinished(5, values=["r"]))[-1] == do.Fail(5, GONE)
    assert run(steps, 6) == [do.Refuse(6, GONE)]


def test_a_repeated_partition_begins_again_until_the_last_round(steps: TaskSteps) -> None:
    facts = PartitionFacts("s")
    assert steps.on(RepetitionRequested(5, "m:1", facts)) == [do.Execute(5)]
    for _ in range(3):
        assert steps.on(PartitionFinished(5)) == [do.Execute(5)]
    steps.on(LastRoundRequested(5))
    assert steps.on(PartitionFinished(5)) == [do.PUBLISH, do.Reply(5)]


def test_a_repeated_partition_ends_with_an_error_or_when_it_is_cancelled(steps: TaskSteps) -> None:
    for number in (5, 6):
        steps.on(RepetitionRequested(number, "m:1", PartitionFacts("s")))
    assert steps.on(PartitionFinished(5, error=GONE)) == [do.PUBLISH, do.Fail(5, GONE)]
    steps.on(Cancelled(6, GONE))  # The round comes to its end all the same.
    assert steps.on(PartitionFinished(6)) == [do.PUBLISH, do.Fail(6, GONE)]
