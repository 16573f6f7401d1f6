"""A cut meets steps and faults in any order: of every step, all of it is in the cut, or nothing."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest

from millrace.protocol.cut import events
from millrace.protocol.cut.task import TaskCuts
from millrace.protocol.step.applied_steps import StepAttempt

sys.path.insert(0, str(Path(__file__).resolve().parent))

import schedules
from cut_world import CHANGES, Worker, World


def train(world: World, steps: int, cuts: int) -> None:
    """Lets workers train, two steps at a time, and the first one of those that live take cuts."""
    left = {name: steps for name in world.workers}
    cuts_left = cuts
    while True:
        wants = []
        for name, worker in world.workers.items():
            if worker.is_alive and left[name] and len(worker.open) < 2:

                def begin(name: str = name) -> None:
                    left[name] -= 1
                    world.workers[name].begin()

                wants.append(begin)
        chief = next((w for w in world.workers.values() if w.is_alive), None)
        if cuts_left and chief is not None and chief.cut is None:

            def cut(chief: Worker = chief) -> None:
                nonlocal cuts_left
                cuts_left -= 1
                chief.begin_cut()

            wants.append(cut)
        if not world.step(wants):
            break


def check_end(world: World) -> None:
    """Everybody who lives has made his steps, whole; nobody is held; no snapshot is left."""
    for task in world.tasks.values():
        assert not task.cuts.is_closed
        assert not task.runs
        assert not task.snapshots
    for worker in world.workers.values():
        if worker.is_alive:
            assert not worker.open
            assert worker.cut is None
            for name, tasks in worker.steps.items():
                assert {len(world.tasks[task].applied[name]) for task in tasks} == {CHANGES}


@pytest.mark.parametrize("failing", [0.0, 0.2])
@pytest.mark.parametrize("tasks", [1, 2, 3])
@pytest.mark.parametrize("seeds", schedules.seeds(10, 0.035), ids=schedules.named)
def test_random_steps_are_in_a_cut_as_a_whole_or_not_at_all(
    tasks: int, failing: float, seeds: range
) -> None:
    used = 0
    for seed in seeds:
        world = World(seed, tasks, workers=3, failing=failing)
        train(world, steps=8, cuts=4)
        check_end(world)
        used += len(world.workers["w0"].used)
        assert not world.workers["w0"].failed
    assert used == 4 * len(seeds)


@pytest.mark.parametrize("seeds", schedules.seeds(30, 0.08), ids=schedules.named)
def test_random_deaths_of_workers_leave_no_task_closed(seeds: range) -> None:
    for seed in seeds:
        world = World(seed, tasks=2, workers=3, failing=0.1)
        world.at[world.random.randint(1, 150)] = functools.partial(world.kill, "w1")
        if seed % 2:
            world.at[world.random.randint(1, 150)] = functools.partial(world.kill, "w0")
        train(world, steps=8, cuts=4)
        check_end(world)


@pytest.mark.parametrize("who", ["w0", "w1"])
def test_a_worker_dies_at_each_message(who: str) -> None:
    whole = World(7, tasks=2, workers=2)
    train(whole, steps=3, cuts=2)
    for message in range(1, whole.messages + 1):
        world = World(7, tasks=2, workers=2)
        world.at[message] = functools.partial(world.kill, who)
        train(world, steps=3, cuts=2)
        check_end(world)


def overdue(tasks: TaskCuts, number: int) -> list[str]:
    return [type(each).__name__ for each in tasks.on(events.CutOverdue(number))]


def test_a_task_whose_master_says_nothing_goes_on_without_a_snapshot() -> None:
    cuts = TaskCuts("ps0")
    cuts.on(events.CloseRequested(1, "w0"))
    held = cuts.begin(StepAttempt(1, 1, 1, 1), ("ps0",), "w1")
    assert not cuts.enter(held)
    assert overdue(cuts, 1) == ["Resume"]
    assert cuts.enter(held)
    (refused,) = cuts.on(events.AdmitRequested(1, "w0", ()))
    assert "its time is up" in str(refused)


def test_a_step_that_never_comes_is_named_as_torn() -> None:
    cuts = TaskCuts("ps0")
    cuts.on(events.CloseRequested(1, "w0"))
    admitted = [events.AdmittedStep(5, 3, "w1")]
    assert not cuts.on(events.AdmitRequested(1, "w0", admitted))
    take, taken = cuts.on(events.CutOverdue(1))
    assert type(take).__name__ == "TakeSnapshot"
    assert taken.torn == [(5, 3)]  # type: ignore[union-attr]


def test_a_second_cut_is_refused_while_one_is_taken() -> None:
    cuts = TaskCuts("ps0")
    cuts.on(events.CloseRequested(1, "w0"))
    (refused,) = cuts.on(events.CloseRequested(2, "w1"))
    assert "another cut is being taken" in str(refused)
    assert not overdue(cuts, 2)
    assert cuts.is_closed


def test_a_lost_master_of_a_cut_opens_the_task_and_drops_its_snapshots() -> None:
    cuts = TaskCuts("ps0")
    cuts.on(events.CloseRequested(1, "w0"))
    cuts.on(events.AdmitRequested(1, "w0", ()))
    cuts.on(events.CloseRequested(2, "w0"))
    held = cuts.begin(StepAttempt(1, 1, 1, 0), ("ps0",), "w1")
    assert not cuts.enter(held)
    names = [type(each).__name__ for each in cuts.on(events.MasterLost("w0"))]
    assert names == ["DropSnapshot", "Resume"]


def test_a_step_that_nobody_repeats_is_over_when_it_fails() -> None:
    cuts = TaskCuts("ps0")
    half = cuts.begin(StepAttempt(1, 1, 1, 0), ("ps0", "ps1"), "w1")
    assert cuts.enter(half)
    cuts.on(events.CloseRequested(1, "w0"))
    cuts.on(events.AdmitRequested(1, "w0", ()))
    take, taken, *_ = cuts.over(half, is_done=False)
    assert type(take).__name__ == "TakeSnapshot"
    assert taken.torn == [(1, 1)]  # type: ignore[union-attr]


def test_what_is_remembered_of_clients_is_bounded() -> None:
    cuts = TaskCuts("ps0", max_clients=3)
    for client in range(10):
        for step in range(1, 20):
            partition = cuts.begin(StepAttempt(client, step, step, 1), ("ps0",), "w")
            assert cuts.enter(partition)
            cuts.over(partition, is_done=True)
    (closed, _) = cuts.on(events.CloseRequested(1, "w0"))
    assert len(closed.steps) == 3  # type: ignore[union-attr]
