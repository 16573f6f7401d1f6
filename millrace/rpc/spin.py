"""Spin-wait: polling for a message for a moment, before sleeping until it comes.

Waking a core takes longer than most of the work it is woken for, on a virtual machine many times
as long: without spinning a step of a small model takes half as long again. Where each task of a
machine has a core of its own, nobody else needs the core of a waiting task, so it spins. Never for
long, and never in more than one thread per process.

With one task more than there are cores, others do need the core, except while a round of
synchronous training is being closed: then all workers wait for the ps. So they spin too, and yield
the core between polls.

A thread that never sleeps is preempted first when others want the core. A poll that took too long
shows that this has happened; then threads do not spin for a while, which doubles each time.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Mapping

#: The longest wait without sleep: the next message of a step that is worth it comes sooner.
_SECONDS = 0.002
#: The same in a round: the ps has to hear from all, and to update the model.
_ROUND_SECONDS = 0.003
#: How many looks before the clock is asked, and what they take at most when nobody disturbs them.
_LOOKS = 8
_UNDISTURBED = 0.0005
#: How long not to spin after a disturbance: at first, and at most.
_SHORTEST_BACKOFF, _LONGEST_BACKOFF = 0.02, 10.0
#: A disturbance is the first again when there was none for so many times the pause it would cost.
_FORGOTTEN = 10


class SpinPolicy:
    """Whether and how the threads of one process spin for messages.

    Attributes:
      is_on: Whether they spin at all.
      is_on_in_rounds: Whether they spin at least while all wait for one task.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_on = False
        self.is_on_in_rounds = False
        self._clock = clock
        self._one = threading.Lock()
        self._backs_off_until = 0.0
        self._backoff = _SHORTEST_BACKOFF

    def configure(self, cores: int, tasks: int, environment: Mapping[str, str]) -> None:
        """Decides whether to spin.

        Args:
          cores: Of this machine that the process may use.
          tasks: The cluster's tasks on this machine.
          environment: MILLRACE_SPIN decides if it is there: 0 is never, 1 always.
        """
        wanted = environment.get("MILLRACE_SPIN", "")
        self.is_on = wanted == "1" or (wanted != "0" and 1 < tasks <= cores)
        self.is_on_in_rounds = (
            wanted != "0" and 1 < cores == tasks - 1 and hasattr(os, "sched_yield")
        )

    def until(
        self, poll: select.poll, is_over: Callable[[], object], in_round: bool = False
    ) -> list[tuple[int, int]]:
        """Polls for a moment whether there is something to read; what `poll` found.

        Args:
          poll: A `select.poll` object.
          is_over: Whether there is no need to look any more.
          in_round: Whether the other tasks wait too, all for one.
        """
        if not self.is_on:
            return self._offering(poll, is_over) if in_round and self.is_on_in_rounds else []
        now = self._clock()
        if now < self._backs_off_until or not self._one.acquire(blocking=False):
            return []
        try:
            end = now + _SECONDS
            while not is_over():
                for _ in range(_LOOKS):
                    found: list[tuple[int, int]] = poll.poll(0)
                    if found:
                        return found
                before, now = now, self._clock()
                if now - before > _UNDISTURBED:
                    self._back_off(now)
                    break
                if now >= end:
                    break
        finally:
            self._one.release()
        return []

    def _offering(self, poll: select.poll, is_over: Callable[[], object]) -> list[tuple[int, int]]:
        """Polls, and yields the core after each poll that finds nothing."""
        if not self._one.acquire(blocking=False):
            return []
        try:
            end = self._clock() + _ROUND_SECONDS
            while not is_over():
                found: list[tuple[int, int]] = poll.poll(0)
                if found:
                    return found
                os.sched_yield()
                if self._clock() >= end:
                    break
        finally:
            self._one.release()
        return []

    def _back_off(self, now: float) -> None:
        if now - self._backs_off_until > _FORGOTTEN * self._backoff:
            self._backoff = _SHORTEST_BACKOFF
        self._backs_off_until = now + self._backoff
        self._backoff = min(2 * self._backoff, _LONGEST_BACKOFF)


#: Of this process.
spin_policy = SpinPolicy()
