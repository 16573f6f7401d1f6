"""How a partition of a step reaches the other tasks: what it sends, receives, keeps and fetches.

One exchange belongs to one partition of one step. It tells the step's state machines what the
partition makes and wants; a receive never blocks: it has the values, or what will have them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from millrace.core import errors
from millrace.core.value import Value
from millrace.passes.node import Node
from millrace.protocol.step.events import ValuesArrived, ValuesMade
from millrace.runtime.cancellation import Cancellation
from millrace.runtime.future import Future
from millrace.runtime.kernel_call import VariableRef
from millrace.server.worker_sessions import RegisteredGraph

if TYPE_CHECKING:
    from millrace.server.drivers.pending_step import PendingStep
    from millrace.server.worker import Worker


class Exchange:
    """How a partition's sends and receives reach the other tasks."""

    __slots__ = ("_graph", "_number", "_session", "_worker", "cancellation", "last", "pending")

    def __init__(
        self, worker: Worker, graph: RegisteredGraph, number: int, cancellation: Cancellation
    ) -> None:
        self.cancellation = cancellation
        self._worker = worker
        self._graph = graph
        self._session = graph.session
        self._number = number
        #: What goes to the master with the message that the partition is over.
        self.last: list[Value] = []
        #: In the master's own partition: the step over all tasks.
        self.pending: PendingStep | None = None

    def send_last(self, tensors: list[Value]) -> None:
        """Sends values to the master's task when the partition is over."""
        self.last = tensors

    def send(self, to: str, key: int, tensors: list[Value], tag: bytes = b"") -> None:
        """Sends values; the tag tells which iteration of a loop they are of."""
        made = ValuesMade(self._number, self._session.addresses[to], key, tag, tensors)
        (self.pending or self._worker).tell(made)

    def receive(self, source: str, key: int, tag: bytes = b"") -> list[Value] | Future:
        """The values, or what will have them."""
        found: list[Value] | Future | None = None
        if self.pending is not None:
            found = self.pending.read(key)
        if found is None:
            found = self._worker.take(
                self._number, (key, tag) if tag else key, f"values from {source}"
            )
        if self._worker.transfers.enabled:
            self._note(source, key, found)
        return found

    def put(self, node: Node, key: str, tensor: object) -> None:
        """Keeps a value for the task that asks for its key."""
        if isinstance(tensor, VariableRef):
            tensor = tensor.read()
        self._worker.tell(ValuesArrived(self._number, key, [tensor]))

    def fetch(self, node: Node, key: str) -> Value | Future:
        """The value that was kept under a key, here or at the task that sends it."""
        source = node.attrs["send_device"].decode().partition("/device:")[0]
        worker, number = self._worker, self._number
        if source == worker.task or node.attrs["client_terminated"]:
            found = worker.take(number, key, f"{key.split(';')[3]} of this task")
            if not isinstance(found, Future):
                return found[0]
            alone = Future(found.waits_for)
            found.add_callback(lambda values: _hand_on_first(values, alone))
            return alone
        address = self._session.addresses.get(source)
        if address is None:
            raise errors.InvalidArgumentError(
                None,
                node.source,
                f"{node.name} receives from {source}, which is not in the cluster of the "
                f"session: it has {', '.join(sorted(self._session.addresses))}.",
            )
        start, name = time.time_ns(), key.split(";")[3]
        fetched = worker.fetch_tensor(address, number, key, self.cancellation)
        if worker.transfers.enabled:

            def note(done: Future) -> None:
                if not done.failed:
                    found = [done.result()]
                    worker.transfers.note(number, [name], source, worker.task, found, start)

            fetched.add_callback(note)
        return fetched

    def _note(self, source: str, key: int, found: list[Value] | Future) -> None:
        start, log = time.time_ns(), self._worker.transfers
        names, number, to = self._graph.received.get(key, ()), self._number, self._worker.task
        if not isinstance(found, Future):
            log.note(number, names, source, to, found, start)
            return

        def arrived(future: Future) -> None:
            if future.failed is False:
                log.note(number, names, source, to, future.result(), start)

        found.add_callback(arrived)


def _hand_on_first(values: Future, to: Future) -> None:
    try:
        to.set_result(values.result()[0])
    except Exception as error:
        to.set_error(error)
