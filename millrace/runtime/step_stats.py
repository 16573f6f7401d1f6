"""What a traced step tells in RunMetadata: when each stage ran, and for how long."""

from __future__ import annotations

from typing import Any

from millrace.runtime.compiled_stage import CompiledStage
from millrace.runtime.step import Step


def fill_metadata(run_metadata: Any, step: Step) -> None:
    """Writes the step's events as StepStats, one row of nodes a device.

    A compiled stage is one entry: its label lists the nodes that it fused.
    """
    assert step.events is not None
    rows: dict[str, Any] = {}
    for stage, start, end, thread in step.events:
        device = stage.nodes[0].device if stage.nodes else ""
        row = rows.get(device)
        if row is None:
            row = rows[device] = run_metadata.step_stats.dev_stats.add(device=device)
        node_stats = row.node_stats.add()
        compiled = isinstance(stage, CompiledStage)
        node_stats.node_name = stage.name if compiled else stage.node.name
        node_stats.all_start_micros = start // 1000
        node_stats.op_end_rel_micros = max(1, (end - start) // 1000)
        node_stats.all_end_rel_micros = node_stats.op_end_rel_micros
        node_stats.thread_id = thread & 0xFFFFFFFF
        if compiled:
            inputs = ", ".join(edge.node.name for edge in stage.inputs)
            names = " ".join(node.name for node in stage.nodes)
            node_stats.timeline_label = f"{stage.name} = XLA({inputs}) [{names}]"
        else:
            inputs = ", ".join(edge.node.name for edge in stage.node.inputs)
            node_stats.timeline_label = f"{stage.node.name} = {stage.node.type}({inputs})"
