"""What a task has received in its last steps: the log behind WorkerService's `Logging`.

It is off until somebody asks for it. It keeps a bounded number of steps, and of transfers in each;
the oldest go first. Values are never kept, only what they were and how long they took.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tensorboard.compat.proto import step_stats_pb2

from millrace.core.value import Value
from millrace.observe.observation import OBSERVED

_MAX_STEPS = 1024
_MAX_TRANSFERS = 4096


class Transfer(NamedTuple):
    """One message that arrived; times are nanoseconds since the epoch."""

    names: Sequence[str]
    source: str
    to: str
    num_bytes: int
    start: int
    end: int


class TransferLog:
    """The log of one task.

    Attributes:
      enabled: Whether transfers are noted.
      keeps: Whether they are kept here; else they are only counted, for metrics.
    """

    def __init__(self, max_steps: int = _MAX_STEPS, max_transfers: int = _MAX_TRANSFERS) -> None:
        self.enabled = False
        self.keeps = True
        self._max_steps = max_steps
        self._max_transfers = max_transfers
        self._lock = threading.Lock()
        self._steps: OrderedDict[int, list[Transfer]] = OrderedDict()

    def keep(self, wanted: bool) -> None:
        """Keeps transfers from now on, or only counts them if there are metrics."""
        self.keeps = wanted
        self.enabled = wanted or OBSERVED.enabled

    def observe(self) -> None:
        """Counts transfers from now on, whether or not they are kept."""
        self.keeps = self.enabled and self.keeps
        self.enabled = True

    def note(
        self, step: int, names: Sequence[str], source: str, to: str, values: Value, start: int
    ) -> None:
        """Keeps what has just arrived.

        Args:
          step: The step.
          names: The tensors' names where they were made.
          source: Where they came from.
          to: Where they are now.
          values: The values, to be counted.
          start: When the step began to wait for them.
        """
        size = sum(_size(value) for value in values)
        transfer = Transfer(tuple(names), source, to, size, start, time.time_ns())
        OBSERVED.note_transfer(source, size, (transfer.end - start) / 1e9)
        if not self.keeps:
            return
        with self._lock:
            found = self._steps.setdefault(step, [])
            found.append(transfer)
            if len(found) > self._max_transfers:
                del found[0]
            while len(self._steps) > self._max_steps:
                self._steps.popitem(last=False)

    def take(self, steps: Iterable[int]) -> dict[int, step_stats_pb2.StepStats]:
        """The StepStats of the steps that the log has something of; they are forgotten."""
        with self._lock:
            known = [step for step in dict.fromkeys(steps) if step in self._steps]
            found = {step: self._steps.pop(step) for step in known}
        return {step: _as_step_stats(transfers) for step, transfers in found.items()}

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._steps.clear()


def _size(value: Value) -> int:
    if getattr(getattr(value, "dtype", None), "kind", "") == "O":
        return sum(len(text) for text in value.flat)
    return int(getattr(value, "nbytes", 0))


def _as_step_stats(transfers: Iterable[Transfer]) -> step_stats_pb2.StepStats:
    stats = step_stats_pb2.StepStats()
    rows: dict[str, Any] = {}
    for transfer in transfers:
        row = rows.get(transfer.to)
        if row is None:
            row = rows[transfer.to] = stats.dev_stats.add(device=transfer.to)
        nanos = max(transfer.end - transfer.start, 1)
        rate = transfer.num_bytes * 8e3 / nanos  # TensorFlow's timeline has megabits a second
        row.node_stats.add(
            node_name="RecvTensor",
            all_start_micros=transfer.start // 1000,
            all_start_nanos=transfer.start,
            scheduled_micros=transfer.start // 1000,
            scheduled_nanos=transfer.start,
            all_end_rel_micros=nanos // 1000,
            all_end_rel_nanos=nanos,
            op_end_rel_micros=nanos // 1000,
            op_end_rel_nanos=nanos,
            timeline_label=(
                f"[{transfer.num_bytes}B] [{rate:f}Mb/s] {', '.join(transfer.names)} "
                f"from {transfer.source} to {transfer.to}"
            ),
        )
    return stats
