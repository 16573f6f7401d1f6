"""The collector of cyclic garbage, in a process that holds large graphs of remote clients.

A full collection goes through all containers of the process in one call, in which no other thread
runs: 0.4 s for a graph of 50,000 nodes and its plan, again and again while it grows. So, while a
remote client has a graph here and the heap is large, what a full collection has seen and kept is
*frozen* (`gc.freeze`): the next one goes through what has been made since, some 80,000 objects.

Frozen objects go when nothing refers to them, as most objects do. Rings of them stay, and so what
holds a remote client's graph takes it apart when it lets go of it (`Graph.take_apart`). What is
left is collected once the heap is small again; that goes through the modules too, and happens once
a minute at most while clients have graphs here.

A process without remote clients, such as a trainer that makes a graph per trial, is left alone.
See decision 29.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable

from millrace.platform import process_tuning

#: A heap is large when it has so many more blocks than when the first graph came: a full
#: collection then takes some 30 ms.
LARGE_BLOCKS = 100_000
#: Seconds between two collections of what was frozen.
THAW_SECONDS = 60.0


class LargeHeap:
    """Keeps full collections short while graphs are held for remote clients."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._held = 0
        self._blocks_before = 0
        self._is_frozen = False
        self._is_thawing = False
        #: When all objects were looked at, or were not though it was time to; None before.
        self._thawed_at: float | None = None

    def hold(self) -> None:
        """A remote client has one more graph in this process."""
        with self._lock:
            self._held += 1
            if self._on_collection not in gc.callbacks and process_tuning.is_on():
                self._blocks_before = sys.getallocatedblocks()
                gc.callbacks.append(self._on_collection)

    def release(self) -> None:
        """It has one less."""
        with self._lock:
            self._held -= 1

    def _is_large(self) -> bool:
        more = sys.getallocatedblocks() - self._blocks_before
        return self._held > 0 and more > LARGE_BLOCKS

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        # No lock: the collector may come to any thread at any point, also inside of `hold`.
        if info["generation"] < 2:
            return
        if phase == "start":
            now = self._clock()
            if self._thawed_at is None:  # It would go through all modules that the task has loaded.
                gc.freeze()
                self._is_frozen, self._thawed_at = True, now
            may_thaw = self._held == 0 or now - self._thawed_at > THAW_SECONDS
            if self._is_frozen and may_thaw and not self._is_large():
                gc.unfreeze()
                self._is_frozen, self._is_thawing, self._thawed_at = False, True, now
        elif self._is_large():
            gc.freeze()
            self._is_frozen = True
        elif self._is_thawing:
            gc.freeze()  # The modules, which were frozen before; see `process_tuning`.
            self._is_thawing = False


LARGE_HEAP = LargeHeap()
