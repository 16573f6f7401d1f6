"""A step of a cluster as its trace tells it: what each task did when, and how long.

Times are microseconds from the beginning of `session.run`.
"""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

READS = "reads variables"
#: What a task did in a step, by kind, in the order of the tables.
BEFORE, BETWEEN, AFTER = (
    "Python before its first stage, and idle",
    "Python between stages",
    "Python after its last stage, and idle",
)
WAITS = "waiting for other tasks' tensors"
GROUPS = (
    BEFORE,
    "reading variables",
    "XLA programs",
    "other ops",
    "sending",
    BETWEEN,
    WAITS,
    AFTER,
)


class Stage(NamedTuple):
    """What a task did for a while; times in microseconds from the beginning of the step."""

    task: str
    name: str
    kind: str
    start: float
    end: float


class TracedStep(NamedTuple):
    """One step: how many microseconds it took, and its stages."""

    micros: float
    stages: list[Stage]


def read_trace(metadata: Any, began: int, plain: float) -> TracedStep:
    """The stages of a RunMetadata, of a step that began so many nanoseconds after the epoch."""
    stages = []
    for device in metadata.step_stats.dev_stats:
        task = device.device.partition("/device:")[0].replace("/replica:0", "")
        for node in device.node_stats:
            if not node.op_end_rel_nanos:
                continue  # fused into an XLA program
            kind, name = "host op", node.node_name
            ops = len(node.timeline_label.rpartition(" of ")[2].split())
            if " = XLA() of " in node.timeline_label:
                name = f"{name}: {READS}"  # nothing to compute
            elif " = XLA(" in node.timeline_label:
                kind, name = "XLA", f"{name}: XLA program of {ops} ops"
            elif "_ReceiveTensors(" in node.timeline_label:
                kind = "wait"
            elif "_SendTensors(" in node.timeline_label:
                kind = "send"
            else:
                name = re.sub(r"^(.*?) = (\w+)\(.*", r"\1: \2", node.timeline_label)
            start = (node.all_start_nanos - began) / 1000
            stages.append(Stage(task, name, kind, start, start + node.op_end_rel_nanos / 1000))
    last = max(stage.end for stage in stages)
    return TracedStep(max(plain, last), sorted(stages, key=lambda stage: stage.start))


def by_name(stage: Stage) -> str:
    """A line of its own for each stage."""
    return f"{stage.name}: waits" if stage.kind == "wait" else stage.name


def by_kind(stage: Stage) -> str:
    """A line for all stages of a kind: one of `GROUPS`."""
    if stage.name.endswith(READS):
        return "reading variables"
    return {"XLA": "XLA programs", "send": "sending", "wait": WAITS}.get(stage.kind, "other ops")


def shares(
    step: TracedStep, task: str, label: Callable[[Stage], str] = by_name
) -> dict[str, float]:
    """The microseconds of a step by what a task did; their sum is the step."""
    own = [stage for stage in step.stages if stage.task == task]
    first, last = min(s.start for s in own), max(s.end for s in own)
    edges = sorted({0.0, step.micros, *(s.start for s in own), *(s.end for s in own)})
    found: dict[str, float] = collections.defaultdict(float)
    for left, right in itertools.pairwise(edges):
        if right <= 0 or left >= step.micros:
            continue
        middle = (left + right) / 2
        active = [s for s in own if s.start <= middle < s.end]
        busy = [s for s in active if s.kind != "wait"]
        if active:
            name = label(max(busy or active, key=lambda s: s.start))
        elif middle < first:
            name = BEFORE
        elif middle > last:
            name = AFTER
        else:
            name = BETWEEN
        found[name] += min(right, step.micros) - max(left, 0.0)
    return found
