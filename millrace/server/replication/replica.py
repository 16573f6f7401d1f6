"""This process as one of the replicas of its task: as the primary, or as its standby.

It is told what arrives for the replication, watches the other replica, and lets the server take the
task's place when that is so. A process that is neither told to follow nor where views are kept has
none of this.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from millrace.core import errors
from millrace.core.value import JsonObject
from millrace.platform import logging
from millrace.platform.version import MILLRACE
from millrace.protocol.heartbeat import Settings
from millrace.protocol.replication.mirror import Mirror
from millrace.protocol.replication.view import Member, View
from millrace.rpc.channel import Channel, start_thread
from millrace.rpc.message import Kind, Message
from millrace.rpc.security import Security
from millrace.server.drivers.watch import Watch
from millrace.server.peers import STANDBY, Identity, Peers
from millrace.server.registers import Registers
from millrace.server.replication.applying import Applier
from millrace.server.replication.following import Follower
from millrace.server.replication.forwarding import ForwardingJournal
from millrace.server.replication.resource_changes import Key
from millrace.server.replication.views import Views
from millrace.server.worker import Worker

#: Says to the processes of a task that has a standby what they are, as JSON.
VARIABLE = "MILLRACE_REPLICA"
#: After so many seconds of silence one replica gives the other up.
_SILENCE = "MILLRACE_STANDBY_SECONDS"
_SILENCE_SECONDS = 0.8
_TELL_SECONDS, _AGAIN_SECONDS = 1.0, 0.3


class ReplicaPlace(NamedTuple):
    """What a process is told of its part in the replication of its task.

    Attributes:
      task: The task.
      place: Where this process listens.
      views: Who keeps the view of the task.
      follows: Where the primary is; empty if this process is to be it.
    """

    task: str
    place: str
    views: str
    follows: str = ""

    def encode(self) -> str:
        """It as text."""
        return json.dumps(self._asdict())

    @classmethod
    def from_environment(cls, task: str, environment: Mapping[str, str]) -> ReplicaPlace | None:
        """What the environment says of a task; None if it says nothing."""
        text = environment.get(VARIABLE)
        if not text:
            return None
        try:
            told = cls(**{k: str(v) for k, v in json.loads(text).items()})
        except (ValueError, TypeError, AttributeError) as error:
            raise errors.InvalidArgumentError(
                None, None, f"{VARIABLE} cannot be read: {error}"
            ) from None
        return told if told.task == task else None


class Replica:
    """One replica of a task.

    Args:
      place: What this process was told.
      address: The address that the task is called by.
      peers: The other tasks.
      worker: The task's worker.
      registers: The task's registers.
      security: The job's keys.
      others: The addresses of the other tasks, by their names.
      serve: Is told that this process takes the task's place, with the incarnation of its state.
      replaced: Is told that another process has it.
      stop: Stops the server.
    """

    def __init__(
        self,
        place: ReplicaPlace,
        address: str,
        peers: Peers,
        worker: Worker,
        registers: Registers,
        security: Security,
        others: Callable[[], dict[str, str]],
        serve: Callable[[int], None],
        replaced: Callable[[View], None],
        stop: Callable[[], None],
    ) -> None:
        self._place = place
        self._address = address
        self._peers = peers
        self._worker = worker
        self._registers = registers
        self._security = security
        self._others = others
        self._serve = serve
        self._replaced = replaced
        self._stopped = threading.Event()
        self._journal: ForwardingJournal | None = None
        self._follower: Follower | None = None
        #: Channels of standbys, and who they are.
        self._standbys: dict[Channel, Member] = {}
        self._lock = threading.Lock()
        if place.follows:
            self._applier = Applier(worker, registers)
            self._follower = Follower(
                place.task,
                place.place,
                place.follows,
                self._views(),
                peers,
                self._applier,
                self._take_over,
                stop,
            )
            peers.refers_to = lambda: self._follower.follows if self._follower else ""
        silence = float(os.environ.get(_SILENCE) or _SILENCE_SECONDS)
        self._watch = Watch(
            f"a replica of {place.task}",
            Settings(silence=silence),
            needed=self._needed,
            channels=peers.channels,
            probe=peers.probe,
            lose=peers.lose,
            on_pause=self._paused,
        )

    def _views(self) -> Views:
        return Views(self._place.task, self._place.views, self._security)

    def start(self, state_incarnation: int) -> None:
        """Begins: follows, or serves in a view of its own."""
        if self._follower is not None:
            self._follower.start()
        else:
            views = self._views()
            me = Member(self._place.place, self._peers.me.incarnation)
            found = views.read()
            view = found
            if found is None:
                view = views.propose(View(1, me))
            elif found.primary.address == me.address and found.standby is None:
                view = views.propose(found.followed_by(me))  # Nobody has its state any more.
            assert view is not None
            if view.primary != me:
                self._replaced(view)
                return
            self._begin_forwarding(me, view, views, state_incarnation)
        self._watch.start()

    def _begin_forwarding(
        self,
        me: Member,
        view: View,
        views: Views,
        state_incarnation: int,
        inherited: dict[Key, Mirror] | None = None,
    ) -> None:
        journal = ForwardingJournal(
            self._worker,
            self._registers,
            me,
            view,
            views,
            state_incarnation,
            self._replaced,
            inherited,
        )
        journal.was_paused = self._watch.was_paused
        journal.start()
        self._journal = journal

    def status(self) -> JsonObject:
        """What this replica is, in plain values."""
        if self._follower is not None:
            return self._follower.status()
        return {} if self._journal is None else self._journal.status()

    def close(self) -> None:
        """Ends it; the standby ends too."""
        self._stopped.set()
        self._watch.stop()
        if self._follower is not None:
            self._follower.stop()
        if self._journal is not None:
            self._journal.close()

    def wait(self) -> None:
        """Waits until what was changed so far is safe."""
        if self._journal is not None:
            self._journal.wait()

    def move(self) -> bool:
        """Hands the task over to its standby; whether there is one that can take it."""
        return self._journal is not None and self._journal.move()

    # -- What arrives --------------------------------------------------------------------------

    def on_message(self, channel: Channel, message: Message) -> None:
        """The other replica has sent something."""
        if message.kind is Kind.CHANGE:
            if self._follower is not None:
                self._follower.on_message(channel, message)
        elif message.kind is Kind.FOLLOW:
            self._on_follow(channel, message)
        elif self._journal is not None:
            standby = self._standbys.get(channel)
            if standby is not None:
                self._journal.acknowledged(standby, message.step, message.key)

    def _on_follow(self, channel: Channel, message: Message) -> None:
        try:
            told = json.loads(message.text)
            address, incarnation = told["member"]
            standby = Member(str(address), int(incarnation))
            task, version = str(told["task"]), str(told["version"])
        except (ValueError, KeyError, TypeError) as error:
            channel.close(f"Malformed message: {error}")
            return
        reason = ""
        if self._journal is None:
            reason = f"This process does not serve {self._place.task}"
        elif task != self._place.task:
            reason = f"This is {self._place.task}; a standby of {task} has nothing to follow here"
        elif version != MILLRACE:
            reason = (
                f"The standby has version {version} and its primary {MILLRACE}: "
                "start it with the same one"
            )
        if reason:
            logging.warning("A standby at %s is refused: %s.", standby.address, reason)
            channel.close(reason)
            return
        assert self._journal is not None
        self._standbys[channel] = standby
        self._journal.arrived(standby, channel)

    def on_lost(self, address: str, error: errors.OpError) -> None:
        """A channel is closed."""
        follower = self._follower
        if follower is not None:
            follower.on_lost(address)
        for channel, standby in list(self._standbys.items()):
            if not channel.is_open:
                del self._standbys[channel]
                if self._journal is not None:
                    self._journal.lost(standby, error.message)

    def _needed(self) -> set[str]:
        if self._follower is not None:
            return self._follower.needed()
        return {channel.address for channel in list(self._standbys)}

    def _paused(self) -> None:
        if self._journal is not None:
            self._watch.awake()
            self._journal.paused()

    # -- Taking over ---------------------------------------------------------------------------

    def _take_over(self, view: View, me: Member) -> None:
        """All that was received is applied, and the register names this process."""
        began = time.monotonic()
        state = self._applier.state_incarnation
        self._follower = None
        self._find_others()
        self._serve(state)
        mirrors = self._applier.mirrors
        mirrors.settle()
        self._begin_forwarding(me, view, self._views(), state, mirrors.all)
        self._worker.sessions.refusal = None
        logging.warning(
            "%s: its standby at %s has taken over (view %d). Nothing that was acknowledged is "
            "lost, and nothing is restored.",
            self._place.task,
            me.address,
            view.number,
        )
        told = json.dumps(
            {
                "address": self._address,
                "place": me.address,
                "incarnation": self._peers.me.incarnation,
            }
        ).encode()
        for address in self._others().values():
            start_thread(self._announce, f"millrace tells {address}", address, told)
        logging.info("Taking over took %.0f ms.", 1000 * (time.monotonic() - began))

    def _find_others(self) -> None:
        """Learns where other tasks are: who has moved has told the primary, not its standby."""
        for task, address in self._others().items():
            views = Views(task, self._place.views, self._security)
            try:
                view = views.read()
            finally:
                views.close()
            if view is not None and view.primary.address != self._peers.place(address):
                self._peers.moved(address, view.primary.address, 0)

    def _announce(self, address: str, told: bytes) -> None:
        """Tells a task where this one is from now on, until it has heard."""
        while not self._stopped.is_set():
            try:
                self._peers.connection(address).say_moved(told, _TELL_SECONDS)
                return
            except errors.OpError as error:
                logging.debug("%s does not hear that a task has moved: %s", address, error)
                self._peers.renew(address)
                self._stopped.wait(_AGAIN_SECONDS)


def identity(task: str, address: str, place: ReplicaPlace | None, incarnation: int) -> Identity:
    """Who a process is: its task, or the standby of that."""
    if place is not None and place.follows:
        return Identity(task, STANDBY + place.place, incarnation)
    return Identity(task, address, incarnation)
