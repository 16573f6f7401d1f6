"""Which sessions of remote clients may go: those whose client has vanished.

A client of Millrace holds its session with a call that lasts as long as the session. When the call
ends and the session is not closed, the client has died, or its connection broke: it has a grace
period to come back, by another hold or by using the session. TensorFlow's clients hold nothing;
their sessions go when they were not used for very long, and others need room.

Only the session goes: variables and all else that sessions share stay.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from millrace.platform import limits, logging

#: How long a client whose connection broke has time to come back.
GRACE_SECONDS = 30.0
#: After this time a session that nobody holds and nobody uses may be forgotten.
IDLE_SECONDS = limits.Limit(
    "MILLRACE_IDLE_SESSION_SECONDS",
    24 * 3600.0,
    "seconds that a session of a client which is not Millrace's may be idle",
)


class _Lease:
    def __init__(self, now: float) -> None:
        self.used = now
        self.holds = 0
        #: Whether its client is one that holds sessions.
        self.was_held = False
        self.timer: threading.Timer | None = None


class SessionLeases:
    """The leases of all sessions of one server's remote clients.

    Args:
      is_busy: Whether a step of a session runs.
      close: Ends a session.
    """

    def __init__(self, is_busy: Callable[[str], bool], close: Callable[[str], None]) -> None:
        self._is_busy = is_busy
        self._close = close
        self._lock = threading.Lock()
        self._leases: dict[str, _Lease] = {}
        self._stopped = False

    def open(self, handle: str) -> None:
        """A session was made."""
        with self._lock:
            self._leases[handle] = _Lease(time.monotonic())

    def use(self, handle: str) -> None:
        """A session is used."""
        lease = self._leases.get(handle)
        if lease is not None:
            lease.used = time.monotonic()

    def hold(self, handle: str) -> Callable[[], None] | None:
        """Holds a session; a function that lets go of it, or None if there is no such session."""
        with self._lock:
            lease = self._leases.get(handle)
            if lease is None or self._stopped:
                return None
            lease.holds += 1
            lease.was_held = True
            if lease.timer is not None:
                lease.timer.cancel()
                lease.timer = None
        return lambda: self._let_go(handle, lease)

    def _let_go(self, handle: str, lease: _Lease) -> None:
        with self._lock:
            lease.holds -= 1
            lease.used = time.monotonic()
            if lease.holds or self._stopped or self._leases.get(handle) is not lease:
                return
            self._watch(handle, lease, GRACE_SECONDS)

    def _watch(self, handle: str, lease: _Lease, seconds: float) -> None:
        lease.timer = timer = threading.Timer(seconds, self._look, (handle, lease))
        timer.name, timer.daemon = "millrace lease", True
        timer.start()

    def _look(self, handle: str, lease: _Lease) -> None:
        with self._lock:
            if self._stopped or self._leases.get(handle) is not lease or lease.holds:
                return
            left = lease.used + GRACE_SECONDS - time.monotonic()
            if left > 0 or self._is_busy(handle):
                self._watch(handle, lease, max(left, GRACE_SECONDS / 10))
                return
            del self._leases[handle]
        logging.warning("The client of session %s has vanished: the session is closed.", handle)
        self._close(handle)

    def forget(self, handle: str) -> None:
        """A session was closed."""
        with self._lock:
            lease = self._leases.pop(handle, None)
            if lease is not None and lease.timer is not None:
                lease.timer.cancel()

    def close_idle(self) -> None:
        """Closes sessions that were idle for very long."""
        before = time.monotonic() - IDLE_SECONDS.value
        with self._lock:
            idle = [
                handle
                for handle, lease in self._leases.items()
                if not lease.was_held and lease.used < before and not self._is_busy(handle)
            ]
        for handle in idle:
            logging.warning("Session %s was idle for long: it is closed.", handle)
            self.forget(handle)
            self._close(handle)

    def stop(self) -> None:
        """Watches no more."""
        with self._lock:
            self._stopped = True
            for lease in self._leases.values():
                if lease.timer is not None:
                    lease.timer.cancel()
            self._leases.clear()
