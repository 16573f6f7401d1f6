"""A task's metrics for Prometheus, made of its status when they are asked for.

Names begin with ``millrace_``. Labels are few and bounded: tasks, queues, and the largest
variables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from millrace.observe.observation import BOUNDS, Observation
from millrace.platform.version import MILLRACE
from millrace.runtime import tiers

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: How often its launcher has started this task again.
RESTARTS = "MILLRACE_RESTARTS"
#: So many variables are named, the largest; the others are in the sums.
_NAMED_VARIABLES = 20


class TaskCollector(Collector):
    """Makes the metrics of one server."""

    def __init__(self, status: Callable[[], dict[str, Any]], observed: Observation) -> None:
        self._status = status
        self._observed = observed

    def collect(self) -> Iterator[Metric]:
        """The metrics of now."""
        status = self._status()
        yield from _identity(status)
        yield _counter("steps", "Steps that this task took part in.", status["steps"])
        yield _gauge("running_steps", "Steps that run or wait here now.", status["running_steps"])
        yield _gauge("sessions", "Sessions whose master is here.", status["sessions"])
        if status["global_step"] is not None:
            yield _gauge("global_step", "The global step, where it is kept.", status["global_step"])
        yield from _times(self._observed)
        yield from _waits(self._observed)
        yield from _traffic(status)
        yield from _variables(status)
        yield from _queues(status)
        yield from _accumulators(status)
        yield from _compiler(status)


def text_of(status: Callable[[], dict[str, Any]], observed: Observation) -> bytes:
    """All metrics of a task and its process, as Prometheus reads them."""
    registry = CollectorRegistry()
    registry.register(TaskCollector(status, observed))
    ProcessCollector(registry=registry)  # memory, CPU, open files
    return generate_latest(registry)


def _counter(name: str, what: str, value: float) -> Metric:
    return CounterMetricFamily(f"millrace_{name}", what, value=value)


def _gauge(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(f"millrace_{name}", what, value=value)


def _identity(status: dict[str, Any]) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        "millrace_task_info", "Which task this is.", labels=["task", "incarnation", "version"]
    )
    info.add_metric([status["task"], f"{status['incarnation']:016x}", MILLRACE], 1)
    yield info
    yield _gauge("uptime_seconds", "Since this incarnation began.", status["uptime_seconds"])
    restarts = int(os.environ.get(RESTARTS, "0") or 0)
    yield _counter("restarts", "How often the launcher started this task again.", restarts)


def _times(observed: Observation) -> Iterator[Metric]:
    for name, what, times in (
        ("step_seconds", "Time of Session.run in this process.", observed.steps),
        ("checkpoint_seconds", "Time of saving a checkpoint from this process.", observed.saves),
    ):
        counts, total, _ = times.read()
        bounds = [*(str(bound) for bound in BOUNDS), "+Inf"]
        metric = HistogramMetricFamily(f"millrace_{name}", what)
        metric.add_metric([], list(zip(bounds, counts, strict=True)), total)
        yield metric


def _waits(observed: Observation) -> Iterator[Metric]:
    seconds = CounterMetricFamily(
        "millrace_waited_seconds", "Steps waited so long for values of a task.", labels=["peer"]
    )
    received = CounterMetricFamily(
        "millrace_values_received_bytes", "Values that steps received from a task.", labels=["peer"]
    )
    for peer, waits in sorted(observed.waits().items()):
        seconds.add_metric([peer], waits.seconds)
        received.add_metric([peer], waits.num_bytes)
    yield from (seconds, received)


def _traffic(status: dict[str, Any]) -> Iterator[Metric]:
    for key, what in (
        ("bytes_sent", "Bytes sent to a task, over channels that are open."),
        ("bytes_received", "Bytes received from a task."),
        ("messages_sent", "Messages sent to a task."),
        ("messages_received", "Messages received from a task."),
    ):
        metric = CounterMetricFamily(f"millrace_{key}", what, labels=["peer"])
        for peer, traffic in sorted(status["traffic"].items()):
            metric.add_metric([peer], traffic[key])
        yield metric


def _variables(status: dict[str, Any]) -> Iterator[Metric]:
    variables = sorted(status["variables"], key=lambda each: -each["bytes"])
    yield _gauge("variables", "Variables that this task keeps.", len(variables))
    size = sum(each["bytes"] for each in variables)
    yield _gauge("variable_bytes", "What they take.", size)
    largest = GaugeMetricFamily(
        "millrace_largest_variable_bytes", "The largest variables.", labels=["variable"]
    )
    for each in variables[:_NAMED_VARIABLES]:
        largest.add_metric([each["name"]], each["bytes"])
    yield largest
    yield _gauge(
        "published_variable_groups",
        "Groups of variables that others read from shared memory.",
        status.get("published", 0),
    )


def _queues(status: dict[str, Any]) -> Iterator[Metric]:
    sizes = GaugeMetricFamily("millrace_queue_size", "Elements in a queue.", labels=["queue"])
    rooms = GaugeMetricFamily("millrace_queue_capacity", "Room of a queue.", labels=["queue"])
    for queue in status.get("queues", ()):
        sizes.add_metric([queue["name"]], queue["size"])
        rooms.add_metric([queue["name"]], queue["capacity"])
    yield from (sizes, rooms)


def _accumulators(status: dict[str, Any]) -> Iterator[Metric]:
    found = status.get("accumulators", ())
    yield _gauge(
        "round_gradients",
        "Gradients that the round of now has, in the accumulator that has most.",
        max((each["count"] for each in found), default=0),
    )
    yield _counter(
        "stale_gradients",
        "Gradients that came too late and were dropped.",
        sum(each["stale"] for each in found),
    )


def _compiler(status: dict[str, Any]) -> Iterator[Metric]:
    counts = tiers.COUNTS
    yield _counter("xla_calls", "Calls of XLA programs for steps.", status["xla_calls"])
    yield _counter("compiles", "Programs compiled.", counts.compiles)
    yield _counter("compile_seconds", "Time of compiling them.", counts.seconds)
    yield _counter("compile_waits", "Runs that waited for the compiler.", counts.waits)
    yield _counter("program_runs", "Runs of stages as XLA programs.", counts.program_runs)
    yield _counter("host_runs", "Runs of stages op by op, on NumPy.", counts.host_runs)
