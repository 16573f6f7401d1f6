"""Steps that a task repeats by itself: its master asks once, and hears of the end.

The chief of synchronous training closes rounds, one step like the other, with nothing to feed and
nothing to fetch. Asking for each costs two messages and wakes a thread of the chief in the middle
of its own step. So the task that runs the step begins it again when it is over, until it fails, is
cancelled, loses its master or is told that the round is the last.

Only a step can be repeated whose work is all on one other task, and that has no deadline.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from millrace.protocol.step.events import LastRoundRequested, RepetitionRequested
from millrace.runtime import executor
from millrace.runtime.step import Step
from millrace.server.drivers.pending_step import PendingStep
from millrace.server.drivers.prepared_step import PreparedStep
from millrace.server.drivers.wire import RunContext

if TYPE_CHECKING:
    from millrace.server.master_session import MasterSession


class RepeatedStep:
    """A step that another task repeats, as its master sees it.

    Args:
      session: The session that it is a step of.
      prepared: The step; `PreparedStep.can_repeat` must say that it can be.
    """

    def __init__(self, session: MasterSession, prepared: PreparedStep) -> None:
        self._session = session
        self._prepared = prepared
        self._lock = threading.Lock()
        self._is_ending = False
        self._pending: PendingStep | None = None

    def run(self) -> None:
        """Has the step repeated; returns after `end`, when the round that ran then is over.

        Raises:
          OpError: What ended it.
        """
        session, prepared = self._session, self._prepared
        step = Step(session.state, executor.run_values)
        pending = session.begin_step(prepared, step, RunContext(()))
        try:
            number = pending.step.number
            pending.tell(RepetitionRequested(number))
            with self._lock:
                self._pending = pending
                ends = self._is_ending
            if ends:
                pending.tell(LastRoundRequested(number))
            # The channel is left to threads whose steps need what it brings.
            pending.wait(None, reports=False)
        finally:
            with self._lock:
                self._pending = None
            session.end_step(pending, step)
        if pending.step.error is not None:
            raise pending.step.error

    def end(self) -> None:
        """Lets the round that runs be the last one; `run` then returns. From any thread."""
        with self._lock:
            self._is_ending = True
            pending = self._pending
        if pending is not None:
            pending.tell(LastRoundRequested(pending.step.number))
