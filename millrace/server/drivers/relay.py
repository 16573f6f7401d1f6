"""Where a partition of a step goes on when what it waited for has arrived.

A thread that delivers a message goes on itself with the partitions that the message sets free, and
with those that these set free: the last gradient of a round closes the round and
wakes all its workers without another thread. They run one after the other, each when the one
before has come to a stop, never inside it; and no more than a few, or one delivery might never
end and its sender never be read again.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable

from millrace.runtime.executor import Resume

#: So many partitions go on in a thread that delivers; the others elsewhere.
MAX_HERE = 64

GoOn = Callable[[], None]
#: What is to go on, and how it would elsewhere.
_Ready = collections.deque[tuple[GoOn, Resume]]


class Relay:
    """The partitions of steps that go on in threads that deliver messages."""

    def __init__(self, elsewhere: Resume) -> None:
        """Makes a relay.

        Args:
          elsewhere: Calls a function in another thread.
        """
        self._elsewhere = elsewhere
        self._local = threading.local()

    def resume(self, go_on: GoOn, elsewhere: Resume | None = None) -> None:
        """Calls the function soon: in this thread if it delivers, else elsewhere.

        Args:
          go_on: The function.
          elsewhere: Calls it in another thread, if it is not the usual way.
        """
        ready: _Ready | None = getattr(self._local, "ready", None)
        if ready is None:
            (elsewhere or self._elsewhere)(go_on)
        else:
            ready.append((go_on, elsewhere or self._elsewhere))

    def deliver(self, action: Callable[[], None]) -> None:
        """Calls `action`, which hands a message over, and then what that has set free."""
        if getattr(self._local, "ready", None) is not None:
            action()  # by what was set free: the delivery further out will go on
            return
        ready: _Ready = collections.deque()
        self._local.ready = ready
        try:
            action()
            for _ in range(MAX_HERE):
                if not ready:
                    break
                ready.popleft()[0]()
        finally:
            self._local.ready = None
            for go_on, elsewhere in ready:
                elsewhere(go_on)
