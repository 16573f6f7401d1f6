"""Stages that ask something of a queue or an accumulator whose node was absorbed.

Synchronous training hands out tokens through a queue, every round. A queue is found, and the types
of its components are compared, once for a session and not at every step.
"""

from __future__ import annotations

import functools

from millrace.ops.data_flow import queue_kernels
from millrace.ops.data_flow.queue_kernels import Queue
from millrace.passes.node import Node
from millrace.runtime.found import Found
from millrace.runtime.future import Future
from millrace.runtime.kernel_call import op_error
from millrace.runtime.stage import Value
from millrace.runtime.stages.accumulate import HandleStage
from millrace.runtime.stages.host import on_host
from millrace.runtime.step import Step


class _QueueStage(HandleStage):
    """A queue behind a handle."""

    _enqueues = False

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._found: Found[Queue] = Found()

    def _queue(self, step: Step) -> Queue:
        """The queue.

        Raises:
          OpError: There is none, or it is of other types.
        """
        return self._found.get(step.session, step.resources, lambda: self._find(step))

    def _find(self, step: Step) -> Queue:
        (handle,) = self._handles.get(step)
        return queue_kernels.find_for(self.node, handle, step, self._enqueues)


class DequeueStage(_QueueStage):
    """Takes one element."""

    def run(self, inputs: list[Value], step: Step) -> list[Value] | Future:
        """The element's components, or a Future of them."""
        try:
            why = functools.partial(queue_kernels.what_comes, self.node, step)
            element: list[Value] | Future = self._queue(step).dequeue(step, why)
        except Exception as error:
            raise op_error(self.node, error) from None
        return element


class EnqueueManyStage(_QueueStage):
    """Adds the rows of arrays."""

    _enqueues = True

    def run(self, inputs: list[Value], step: Step) -> list[Value] | Future:
        """No outputs, or a Future of them."""
        values = [on_host(inputs[position]) for position in self._positions]
        try:
            added: list[Value] | Future = self._queue(step).enqueue_many(step, values)
        except Exception as error:
            raise op_error(self.node, error) from None
        return added


_STAGES: dict[str, type[HandleStage]] = {
    "QueueDequeue": DequeueStage,
    "QueueEnqueueMany": EnqueueManyStage,
}


def handle_stage(node: Node) -> HandleStage:
    """The stage of a node whose first input was absorbed."""
    return _STAGES.get(node.type.removesuffix("V2"), HandleStage)(node)
