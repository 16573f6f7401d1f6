"""Allotments: how many steps of one client may compute at the same time on one task.

A client that asks for thousands of steps at once would have a thread for each, and others one among
thousands. So a few of its steps compute, and its others wait until one has ended, in the order in
which they came. Clients do not wait for each other here: the system shares the cores among the few
that each has. A step that waits for something else (a queue, another task) has no share meanwhile,
so that steps which wait for each other cannot block each other.

A share belongs to a thread: the one that serves the client's call, or one that goes on with a
partition of a step that another task's master has asked for. Such a partition waits for its share
without a thread, because the thread that brings it reads messages that others wait for.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator

from millrace.platform import logging

#: Called when there is a share for it.
Action = Callable[[], None]

_thread = threading.local()


class Allotments:
    """What is allotted to all clients of one server.

    Args:
      most: How many steps of a client compute at a time.
      elsewhere: Calls a function in another thread.
    """

    def __init__(self, most: float, elsewhere: Callable[[Action], None] | None = None) -> None:
        self._most = most
        self._elsewhere = elsewhere or (lambda action: action())
        self._lock = threading.Lock()
        #: How many compute, of clients that have any.
        self._computing: dict[str, int] = {}
        #: Those that wait: held locks, which who gives a share to one releases, and actions.
        self._waiting: dict[str, deque[threading.Lock | Action]] = {}

    @contextlib.contextmanager
    def of(self, client: str) -> Iterator[None]:
        """Waits for a share of a client's, and has it while the block runs."""
        share = _thread.share = Share(self, client)
        share.resume()
        try:
            yield
        finally:
            _thread.share = None
            share.let_go()

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
        action = self._next(client)
        if action is not None:
            self._elsewhere(functools.partial(self._run, client, action))

    def run(self, client: str, action: Action) -> bool:
        """Has an action called in another thread, when one more step of a client may compute.

        It has a share until it returns. Who calls this does not wait.

        Returns:
          Whether the action has to wait for a share.
        """
        with self._lock:
            computing = self._computing.get(client, 0)
            if computing >= self._most:
                self._waiting.setdefault(client, deque()).append(action)
                return True
            self._computing[client] = computing + 1
        self._elsewhere(functools.partial(self._run, client, action))
        return False

    def forget(self, client: str, action: Action) -> bool:
        """An action need not be called any more.

        Returns:
          Whether it waited for a share, and is not called now; False if it has one.
        """
        with self._lock:
            waiting = self._waiting.get(client)
            if not waiting or action not in waiting:
                return False
            waiting.remove(action)
            if not waiting:
                del self._waiting[client]
            return True

    def _run(self, client: str, action: Action | None) -> None:
        """Calls an action with a share that there is for it, and those that are next."""
        before = current()
        _thread.share = Share(self, client)
        try:
            while action is not None:
                try:
                    action()
                except Exception:  # A mistake of ours; others wait for the share.
                    logging.error("A partition of a step failed to go on", exc_info=True)
                action = self._next(client)
        finally:
            _thread.share = before

    def _next(self, client: str) -> Action | None:
        """Hands a share on that is not needed any more; what is to be called with it, if any."""
        with self._lock:
            waiting = self._waiting.get(client)
            if waiting:
                found = waiting.popleft()
                if not waiting:
                    del self._waiting[client]
                if callable(found):
                    return found
                found.release()
                return None
            self._computing[client] -= 1
            if not self._computing[client]:
                del self._computing[client]
            return None


class Share:
    """The share of one step."""

    __slots__ = ("_allotments", "_client", "_holders")

    def __init__(self, allotments: Allotments, client: str) -> None:
        self._allotments = allotments
        self._client = client
        #: An item for each thread that computes with it.
        self._holders = [None]

    def keep(self) -> None:
        """One more thread computes with the share, which lasts until all have let go of it."""
        self._holders.append(None)

    def let_go(self) -> None:
        """A thread that had the share computes no more."""
        self._holders.pop()  # One of several threads finds it empty, and only one.
        if not self._holders:
            self.pause()

    def renewed(self) -> contextlib.AbstractContextManager[None]:
        """Waits for another share of the client's, for a thread that computes beside this one."""
        return self._allotments.of(self._client)

    def pause(self) -> None:
        """The step does not compute: another one may."""
        self._allotments.end(self._client)

    def resume(self) -> None:
        """Waits until the step may compute."""
        self._allotments.begin(self._client)


@contextlib.contextmanager
def sharing(share: Share | None) -> Iterator[None]:
    """Lets this thread compute with another thread's share while the block runs."""
    _thread.share = share
    try:
        yield
    finally:
        _thread.share = None
        if share is not None:
            share.let_go()


def current() -> Share | None:
    """The share of the step that this thread runs for a client elsewhere; None if it runs none."""
    share: Share | None = getattr(_thread, "share", None)
    return share
