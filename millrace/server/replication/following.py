"""The standby's side: finds the primary, receives its changes, and takes its place.

It performs what `protocol.replication.standby` says. The thread that reads the primary's messages
acknowledges them and puts them into a queue; another one applies them. What makes it start over
makes it forget all state: it asks for a snapshot again, as a process that has just begun.
"""

from __future__ import annotations

import functools
import json
import queue
import threading
import time
from collections.abc import Callable

import numpy as np

from millrace.core import errors
from millrace.core.value import JsonObject
from millrace.platform import logging
from millrace.platform.version import MILLRACE
from millrace.platform.wait_reporter import WaitReporter
from millrace.protocol.replication import events, instructions
from millrace.protocol.replication.standby import Standby
from millrace.protocol.replication.view import Member, View
from millrace.rpc.channel import Channel, start_thread
from millrace.rpc.message import Kind, Message
from millrace.server.peers import Peers
from millrace.server.replication.applying import Applier
from millrace.server.replication.changes import What
from millrace.server.replication.views import Views

_AGAIN_SECONDS = 0.2
#: While so many bytes wait to be applied, no more are read.
_MAX_WAITING = 256 << 20


class Follower:
    """A process that follows the primary of its task.

    Args:
      task: The task's name.
      place: Where this process listens.
      follows: Where the primary was said to be.
      views: Where the view is kept.
      peers: How the primary is reached.
      applier: Applies its changes.
      serve: Is told that this process is the primary now, in this view.
      stop: Is told that the task has ended in an orderly way.
    """

    def __init__(
        self,
        task: str,
        place: str,
        follows: str,
        views: Views,
        peers: Peers,
        applier: Applier,
        serve: Callable[[View, Member], None],
        stop: Callable[[], None],
    ) -> None:
        self._task = task
        self._place = place
        self.follows = follows
        self._views = views
        self._peers = peers
        self._applier = applier
        self._serve = serve
        self._stop = stop
        self._lock = threading.Lock()
        self._attempts = 0
        self._new_life()
        self._channel: Channel | None = None
        self._stopped = threading.Event()
        self._promoted = False

    def _new_life(self) -> None:
        """This process knows nothing: it is another member from now on."""
        self._attempts += 1
        self.me = Member(self._place, (self._peers.me.incarnation + self._attempts) & (2**62 - 1))
        self._standby = Standby(self.me)
        #: Tells the changes of this incarnation from those of earlier ones.
        self._changes: queue.SimpleQueue[Message | Callable[[], None] | None] = queue.SimpleQueue()
        self._waiting = 0
        self._room = threading.Condition()
        self._over = threading.Event()
        self._pieces = 0
        #: When the primary was lost, and how many changes were not applied then.
        self._lost_at, self._lacked = 0.0, 0

    def start(self) -> None:
        """Begins to follow."""
        start_thread(self._follow, f"millrace follows {self.follows}")

    def stop(self) -> None:
        """Ends it."""
        self._stopped.set()
        self._over.set()
        self._changes.put(None)
        self._views.close()

    def needed(self) -> set[str]:
        """Whom this process watches."""
        channel = self._channel
        return set() if channel is None else {channel.address}

    def status(self) -> JsonObject:
        """How far it has come, in plain values."""
        return {
            "role": "standby",
            "follows": self.follows,
            "phase": self._standby.phase.value,
            "received": self._standby.received,
            "applied": self._standby.applied,
        }

    # -- Following -----------------------------------------------------------------------------

    def _follow(self) -> None:
        reporter = WaitReporter(f"The standby of {self._task} has waited")
        while not self._stopped.is_set() and not self._promoted:
            try:
                self._find_primary()
                channel = self._peers.channel(self.follows)
                self._channel = channel
                applying = start_thread(self._apply, "millrace applies changes")
                told = {"member": list(self.me), "task": self._task, "version": MILLRACE}
                channel.send(Message(Kind.FOLLOW, text=json.dumps(told).encode()))
                self._over.wait()
                self._changes.put(None)
                applying.join()
            except errors.OpError as error:
                logging.debug("The standby of %s has no primary: %s", self._task, error)
                reporter.tell(lambda: f"its primary at {self.follows}")
            if self._stopped.is_set() or self._promoted:
                return
            old, self._channel = self._channel, None
            if old is not None:
                old.close("The standby starts over")
            self._applier.reset()
            self._new_life()
            self._stopped.wait(_AGAIN_SECONDS)

    def _find_primary(self) -> None:
        view = self._views.read()
        if view is not None:
            self.follows = view.primary.address

    def on_message(self, channel: Channel, message: Message) -> None:
        """The primary has sent something; called in the thread that reads its messages."""
        if channel is not self._channel:
            return
        what = What(message.key)
        if what is What.OVER:
            logging.info("%s has ended; so does its standby.", self._task)
            self.stop()
            start_thread(self._stop, "millrace stops a standby")
            return
        self._put(message)
        if what is What.END:
            self._tell(events.SnapshotReceived(message.step))
        elif message.step:
            self._tell(events.ChangeReceived(message.step))

    def _put(self, message: Message) -> None:
        size = _size(message)
        with self._room:
            self._room.wait_for(lambda: self._waiting < _MAX_WAITING or self._over.is_set())
            self._waiting += size
        self._changes.put(message)

    def on_lost(self, channel_address: str) -> None:
        """The connection with the primary is closed."""
        channel = self._channel
        if self._stopped.is_set():
            return
        if channel is not None and channel.address == channel_address and not channel.is_open:
            self._tell(events.PrimaryLost())

    # -- Applying ------------------------------------------------------------------------------

    def _apply(self) -> None:
        changed, room, over = self._changes, self._room, self._over
        while (message := changed.get()) is not None:
            if over.is_set():
                continue
            if not isinstance(message, Message):
                message()
                continue
            try:
                self._applier.apply(message)
            except Exception as error:
                if over.is_set():
                    continue  # Its state went away under it.
                reason = f"{What(message.key).name} {message.step}: {type(error).__name__} {error}"
                logging.error(
                    "The standby of %s is not equal to it and starts over: %s", self._task, reason
                )
                self._tell(events.StateDiffered(reason))
                continue
            with room:
                self._waiting -= _size(message)
                room.notify_all()
            if message.key != What.END and message.step:
                self._tell(events.ChangeApplied(message.step))
            elif message.key not in (What.BEGIN, What.END):
                self._pieces += 1
                self._send(Message(Kind.ACKNOWLEDGE, 0, self._pieces))

    def _send(self, message: Message) -> None:
        channel = self._channel
        if channel is not None:
            try:
                channel.send(message)
            except errors.UnavailableError:
                return  # The thread that closed it tells.

    # -- Rules ---------------------------------------------------------------------------------

    def _tell(self, event: events.StandbyEvent) -> None:
        with self._lock:
            found = self._standby.on(event)
        for each in found:
            if isinstance(each, instructions.Acknowledge):
                self._send(Message(Kind.ACKNOWLEDGE, each.sequence))
            elif isinstance(each, instructions.StartOver):
                logging.warning("The standby of %s starts over: %s", self._task, each.reason)
                self._over.set()
                with self._room:
                    self._room.notify_all()
            elif isinstance(each, instructions.ReadView | instructions.ProposeView):
                if isinstance(each, instructions.ReadView):
                    self._lost_at = time.monotonic()
                    self._lacked = self._standby.received - self._standby.applied
                start_thread(self._ask, "millrace asks for the view", each)
            elif isinstance(each, instructions.Serve):
                # After all that came before it, pieces of a snapshot among it.
                self._changes.put(functools.partial(self._take_over, each.view, self.me))

    def _ask(self, question: instructions.ReadView | instructions.ProposeView) -> None:
        began = time.monotonic()
        try:
            if isinstance(question, instructions.ProposeView):
                view = self._views.propose(question.view)
            else:
                view = self._views.read()
        except errors.OpError:
            return  # This process stops.
        logging.info(
            "%s: the view is %s (%.0f ms).", self._task, view, 1000 * (time.monotonic() - began)
        )
        if view is None:
            self._tell(events.StateDiffered("the keeper of the view has forgotten it"))
        else:
            self._tell(events.ViewRead(view))

    def _take_over(self, view: View, me: Member) -> None:
        self._promoted = True
        logging.info(
            "%s: %d changes had to be applied first; %.0f ms after the primary was lost.",
            self._task,
            self._lacked,
            1000 * (time.monotonic() - self._lost_at),
        )
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close("The standby is the primary now")
        self._serve(view, me)
        self._over.set()


def _size(message: Message) -> int:
    return sum(t.nbytes for t in message.tensors if isinstance(t, np.ndarray))
