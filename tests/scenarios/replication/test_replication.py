"""Each fault at each message of replication, promotion, catch-up and moving; random schedules.

A scenario is a text, as those of the step (`../test_scenarios.py`):

    clients 2                     how many workers train
    steps 3                       until each has three more steps acknowledged
    at a forward: kill a          when a next reaches a point: change (applied, nobody knows),
                                  forward (sent to the standby), acknowledge, answer, snapshot,
                                  propose (asks the register), serve
    wait 2                        seconds pass; also: kill, stop, continue, restart REPLICA, move,
                                  cut and mend ONE OTHER (replicas, clients, register)
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

import schedules  # noqa: E402
from pair import World  # noqa: E402

from millrace.protocol.replication.primary import Phase  # noqa: E402

SCENARIOS = sorted(FOLDER.glob("*.txt"))
POINTS = ("change", "forward", "acknowledge", "answer", "snapshot", "propose", "serve")
#: Seconds of the fake clock in which every client must make its steps.
LIMIT = 60.0


def perform(world: World, line: str) -> None:
    """Does what a line of a scenario says."""
    if line.startswith("at "):
        place, fault = line[3:].split(": ")
        world.at(*place.split(), lambda: perform(world, fault))
        return
    word, *rest = line.split()
    if word == "wait":
        world.run(float(rest[0]))
    elif word == "steps":
        make_steps(world, int(rest[0]))
    elif word in ("kill", "stop", "continue", "restart", "cut", "mend", "move"):
        getattr(world, {"continue": "resume"}.get(word, word))(*rest)
    else:
        raise ValueError(f"a scenario does not say {line!r}")


def make_steps(world: World, count: int) -> None:
    before = {client: len(client.acknowledged) for client in world.clients}

    def made() -> bool:
        return all(len(c.acknowledged) >= n + count for c, n in before.items())

    world.check(world.run(LIMIT, made), "the clients make no steps any more")


def story(text: str) -> list[str]:
    """What comes of a scenario."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    clients = 1
    if lines[0].startswith("clients"):
        clients = int(lines.pop(0).split()[1])
    world = World(clients=clients)
    for line in lines:
        perform(world, line)
    world.check_acknowledged()
    return world.trace


@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_a_scenario_comes_out_as_it_is_written(path: Path, request: pytest.FixtureRequest) -> None:
    script, _, expected = path.read_text().partition("----\n")
    found = story(script)
    if request.config.getoption("--rewrite", default=False):
        path.write_text("\n".join([script.rstrip("\n"), "----", *found, ""]))
    else:
        assert found == expected.splitlines()


@pytest.mark.parametrize("fault", ["kill", "stop", "stop briefly", "cut", "cut from the register"])
@pytest.mark.parametrize("whom", ["a", "b"])
@pytest.mark.parametrize("point", POINTS)
def test_every_fault_at_every_point_is_survived(point: str, whom: str, fault: str) -> None:
    for where in ("a", "b"):
        for nth in range(3):
            world = World(clients=2)
            world.run(1.0, lambda w=world: in_step(w))
            make_steps(world, nth)
            strike(world, where, point, whom, fault)
            trigger(world, where, point)
            world.run(2.0)
            if is_lost(world):
                continue  # Both are dead: a checkpoint, which this model does not have.
            heal(world)
            make_steps(world, 3)
            world.run(3.0)
            make_steps(world, 3)
            world.check_acknowledged()


def strike(world: World, where: str, point: str, whom: str, fault: str) -> None:
    def happen() -> None:
        if fault == "kill":
            world.kill(whom)
        elif fault.startswith("stop"):
            world.stop(whom)
            if fault == "stop briefly":
                world.after(0.3, lambda: world.resume(whom))
        elif fault == "cut":
            world.cut("a", "b")
        else:
            world.cut(whom, "register")

    world.at(where, point, happen)


def trigger(world: World, where: str, point: str) -> None:
    """Makes happen what does not happen by itself."""
    other = "b" if where == "a" else "a"
    if point == "snapshot":
        world.kill("b")
        world.run(0.5)
        world.restart("b")
    elif point in ("propose", "serve"):
        world.kill(other)


def is_lost(world: World) -> bool:
    """Whether nobody is left who has what was acknowledged."""
    view = world.view
    alive = {r.me for r in world.replicas.values() if r.is_alive}
    return view.primary not in alive and view.standby not in alive


def heal(world: World) -> None:
    """Ends all faults, as a person or the launcher would; one replica is alive."""
    for pair in list(world.cut_off):
        world.mend(*sorted(pair))
    for name, replica in list(world.replicas.items()):
        if replica.is_stopped and replica.is_alive:
            world.resume(name)
        other = world.replicas["b" if name == "a" else "a"]
        if not replica.is_alive and other.is_alive and not other.is_fenced:
            world.restart(name)


def in_step(world: World) -> bool:
    """Whether one more fault is survived: both replicas live, and are in the view."""
    serving = world.serving()
    return (
        serving is not None
        and serving.primary is not None
        and serving.primary.phase is Phase.PAIRED
        and all(
            r.is_alive and not r.is_stopped and not r.is_fenced and r.peer is not None
            for r in world.replicas.values()
        )
    )


@pytest.mark.parametrize("seeds", schedules.seeds(100, 0.35), ids=schedules.named)
def test_random_schedules_lose_nothing_and_double_nothing(seeds: range) -> None:
    for seed in seeds:
        chance = random.Random(seed)
        world = World(seed, jitter=0.03, clients=2)
        for _ in range(6):
            world.forget_faults()
            world.check(world.run(LIMIT, lambda w=world: in_step(w)), "no standby comes in step")
            befall(world, chance)
            world.run(chance.uniform(0.0, 3.0))
            heal(world)
        make_steps(world, 2)
        world.check_acknowledged()
        most = max(len(client.acknowledged) for client in world.clients)
        world.check(most > 5, "too little happened")


def befall(world: World, chance: random.Random) -> None:
    whom = chance.choice("ab")
    other = "b" if whom == "a" else "a"
    fault = chance.choice(
        [
            f"kill {whom}",
            f"stop {whom}",
            "cut a b",
            f"cut {whom} register",
            "move",
            f"cut c0 {whom}",
        ]
    )
    lasts = chance.uniform(0.1, 2.5)

    def happen() -> None:
        perform(world, fault)
        if fault.startswith("stop"):
            world.after(lasts, lambda: world.resume(whom))

    if chance.random() < 0.5:
        world.at(chance.choice("ab"), chance.choice(POINTS), happen)
        world.run(chance.uniform(0, 1))
    else:
        happen()
    if chance.random() < 0.3 and not fault.startswith(("kill", "stop")):
        world.cut(other, "register")
