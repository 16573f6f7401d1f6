"""The consistency dial: who may make a step, and for whom the others wait."""

from __future__ import annotations

import random

import pytest

from millrace.protocol.consistency import Clocks, Dial


@pytest.mark.parametrize("text", ["async", "sync", "ssp:1", "ssp:12", "backup:2"])
def test_a_dial_is_read_and_written(text: str) -> None:
    assert str(Dial.parse(text)) == text


@pytest.mark.parametrize("text", ["", "ssp", "ssp:", "ssp:0", "ssp:-1", "ssp:x", "sync:2", "fast"])
def test_what_is_no_dial_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="async, ssp:K, backup:B or sync"):
        Dial.parse(text)


def clocks_at(dial: str, **clocks: int) -> Clocks:
    found = Clocks(Dial.parse(dial))
    for worker, steps in clocks.items():
        found.join(worker)
        found.step(worker, steps - found[worker])
    return found


def test_a_worker_waits_for_the_slowest_and_says_who_it_is() -> None:
    clocks = clocks_at("ssp:3", a=3, b=0, c=2)
    assert not clocks.may_step("a")
    assert clocks.waits_for("a") == ["b"]
    assert clocks.may_step("b")
    assert clocks.may_step("c")
    clocks.step("b")
    assert clocks.may_step("a")
    assert clocks.waits_for("a") == []


def test_backups_are_not_waited_for() -> None:
    clocks = clocks_at("backup:1", a=5, b=5, slow=1)
    assert clocks.may_step("a")
    clocks.step("a")
    assert not clocks.may_step("a")
    assert clocks.waits_for("a") == ["b"]


def test_a_worker_that_joins_begins_where_the_slowest_is() -> None:
    clocks = clocks_at("ssp:2", a=100, b=99)
    clocks.join("new")
    assert clocks["new"] == 99
    assert clocks.may_step("a")


def test_nobody_waits_for_a_worker_that_has_left() -> None:
    clocks = clocks_at("sync", a=1, b=0)
    assert not clocks.may_step("a")
    clocks.leave("b")
    assert clocks.may_step("a")


@pytest.mark.parametrize("dial", ["ssp:1", "ssp:4", "sync", "backup:1"])
def test_random_delays_never_break_the_bound(dial: str) -> None:
    for seed in range(200):
        chance = random.Random(seed)
        clocks = Clocks(Dial.parse(dial))
        #: What others know of a worker may be old: it tells its steps when it asks.
        made: dict[str, int] = {}
        for worker in "abcd":
            clocks.join(worker)
            made[worker] = 0
        told = dict(made)
        busy: set[str] = set()
        speeds = {worker: chance.random() ** 3 + 0.01 for worker in made}
        for _ in range(400):
            (worker,) = chance.choices(list(speeds), list(speeds.values()))
            if worker in busy:  # Its step ends.
                busy.remove(worker)
                made[worker] += 1
                slowest = sorted(made.values())[clocks.dial.left_behind]
                assert made[worker] - slowest <= clocks.dial.lead
                continue
            clocks.step(worker, made[worker] - told[worker])
            told[worker] = made[worker]
            if clocks.may_step(worker):
                busy.add(worker)
            else:
                assert worker not in clocks.waits_for(worker)
                assert clocks.waits_for(worker)
        assert min(made.values()) > 0 or dial == "backup:1" or min(speeds.values()) < 0.05


def test_the_dial_is_turned_while_workers_train() -> None:
    clocks = clocks_at("async", a=50, b=0)
    assert clocks.may_step("a")
    clocks.dial = Dial.parse("ssp:4")
    assert not clocks.may_step("a")
    clocks.dial = Dial.parse("ssp:51")
    assert clocks.may_step("a")
