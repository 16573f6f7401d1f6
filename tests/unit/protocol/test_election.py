"""The lease of the chief, with a register in memory and clocks that are moved by hand."""

from __future__ import annotations

import random

import pytest

from millrace.protocol.election import Candidate, Reading, Record, Sleep, Write

SECONDS = 3.0


class MemoryRegister:
    """A register that counts its versions, and can forget."""

    def __init__(self) -> None:
        self.reading = Reading(None, 0)
        self._versions = 0
        self.history: list[Record] = []

    def write(self, instruction: Write) -> bool:
        if instruction.version != self.reading.version:
            return False
        self._versions += 1
        self.reading = Reading(instruction.record, self._versions)
        self.history.append(instruction.record)
        return True

    def forget(self) -> None:
        self._versions += 1
        self.reading = Reading(None, self._versions)


def turn(candidate: Candidate, register: MemoryRegister, now: float) -> float:
    """One turn of a candidate whose calls take no time; how long he rests."""
    instruction = candidate.on_reading(register.reading, now)
    if isinstance(instruction, Sleep):
        return instruction.seconds
    if register.write(instruction):
        candidate.on_written(instruction.record, now)
    else:
        candidate.on_refused()
    return 0.0


@pytest.fixture
def register() -> MemoryRegister:
    return MemoryRegister()


def test_the_first_candidate_becomes_chief_and_the_second_does_not(
    register: MemoryRegister,
) -> None:
    first, second = Candidate("a", SECONDS, 0.0), Candidate("b", SECONDS, 0.0)
    turn(first, register, 0.0)
    turn(second, register, 0.0)
    assert first.token(0.0) == 1
    assert second.token(0.0) is None
    assert second.holder == "a"


def test_a_renewed_lease_is_not_taken(register: MemoryRegister) -> None:
    first, second = Candidate("a", SECONDS, 0.0), Candidate("b", SECONDS, 0.0)
    for tenth in range(200):
        turn(first, register, tenth / 10)
        turn(second, register, tenth / 10)
    assert first.token(20.0) == 1
    assert register.reading.record is not None
    assert register.reading.record.renewal > 20 / SECONDS


def test_a_lease_that_is_not_renewed_is_taken_with_a_greater_token(
    register: MemoryRegister,
) -> None:
    first, second = Candidate("a", SECONDS, 0.0), Candidate("b", SECONDS, 0.0)
    turn(first, register, 0.0)
    turn(second, register, 0.0)
    turn(second, register, SECONDS - 0.01)
    assert second.token(SECONDS - 0.01) is None
    turn(second, register, SECONDS)
    assert second.token(SECONDS) == 2
    assert first.token(SECONDS) is None
    turn(first, register, SECONDS)
    assert first.holder == "b"


def test_a_released_lease_is_taken_at_once(register: MemoryRegister) -> None:
    first, second = Candidate("a", SECONDS, 0.0), Candidate("b", SECONDS, 0.0)
    turn(first, register, 0.0)
    turn(second, register, 0.0)
    assert second.release(register.reading) is None
    released = first.release(register.reading)
    assert released is not None
    assert register.write(released)
    first.on_written(released.record, 0.1)
    assert first.token(0.1) is None
    turn(second, register, 0.1)
    assert second.token(0.1) == 2


def test_a_candidate_without_a_head_start_leaves_a_new_lease_to_others(
    register: MemoryRegister,
) -> None:
    patient = Candidate("b", SECONDS, 0.0, head_start=2.0)
    assert turn(patient, register, 0.0) > 0
    assert patient.token(1.9) is None
    turn(patient, register, 2.0)
    assert patient.token(2.0) == 1


def test_a_register_that_forgets_gets_the_record_back_from_its_holder(
    register: MemoryRegister,
) -> None:
    first, second = Candidate("a", SECONDS, 0.0), Candidate("b", SECONDS, 0.0)
    turn(first, register, 0.0)
    turn(second, register, 0.0)
    register.forget()
    assert turn(second, register, 0.5) > 0
    turn(first, register, 0.6)
    assert first.token(0.6) == 1
    assert register.reading.record is not None
    assert register.reading.record.holder == "a"


def test_a_holder_who_was_paused_does_not_write_an_old_term_into_a_register_that_forgot(
    register: MemoryRegister,
) -> None:
    first, second = Candidate("a", SECONDS, 0.0), Candidate("b", SECONDS, 0.0)
    turn(first, register, 0.0)
    turn(second, register, 0.0)
    turn(second, register, SECONDS)
    register.forget()
    first.heard_of(2)  # from the folder of checkpoints
    turn(first, register, SECONDS + 0.1)
    assert register.reading.record == Record("a", 3, 0, SECONDS)
    turn(second, register, SECONDS + 0.2)
    assert second.token(SECONDS + 0.2) is None


def test_a_record_with_a_smaller_token_than_was_seen_is_replaced(register: MemoryRegister) -> None:
    candidate = Candidate("a", SECONDS, 0.0)
    candidate.heard_of(7)
    register.write(Write(Record("old", 5, 0, SECONDS), 0))
    turn(candidate, register, 0.0)
    assert candidate.token(0.0) == 8


def test_a_write_whose_answer_was_lost_is_found_by_the_next_reading(
    register: MemoryRegister,
) -> None:
    candidate = Candidate("a", SECONDS, 0.0)
    instruction = candidate.on_reading(register.reading, 0.0)
    assert isinstance(instruction, Write)
    register.write(instruction)
    assert candidate.token(0.0) is None
    turn(candidate, register, 0.5)
    assert candidate.token(0.5) == 1


def test_a_record_is_the_same_after_it_was_bytes() -> None:
    record = Record("worker 1 on a", 7, 12, 3.0, True)
    assert Record.decode(record.encode()) == record


@pytest.mark.parametrize("content", [b"", b"5", b"{}", b'{"holder": "a"}', b"\xff"])
def test_what_is_no_record_is_refused_with_advice(content: bytes) -> None:
    with pytest.raises(ValueError, match="path of its own"):
        Record.decode(content)


def test_a_lease_without_length_is_refused() -> None:
    with pytest.raises(ValueError, match="0 seconds"):
        Candidate("a", 0, 0.0)


@pytest.mark.parametrize("seed", range(50))
def test_a_chief_that_dies_is_followed_within_a_lease_and_a_tenth(
    register: MemoryRegister, seed: int
) -> None:
    """From his last renewal on, with calls that take no time: 3.3 seconds with the usual lease."""
    chance = random.Random(seed)
    candidates = {name: Candidate(name, SECONDS, 0.0) for name in "abc"}
    turns = [(chance.uniform(0.0, SECONDS), name) for name in candidates]
    dies_at = chance.uniform(4 * SECONDS, 5 * SECONDS)
    dead, renewed_at = "", 0.0
    while True:
        turns.sort()
        now, name = turns.pop(0)
        if not dead and now >= dies_at:
            (dead,) = (each for each, one in candidates.items() if one.token(now) is not None)
            assert register.reading.record is not None and register.reading.record.holder == dead
        if name == dead:
            continue
        writes = len(register.history)
        rest = turn(candidates[name], register, now)
        if not dead and len(register.history) > writes:
            renewed_at = now
        if dead and candidates[name].token(now) is not None:
            break
        # A turn that wrote, or was refused, is followed by another one at once.
        turns.append((now + rest + 1e-6, name))
    assert SECONDS <= now - renewed_at <= 1.1 * SECONDS + 0.001
    assert candidates[dead].token(now) is None


@pytest.mark.parametrize("seed", range(300))
def test_in_no_schedule_two_candidates_are_chief_at_once(seed: int) -> None:
    """Candidates are paused, calls take their time and get lost, clocks run differently."""
    chance = random.Random(seed)
    register = MemoryRegister()
    # Each clock begins anywhere and runs up to 4 % fast or slow.
    rates = [chance.uniform(0.96, 1.04) for _ in range(4)]
    starts = [chance.uniform(0, 1000) for _ in range(4)]

    def clock(i: int, time: float) -> float:
        return starts[i] + rates[i] * time

    candidates = [Candidate(str(i), SECONDS, clock(i, 0.0)) for i in range(4)]
    wakes = [chance.uniform(0, 1) for _ in range(4)]
    #: A write that is on its way: (time it arrives, instruction, time sent, whether it is answered)
    sent: list[tuple[float, Write, float, bool] | None] = [None] * 4
    time, chiefs = 0.0, set()
    dead: set[int] = set()
    while time < 120:
        i = min((i for i in range(4) if i not in dead), key=lambda i: wakes[i])
        time = wakes[i]
        holding = [j for j in range(4) if candidates[j].token(clock(j, time)) is not None]
        assert len(holding) <= 1, f"seed {seed}: {holding} at {time}"
        chiefs.update(holding)
        flight = sent[i]
        if flight is not None:
            _, instruction, sent_at, answered = flight
            sent[i] = None
            if register.write(instruction) and answered:
                candidates[i].on_written(instruction.record, sent_at)
        else:
            now = clock(i, time)
            instruction = candidates[i].on_reading(register.reading, now)
            if isinstance(instruction, Write):
                delay = chance.choice([0.0, 0.01, 0.3])
                sent[i] = (time + delay, instruction, now, chance.random() < 0.9)
                wakes[i] = time + delay
                continue
            wakes[i] = time + instruction.seconds / rates[i]
        if chance.random() < 0.03:
            wakes[i] = time + chance.uniform(0, 4 * SECONDS)  # SIGSTOP, or a long collection
        elif time > 60 and chance.random() < 0.002 and len(dead) < 3:
            dead.add(i)
            wakes[i] = float("inf")
        wakes[i] = max(wakes[i], time + 0.001)
    tokens = [record.token for record in register.history]
    assert tokens == sorted(tokens)
    by_token = {record.token: record.holder for record in register.history}
    assert all(by_token[record.token] == record.holder for record in register.history)
    assert len(tokens) > 50
    assert len(chiefs) > 1
