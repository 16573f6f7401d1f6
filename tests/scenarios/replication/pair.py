"""A task with two replicas, clients, a register, a clock and faults: what replication runs in.

The rules are those that ship (`protocol/replication`); here are only links, timers and a model of
the state: which step of which client was applied, in which order. The same seed gives the same
story.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

from millrace.protocol.replication import events, instructions
from millrace.protocol.replication.primary import Phase, Primary
from millrace.protocol.replication.standby import Standby
from millrace.protocol.replication.view import Member, View

LATENCY = 0.01
#: A peer that is silent for so long is given up; so soon a process notices that it was stopped.
SILENCE, PAUSE = 1.0, 0.5
#: How long a process that was started again takes, and how often a client asks again.
START, AGAIN = 0.3, 0.2
#: What a client computes between two steps.
THINK = 0.1


class World:
    """Time, links, the register and the faults.

    Args:
      seed: Of what happens by chance.
      jitter: By how much messages are slower than they must be, at most.
      clients: How many there are.
    """

    def __init__(self, seed: int = 0, jitter: float = 0.0, clients: int = 1) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.jitter = jitter
        self.trace: list[str] = []
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._at: dict[tuple[str, str], list[Callable[[], None]]] = {}
        self.cut_off: set[frozenset[str]] = set()
        self.incarnations = itertools.count(1)
        self.replicas: dict[str, Replica] = {}
        self.clients = [Client(self, f"c{i}") for i in range(clients)]
        for name in ("a", "b"):
            self.replicas[name] = Replica(self, name)
        self.view = View(1, self.replicas["a"].me)
        #: Who has served in which view.
        self.served: dict[int, str] = {}
        self.replicas["a"].serve(self.view, {})
        self.replicas["b"].follow("a")
        for client in self.clients:
            client.go_on()

    # -- Time and messages -----------------------------------------------------------------

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self.now + seconds, next(self._numbers), call))

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        end = self.now + seconds
        while self._agenda and self._agenda[0][0] <= end:
            if until():
                return True
            self.now, _, call = heapq.heappop(self._agenda)
            call()
        self.now = end
        return until()

    def latency(self) -> float:
        return LATENCY + (self.random.uniform(0, self.jitter) if self.jitter else 0.0)

    def is_cut(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self.cut_off

    def say(self, what: str) -> None:
        self.trace.append(f"{self.now:6.2f} {what}")

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            raise AssertionError("\n".join([*self.trace, f"{self.now:.2f} WRONG: {what}"]))

    def reached(self, who: str, point: str) -> None:
        for fault in self._at.pop((who, point), []):
            fault()

    def at(self, who: str, point: str, fault: Callable[[], None]) -> None:
        self._at.setdefault((who, point), []).append(fault)

    def forget_faults(self) -> None:
        """What was to happen at points that were not reached does not happen any more."""
        self._at.clear()

    # -- The register ----------------------------------------------------------------------

    def propose(self, who: str, view: View, tell: Callable[[View], None]) -> None:
        """Changes the register if it has the view before; tells what is there then."""
        if self.is_cut(who, "register"):
            self.after(AGAIN, lambda: self.propose(who, view, tell))
            return

        def decide() -> None:
            if view.number == self.view.number + 1:
                self.view = view
                names = [self.name_of(view.primary), self.name_of(view.standby)]
                self.say(f"register: view {view.number}: primary {names[0]}, standby {names[1]}")
                for replica in self.replicas.values():
                    self.after(self.latency(), lambda r=replica: r.hear(self.view))
            self.after(self.latency(), lambda: tell(self.view))

        self.after(self.latency(), decide)

    def read(self, who: str, tell: Callable[[View], None]) -> None:
        if self.is_cut(who, "register"):
            self.after(AGAIN, lambda: self.read(who, tell))
        else:
            self.after(2 * self.latency(), lambda: tell(self.view))

    def name_of(self, member: Member | None) -> str:
        return "none" if member is None else member.address

    # -- Faults ----------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        self.say(f"-- kill {name}")
        self.replicas[name].die()

    def stop(self, name: str) -> None:
        self.say(f"-- stop {name}")
        self.replicas[name].is_stopped = True
        self.replicas[name].stopped_at = self.now

    def resume(self, name: str) -> None:
        self.say(f"-- continue {name}")
        self.replicas[name].resume()

    def cut(self, one: str, other: str) -> None:
        self.say(f"-- cut {one} {other}")
        self.cut_off.add(frozenset((one, other)))
        if one in self.replicas and other in self.replicas:
            self.after(SILENCE, lambda: self._silence(one, other))

    def mend(self, one: str, other: str) -> None:
        self.say(f"-- mend {one} {other}")
        self.cut_off.discard(frozenset((one, other)))

    def _silence(self, one: str, other: str) -> None:
        if self.is_cut(one, other):
            for name in (one, other):
                self.replicas[name].lose_peer()

    def restart(self, name: str) -> None:
        """The launcher starts a process again: as the standby, if anybody serves."""
        other = self.replicas["b" if name == "a" else "a"]
        if self.replicas[name].is_alive and not self.replicas[name].is_fenced:
            return
        self.replicas[name].die()
        if not other.is_alive:
            # Both are dead: a checkpoint, which this model does not have.
            self.check(False, "both replicas are dead")
        self.say(f"-- restart {name}")
        self.replicas[name] = replica = Replica(self, name)
        self.after(START, lambda: replica.follow(other.name))

    def move(self) -> None:
        self.say("-- move")
        for replica in self.replicas.values():
            if replica.primary is not None and replica.is_alive:
                replica.tell_primary(events.MoveRequested())

    # -- What must hold --------------------------------------------------------------------

    def serving(self) -> Replica | None:
        return next((r for r in self.replicas.values() if r.me == self.view.primary), None)

    def check_acknowledged(self, numbers: dict[str, list[int]] | None = None) -> None:
        """Whoever serves has all that was acknowledged, or these steps of clients."""
        serving = self.serving()
        if serving is None or serving.primary is None:
            return
        if numbers is None:
            numbers = {client.name: client.acknowledged for client in self.clients}
        for name, steps in numbers.items():
            lost = [n for n in steps if (name, n) not in serving.state]
            self.check(not lost, f"{serving.name} lacks {lost[:3]} of {name}")


class Replica:
    """One process of the task."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.me = Member(name, next(world.incarnations))
        self.is_alive = True
        self.is_stopped = False
        self.stopped_at = 0.0
        self.is_fenced = False
        self.primary: Primary | None = None
        self.standby: Standby | None = None
        #: Which steps were applied, in order, with the answers that they got.
        self.state: dict[tuple[str, int], int] = {}
        self.peer: Replica | None = None
        self._inbox: list[Callable[[], None]] = []
        self._changes: dict[int, tuple[str, int]] = {}
        #: What is under way to the peer.
        self._link: list[Callable[[Replica], None]] = []
        #: When the last message to the peer arrives: they come in order.
        self._arrives = 0.0
        #: When the last change is applied.
        self._applies = 0.0

    # -- Being a process -------------------------------------------------------------------

    def handle(self, call: Callable[[], None]) -> None:
        """Does something now, or when the process goes on."""
        if not self.is_alive:
            return
        if self.is_stopped:
            self._inbox.append(call)
        else:
            call()

    def resume(self) -> None:
        if not self.is_alive or not self.is_stopped:
            return
        self.is_stopped = False
        inbox, self._inbox = self._inbox, []
        if self.world.now - self.stopped_at >= PAUSE and self.primary is not None:
            self.tell_primary(events.PauseNoticed())
        for call in inbox:
            self.handle(call)

    def die(self) -> None:
        self.is_alive = False
        self._close(self.peer)

    def _close(self, peer: Replica | None) -> None:
        """The other end of the connection learns that this one is closed."""
        if peer is not None and peer.peer is self:
            self.world.after(LATENCY, lambda: peer.handle(lambda: peer.lose_peer(self)))

    def send(self, call: Callable[[Replica], None]) -> None:
        """Sends a message to the peer; it arrives in order, or not at all."""
        peer, world = self.peer, self.world
        if peer is None:
            return
        self._arrives = max(self._arrives, world.now + world.latency())
        link = self._link
        link.append(call)

        def arrive() -> None:
            if self._link is not link or self.peer is not peer or peer.peer is not self:
                return
            if world.is_cut(self.name, peer.name):
                world.after(AGAIN, arrive)  # What is under way stays so, in order.
                return
            first = link.pop(0)
            peer.handle(lambda: first(peer) if peer.peer is self else None)

        world.after(self._arrives - world.now, arrive)
        if peer.is_stopped:
            world.after(SILENCE, lambda: self._given_up(peer))

    def _given_up(self, peer: Replica) -> None:
        stopped = self.world.now - peer.stopped_at >= SILENCE
        if self.peer is peer and peer.is_stopped and stopped:
            self.handle(lambda: self.lose_peer(peer))

    def lose_peer(self, peer: Replica | None = None) -> None:
        """The connection is closed."""
        if not self.is_alive or self.peer is None or (peer is not None and self.peer is not peer):
            return
        lost, self.peer = self.peer, None
        self._close(lost)
        if self.primary is not None:
            self.tell_primary(events.StandbyLost(lost.me))
        elif self.standby is not None:
            self.tell_standby(events.PrimaryLost())

    def hear(self, view: View) -> None:
        def read() -> None:
            if self.primary is not None:
                self.tell_primary(events.ViewRead(view))
            elif self.standby is not None and view.primary == self.me:
                self.tell_standby(events.ViewRead(view))

        self.handle(read)

    # -- As the primary --------------------------------------------------------------------

    def serve(self, view: View, state: dict[tuple[str, int], int]) -> None:
        self.world.check(
            self.world.served.setdefault(view.number, self.name) == self.name,
            f"two primaries in view {view.number}",
        )
        self.standby, self.primary = None, Primary(self.me, view)
        self.state = state
        self.world.say(f"{self.name} serves with {len(state)} steps")
        if view.number > 1:
            self.world.check_acknowledged()
        self.world.reached(self.name, "serve")

    def ask(self, client: Client, number: int) -> None:
        """A client wants a step."""
        world, primary = self.world, self.primary
        if primary is None or self.is_fenced:
            return
        step = (client.name, number)
        if step not in self.state:
            sequence = primary.changed()
            self.state[step] = sequence
            world.say(f"{self.name} applies {client.name}.{number} as {sequence}")
            world.reached(self.name, "change")
            if not self.is_alive:
                return
            if primary.phase is not Phase.ALONE:
                self.send(lambda peer: peer.receive(sequence, step))
                world.reached(self.name, "forward")
        self.tell_primary(events.AnswerReady((client.name, number)))

    def tell_primary(self, event: Any) -> None:
        if self.primary is None or not self.is_alive:
            return
        for each in self.primary.on(event):
            self._perform_primary(each)

    def _perform_primary(self, each: Any) -> None:
        world = self.world
        if not self.is_alive:
            return
        if isinstance(each, instructions.Release):
            name, number = each.answer  # type: ignore[misc]
            client = next(c for c in world.clients if c.name == name)
            world.say(f"{self.name} > {name} DONE {number}")
            world.after(world.latency(), lambda: client.done(number, self))
            world.reached(self.name, "answer")
        elif isinstance(each, instructions.SendSnapshot):
            state, sequence = dict(self.state), self.primary.sequence  # type: ignore[union-attr]
            world.say(f"{self.name} > {each.standby.address} SNAPSHOT {sequence}")
            self.send(lambda peer: peer.receive_snapshot(state, sequence))
            world.reached(self.name, "snapshot")
        elif isinstance(each, instructions.Dismiss):
            self.lose_peer()
        elif isinstance(each, instructions.ProposeView | instructions.ReadView):
            self._ask_register(each, self.tell_primary)
        elif isinstance(each, instructions.Fence):
            world.say(f"{self.name} is fenced")
            self.is_fenced = True
            self.peer = None
            world.after(START, self._replaced)

    def _replaced(self) -> None:
        """The launcher starts another process in the place of one that was fenced."""
        other = self.world.replicas["b" if self.name == "a" else "a"]
        if self.world.replicas[self.name] is self and other.is_alive:
            self.world.restart(self.name)

    def _ask_register(self, each: Any, tell: Callable[[Any], None]) -> None:
        def told(view: View) -> None:
            self.handle(lambda: tell(events.ViewRead(view)))

        self.world.reached(self.name, "propose")
        if isinstance(each, instructions.ProposeView):
            self.world.propose(self.name, each.view, told)
        else:
            self.world.read(self.name, told)

    # -- As the standby --------------------------------------------------------------------

    def follow(self, name: str) -> None:
        """Asks the other process for its state, again and again until it gets it."""
        world = self.world
        if not self.is_alive or self.primary is not None:
            return
        other = world.replicas[name]
        usable = other.is_alive and not other.is_stopped and other.primary is not None
        if (
            self.is_stopped
            or not usable
            or other.is_fenced
            or other.peer is not None
            or other.primary.phase is not Phase.ALONE  # type: ignore[union-attr]
            or world.is_cut(self.name, name)
        ):
            world.after(AGAIN, lambda: self.follow(name))
            return
        self.standby, self.state = Standby(self.me), {}
        self.peer, other.peer = other, self
        self._arrives = other._arrives = 0.0
        self._link, other._link = [], []
        other.tell_primary(events.StandbyArrived(self.me))

    def receive_snapshot(self, state: dict[tuple[str, int], int], sequence: int) -> None:
        self.state = state
        self.tell_standby(events.SnapshotReceived(sequence))

    def receive(self, sequence: int, step: tuple[str, int]) -> None:
        self._changes[sequence] = step
        self.tell_standby(events.ChangeReceived(sequence))

    def tell_standby(self, event: Any) -> None:
        if self.standby is None or not self.is_alive:
            return
        for each in self.standby.on(event):
            self._perform_standby(each)

    def _perform_standby(self, each: Any) -> None:
        world = self.world
        if not self.is_alive:
            return
        if isinstance(each, instructions.Acknowledge):
            sequence = each.sequence
            world.say(f"{self.name} acknowledges {sequence}")
            self.send(lambda peer: peer.tell_primary(events.Acknowledged(self.me, sequence)))
            world.reached(self.name, "acknowledge")
        elif isinstance(each, instructions.Apply):
            self._applies = max(self._applies, world.now + world.latency())
            call = lambda: self.handle(lambda: self._apply(each.sequence))  # noqa: E731
            world.after(self._applies - world.now, call)
        elif isinstance(each, instructions.ReadView | instructions.ProposeView):
            self._ask_register(each, self.tell_standby)
        elif isinstance(each, instructions.StartOver):
            world.say(f"{self.name} starts over: {each.reason}")
            lost, self.peer, self.standby = self.peer, None, None
            self._close(lost)
            self.me = Member(self.name, next(world.incarnations))
            self._changes.clear()
            world.after(AGAIN, lambda: self.follow("b" if self.name == "a" else "a"))
        elif isinstance(each, instructions.Serve):
            lost, self.peer = self.peer, None
            self._close(lost)
            self.serve(each.view, self.state)

    def _apply(self, sequence: int) -> None:
        standby = self.standby
        if standby is None or standby.applied + 1 != sequence:
            return
        step = self._changes.pop(sequence)
        self.world.check(step not in self.state, f"{step} applied twice at {self.name}")
        self.state[step] = sequence
        self.tell_standby(events.ChangeApplied(sequence))


class Client:
    """A worker that runs numbered steps, and repeats one until it is answered."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.acknowledged: list[int] = []
        self.number = 0

    def go_on(self) -> None:
        self.number += 1
        self._try(self.number)

    def _try(self, number: int) -> None:
        """Sends the step to whom the view names, and again if no answer comes."""
        if number != self.number:
            return
        world = self.world
        serving = world.serving()
        if serving is not None and not world.is_cut(self.name, serving.name):
            world.after(world.latency(), lambda: serving.handle(lambda: serving.ask(self, number)))
        world.after(AGAIN, lambda: self._try(number))

    def done(self, number: int, by: Replica) -> None:
        if number != self.number or self.world.is_cut(self.name, by.name):
            return
        self.acknowledged.append(number)
        self.world.check_acknowledged({self.name: [number]})
        self.world.after(THINK, self.go_on)
