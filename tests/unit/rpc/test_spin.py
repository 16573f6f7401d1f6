"""Looking out for a message before sleeping: where it may, and when it stops."""

import itertools
import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from millrace.rpc import spin
from millrace.rpc.spin import SpinPolicy

NEVER = lambda: False  # noqa: E731


class Poll:
    """Finds something at a certain look."""

    def __init__(self, at: int | None) -> None:
        self.looks = 0
        self._at = at

    def poll(self, milliseconds: int) -> list[tuple[int, int]]:
        assert milliseconds == 0
        self.looks += 1
        return [(5, 1)] if self.looks == self._at else []


def spin_policy(times: Iterable[float]) -> SpinPolicy:
    clock: Callable[[], float] = iter(times).__next__
    made = SpinPolicy(clock)
    made.is_on = True
    return made


def steadily(step: float = 0.00001) -> Iterable[float]:
    return itertools.count(1.0, step)


@pytest.mark.parametrize(
    ("cores", "tasks", "environment", "expected"),
    [
        (2, 2, {}, True),
        (2, 3, {}, False),
        (8, 1, {}, False),
        (2, 2, {"MILLRACE_SPIN": "0"}, False),
        (2, 3, {"MILLRACE_SPIN": "1"}, True),
    ],
)
def test_tasks_spin_where_each_has_a_core(
    cores: int, tasks: int, environment: dict[str, str], expected: bool
) -> None:
    made = SpinPolicy()
    made.configure(cores, tasks, environment)
    assert made.is_on is expected


@pytest.mark.parametrize(
    ("cores", "tasks", "environment", "expected"),
    [
        (2, 3, {}, True),
        (8, 9, {}, True),
        (2, 4, {}, False),
        (1, 2, {}, False),
        (2, 3, {"MILLRACE_SPIN": "0"}, False),
    ],
)
def test_with_one_task_more_they_spin_in_rounds(
    cores: int, tasks: int, environment: dict[str, str], expected: bool
) -> None:
    made = spin_policy(steadily())
    made.configure(cores, tasks, environment)
    assert not made.is_on and made.is_on_in_rounds is expected
    assert made.until(Poll(2), NEVER) == []
    assert made.until(Poll(2), NEVER, in_round=True) == ([(5, 1)] if expected else [])


def test_in_a_round_the_core_is_offered_between_any_two_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offers: list[int] = []
    poll = Poll(None)
    monkeypatch.setattr(os, "sched_yield", lambda: offers.append(poll.looks))
    made = spin_policy(steadily(0.002))
    made.is_on, made.is_on_in_rounds = False, True
    assert made.until(poll, NEVER, in_round=True) == []
    assert offers == [1, 2] and poll.looks == 2
    assert made.until(poll, lambda: True, in_round=True) == [] and poll.looks == 2


def test_what_comes_soon_is_found_without_sleep() -> None:
    assert spin_policy(steadily()).until(Poll(20), NEVER) == [(5, 1)]


def test_a_look_ends_after_a_moment() -> None:
    poll = Poll(None)
    assert spin_policy(steadily()).until(poll, NEVER) == []
    assert poll.looks == pytest.approx(spin._SECONDS / 0.00001 * spin._LOOKS, rel=0.1)


def test_a_look_ends_when_it_is_over_for_another_reason() -> None:
    poll = Poll(None)
    assert spin_policy(steadily()).until(poll, lambda: poll.looks) == []
    assert poll.looks == spin._LOOKS


def test_who_is_put_aside_sleeps_for_a_while_and_longer_each_time() -> None:
    times: list[float] = []
    made = SpinPolicy(lambda: times.pop(0))
    made.is_on = True
    rests = []
    now = 1.0
    for _ in range(12):
        times[:] = [now, now + 0.01]  # Eight looks took ten milliseconds.
        poll = Poll(None)
        made.until(poll, NEVER)
        assert poll.looks == spin._LOOKS
        rests.append(made._backs_off_until - (now + 0.01))
        times[:] = [made._backs_off_until - 0.001]
        assert made.until(Poll(1), NEVER) == []  # It rests.
        now = made._backs_off_until
    assert rests[0] == pytest.approx(spin._SHORTEST_BACKOFF)
    assert rests[1] == pytest.approx(2 * rests[0])
    assert rests[-1] == pytest.approx(spin._LONGEST_BACKOFF)


@pytest.mark.parametrize(("rests_later", "expected"), [(9, 8), (11, 1)])
def test_the_next_disturbance_after_a_good_time_is_the_first_again(
    rests_later: int, expected: int
) -> None:
    times: list[float] = []
    made = SpinPolicy(lambda: times.pop(0))
    made.is_on = True
    now = 100.0
    for _ in range(3):
        times[:] = [now, now + 0.01]
        made.until(Poll(None), NEVER)
        now = made._backs_off_until
    now += rests_later * 8 * spin._SHORTEST_BACKOFF  # The next rest would be the fourth.
    times[:] = [now, now + 0.01]
    made.until(Poll(None), NEVER)
    rest = made._backs_off_until - (now + 0.01)
    assert rest == pytest.approx(expected * spin._SHORTEST_BACKOFF)


def test_one_thread_of_a_process_looks_out_at_a_time() -> None:
    made = spin_policy(steadily())
    inner: list[Any] = []

    class Nested(Poll):
        def poll(self, milliseconds: int) -> list[tuple[int, int]]:
            inner.append(made.until(Poll(1), NEVER))
            return super().poll(milliseconds)

    assert made.until(Nested(1), NEVER) == [(5, 1)]
    assert inner == [[]]
