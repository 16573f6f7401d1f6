"""Synchronous rounds over tasks with standbys, in every order that channels and deaths allow.

Each task is a primary and what its standby has followed so far. What a primary changes goes to the
standby as one message; an answer waits until the standby has all that was sent before it. A primary
may die at any moment: messages that were under way are lost, the standby goes on, and every step
that was under way fails and is repeated under its number. The rules are those that ship:
accumulators, queues, the record of applied steps, mirrors, the number of the round to close.

Gradients are numbers that name their worker and step, so that sums tell what is in them. No worker
begins a step before the round of its last one is over: otherwise stragglers' gradients are dropped.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from millrace.core import errors
from millrace.core.tensor_shape import TensorShape
from millrace.protocol.accumulator import DenseAccumulatorState, SparseAccumulatorState, Take
from millrace.protocol.queue import Dequeue, Enqueue, FifoQueueState
from millrace.protocol.replication.mirror import Event, Mirror
from millrace.protocol.rounds import oldest_round, round_to_close
from millrace.protocol.step.applied_steps import AppliedSteps, Effect, StepAttempt, Verdict

WORKERS, TASKS, CHIEF = 2, 2, 99


def fresh() -> dict[str, Any]:
    """The state machines of a task: each gradient has a dense and a sparse part."""
    return {
        "dense": DenseAccumulatorState("dense", TensorShape(None), False),
        "sparse": SparseAccumulatorState("sparse", TensorShape(None), False),
        "tokens": FifoQueueState("tokens", -1),
    }


class Ps:
    """A task: its primary, and what its standby knows."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.lives = 0
        self.state = fresh()
        self.record = AppliedSteps()
        #: What rounds have added to the variables, and how many there were.
        self.applied: list[Any] = []
        self._begin()

    def _begin(self) -> None:
        self.versions = {name: 0 for name in self.state}
        self.mirrors = {name: Mirror(state) for name, state in fresh().items()}
        self.mirrored_record = AppliedSteps.from_state(self.record.as_state())
        self.mirrored_applied = list(self.applied)
        self.wire: deque[Callable[[], None]] = deque()
        self.sent = self.received = 0
        self.held: deque[tuple[int, Callable[[], None]]] = deque()
        self.waits: dict[tuple[int, int], list[tuple[Any, Any]]] = {}
        self._events: list[tuple[str, int, Event]] | None = None
        for name, state in self.state.items():
            self.mirrors[name].set(0, state.as_event())
            state.listener = self._listener(name)

    def _listener(self, name: str) -> Any:
        def note(attempt: Any, event: Event) -> None:
            self.versions[name] += 1
            sink = attempt.events if attempt is not None and attempt.events is not None else None
            sink = self._events if sink is None else sink
            assert sink is not None
            sink.append((name, self.versions[name], event))

        return note

    # -- The standby -----------------------------------------------------------------------------

    def send(self, events: list[Any], follow: Callable[[], None]) -> None:
        def arrive() -> None:
            for name, version, event in events:
                self.mirrors[name].on(version, event)
            follow()
            self.received += 1

        self.wire.append(arrive)
        self.sent += 1

    def answer(self, tell: Callable[[], None]) -> None:
        """Tells something when the standby has all that was sent so far."""
        self.held.append((self.sent, tell))

    def die(self) -> None:
        """The primary dies: of what was under way a part arrives, and the standby goes on."""
        for _ in range(self.world.random.randint(0, len(self.wire))):
            self.wire.popleft()()
        self.lives += 1
        for mirror in self.mirrors.values():
            mirror.settle()
        promoted = fresh()
        for name, state in promoted.items():
            state.follow(self.mirrors[name].state.as_event())
            state.serve_followed()
        self.state, self.record = promoted, self.mirrored_record
        self.applied = self.mirrored_applied
        self._begin()

    # -- Effects ---------------------------------------------------------------------------------

    def run(self, attempt: StepAttempt, name: str, change: Any, reply: Any, fail: Any) -> None:
        """Runs an effect of a step, or answers from the record; the answer may have to wait."""
        running = self.record.begin(attempt)
        effect = Effect(name)
        verdict = Verdict.REFUSE if running is None else running.claim(effect)
        if verdict is Verdict.REPLAY:
            outputs = running.outputs(effect)  # type: ignore[union-attr]
            self.answer(lambda: reply(outputs))
            return
        if verdict is not Verdict.APPLY:
            fail()
            return
        assert running is not None
        events: list[Any] = []

        def finished(outputs: Any, follow: Callable[[], None] = lambda: None) -> None:
            running.applied(effect, outputs)

            def followed() -> None:
                follow()
                self.mirrored_record.follow(attempt, effect, outputs)

            self.send(events, followed)
            self.answer(lambda: reply(outputs))

        def failed() -> None:
            running.failed(effect)
            self.send(events, lambda: None)

        before, self._events = self._events, events
        change(self, attempt, events, finished, failed)
        self._events = before

    def cancel(self, attempt: StepAttempt) -> None:
        """The step of a client was given up: its waits end, and what they hold returns."""
        for takes, failed in self.waits.pop((attempt.client, attempt.step), []):
            before, self._events = self._events, takes[0][1].events
            settled: list[Any] = []
            for state, take in takes:
                settled += state.cancel(take)
            for state, take in takes:
                if isinstance(take, Take) and take.error is None:
                    settled += state.give_back(take)
            failed()
            self._events = before
            self.world.settle(settled)


class World:
    """Tasks, workers and a chief; a random number chooses what happens next."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.tasks = [Ps(self, f"ps{i}") for i in range(TASKS)]
        self.requests: list[Callable[[], None]] = []
        self.clients: list[Client] = [Client(self, n, self.worker_step) for n in range(WORKERS)]
        self.acknowledged: dict[int, list[int]] = {n: [] for n in range(WORKERS)}
        self.clients.append(Chief(self))
        self.deaths = 0

    # -- What clients run ------------------------------------------------------------------------

    def worker_step(self, client: Client) -> Generator[Any, Any, None]:
        number, me = client.step, client.number
        gradient = float(10 ** (3 * me) + number * 1e-6)

        def push(ps: Ps, attempt: Any, events: Any, finished: Any, failed: Any) -> None:
            row = np.array([me * 1000 + number])
            settled = ps.state["dense"].apply(np.array(gradient), client.local_step, f"w{me}")
            settled += ps.state["sparse"].apply((row, np.array([1.0]), None), client.local_step)
            finished([])
            self.settle(settled)

        yield [(i, "push", push) for i in range(TASKS)]

        def dequeue(ps: Ps, attempt: Any, events: Any, finished: Any, failed: Any) -> None:
            self.wait(ps, attempt, [(ps.state["tokens"], Dequeue(1))], events, finished, failed)

        (token,) = yield [(0, "token", dequeue)]
        client.local_step = int(token[0][0][0])
        self.acknowledged[me].append(number)

    def close_round(self, client: Client) -> Generator[Any, Any, None]:
        def take(ps: Ps, attempt: Any, events: Any, finished: Any, failed: Any) -> None:
            takes = [(ps.state[name], Take(WORKERS)) for name in ("dense", "sparse")]
            self.wait(ps, attempt, takes, events, finished, failed)

        taken = yield [(i, "take", take) for i in range(TASKS)]

        def apply(outputs: Any) -> Any:
            def change(ps: Ps, attempt: Any, events: Any, finished: Any, failed: Any) -> None:
                made = [float(outputs[0]), sorted(np.asarray(outputs[1][0]).tolist())]
                ps.applied.append(made)
                finished([], lambda: ps.mirrored_applied.append(made))

            return change

        yield [(i, "apply", apply(outputs)) for i, outputs in enumerate(taken)]
        step = client.step + 1

        def hand_out(ps: Ps, attempt: Any, events: Any, finished: Any, failed: Any) -> None:
            settled = ps.state["tokens"].submit(Enqueue((step,) for _ in range(WORKERS)))
            finished([])
            self.settle(settled)

        yield [(0, "tokens", hand_out)]

    def wait(
        self, ps: Ps, attempt: Any, takes: Any, events: Any, finished: Any, failed: Any
    ) -> None:
        key = attempt.client, attempt.step
        left = len(takes)
        entry = (takes, failed)
        ps.waits.setdefault(key, []).append(entry)

        def told(outcome: Any) -> None:
            nonlocal left
            left -= 1
            if outcome.error is None and not left:
                ps.waits[key].remove(entry)
                finished([each.result() for _, each in takes])

        settled = []
        for state, each in takes:
            each.waiter, each.events = told, events
            settled += state.submit(each)
        self.settle(settled)

    def settle(self, settled: list[Any]) -> None:
        for attempt in settled:
            if attempt.waiter is not None:
                attempt.waiter(attempt)

    # -- Time ------------------------------------------------------------------------------------

    def happen(self, deaths: float) -> None:
        """Lets one thing happen."""
        possible: list[Callable[[], None]] = [
            client.go_on for client in self.clients if client.idle
        ]
        if self.requests:
            chosen = self.random.randrange(len(self.requests))
            possible.append(lambda: self.requests.pop(chosen)())
        for ps in self.tasks:
            if ps.wire:
                possible.append(lambda ps=ps: ps.wire.popleft()())
            if ps.held and ps.held[0][0] <= ps.received:
                possible.append(lambda ps=ps: ps.held.popleft()[1]())
        if self.random.random() < deaths:
            possible = [self.kill]
        if possible:
            self.random.choice(possible)()

    def kill(self) -> None:
        self.deaths += 1
        ps = self.random.choice(self.tasks)
        ps.die()
        for client in self.clients:
            client.fail()

    def check(self) -> None:
        """Every task has applied the same rounds, and each acknowledged gradient once."""
        first, *others = self.tasks
        for ps in others:
            short, long = sorted((first.applied, ps.applied), key=len)
            assert len(long) - len(short) <= 1, "a round is missing"
            assert long[: len(short)] == short, (first.applied, ps.applied)
        for ps in self.tasks:
            rows = [row for _, found in ps.applied for row in found]
            assert len(rows) == len(set(rows)), f"counted twice: {sorted(rows)}"
            held = {int(row) for part in ps.state["sparse"]._parts for row in part[0]}
            under_way = {
                int(row)
                for waits in ps.waits.values()
                for takes, _ in waits
                for _, take in takes
                if isinstance(take, Take) and take.done and isinstance(take.result(), tuple)
                for row in take.result()[0]
            }
            for me, numbers in self.acknowledged.items():
                recorded = {*rows, *held, *under_way, *taken_of(ps)}
                lost = [n for n in numbers if me * 1000 + n not in recorded]
                assert not lost, f"{ps.name} has lost {lost} of worker {me}"


def taken_of(ps: Ps) -> set[int]:
    """What rounds have taken and not applied yet: the record has it."""
    return {
        int(row)
        for client in ps.record.as_state()
        for step in client.steps
        for effect, outputs in step.applied
        if effect.name == "take"
        for row in np.asarray(outputs[1][0]).tolist()
    }


class Client:
    """Runs steps one after the other, and repeats one that a death has ended."""

    def __init__(self, world: World, number: int, program: Any) -> None:
        self.world, self.number, self.program = world, number, program
        self.step = 0
        self.local_step = 0
        self.attempt = 0
        self.idle = True
        self._tries = 0
        self._now: StepAttempt | None = None

    def go_on(self) -> None:
        """Begins a step, or another attempt of it."""
        self.idle = False
        self.attempt += 1
        self._tries += 1
        self._now = self.named()
        self._work = self.program(self)
        self._advance(None)

    def named(self) -> StepAttempt:
        return StepAttempt(self.number, self.step, self.step, self.attempt)

    def over(self) -> None:
        self.step += 1
        self.attempt = 0
        self.idle = True

    def fail(self) -> None:
        """The session is lost: all tasks give the step up, and it is run again."""
        self._tries += 1
        if self._now is not None and not self.idle:
            for ps in self.world.tasks:
                ps.cancel(self._now)
        self.idle = True

    def _advance(self, values: Any) -> None:
        try:
            wanted = self._work.send(values)
        except StopIteration:
            self.over()
            return
        outputs: list[Any] = [None] * len(wanted)
        missing = {i for i, _ in enumerate(wanted)}
        current, attempt = self._tries, self._now

        def reply(place: int) -> Any:
            def tell(made: Any) -> None:
                if current != self._tries:
                    return
                outputs[place] = made
                missing.discard(place)
                if not missing:
                    self._advance(outputs)

            return tell

        def refused() -> None:
            if current == self._tries:
                self.fail()

        for place, (i, name, change) in enumerate(wanted):
            ps = self.world.tasks[i]

            def ask(ps: Ps = ps, lives: int = ps.lives, name: str = name, change: Any = change,
                    place: int = place) -> None:  # fmt: skip
                if ps.lives == lives and current == self._tries:
                    ps.run(attempt, name, change, reply(place), refused)  # type: ignore[arg-type]

            self.world.requests.append(ask)


class Chief(Client):
    """Closes rounds; in each new session it asks the accumulators which one to go on with."""

    def __init__(self, world: World) -> None:
        super().__init__(world, CHIEF, world.close_round)
        self._asks = True

    def named(self) -> StepAttempt:
        states = [ps.state[name] for ps in self.world.tasks for name in ("dense", "sparse")]
        if self._asks:
            self._asks = False
            self.step = round_to_close([state.global_step for state in states], 0)
            first = self.world.tasks[0]
            first._events = []
            self.chief = first.state["dense"].chief_arrived()
            first.send(first._events, lambda: None)
            first._events = None
        return StepAttempt(CHIEF, self.step, oldest_round(self.step), self.chief)

    def fail(self) -> None:
        self._asks = True
        super().fail()


def until_whole(world: World) -> None:
    """Lets everything happen that is under way, so that all tasks have applied the same rounds."""
    for _ in range(20_000):
        world.happen(0.0)
        applied = {len(ps.applied) for ps in world.tasks}
        if len(applied) == 1 and min(map(len, world.acknowledged.values())) > 3:
            return
    raise errors.DeadlineExceededError(None, None, "rounds are not closed any more")
