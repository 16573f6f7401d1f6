"""Millrace, TensorFlow and PyTorch on clusters of processes, by turns: part of `make bench`.

Each workload is one TF1 program (`cluster_workloads.py`), which runs unchanged on Millrace and on
TensorFlow; the synchronous MLP runs on PyTorch's DistributedDataParallel too
(`pytorch_workload.py`). For each turn a cluster is started, warmed up, measured for a few seconds,
and ended. The losses at the same global step are held against each other, so that nobody is fast by
not training. Every library has its own default of how many threads it uses; for PyTorch that is
torchrun's, one thread a process.

    python benchmarks/cluster.py [--rounds 3] [--only WORKLOAD] [--seconds 6]
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from cluster_workloads import WORKLOADS
from environments import python_of
from processes import HERE, Task, environment_of, free_ports, wide_console
from rich.progress import Progress
from rich.table import Table

RESULTS = HERE / "results" / "cluster.json"
#: How far a loss may be above TensorFlow's at the same global step.
LOSS_FACTOR, LOSS_OFFSET = 1.15, 0.05


def commands(python: str, library: str, name: str, seconds: float) -> dict[str, list[list[str]]]:
    """What starts the tasks of a cluster, by job."""
    workload = WORKLOADS[name]
    if library == "pytorch":
        port, ranks = free_ports(1)[0], workload.workers
        line = [python, "pytorch_workload.py", str(port)]
        rest = [str(ranks), str(workload.compare_at), str(seconds)]
        return {"worker": [[*line, str(rank), *rest] for rank in range(ranks)]}
    addresses = [f"127.0.0.1:{port}" for port in free_ports(workload.ps + workload.workers)]
    hosts = {"ps": addresses[: workload.ps], "worker": addresses[workload.ps :]}
    line, rest = [python, "cluster_workloads.py", library, name], [json.dumps(hosts), str(seconds)]
    return {job: [[*line, job, str(i), *rest] for i in range(len(hosts[job]))] for job in hosts}


def run(python: str, library: str, name: str, seconds: float) -> dict:
    """One cluster's life: steps per second, losses, start time and memory."""
    began = time.time()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        tasks: dict[str, list[Task]] = {"ps": [], "worker": []}
        for job, lines in commands(python, library, name, seconds).items():
            for index, line in enumerate(lines):
                log = stack.enter_context(open(pathlib.Path(folder) / f"{job}{index}", "w"))
                task = Task(line, environment_of(library), log)
                stack.callback(task.end)
                tasks[job].append(task)
        firsts = [worker.report()["first_step"] for worker in tasks["worker"]]
        for worker in tasks["worker"]:
            worker.go()
        reports = [worker.report() for worker in tasks["worker"]]
        memory = max((ps.peak_bytes() for ps in tasks["ps"]), default=0)
    losses = [report["loss"] for report in reports if report["loss"] is not None]
    return {
        "rate": statistics.mean(report["global_rate"] for report in reports),
        "loss": statistics.mean(losses) if losses else None,
        "last_loss": statistics.mean(report["last_loss"] for report in reports),
        "worker_cpu": statistics.mean(report["cpu_per_step"] for report in reports),
        "start": min(firsts) - began,
        "ps_bytes": memory,
    }


def versions(python: str) -> str:
    """What an interpreter has installed of the libraries compared."""
    names = ("tensorflow", "tensorflow-cpu", "tensorflow_cpu", "millrace", "jax", "torch")
    code = (
        "import importlib.metadata as m; print(*sorted({d.metadata['Name'] + ' ' + d.version "
        f"for d in m.distributions() if d.metadata['Name'] in {names}}}))"
    )
    result = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=HERE.parent)
    return result.stdout.strip() or "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (default 3)")
    parser.add_argument("--seconds", type=float, default=6.0, help="of measuring (default 6)")
    parser.add_argument("--only", choices=WORKLOADS, action="append", help="run this workload")
    options = parser.parse_args()
    console = wide_console()
    names = options.only or list(WORKLOADS)
    pythons = {"tensorflow": python_of("tensorflow", console), "millrace": sys.executable}
    if any(WORKLOADS[name].least_to_pytorch for name in names):
        pythons["pytorch"] = python_of("pytorch", console)
    rows: dict[str, dict] = {}
    failed: dict[str, str] = {}
    with Progress(console=console) as progress:
        libraries = {name: [each for each in pythons if trains(each, name)] for name in names}
        total = sum(len(each) for each in libraries.values()) * options.rounds
        bar = progress.add_task("", total=total)
        for name in names:
            figures: dict[str, list[dict]] = {library: [] for library in libraries[name]}
            try:
                for turn in range(options.rounds):
                    for library in figures:
                        progress.update(bar, description=f"{name} {turn + 1} {library}")
                        python = pythons[library]
                        figures[library].append(run(python, library, name, options.seconds))
                        progress.advance(bar)
            except RuntimeError as error:
                failed[name] = str(error)
                continue
            rows[name] = summary(figures)
    good = not failed and all(misses(name, row) == [] for name, row in rows.items())
    for table in tables_of(rows, options.rounds):
        console.print(table)
    for name, text in failed.items():
        console.print(f"[red]{name} failed:[/red] {text}", markup=True, highlight=False)
    if not options.only:
        record = {
            "date": datetime.date.today().isoformat(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "load": round(os.getloadavg()[2], 1),
            "python": platform.python_version(),
            "versions": {library: versions(python) for library, python in pythons.items()},
            "rounds": options.rounds,
            "seconds": options.seconds,
            "workloads": rows,
            "failed": {name: text.splitlines()[-1] for name, text in failed.items()},
        }
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(record, indent=2) + "\n")
        console.print(f"Written to {RESULTS.relative_to(HERE.parent)}")
    return 0 if good else 1


def trains(library: str, name: str) -> bool:
    """Whether a library has a workload."""
    return library != "pytorch" or WORKLOADS[name].least_to_pytorch is not None


def misses(name: str, row: dict) -> list[str]:
    """What a workload's figures do not reach, in words."""
    said = []
    if row["ratio"] < WORKLOADS[name].least:
        said.append("speed")
    if "pytorch_ratio" in row and row["pytorch_ratio"] < WORKLOADS[name].least_to_pytorch:
        said.append("speed to PyTorch")
    if not row["trained"]:
        said.append("loss")
    return said


def tables_of(rows: dict[str, dict], rounds: int) -> list[Table]:
    """The figures, for people: how fast, and the rest."""
    speed = Table(title=f"steps/s, medians of {rounds} turns; ratios above 1: Millrace is ahead")
    for column in (
        "workload", "TensorFlow", "PyTorch", "Millrace", "to TF", "at least", "to PyTorch",
        "at least",
    ):  # fmt: skip
        speed.add_column(column, justify="left" if column == "workload" else "right")
    rest = Table(title="losses at the same step; start and memory of a ps as ratios to TensorFlow")
    for column in ("workload", "loss TensorFlow", "PyTorch", "Millrace", "start", "ps memory"):
        rest.add_column(column, justify="left" if column == "workload" else "right")

    def figure(row: dict, library: str, key: str, form: str) -> str:
        value = row.get(library, {}).get(key)
        return "" if value is None else format(value, form)

    libraries = ("tensorflow", "pytorch", "millrace")
    for name, row in rows.items():
        workload, missed = WORKLOADS[name], misses(name, row)
        versus_pytorch = ("", "")
        if "pytorch_ratio" in row:
            color = "red" if "speed to PyTorch" in missed else "green"
            ratio, least = row["pytorch_ratio"], workload.least_to_pytorch
            versus_pytorch = (f"[{color}]{ratio:.2f}", f"{least}")
        speed.add_row(
            workload.title,
            *(figure(row, library, "rate", ".1f") for library in libraries),
            f"[{'red' if 'speed' in missed else 'green'}]{row['ratio']:.2f}",
            f"{workload.least}",
            *versus_pytorch,
        )
        rest.add_row(
            workload.title,
            *(figure(row, library, "loss", ".4f") for library in libraries),
            f"{row['start_ratio']:.2f}",
            f"{row['memory_ratio']:.2f}",
        )
    return [speed, rest]


def summary(figures: dict[str, list[dict]]) -> dict:
    """Medians for each library, and Millrace's ratios to TensorFlow and PyTorch."""
    row: dict[str, Any] = {}
    for library, turns in figures.items():
        row[library] = {
            key: statistics.median(values) if values else None
            for key in turns[0]
            for values in [[turn[key] for turn in turns if turn[key] is not None]]
        }
    theirs, ours = row["tensorflow"], row["millrace"]
    row["ratio"] = ours["rate"] / theirs["rate"]
    row["start_ratio"] = theirs["start"] / ours["start"]
    row["memory_ratio"] = theirs["ps_bytes"] / max(ours["ps_bytes"], 1)
    if "pytorch" in row:
        row["pytorch_ratio"] = ours["rate"] / row["pytorch"]["rate"]
    losses = [row[library]["loss"] for library in figures]
    limit = (theirs["loss"] or 0.0) * LOSS_FACTOR + LOSS_OFFSET
    row["trained"] = None not in losses and max(losses) <= limit
    return row


if __name__ == "__main__":
    sys.exit(main())
