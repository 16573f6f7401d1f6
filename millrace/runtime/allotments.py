"""Allotments: how many steps of one client may compute at the same time.

A client that asks for thousands of steps at once would have a thread for each, and others one among
thousands. So a few of its steps compute, and its others wait until one has ended, in the order in
which they came. Clients do not wait for each other here: the system shares the cores among the few
that each has. A step that waits for something else (a queue, another task) has no share meanwhile,
so that steps which wait for each other cannot block each other.

A share belongs to a thread: the one that serves the client's call.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterator

_thread = threading.local()


class Allotments:
    """What is allotted to all clients of one server.

    Args:
      most: How many steps of a client compute at a time.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._lock = threading.Lock()
        #: How many compute, of clients that have any.
        self._computing: dict[str, int] = {}
        #: Held locks, of those that wait; who gives a share to one releases its lock.
        self._waiting: dict[str, deque[threading.Lock]] = {}

    @contextlib.contextmanager
    def of(self, client: str) -> Iterator[None]:
        """Waits for a share of a client's, and has it while the block runs."""
        share = _thread.share = Share(self, client)
        share.resume()
        try:
            yield
        finally:
            _thread.share = None
            share.pause()

    def begin(self, client: str) -> None:
        """Waits until one more step of a client may compute."""
        with self._lock:
            computing = self._computing.get(client, 0)
            if computing < self._most:
                self._computing[client] = computing + 1
                return
            ticket = threading.Lock()
            ticket.acquire()
            self._waiting.setdefault(client, deque()).append(ticket)
        ticket.acquire()

    def end(self, client: str) -> None:
        """One step less computes: the next one may."""
        with self._lock:
            waiting = self._waiting.get(client)
            if waiting:
                waiting.popleft().release()
                if not waiting:
                    del self._waiting[client]
                return
            self._computing[client] -= 1
            if not self._computing[client]:
                del self._computing[client]


class Share:
    """The share of one step."""

    __slots__ = ("_allotments", "_client")

    def __init__(self, allotments: Allotments, client: str) -> None:
        self._allotments = allotments
        self._client = client

    def pause(self) -> None:
        """The step does not compute: another one may."""
        self._allotments.end(self._client)

    def resume(self) -> None:
        """Waits until the step may compute."""
        self._allotments.begin(self._client)


def current() -> Share | None:
    """The share of the step that this thread runs for a client elsewhere; None if it runs none."""
    share: Share | None = getattr(_thread, "share", None)
    return share
