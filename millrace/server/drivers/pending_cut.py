"""Takes one cut for a step of this task's master, over all tasks that the step reads.

The rules are in `protocol.cut.master`. The client's thread waits; answers come in any thread.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from millrace.core import errors
from millrace.platform import logging
from millrace.protocol.cut import events, instructions
from millrace.protocol.cut.master import MasterCut
from millrace.rpc.message import Message
from millrace.server.drivers import cut_wire

if TYPE_CHECKING:
    from millrace.server.master import Master

#: So long a cut is tried again that met another one, and so long between two tries, at most.
_RETRY_SECONDS, _PAUSE_SECONDS = 20.0, 0.05


class PendingCut:
    """One cut.

    Args:
      master: Of this task.
      tasks: The tasks that it is a cut of, with their addresses.
      session: The handle of the session whose variables are meant.
      oldest: Of clients that are known here: all steps before this one are over.

    Attributes:
      number: Its number.
    """

    def __init__(
        self,
        master: Master,
        tasks: dict[str, str],
        session: str,
        oldest: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.number = master.new_number()
        self._master = master
        self._tasks = tasks
        self._session = session
        self._rules = MasterCut(self.number, tasks, oldest)
        self._lock = threading.RLock()
        self._told = threading.Condition(self._lock)
        self._seconds = 0.0
        self._outcome: instructions.UseCut | instructions.FailCut | None = None

    def take(self) -> None:
        """Waits until every task has its snapshot.

        Raises:
          OpError: One has not.
        """
        self.tell(events.CutRequested())
        deadline = time.monotonic() + self._seconds
        while True:
            with self._lock:
                while self._outcome is None and (left := deadline - time.monotonic()) > 0:
                    self._told.wait(left)
                outcome = self._outcome
            if outcome is not None:
                break
            self.tell(events.CutOverdue(self.number))
        if isinstance(outcome, instructions.FailCut):
            raise outcome.error
        if outcome.torn:
            logging.warning(
                "The checkpoint that is being saved may have a part of %d steps only (%s): their "
                "worker was lost, or they did not end in time.",
                len(outcome.torn),
                ", ".join(f"step {step} of client {client:x}" for client, step in outcome.torn[:5]),
            )

    def end(self) -> None:
        """The cut is needed no more."""
        self.tell(events.CutUsed())

    def tell(self, event: events.MasterCutEvent) -> None:
        """Something has happened to the cut."""
        with self._lock:
            found = self._rules.on(event)
        for each in found:
            if isinstance(each, instructions.SendClose):
                self._send(each.task, cut_wire.close(self.number, self._session))
            elif isinstance(each, instructions.SendAdmit):
                self._send(each.task, cut_wire.admit(self.number, each))
            elif isinstance(each, instructions.SendRelease):
                self._send(each.task, cut_wire.release(self.number))
            elif isinstance(each, instructions.AwaitTasks):
                self._seconds = each.seconds
            else:
                with self._lock:
                    self._outcome = each
                    self._told.notify_all()

    def _send(self, task: str, message: Message) -> None:
        master = self._master
        try:
            if task == master.worker.task:
                master.worker.on_cut(message, master.peers.me.address, self._on_own_answer)
            else:
                master.peers.post(self._tasks[task], message)
        except errors.OpError as error:
            self.tell(events.TaskRefused(task, error))

    def _on_own_answer(self, message: Message) -> None:
        self.on_answer(self._master.peers.me.address, message)

    def on_answer(self, address: str, message: Message) -> None:
        """A task has answered."""
        for task, place in self._tasks.items():
            if place == address:
                try:
                    self.tell(cut_wire.master_event(message, task))
                except errors.OpError as error:
                    self.tell(events.TaskRefused(task, error))

    def lost(self, address: str, error: errors.OpError) -> None:
        """The task at an address is gone."""
        for task, place in self._tasks.items():
            if place == address:
                self.tell(events.TaskRefused(task, error))


@contextmanager
def cut_of(
    master: Master, tasks: dict[str, str], session: str, oldest: Sequence[tuple[int, int]]
) -> Iterator[int]:
    """Takes a cut; its number, while it is held. See `PendingCut`.

    Raises:
      OpError: A task is lost, or takes part in other cuts for too long.
    """
    deadline = time.monotonic() + _RETRY_SECONDS
    while True:
        cut = PendingCut(master, tasks, session, oldest)
        master.cuts[cut.number] = cut
        try:
            try:
                cut.take()
            except errors.UnavailableError as error:
                if "another cut" not in error.message or time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(0.1, 1) * _PAUSE_SECONDS)
                continue
            yield cut.number
            return
        finally:
            cut.end()
            master.cuts.pop(cut.number, None)
