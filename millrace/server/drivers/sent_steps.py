"""Remembers for which steps other tasks were sent something, and tells when that was in vain.

What a task sends is lost with the connection if the other has not read it. While the part that
sent it runs, its loss fails the part; afterwards nobody here would notice, and the other task, when
it is back, would wait for ever. So the masters of the last steps are told.

Noted are only steps of other tasks' masters, and only what does not go to the master itself: a
master notices by itself that a connection of its own is lost. A task's own steps cost nothing here.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Container

from millrace.core import errors
from millrace.rpc.message import Kind, Message
from millrace.server.drivers.remote_part import Post
from millrace.server.worker_sessions import WorkerSession

#: So many steps are remembered of those for which one other task was sent something.
_MAX_SENT_STEPS = 64


class SentSteps:
    """The last steps for which each other task was sent something.

    Args:
      task: The name of the task that sends.
      post: Sends a message to a master.

    Attributes:
      by_address: Of each task that was sent something: the numbers of the steps, and their masters.
    """

    def __init__(self, task: str, post: Post) -> None:
        self._task = task
        self._post = post
        self.by_address: dict[str, deque[tuple[int, str]]] = {}

    def note_sent(self, session: WorkerSession, address: str, number: int) -> None:
        """A part of a step has something for a task that is not the master's."""
        if session.master != session.addresses.get(self._task):
            sent = self.by_address.get(address)
            if sent is None:
                sent = self.by_address.setdefault(address, deque(maxlen=_MAX_SENT_STEPS))
            sent.append((number, session.master))

    def take_ended(self, address: str, running: Container[int]) -> list[tuple[int, str]]:
        """The steps of which the task at an address may have missed something; forgets them.

        Args:
          address: Of the task that is gone.
          running: Steps that still run here, and so fail by themselves.
        """
        sent = self.by_address.pop(address, ())
        return [
            (number, master)
            for number, master in sent
            if number not in running and master != address
        ]

    def tell_in_vain(
        self, steps: list[tuple[int, str]], address: str, error: errors.OpError
    ) -> None:
        """Tells masters that what was sent for steps of theirs may never have arrived.

        This task's parts of them are over, and the lost task may begin its own when it is back: it
        would wait for ever for what it was sent before.
        """
        words = f"What {self._task} sent to {address} for this step may be lost. {error.message}"
        message = words.encode()
        for number, master in steps:
            with contextlib.suppress(errors.OpError):
                self._post(master, Message(Kind.DONE, number, errors.UNAVAILABLE, message))
