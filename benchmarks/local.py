"""Millrace and TensorFlow in one process each, by turns, as ratios: the local part of `make bench`.

Makes an environment for TensorFlow the first time. Only ratios count: absolute times depend
on the machine and on what else it does.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

from environments import python_of
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

HERE = pathlib.Path(__file__).parent
#: What each workload is, and the ratio (TensorFlow's time to Millrace's) that it must reach.
WORKLOADS = {
    "mlp": ("MLP 784-100-10, batch 100, Adam: a training step", 1.2),
    "cnn": ("LeNet-size CNN, batch 100: a training step", 0.8),
    "constant": ("sess.run of a constant", 1.5),
    "ten_fetches": ("sess.run of 10 fetches and a feed", 1.5),
}


def run(python: str, library: str, workload: str) -> dict:
    """One measurement in a process of its own."""
    result = subprocess.run(
        [python, str(HERE / "local_workloads.py"), library, workload],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(HERE.parent) if library == "millrace" else ""},
    )
    if result.returncode:
        raise SystemExit(f"{library} failed on {workload}:\n{result.stderr[-3000:]}")
    return json.loads(result.stdout.strip().splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (default 3)")
    parser.add_argument("--only", choices=WORKLOADS, help="run one workload")
    options = parser.parse_args()
    console = Console()
    pythons = {"tensorflow": python_of("tensorflow", console), "millrace": sys.executable}
    workloads = [options.only] if options.only else list(WORKLOADS)
    figures: dict[str, dict[str, list[dict]]] = {}
    with Progress(console=console) as progress:
        bar = progress.add_task("", total=len(workloads) * options.rounds * 2)
        for workload in workloads:
            figures[workload] = {library: [] for library in pythons}
            for turn in range(options.rounds):
                for library, python in pythons.items():
                    progress.update(bar, description=f"{workload} {turn + 1} {library}")
                    figures[workload][library].append(run(python, library, workload))
                    progress.advance(bar)
    table = Table(title=f"medians of {options.rounds} turns")
    for column in ("workload", "TensorFlow", "Millrace", "ratio", "at least", "loss TF", "loss M"):
        table.add_column(column, justify="left" if column == "workload" else "right")
    rows, good = {}, True
    for workload in workloads:
        title, least = WORKLOADS[workload]
        seconds = {
            library: statistics.median(entry["seconds"] for entry in figures[workload][library])
            for library in pythons
        }
        losses = [figures[workload][library][-1].get("loss") for library in pythons]
        ratio = seconds["tensorflow"] / seconds["millrace"]
        trained = losses[0] is None or losses[1] <= losses[0] * 1.1 + 0.05
        good = good and ratio >= least and trained
        texts = ["" if loss is None else f"{loss:.4f}" for loss in losses]
        table.add_row(
            title,
            f"{seconds['tensorflow'] * 1e6:,.0f} µs",
            f"{seconds['millrace'] * 1e6:,.0f} µs",
            f"[{'green' if ratio >= least else 'red'}]{ratio:.2f}",
            f"{least}",
            *texts,
        )
        rows[workload] = {
            "ratio": ratio,
            "seconds": seconds,
            "loss": dict(zip(pythons, losses, strict=True)),
        }
    console.print(table)
    if not options.only:
        record = {
            "date": datetime.date.today().isoformat(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            # Above the number of cores: others were at work, and only the ratios mean something.
            "load": round(os.getloadavg()[2], 1),
            "python": platform.python_version(),
            "rounds": options.rounds,
            "workloads": rows,
        }
        path = HERE / "results" / "local.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(record, indent=2) + "\n")
        console.print(f"Written to {path.relative_to(HERE.parent)}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
