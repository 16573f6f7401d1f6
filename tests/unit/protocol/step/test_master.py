"""One step over all its tasks, by its rules alone."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.core import errors
from millrace.protocol.step import instructions as do
from millrace.protocol.step import master
from millrace.protocol.step.events import (
    Cancelled,
    DeadlinePassed,
    LastRoundRequested,
    PartitionFinished,
    PeerLost,
    RepetitionRequested,
    SnapshotMissed,
    StepRequested,
    ValuesMade,
    ValuesWanted,
    VariablesPublished,
)
from millrace.protocol.step.master import MasterStep
from millrace.protocol.step.remote_partitions import RemotePartition, RemotePartitions

GONE = errors.UnavailableError(None, None, "gone")
BAD = errors.InvalidArgumentError(None, None, "bad")
PS0 = RemotePartition("/job:ps/task:0", "ps0", 70, results=[0], last_key=9)
PS1 = RemotePartition("/job:ps/task:1", "ps1", 71, first_key=21, read_keys=[11])


@pytest.fixture
def partitions() -> RemotePartitions:
    return RemotePartitions([PS0, PS1])


@pytest.fixture
def step(partitions: RemotePartitions) -> MasterStep:
    return MasterStep(5, partitions)


def kinds(found: list[Any]) -> list[str]:
    return [type(each).__name__ for each in found]


def test_a_step_begins_with_the_partitions_that_are_not_deferred(step: MasterStep) -> None:
    assert step.on(StepRequested()) == [do.SendRun(5, PS0), do.Execute(5)]
    assert step.unbegun == {"ps1"}


def test_a_deferred_partition_begins_with_the_first_values_for_it(step: MasterStep) -> None:
    step.on(StepRequested())
    found = step.on(ValuesMade(5, "ps1", 21, b"", ["gradient"]))
    assert found == [do.PUBLISH, do.SendRun(5, PS1, ["gradient"])]
    assert not step.unbegun
    other = step.on(ValuesMade(5, "ps0", 22, b"tag", ["more"]))
    assert other == [do.PUBLISH, do.SendValues(5, "ps0", 22, b"tag", ["more"])]


def test_variables_are_asked_for_until_they_are_published(
    step: MasterStep, partitions: RemotePartitions
) -> None:
    assert step.on(ValuesWanted(5, 11)) == [do.SendRead(5, PS1, 11)]
    assert step.on(ValuesWanted(5, 99)) == []
    assert step.on(VariablesPublished(11)) == step.on(VariablesPublished(99)) == []
    later = MasterStep(6, partitions)
    assert later.on(ValuesWanted(6, 11)) == [do.ReadPublished(6, PS1, 11)]
    assert later.on(SnapshotMissed(11, is_gone=False)) == [do.SendRead(6, PS1, 11)]
    assert later.on(ValuesWanted(6, 11)) == [do.ReadPublished(6, PS1, 11)]
    assert later.on(SnapshotMissed(11, is_gone=True)) == [do.SendRead(6, PS1, 11)]
    assert later.on(ValuesWanted(6, 11)) == [do.SendRead(6, PS1, 11)]


def begun(step: MasterStep) -> MasterStep:
    step.on(StepRequested())
    step.on(ValuesMade(5, "ps1", 21, b"", []))
    return step


def test_the_client_is_answered_when_all_are_done(step: MasterStep) -> None:
    begun(step)
    found = step.on(PartitionFinished(5, "ps0", ["result", "last"]))
    assert found == [do.Deliver(5, 9, ["last"])]
    assert step.on(PartitionFinished(5)) == []
    assert step.on(PartitionFinished(5, "ps1")) == [do.PUBLISH, do.Reply(5)]
    assert step.is_over and step.answers["ps0"].values == ["result", "last"]
    assert step.on(PeerLost("ps0", GONE)) == step.on(Cancelled(5, BAD)) == []


@pytest.mark.parametrize("first", ["home", "ps0", "ps1"])
def test_the_first_error_wins_and_ends_all_partitions(step: MasterStep, first: str) -> None:
    begun(step)
    peer = "" if first == "home" else first
    found = step.on(PartitionFinished(5, peer, error=BAD))
    told = [each.to for each in found if isinstance(each, do.SendCancel)]
    assert told == [name for name in ("ps0", "ps1") if name != first]
    assert ("Cancel" in kinds(found)) is (first != "home")
    assert found[-1] == do.AwaitStop(5, master.STOP_SECONDS)
    ends = [PartitionFinished(5, name, error=GONE) for name in ("", "ps0", "ps1") if name != peer]
    assert step.on(ends[0]) == []
    assert step.on(ends[1]) == [do.PUBLISH, do.Fail(5, BAD)]


def test_a_task_that_has_not_begun_is_told_and_not_waited_for(step: MasterStep) -> None:
    """What others have sent it for the step must not be kept there."""
    step.on(StepRequested())
    found = step.on(PartitionFinished(5, "ps0", error=BAD))
    assert found == [do.SendCancel(5, "ps1", BAD), do.Cancel(5, BAD)]
    assert step.on(ValuesMade(5, "ps1", 21, b"", ["gradient"])) == []
    assert step.on(PartitionFinished(5, error=GONE)) == [do.PUBLISH, do.Fail(5, BAD)]


def test_a_step_that_nobody_has_begun_fails_without_a_word() -> None:
    step = MasterStep(5, RemotePartitions([PS1]))
    step.on(StepRequested())
    assert step.on(Cancelled(5, BAD)) == [do.Cancel(5, BAD)]


def test_a_step_that_fails_before_it_begins_does_not_begin(step: MasterStep) -> None:
    assert kinds(step.on(PartitionFinished(5, "ps0", error=GONE))) == ["Publish", "Fail"]
    assert step.on(StepRequested()) == []


def test_a_lost_task_fails_the_step_only_while_it_is_waited_for(step: MasterStep) -> None:
    begun(step)
    step.on(PartitionFinished(5, "ps0", ["r"]))
    assert step.on(PeerLost("ps0", GONE)) == []
    assert kinds(step.on(PeerLost("ps1", GONE))) == ["Cancel"]
    assert step.error is GONE


def test_what_was_done_is_taken_back_when_it_was_lost_since(step: MasterStep) -> None:
    begun(step)
    step.on(PartitionFinished(5, "ps0", ["r"]))
    found = step.on(PartitionFinished(5, "ps0", error=GONE))
    assert kinds(found) == ["SendCancel", "Cancel", "AwaitStop"]


def test_a_deadline_names_those_that_are_waited_for_and_does_not_wait_long(
    step: MasterStep,
) -> None:
    begun(step)
    step.on(PartitionFinished(5))
    found = step.on(DeadlinePassed(5))
    assert isinstance(step.error, errors.DeadlineExceededError)
    assert "/job:ps/task:0, /job:ps/task:1" in step.error.message
    assert found[-1] == do.AwaitStop(5, master.DEADLINE_STOP_SECONDS)
    assert kinds(step.on(DeadlinePassed(5))) == ["Publish", "Fail"]


def test_nobody_is_answered_while_the_home_partition_runs(step: MasterStep) -> None:
    begun(step)
    step.on(Cancelled(5, BAD))
    assert step.on(DeadlinePassed(5)) == []
    assert step.on(PartitionFinished(5, error=GONE)) == [do.PUBLISH, do.Fail(5, BAD)]


@pytest.mark.parametrize("at", range(4))
def test_a_step_can_be_cancelled_at_each_point_and_ends_once(step: MasterStep, at: int) -> None:
    story: list[Any] = [
        StepRequested(),
        ValuesMade(5, "ps1", 21, b"", []),
        PartitionFinished(5),
        PartitionFinished(5, "ps0"),
        PartitionFinished(5, "ps1"),
    ]
    found: list[Any] = []
    for i, event in enumerate(story):
        if i == at:
            found += step.on(Cancelled(5, BAD))
        found += step.on(event)
    found += step.on(PartitionFinished(5, error=GONE)) + step.on(DeadlinePassed(5))
    ends = [each for each in found if isinstance(each, do.Reply | do.Fail)]
    assert ends == [do.Fail(5, BAD)]


REPEATED = RemotePartition("/job:ps/task:0", "ps0", 70)


def test_a_repeated_step_asks_once_and_ends_with_the_last_round() -> None:
    step = MasterStep(5, RemotePartitions([REPEATED]))
    assert step.on(RepetitionRequested(5)) == [do.SendRepeat(5, REPEATED)]
    assert step.on(LastRoundRequested(5)) == [do.SendLastRound(5, REPEATED)]
    assert step.on(PartitionFinished(5, "ps0")) == [do.PUBLISH, do.Reply(5)]
    assert step.on(LastRoundRequested(5)) == []


def test_a_repeated_step_that_is_ended_before_it_begins_has_one_round() -> None:
    step = MasterStep(5, RemotePartitions([REPEATED]))
    assert step.on(LastRoundRequested(5)) == []
    found = step.on(RepetitionRequested(5))
    assert found == [do.SendRepeat(5, REPEATED), do.SendLastRound(5, REPEATED)]
