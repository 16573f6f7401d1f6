"""Notices when a task that a step waits for is stopped or cut off, and when this one was.

A thread looks a few times a second at the tasks that running steps need: those that said nothing
are pinged, then probed, then given up (`protocol.heartbeat` decides). Tasks that no step needs
cost nothing, and a step costs nothing for being watched: what was heard is read off the counters
of the channels.

When this process was stopped for a while, others may have given it up, and what lies in its
sockets may be about steps that are over. Then nothing more is believed of a channel until the
other side has answered a ping on it: a task that declared this one lost has closed the channel.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from millrace.core import errors
from millrace.platform import logging
from millrace.protocol.heartbeat import Heartbeat, Instruction, Settings, pause_seconds
from millrace.rpc.channel import Channel, start_thread
from millrace.rpc.message import Kind, Message


def settings_from(environment: Mapping[str, str]) -> Settings:
    """What the environment says: MILLRACE_HEARTBEAT_SECONDS and MILLRACE_BUSY_SECONDS.

    Raises:
      InvalidArgumentError: It is no number above 0.
    """
    found = {}
    for field, name in (
        ("silence", "MILLRACE_HEARTBEAT_SECONDS"),
        ("busy", "MILLRACE_BUSY_SECONDS"),
    ):
        text = environment.get(name)
        if not text:
            continue
        try:
            found[field] = float(text)
        except ValueError:
            found[field] = 0.0
        if not found[field] > 0:
            raise errors.InvalidArgumentError(
                None, None, f"{name} must be a number of seconds above 0, not {text!r}."
            )
    return Settings(**found)


class _Watched:
    """A task that is waited for."""

    def __init__(self, settings: Settings) -> None:
        self.heartbeat = Heartbeat(settings, time.monotonic())
        self.heard_at = time.time()
        #: The channels' counters at the last look.
        self.signs = -1
        self.sent = -1


class Watch:
    """Watches the tasks that the steps of one server need.

    Args:
      name: The task that watches.
      settings: How long to wait.
      needed: The addresses that running steps wait for.
      channels: The open channels to an address; none to those in this process.
      probe: Whether a connection to an address can be made within some seconds.
      lose: Gives an address up, for a reason.
      on_pause: Called when this process was paused, before anything else is done.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        *,
        needed: Callable[[], Iterable[str]],
        channels: Callable[[str], list[Channel]],
        probe: Callable[[str, float], bool],
        lose: Callable[[str, str], None],
        on_pause: Callable[[], None],
    ) -> None:
        self._name = name
        self._settings = settings
        self._pause = pause_seconds(settings)
        self._needed = needed
        self._channels = channels
        self._probe = probe
        self._lose = lose
        self._on_pause = on_pause
        self._watched: dict[str, _Watched] = {}
        self._stopped = threading.Event()
        #: When this process was last seen awake, for `was_paused`.
        self.awake_at = time.monotonic()

    def start(self) -> None:
        """Begins to look."""
        self.awake_at = time.monotonic()
        start_thread(self._run, f"millrace watches for {self._name}")

    def stop(self) -> None:
        """Ends it."""
        self._stopped.set()

    def awake(self) -> None:
        """This process is awake, and knows whether it was paused."""
        self.awake_at = time.monotonic()

    def was_paused(self) -> bool:
        """Whether this process was not awake for so long that others may have given it up."""
        return time.monotonic() - self.awake_at >= self._pause

    def _run(self) -> None:
        while not self._stopped.wait(self._settings.interval):
            try:
                self.look()
            except Exception:
                logging.error("%s could not look after the others", self._name, exc_info=True)

    def look(self) -> None:
        """Looks once at all tasks that are needed."""
        if self.was_paused():
            self._on_pause()
        self.awake()
        needed = set(self._needed())
        for address in [a for a in self._watched if a not in needed]:
            del self._watched[address]
        now = time.monotonic()
        for address in needed:
            channels = self._channels(address)
            if channels:
                self._look_at(address, channels, now)

    def _look_at(self, address: str, channels: list[Channel], now: float) -> None:
        watched = self._watched.get(address)
        if watched is None:
            watched = self._watched[address] = _Watched(self._settings)
        signs = sum(c.traffic.bytes_received + c.drained for c in channels)
        sent = sum(c.traffic.messages_sent for c in channels)
        # A thread that is busy with a message hears nothing: then silence is our own.
        deaf = any(c.is_handling for c in channels)
        if signs != watched.signs or deaf:
            watched.signs, watched.heard_at = signs, time.time()
            watched.heartbeat.heard()
        # Nor does it answer pings then.
        quiet = deaf and sent == watched.sent
        for instruction in watched.heartbeat.look(now):
            if instruction is Instruction.PING:
                quiet = True
            elif instruction is Instruction.PROBE:
                start_thread(self._probe_it, f"millrace probes {address}", address, watched)
            elif instruction is Instruction.WARN:
                logging.warning(
                    "%s: nothing was heard from %s at %s since %s, but it accepts connections: "
                    "its interpreter may be busy. It is waited for %.0f s.",
                    self._name,
                    channels[0].peer,
                    address,
                    _clock_time(watched),
                    self._settings.busy,
                )
            elif instruction is Instruction.LOSE:
                del self._watched[address]
                self._lose(address, self._reason(address, watched))
                return
        if quiet:
            try:
                channels[0].send(Message(Kind.PING))
            except Exception as error:  # It is being closed, and its closing is reported.
                logging.debug("%s could not be pinged: %s", address, error)
        watched.sent = sum(c.traffic.messages_sent for c in channels)

    def _probe_it(self, address: str, watched: _Watched) -> None:
        answered = False
        try:
            answered = self._probe(address, self._settings.silence / 2)
        finally:
            watched.heartbeat.probed(answered)

    def _reason(self, address: str, watched: _Watched) -> str:
        silent = watched.heartbeat.silent
        return (
            f"Nothing was heard for {silent:.1f} s (since {_clock_time(watched)}) from the task at "
            f"{address}, which a step waits for: its process is stopped or hangs, or its machine "
            "cannot be reached. Check both; MILLRACE_HEARTBEAT_SECONDS sets how long to wait"
        )


def _clock_time(watched: _Watched) -> str:
    return time.strftime("%H:%M:%S", time.localtime(watched.heard_at))
