"""How far a running job is: asks its servers, about once a second, in threads of its own.

A task that does not answer (it starts, or is gone) keeps the figures that it had. One that does is
told which tasks have ended well, if it does not know: it was restarted, and nobody else may be left
who remembers.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping

from millrace.core import errors
from millrace.rpc.service import Connection

_SECONDS = 1.0


class Rate:
    """How fast a count grows, from the last times that it was read.

    A rate is over several seconds: a single second of a fast job says little.
    """

    def __init__(self, window: float = 5.0) -> None:
        self._window = window
        self._seen: list[tuple[float, int]] = []

    def add(self, now: float, count: int) -> None:
        """Notes what was read; a count that went back belongs to a task that was restarted."""
        if self._seen and count < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, count))
        while len(self._seen) > 2 and self._seen[1][0] <= now - self._window:
            del self._seen[0]

    @property
    def count(self) -> int | None:
        """What was read last."""
        return self._seen[-1][1] if self._seen else None

    @property
    def last_time(self) -> float:
        """When it was read last."""
        return self._seen[-1][0] if self._seen else 0.0

    @property
    def per_second(self) -> float:
        """The growth a second, 0 when it is not known yet."""
        if len(self._seen) < 2:
            return 0.0
        (start, first), (end, last) = self._seen[0], self._seen[-1]
        return (last - first) / max(end - start, 1e-9)


class StepWatch:
    """The global step of a job, and the steps that each of its tasks took part in."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        """Takes addresses by task; nothing is asked before `start`."""
        self._addresses = dict(addresses)
        self._lock = threading.Lock()
        self._global = Rate()
        #: The first global step that was seen, and when: what the whole job is measured from.
        self._first: tuple[float, int] | None = None
        self._is_over = False
        self._tasks = {name: Rate() for name in self._addresses}
        #: The addresses of the tasks that have ended well.
        self._ended: frozenset[str] = frozenset()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=task, daemon=True)
            for task in self._addresses.items()
        ]

    @property
    def global_step(self) -> int | None:
        """The global step, if a variable of that name was found."""
        with self._lock:
            return self._global.count

    @property
    def steps_per_second(self) -> float:
        """How fast the global step grows; when the job is over, how fast it grew in all."""
        with self._lock:
            if not self._is_over or self._first is None or self._global.count is None:
                return self._global.per_second
            start, first = self._first
            return (self._global.count - first) / max(self._global.last_time - start, 1e-9)

    def of(self, task: str) -> Rate | None:
        """What is known of a task, None if it has no server."""
        return self._tasks.get(task)

    def ended_well(self, addresses: Iterable[str]) -> None:
        """Says which tasks have ended well, all of them."""
        self._ended = frozenset(addresses)

    def start(self) -> None:
        """Begins to ask."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Asks no more."""
        self._over.set()

    def end(self, global_step: int | None) -> None:
        """The job is over, and this is the global step that it came to, if it is known."""
        self.stop()
        with self._lock:
            self._is_over = True
            if global_step is not None and global_step >= (self._global.count or 0):
                self._note(global_step)

    def _note(self, global_step: int) -> None:
        now = time.monotonic()
        self._global.add(now, global_step)
        if self._first is None or global_step < self._first[1]:
            self._first = (now, global_step)

    def _ask(self, name: str, address: str) -> None:
        connection = Connection(address)
        while not self._over.wait(_SECONDS):
            try:
                status = json.loads(connection.status(timeout=_SECONDS))
                for gone in self._ended - {address, *status.get("left", ())}:
                    connection.say_left(gone, _SECONDS)
            except (errors.OpError, ValueError):
                continue
            with self._lock:
                self._tasks[name].add(time.monotonic(), status["steps"])
                if status.get("global_step") is not None and not self._is_over:
                    self._note(status["global_step"])
        connection.close()
