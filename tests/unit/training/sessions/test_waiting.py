"""Waits: how often they look, when they end, and what they say."""

import itertools

import pytest

from millrace.training.sessions.waiting import Wait


def warnings(log_lines):
    return [text for level, text in log_lines if level == "WARNING"]


def test_a_wait_without_an_interval_looks_at_least_twice_a_second(fake_clock):
    wait = Wait(None, clock=fake_clock.clock)
    while wait.seconds < 20:
        assert wait.pause(lambda: "x")
    assert fake_clock.sleeps[0] <= 0.05
    assert max(fake_clock.sleeps) <= 0.5


def test_a_wait_without_an_interval_is_late_by_a_fifth_at_most(fake_clock):
    wait = Wait(None, clock=fake_clock.clock)
    while wait.seconds < 20:
        before = wait.seconds
        wait.pause(lambda: "x")
        assert wait.seconds - before <= 0.2 * before + 0.0201


def test_a_wait_with_an_interval_keeps_to_it(fake_clock):
    wait = Wait(3, clock=fake_clock.clock)
    for looks in range(1, 5):
        assert wait.pause(lambda: "x")
        assert wait.seconds == pytest.approx(3 * looks)


def test_a_wait_ends_at_its_limit(fake_clock):
    wait = Wait(None, 2, fake_clock.clock)
    while wait.pause(lambda: "x"):
        pass
    assert wait.seconds == pytest.approx(2, abs=0.01)


def test_a_wait_with_an_interval_does_not_begin_a_pause_that_passes_the_limit(fake_clock):
    wait = Wait(3, 8, fake_clock.clock)
    assert wait.pause(lambda: "x")
    assert wait.pause(lambda: "x")
    assert not wait.pause(lambda: "x")
    assert wait.seconds == pytest.approx(6)


def test_a_wait_of_no_time_looks_once(fake_clock):
    assert not Wait(None, 0, fake_clock.clock).pause(lambda: "x")
    assert not Wait(30, 0, fake_clock.clock).pause(lambda: "x")
    assert fake_clock.sleeps == []


@pytest.mark.parametrize("interval", [None, 1, 7, 30, 600])
def test_a_wait_speaks_after_five_seconds_and_then_every_ten(fake_clock, log_lines, interval):
    spoken = []
    wait = Wait(interval, clock=fake_clock.clock)

    def describe():
        spoken.append(wait.seconds)
        return "for the chief"

    while wait.seconds < 37:
        assert wait.pause(describe)
    spoken = [seconds for seconds in spoken if seconds < 37]
    assert len(spoken) == 4
    assert 5 <= spoken[0] <= 5.6
    for earlier, later in itertools.pairwise(spoken):
        assert 10 <= later - earlier <= 10.6
    assert all("since" in text and "for the chief" in text for text in warnings(log_lines))


def test_a_short_wait_says_nothing(fake_clock, log_lines):
    wait = Wait(None, clock=fake_clock.clock)
    while wait.seconds < 4:
        wait.pause(lambda: pytest.fail("nobody asked"))
    assert log_lines == []
