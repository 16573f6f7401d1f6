"""How a part of a step reaches the other tasks: what it sends, receives, keeps and fetches.

One exchange belongs to one part of one step. A receive never blocks: it has the values, or what
will have them. Several times a step Python comes through here: a call more is seen in
`benchmarks/counted_work.py`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from millrace.core import errors
from millrace.passes.node import Node
from millrace.rpc.message import Kind, Message
from millrace.runtime.cancellation import Cancellation
from millrace.runtime.deferred import Deferred
from millrace.runtime.kernel_call import VariableRef
from millrace.server.drivers.remote_part import LateParts
from millrace.server.worker_sessions import RegisteredGraph

if TYPE_CHECKING:
    from millrace.server.worker import Worker


class Exchange:
    """How a part's sends and receives reach the other tasks."""

    __slots__ = (
        "_graph",
        "_number",
        "_session",
        "_worker",
        "cancellation",
        "given",
        "last",
        "late",
    )

    def __init__(
        self, worker: Worker, graph: RegisteredGraph, number: int, cancellation: Cancellation
    ) -> None:
        self.cancellation = cancellation
        self._worker = worker
        self._graph = graph
        self._session = graph.session
        self._number = number
        #: What goes to the master with the message that the part is over.
        self.last: list[Any] = []
        #: The key and the values that a part of another task's step began with.
        self.given: tuple[int, list[Any]] | None = None
        #: In the master's part: the other parts that begin with what is sent to them.
        self.late: LateParts | None = None

    def send_last(self, tensors: list[Any]) -> None:
        """Sends values to the master's task when the part is over."""
        self.last = tensors

    def send(self, to: str, key: int, tensors: list[Any], tag: bytes = b"") -> None:
        """Sends values; the tag tells which iteration of a loop they are of."""
        if self.late is not None and self.late.begins(key, tensors):
            return
        self._worker.boards.refresh()
        message = Message(Kind.TENSORS, self._number, key, tag, tensors)
        address = self._session.addresses[to]
        if address != self._session.master:
            self._worker.sent.note_sent(self._session, address, self._number)
        self._worker.post(address, message)

    def receive(self, source: str, key: int, tag: bytes = b"") -> list[Any] | Deferred:
        """The values, or what will have them."""
        if self.given is not None and self.given[0] == key:
            return self.given[1]
        box = (key, tag) if tag else key
        found: list[Any] | Deferred | None = None
        if self.late is not None:
            found = self.late.read(key)
        if found is None:
            found = self._worker.mailbox.take(self._number, box, f"values from {source}")
        if self._worker.transfers.enabled:
            self._note(source, key, found)
        return found

    def put(self, node: Node, key: str, tensor: Any) -> None:
        """Keeps a value for whoever asks for its key."""
        if isinstance(tensor, VariableRef):
            tensor = tensor.read()
        self._worker.mailbox.deliver(self._number, key, [tensor])

    def fetch(self, node: Node, key: str) -> Any:
        """The value that was kept under a key, here or at the task that sends it."""
        source = node.attrs["send_device"].decode().partition("/device:")[0]
        worker, number = self._worker, self._number
        if source == worker.task or node.attrs["client_terminated"]:
            found = worker.mailbox.take(number, key, f"{key.split(';')[3]} of this task")
            if not isinstance(found, Deferred):
                return found[0]
            alone = Deferred(found.waits_for)
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

            def note(done: Deferred) -> None:
                if not done.failed:
                    found = [done.result()]
                    worker.transfers.note(number, [name], source, worker.task, found, start)

            fetched.add_callback(note)
        return fetched

    def _note(self, source: str, key: int, found: list[Any] | Deferred) -> None:
        start, log = time.time_ns(), self._worker.transfers
        names, number, to = self._graph.received.get(key, ()), self._number, self._worker.task
        if not isinstance(found, Deferred):
            log.note(number, names, source, to, found, start)
            return

        def arrived(deferred: Deferred) -> None:
            if deferred.failed is False:
                log.note(number, names, source, to, deferred.result(), start)

        found.add_callback(arrived)


def _hand_on_first(values: Deferred, to: Deferred) -> None:
    try:
        to.set_result(values.result()[0])
    except Exception as error:
        to.set_error(error)
