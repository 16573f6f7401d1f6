"""An operation that may have to wait: at a queue, an accumulator, a barrier, a staging area.

The state machine that holds it settles it once, with a value or an error, and hands it back to
the driver in the list of attempts that an event has settled. Who is then told is the driver's
business.
"""

from __future__ import annotations

from typing import Any

from millrace.core import errors
from millrace.core.value import Value


class Attempt:
    """Something asked of a state machine.

    Attributes:
      done: Whether it has a value or an error; never taken back.
      error: The error, if it was settled with one.
      waiter: The driver's note of whom to tell; None while nobody waits.
      events: Where events that it makes are noted, if its step is followed by another task.
    """

    __slots__ = ("_value", "done", "error", "events", "waiter")

    def __init__(self) -> None:
        self.done = False
        self.events: Any = None
        self.waiter: Any = None
        self._value: Any = None
        self.error: errors.OpError | None = None

    def succeed(self, value: object = None) -> None:
        """Settles it with a value."""
        assert not self.done
        self.done, self._value = True, value

    def fail(self, error: errors.OpError) -> None:
        """Settles it with an error."""
        assert not self.done
        self.done, self.error = True, error

    def result(self) -> Value:
        """The value, or raises the error. Must be done."""
        assert self.done
        if self.error is not None:
            raise self.error
        return self._value
