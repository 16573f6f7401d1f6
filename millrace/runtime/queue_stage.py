"""Stages that ask something of a queue or an accumulator whose node was absorbed.

Synchronous training hands out tokens through a queue, every round. A queue is found, and the types
of its components are compared, once for a session and not at every step.
"""

from __future__ import annotations

import functools
from typing import Any

from millrace.ops.data_flow import queue_kernels
from millrace.ops.data_flow.queue_kernels import Queue
from millrace.passes.node import Node
from millrace.runtime.accumulator_stage import HandleStage, on_host
from millrace.runtime.kernel_call import op_error


class _QueueStage(HandleStage):
    """A queue behind a handle."""

    #: What the queue gives are arrays of its types.
    outputs_are_flat = True
    _enqueues = False

    def __init__(self, node: Node) -> None:
        super().__init__(node, blocking=True)
        #: For a session, until containers are cleared.
        self._found: tuple[Any, int, Queue] | None = None

    def _queue(self, step: Any) -> Queue:
        """The queue.

        Raises:
          OpError: There is none, or it is of other types.
        """
        found = self._found
        if found is None or found[0] is not step.session or found[1] != step.resources.generation:
            generation, handle = step.resources.generation, self._handles.get(step)[0]
            queue = queue_kernels.find_for(self.node, handle, step, self._enqueues)
            found = self._found = step.session, generation, queue
        return found[2]


class DequeueStage(_QueueStage):
    """Takes one element."""

    def run(self, inputs: list[Any], step: Any) -> Any:
        """The element's components, or a Deferred of them."""
        try:
            why = functools.partial(queue_kernels.what_comes, self.node, step)
            return self._queue(step).dequeue(step, why)
        except Exception as error:
            raise op_error(self.node, error) from None


class EnqueueManyStage(_QueueStage):
    """Adds the rows of arrays."""

    _enqueues = True

    def run(self, inputs: list[Any], step: Any) -> Any:
        """No outputs, or a Deferred of them."""
        values = [on_host(inputs[place]) for place in self._places]
        try:
            return self._queue(step).enqueue_many(step, values)
        except Exception as error:
            raise op_error(self.node, error) from None


_STAGES: dict[str, type[_QueueStage]] = {
    "QueueDequeue": DequeueStage,
    "QueueEnqueueMany": EnqueueManyStage,
}


def handle_stage(node: Node, blocking: bool) -> HandleStage:
    """The stage of a node whose first input was absorbed.

    Args:
      node: The node.
      blocking: Whether it may wait.
    """
    kind = _STAGES.get(node.type.removesuffix("V2"))
    return HandleStage(node, blocking) if kind is None else kind(node)
