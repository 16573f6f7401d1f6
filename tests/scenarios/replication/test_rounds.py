"""Rounds go on through the death of any primary: none is lost, repeated or counted twice."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

import schedules  # noqa: E402
from rounds_world import World, until_whole  # noqa: E402


@pytest.mark.parametrize("seeds", schedules.seeds(10, 0.02), ids=schedules.named)
def test_random_deaths_lose_no_round_and_double_none(seeds: range) -> None:
    deaths = 0
    for seed in seeds:
        world = World(seed)
        for i in range(600):
            world.happen(0.015)
            if i % 20 == 0:
                world.check()
        until_whole(world)
        world.check()
        deaths += world.deaths
    assert deaths > 3 * len(seeds)


@pytest.mark.parametrize("whom", [0, 1])
def test_a_primary_dies_at_each_event_of_two_rounds(whom: int) -> None:
    quiet = World(3)
    events = 0
    while min(map(len, quiet.acknowledged.values())) < 2:
        quiet.happen(0.0)
        events += 1
    for moment in range(events):
        world = World(3)
        for _ in range(moment):
            world.happen(0.0)
        world.tasks[whom].die()
        for client in world.clients:
            client.fail()
        world.check()
        until_whole(world)
        world.check()
