"""A step's statistics as a trace that Chrome (chrome://tracing, Perfetto) draws.

One process a device, one row a thread. With data flow, an arrow goes from the operation that
made a tensor to each that read it; with memory, a curve shows how much each allocator holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_LABEL = re.compile(r"^(?P<name>.*?) = (?P<type>[^(\s]+)\((?P<inputs>.*?)\)(?P<rest>.*)$", re.S)


class AllocationMaximum(NamedTuple):
    """The most that an allocator held: when, how much, and which tensors."""

    timestamp: int
    num_bytes: int
    tensors: frozenset[str]


class StepStatsAnalysis(NamedTuple):
    """What `Timeline.analyze_step_stats` finds."""

    chrome_trace: ChromeTrace
    allocator_maximums: dict[str, AllocationMaximum]


class ChromeTrace:
    """Events in Chrome's trace format."""

    def __init__(self) -> None:
        self._metadata: list[dict[str, Any]] = []
        self._events: list[dict[str, Any]] = []

    def emit_process(self, name: str, pid: int) -> None:
        """Names a process (a device)."""
        self._metadata.append(
            {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}
        )

    def emit_thread(self, name: str, pid: int, tid: int) -> None:
        """Names a row of a process."""
        self._metadata.append(
            {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
        )

    def emit_region(
        self,
        timestamp: int,
        duration: int,
        pid: int,
        tid: int,
        category: str,
        name: str,
        args: dict[str, Any],
    ) -> None:
        """A bar from `timestamp`, `duration` microseconds long."""
        self._event("X", category, name, pid, tid, timestamp, dur=duration, args=args)

    def emit_flow_start(self, name: str, timestamp: int, pid: int, tid: int, flow_id: int) -> None:
        """The tail of an arrow."""
        self._event("s", "DataFlow", name, pid, tid, timestamp, id=flow_id)

    def emit_flow_end(self, name: str, timestamp: int, pid: int, tid: int, flow_id: int) -> None:
        """The head of an arrow."""
        self._event("t", "DataFlow", name, pid, tid, timestamp, id=flow_id)

    def emit_counters(
        self, category: str, name: str, pid: int, timestamp: int, counters: dict[str, int]
    ) -> None:
        """A point of a curve."""
        self._event("C", category, name, pid, 0, timestamp, args=dict(counters))

    def _event(
        self, phase: str, category: str, name: str, pid: int, tid: int, ts: int, **more: Any
    ) -> None:
        event = {"ph": phase, "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts}
        self._events.append({**event, **more})

    def format_to_string(self, pretty: bool = False) -> str:
        """The trace as JSON."""
        trace = {"traceEvents": self._metadata + self._events}
        return json.dumps(
            trace, indent=4 if pretty else None, separators=None if pretty else (",", ":")
        )


class _Bar(NamedTuple):
    """One executed operation or compiled stage."""

    device: str
    pid: int
    tid: int
    stats: Any
    name: str
    type: str
    inputs: tuple[str, ...]
    detail: str
    start: int
    end: int

    @property
    def is_fused(self) -> bool:
        """Whether it ran as a part of a compiled stage, which has the bar."""
        return self.detail.startswith("in ")


class Timeline:
    """Renders `RunMetadata.step_stats`.

    Attributes of the arguments are those of TensorFlow's Timeline.
    """

    def __init__(self, step_stats: Any, graph: Any = None) -> None:
        self._step_stats = step_stats

    def generate_chrome_trace_format(
        self, show_dataflow: bool = True, show_memory: bool = False, op_time: str = "schedule"
    ) -> str:
        """The trace as JSON.

        Args:
          show_dataflow: Whether to draw arrows between operations.
          show_memory: Whether to draw the memory of each allocator.
          op_time: Whether a bar is all of an operation ("schedule", "all") or only its kernel
            ("gpu", "compute"): the same here.
        """
        analysis = self.analyze_step_stats(show_dataflow, show_memory, op_time)
        return analysis.chrome_trace.format_to_string(pretty=True)

    def analyze_step_stats(
        self, show_dataflow: bool = True, show_memory: bool = True, op_time: str = "schedule"
    ) -> StepStatsAnalysis:
        """The trace, and the most memory that each allocator held."""
        trace = ChromeTrace()
        bars: list[_Bar] = []
        for pid, device in enumerate(self._step_stats.dev_stats):
            trace.emit_process(f"{device.device} Compute", pid)
            bars.extend(self._rows(trace, device, pid))
        for bar in bars:
            if not bar.is_fused:
                trace.emit_region(
                    bar.start, bar.end - bar.start, bar.pid, bar.tid, "Op", bar.type, _args(bar)
                )
        if show_dataflow:
            _emit_flows(trace, bars)
        maximums = _memory(trace, bars, len(self._step_stats.dev_stats), show_memory)
        return StepStatsAnalysis(trace, maximums)

    def _rows(self, trace: ChromeTrace, device: Any, pid: int) -> Iterator[_Bar]:
        threads: dict[int, int] = {}
        stage_end = 0
        for stats in device.node_stats:
            name, op_type, inputs, detail = _parse_label(stats)
            start = int(stats.all_start_micros)
            end = start + int(stats.all_end_rel_micros)
            if detail.startswith("in "):
                end = max(end, stage_end)  # The nodes of a stage follow it, and end with it.
            else:
                stage_end = end
            if stats.thread_id not in threads:
                threads[stats.thread_id] = tid = len(threads)
                label = device.thread_names.get(stats.thread_id) or f"thread {stats.thread_id}"
                trace.emit_thread(label, pid, tid)
            tid = threads[stats.thread_id]
            yield _Bar(device.device, pid, tid, stats, name, op_type, inputs, detail, start, end)


def _args(bar: _Bar) -> dict[str, Any]:
    args: dict[str, Any] = {"name": bar.name, "op": bar.type}
    for i, source in enumerate(bar.inputs):
        args[f"input{i}"] = source
    if bar.detail:
        args["detail"] = bar.detail
    return args


def _parse_label(stats: Any) -> tuple[str, str, tuple[str, ...], str]:
    """(name, op type, inputs, what follows) from a label such as ``c = Add(a, b)``."""
    match = _LABEL.match(stats.timeline_label)
    if match is None:
        return stats.node_name, stats.timeline_label or stats.node_name, (), ""
    inputs = tuple(part.strip() for part in match["inputs"].split(",") if part.strip())
    return match["name"], match["type"], inputs, match["rest"].strip()


def _plain(tensor_name: str) -> str:
    return tensor_name.removeprefix("^").partition(":")[0]


def _emit_flows(trace: ChromeTrace, bars: list[_Bar]) -> None:
    makers = {bar.name: bar for bar in bars}
    flow = 0
    for bar in sorted((b for b in bars if not b.is_fused), key=lambda b: b.start):
        for source in bar.inputs:
            maker = makers.get(_plain(source))
            if maker is None or (maker.pid, maker.tid) == (bar.pid, bar.tid):
                # Along one row the order tells it.
                continue
            trace.emit_flow_start(_plain(source), maker.end, maker.pid, maker.tid, flow)
            trace.emit_flow_end(_plain(source), bar.start, bar.pid, bar.tid, flow)
            flow += 1


class _Held(NamedTuple):
    allocator: str
    name: str
    num_bytes: int
    start: int
    end: int


def _memory(
    trace: ChromeTrace, bars: list[_Bar], pid: int, show: bool
) -> dict[str, AllocationMaximum]:
    """Curves of what each allocator holds: an output lives until its last reader is done."""
    last_use: dict[str, int] = {}
    for bar in bars:
        for source in bar.inputs:
            last_use[_plain(source)] = max(last_use.get(_plain(source), 0), bar.end)
    held: list[_Held] = []
    for bar in bars:
        for output in bar.stats.output:
            description = output.tensor_description.allocation_description
            size = description.requested_bytes or description.allocated_bytes
            if size:
                name = bar.name if output.slot == 0 else f"{bar.name}:{output.slot}"
                end = max(last_use.get(bar.name, bar.end), bar.end)
                held.append(_Held(description.allocator_name or "cpu", name, size, bar.start, end))
    if show and held:
        trace.emit_process("Allocators", pid)
    maximums: dict[str, AllocationMaximum] = {}
    for allocator in dict.fromkeys(item.allocator for item in held):
        changes: list[tuple[int, int, str, int]] = []
        for item in held:
            if item.allocator == allocator:
                changes.append((item.start, 1, item.name, item.num_bytes))
                changes.append((item.end, 0, item.name, -item.num_bytes))
        total, most = 0, AllocationMaximum(0, 0, frozenset())
        alive: set[str] = set()
        # What ends at an instant goes before what starts then.
        for when, begins, name, change in sorted(changes):
            total += change
            alive.add(name) if begins else alive.discard(name)
            if total > most.num_bytes:
                most = AllocationMaximum(when, total, frozenset(alive))
            if show:
                trace.emit_counters("Memory", allocator, pid, when, {allocator: total})
        maximums[allocator] = most
    return maximums
