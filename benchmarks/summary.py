"""The last lines of `make bench`: what every part found, beside what is wanted, in one table.

Reads what the parts have written to `results/`; says nothing of a part that was not run.

    python benchmarks/summary.py
"""

from __future__ import annotations

import json
import sys
from typing import Any

from cluster_workloads import WORKLOADS as CLUSTER
from local import WORKLOADS as LOCAL
from processes import HERE, wide_console
from rich.table import Table

RESULTS = HERE / "results"
#: Of the time from the start of the processes to the first step, and of the memory of a ps.
START_LEAST, MEMORY_LEAST = 2.0, 1.0


def read(name: str) -> dict[str, Any]:
    """What a part has written, or nothing."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def lines() -> list[tuple[str, str, float, float, float | None]]:
    """Each: what it is of, what is measured, the ratio, what it must reach, what is aimed at."""
    found: list[tuple[str, str, float, float, float | None]] = []
    for name, row in read("local").get("workloads", {}).items():
        title, least = LOCAL[name]
        found.append((title, "speed to TensorFlow", row["ratio"], least, None))
    clusters = read("cluster").get("workloads", {})
    for name, row in clusters.items():
        workload = CLUSTER[name]
        title = workload.title
        found.append((title, "speed to TensorFlow", row["ratio"], workload.least, workload.aim))
        least = workload.least_to_pytorch
        if least is not None:
            found.append((title, "speed to PyTorch", row["pytorch_ratio"], least, None))
    for name, row in clusters.items():
        found.append((CLUSTER[name].title, "start", row["start_ratio"], START_LEAST, None))
    for name, row in clusters.items():
        found.append((CLUSTER[name].title, "ps memory", row["memory_ratio"], MEMORY_LEAST, None))
    return found


def main() -> int:
    """Prints the table; 1 when something is not reached."""
    table = Table(title="ratios above 1: Millrace is ahead")
    for column in ("workload", "measured", "ratio", "at least", "aim"):
        justify = "left" if column in ("workload", "measured") else "right"
        table.add_column(column, justify=justify)
    missed = 0
    rows = lines()
    for title, measured, ratio, least, aim in rows:
        reached = ratio >= least
        missed += not reached
        color = "green" if reached else "red"
        table.add_row(title, measured, f"[{color}]{ratio:.2f}", f"{least}", f"{aim or ''}")
    console = wide_console()
    console.print(table)
    dates = {name: read(name).get("date", "never") for name in ("local", "cluster")}
    console.print(f"Measured: one process {dates['local']}, clusters {dates['cluster']}.")
    console.print(f"{len(rows) - missed} of {len(rows)} reach what they must.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
