"""A task of a scenario: the state machines that a server runs, over the links of a fake world.

Whether a task is there, what is believed of it, what happens to a step and which message says so is
decided by what ships: `Heartbeat`, `Membership`, `Doubt`, `MasterStep`, `TaskSteps` and the codec
of messages. Here instructions are performed as a server's drivers do it, without threads: what a
partition computes is a generator, which yields what it waits for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from world import CLOSED, SETTINGS, Link, World

from millrace.core import errors
from millrace.protocol.doubt import Doubt
from millrace.protocol.heartbeat import Heartbeat, Instruction, pause_seconds
from millrace.protocol.membership import Membership, Verdict
from millrace.protocol.step import events, instructions
from millrace.protocol.step.master import MasterStep
from millrace.protocol.step.remote_partitions import RemotePartitions
from millrace.protocol.step.worker import TaskSteps
from millrace.rpc.message import Kind, Message
from millrace.server.drivers import wire

PROBE_SECONDS = 0.2
#: Variables are told to be in shared memory by this, where tasks share some.
_LOCATION = b"shared"


# -- What a partition may yield --------------------------------------------------------------


class Receive(NamedTuple):
    """Wait for values."""

    key: int


class Send(NamedTuple):
    """Send values to a task."""

    to: str
    key: int
    values: list[Any]


class Compute(NamedTuple):
    """Take some time."""

    seconds: float


class Await(NamedTuple):
    """Wait for an attempt at a queue or an accumulator; what settles others is told to `settle`."""

    state: Any
    attempt: Any


Program = Callable[["Task", int], Generator[Any, Any, list[Any]]]


class Graph(NamedTuple):
    """A partition that is registered with a task: what the rules know of it, and what it does."""

    facts: events.PartitionFacts
    program: Program
    #: Its variables, by the key of what can be asked for.
    variables: Mapping[int, Callable[[], Any]] = MappingProxyType({})


class Run:
    """One run of a partition."""

    def __init__(
        self, task: Task, step: int, program: Program, over: Callable[..., None], master: Any = None
    ) -> None:
        self.task = task
        self.step = step
        self.master = master
        self._over = over
        self._work = program(task, step)
        self._attempt: Any = None
        self._state: Any = None
        self._is_over = False
        self._error: errors.OpError | None = None

    def go(self, value: Any = None) -> None:
        """Goes on until something has to wait; later, if the task does not run now."""
        task = self.task
        if self._is_over or not task.is_alive:
            return
        if not task.is_running:
            task.world.after(0.05, lambda: self.go(value))
            return
        try:
            while True:
                if self._error is not None:
                    raise self._error
                wanted = self._work.send(value)
                if isinstance(wanted, Compute):
                    task.world.after(wanted.seconds, self.go)
                    return
                if isinstance(wanted, Await):
                    self._state, self._attempt = wanted
                    self._attempt.waiter = self
                    task.settle(self._state.submit(self._attempt), self)
                    return
                if isinstance(wanted, Send):
                    made = events.ValuesMade(self.step, wanted.to, wanted.key, b"", wanted.values)
                    task.perform((self.master or task.partitions).on(made), self.master)
                    value = None
                    continue
                found = task.wants(self.step, wanted.key, self)
                if found is None:
                    return
                value = found
        except StopIteration as stop:
            self._end(stop.value or [], None)
        except errors.OpError as error:
            self._end([], error)

    def _end(self, values: list[Any], error: errors.OpError | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._over(values, error)

    def cancel(self, error: errors.OpError) -> None:
        """Ends it, whatever it waits for."""
        if self._error is None:
            self._error = error
            if self._attempt is not None and not self._attempt.done:
                self.task.settle(self._state.cancel(self._attempt), self)
            self._end([], error)


class Task:
    """One incarnation of a task.

    Args:
      world: Where it is.
      name: Its name, which is its address too.
      make: Makes what a restarted process of the same name does.
    """

    def __init__(self, world: World, name: str, make: Callable[[Task], Any]) -> None:
        self.world = world
        self.name = name
        self.incarnation = next(world.numbers)
        self.is_alive = True
        self.is_stopped = False
        #: The interpreter does nothing until then; connections are accepted.
        self.busy_until = 0.0
        #: Until then it may be given up although it is back: because of the time before.
        self.away_until = 0.0
        self.inbox: list[tuple[Link, Message | None]] = []
        self.links: list[Link] = []
        self._members = Membership()
        self._heartbeats: dict[str, Heartbeat] = {}
        self._doubt: Doubt[Link, Message] = Doubt()
        self._awake_at = world.now
        self.partitions = TaskSteps(name)
        self.masters: dict[int, MasterStep] = {}
        self.graphs: dict[int, Graph] = {}
        #: The sessions of other tasks' masters, and whose they are.
        self.sessions: dict[str, str] = {}
        self._runs: dict[int, Run] = {}
        self._waits: dict[tuple[int, Any], Run] = {}
        self._replies: dict[int, Callable[[list[Any], errors.OpError | None], None]] = {}
        #: Variables in shared memory, by their key; and those that others were told of.
        self.snapshots: dict[int, Any] = {}
        self._published: dict[int, Callable[[], Any]] = {}
        self._make = make
        world.after(world.random.uniform(0, SETTINGS.interval), self._look)
        self.program = make(self)

    def restarted(self) -> Task:
        return Task(self.world, self.name, self._make)

    @property
    def is_running(self) -> bool:
        return self.is_alive and not self.is_stopped and self.world.now >= self.busy_until

    # -- Links, heartbeats, doubt --------------------------------------------------------------

    def wake(self) -> None:
        while self.inbox and self.is_running:
            link, message = self.inbox.pop(0)
            self._check_pause()
            if not link.open[self]:
                continue
            if message is CLOSED:
                self._closed(link)
                continue
            peer = link.other(self).name
            if peer in self._heartbeats:
                self._heartbeats[peer].heard()
            if message.kind is Kind.PING:
                link.send(self, Message(Kind.PONG, key=message.key))
            elif message.kind is Kind.PONG:
                for kept in self._doubt.answered(link, message.key):
                    self._on_message(link, kept)
            elif not self._doubt.keeps(link, message, message.step, message.kind is Kind.CANCEL):
                self._on_message(link, message)

    def _check_pause(self) -> None:
        if self.world.now - self._awake_at >= pause_seconds(SETTINGS):
            number = self._doubt.begin(self.links)
            self._awake_at = self.world.now
            for link in self.links:
                link.send(self, Message(Kind.PING, key=number))

    def _look(self) -> None:
        if not self.is_alive:
            return
        self.world.after(SETTINGS.interval, self._look)
        if not self.is_running:
            return
        self._check_pause()
        self._awake_at = self.world.now
        needed = self.partitions.needed() | {*self.sessions.values()}
        for step in self.masters.values():
            needed |= {*step.waiting}
        self._heartbeats = {p: h for p, h in self._heartbeats.items() if p in needed}
        for peer in sorted(needed):
            links = [link for link in self.links if link.other(self).name == peer]
            if links:
                self._look_at(peer, links)

    def _look_at(self, peer: str, links: list[Link]) -> None:
        heartbeat = self._heartbeats.setdefault(peer, Heartbeat(SETTINGS, self.world.now))
        for instruction in heartbeat.look(self.world.now):
            if instruction is Instruction.PING:
                links[0].send(self, Message(Kind.PING))
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
                for link in links:
                    link.close(self)
                    self._closed(link)

    def _closed(self, link: Link) -> None:
        if link not in self.links:
            return
        link.close(self)
        self.links.remove(link)
        self._doubt.closed(link)
        peer = link.other(self).name
        self._members.lost(peer)
        lost = errors.UnavailableError(None, None, f"{peer} is gone.")
        for step in list(self.masters.values()):
            self.perform(step.on(events.PeerLost(peer, lost)), step)
        self.perform(self.partitions.on(events.PeerLost(peer, lost)))
        for session in [s for s, master in self.sessions.items() if master == peer]:
            self.close_session(session)
        self.program.on_lost(peer)

    def close_session(self, session: str) -> None:
        """Forgets a session, its graphs and its steps."""
        self.sessions.pop(session, None)
        self.graphs = {n: g for n, g in self.graphs.items() if g.facts.session != session}
        closed = errors.CancelledError(None, None, "Session has been closed.")
        self.perform(self.partitions.on(events.SessionClosed(session, closed)))

    def connect(self, other: Task) -> Link:
        """The link to another task; makes one if there is none."""
        for link in self.links:
            if link.other(self) is other:
                return link
        link = Link(self.world, self, other)
        for end, met in ((self, other), (other, self)):
            verdict = end._members.met(met.name, met.incarnation)
            self.world.check(verdict is not Verdict.REFUSED, f"{end.name} refused {met.name}")
            if verdict is Verdict.RESTARTED:
                for old in [each for each in end.links if each.other(end).name == met.name]:
                    end._closed(old)
            end.links.append(link)
        return link

    def _send(self, peer: str, message: Message) -> bool:
        for link in self.links:
            if link.other(self).name == peer:
                return link.send(self, message)
        return False

    # -- Messages --------------------------------------------------------------------------------

    def _on_message(self, link: Link, message: Message) -> None:
        step, peer = message.step, link.other(self).name
        if message.kind in (Kind.RUN, Kind.REPEAT):
            self._on_run(link, message, peer)
        elif message.kind is Kind.READ:
            self._on_read(link, message, peer)
        elif message.kind in (Kind.TENSORS, Kind.PUBLISHED):
            master = self.masters.get(step)
            if message.kind is Kind.PUBLISHED and master is not None:
                self.perform(master.on(events.VariablesPublished(message.key)), master)
            arrived = events.ValuesArrived(step, message.key, message.tensors, peer)
            self.perform(self.partitions.on(arrived))
        elif message.kind is Kind.DONE:
            master = self.masters.get(step)
            if master is not None:
                error = wire.error_of(message) if message.key else None
                done = events.PartitionFinished(step, peer, message.tensors, error)
                self.perform(master.on(done), master)
        elif message.kind is Kind.CANCEL:
            self.perform(self.partitions.on(events.Cancelled(step, wire.error_of(message))))
        elif message.kind is Kind.LAST_ROUND:
            self.perform(self.partitions.on(events.LastRoundRequested(step)))

    def _on_run(self, link: Link, message: Message, peer: str) -> None:
        step, graph = message.step, self.graphs.get(message.key)

        def reply(values: list[Any], error: errors.OpError | None) -> None:
            end = wire.end(step, error)
            end.tensors = list(values)
            link.send(self, end)

        event: Any
        if graph is None:
            event = events.RunRefused(step, errors.AbortedError(None, None, "not found"))
        elif message.kind is Kind.REPEAT:
            event = events.RepetitionRequested(step, peer, graph.facts)
        else:
            first = wire.run_request(message).first
            event = events.RunRequested(step, peer, graph.facts, first, is_quick=True)
        for instruction in self.partitions.on(event):
            if isinstance(instruction, instructions.Refuse):
                reply([], instruction.error)
                continue
            if isinstance(instruction, instructions.Execute):
                assert graph is not None
                self._replies[step] = reply
                self._programs_of(step, graph.program)
            self.perform([instruction])

    def _programs_of(self, step: int, program: Program) -> None:
        def start() -> Run:
            def over(values: list[Any], error: errors.OpError | None) -> None:
                self._runs.pop(step, None)
                done = events.PartitionFinished(step, values=values, error=error)
                self.perform(self.partitions.on(done))

            return Run(self, step, program, over)

        self._starts = {**getattr(self, "_starts", {}), step: start}

    def _on_read(self, link: Link, message: Message, peer: str) -> None:
        graph, key = self.graphs.get(message.key), wire.key_to_read(message)
        if graph is None:
            link.send(self, wire.end(message.step, errors.AbortedError(None, None, "not found")))
            return
        read = graph.variables[key]
        location = b""
        if self.program.shares_memory:
            location = _LOCATION
            self._published[key] = read
        event = events.VariablesRead(message.step, peer, key, [read()], location)
        self.perform(self.partitions.on(event))

    # -- Instructions ----------------------------------------------------------------------------

    def perform(self, found: Sequence[Any], master: MasterStep | None = None) -> None:
        """Performs instructions, as a server's drivers do."""
        for instruction in found:
            PERFORM[type(instruction)](self, instruction, master)

    def wants(self, step: int, key: int, run: Run) -> list[Any] | None:
        """The values that a partition waits for, if they are there."""
        if run.master is not None:
            for instruction in run.master.on(events.ValuesWanted(step, key)):
                if isinstance(instruction, instructions.ReadPublished):
                    peer = self.world.tasks[instruction.partition.peer]
                    if peer.is_alive and key in peer.snapshots:
                        return [peer.snapshots[key]]
                    missed = run.master.on(events.SnapshotMissed(key, True))
                    self.perform(missed, run.master)
                else:
                    self.perform([instruction], run.master)
        for told in self.partitions.on(events.ValuesWanted(step, key)):
            if isinstance(told, instructions.Deliver):
                return list(told.values)
            raise told.error
        self._waits[step, key] = run
        return None

    def _post(self, peer: str, message: Message, master: MasterStep | None) -> None:
        if not self._send(peer, message) and master is not None and peer in master.waiting:
            lost = errors.UnavailableError(None, None, f"{peer} cannot be reached.")
            done = events.PartitionFinished(master.number, peer, error=lost)
            self.perform(master.on(done), master)

    def _send_run(self, i: instructions.SendRun, master: MasterStep | None) -> None:
        self._post(i.partition.peer, wire.run(i, wire.RunContext(())), master)

    def _send_read(self, i: instructions.SendRead, master: MasterStep | None) -> None:
        self._post(i.partition.peer, wire.read(i), master)

    def _send_repeat(self, i: instructions.SendRepeat, master: MasterStep | None) -> None:
        self._post(i.partition.peer, wire.repeat(i), master)

    def _send_last(self, i: instructions.SendLastRound, master: MasterStep | None) -> None:
        self._post(i.partition.peer, wire.last_round(i), master)

    def _send_cancel(self, i: instructions.SendCancel, master: MasterStep | None) -> None:
        self._post(i.to, wire.cancel(i), master)

    def _send_values(self, i: instructions.SendValues, master: MasterStep | None) -> None:
        if not self._send(i.to, wire.values(i)):
            raise errors.UnavailableError(None, None, f"{i.to} cannot be reached.")

    def _send_variables(self, i: instructions.SendVariables, master: MasterStep | None) -> None:
        self._send(i.to, wire.variables(i))

    def _send_lost(self, i: instructions.SendLost, master: MasterStep | None) -> None:
        self._send(i.to, wire.end(i.step, i.error))

    def _execute(self, i: instructions.Execute, master: MasterStep | None) -> None:
        run = self._runs[i.step] = self._starts[i.step]()
        run.go()

    def _read_published(self, i: instructions.ReadPublished, master: MasterStep | None) -> None:
        raise AssertionError("it is performed where its values are wanted")

    def _deliver(self, i: instructions.Deliver, master: MasterStep | None) -> None:
        if master is not None:
            self.perform(self.partitions.on(events.ValuesArrived(*i)))
        else:
            self._waits.pop((i.step, i.key)).go(list(i.values))

    def _end_wait(self, i: instructions.EndWait, master: MasterStep | None) -> None:
        self._waits.pop((i.step, i.key)).cancel(i.error)

    def _cancel(self, i: instructions.Cancel, master: MasterStep | None) -> None:
        if master is not None:
            self.perform(self.partitions.on(events.Cancelled(*i)))
        elif i.step in self._runs:
            self._runs[i.step].cancel(i.error)

    def _publish(self, i: instructions.Publish, master: MasterStep | None) -> None:
        for key, read in self._published.items():
            self.snapshots[key] = read()

    def _hold(self, i: instructions.Hold, master: MasterStep | None) -> None:
        # Tasks with standbys have stories of their own (`replication/`).
        self.perform(i.instructions, master)

    def _await_stop(self, i: instructions.AwaitStop, master: MasterStep | None) -> None:
        assert master is not None

        def passed() -> None:
            if self.is_alive and not master.is_over:
                self.perform(master.on(events.DeadlinePassed(i.step)), master)

        self.world.after(i.seconds, passed)

    def _answer(self, i: Any, master: MasterStep | None) -> None:
        error = i.error if isinstance(i, instructions.Fail) else None
        self._starts.pop(i.step, None)
        if master is not None:
            del self.masters[i.step]
            self.perform(self.partitions.on(events.StepEnded(i.step, error)))
        self._replies.pop(i.step)(list(getattr(i, "values", ())), error)

    def settle(self, settled: list[Any], now: Run) -> None:
        """Lets those go on whose attempts at queues and accumulators are over."""
        for attempt in settled:
            run = attempt.waiter
            if run is not None:
                try:
                    value = attempt.result()
                except errors.OpError as error:
                    run.cancel(error)
                    continue
                self.world.after(0.0, functools.partial(run.go, value))

    # -- The master's side -----------------------------------------------------------------------

    def begin_step(
        self,
        partitions: RemotePartitions,
        home: Program | None,
        over: Callable[[MasterStep, errors.OpError | None], None],
    ) -> MasterStep:
        """Begins a step of this task's own master; without a home partition, a repeated one."""
        number = next(self.world.numbers)
        master = self.masters[number] = MasterStep(number, partitions)

        def answered(values: list[Any], error: errors.OpError | None) -> None:
            over(master, error)

        self._replies[number] = answered
        self.perform(
            self.partitions.on(events.PartitionBegun(number, events.PartitionFacts("own")))
        )
        if home is None:
            self.perform(master.on(events.RepetitionRequested(number)), master)
            return master

        def start() -> Run:
            def done(values: list[Any], error: errors.OpError | None) -> None:
                self._runs.pop(number, None)
                self.perform(master.on(events.PartitionFinished(number, error=error)), master)

            return Run(self, number, home, done, master)

        self._starts = {**getattr(self, "_starts", {}), number: start}
        self.perform(master.on(events.StepRequested()), master)
        return master

    def cancel_steps(self) -> None:
        """Somebody ends all steps of this task's master."""
        error = errors.CancelledError(None, None, "cancelled")
        for master in list(self.masters.values()):
            self.perform(master.on(events.Cancelled(master.number, error)), master)


#: How each instruction is performed; a test looks that none is missing.
PERFORM: dict[type, Any] = {
    instructions.SendRun: Task._send_run,
    instructions.SendRead: Task._send_read,
    instructions.SendRepeat: Task._send_repeat,
    instructions.SendLastRound: Task._send_last,
    instructions.SendCancel: Task._send_cancel,
    instructions.SendValues: Task._send_values,
    instructions.SendVariables: Task._send_variables,
    instructions.SendLost: Task._send_lost,
    instructions.Execute: Task._execute,
    instructions.ReadPublished: Task._read_published,
    instructions.Deliver: Task._deliver,
    instructions.EndWait: Task._end_wait,
    instructions.Cancel: Task._cancel,
    instructions.Publish: Task._publish,
    instructions.AwaitStop: Task._await_stop,
    instructions.Reply: Task._answer,
    instructions.Fail: Task._answer,
    instructions.Hold: Task._hold,
}
