"""What messages of other tasks are to this one: each kind has its place in one table.

A message becomes an event of the step that it is about, and is answered over the channel that has
brought it. Called in the thread that has read it, which nobody may keep waiting.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from millrace.core import errors
from millrace.core.config import RunMetadata
from millrace.core.value import Value
from millrace.platform import logging
from millrace.protocol.step.events import Cancelled, LastRoundRequested, VariablesRead
from millrace.protocol.step.instructions import Hold, Instruction, SendVariables
from millrace.rpc.channel import Channel
from millrace.rpc.message import Kind, Message
from millrace.runtime.plan import host_value
from millrace.runtime.step import Step
from millrace.runtime.step_stats import fill_metadata
from millrace.server.drivers import wire
from millrace.server.drivers.step_errors import as_op_error

if TYPE_CHECKING:
    from millrace.server.master import Master
    from millrace.server.replication.replica import Replica
    from millrace.server.worker import Worker


class Inbound:
    """Hands each message to the master or the worker of this task."""

    _worker: Worker
    _master: Master
    #: What this process is to the other replica of its task, if it is anything.
    replica: Replica | None = None

    def serve(self, worker: Worker, master: Master) -> None:
        """Sets who is told; before the first message."""
        self._worker, self._master = worker, master

    def on_message(self, channel: Channel, message: Message) -> None:
        """A message has arrived."""
        handle = _TABLE.get(message.kind)
        if handle is not None:
            handle(self, channel, message)

    def _replicate(self, channel: Channel, message: Message) -> None:
        if self.replica is None:
            channel.close(
                "This task was started without a place where its view is kept: it can have no "
                "standby (millrace launch --standby)"
            )
            return
        self.replica.on_message(channel, message)

    def _tensors(self, channel: Channel, message: Message) -> None:
        self._worker.deliver(message, channel.address)

    def _done(self, channel: Channel, message: Message) -> None:
        pending = self._master.pending.get(message.step)
        if pending is not None:
            pending.on_done(channel.address, message)

    def _published(self, channel: Channel, message: Message) -> None:
        pending = self._master.pending.get(message.step)
        if pending is not None:
            pending.on_published(channel, message)
        message.text = b""
        self._worker.deliver(message, channel.address)

    def _cancel(self, channel: Channel, message: Message) -> None:
        self._worker.tell(Cancelled(message.step, wire.error_of(message)))

    def _last_round(self, channel: Channel, message: Message) -> None:
        self._worker.tell(LastRoundRequested(message.step))

    def _run(self, channel: Channel, message: Message) -> None:
        try:
            request = wire.run_request(message)
        except errors.OpError as error:
            answer(channel, wire.end(message.step, error))
            return

        def on_done(step: Step | None, results: list[Value], error: errors.OpError | None) -> None:
            if error is not None or step is None:
                answer(channel, wire.end(message.step, error))
                return
            try:
                fetched = map(host_value, results)
                done = Message(Kind.DONE, message.step, tensors=[*fetched, *step.exchange.last])
                if request.trace:
                    metadata = RunMetadata()
                    fill_metadata(metadata, step)
                    done.text = metadata.step_stats.SerializeToString()
            except errors.OpError as failure:
                done = wire.end(message.step, failure)
            answer(channel, done)

        self._worker.run(message.key, message.step, channel.address, request, on_done)

    def _repeat(self, channel: Channel, message: Message) -> None:
        def on_done(step: Step | None, results: list[Value], error: errors.OpError | None) -> None:
            answer(channel, wire.end(message.step, error))

        self._worker.repeat(message.key, message.step, channel.address, on_done)

    def _cut(self, channel: Channel, message: Message) -> None:
        try:
            self._worker.on_cut(message, channel.address, channel.send)
        except errors.OpError as error:
            logging.warning("%s: %s", channel.peer, error.message)

    def _cut_answer(self, channel: Channel, message: Message) -> None:
        cut = self._master.cuts.get(message.step)
        if cut is not None:
            cut.on_answer(channel.address, message)

    def _read(self, channel: Channel, message: Message) -> None:
        """Sends the variables that a message asks for."""
        try:
            key = wire.key_to_read(message)
            values, location = self._worker.read(message.key, key, channel)
        except errors.OpError as error:
            answer(channel, wire.end(message.step, error))
            return
        read = VariablesRead(message.step, channel.address, key, values, location)
        self._perform_read(channel, self._worker.decide(read))

    def _perform_read(self, channel: Channel, found: Sequence[Instruction]) -> None:
        for instruction in found:
            if isinstance(instruction, Hold):
                later = functools.partial(self._perform_read, channel, instruction.instructions)
                self._worker.hold(later)
            elif isinstance(instruction, SendVariables):
                answer(channel, wire.variables(instruction))
            else:
                self._worker.perform(instruction)


def answer(channel: Channel, message: Message) -> None:
    """Sends an answer, or says why it cannot be sent: a master must not wait for it."""
    try:
        channel.send(message)
    except errors.UnavailableError:
        return  # The master is gone; nobody wants to know.
    except Exception as error:
        with contextlib.suppress(errors.UnavailableError):
            channel.send(wire.end(message.step, as_op_error(error)))


_TABLE = {
    Kind.RUN: Inbound._run,
    Kind.TENSORS: Inbound._tensors,
    Kind.DONE: Inbound._done,
    Kind.CANCEL: Inbound._cancel,
    Kind.REPEAT: Inbound._repeat,
    Kind.LAST_ROUND: Inbound._last_round,
    Kind.READ: Inbound._read,
    Kind.PUBLISHED: Inbound._published,
    Kind.FOLLOW: Inbound._replicate,
    Kind.CHANGE: Inbound._replicate,
    Kind.ACKNOWLEDGE: Inbound._replicate,
    Kind.CUT: Inbound._cut,
    Kind.CUT_ANSWER: Inbound._cut_answer,
}
