"""Each fault at each point of a step, against the protocol, with a fake clock.

A scenario is a text: what happens, then ``----``, then the story that comes of it. Write the first
part and run ``pytest tests/scenarios --rewrite`` for the second; then read it.

    cluster ps=1 workers=2 async      or sync; then how partitions begin: deferred (if nothing is
                                      said), shared or immediate, see `training.py`
    at worker0 variables: stop ps0    when worker0 next reaches a point of a step: run (it was
                                      asked for), variables (they have arrived), gradient (it is
                                      computed, and then sent), done; in a synchronous step also
                                      push (one more ps has its gradient), and the chief in its
                                      other step taken (one more ps has taken what it has), applied
    wait 3                            seconds pass
    continue ps0                      also: stop, kill, restart TASK, busy TASK SECONDS,
                                      cut and mend TASK TASK, cancel WORKER (its running steps)
    steps 2                           until every worker has made two more steps
"""

from __future__ import annotations

import inspect
import random
import sys
from pathlib import Path
from typing import get_args

import pytest

from millrace.protocol.step import instructions

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

import schedules  # noqa: E402
import task  # noqa: E402
import world as world_module  # noqa: E402
from training import Training  # noqa: E402
from world import World  # noqa: E402

SCENARIOS = sorted(FOLDER.glob("*.txt"))
#: Seconds of the fake clock in which every worker must make its steps.
LIMIT = 60.0


def begun(line: str, seed: int = 0, jitter: float = 0.0) -> Training:
    words = line.split()
    counts = dict(word.split("=") for word in words[1:3])
    world = World(seed, jitter)
    way = words[4] if len(words) > 4 else "deferred"
    return Training(world, int(counts["ps"]), int(counts["workers"]), words[3] == "sync", way)


def perform(training: Training, line: str) -> None:
    """Does what a line of a scenario says."""
    world = training.world
    if line.startswith("at "):
        place, fault = line[3:].split(": ")
        world.at(*place.split(), lambda: perform(training, fault))
        return
    word, *rest = line.split()
    if word == "wait":
        world.run(float(rest[0]))
    elif word == "steps":
        make_steps(training, int(rest[0]))
    elif word == "busy":
        world.busy(rest[0], float(rest[1]))
    elif word in ("stop", "continue", "kill", "restart", "cut", "mend", "cancel"):
        getattr(world, {"continue": "resume"}.get(word, word))(*rest)
    else:
        raise ValueError(f"a scenario does not say {line!r}")


def make_steps(training: Training, count: int) -> None:
    """Lets every worker make some more steps."""
    before = dict(training.completed)

    def made() -> bool:
        return all(training.completed[name] >= before[name] + count for name in before)

    world = training.world
    world.check(world.run(LIMIT, made), f"no worker is to wait for ever: {before}")


def story(text: str) -> list[str]:
    """What comes of a scenario."""
    lines = [line for line in text.split("----")[0].splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("#")]
    training = begun(lines[0])
    for line in lines[1:]:
        perform(training, line)
    return training.world.trace


def test_the_world_has_no_role_of_its_own_and_every_instruction_is_performed() -> None:
    made = [
        name
        for name, found in vars(world_module).items()
        if inspect.isclass(found) and found.__module__ == world_module.__name__
    ]
    assert made == ["Link", "World"]
    wanted = {*get_args(instructions.Instruction)} - {instructions.Refuse}
    assert wanted == {*task.PERFORM}


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_comes_out_as_it_is_written(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text()
    found = "\n".join(story(text))
    # There is no such option when pytest was started for a folder above.
    if request.config.getoption("--rewrite", False):
        path.write_text(f"{text.split('----')[0]}----\n{found}\n")
    else:
        assert text.split("----\n")[1] == f"{found}\n"


POINTS = ("run", "variables", "gradient", "done")
CHIEFS_POINTS = ("taken", "applied")
SYNC_POINTS = (*POINTS, "push", *CHIEFS_POINTS)


def faults_of(who: str) -> list[list[str]]:
    """What may happen to a task, and how it ends."""
    other = "worker1" if who.startswith("ps") else "ps0"
    return [
        [f"kill {who}", "wait 1", f"restart {who}"],
        [f"stop {who}", "wait 3.7", f"continue {who}"],
        [f"stop {who}", "wait 1", f"continue {who}"],
        [f"stop {who}", "wait 5", f"kill {who}", f"restart {who}"],
        [f"busy {who} 7"],
        [f"cut {who} {other}", "wait 4", f"mend {who} {other}"],
        [f"cut {who} {other}", "wait 0.7", f"mend {who} {other}"],
        [f"cancel {who}"],
    ]


#: How long the third worker of a synchronous training does nothing: the round waits for it.
SLOW = 9.0


@pytest.mark.parametrize("who", ["ps0", "ps1", "worker0", "worker1"])
@pytest.mark.parametrize("mode", ["async", "async shared", "async immediate", "sync", "slow sync"])
def test_every_fault_at_every_point_of_a_step_is_survived(who: str, mode: str) -> None:
    is_sync, is_slow = "sync" in mode.split(), mode.startswith("slow")
    line = f"cluster ps=2 workers={3 if is_slow else 2} {mode.removeprefix('slow ')}"
    for point in SYNC_POINTS if is_sync else POINTS:
        for whose in ("worker0",) if point in CHIEFS_POINTS else ("worker0", "worker1"):
            for first, *rest in faults_of(who):
                training = begun(line)
                world = training.world
                make_steps(training, 3)
                if is_slow:
                    world.busy("worker2", SLOW)
                has_happened = strike(training, whose, point, first)
                world.run(SLOW + 2.0 if is_slow and point in ("done", *CHIEFS_POINTS) else 2.0)
                world.forget_faults()
                for line_ in rest if has_happened else ():
                    perform(training, line_)
                make_steps(training, 3)


def strike(training: Training, whose: str, point: str, fault: str) -> list[str]:
    """Lets a fault happen at a point of a worker's step; what is returned tells if it has."""
    happened: list[str] = []

    def happen() -> None:
        happened.append(fault)
        perform(training, fault)

    training.world.at(whose, point, happen)
    return happened


@pytest.mark.parametrize("mode", ["async", "async shared", "async immediate", "sync"])
@pytest.mark.parametrize("seeds", schedules.seeds(100, 0.09), ids=schedules.named)
def test_random_schedules_are_survived(mode: str, seeds: range) -> None:
    """A few hundred here; `make schedules` runs thousands."""
    for seed in seeds:
        chance = random.Random(seed)
        training = begun(f"cluster ps=2 workers=2 {mode}", seed, jitter=0.02)
        try:
            for _ in range(2):
                befall(training, chance)
            make_steps(training, 1)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None


def befall(training: Training, chance: random.Random) -> None:
    """A fault happens to some task at some point of some worker's step; or does not."""
    world = training.world
    world.run(chance.uniform(0.1, 2.0))
    first, *rest = chance.choice(faults_of(chance.choice(list(world.tasks))))
    points = SYNC_POINTS if training.sync else POINTS
    has_happened = strike(training, f"worker{chance.randrange(2)}", chance.choice(points), first)
    world.run(0.6)
    world.forget_faults()
    if has_happened:
        for line in rest:
            perform(training, line)
