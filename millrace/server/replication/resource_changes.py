"""What happens to the queues, accumulators and tables of a task that has a standby.

The primary's side (`ResourceChanges`) numbers the events of each of them, and collects those of a
step until they are told together with the step's entry in the record: nobody sees one without the
other. The standby's side (`Mirrors`) has a state machine for each, which performs the same events,
and hands them to the resources when these are made in a task that has taken over.

Resources that belong to a session go with it, and are not followed.
"""

from __future__ import annotations

import binascii
import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import google_crc32c
import numpy as np

from millrace.core.tensor_shape import TensorShape
from millrace.core.value import JsonValue
from millrace.ops.data_flow.accumulators import Accumulator
from millrace.ops.data_flow.queue_kernels import Queue
from millrace.ops.lookup.kernels import Table
from millrace.protocol import accumulator, lookup_table, queue
from millrace.protocol.attempt import Attempt
from millrace.protocol.replication.mirror import WHOLE, Event, Mirror, Mirrored
from millrace.runtime.resources import ResourceStore

#: A resource that a standby follows by its events.
Followed: TypeAlias = Accumulator | Queue | Table
_KINDS: tuple[type[Followed], ...] = (Accumulator, Queue, Table)
_ANY = np.dtype(object)
#: How a state machine is made that only follows.
_FOLLOWERS: dict[str, Callable[[], Mirrored]] = {
    "DenseAccumulatorState": lambda: accumulator.DenseAccumulatorState("", TensorShape(None), True),
    "SparseAccumulatorState": lambda: accumulator.SparseAccumulatorState(
        "", TensorShape(None), True
    ),
    "FifoQueueState": lambda: queue.FifoQueueState("", -1),
    "PaddingFifoQueueState": lambda: queue.PaddingFifoQueueState("", -1),
    "RandomShuffleQueueState": lambda: queue.RandomShuffleQueueState("", -1, 0, lambda n: 0),
    "PriorityQueueState": lambda: queue.PriorityQueueState("", -1),
    "StaticTable": lambda: lookup_table.StaticTable("", _ANY),
    "MutableTable": lambda: lookup_table.MutableTable("", _ANY),
    "DenseTable": lambda: lookup_table.DenseTable("", _ANY, (), None, None),
}


class Key(NamedTuple):
    """Which resource: the type of its state machine, its container and its name."""

    kind: str
    container: str
    name: str


class Noted(NamedTuple):
    """An event of a resource, with its number."""

    key: Key
    version: int
    event: Event


class _Tracked:
    """A resource whose events are numbered."""

    def __init__(self, key: Key, resource: Followed, version: int) -> None:
        self.key = key
        self.resource = resource
        self.version = version

    def whole(self) -> Noted:
        """Its state, and the number of its last event."""
        with self.resource.lock:
            return Noted(self.key, self.version, self.resource.state.as_event())


class _OfThread(threading.local):
    #: Where events of the change that this thread makes are noted.
    events: list[Noted] | None = None
    #: How many changes this thread is in the middle of.
    depth = 0


class ResourceChanges:
    """Numbers what happens to the resources of a store.

    Args:
      inherited: What a standby that has taken over has followed.

    Attributes:
      pending: Events that belong to no change, and are to be told before anything else is.
    """

    def __init__(self, inherited: dict[Key, Mirror] | None = None) -> None:
        self._inherited = dict(inherited or {})
        self._tracked: dict[Key, _Tracked] = {}
        self.pending: deque[Noted] = deque()
        self._thread = _OfThread()
        #: How many changes are made now; none begins while it is closed.
        self._running = 0
        self._is_closed = False
        self._gate = threading.Condition()

    def follow(self, store: ResourceStore) -> None:
        """Numbers the events of all resources that a store has or gets."""
        store.on_created = self._created
        for kind in _KINDS:
            for container, name, found in store.all_of(kind):
                self._created(found, container, name)

    def _created(self, resource: object, container: str, name: str) -> None:
        if not isinstance(resource, _KINDS) or name.startswith("_"):
            return
        state: Any = resource.state
        key = Key(type(state).__name__, container, name)
        mirror = self._inherited.pop(key, None)
        tracked = _Tracked(key, resource, 0)
        if mirror is not None:
            mirror.settle()
            state.follow(mirror.state.as_event())
            state.serve_followed()
            tracked.version = mirror.version
        elif key in self._tracked:  # Its container was cleared.
            tracked.version = self._tracked[key].version + 1
            self.pending.append(Noted(key, tracked.version, state.as_event()))
        self._tracked[key] = tracked

        def note(attempt: Attempt | None, event: Event) -> None:
            tracked.version += 1
            sink = self._thread.events
            if attempt is not None and attempt.events is not None:
                sink = attempt.events
            (self.pending if sink is None else sink).append(Noted(key, tracked.version, event))

        state.listener = note
        if not isinstance(resource, Table):
            resource.noting = lambda: self._thread.events

    # -- Changes -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def change(self) -> Iterator[list[Noted]]:
        """A step changes resources: collects the events of this thread."""
        with self._inside():
            before, self._thread.events = self._thread.events, []
            try:
                yield self._thread.events
            finally:
                self._thread.events = before

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        thread = self._thread
        with self._gate:
            if not thread.depth:
                self._gate.wait_for(lambda: not self._is_closed)
            self._running += 1
        thread.depth += 1
        try:
            yield
        finally:
            thread.depth -= 1
            with self._gate:
                self._running -= 1
                if self._is_closed and not self._running:
                    self._gate.notify_all()

    @contextlib.contextmanager
    def elsewhere(self) -> Iterator[None]:
        """This thread holds what a change may wait for: its own changes wait for nobody."""
        self._thread.depth += 1
        try:
            yield
        finally:
            self._thread.depth -= 1

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """No change is half-way, and none begins."""
        with self._gate:
            self._is_closed = True
            self._gate.wait_for(lambda: not self._running)
        try:
            yield
        finally:
            with self._gate:
                self._is_closed = False
                self._gate.notify_all()

    def wholes(self) -> list[Noted]:
        """All resources as they are."""
        waiting = [
            Noted(key, mirror.version, mirror.state.as_event())
            for key, mirror in self._inherited.items()
        ]
        return [tracked.whole() for tracked in list(self._tracked.values())] + waiting

    def cleared(self, containers: list[str]) -> None:
        """Containers were dropped: nobody inherits from what was in them."""
        for key in [key for key in self._inherited if key.container in containers]:
            del self._inherited[key]


class Mirrors:
    """The resources of another task, followed."""

    def __init__(self) -> None:
        self.all: dict[Key, Mirror] = {}

    def set(self, noted: Noted) -> None:
        """A resource is as it is told."""
        self._mirror(noted.key).set(noted.version, noted.event)

    def on(self, noted: Noted) -> None:
        """An event was told."""
        if noted.event.what == WHOLE:
            self.set(noted)
        else:
            self._mirror(noted.key).on(noted.version, noted.event)

    def clear(self, containers: list[str]) -> None:
        """Containers were dropped."""
        self.all = {key: m for key, m in self.all.items() if key.container not in containers}

    def _mirror(self, key: Key) -> Mirror:
        found = self.all.get(key)
        if found is None:
            found = self.all[key] = Mirror(_FOLLOWERS[key.kind]())
        return found

    def settle(self) -> None:
        """The task takes over: nothing more comes."""
        for mirror in self.all.values():
            mirror.settle()

    def wholes(self) -> list[Noted]:
        """All of them as they are."""
        return [Noted(key, m.version, m.state.as_event()) for key, m in self.all.items()]


def digests(wholes: list[Noted]) -> dict[str, JsonValue]:
    """The number of the last event and a checksum of each resource, by container and name."""
    return {
        f"{each.key.container}/{each.key.name} ({each.key.kind})": [
            each.version,
            _checksum(each.event),
        ]
        for each in wholes
    }


def _checksum(event: Event) -> int:
    found = binascii.crc32(json.dumps(event.words, sort_keys=True).encode())
    for value in event.values:
        found = binascii.crc32(checksum(value).to_bytes(8, "little"), found)
    return found


def checksum(value: object) -> int:
    """A checksum of an array or of bytes."""
    if isinstance(value, bytes):
        return binascii.crc32(repr([value]).encode())
    array = np.ascontiguousarray(value)
    if array.dtype == object:
        return binascii.crc32(repr(array.tolist()).encode())
    return int(google_crc32c.value(array.reshape(-1).view(np.uint8).tobytes()))
