"""Millrace, TensorFlow and PyTorch on clusters of processes, by turns: part of `make bench`.

Each workload is one TF1 program (`cluster_workloads.py`), which runs unchanged on Millrace and on
TensorFlow; the same model on the same batches runs on PyTorch's DistributedDataParallel
(`pytorch_workload.py`), which has no parameter servers, and is always synchronous.

In each round every library's cluster is started, each time another one first, and trains beyond the
step at which the losses are held against each other, so that nobody is fast by not training. Then
they take short turns: one cluster runs, the others are stopped. A ratio is the median of those of
turns that follow each other, since the machine is not as quick in one minute as in the next. Every
library has its own default of how many threads it uses; for PyTorch that is torchrun's, one thread
a process.

    python benchmarks/cluster.py [--rounds 3] [--turns 6] [--seconds 1] [--only WORKLOAD]
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from typing import Any

from cluster_workloads import WORKLOADS
from environments import python_of
from live_cluster import LiveCluster
from processes import HERE, wide_console
from rich.progress import Progress
from rich.table import Table

RESULTS = HERE / "results" / "cluster.json"
#: How far a loss may be above TensorFlow's at the same global step.
LOSS_FACTOR, LOSS_OFFSET = 1.15, 0.05


def run_round(
    pythons: dict[str, str], name: str, turns: int, seconds: float
) -> dict[str, dict[str, Any]]:
    """The libraries' clusters, started one after the other, and then measured in short turns."""
    figures: dict[str, dict[str, Any]] = {}
    with contextlib.ExitStack() as stack:
        clusters: dict[str, LiveCluster] = {}
        for library, python in pythons.items():
            cluster = clusters[library] = stack.enter_context(LiveCluster(python, library, name))
            figures[library] = {"start": cluster.start_seconds, "loss": cluster.loss()}
            cluster.stop()
        rates: dict[str, list[float]] = {library: [] for library in pythons}
        for _ in range(turns):
            for library, cluster in clusters.items():
                rates[library].append(cluster.turn(seconds).rate)
        for library, cluster in clusters.items():
            figures[library].update(rates=rates[library], ps_bytes=cluster.ps_bytes())
    return figures


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
    parser.add_argument("--rounds", type=int, default=3, help="clusters of each (default 3)")
    parser.add_argument("--turns", type=int, default=6, help="of a cluster (default 6)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn (default 1)")
    parser.add_argument("--only", choices=WORKLOADS, action="append", help="run this workload")
    options = parser.parse_args()
    console = wide_console()
    names = options.only or list(WORKLOADS)
    pythons = {
        "tensorflow": python_of("tensorflow", console),
        "pytorch": python_of("pytorch", console),
        "millrace": sys.executable,
    }
    rows: dict[str, dict] = {}
    failed: dict[str, str] = {}
    with Progress(console=console) as progress:
        bar = progress.add_task("", total=len(names) * options.rounds)
        for name in names:
            figures: list[dict[str, dict[str, Any]]] = []
            try:
                for number in range(options.rounds):
                    progress.update(bar, description=f"{name} {number + 1}")
                    # Who is first gets memory that the machine has at hand.
                    order = collections.deque(pythons)
                    order.rotate(number)
                    turns, seconds = options.turns, options.seconds
                    figures.append(
                        run_round({each: pythons[each] for each in order}, name, turns, seconds)
                    )
                    progress.advance(bar)
            except RuntimeError as error:
                failed[name] = str(error)
                continue
            rows[name] = summary(name, figures)
    good = not failed and all(misses(name, row) == [] for name, row in rows.items())
    for table in tables_of(rows, options.rounds * options.turns):
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
            "turns": options.turns,
            "seconds": options.seconds,
            "workloads": rows,
            "failed": {name: text.splitlines()[-1] for name, text in failed.items()},
        }
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(record, indent=2) + "\n")
        console.print(f"Written to {RESULTS.relative_to(HERE.parent)}")
    return 0 if good else 1


def misses(name: str, row: dict) -> list[str]:
    """What a workload's figures do not reach, in words."""
    said = []
    if row["ratio"] < WORKLOADS[name].least:
        said.append("speed")
    if row["pytorch_ratio"] < (WORKLOADS[name].least_to_pytorch or 0.0):
        said.append("speed to PyTorch")
    if not row["trained"]:
        said.append("loss")
    return said


def tables_of(rows: dict[str, dict], turns: int) -> list[Table]:
    """The figures, for people: how fast, and the rest."""
    speed = Table(title=f"steps/s, medians of {turns} turns; ratios above 1: Millrace is ahead")
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
        versus_pytorch = (f"{row['pytorch_ratio']:.2f}", "")
        if workload.least_to_pytorch is not None:
            color = "red" if "speed to PyTorch" in missed else "green"
            versus_pytorch = (f"[{color}]{versus_pytorch[0]}", f"{workload.least_to_pytorch}")
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


def summary(name: str, rounds: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """Medians for each library, and Millrace's ratios to TensorFlow and PyTorch."""
    row: dict[str, Any] = {}
    rates = {
        library: [rate for figures in rounds for rate in figures[library]["rates"]]
        for library in rounds[0]
    }
    for library, found in rates.items():
        row[library] = {"rate": statistics.median(found)}
        for key in ("start", "loss", "ps_bytes"):
            values = [each for figures in rounds if (each := figures[library][key]) is not None]
            row[library][key] = statistics.median(values) if values else None
    theirs, ours = row["tensorflow"], row["millrace"]
    for library, key in (("tensorflow", "ratio"), ("pytorch", "pytorch_ratio")):
        pairs = zip(rates["millrace"], rates[library], strict=True)
        ratios = [mine / other for mine, other in pairs]
        row[key] = statistics.median(ratios)
        row[f"{key}_quartiles"] = statistics.quantiles(ratios, n=4)[::2]
    row["start_ratio"] = theirs["start"] / ours["start"]
    row["memory_ratio"] = theirs["ps_bytes"] / max(ours["ps_bytes"], 1)
    # PyTorch averages the gradients of a round, so it makes fewer steps of asynchronous training.
    compared = rates if WORKLOADS[name].synchronous else ("tensorflow", "millrace")
    losses = [row[library]["loss"] for library in compared]
    limit = (theirs["loss"] or 0.0) * LOSS_FACTOR + LOSS_OFFSET
    row["trained"] = None not in losses and max(losses) <= limit
    return row


if __name__ == "__main__":
    sys.exit(main())
