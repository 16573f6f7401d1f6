"""One thread reads all channels over which others give this task orders.

A thread for each worker would be simpler, but they would fight for the interpreter: a parameter
server with two workers spends a quarter of its time on that. So one thread *leads*: it waits for
all channels and handles what comes, one message after the other.

What takes long must not keep the other channels waiting. A message like one that took long the
last time is handled by a thread that leads no more: it takes its channel out of what is waited
for, lets another thread lead, handles the message, and puts the channel back. So the messages of
one channel are handled in their order, as everywhere. A message that takes long for the first time
is noticed by `relieve`, which is called a few times a second.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from typing import Any

from millrace.rpc.channel import start_thread
from millrace.rpc.message import Kind, Message
from millrace.rpc.spin import lookout

#: More seconds than this are long.
_LONG = 0.003
#: A leader that handles one message for so long is relieved.
_TOO_LONG = 0.02
#: How long a thread that does not lead waits to be needed.
_SPARE_SECONDS = 5.0
#: So many kinds of long messages are remembered of one channel.
_MAX_KNOWN = 256


def _never() -> bool:
    return False


class _Watched:
    """A channel, which of its messages took long the last time, and whether reading did."""

    __slots__ = ("channel", "is_slow", "long", "number")

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.number: int = channel.fileno()
        self.long: set[tuple[Kind, int]] = set()
        self.is_slow = False


class Hub:
    """Reads channels; `close` ends its threads."""

    def __init__(self, name: str) -> None:
        """Makes one; it has no thread before it has a channel.

        Args:
          name: The task whose channels these are.
        """
        self._name = name
        # A session that is collected as garbage may close channels, whatever is held.
        self._lock = threading.RLock()
        #: Made with the first thread, and what ends its waits.
        self._epoll: Any = None
        self._wake = -1
        self._watched: dict[int, _Watched] = {}
        self._closed = False
        self._threads = 0
        #: Threads that wait to lead, and what they wait for.
        self._spare = 0
        self._needed = threading.Semaphore(0)
        #: The thread that leads, and since when it handles which channel's message.
        self._leader: threading.Thread | None = None
        self._busy: tuple[float, _Watched] | None = None

    def add(self, channel: Any) -> bool:
        """Reads a channel from now on; False when the hub is closed.

        Args:
          channel: A `SocketChannel` that no other thread reads.
        """
        watched = _Watched(channel)
        with self._lock:
            if self._closed:
                return False
            if self._epoll is None:
                self._epoll = select.epoll()
                self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
                self._epoll.register(self._wake, select.EPOLLIN)
                self._start()
            self._watched[watched.number] = watched
        try:
            if channel.has_more and not self._handle_waiting(watched):
                return True
            self._listen(watched)
        except (OSError, ValueError):  # It was closed meanwhile: reading tells.
            channel.read_one()
        return True

    def _handle_waiting(self, watched: _Watched) -> bool:
        """Handles what was read before the hub had the channel; False when it is closed."""
        while watched.channel.has_more:
            if not watched.channel.read_one():
                self.forget(watched.channel)
                return False
        return True

    def _start(self) -> None:
        self._threads += 1
        self._leader = start_thread(self._run, f"millrace serves as {self._name}")

    def _listen(self, watched: _Watched) -> None:
        with self._lock:
            if not self._closed and self._watched.get(watched.number) is watched:
                self._epoll.register(watched.number, select.EPOLLIN)

    # -- Leading ---------------------------------------------------------------------------

    def _run(self) -> None:
        me = threading.current_thread()
        while self._may_lead(me):
            self._lead(me)
        with self._lock:
            self._threads -= 1
            is_last = self._closed and not self._threads
        if is_last:
            self._epoll.close()
            os.close(self._wake)

    def _may_lead(self, me: threading.Thread) -> bool:
        """Waits, unless this thread leads, until it is to lead; False when it may go."""
        with self._lock:
            if self._closed:
                return False
            if self._leader is me:
                return True
            self._spare += 1
        if self._needed.acquire(timeout=_SPARE_SECONDS):
            with self._lock:
                return not self._closed  # Whoever released it has made a spare thread the leader.
        with self._lock:
            if self._needed.acquire(blocking=False):
                return not self._closed
            self._spare -= 1
        return False

    def _lead(self, me: threading.Thread) -> None:
        """Reads until another thread leads, or the hub is closed."""
        with self._lock:
            self._leader = me
        while not self._closed:
            events = lookout.until(self._epoll, _never) or self._epoll.poll()
            for number, _ in events:
                watched = self._watched.get(number)
                if watched is not None and not self._serve(watched, me):
                    return

    def _serve(self, watched: _Watched, me: threading.Thread) -> bool:
        """Reads and handles what a channel has; returns whether this thread still leads."""
        channel = watched.channel
        is_open = True
        while is_open:
            start = time.monotonic()
            busy = start, watched
            if self._leader is me:
                self._busy = busy
            if watched.is_slow:
                self._let_another_lead(busy)
            message: Message | None = channel.read_message()
            if message is None:
                is_open = False
            else:
                now = time.monotonic()
                watched.is_slow = now - start > _LONG
                is_open = self._handle(watched, message, busy, now)
            with self._lock:
                if self._busy is busy:
                    self._busy = None
            if is_open and not channel.has_more:
                break
        leads = self._leader is me
        if not is_open:
            self.forget(channel)
        elif not leads:
            with contextlib.suppress(OSError, ValueError):  # closed meanwhile
                self._listen(watched)
        return leads

    def _handle(
        self, watched: _Watched, message: Message, busy: tuple[float, _Watched], now: float
    ) -> bool:
        kind = message.kind, message.key
        if kind in watched.long:
            self._let_another_lead(busy)
        is_open: bool = watched.channel.handle(message)
        if time.monotonic() - now > _LONG:
            if len(watched.long) >= _MAX_KNOWN:
                watched.long.clear()
            watched.long.add(kind)
        elif watched.long:
            watched.long.discard(kind)
        return is_open

    def _let_another_lead(self, busy: tuple[float, _Watched]) -> None:
        """Makes another thread the leader, if the one that leads is busy with just that.

        The channel is left out until its message is handled.
        """
        with self._lock:
            if self._closed or self._busy is not busy:
                return
            self._busy = None
            with contextlib.suppress(OSError, ValueError):
                self._epoll.unregister(busy[1].number)
            if self._spare:
                self._spare -= 1
                self._leader = None
                self._needed.release()
            else:
                self._start()

    def relieve(self) -> None:
        """Lets another thread lead if the one that leads is busy for long with one message."""
        busy = self._busy
        if busy is not None and time.monotonic() - busy[0] > _TOO_LONG:
            self._let_another_lead(busy)

    def forget(self, channel: Any) -> None:
        """A channel is closed. The system has forgotten its number, which may be another's now."""
        with self._lock:
            for number, watched in list(self._watched.items()):
                if watched.channel is channel:
                    del self._watched[number]

    def close(self) -> None:
        """Ends the threads; the channels are closed by others."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._watched.clear()
            if self._epoll is None:
                return
            os.eventfd_write(self._wake, 1)
            for _ in range(self._threads):
                self._needed.release()
