"""Whether a task that somebody waits for is still there: events in, instructions out.

Silence alone proves nothing: a task whose interpreter is busy for seconds (a compiler, a C
extension that does not let go of it) says nothing, and lives. So a silent task is also *probed*,
by a connection that the transport's own threads answer. A task that is stopped or cut off answers
neither, and is lost after `Settings.silence`; one that only answers probes is busy, and is waited
for until `Settings.busy`.

Time is an argument. Only time in which the observer itself was awake counts as silence: a task
that was stopped for a minute and goes on must not think that all others were away for a minute.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Settings(NamedTuple):
    """How long to wait, in seconds.

    Attributes:
      silence: A task that neither speaks nor answers a probe for this long is lost.
      busy: A task that answers probes but does not speak for this long is lost too.
    """

    silence: float = 2.0
    busy: float = 60.0

    @property
    def interval(self) -> float:
        """How often to look; a task that was silent for as long is pinged."""
        return self.silence / 4


class Instruction(enum.Enum):
    """What the observer is to do."""

    PING = "ping"  # ask over the channel
    PROBE = "probe"  # see whether a connection can be made, and tell the outcome
    WARN = "warn"  # say that the task is silent, although probes are answered; once
    LOSE = "lose"  # give the task up; the last instruction of a heartbeat


class Heartbeat:
    """What is known of one task while somebody waits for it.

    Attributes:
      silent: Seconds since it was heard, of the observer's waking time.
      is_lost: Whether it was given up.
    """

    def __init__(self, settings: Settings, now: float) -> None:
        self._settings = settings
        self._last_look = now
        self.silent = 0.0
        #: Seconds since it was heard or answered a probe: never more than `silent`.
        self._unreached = 0.0
        self._probing = False
        #: Whether the last probe was not answered: without that nobody is given up early.
        self._unanswered = False
        self._warned = False
        self.is_lost = False

    def heard(self) -> None:
        """It said something."""
        self.silent = self._unreached = 0.0
        self._unanswered = self._warned = False

    def probed(self, answered: bool) -> None:
        """A probe is over."""
        self._probing = False
        self._unanswered = not answered
        if answered:
            self._unreached = 0.0

    def look(self, now: float) -> list[Instruction]:
        """Time has passed; what to do now."""
        if self.is_lost:
            return []
        settings = self._settings
        passed = observed(now - self._last_look, settings)
        self._last_look = now
        self.silent += passed
        self._unreached += passed
        away = self._unanswered and self._unreached >= settings.silence
        if away or self.silent >= settings.busy:
            self.is_lost = True
            return [Instruction.LOSE]
        found: list[Instruction] = []
        if self.silent >= settings.interval:
            found.append(Instruction.PING)
        if self.silent >= settings.silence / 2 and not self._probing:
            self._probing = True
            found.append(Instruction.PROBE)
        answered = self._unreached < self.silent
        if self.silent >= settings.silence and answered and not self._warned:
            self._warned = True
            found.append(Instruction.WARN)
        return found


def observed(passed: float, settings: Settings) -> float:
    """How much of the time between two looks the observer was awake for."""
    return min(max(passed, 0.0), 2 * settings.interval)


def pause_seconds(settings: Settings) -> float:
    """An observer that did not look for so long may have been given up by others.

    Half of what they wait for: they count from when they last heard something, and that may have
    been up to two of their looks before the pause began.
    """
    return settings.silence - 2 * settings.interval
