"""Queues, accumulators and tables of a task, followed by another one: by what happens to them.

What changes such a state machine is an event that is numbered in the order in which it happened,
and told with its effect: which element was put in or taken out, which gradient was added or
dropped as stale. A copy that performs the same events in the same order has the same state; nobody
waits at it, and it decides nothing.

What a step waits for (a take, a dequeue) is told when the step has it, together with the entry in
the record of applied steps; events of others may have been told before. So a mirror performs events
in the order of their numbers, and keeps those that came early. When its task takes over, what is
missing then was never answered, and has not happened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from millrace.core.value import JsonValue, Value
from millrace.protocol.attempt import Attempt

#: The event that makes a state machine equal to another one, whatever was before.
WHOLE = "whole"
#: An event of which only the number is known.
NOTHING = "nothing"


class Event(NamedTuple):
    """What has happened to a state machine.

    Attributes:
      what: The kind of event, which the state machine knows.
      words: Plain values.
      values: Arrays and bytes.
    """

    what: str
    words: JsonValue = None
    values: Sequence[Value] = ()


#: Is told of each event, and of the attempt that it settles, if it does.
Listener = Callable[[Attempt | None, Event], None]


class Mirrored(Protocol):
    """A state machine that can be followed.

    Attributes:
      listener: Is told of all that changes it; None while nobody follows.
    """

    listener: Listener | None

    def as_event(self) -> Event:
        """Its whole state, as an event that makes another one equal to it."""

    def follow(self, event: Event) -> None:
        """The same has happened elsewhere: lets it happen here, settling nothing."""

    def serve_followed(self) -> None:
        """Follows no more: others may use it."""


class Mirror:
    """A state machine that follows another one.

    Args:
      state: The one that follows, with nothing in it.

    Attributes:
      version: The number of the last event that was performed.
    """

    def __init__(self, state: Mirrored) -> None:
        self.state = state
        self.version = 0
        self._early: dict[int, Event] = {}

    def set(self, version: int, whole: Event) -> None:
        """The state after some event is this."""
        self.state.follow(whole)
        self.version = version
        self._early = {n: event for n, event in self._early.items() if n > version}

    def on(self, version: int, event: Event) -> None:
        """An event was told."""
        if version <= self.version:
            return  # It is in the state that was sent.
        self._early[version] = event
        while (following := self._early.pop(self.version + 1, None)) is not None:
            self._perform(following)
            self.version += 1

    def settle(self) -> None:
        """No more events come: performs those that came early."""
        for version in sorted(self._early):
            self._perform(self._early[version])
            self.version = version
        self._early.clear()

    def _perform(self, event: Event) -> None:
        if event.what != NOTHING:
            self.state.follow(event)
