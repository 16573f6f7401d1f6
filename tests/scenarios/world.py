"""A cluster in one thread, with a fake clock and a network that can be cut.

Every decision is made by what a server uses: `Heartbeat`, `Membership`, `Doubt`, the `Mailbox` that
drops what comes too late, the accumulator and the queue of synchronous rounds. What is here is what
threads and sockets do around them: it delivers messages, lets time pass, and notes what happened.
The same seed gives the same story.

A synchronous step pushes to one ps after the other; each tells the first one, and when all have its
gradient it waits there for a token. The chief's step takes from all of them; each ps tells all, and
when all have, applies what was taken from it and tells the first one, which then counts the global
step up and hands out tokens. What a new session runs before its first step
(`SyncReplicasHook.after_create_session`) takes time, too, and can be interrupted.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from millrace.core import errors
from millrace.core.tensor_shape import TensorShape
from millrace.protocol.accumulator import DenseAccumulatorState, Take
from millrace.protocol.doubt import Doubt
from millrace.protocol.heartbeat import Heartbeat, Instruction, Settings, pause_seconds
from millrace.protocol.membership import Membership, Verdict
from millrace.protocol.queue import Dequeue, Enqueue, FifoQueueState
from millrace.runtime.mailbox import Mailbox

SETTINGS = Settings()
LATENCY = 0.01
COMPUTE = 0.4
PROBE_SECONDS = 0.2
RETRY = 0.5
#: The chief writes a checkpoint when the global step is a multiple of this.
SAVE_STEPS = 3
GONE = errors.UnavailableError(None, None, "gone")


class Message(NamedTuple):
    kind: str
    step: int = 0
    value: Any = None


EOF = Message("EOF")


class Link:
    """A connection between two lives of tasks."""

    def __init__(self, world: World, one: Task, other: Task) -> None:
        self._world = world
        self.ends = (one, other)
        self.open = {one: True, other: True}
        #: What is under way to each end.
        self.wire: dict[Task, list[Message]] = {one: [], other: []}

    def other(self, end: Task) -> Task:
        return self.ends[1] if end is self.ends[0] else self.ends[0]

    def send(self, sender: Task, message: Message) -> None:
        if self.open[sender]:
            self.wire[self.other(sender)].append(message)
            self._world.after(LATENCY, self.pump)

    def close(self, end: Task) -> None:
        """Closes one end; what it sent and is still under way is taken back."""
        if self.open[end]:
            self.open[end] = False
            self.wire[self.other(end)] = [EOF]
            self._world.after(LATENCY, self.pump)

    def pump(self) -> None:
        """Hands over what is under way; while the network is cut, it stays under way."""
        if self._world.is_cut(*self.ends):
            return
        for end in self.ends:
            arrived, self.wire[end] = self.wire[end], []
            if arrived and end.is_alive:
                end.inbox.extend((self, message) for message in arrived)
                end.wake()


class Task:
    """One life of a task."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.life = next(world.numbers)
        self.is_alive = True
        self.is_stopped = False
        #: The interpreter does nothing until then; connections are accepted.
        self.busy_until = 0.0
        #: Until then it may be given up although it is back: because of the time before.
        self.away_until = 0.0
        self.inbox: list[tuple[Link, Message]] = []
        self.links: list[Link] = []
        self._members = Membership()
        self._heartbeats: dict[str, Heartbeat] = {}
        self._doubt: Doubt[Link, Message] = Doubt()
        self._awake_at = world.now
        world.after(world.random.uniform(0, SETTINGS.interval), self._look)

    @property
    def is_running(self) -> bool:
        return self.is_alive and not self.is_stopped and self.world.now >= self.busy_until

    # -- What a server's threads do ----------------------------------------------------------

    def wake(self) -> None:
        while self.inbox and self.is_running:
            link, message = self.inbox.pop(0)
            self._check_pause()
            if not link.open[self]:
                continue
            if message is EOF:
                self._closed(link)
                continue
            peer = link.other(self).name
            if peer in self._heartbeats:
                self._heartbeats[peer].heard()
            if message.kind == "PING":
                link.send(self, Message("PONG", value=message.value))
            elif message.kind == "PONG":
                for kept in self._doubt.answered(link, message.value):
                    self.on_message(link, kept)
            elif not self._doubt.keeps(link, message, message.step, message.kind == "CANCEL"):
                self.on_message(link, message)

    def _check_pause(self) -> None:
        if self.world.now - self._awake_at >= pause_seconds(SETTINGS):
            number = self._doubt.begin(self.links)
            self._awake_at = self.world.now
            for link in self.links:
                link.send(self, Message("PING", value=number))

    def _look(self) -> None:
        if not self.is_alive:
            return
        self.world.after(SETTINGS.interval, self._look)
        if not self.is_running:
            return
        self._check_pause()
        self._awake_at = self.world.now
        needed = self.needed()
        self._heartbeats = {p: h for p, h in self._heartbeats.items() if p in needed}
        for peer in sorted(needed):
            links = [link for link in self.links if link.other(self).name == peer]
            if links:
                self._look_at(peer, links)

    def _look_at(self, peer: str, links: list[Link]) -> None:
        heartbeat = self._heartbeats.setdefault(peer, Heartbeat(SETTINGS, self.world.now))
        for instruction in heartbeat.look(self.world.now):
            if instruction is Instruction.PING:
                links[0].send(self, Message("PING", value=0))
            elif instruction is Instruction.PROBE:
                reached = self.world.is_reachable(self, peer)
                seconds = PROBE_SECONDS if reached else SETTINGS.silence / 2
                self.world.after(seconds, functools.partial(heartbeat.probed, reached))
            elif instruction is Instruction.LOSE:
                self.world.say(f"{self.name} gives up {peer}")
                self.world.check(
                    not self.world.was_there(self, peer),
                    f"{self.name} gave up {peer}, which was there",
                )
                self.lose(peer)

    def lose(self, peer: str) -> None:
        for link in [link for link in self.links if link.other(self).name == peer]:
            link.close(self)
            self._closed(link)

    def _closed(self, link: Link) -> None:
        if link in self.links:
            link.close(self)
            self.links.remove(link)
            self._doubt.closed(link)
            peer = link.other(self).name
            self._members.lost(peer)
            self.on_lost(peer)

    def meet(self, other: Task) -> Verdict:
        """Another task introduces itself; one that was replaced is refused."""
        verdict = self._members.met(other.name, other.life)
        if verdict is Verdict.RESTARTED:
            for link in [each for each in self.links if each.other(self).name == other.name]:
                self._closed(link)
        return verdict

    # -- What tasks do differently -----------------------------------------------------------

    def needed(self) -> set[str]:
        raise NotImplementedError

    def on_message(self, link: Link, message: Message) -> None:
        raise NotImplementedError

    def on_lost(self, peer: str) -> None:
        raise NotImplementedError


class Ps(Task):
    """Keeps the model, and applies gradients."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.sessions: dict[int, str] = {}
        self.running: dict[int, str] = {}
        self.mailbox = Mailbox()
        self.has_model = False
        #: What the global step says; the first ps has it.
        self.global_step = 0
        #: How many rounds this ps has applied to its variables.
        self.version = 0
        #: The gradients of the round: who computed them, of which batch, at which step; and those
        #: of all rounds since the model was last restored.
        self.round: list[tuple[str, int, int]] = []
        self.counted: set[tuple[str, int, int]] = set()
        self.accumulator = DenseAccumulatorState(name, TensorShape([]), False)
        self.tokens = FifoQueueState(name, -1)
        #: The gradients that a step has taken, until it applies them; and which ps have taken.
        self.taken: dict[int, tuple[Link, list[tuple[str, int, int]]]] = {}
        self.all_taken: dict[int, set[str]] = {}
        #: Of the first ps: which ps have done their part of a step, and what comes after it.
        self.parts_done: dict[int, set[str]] = {}
        self.next_part: dict[int, tuple[Link, Callable[[Link, int], None]]] = {}
        #: What a step waits for in the accumulator or in the queue.
        self.waiting: dict[int, Take | Dequeue] = {}

    def needed(self) -> set[str]:
        return set(self.running.values())

    def on_lost(self, peer: str) -> None:
        for step in [s for s, worker in self.running.items() if worker == peer]:
            self._end(step, GONE)
        self.sessions = {s: worker for s, worker in self.sessions.items() if worker != peer}

    def on_message(self, link: Link, message: Message) -> None:
        step, worker = message.step, link.other(self).name
        if message.kind == "GRADIENT":
            self.mailbox.deliver(step, 0, [message.value], worker)
        elif message.kind == "CANCEL":
            self._end(step, errors.CancelledError(None, None, "cancelled"))
        elif self.sessions.get(message.value) != worker:
            link.send(self, Message("ABORTED", step))
        elif message.kind == "RUN":
            self.running[step] = worker
            link.send(self, Message("VARIABLES", step, self.global_step))
            wanted: Any = self.mailbox.take(step, 0, "a gradient")
            if isinstance(wanted, list):
                self._apply(link, step, wanted[0])
            else:
                wanted.add_callback(
                    lambda d: None if d.failed else self._apply(link, step, d.result()[0])
                )
        elif message.kind == "CLOSE":
            self.running[step] = worker
            self._wait(step, link, self.accumulator, Take(self.world.workers))

    def _apply(self, link: Link, step: int, gradient: tuple[int, int]) -> None:
        self.world.applied(self, step)
        if not self.world.sync:
            self.global_step += 1
            self._done(link, step)
            return
        worker, (local_step, batch) = link.other(self).name, gradient
        before = self.accumulator.count
        settled = self.accumulator.apply(np.array(1.0), local_step, worker)
        if settled or self.accumulator.count > before:
            self.round.append((worker, batch, local_step))
        self._tell_first(link, step, self._wait_for_token)
        self._settle(settled)

    def _wait(self, step: int, link: Link, state: Any, attempt: Take | Dequeue) -> None:
        attempt.waiter = (link, step)
        self.waiting[step] = attempt
        self._settle(state.submit(attempt))

    def _settle(self, settled: list[Any]) -> None:
        for attempt in settled:
            if attempt.waiter is None:
                continue
            link, step = attempt.waiter
            self.waiting.pop(step, None)
            try:
                value = attempt.result()
            except errors.OpError:
                continue
            if isinstance(attempt, Take):
                self.taken[step] = (link, self.round)
                self.round = []
                self.world.check(value == len(self.taken[step][1]), "a gradient that was lost")
                self.world.reached(link.other(self), "taken")
                for ps in self.world.all_ps():
                    self.world.after(LATENCY, functools.partial(ps._has_taken, step, self.name))
            else:
                self._done(link, step, value[0][0])

    def _tell_first(self, link: Link, step: int, then: Callable[[Link, int], None]) -> None:
        """This ps has done its part; the first one goes on with a step when all have."""
        first = self.world.all_ps()[0]
        if self is first:
            self.next_part[step] = (link, then)
            self._go_on(step, self.name)
        else:
            self.world.after(LATENCY, lambda: first._go_on(step, self.name))
            self._done(link, step)

    def _go_on(self, step: int, name: str) -> None:
        if not self.is_alive:
            return
        if not self.is_running:
            self.world.after(0.05, lambda: self._go_on(step, name))
            return
        there = self.parts_done.setdefault(step, set())
        there.add(name)
        if step in self.running and len(there) == len(self.world.all_ps()):
            link, then = self.next_part[step]
            then(link, step)

    def _wait_for_token(self, link: Link, step: int) -> None:
        self._wait(step, link, self.tokens, Dequeue(1))

    def _has_taken(self, step: int, name: str) -> None:
        """A ps has taken its gradients; when all have, this one applies its own."""
        if not self.is_alive:
            return
        if not self.is_running:
            self.world.after(0.05, lambda: self._has_taken(step, name))
            return
        there = self.all_taken.setdefault(step, set())
        there.add(name)
        if step in self.running and len(there) == len(self.world.all_ps()):
            link, found = self.taken.pop(step)
            self.accumulator.will_apply()
            self._close(found)
            self.world.reached(link.other(self), "applied")
            self._tell_first(link, step, self._commit)

    def _close(self, found: list[tuple[str, int, int]]) -> None:
        """The gradients of a round are applied."""
        self.version += 1
        self.world.check(len(found) >= self.world.workers, f"a round of {len(found)}: {found}")
        for gradient in found:
            self.world.check(
                gradient not in self.counted, f"{self.name} counted a gradient twice: {gradient}"
            )
            self.counted.add(gradient)

    def _commit(self, link: Link, step: int) -> None:
        """All ps have applied the round."""
        self.global_step += 1
        self.world.check(
            all(ps.version == self.global_step for ps in self.world.all_ps() if ps.is_alive),
            f"step {self.global_step} is not what every ps has applied: "
            f"{[ps.version for ps in self.world.all_ps()]}",
        )
        self.world.say(f"{self.name} is at step {self.global_step}")
        if self.global_step % SAVE_STEPS == 0:
            self.world.checkpoint = self.global_step
        self._done(link, step)
        tokens = [(self.global_step,)] * self.world.workers
        self._settle(self.tokens.submit(Enqueue(tokens)))

    def _done(self, link: Link, step: int, value: int = 0) -> None:
        self._end(step, None)
        link.send(self, Message("DONE", step, value))

    def _end(self, step: int, error: errors.OpError | None) -> None:
        self.running.pop(step, None)
        self.mailbox.end(step, error)
        attempt = self.waiting.pop(step, None)
        if attempt is not None:
            state: Any = self.accumulator if isinstance(attempt, Take) else self.tokens
            self._settle(state.cancel(attempt))

    def restore(self, global_step: int) -> None:
        """The chief puts the model back to a checkpoint."""
        self.global_step = self.version = global_step
        self.has_model = True

    # -- What `SyncReplicasHook` runs in a new session -----------------------------------------

    def begin_round(self, step: int) -> None:
        self.accumulator.begin_round(step)
        self.round.clear()
        # Steps have the same numbers again.
        self.counted = {gradient for gradient in self.counted if gradient[2] < step}

    def drop_tokens(self) -> None:
        if len(self.tokens):
            self.tokens.submit(Dequeue(len(self.tokens)))

    def put_tokens(self, count: int) -> None:
        self._settle(self.tokens.submit(Enqueue([(self.global_step,)] * count)))


class Worker(Task):
    """Runs steps one after the other; the chief also makes the model ready and closes rounds."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.is_chief = name == "worker0"
        self.session = 0
        self.local_step = 0
        self.completed = 0
        #: What it computes: the same again when a step has failed.
        self.batch = next(world.numbers)
        #: Ps that have not sent variables, or answered; by step.
        self.missing: dict[int, set[str]] = {}
        self.closing = 0
        #: What the first ps answered last.
        self._token = 0
        self._lives: dict[str, int] = {}
        self.begin()

    def needed(self) -> set[str]:
        return set().union(*self.missing.values()) if self.missing else set()

    def begin(self) -> None:
        """Makes a session, as soon as every ps can be reached and has a model."""
        if not self.is_alive or self.session:
            return
        if not self.is_running or not self._open():
            self.world.after(RETRY, self.begin)
            return
        for ps in self.world.all_ps():
            ps.sessions[self.session] = self.name
        if self.world.sync:
            self._prepare(self.session, self._chief_begins() if self.is_chief else self._returns())
        else:
            self._train()

    def _prepare(self, session: int, calls: list[Callable[[], None]]) -> None:
        """Runs what comes before the first step; begins anew if a ps is not there."""
        if not self.is_alive or self.session != session:
            return
        everywhere = self.world.all_ps()
        if not self.is_running:
            self.world.after(0.05, lambda: self._prepare(session, calls))
        elif not all(
            ps.is_running and not self.world.is_cut(self, ps) and ps.sessions.get(session)
            for ps in everywhere
        ):
            self._fail("a ps is not there")
        elif calls:
            calls[0]()
            self.world.after(LATENCY, lambda: self._prepare(session, calls[1:]))
        else:
            self._train()

    def _chief_begins(self) -> list[Callable[[], None]]:
        everywhere = self.world.all_ps()
        first = everywhere[0]
        begins = [functools.partial(self._begin_round, ps) for ps in everywhere]
        return [*begins, first.drop_tokens, lambda: first.put_tokens(self.world.workers)]

    def _begin_round(self, ps: Ps) -> None:
        ps.begin_round(self.world.all_ps()[0].global_step)

    def _returns(self) -> list[Callable[[], None]]:
        everywhere = self.world.all_ps()
        repeats: list[bool] = []
        announce = [
            lambda ps=ps: repeats.append(ps.accumulator.begins_anew(self.name)) for ps in everywhere
        ]
        return [*announce, lambda: everywhere[0].put_tokens(int(any(repeats)))]

    def _train(self) -> None:
        self.world.say(f"{self.name} has a session")
        self.local_step = self.world.all_ps()[0].global_step
        self._run()
        if self.is_chief and self.world.sync:
            self._close_round()

    def _open(self) -> bool:
        everywhere = self.world.all_ps()
        if not all(ps.is_running and not self.world.is_cut(self, ps) for ps in everywhere):
            return False
        lives = {ps.name: ps.life for ps in everywhere}
        is_whole = all(
            not self.world.sync or ps.accumulator.applied_step <= everywhere[0].global_step
            for ps in everywhere
        )
        has_model = all(ps.has_model for ps in everywhere)
        if self.is_chief and not (lives == self._lives and has_model and is_whole):
            for ps in everywhere:
                ps.restore(self.world.checkpoint)
            self.world.say(f"{self.name} restores step {self.world.checkpoint}")
            self._lives = lives
        if not all(ps.has_model for ps in everywhere):
            return False
        for ps in everywhere:
            if not any(link.other(self) is ps for link in self.links):
                link = Link(self.world, self, ps)
                for end, other in ((self, ps), (ps, self)):
                    self.world.check(
                        end.meet(other) is not Verdict.REFUSED, f"{end.name} refused {other.name}"
                    )
                for end in (self, ps):
                    end.links.append(link)
        self.session = next(self.world.numbers)
        return True

    def _link(self, name: str) -> Link | None:
        return next((link for link in self.links if link.other(self).name == name), None)

    def _post(self, kind: str, step: int, value: Any = None) -> None:
        for ps in self.world.all_ps():
            self._send(ps, kind, step, value)

    def _send(self, ps: Ps, kind: str, step: int, value: Any = None) -> None:
        link = self._link(ps.name)
        if link is not None:
            link.send(self, Message(kind, step, self.session if value is None else value))

    def _run(self) -> None:
        step = next(self.world.numbers)
        self.missing[step] = {ps.name for ps in self.world.all_ps()}
        self.world.reached(self, "run")
        self._post("RUN", step)

    def _close_round(self) -> None:
        self.closing = next(self.world.numbers)
        self.missing[self.closing] = {ps.name for ps in self.world.all_ps()}
        self._post("CLOSE", self.closing)

    def on_message(self, link: Link, message: Message) -> None:
        missing = self.missing.get(message.step)
        if missing is None:
            return
        if message.kind == "ABORTED":
            self._fail("aborted")
            return
        missing.discard(link.other(self).name)
        from_first = link.other(self) is self.world.all_ps()[0]
        if message.kind == "DONE" and from_first and message.step != self.closing:
            self._token = message.value
        if message.kind == "VARIABLES" and not missing:
            missing.update(ps.name for ps in self.world.all_ps())
            self.world.reached(self, "variables")
            self.world.after(COMPUTE, lambda: self._computed(message.step))
        elif message.kind == "DONE" and not missing:
            del self.missing[message.step]
            if message.step == self.closing:
                self._close_round()
                return
            self.completed += 1
            self.batch = next(self.world.numbers)
            self.local_step = self._token
            self.world.reached(self, "done")
            self._run()

    def _computed(self, step: int) -> None:
        if not self.is_alive or step not in self.missing:
            return
        if not self.is_running:
            self.world.after(0.05, lambda: self._computed(step))
            return
        self.world.reached(self, "gradient")
        gradient = (self.local_step, self.batch)
        if not self.world.sync:
            self._post("GRADIENT", step, gradient)
            return
        order = self.world.all_ps()
        self.world.random.shuffle(order)
        self._push(step, gradient, order)

    def _push(self, step: int, gradient: tuple[int, int], order: list[Ps]) -> None:
        """Sends a gradient to the first of these, and a little later to the next."""
        if not self.is_alive or step not in self.missing or not order:
            return
        if self.is_running:
            self._send(order.pop(0), "GRADIENT", step, gradient)
            self.world.reached(self, "push")
        self.world.after(2 * LATENCY, lambda: self._push(step, gradient, order))

    def on_lost(self, peer: str) -> None:
        self.world.failed.update((peer, step) for step in self.missing)
        if self.session:
            self._fail(f"lost {peer}")

    def _fail(self, why: str) -> None:
        """A step has failed: its session is given up, and a new one is made."""
        self.world.say(f"{self.name}: a step fails, {why}")
        for step in list(self.missing):
            self._post("CANCEL", step)
        self.missing.clear()
        for ps in self.world.all_ps():
            if ps.is_running and not self.world.is_cut(self, ps):
                ps.sessions.pop(self.session, None)
        self.session = 0
        self.world.after(LATENCY, self.begin)


class World:
    """The cluster, the time and the faults."""

    def __init__(self, ps: int, workers: int, sync: bool, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.numbers = itertools.count(1)
        self.sync = sync
        self.workers = workers
        self.trace: list[str] = []
        #: Steps that failed because the worker gave a ps up, and that ps.
        self.failed: set[tuple[str, int]] = set()
        self.checkpoint = 0
        self._applied: set[tuple[str, int]] = set()
        self._cut: set[frozenset[str]] = set()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._at: dict[tuple[str, str], list[Callable[[], None]]] = {}
        self.tasks: dict[str, Any] = {}
        for i in range(ps):
            self.tasks[f"ps{i}"] = Ps(self, f"ps{i}")
        for i in range(workers):
            self.tasks[f"worker{i}"] = Worker(self, f"worker{i}")

    # -- Time --------------------------------------------------------------------------------

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self.now + seconds, next(self.numbers), call))

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Lets time pass; whether the condition came to hold."""
        end = self.now + seconds
        while self._agenda and self._agenda[0][0] <= end:
            if until():
                return True
            self.now, _, call = heapq.heappop(self._agenda)
            call()
        self.now = end
        return until()

    # -- What tasks ask and tell -------------------------------------------------------------

    def all_ps(self) -> list[Ps]:
        return [task for task in self.tasks.values() if isinstance(task, Ps)]

    def is_cut(self, one: Task, other: Task) -> bool:
        return frozenset((one.name, other.name)) in self._cut

    def is_reachable(self, one: Task, name: str) -> bool:
        other = self.tasks[name]
        return other.is_alive and not other.is_stopped and not self.is_cut(one, other)

    def was_there(self, one: Task, name: str) -> bool:
        """Whether a task that was given up was at its place all the time that it was silent."""
        other = self.tasks[name]
        return self.is_reachable(one, name) and self.now > other.away_until

    def applied(self, ps: Ps, step: int) -> None:
        self.check((ps.name, step) not in self._applied, f"{ps.name} applied step {step} twice")
        self.check(
            (ps.name, step) not in self.failed,
            f"{ps.name} applied step {step}, whose worker had given it up",
        )
        self._applied.add((ps.name, step))
        if not self.sync and ps.name == "ps0" and ps.global_step % SAVE_STEPS == 0:
            self.checkpoint = ps.global_step

    def check(self, holds: bool, what: str) -> None:
        assert holds, "\n".join([*self.trace, f"{self.now:.2f} WRONG: {what}"])

    def say(self, what: str) -> None:
        self.trace.append(f"{self.now:6.2f} {what}")

    def reached(self, worker: Worker, point: str) -> None:
        for fault in self._at.pop((worker.name, point), []):
            # The message of this point is sent, and then it happens.
            self.after(LATENCY / 2, fault)

    # -- Faults ------------------------------------------------------------------------------

    def at(self, worker: str, point: str, fault: Callable[[], None]) -> None:
        """Lets a fault happen when a worker next reaches a point of a step."""
        self._at.setdefault((worker, point), []).append(fault)

    def forget_faults(self) -> None:
        """What has not happened yet does not."""
        self._at.clear()
        self.run(LATENCY)

    def stop(self, name: str) -> None:
        self.say(f"-- stop {name}")
        self.tasks[name].is_stopped = True
        self.tasks[name].away_until = math.inf

    def resume(self, name: str) -> None:
        self.say(f"-- continue {name}")
        task = self.tasks[name]
        task.is_stopped = False
        task.away_until = self.now + 2 * SETTINGS.silence
        task.wake()

    def busy(self, name: str, seconds: float) -> None:
        self.say(f"-- busy {name}")
        task = self.tasks[name]
        task.busy_until = self.now + seconds
        self.after(seconds, task.wake)

    def kill(self, name: str) -> None:
        self.say(f"-- kill {name}")
        task = self.tasks[name]
        task.is_alive = False
        for link in list(task.links):
            link.close(task)

    def restart(self, name: str) -> None:
        self.say(f"-- restart {name}")
        old = self.tasks[name]
        self.tasks[name] = type(old)(self, name)
        self.tasks[name].completed = getattr(old, "completed", 0)

    def cut(self, one: str, other: str) -> None:
        self.say(f"-- cut {one} {other}")
        self._cut.add(frozenset((one, other)))
        for name in (one, other):
            self.tasks[name].away_until = math.inf

    def mend(self, one: str, other: str) -> None:
        self.say(f"-- mend {one} {other}")
        self._cut.discard(frozenset((one, other)))
        for task in (self.tasks[one], self.tasks[other]):
            if not task.is_stopped:
                task.away_until = self.now + 2 * SETTINGS.silence
            for link in list(task.links):
                link.pump()
        # Ends that were closed while the network was cut are told now.
        for link in {link for task in self.tasks.values() for link in task.links}:
            link.pump()
