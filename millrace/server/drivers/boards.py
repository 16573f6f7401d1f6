"""The boards of a task: variables that tasks on its machine read without asking.

A task that has asked for the same variables before is told of a board that shows them. From then
on, nothing that this task says may be newer than its boards: before any word leaves, `refresh`
shows what has changed. So whoever hears of an update also finds it on the board.

What nobody reads any more is not shown any more, until somebody asks for it again.
"""

from __future__ import annotations

import operator
import threading
from typing import Any

import numpy as np

from millrace.core import errors
from millrace.rpc import board
from millrace.rpc.channel import Channel
from millrace.rpc.message import layout_of
from millrace.runtime.kernel_call import StoredState
from millrace.runtime.resources import ResourceStore, VariableSlot
from millrace.runtime.stages.transfer import SendStage

#: A reader must have asked so often to be told of a board: most steps run once.
_ASKED = 2
#: So many showings, and some for each reader, are not read before it is thought that none will be.
_UNREAD = 4
_VALUE = operator.attrgetter("value")


class _Shown:
    """Variables, and the board that shows them."""

    def __init__(self, resources: ResourceStore, slots: list[VariableSlot]) -> None:
        self._state = StoredState(resources)
        self._slots = slots
        values = [self._state.read_slot(slot) for slot in slots]
        if any(value is None or value.dtype.hasobject for value in values):
            raise ValueError("Only numbers are shown.")
        self._kinds = [(value.dtype, value.shape) for value in values]
        starts, size = layout_of(values)
        self._board = board.Board(self._kinds, starts, size)
        self.readers: dict[Channel, board.Place] = {}
        #: The variables' values that are shown.
        self._newest: list[Any] = []
        self._unread = 0
        self.is_over = False

    def admit(self, channel: Channel) -> board.Place | None:
        """Where a reader finds the board; None when there is no place left."""
        place = self.readers.get(channel)
        if place is None:
            place = self._board.admit()
            if place is not None:
                self.readers[channel] = place
        return place

    def dismiss(self, channel: Channel) -> None:
        """A reader is gone."""
        place = self.readers.pop(channel, None)
        if place is not None:
            self._board.dismiss(place)

    def wake(self) -> None:
        """Somebody will read."""
        self._unread = 0

    def refresh(self) -> None:
        """Shows the newest values, if they have changed and somebody reads them."""
        values = list(map(_VALUE, self._slots))
        if len(values) == len(self._newest) and all(map(operator.is_, values, self._newest)):
            return
        self._newest = []
        if self._board.was_read():
            self._unread = 0
        if self._unread > _UNREAD + 2 * len(self.readers):
            self._board.hide()
            return
        try:
            arrays = [np.asarray(value) for value in values]
        except RuntimeError:  # An update has just taken the memory of one: its new value comes.
            arrays = [np.asarray(self._state.read_slot(slot)) for slot in self._slots]
        if [(array.dtype, array.shape) for array in arrays] != self._kinds:
            self.close()
            return
        self._unread += 1
        if self._board.show(arrays):
            self._newest = values

    def close(self) -> None:
        """Shows nothing any more."""
        if not self.is_over:
            self.is_over = True
            self._newest = []
            self._board.close()


class Boards:
    """All boards of one task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: dict[tuple[VariableSlot, ...], _Shown] = {}
        #: How often each reader has asked for each group of variables.
        self._asked: dict[tuple[Channel, tuple[VariableSlot, ...]], int] = {}

    def __len__(self) -> int:
        """How many groups of variables are shown."""
        return len(self._shown)

    def offer(self, channel: Channel, stage: SendStage, resources: ResourceStore) -> bytes | None:
        """What tells a task where the variables are shown that it has asked for; None if nowhere.

        Args:
          channel: To that task.
          stage: What it has asked for.
          resources: Where the variables are.
        """
        if channel.process is None or not board.IS_SUPPORTED:
            return None
        slots = stage.slots(resources)
        with self._lock:
            key = tuple(slots)
            asked = self._asked[channel, key] = self._asked.get((channel, key), 0) + 1
            found = self._shown.get(key)
            if found is not None and found.is_over:
                found = None
            if asked < _ASKED:
                return None
            try:
                if found is None:
                    found = self._shown[key] = _Shown(resources, slots)
                place = found.admit(channel)
                if place is None:
                    found.close()  # Too many have come and gone: the next one makes a new one.
                    return None
                found.wake()
                found.refresh()
            except (OSError, ValueError, errors.OpError):
                return None
            return place.pack()

    def refresh(self) -> None:
        """Lets the boards show what is so now; to be called before anything is said."""
        if not self._shown:
            return
        with self._lock:
            for shown in list(self._shown.values()):
                if not shown.is_over:
                    shown.refresh()

    def forget_lost(self) -> None:
        """Forgets readers whose channel is closed, and the boards that nobody is left to read."""
        with self._lock:
            self._asked = {key: n for key, n in self._asked.items() if key[0].is_open}
            for key, shown in list(self._shown.items()):
                for channel in [c for c in shown.readers if not c.is_open]:
                    shown.dismiss(channel)
                if not shown.readers:
                    shown.close()
                if shown.is_over:
                    del self._shown[key]

    def close(self) -> None:
        """Closes all."""
        with self._lock:
            for shown in self._shown.values():
                shown.close()
            self._shown.clear()
