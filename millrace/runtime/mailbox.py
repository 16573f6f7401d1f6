"""Values that other tasks have sent for steps, until the steps take them.

A value may arrive before its step does, and after its step has failed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from millrace.core import errors
from millrace.runtime.deferred import Deferred

#: How many steps that have ended are remembered, to drop what arrives for them.
_MAX_ENDED = 4096
#: What tells the values of a step apart.
Key = Hashable


class _Box:
    __slots__ = ("sources", "values", "waiting")

    def __init__(self) -> None:
        self.values: dict[Key, list[Any]] = {}
        self.waiting: dict[Key, Deferred] = {}
        self.sources: set[str] = set()


class Mailbox:
    """The mailbox of one task."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # see server.worker.Worker
        self._boxes: dict[int, _Box] = {}
        self._ended: OrderedDict[int, errors.OpError | None] = OrderedDict()

    def deliver(self, step: int, key: Key, values: list[Any], source: str = "") -> None:
        """Puts values in; whoever waits for them gets them."""
        with self._lock:
            if step in self._ended:
                return
            box = self._boxes.get(step)
            if box is None:
                box = self._boxes[step] = _Box()
            box.sources.add(source)
            deferred = box.waiting.pop(key, None)
            if deferred is None:
                box.values[key] = values
        if deferred is not None:
            deferred.set_result(values)

    def take(self, step: int, key: Key, waits_for: str) -> list[Any] | Deferred:
        """The values, or what will have them."""
        with self._lock:
            if step in self._ended:
                raise self._ended[step] or errors.CancelledError(None, None, "The step is over.")
            box = self._boxes.get(step)
            if box is None:
                box = self._boxes[step] = _Box()
            values = box.values.pop(key, None)
            if values is not None:
                return values
            deferred = box.waiting[key] = Deferred(waits_for)
            return deferred

    def give_up(self, step: int, key: Key) -> None:
        """Ends one wait: whoever waited for these values is gone."""
        with self._lock:
            box = self._boxes.get(step)
            deferred = box.waiting.pop(key, None) if box is not None else None
            if box is not None and not box.waiting and not box.values:
                del self._boxes[step]
        if deferred is not None:
            deferred.set_error(errors.CancelledError(None, None, "Nobody waits any more."))

    def end(self, step: int, error: errors.OpError | None = None) -> None:
        """Ends a step: what waits gets the error, what is there or comes later is dropped."""
        with self._lock:
            if step in self._ended:
                return
            self._ended[step] = error
            while len(self._ended) > _MAX_ENDED:
                self._ended.popitem(last=False)
            box = self._boxes.pop(step, None)
            waiting = list(box.waiting.values()) if box is not None else []
        for deferred in waiting:
            deferred.set_error(error or errors.CancelledError(None, None, "The step is over."))

    def error_of(self, step: int) -> errors.OpError | None:
        """Why a step has ended already, if it has."""
        if step not in self._ended:
            return None  # As nearly always.
        with self._lock:
            if step not in self._ended:
                return None
            return self._ended[step] or errors.CancelledError(None, None, "The step is over.")

    def forget_source(self, source: str, known_steps: set[int]) -> None:
        """Drops what a lost task sent for steps that nobody has begun."""
        with self._lock:
            for step in [s for s, b in self._boxes.items() if source in b.sources]:
                if step not in known_steps:
                    del self._boxes[step]
