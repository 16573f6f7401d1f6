"""What a task that was stopped may believe of what lies in its sockets: nothing, until it is told.

While a task was stopped, others may have given it up: they have ended their steps, and closed the
channels. But what they sent before that is still to be read, and would be taken for valid. So each
channel is asked a question, and what comes over it is kept back until the answer arrives. A task
that has given the task up does not answer: the channel ends, and what was kept back is dropped.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Channel = TypeVar("Channel", bound=Hashable)
Message = TypeVar("Message")


class Doubt(Generic[Channel, Message]):
    """The channels of one task that are not believed.

    Attributes:
      doubted: Those channels, with the number of the question, and what came since, in order, with
        the step it is about.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.doubted: dict[Channel, tuple[int, list[tuple[int, Message]]]] = {}

    def begin(self, channels: Iterable[Channel]) -> int:
        """The task was stopped; the number of the question to ask on each of these channels."""
        number = next(self._numbers)
        for channel in channels:
            _, kept = self.doubted.get(channel, (0, []))
            self.doubted[channel] = (number, kept)
        return number

    def keeps(self, channel: Channel, message: Message, step: int, cancels: bool) -> bool:
        """Whether a message is kept back.

        Args:
          channel: Where it came.
          message: The message.
          step: The step that it is about.
          cancels: Whether it ends that step: then what came before it is not wanted any more.
        """
        if channel not in self.doubted:
            return False
        kept = self.doubted[channel][1]
        if cancels:
            kept[:] = [each for each in kept if each[0] != step]
        kept.append((step, message))
        return True

    def answered(self, channel: Channel, number: int) -> list[Message]:
        """The other side has answered a question; what is to be believed now, in order."""
        found = self.doubted.get(channel)
        if found is None or found[0] != number:
            return []
        del self.doubted[channel]
        return [message for _, message in found[1]]

    def closed(self, channel: Channel) -> None:
        """The channel is gone, and what came over it counts no more."""
        self.doubted.pop(channel, None)
