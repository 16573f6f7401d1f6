"""The primary's side: orders the changes of a task, forwards them, and holds answers.

`ForwardingJournal` is what the record of applied steps runs changes through, and what the worker
hands answers to. It performs what `protocol.replication.primary` says.

Locks: `order` is held while anything changes and while it is sent, so that changes are sent in the
order of their numbers; `_lock` guards the state machine and is taken last. Answers are told without
either.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.core import errors
from millrace.core.resource_handle import DEFAULT_CONTAINER
from millrace.core.value import JsonObject, Value
from millrace.passes.program_def import to_graph_def
from millrace.platform import logging
from millrace.protocol.replication import events, instructions
from millrace.protocol.replication.mirror import Mirror
from millrace.protocol.replication.primary import Phase, Primary
from millrace.protocol.replication.view import Member, View
from millrace.rpc.channel import Channel, start_thread
from millrace.rpc.message import Message
from millrace.runtime import store_snapshot
from millrace.runtime.future import Future
from millrace.runtime.kernel_call import StoredState
from millrace.runtime.step import Step
from millrace.runtime.tier_choices import TierChoices
from millrace.server.drivers.effects import ChangingStage
from millrace.server.registers import Registers
from millrace.server.replication import changes
from millrace.server.replication.changes import NotForwardable, What
from millrace.server.replication.resource_changes import (
    Key,
    Noted,
    ResourceChanges,
    checksum,
    digests,
)
from millrace.server.replication.views import Views
from millrace.server.worker import Worker

#: So many pieces of a snapshot are under way at a time.
_PIECES = 2
#: A standby that is so many bytes behind while it catches up is given up.
_MAX_BEHIND = 1 << 30
#: The variables are compared after so many changes, and not sooner than after so many seconds.
_DIGEST_CHANGES, _DIGEST_SECONDS = 1000, 10.0


class ForwardingJournal:
    """Orders and forwards the changes of one task.

    Args:
      worker: The task's worker, whose state it is.
      registers: The task's registers.
      me: This process.
      view: The view in which it is the primary.
      views: Where that is kept.
      state_incarnation: The incarnation of the state, which a standby takes over.
      fenced: Is told that another process is the primary now.
      inherited: Queues, accumulators and tables that a primary before this one had.
    """

    def __init__(
        self,
        worker: Worker,
        registers: Registers,
        me: Member,
        view: View,
        views: Views,
        state_incarnation: int,
        fenced: Callable[[View], None],
        inherited: dict[Key, Mirror] | None = None,
    ) -> None:
        self._worker = worker
        self._registers = registers
        self._views = views
        self._state_incarnation = state_incarnation
        self._fenced = fenced
        #: Whether this process was stopped for long; set by its watcher.
        self.was_paused: Callable[[], bool] = lambda: False
        self.order = threading.RLock()
        self._lock = threading.Lock()
        self._primary = Primary(me, view)
        #: The standby's channel; None while there is none that anything is sent to.
        self._channel: Channel | None = None
        #: Changes that wait until a snapshot is sent; None when they are sent at once.
        self._outbox: deque[Message] | None = None
        self._behind = 0
        #: Graphs that the standby knows.
        self._known: set[int] = set()
        #: How many pieces of the snapshot the standby has.
        self._pieces = 0
        self._arrived = threading.Condition()
        self._digest_at, self._digested = 0, time.monotonic()
        #: What happens to queues, accumulators and tables.
        self.resources = ResourceChanges(inherited)
        #: What is asked of the register, one after the other.
        self._questions: deque[instructions.ProposeView | instructions.ReadView] = deque()
        self._asking = False
        #: Changes that were forwarded, and their bytes; for who looks at the task.
        self.forwarded = 0

    def start(self) -> None:
        """Orders all changes from now on, and holds answers when that must be."""
        self._worker.hold = self.hold
        self._worker.on_cleared = self.cleared
        self._registers.on_written = self.register_written
        self.resources.follow(self._worker.resources)
        self._worker.partitions.has_standby = True
        self._worker.record.order_changes(self)

    def status(self) -> JsonObject:
        """How it stands with its standby, in plain values."""
        primary = self._primary
        return {
            "role": "primary",
            "view": primary.view.number,
            "standby": None if primary.standby is None else primary.standby.address,
            "phase": primary.phase.value,
            "changes": primary.sequence,
            "acknowledged": primary.acknowledged,
        }

    @property
    def standby(self) -> Member | None:
        """The standby, in whatever phase."""
        return self._primary.standby

    # -- Changes -----------------------------------------------------------------------------

    def change(self, stage: ChangingStage, graph: int, inputs: list[Value], step: Step) -> Value:
        """Runs a stage, and forwards what it was given; `order` is held."""
        if step.resources is not self._worker.resources:
            return stage.run(inputs, step)  # It is the session's own, and goes with it.
        if self._channel is None:
            self._next()
            return stage.run(inputs, step)
        self._flush()
        try:
            words, tensors = changes.pack(inputs)
        except NotForwardable:
            outputs = stage.run(inputs, step)
            assert not isinstance(outputs, Future)  # It may not block.
            self._forward_values(stage, step, outputs)
            return outputs
        step.tier_choices = choices = TierChoices()
        try:
            outputs = stage.run(inputs, step)
        finally:
            step.tier_choices = None
        if graph not in self._known:
            self._forward_graph(graph)
        told: dict[str, Any] = {
            "g": graph,
            "s": stage.place,
            "e": stage.effect.name,
            "i": words,
            "t": "".join(choices.noted),
        }
        if step.counted:
            told["r"] = step.counted
        if step.record is not None:
            told["a"] = list(step.record.attempt)
        self._send(changes.message(What.STAGE, self._next(), told, tensors))
        self._mark_when_due()
        return outputs

    def settled(self, stage: ChangingStage, graph: int, step: Step, outputs: list[Value]) -> None:
        """A stage that had to wait has changed what it changes: that is forwarded by its values."""
        with self.order:
            if step.resources is not self._worker.resources:
                return
            if self._channel is None:
                self._next()
            else:
                self._forward_values(stage, step, outputs)

    def _forward_values(self, stage: ChangingStage, step: Step, outputs: list[Value]) -> None:
        """Forwards the values of the variables that a stage has changed, as they are now."""
        found = []
        for name in sorted(stage.effect.variables):
            container, _, variable = name.partition("/")
            slot = self._worker.resources.variable(container, variable)
            value = StoredState.read_slot(slot)
            if value is not None:
                found.append(((container, variable), value))
        for piece in changes.variables(found):
            piece.step = self._next()
            self._send(piece)
        if step.record is not None:
            told = {"a": list(step.record.attempt), "e": stage.effect.name}
            told["v"] = sorted(stage.effect.variables)
            try:
                told["o"], tensors = changes.pack(outputs)
            except NotForwardable:
                told["o"], tensors = [], []
            self._send(changes.message(What.RECORD, self._next(), told, tensors))
        elif stage.overwritten:
            told = {"x": sorted(stage.overwritten)}
            self._send(changes.message(What.RECORD, self._next(), told))

    def _forward_graph(self, number: int) -> None:
        """Lets the standby plan a graph, and forget those that are gone."""
        graphs = self._worker.sessions.graphs
        gone = [each for each in self._known if each not in graphs]
        self._known.difference_update(gone)
        graph = graphs[number]
        data = np.frombuffer(to_graph_def(graph.program).SerializeToString(), np.uint8)
        told = {"g": number, "one_by_one": graph.feeds_one_by_one, "gone": gone}
        self._send(changes.message(What.GRAPH, self._next(), told, [data]))
        self._known.add(number)

    def cleared(self, containers: list[str] | None) -> None:
        """Containers were dropped."""
        self.resources.cleared(containers or [DEFAULT_CONTAINER])
        with self.order:
            sequence = self._next()
            if self._channel is not None:
                self._send(changes.message(What.CLEARED, sequence, containers))

    # -- Queues, accumulators and tables -----------------------------------------------------

    def noted(
        self, stage: ChangingStage, step: Step, happened: list[Noted], outputs: list[Value] | None
    ) -> None:
        """A step has changed resources; what happened and its entry in the record are one.

        Args:
          stage: What has changed them.
          step: The step.
          happened: The events.
          outputs: What the stage has given; None if it failed after all.
        """
        if not happened and not stage.overwritten:
            return
        with self.order:
            if self._channel is None:
                self._next()
                return
            self._flush()
            told: dict[str, Any] = {}
            told["v"], tensors = changes.pack_events(happened)
            if outputs is not None and step.record is not None:
                told["a"] = list(step.record.attempt)
                told["e"], told["n"] = stage.effect.name, sorted(stage.effect.variables)
                try:
                    told["o"], values = changes.pack(outputs)
                    tensors += values
                except NotForwardable:
                    told["o"] = []
            elif outputs is not None and stage.overwritten:
                told["x"] = sorted(stage.overwritten)
            self._send(changes.message(What.EVENTS, self._next(), told, tensors))
            self._mark_when_due()

    def _flush(self) -> None:
        """Tells of what has happened to resources outside of changes; `order` is held."""
        pending = self.resources.pending
        if not pending:
            return
        some = [pending.popleft() for _ in range(len(pending))]
        sequence = self._next()
        if self._channel is not None:
            words, tensors = changes.pack_events(some)
            self._send(changes.message(What.EVENTS, sequence, {"v": words}, tensors))

    def register_written(self, name: str, content: bytes, version: int) -> None:
        """A register has another content."""
        with self.order:
            sequence = self._next()
            if self._channel is not None:
                self._send(_register(name, content, version, sequence))

    def _next(self) -> int:
        with self._lock:
            return self._primary.changed()

    def _send(self, message: Message) -> None:
        """Sends a change, or keeps it until those before it are sent; `order` is held."""
        self.forwarded += 1
        if self._outbox is not None:
            self._outbox.append(message)
            self._behind += sum(t.nbytes for t in message.tensors if isinstance(t, np.ndarray))
            return
        assert self._channel is not None
        try:
            self._channel.send(message)
        except errors.UnavailableError:
            return  # The thread that closed it tells.
        except errors.OpError as error:
            logging.error("A change cannot be sent to the standby: %s", error)
            self._channel.close(error.message)

    def _mark_when_due(self) -> None:
        """Lets both ends make a digest of the variables as they are now; `order` is held."""
        sequence = self._primary.sequence
        now = time.monotonic()
        if sequence < self._digest_at + _DIGEST_CHANGES or now < self._digested + _DIGEST_SECONDS:
            return
        self._digest_at, self._digested = sequence, now
        channel, snapshot = self._channel, store_snapshot.take(self._worker.resources)
        self._flush()
        resources = self.resources.wholes()
        marked = self._next()
        self._send(changes.message(What.MARK, marked))

        def tell() -> None:
            found = digest(snapshot)
            snapshot.release()
            with self.order:
                if self._channel is channel and channel is not None:
                    told = {"mark": marked, "digest": found, "resources": digests(resources)}
                    self._send(changes.message(What.DIGEST, self._next(), told))

        start_thread(tell, "millrace digests variables")

    # -- Answers -----------------------------------------------------------------------------

    def hold(self, answer: Callable[[], None]) -> None:
        """Tells something once the standby has all that was changed so far."""
        if self.was_paused():
            self.paused()
        if self.resources.pending:
            with self.order:
                self._flush()
        with self._lock:
            if not self._primary.answers_wait:
                found: list[Any] = []
            else:
                found = self._primary.on(events.AnswerReady(answer))
                answer = _nothing
        answer()
        self._perform(found)

    def wait(self, timeout: float | None = None) -> None:
        """Waits until the standby has all that was changed so far."""
        safe = threading.Event()
        self.hold(safe.set)
        safe.wait(timeout)

    # -- The standby -------------------------------------------------------------------------

    def arrived(self, standby: Member, channel: Channel) -> None:
        """A process wants to become the standby."""
        with self._lock:
            found = self._primary.on(events.StandbyArrived(standby))
        for each in found:
            if isinstance(each, instructions.SendSnapshot):
                start_thread(self._send_snapshot, "millrace sends its state", standby, channel)
            else:
                channel.close(f"It cannot be the standby now: {each.reason}")  # type: ignore[union-attr]

    def acknowledged(self, standby: Member, sequence: int, pieces: int) -> None:
        """The standby has so much."""
        if pieces:
            with self._arrived:
                self._pieces = pieces
                self._arrived.notify_all()
            return
        self.tell(events.Acknowledged(standby, sequence))

    def lost(self, standby: Member, reason: str) -> None:
        """The standby is gone."""
        if standby != self._primary.standby:
            return
        with self.order:
            self._channel, self._outbox = None, None
            self._behind = 0
        with self._arrived:
            self._arrived.notify_all()
        if self._primary.phase is not Phase.FENCED:
            logging.warning(
                "%s has lost its standby at %s and goes on alone when the register agrees: %s",
                self._worker.task,
                standby.address,
                reason,
            )
        self.tell(events.StandbyLost(standby))

    def paused(self) -> None:
        """This process was stopped for a while."""
        self.tell(events.PauseNoticed())

    def move(self) -> bool:
        """Hands the task over to its standby; whether there is one that can take it."""
        with self.order:  # No change is half-way.
            if self._primary.phase is not Phase.PAIRED:
                return False
            self.tell(events.MoveRequested())
            return True

    def tell(self, event: events.PrimaryEvent) -> None:
        """Something has happened: does what the rules say."""
        with self._lock:
            before = self._primary.phase
            found = self._primary.on(event)
            after = self._primary.phase
        if before is not after:
            logging.info("%s: %s (was: %s)", self._worker.task, after.value, before.value)
        self._perform(found)

    def _perform(self, found: list[instructions.PrimaryInstruction]) -> None:
        for each in found:
            if isinstance(each, instructions.Release):
                each.answer()  # type: ignore[operator]
            elif isinstance(each, instructions.ProposeView | instructions.ReadView):
                self._ask(each)
            elif isinstance(each, instructions.Fence):
                self._let_go()
                self._fenced(each.view)

    def _let_go(self) -> None:
        """Another process is the primary: a standby that is to be it learns so at once."""
        with self.order:
            channel, self._channel, self._outbox = self._channel, None, None
        if channel is not None:
            channel.close("Another process serves the task")

    def _ask(self, question: instructions.ProposeView | instructions.ReadView) -> None:
        """Asks the register, in another thread and in order."""
        with self._lock:
            self._questions.append(question)
            if self._asking:
                return
            self._asking = True
        start_thread(self._ask_all, "millrace asks for the view")

    def _ask_all(self) -> None:
        while True:
            with self._lock:
                if not self._questions:
                    self._asking = False
                    return
                question = self._questions.popleft()
            try:
                if isinstance(question, instructions.ProposeView):
                    view = self._views.propose(question.view)
                else:
                    view = self._views.read()
                if view is None:  # Its keeper has forgotten it.
                    view = self._views.propose(self._primary.view)
            except errors.OpError:
                continue  # This task stops.
            if view is not None:
                self.tell(events.ViewRead(view))

    def close(self) -> None:
        """The task ends in an orderly way: its standby does, too."""
        with self.order:
            if self._channel is not None and self._channel.is_open:
                self._outbox = None
                self._send(changes.message(What.OVER))
            self._channel = None
        self._views.close()

    # -- Snapshots ---------------------------------------------------------------------------

    def _send_snapshot(self, standby: Member, channel: Channel) -> None:
        try:
            began = time.monotonic()
            size = self._send_all(channel)
            seconds = time.monotonic() - began
            logging.info(
                "%s has sent its state to the standby at %s: %.1f MB in %.2f s.",
                self._worker.task,
                standby.address,
                size / 1e6,
                seconds,
            )
        except Exception as error:
            channel.close(f"The state could not be sent: {error}")

    def _send_all(self, channel: Channel) -> int:
        with self.resources.quiet(), self.order:
            self._flush()
            sequence = self._primary.sequence
            snapshot = store_snapshot.take(self._worker.resources)
            record = self._worker.record.as_state()
            registers = self._registers.contents()
            resources = self.resources.wholes()
            self._known.clear()
            self._pieces, self._behind = 0, 0
            self._digest_at, self._digested = sequence, time.monotonic()
            self._outbox = deque()
            self._channel = channel
        size = snapshot.nbytes
        told = {"incarnation": self._state_incarnation, "bytes": size}
        channel.send(changes.message(What.BEGIN, 0, told))
        pieces = itertools.chain(
            changes.variables(snapshot),
            [changes.record(record)],
            [_register(*each, 0) for each in registers],
            changes.resources(resources),
        )
        for count, piece in enumerate(pieces):
            channel.send(piece)
            self._await_pieces(count + 1 - _PIECES, channel)
            if self._channel is not channel:
                raise errors.UnavailableError(None, None, "The standby is gone.")
        snapshot.release()
        channel.send(changes.message(What.END, sequence))
        self._send_outbox(channel)
        return size

    def _await_pieces(self, count: int, channel: Channel) -> None:
        with self._arrived:
            self._arrived.wait_for(lambda: self._pieces >= count or self._channel is not channel)

    def _send_outbox(self, channel: Channel) -> None:
        """Sends what was changed meanwhile; from then on changes are sent as they are made."""
        while True:
            with self.order:
                outbox = self._outbox
                if self._channel is not channel or outbox is None:
                    return
                if len(outbox) < 2 * _PIECES:
                    self._outbox = None
                    for message in outbox:
                        self._send(message)
                    return
                if self._behind > _MAX_BEHIND:
                    raise errors.ResourceExhaustedError(
                        None, None, f"It is {self._behind / 1e6:.0f} MB behind, and grows slower."
                    )
                some = [outbox.popleft() for _ in range(len(outbox) // 2 + 1)]
            for message in some:
                channel.send(message)
                self._behind -= sum(t.nbytes for t in message.tensors if isinstance(t, np.ndarray))


def digest(snapshot: store_snapshot.StoreSnapshot) -> dict[str, int]:
    """A checksum of each variable of a snapshot, by container and name."""
    return {"/".join(key): checksum(value) for key, value in snapshot}


def _register(name: str, content: bytes, version: int, sequence: int) -> Message:
    data = np.frombuffer(content, np.uint8)
    return changes.message(What.REGISTER, sequence, [name, version], [data])


def _nothing() -> None:
    """What is told of an answer that waits."""
