"""Who reads a channel: its own thread, or a thread that waits for what the channel brings.

Handing a message from the thread that read it to the one that waits for it costs more than reading
it. So a thread that waits for messages reads them itself, and handles whatever comes, until it has
what it waits for. A channel's own thread reads when nobody has done so for a moment.

Only one thread at a time has the *turn* to read a channel. A thread that gets the turns of some of
its channels only reads those, and takes the others as they are left: else a thread with several
channels, each of which has its own thread, would never have all of them at once. A thread that gets
none waits to be told: it *follows*.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, cast

from millrace.rpc.spin import spin_policy

#: The own thread reads again when nobody else has read for so long, in seconds: with nobody
#: waiting, and with somebody who follows.
_GRACE = 0.02
_SHORT_GRACE = 0.002


class Turn:
    """The right to read one channel."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unpark = threading.Event()
        #: What would rather read than the own thread, and is woken when the turn is left.
        self._wanted_by: Listener | None = None
        self._left_at = -math.inf
        self._followers = 0
        self._count_lock = threading.Lock()
        #: Whether the own thread keeps it: others rely on being heard at any time.
        self.is_kept = False

    def keep(self) -> None:
        """Leaves the channel to its own thread from now on."""
        self.is_kept = True
        self._unpark.set()

    def take(self, reader: Listener) -> bool:
        """Gets the turn, for a thread that waits; False when another one has it."""
        if not self.is_kept and self._lock.acquire(blocking=False):
            if self._wanted_by is reader:
                self._wanted_by = None
            return True
        self._wanted_by = reader
        return False

    def leave(self) -> None:
        """Gives it back."""
        self._left_at = time.monotonic()
        self._lock.release()
        if self._wanted_by is not None:
            self._wanted_by.wake()

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """While somebody waits for a message and does not read."""
        with self._count_lock:
            self._followers += 1
        try:
            yield
        finally:
            with self._count_lock:
                self._followers -= 1

    # -- The own thread --------------------------------------------------------------------

    def await_own(self) -> None:
        """Gets the turn, for the channel's own thread."""
        while True:
            grace = _SHORT_GRACE if self._followers else _GRACE
            if self._lock.acquire(blocking=False):
                left = self._left_at + grace - time.monotonic()
                if left <= 0 or self.is_kept or self._unpark.is_set():
                    self._wanted_by = None
                    return
                self._lock.release()
                grace = left
            self._unpark.wait(grace)

    def leave_if_wanted(self) -> bool:
        """Gives it back when somebody would rather read."""
        if self._wanted_by is None or self.is_kept:
            return False
        self.leave()
        return True

    def end(self) -> None:
        """The channel is closed: its own thread need not wait any more."""
        self._unpark.set()


class HasTurn(Protocol):
    """A channel; one with a turn is `Readable`."""

    turn: Turn | None


class Readable(Protocol):
    """A channel that threads can take turns to read."""

    turn: Turn

    @property
    def is_open(self) -> bool:
        """Whether messages can come."""

    def fileno(self) -> int:
        """The number of its socket."""

    def read_one(self) -> bool:
        """Reads and handles a message; False at the end. For who has the turn."""

    @property
    def has_more(self) -> bool:
        """Whether something was read already that is to be handled."""


class Listener:
    """How one thread reads the channels that it waits for.

    `wake` may be called from any thread, all else only from the thread that made it.

    Attributes:
      in_round: Whether the tasks at the other ends wait for others themselves.
    """

    def __init__(self) -> None:
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._channels: tuple[Readable, ...] = ()
        self._numbers: dict[int, Readable] = {}
        self._poll = select.poll()
        self._is_asleep = False
        self._is_busy = False
        self.in_round = False

    def __del__(self) -> None:
        os.close(self._wake)

    def _listen(self, channels: Sequence[Readable], numbers: Sequence[int]) -> None:
        self._channels = tuple(channels)
        self._numbers = dict(zip(numbers, channels, strict=True))
        self._poll = self._poll_of(self._channels)

    def wait(self, seconds: float, is_over: Callable[[], object]) -> bool:
        """Reads until something is there, or time has passed.

        Args:
          seconds: How long to read.
          is_over: Whether there is what was waited for; looked at after each message and when
            another thread has called `wake`.

        Returns:
          False when other threads read all of the channels, or one is closed: then the caller
          is told by others.
        """
        taken: list[Readable] = []
        missing: list[Readable] = []
        self._is_busy = True
        try:
            for channel in self._channels:
                (taken if channel.turn.take(self) else missing).append(channel)
            return bool(taken) and self._read(time.monotonic() + seconds, is_over, taken, missing)
        finally:
            self._is_busy = False
            for channel in taken:
                channel.turn.leave()

    def _read(
        self,
        deadline: float,
        is_over: Callable[[], object],
        taken: list[Readable],
        missing: list[Readable],
    ) -> bool:
        """Reads what this thread has the turns of, and takes those that others leave."""
        poll = self._poll if not missing else self._poll_of(taken)
        while not is_over():
            if missing and self._take_more(taken, missing):
                poll = self._poll if not missing else self._poll_of(taken)
            ready: list[Readable] = []
            for channel in taken:
                if channel.has_more:
                    ready.append(channel)
            if not ready:
                left = deadline - time.monotonic()
                if left <= 0:
                    return True
                ready = self._ready(poll, left, is_over)
            for channel in ready:
                if not channel.read_one():
                    return False
        return True

    def _take_more(self, taken: list[Readable], missing: list[Readable]) -> bool:
        """Takes the turns that were left meanwhile; whether there are some."""
        left = [channel for channel in missing if channel.turn.take(self)]
        taken += left
        missing[:] = [channel for channel in missing if channel not in left]
        return bool(left)

    def _poll_of(self, channels: Sequence[Readable]) -> select.poll:
        """As `_poll`, for some of the channels."""
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        for number, channel in self._numbers.items():
            if channel in channels:
                poll.register(number, select.POLLIN)
        return poll

    def _ready(
        self, poll: select.poll, seconds: float, is_over: Callable[[], object]
    ) -> list[Readable]:
        """Sleeps until a channel can be read, or `wake` is called."""
        self._is_asleep = True
        try:
            if is_over():  # since we looked: its thread may have thought that we look again
                return []
            events = spin_policy.until(poll, is_over, self.in_round)
            if not events and not is_over():
                events = poll.poll(math.ceil(seconds * 1000))
        finally:
            self._is_asleep = False
        ready = []
        for number, _ in events:
            if number == self._wake:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._wake)
            else:
                ready.append(self._numbers[number])
        return ready

    def wake(self) -> None:
        """Makes the thread look whether its wait is over."""
        if self._is_asleep:
            os.eventfd_write(self._wake, 1)

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """While the thread waits to be told."""
        with contextlib.ExitStack() as stack:
            for channel in self._channels:
                stack.enter_context(channel.turn.followed())
            yield


_local = threading.local()


def listener(channels: Sequence[HasTurn], in_round: bool = False) -> Listener | None:
    """This thread's listener, for these channels; None when it cannot read one of them.

    Args:
      channels: The channels.
      in_round: Whether the tasks at their other ends wait for others themselves.
    """
    readable = cast(Sequence[Readable], channels)  # if all have turns
    found: Listener | None = getattr(_local, "listener", None)
    if found is not None:
        if found._is_busy:  # It handles a message, and that waits for another one.
            return None
        found.in_round = in_round
        if found._channels == tuple(readable):
            return found
    numbers = []
    if any(channel.turn is None for channel in channels):
        return None
    for channel in readable:
        if not channel.is_open:
            return None
        numbers.append(channel.fileno())
        if numbers[-1] < 0:  # closed by another thread since we looked
            return None
    if found is None:
        found = _local.listener = Listener()
        found.in_round = in_round
    found._listen(readable, numbers)
    return found
