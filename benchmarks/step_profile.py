"""Where each microsecond of a step goes, in every task and for every workload.

Starts a workload's cluster on Millrace, as `cluster.py` does, with worker 0 in this process, and
traces some steps of it (RunMetadata). The time of each task from the beginning of `session.run` to
its end is divided into what the task did: an instant belongs to the stage that began last, waiting
counts only where nothing else runs, and what is in no stage is Python: session and master before
the first stage, executor and messages between stages. A trace travels to the client when the step
is over, which takes longer than the step's own answer: so the end is that of steps without a trace,
or of the last stage, if a ps makes its update after it has answered in those.
Beside the CPU time of the tasks stands that of the same training in one process, one session and
no messages: gradient and update, of a synchronous round a gradient for each worker. With `perf` on
the machine, a second table has the CPU time of the tasks by library.

    python benchmarks/step_profile.py --workload mlp_async_1_1 [--steps 200] [--picture FILE.svg]
    python benchmarks/step_profile.py --all

The first prints the tables of one workload, stage by stage. The second writes those of all, by
kinds of stages, to `results/profiles.md`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from cluster_workloads import WORKLOADS, Workload, open_replica
from processes import HERE, Task, environment_of, free_ports
from step_picture import draw
from step_trace import GROUPS, TracedStep, by_kind, read_trace, shares

RESULTS = HERE / "results" / "profiles.md"
OWN = "/job:worker/task:0"
#: Which library's time is which part of the system, by the beginning of the file's name.
LIBRARIES = (
    ("Python", ("python", "libpython")),
    ("XLA: calls, matrix products", ("libjax", "xla_extension", "_jax", "libjaxlib")),
    ("the system", ("[kernel", "[guest")),
    ("compiled programs", ("[JIT]", "[anon", "//anon", "anon", "memfd", "perf-")),
    ("libc", ("libc.", "libc-", "ld-", "[vdso]", "libm.", "libstdc++")),
    ("numpy", ("_multiarray", "numpy")),
)

#: Of looking at the tasks with perf, from when it looks.
PERF_SECONDS = 4.0
#: What perf may take until then; it reads what the process has mapped.
PERF_TIMEOUT = 20.0
#: However slow the steps are, a part of the measurement takes no longer, and has so many steps.
PART_SECONDS, LEAST_STEPS = 10.0, 20


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
                command += [str(index), json.dumps(hosts)]
                task = others[f"/job:{job}/task:{index}"] = Task(
                    command, environment_of("millrace"), log
                )
                stack.callback(task.end)
        spec = tf.train.ClusterSpec(hosts)
        server = tf.train.Server(spec, "worker", 0)
        once, _ = open_replica(tf, server, spec, 0, workload)
        yield once, others


def cpu_seconds(process: int) -> float:
    """The CPU time that the threads of a process have taken so far."""
    nanoseconds = 0
    for thread in pathlib.Path(f"/proc/{process}/task").iterdir():
        with contextlib.suppress(OSError):  # It has ended.
            nanoseconds += int((thread / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def repeat(count: int, work: Callable[[], Any]) -> int:
    """Does something so many times, or as long as a part of the measurement may take."""
    ended = time.monotonic() + PART_SECONDS
    for done in range(count):
        if done >= LEAST_STEPS and time.monotonic() > ended:
            return done
        work()
    return count


def trace(once: Callable[..., Any], count: int, plain: float) -> list[TracedStep]:
    """Some steps with a trace; `plain` is how many microseconds one takes without."""
    import millrace as tf

    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    found: list[TracedStep] = []

    def traced() -> None:
        metadata = tf.RunMetadata()
        began = time.time_ns()
        once(options=options, run_metadata=metadata)
        found.append(read_trace(metadata, began, plain))

    repeat(count, traced)
    return found


def alone(workload: Workload, count: int) -> float:
    """Microseconds of CPU time that the training of a global step takes in one process.

    The gradients of each worker that takes part in the step, and one update.
    """
    import millrace as tf

    with tf.Graph().as_default(), tf.Session() as session:
        loss, feeds = workload.model(tf)
        optimizer = workload.optimizer(tf)
        gradients = optimizer.compute_gradients(loss)
        update = optimizer.apply_gradients(gradients, tf.train.get_or_create_global_step())
        session.run(tf.global_variables_initializer())

        def micros(fetches: Any) -> float:
            times: list[float] = []

            def once() -> None:
                feed = next(feeds)
                began = time.process_time()
                session.run(fetches, feed)
                times.append((time.process_time() - began) * 1e6)

            for _ in range(5):
                once()
            times.clear()
            repeat(count, once)
            return statistics.median(times)

        found = micros([update, loss])
        if workload.synchronous:
            # One number of each, since XLA leaves out what nobody looks at.
            only = [tf.reduce_max(gradient) for gradient, _ in gradients]
            found += (workload.workers - 1) * micros(only)
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
            ended = time.monotonic() + PERF_TIMEOUT
            while time.monotonic() < ended and not all(map(has_begun, files)):
                work()
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


def has_begun(file: str) -> bool:
    """Whether perf has written something to its file."""
    return os.path.exists(file) and os.path.getsize(file) > 0


def part_of(library: str) -> str:
    """Which part of the system a file's time is."""
    for part, beginnings in LIBRARIES:
        if library.startswith(beginnings):
            return part
    return "other"


def profile(name: str, count: int, picture: pathlib.Path | None) -> dict[str, Any]:
    """All figures of a workload; `tables` and `kinds` are by task."""
    workload = WORKLOADS[name]
    with cluster_of(name) as (once, others):
        workers = [task for task in others.values() if "worker" in task.process.args]
        while not all(worker.has_news for worker in workers):
            once()  # Who is synchronous needs us to get warm.
        for worker in workers:
            worker.report()
        for _ in range(LEAST_STEPS):
            once()
        processes = {OWN: os.getpid()} | {n: t.process.pid for n, t in others.items()}
        times: list[float] = []
        numbers: list[int] = []

        def timed() -> None:
            began = time.perf_counter()
            numbers.append(once()[0])
            times.append((time.perf_counter() - began) * 1e6)

        timed()
        before = {task: cpu_seconds(process) for task, process in processes.items()}
        began, times = time.perf_counter(), []
        repeat(count, timed)
        took, made = time.perf_counter() - began, numbers[-1] - numbers[0]
        cpu = {t: (cpu_seconds(p) - before[t]) * 1e6 / made for t, p in processes.items()}
        plain = statistics.median(times)
        steps = trace(once, count, plain)
        looked_at = {n: p for n, p in processes.items() if n == OWN or "/job:ps" in n}
        libraries = cpu_by_library(looked_at, once)
    # Those in the middle, by the last stage's end: where the step was as usual, the rest is too.
    steps.sort(key=lambda step: max(stage.end for stage in step.stages))
    middle = steps[len(steps) // 4 : max(len(steps) * 3 // 4, len(steps) // 4 + 1)]
    if picture:
        draw(middle[len(middle) // 2], f"One step: {workload.title}", picture)
    tasks = sorted({stage.task for step in middle for stage in step.stages}, reverse=True)
    return {
        "title": workload.title,
        "rate": made / took,
        "micros": plain,
        "cpu": cpu,
        "alone": alone(workload, count),
        "stages": {task: means(task, middle) for task in tasks},
        "kinds": {task: means(task, middle, by_kind) for task in tasks},
        "libraries": libraries,
    }


def means(task: str, steps: list[TracedStep], *label: Any) -> dict[str, float]:
    """What a task did in a step, in the order of time; means, so that their sum is the step."""
    own = [step for step in steps if any(stage.task == task for stage in step.stages)]
    found: dict[str, float] = collections.defaultdict(float)
    for step in own:
        for name, micros in shares(step, task, *label).items():
            found[name] += micros / len(own)
    return found


# -- Tables ------------------------------------------------------------------------------------


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A table as documents have it."""
    lines = (heads, ["---", *("---:" for _ in heads[1:])], *rows)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def short(task: str) -> str:
    """``worker 0``."""
    return task.removeprefix("/job:").replace("/task:", " ")


def describe(found: dict[str, Any]) -> str:
    """What a step takes, and its CPU time."""
    cpu = found["cpu"]
    spent = ", ".join(f"{short(task)} {micros:,.0f}" for task, micros in cpu.items())
    return (
        f"A step of worker 0 takes {found['micros']:,.0f} µs; {found['rate']:,.0f} global steps a "
        f"second. CPU time of a global step: {spent}; all {sum(cpu.values()):,.0f} µs. The same "
        f"training in one process: {found['alone']:,.0f} µs.\n"
    )


def library_table(found: dict[str, Any]) -> str:
    """CPU time by library; nothing where there was no perf."""
    libraries = found["libraries"]
    if not libraries:
        return ""
    names = [part for part, _ in LIBRARIES] + ["other"]
    rows = [[name, *(f"{p.get(name, 0):.0f}" for p in libraries.values())] for name in names]
    return "\n" + table(["CPU time by library, %", *map(short, libraries)], rows)


def by_stages(found: dict[str, Any]) -> str:
    """The tables of one workload, a line for each stage of a task."""
    text = f"{found['title']}. {describe(found)}"
    for task, parts in found["stages"].items():
        rows = [[name, f"{micros:,.0f}"] for name, micros in parts.items() if micros >= 0.5]
        rows.append(["`session.run`", f"{sum(parts.values()):,.0f}"])
        text += "\n" + table(["in a step, µs", task], rows)
    return text + library_table(found)


def by_kinds(name: str, found: dict[str, Any]) -> str:
    """The tables of one workload, a line for each kind of stage and a column for each task."""
    tasks = found["kinds"]
    rows = []
    for group in GROUPS:
        cells = [parts.get(group, 0.0) for parts in tasks.values()]
        if any(micros >= 0.5 for micros in cells):
            rows.append([group, *(f"{micros:,.0f}" if micros else "" for micros in cells)])
    rows.append(["`session.run`", *(f"{sum(parts.values()):,.0f}" for parts in tasks.values())])
    heading = f"## {found['title']} (`{name}`)\n\n{describe(found)}\n"
    return heading + table(["in a step, µs", *map(short, tasks)], rows) + library_table(found)


def write_all(count: int) -> None:
    """Profiles every workload, each in a process of its own, and writes the document."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    texts = [
        "# Where each microsecond of a step goes\n\n"
        "Written by `python benchmarks/step_profile.py --all`, whose first lines say how it is "
        f"measured. {datetime.date.today().isoformat()}; {machine}; load before it began "
        f"{os.getloadavg()[0]:.1f}.\n"
    ]
    for name in WORKLOADS:
        print(f"{WORKLOADS[name].title} ...", flush=True)
        command = [sys.executable, __file__, "--workload", name, "--steps", str(count), "--json"]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment_of("millrace")
        )
        if done.returncode:
            raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
        texts.append(by_kinds(name, json.loads(done.stdout.strip().splitlines()[-1])))
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text("\n".join(texts))
    print(f"Written to {RESULTS.relative_to(HERE.parent)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workload", choices=WORKLOADS, default="mlp_async_1_1")
    parser.add_argument("--all", action="store_true", help=f"every workload, to {RESULTS.name}")
    parser.add_argument("--steps", type=int, default=200, help="to trace (default 200)")
    parser.add_argument("--picture", type=pathlib.Path, help="draw the middle step to this file")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.all:
        write_all(options.steps)
        return 0
    found = profile(options.workload, options.steps, options.picture)
    print(json.dumps(found) if options.json else by_stages(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
