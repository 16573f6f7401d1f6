"""Where each microsecond of a step goes, in every task, and the picture of one step.

Starts a workload's cluster on Millrace, as `cluster.py` does, with worker 0 in this process, and
traces some steps of it (RunMetadata). The time of each task from the beginning of `session.run` to
its end is divided into what the task did: an instant belongs to the stage that began last, waiting
counts only where nothing else runs, and what is in no stage is Python: session and master before
the first stage, executor and messages between stages. A trace travels to the client when the step
is over, which takes longer than the step's own answer: so the end is that of steps without a trace.
With `perf` on the machine, a second table has the CPU time of the tasks by library.

    python benchmarks/step_profile.py --workload mlp_async_1_1 [--steps 200] [--picture FILE.svg]
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from cluster_workloads import WORKLOADS, open_replica
from processes import Task, environment_of, free_ports
from svg import COLORS, FAINT, INK, Drawing, nice_steps

PYTHON = "Python"
#: What is painted how; the order is that of the legend.
KINDS = {"XLA": COLORS[0], "send": COLORS[1], "host op": COLORS[2], "wait": "#e9edf3"}
#: Which library's time is which part of the system, by the beginning of the file's name.
LIBRARIES = (
    ("Python", ("python", "libpython")),
    ("XLA: calls, matrix products", ("libjax", "xla_extension", "_jax", "libjaxlib")),
    ("the system", ("[kernel", "[guest")),
    ("compiled programs", ("[JIT]", "[anon", "//anon", "anon", "memfd", "perf-")),
    ("libc", ("libc.", "libc-", "ld-", "[vdso]", "libm.", "libstdc++")),
    ("numpy", ("_multiarray", "numpy")),
)


#: Of looking at the tasks with perf; it needs a moment to begin.
PERF_SECONDS = 4.0


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
                name = f"{name}: reads variables"  # nothing to compute
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


def shares(step: TracedStep, task: str) -> dict[str, float]:
    """The microseconds of a step by what a task did."""
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
        if busy:
            name = max(busy, key=lambda s: s.start).name
        elif active:
            name = f"{max(active, key=lambda s: s.start).name}: waits"
        elif middle < first:
            name = f"{PYTHON} before its first stage, and idle"
        elif middle > last:
            name = f"{PYTHON} after its last stage, and idle"
        else:
            name = f"{PYTHON} between stages"
        found[name] += min(right, step.micros) - max(left, 0.0)
    return found


@contextlib.contextmanager
def cluster_of(name: str) -> Iterator[tuple[Callable[..., Any], dict[str, Task]]]:
    """A workload's cluster: what makes a step of worker 0, and the other tasks by name."""
    import millrace as tf

    workload = WORKLOADS[name]
    addresses = [f"127.0.0.1:{port}" for port in free_ports(workload.ps + workload.workers)]
    hosts = {"ps": addresses[: workload.ps], "worker": addresses[workload.ps :]}
    others: dict[str, Task] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for job, places in hosts.items():
            for index in range(len(places)):
                if (job, index) == ("worker", 0):
                    continue
                log = stack.enter_context(open(pathlib.Path(folder) / f"{job}{index}", "w"))
                command = [sys.executable, "cluster_workloads.py", "millrace", name, job]
                command += [str(index), json.dumps(hosts), "86400"]
                task = others[f"/job:{job}/task:{index}"] = Task(
                    command, environment_of("millrace"), log
                )
                stack.callback(task.end)
        spec = tf.train.ClusterSpec(hosts)
        server = tf.train.Server(spec, "worker", 0)
        once, _ = open_replica(tf, server, spec, 0, workload)
        yield once, others


def trace(once: Callable[..., Any], count: int, plain: float) -> list[TracedStep]:
    """Some steps with a trace; `plain` is how many microseconds one takes without."""
    import millrace as tf

    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    found = []
    for _ in range(count):
        metadata = tf.RunMetadata()
        began = time.time_ns()
        once(options=options, run_metadata=metadata)
        found.append(read_trace(metadata, began, plain))
    return found


def cpu_by_library(processes: dict[str, int], work: Callable[[], Any]) -> dict[str, dict]:
    """Shares of each process's CPU time while `work` is done, by library; nothing without perf."""
    if shutil.which("perf") is None:
        return {}
    found: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as folder:
        # One recorder a process: they share libraries, which a report of both would add up.
        files = [os.path.join(folder, str(process)) for process in processes.values()]
        recorders = [
            subprocess.Popen(
                ["perf", "record", "-q", "-F", "2000", "-o", file, "-p", str(process)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for file, process in zip(files, processes.values(), strict=True)
        ]
        try:
            ended = time.monotonic() + PERF_SECONDS
            while time.monotonic() < ended:
                work()
        finally:
            for recorder in recorders:
                recorder.send_signal(signal.SIGINT)
            for recorder in recorders:
                recorder.wait()
        for task, file in zip(processes, files, strict=True):
            report = subprocess.run(
                ["perf", "report", "-q", "-i", file, "--sort", "dso", "--stdio"],
                capture_output=True,
                text=True,
            )
            parts: dict[str, float] = collections.defaultdict(float)
            for line in report.stdout.splitlines():
                matched = re.match(r"\s*([\d.]+)%\s+(\S.*)", line)
                if matched:
                    parts[part_of(matched[2].strip())] += float(matched[1])
            if parts:
                found[task] = dict(parts)
    return found


def part_of(library: str) -> str:
    """Which part of the system a file's time is."""
    for part, beginnings in LIBRARIES:
        if library.startswith(beginnings):
            return part
    return "other"


# -- The picture -------------------------------------------------------------------------------


def draw(step: TracedStep, title: str, path: pathlib.Path) -> None:
    """One step: a lane for each task, time to the right, messages between the lanes."""
    tasks = sorted({stage.task for stage in step.stages}, reverse=True)
    left, right, top, lane = 130.0, 940.0, 70.0, 110.0
    drawing = Drawing(960, int(top + lane * len(tasks) + 60), title)
    drawing.text(20, 28, title, bold=True, size=15)
    marks = nice_steps(step.micros, 6)

    def x_of(micros: float) -> float:
        return left + (right - left) * micros / marks[-1]

    bottom = top + lane * len(tasks) - 20
    for mark in marks:
        drawing.line([(x_of(mark), top - 10), (x_of(mark), bottom)], FAINT)
        drawing.text(x_of(mark), bottom + 18, f"{mark:g}", anchor="middle", size=12)
    drawing.text(right, bottom + 36, "microseconds", anchor="end", size=12)
    rows = {task: top + 20 + lane * i for i, task in enumerate(tasks)}
    height = 44.0
    for task, y in rows.items():
        drawing.text(20, y + 27, task.removeprefix("/job:").replace("/task:", " "), bold=True)
        for stage in sorted(step.stages, key=lambda s: s.kind != "wait"):
            if stage.task != task:
                continue
            wait = stage.kind == "wait"
            at, tall = (y + 12, height - 24) if wait else (y, height)
            width = max(1.0, x_of(stage.end) - x_of(stage.start))
            micros = stage.end - stage.start
            about = f"{stage.name}: {micros:.0f} µs"
            drawing.box(x_of(stage.start), at, width, tall, KINDS[stage.kind], about)
            if not wait and width > 44:
                middle = x_of(stage.start) + width / 2
                drawing.text(middle, y + 20, stage.kind, anchor="middle", size=11, color="#ffffff")
                drawing.text(
                    middle, y + 34, f"{micros:.0f}", anchor="middle", size=11, color="#ffffff"
                )
    ends = {s.name: s for s in step.stages if s.kind == "wait"}
    for stage in step.stages:
        there = ends.get(stage.name.replace("send", "receive"))
        if stage.kind != "send" or there is None or there.task == stage.task:
            continue
        down = rows[there.task] > rows[stage.task]
        start = (x_of(stage.end), rows[stage.task] + (height if down else 0))
        end = (x_of(there.end), rows[there.task] + (0 if down else height))
        drawing.line([start, end], INK, 1.5)
        drawing.dot(*end, INK, f"{stage.name} has arrived")
    worker = rows["/job:worker/task:0"]
    drawing.line([(x_of(0), worker - 6), (x_of(step.micros), worker - 6)], INK, 2)
    drawing.text(x_of(0), worker - 12, f"session.run: {step.micros:.0f} µs", size=12)
    for i, (kind, color) in enumerate(KINDS.items()):
        drawing.box(left + 130 * i, bottom + 30, 14, 14, color)
        drawing.text(left + 130 * i + 20, bottom + 42, kind)
    drawing.save(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workload", choices=WORKLOADS, default="mlp_async_1_1")
    parser.add_argument("--steps", type=int, default=200, help="to trace (default 200)")
    parser.add_argument("--picture", type=pathlib.Path, help="draw the middle step to this file")
    options = parser.parse_args()
    with cluster_of(options.workload) as (once, others):
        for task in others.values():
            if "worker" in task.process.args:
                task.go()
        for _ in range(20):
            once()

        cpu = {name: -task.cpu_seconds() for name, task in others.items()}
        own, times = -time.process_time(), []
        for _ in range(options.steps):
            began = time.perf_counter()
            once()
            times.append((time.perf_counter() - began) * 1e6)
        plain = statistics.median(times)
        own = (own + time.process_time()) / options.steps
        for name, task in others.items():
            cpu[name] = (cpu[name] + task.cpu_seconds()) / options.steps
        steps = trace(once, options.steps, plain)
        processes = {"/job:worker/task:0": os.getpid()}
        processes |= {name: t.process.pid for name, t in others.items() if "/job:ps" in name}
        libraries = cpu_by_library(processes, once)
    title = WORKLOADS[options.workload].title
    print(f"{title}: a step of worker 0 takes {plain:,.0f} µs. CPU time meanwhile, in µs:")
    print(", ".join(f"{name} {t * 1e6:,.0f}" for name, t in {"worker 0": own, **cpu}.items()))
    # By the last stage's end: where the step was as usual, the time after it is too.
    middle = sorted(steps, key=lambda step: max(s.end for s in step.stages))[len(steps) // 2]
    for task in sorted({stage.task for stage in middle.stages}, reverse=True):
        print_table(["in a step (medians), µs", task], rows_of(task, steps))
    if libraries:
        names = [part for part, _ in LIBRARIES] + ["other"]
        rows = [
            [name, *(f"{parts.get(name, 0):.0f}" for parts in libraries.values())] for name in names
        ]
        print_table(["CPU time by library, %", *libraries], rows)
    if options.picture:
        draw(middle, f"One step: {title}", options.picture)
    return 0


def rows_of(task: str, steps: list[TracedStep]) -> list[list[str]]:
    """What a task did in a step, medians, in the order of time."""
    found: dict[str, list[float]] = {}
    for step in steps:
        if any(stage.task == task for stage in step.stages):
            for name, micros in shares(step, task).items():
                found.setdefault(name, []).append(micros)
    rows = [
        [name, f"{statistics.median(values):,.0f}"]
        for name, values in found.items()
        if len(values) > len(steps) / 10
    ]
    whole = statistics.median(step.micros for step in steps)
    return [*rows, ["`session.run`", f"{whole:,.0f}"]]


def print_table(heads: list[str], rows: list[list[str]]) -> None:
    """Prints a table as documents have it."""
    print()
    for cells in (heads, ["---", *("---:" for _ in heads[1:])], *rows):
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    sys.exit(main())
