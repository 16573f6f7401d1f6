"""A clock, links and faults: what surrounds the tasks of a scenario, and nothing that they decide.

Everything happens in one thread, in the order of a fake clock. The same seed gives the same story.
Tasks are `task.Task`, which runs the state machines that a server runs.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable
from typing import Any

from millrace.protocol.heartbeat import Settings
from millrace.rpc.message import HEARTBEAT, Message

SETTINGS = Settings()
LATENCY = 0.01
#: What comes of a link that was closed at its other end.
CLOSED = None


class Link:
    """A connection between two incarnations of tasks: messages come in order, or not at all."""

    def __init__(self, world: World, one: Any, other: Any) -> None:
        self._world = world
        self.ends = (one, other)
        self.open = {one: True, other: True}
        #: What is under way to each end.
        self.wire: dict[Any, list[Message | None]] = {one: [], other: []}

    def other(self, end: Any) -> Any:
        return self.ends[1] if end is self.ends[0] else self.ends[0]

    def send(self, sender: Any, message: Message) -> bool:
        """Sends a message; False when this end is closed."""
        if not self.open[sender]:
            return False
        if message.kind not in HEARTBEAT:
            self._world.say(f"{sender.name} > {self.other(sender).name} {said(message)}")
        self.wire[self.other(sender)].append(message)
        self._world.after(self._world.latency(), self.pump)
        return True

    def close(self, end: Any) -> None:
        """Closes one end; what it sent and is still under way is taken back."""
        if self.open[end]:
            self.open[end] = False
            self.wire[self.other(end)] = [CLOSED]
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


def said(message: Message) -> str:
    """A message as a line of the story."""
    text = f"{message.kind.name} {message.step}"
    if message.kind.name in ("TENSORS", "PUBLISHED"):
        text += f" {message.key}"
    elif message.kind.name in ("DONE", "CANCEL") and message.key:
        text += f" error {message.key}"
    return f"{text} with {len(message.tensors)}" if message.tensors else text


class World:
    """The time, the network and the faults.

    Args:
      seed: Of what happens by chance.
      jitter: By how much messages are slower than they must be, at most.
    """

    def __init__(self, seed: int = 0, jitter: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.numbers = itertools.count(1)
        self.trace: list[str] = []
        self.tasks: dict[str, Any] = {}
        self._jitter = jitter
        self._cut: set[frozenset[str]] = set()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._at: dict[tuple[str, str], list[Callable[[], None]]] = {}

    # -- Time --------------------------------------------------------------------------------

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self.now + seconds, next(self.numbers), call))

    def latency(self) -> float:
        return LATENCY + (self.random.uniform(0, self._jitter) if self._jitter else 0.0)

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

    def is_cut(self, one: Any, other: Any) -> bool:
        return frozenset((one.name, other.name)) in self._cut

    def is_reachable(self, one: Any, name: str) -> bool:
        other = self.tasks[name]
        return other.is_alive and not other.is_stopped and not self.is_cut(one, other)

    def was_there(self, one: Any, name: str) -> bool:
        """Whether a task that was given up was at its place all the time that it was silent."""
        return self.is_reachable(one, name) and self.now > self.tasks[name].away_until

    def check(self, holds: bool, what: str) -> None:
        assert holds, "\n".join([*self.trace, f"{self.now:.2f} WRONG: {what}"])

    def say(self, what: str) -> None:
        self.trace.append(f"{self.now:6.2f} {what}")

    def reached(self, task: str, point: str) -> None:
        for fault in self._at.pop((task, point), []):
            # The message of this point is sent, and then it happens.
            self.after(LATENCY / 2, fault)

    # -- Faults ------------------------------------------------------------------------------

    def at(self, task: str, point: str, fault: Callable[[], None]) -> None:
        """Lets a fault happen when a task next reaches a point of a step."""
        self._at.setdefault((task, point), []).append(fault)

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
        self.tasks[name] = self.tasks[name].restarted()

    def cancel(self, name: str) -> None:
        self.say(f"-- cancel {name}")
        self.tasks[name].cancel_steps()

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
        # Ends that were closed while the network was cut are told now.
        links = {link: None for task in self.tasks.values() for link in task.links}
        for link in links:
            link.pump()
