"""A repeated step changes each task once."""

import random

import pytest

from millrace.protocol.step.applied_steps import (
    AppliedSteps,
    Effect,
    RunningAttempt,
    StepAttempt,
    StepCounter,
    StepFunction,
    Verdict,
)


def attempt(step: int = 1, number: int = 1, oldest: int = 0, client: int = 7) -> StepAttempt:
    return StepAttempt(client, step, oldest, number)


WEIGHTS = Effect("update", frozenset({"w"}))
COUNT = Effect("count", frozenset({"global_step"}))


def apply(running: RunningAttempt | None, effect: Effect, *outputs: object) -> None:
    assert running is not None
    assert running.claim(effect) is Verdict.APPLY
    running.applied(effect, outputs)


def begin(record: AppliedSteps, *which: int) -> RunningAttempt:
    running = record.begin(attempt(*which))
    assert running is not None
    return running


def test_the_next_attempt_applies_what_is_missing_and_replays_the_rest():
    record = AppliedSteps()
    apply(begin(record, 1, 1), WEIGHTS, 5)
    second = begin(record, 1, 2)
    assert second.claim(WEIGHTS) is Verdict.REPLAY
    assert second.outputs(WEIGHTS) == (5,)
    apply(second, COUNT)


def test_a_first_attempt_has_no_effect_once_the_second_has_begun():
    record = AppliedSteps()
    first = begin(record, 1, 1)
    begin(record, 1, 2)
    assert first.claim(WEIGHTS) is Verdict.REFUSE
    assert record.begin(attempt(1, 1)) is None


def test_an_effect_under_way_is_waited_for():
    record = AppliedSteps()
    first = begin(record, 1, 1)
    assert first.claim(WEIGHTS) is Verdict.APPLY
    second = begin(record, 1, 2)
    assert second.claim(WEIGHTS) is Verdict.WAIT
    first.applied(WEIGHTS)
    assert second.claim(WEIGHTS) is Verdict.REPLAY


def test_an_attempt_that_begins_an_effect_again_does_not_wait_for_itself():
    first = begin(AppliedSteps(), 1, 1)
    assert first.claim(WEIGHTS) is Verdict.APPLY
    apply(first, WEIGHTS, 3)
    assert first.claim(WEIGHTS) is Verdict.REPLAY and first.outputs(WEIGHTS) == (3,)


def test_an_effect_that_failed_can_be_tried_again():
    record = AppliedSteps()
    first = begin(record, 1, 1)
    assert first.claim(WEIGHTS) is Verdict.APPLY
    first.failed(WEIGHTS)
    apply(begin(record, 1, 2), WEIGHTS)


def test_steps_that_are_over_are_forgotten_and_refused():
    record = AppliedSteps()
    late = begin(record, 1, 1)
    for step in range(2, 100):
        apply(record.begin(attempt(step, oldest=step)), WEIGHTS)
    (client,) = record.as_state()
    assert client.oldest == 99 and [each.step for each in client.steps] == [99]
    assert record.begin(attempt(5, 2, oldest=5)) is None
    assert late.claim(WEIGHTS) is Verdict.REFUSE


def test_a_client_that_never_says_what_is_over_does_not_fill_the_record():
    record = AppliedSteps(max_clients=3, max_steps=4)
    first = record.begin(attempt(1, client=0))
    for client in range(10):
        for step in range(1, 10):
            record.begin(attempt(step, client=client))
    state = record.as_state()
    assert [each.client for each in state] == [7, 8, 9]
    assert all([step.step for step in each.steps] == [6, 7, 8, 9] for each in state)
    assert first is not None and first.claim(WEIGHTS) is Verdict.REFUSE


def test_a_restored_variable_has_none_of_what_was_applied_to_it():
    record = AppliedSteps()
    first = begin(record, 1, 1)
    apply(first, WEIGHTS)
    apply(first, COUNT)
    record.replaced({"w", "b"})
    second = begin(record, 1, 2)
    apply(second, WEIGHTS)
    assert second.claim(COUNT) is Verdict.REPLAY


def test_a_standby_goes_on_with_the_record_of_its_primary():
    record = AppliedSteps()
    first = begin(record, 1, 1)
    apply(first, WEIGHTS, 1, 2)
    first.claim(COUNT)
    standby = AppliedSteps.from_state(record.as_state())
    assert standby.as_state() == record.as_state()
    second = begin(standby, 1, 2)
    assert second.claim(WEIGHTS) is Verdict.REPLAY
    assert second.outputs(WEIGHTS) == (1, 2)
    assert second.claim(COUNT) is Verdict.APPLY


def test_an_attempt_survives_the_wire():
    sent = StepAttempt(2**62 + 1, 12345678901, 12345678900, 3)
    assert StepAttempt.unpack(sent.pack()) == sent
    with pytest.raises(ValueError, match="bytes, not 3"):
        StepAttempt.unpack(b"abc")


def test_a_counter_tells_which_steps_are_over():
    counter = StepCounter(7)
    one, two = counter.begin(), counter.begin()
    assert counter.attempt(two) == StepAttempt(7, two, one, 1)
    counter.over(one)
    assert counter.attempt(two) == StepAttempt(7, two, two, 2)


def test_no_schedule_applies_a_step_twice_or_loses_it():
    for seed in range(300):
        assert _counts_after(random.Random(seed)) == [22, 22], seed


def _counts_after(chance: random.Random) -> list[int]:
    """Two ps, steps of two threads, attempts that end anywhere and whose messages come late."""
    counter = StepCounter(7)
    tasks = [AppliedSteps() for _ in range(2)]
    counts = [0, 0]
    done = 0
    under_way = [counter.begin(), counter.begin()]
    delayed: list[tuple[int, StepAttempt]] = []

    def deliver(task: int, which: StepAttempt) -> bool:
        running = tasks[task].begin(which)
        if running is None:
            return False
        verdict = running.claim(WEIGHTS)
        if verdict is Verdict.APPLY:
            if chance.random() < 0.2:
                running.failed(WEIGHTS)
                return False
            counts[task] += 1
            running.applied(WEIGHTS)
        return verdict in (Verdict.APPLY, Verdict.REPLAY)

    while done < 20:
        step = chance.choice(under_way)
        which = counter.attempt(step)
        answered = []
        for task in range(2):
            if chance.random() < 0.3:
                delayed.append((task, which))
                answered.append(False)
            else:
                answered.append(deliver(task, which) and chance.random() < 0.8)
        if delayed and chance.random() < 0.5:
            deliver(*delayed.pop(chance.randrange(len(delayed))))
        if all(answered):
            counter.over(step)
            under_way.remove(step)
            under_way.append(counter.begin())
            done += 1
    for step in under_way:
        while not all([deliver(task, counter.attempt(step)) for task in range(2)]):
            pass
        counter.over(step)
    for late in delayed:
        deliver(*late)
    return counts


def places(runs: StepFunction, *what: str) -> list[tuple[int, int]]:
    return [(each.step, each.attempt) for each in map(runs.attempt, what)]


def test_the_runs_of_a_step_function_are_told_apart_by_what_they_run() -> None:
    runs = StepFunction(StepCounter(7))
    assert places(runs, "read", "train", "train") == [(1, 1), (2, 1), (3, 1)]
    runs.again()
    assert places(runs, "train", "read", "train", "save") == [(2, 2), (1, 2), (3, 2), (4, 1)]


def test_what_a_step_function_has_run_is_remembered_until_it_ends() -> None:
    counter = StepCounter(7)
    runs = StepFunction(counter)
    places(runs, "train", "train")
    assert counter.attempt(counter.begin()).oldest == 1
    runs.over()
    counter.over(3)
    assert counter.attempt(counter.begin()).oldest == 4


def test_a_step_function_that_runs_very_much_is_remembered_from_its_end() -> None:
    counter = StepCounter(7)
    runs = StepFunction(counter, max_runs=2)
    assert places(runs, "train", "train", "train") == [(1, 1), (2, 1), (3, 1)]
    assert runs.forgotten == 1
    runs.again()
    assert places(runs, "train")[0] == (4, 1)
    runs.over()
    assert counter.attempt(counter.begin()).oldest == 5
