"""What a traced step tells in RunMetadata: when each stage ran, on which thread, what it made.

A device is one row. A host op is one entry under its own name. A compiled stage is one entry
under the stage's name, with its duration; the nodes that were fused into it follow as entries
without a duration of their own, so that a viewer of the graph sees that they ran, and where.
"""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

from tensorboard.compat.proto import graph_pb2, step_stats_pb2

from millrace.core.config import RunMetadata
from millrace.core.tensor_shape import TensorShape
from millrace.core.value import Value
from millrace.passes.node import Edge, Node
from millrace.passes.program_def import add_node
from millrace.runtime.compiled_stage import CompiledStage
from millrace.runtime.stage import Stage
from millrace.runtime.step import Step

_ALLOCATOR = "xla_cpu"


class OutputInfo(NamedTuple):
    """What is kept of an output: enough to describe it, not the value."""

    edge: Edge
    shape: tuple[int, ...]
    num_bytes: int


class StageEvent(NamedTuple):
    """One run of a stage; times are nanoseconds since the epoch."""

    stage: Any
    start: int
    end: int
    thread: int
    outputs: list[OutputInfo]
    tier: str


def note(stage: Stage, step: Step, start: int, values: list[Value]) -> None:
    """Adds an event for a stage that has just ended."""
    assert step.events is not None
    outputs = [
        OutputInfo(edge, value.shape, int(value.nbytes))
        for edge, value in zip(stage.outputs, values, strict=False)
        if hasattr(value, "nbytes") and hasattr(value, "shape")
    ]
    thread, tier = threading.get_native_id(), step.tiers.get(stage, "XLA")
    step.events.append(StageEvent(stage, start, time.time_ns(), thread, outputs, tier))


def fill_metadata(run_metadata: RunMetadata, step: Step) -> None:
    """Writes the step's events as StepStats."""
    assert step.events is not None
    writer = _Writer(run_metadata.step_stats)
    for event in step.events:
        writer.add(event)


class _Writer:
    def __init__(self, step_stats: step_stats_pb2.StepStats) -> None:
        self._step_stats = step_stats
        self._rows: dict[str, Any] = {}

    def _entry(self, device: str, event: StageEvent) -> step_stats_pb2.NodeExecStats:
        row = self._rows.get(device)
        if row is None:
            row = self._rows[device] = self._step_stats.dev_stats.add(device=device)
        entry = row.node_stats.add()
        entry.all_start_micros = event.start // 1000
        entry.all_start_nanos = event.start
        entry.scheduled_micros = event.start // 1000
        entry.scheduled_nanos = event.start
        entry.thread_id = event.thread
        return entry

    def add(self, event: StageEvent) -> None:
        stage = event.stage
        if not stage.nodes:
            return
        entry = self._entry(stage.nodes[0].device, event)
        _set_duration(entry, event.end - event.start)
        entry.node_name = stage.name
        if not isinstance(stage, CompiledStage):
            entry.timeline_label = _label(stage.nodes[0])
            _describe(entry, event.outputs)
            return
        inputs = ", ".join(dict.fromkeys(_source_name(edge) for edge in stage.inputs))
        names = " ".join(node.name for node in stage.nodes)
        tier, _, reason = event.tier.partition(": ")
        because = f" ({reason}; {stage.programs.counts.compiles} programs)" if reason else ""
        entry.timeline_label = f"{stage.name} = {tier}({inputs}) of {names}{because}"
        by_node: dict[Node, list[OutputInfo]] = {}
        for output in event.outputs:
            by_node.setdefault(output.edge.node, []).append(output)
        for node in stage.nodes:
            part = self._entry(node.device, event)
            part.node_name = node.name
            part.timeline_label = f"{_label(node)} in {stage.name}"
            _describe(part, by_node.get(node, []))


def _set_duration(entry: step_stats_pb2.NodeExecStats, nanos: int) -> None:
    micros = max(1, nanos // 1000)
    entry.op_end_rel_micros = entry.all_end_rel_micros = micros
    entry.op_end_rel_nanos = entry.all_end_rel_nanos = nanos


def _label(node: Node) -> str:
    inputs = [_source_name(edge) for edge in node.inputs]
    inputs += [f"^{control.name}" for control in node.controls]
    return f"{node.name} = {node.type}({', '.join(inputs)})"


def _source_name(edge: Edge) -> str:
    # A fed value is a node called after its tensor.
    name = edge.node.name.removesuffix(":0")
    return name if edge.index == 0 else f"{name}:{edge.index}"


def _describe(entry: step_stats_pb2.NodeExecStats, outputs: list[OutputInfo]) -> None:
    for info in outputs:
        output = entry.output.add(slot=info.edge.index)
        description = output.tensor_description
        description.dtype = info.edge.dtype.base_dtype.as_datatype_enum
        description.shape.CopyFrom(TensorShape(info.shape).as_proto())
        allocation = description.allocation_description
        allocation.requested_bytes = allocation.allocated_bytes = info.num_bytes
        allocation.allocator_name = _ALLOCATOR
    if outputs:
        used = entry.memory.add(allocator_name=_ALLOCATOR)
        used.total_bytes = used.peak_bytes = sum(info.num_bytes for info in outputs)


def fill_partition_graphs(
    run_metadata: RunMetadata, nodes: list[Node], arguments: list[Edge]
) -> None:
    """Writes the placed nodes of a program, one GraphDef a device.

    Args:
      run_metadata: The RunMetadata.
      nodes: The nodes.
      arguments: Edges that are fed; each becomes an ``_Arg`` node where it is first read.
    """
    fed = {
        edge.node: f"_arg_{edge.node.name.replace(':', '_')}_{i}"
        for i, edge in enumerate(arguments)
    }
    graphs: dict[str, graph_pb2.GraphDef] = {}
    written: set[Node] = {node for node in nodes if node.type == "Const"}
    for node in nodes:
        graph = graphs.get(node.device)
        if graph is None:
            graph = graphs[node.device] = run_metadata.partition_graphs.add()
        for edge in node.inputs:
            if edge.node in fed and edge.node not in written:
                written.add(edge.node)
                add_node(graph, edge.node, fed, node.device)
            elif edge.node.type == "Const" and edge.node not in written:
                written.add(edge.node)
                constant = edge.node.copy()
                constant.controls = []  # What it waited for, those that use it wait for.
                add_node(graph, constant, fed, node.device)
        add_node(graph, node, fed, node.device)
