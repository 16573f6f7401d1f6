"""What follows a queue, an accumulator or a table has its state, in whatever order it is told."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from millrace.core.tensor_shape import TensorShape
from millrace.protocol.accumulator import DenseAccumulatorState, SparseAccumulatorState, Take
from millrace.protocol.lookup_table import MutableTable, StaticTable
from millrace.protocol.queue import (
    Close,
    Dequeue,
    Enqueue,
    FifoQueueState,
    PriorityQueueState,
    QueueState,
    RandomShuffleQueueState,
)
from millrace.protocol.replication.mirror import Event, Mirror


class Followed:
    """A state machine, and one that follows it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.state, self.mirror = make(), Mirror(make())
        self.told: list[tuple[int, Event]] = []
        self.state.listener = self._note
        self.version = 0

    def _note(self, attempt: Any, event: Event) -> None:
        self.version += 1
        self.told.append((self.version, event))

    def tell(self, chance: random.Random) -> None:
        """Tells what happened, in any order."""
        told, self.told = self.told, []
        chance.shuffle(told)
        for version, event in told:
            self.mirror.on(version, event)

    def check(self) -> None:
        assert self.mirror.version == self.version
        assert plain(self.mirror.state.as_event()) == plain(self.state.as_event())


def plain(event: Event) -> tuple[Any, list[Any]]:
    return event.words, [np.asarray(value).tolist() for value in event.values]


def queues(chance: random.Random) -> list[Callable[[], QueueState]]:
    return [
        lambda: FifoQueueState("q", 5),
        lambda: PriorityQueueState("q", 5),
        lambda: RandomShuffleQueueState("q", 5, 1, chance.randrange),
    ]


@pytest.mark.parametrize("kind", range(3))
def test_a_queue_is_followed_through_waits_and_cancellations(kind: int) -> None:
    for seed in range(60):
        chance = random.Random(seed)
        followed = Followed(queues(chance)[kind])
        waiting: list[Any] = []
        for _ in range(60):
            what = chance.random()
            if what < 0.45:
                elements = [
                    (chance.randrange(9), np.array([n])) for n in range(chance.randint(1, 3))
                ]
                waiting.append(Enqueue(elements))
                followed.state.submit(waiting[-1])
            elif what < 0.85:
                waiting.append(Dequeue(chance.randint(1, 3)))
                followed.state.submit(waiting[-1])
            elif what < 0.9:
                followed.state.take_present(2)
            elif waiting:
                followed.state.cancel(chance.choice(waiting))
            if chance.random() < 0.2:
                followed.tell(chance)
                followed.check()
        followed.state.submit(Close())
        followed.tell(chance)
        followed.check()


def test_a_queue_serves_what_it_has_followed_in_its_order() -> None:
    followed = Followed(lambda: FifoQueueState("q", -1))
    followed.state.submit(Enqueue((np.int64(n),) for n in range(5)))
    followed.state.submit(Dequeue(2))
    followed.state.submit(Dequeue(9))  # It waits, and holds what is there.
    followed.tell(random.Random(0))
    promoted = FifoQueueState("q", -1)
    promoted.follow(followed.mirror.state.as_event())
    promoted.serve_followed()
    dequeue = Dequeue(3)
    promoted.submit(dequeue)
    assert [int(element[0]) for element in dequeue.result()] == [2, 3, 4]


@pytest.mark.parametrize("kind", [DenseAccumulatorState, SparseAccumulatorState])
def test_an_accumulator_is_followed_with_what_it_dropped(kind: Any) -> None:
    for seed in range(60):
        chance = random.Random(seed)
        followed = Followed(lambda: kind("a", TensorShape(None), True))
        state, takes = followed.state, []
        for _ in range(40):
            what = chance.random()
            gradient: Any = np.array([chance.random()], np.float32)
            if kind is SparseAccumulatorState:
                gradient = np.array([chance.randrange(3)]), gradient, None
            if what < 0.6:
                step = state.global_step - chance.randint(0, 1)
                state.apply(gradient, step, chance.choice(["", "w0", "w1"]), is_own=True)
            elif what < 0.75:
                takes.append(Take(chance.randint(1, 3)))
                state.submit(takes[-1])
            elif what < 0.78:
                for take in takes:
                    state.give_back(take)
            elif what < 0.85:
                state.begins_again(chance.choice(["w0", "w1"]))
            elif what < 0.9:
                state.will_apply()
            elif what < 0.95:
                state.chief_arrived()
            else:
                state.begin_round(chance.randint(0, 5))
            if chance.random() < 0.2:
                followed.tell(chance)
                followed.check()
        followed.tell(chance)
        followed.check()


def test_what_is_given_back_is_in_the_round_again() -> None:
    followed = Followed(lambda: DenseAccumulatorState("a", TensorShape(None), True))
    state, take, again = followed.state, Take(2), Take(3)
    state.submit(take)
    state.apply(np.array(2.0), 4, "w0", is_own=True)
    state.apply(np.array(4.0), 4, "w1", is_own=True)
    assert take.result() == 3.0 and state.global_step == 1
    state.apply(np.array(9.0), 4, "w0")
    state.give_back(take)
    state.give_back(take)
    assert (state.global_step, state.count) == (0, 3)
    state.submit(again)
    assert again.result() == 5.0
    followed.tell(random.Random(0))
    followed.check()


def test_tables_are_followed() -> None:
    followed = Followed(lambda: MutableTable("t", np.dtype(np.float32), (2,)))
    followed.state.insert([(b"a", np.array([1.0, 2.0])), (b"b", np.array([3.0, 4.0]))])
    followed.state.remove(np.array([b"a"], object))
    followed.state.insert([(b"c", np.array([5.0, 6.0]))])
    followed.tell(random.Random(1))
    followed.check()
    static = Followed(lambda: StaticTable("t", np.dtype(np.int64)))
    static.state.fill([(b"a", 1), (b"b", 2)])
    static.tell(random.Random(1))
    static.check()
    assert static.mirror.state.is_filled  # type: ignore[attr-defined]


def test_what_was_never_told_has_not_happened_when_the_standby_takes_over() -> None:
    followed = Followed(lambda: DenseAccumulatorState("a", TensorShape(None), True))
    state = followed.state
    state.apply(np.array(1.0), 0, "w0")
    state.submit(Take(1))  # Its step is never told of it.
    state.apply(np.array(5.0), 0, "w1")  # stale by then, and told to be
    state.apply(np.array(7.0), 1, "w1")
    for version, event in followed.told:
        if event.what != "take":
            followed.mirror.on(version, event)
    followed.mirror.settle()
    mirror: Any = followed.mirror.state
    assert (mirror.global_step, mirror.count, mirror.stale) == (0, 2, 1)
