"""The snapshots of a task: variables that tasks on its machine read without asking.

A task that has asked for the same variables before is told of a snapshot of them. From then on,
nothing that this task says may be newer than its snapshots: the step's protocol has them refreshed
before anything is told (`Publish`). So a task that hears of an update also finds it there.

Snapshots that nobody reads any more are not refreshed any more, until somebody asks again.
"""

from __future__ import annotations

import operator
import threading

import numpy as np

from millrace.core import errors
from millrace.core.value import Value
from millrace.rpc import snapshot
from millrace.rpc.channel import Channel
from millrace.rpc.message import layout_of
from millrace.runtime.kernel_call import StoredState
from millrace.runtime.resources import ResourceStore, VariableSlot
from millrace.runtime.stages.transfer import SendStage

#: A reader must have asked so often to be told of a snapshot: most steps run once.
_ASKED = 2
#: So many versions, and some for each reader, go unread before it is thought that all will.
_UNREAD = 4
_VALUE = operator.attrgetter("value")


class _Published:
    """Variables, and the snapshot of them."""

    def __init__(self, resources: ResourceStore, slots: list[VariableSlot]) -> None:
        self._state = StoredState(resources)
        self._slots = slots
        values = [self._state.read_slot(slot) for slot in slots]
        if any(value is None or value.dtype.hasobject for value in values):
            raise ValueError("Only numbers are published.")
        self._kinds = [(value.dtype, value.shape) for value in values]
        starts, size = layout_of(values)
        self._snapshot = snapshot.Snapshot(self._kinds, starts, size)
        self.readers: dict[Channel, snapshot.Location] = {}
        #: The values of the newest version.
        self._newest: list[Value] = []
        self._unread = 0
        self.is_over = False

    def admit(self, channel: Channel) -> snapshot.Location | None:
        """Where a reader finds the snapshot; None when there is no place left."""
        location = self.readers.get(channel)
        if location is None:
            location = self._snapshot.admit()
            if location is not None:
                self.readers[channel] = location
        return location

    def dismiss(self, channel: Channel) -> None:
        """A reader is gone."""
        location = self.readers.pop(channel, None)
        if location is not None:
            self._snapshot.dismiss(location)

    def wake(self) -> None:
        """Somebody will read."""
        self._unread = 0

    def refresh(self) -> None:
        """Publishes the newest values, if they have changed and somebody reads them."""
        values = list(map(_VALUE, self._slots))
        if len(values) == len(self._newest) and all(map(operator.is_, values, self._newest)):
            return
        self._newest = []
        if self._snapshot.was_read():
            self._unread = 0
        if self._unread > _UNREAD + 2 * len(self.readers):
            self._snapshot.withdraw()
            return
        try:
            arrays = [np.asarray(value) for value in values]
        except RuntimeError:  # An update has just taken the memory of one: its new value comes.
            arrays = [np.asarray(self._state.read_slot(slot)) for slot in self._slots]
        if [(array.dtype, array.shape) for array in arrays] != self._kinds:
            self.close()
            return
        self._unread += 1
        if self._snapshot.publish(arrays):
            self._newest = values

    def close(self) -> None:
        """Publishes nothing any more."""
        if not self.is_over:
            self.is_over = True
            self._newest = []
            self._snapshot.close()


class Snapshots:
    """All snapshots of one task.

    Attributes:
      published: The snapshots, by the variables that they are of.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.published: dict[tuple[VariableSlot, ...], _Published] = {}
        #: How often each reader has asked for each group of variables.
        self._asked: dict[tuple[Channel, tuple[VariableSlot, ...]], int] = {}

    def __len__(self) -> int:
        """How many groups of variables are published."""
        return len(self.published)

    def offer(self, channel: Channel, stage: SendStage, resources: ResourceStore) -> bytes | None:
        """What tells a task where it can read the variables that it has asked for; None if nowhere.

        Args:
          channel: To that task.
          stage: What it has asked for.
          resources: Where the variables are.
        """
        if channel.process is None or not snapshot.IS_SUPPORTED:
            return None
        slots = stage.slots(resources)
        with self._lock:
            key = tuple(slots)
            asked = self._asked[channel, key] = self._asked.get((channel, key), 0) + 1
            found = self.published.get(key)
            if found is not None and found.is_over:
                found = None
            if asked < _ASKED:
                return None
            try:
                if found is None:
                    found = self.published[key] = _Published(resources, slots)
                location = found.admit(channel)
                if location is None:
                    found.close()  # Too many have come and gone: the next one makes a new one.
                    return None
                found.wake()
                found.refresh()
            except (OSError, ValueError, errors.OpError):
                return None
            return location.pack()

    def refresh(self) -> None:
        """Publishes what has changed."""
        if not self.published:
            return
        with self._lock:
            for each in list(self.published.values()):
                if not each.is_over:
                    each.refresh()

    def forget_lost(self) -> None:
        """Forgets readers whose channel is closed, and snapshots that nobody is left to read."""
        with self._lock:
            self._asked = {key: n for key, n in self._asked.items() if key[0].is_open}
            for key, each in list(self.published.items()):
                for channel in [c for c in each.readers if not c.is_open]:
                    each.dismiss(channel)
                if not each.readers:
                    each.close()
                if each.is_over:
                    del self.published[key]

    def close(self) -> None:
        """Closes all."""
        with self._lock:
            for each in self.published.values():
                each.close()
            self.published.clear()
