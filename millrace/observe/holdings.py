"""What a task's store holds besides variables, in plain values: queues and accumulators."""

from __future__ import annotations

from typing import Any

from millrace.ops.data_flow.accumulators import Accumulator
from millrace.ops.data_flow.queue_kernels import Queue
from millrace.runtime.resources import ResourceStore


def of(resources: ResourceStore) -> dict[str, Any]:
    """Queues with their sizes, accumulators with their gradients."""
    queues, accumulators = [], []
    for _, name, queue in resources.all_of(Queue):
        with queue.lock:
            state = queue.state
            queues.append(
                {
                    "name": name,
                    "size": len(state),
                    "capacity": state.capacity,
                    "was_fed": state.was_fed,
                    "dequeues_waiting": state.dequeues_waiting,
                }
            )
    for _, name, accumulator in resources.all_of(Accumulator):
        with accumulator.lock:
            gradients = accumulator.state
            accumulators.append(
                {
                    "name": name,
                    "step": gradients.global_step,
                    "count": gradients.count,
                    "stale": gradients.stale,
                    "required": gradients.required,
                }
            )
    return {"queues": queues, "accumulators": accumulators}
