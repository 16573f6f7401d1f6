"""Two versions of Millrace on the same clusters, by turns: what a change has cost, or gained.

The other version is a commit of this repository (checked out into `.bench`) or a folder. Both run
with this interpreter and today's workloads (`cluster_workloads.py`), as `cluster.py` compares
libraries: each has its cluster, one runs while the other is stopped, and a ratio is the median of
those of turns that follow each other. Ratios above 1: this version is ahead. On a machine that
others use, too, the CPU time of a step says more than its time.

    python benchmarks/compare.py COMMIT [--rounds 2] [--turns 10] [--seconds 0.5] [--only WORKLOAD]

A row that is more than 5 % behind is red, and makes it fail.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
from typing import NamedTuple

from cluster_workloads import WORKLOADS
from environments import FOLDER
from live_cluster import SETTLING_SECONDS, LiveCluster
from processes import HERE, environment_of, wide_console
from rich.table import Table

ROOT = HERE.parent
#: How far a row may be behind.
TOLERANCE = 0.05
#: What is compared, and whether more is better.
FIGURES = {"steps/s": True, "CPU ms per step": False, "start, s": False, "ps memory, MB": False}


class Turn(NamedTuple):
    """What a cluster did in one turn."""

    rate: float
    cpu_per_step: float


def checkout(version: str) -> pathlib.Path:
    """The folder of another version: a folder as it is, or a commit, checked out once.

    Raises:
      CalledProcessError: There is no such commit.
    """
    if pathlib.Path(version).is_dir():
        return pathlib.Path(version).resolve()
    named = subprocess.run(
        ["git", "rev-parse", "--short", version],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    folder = FOLDER / f"millrace-{named.stdout.strip()}"
    if not folder.exists():
        line = ["git", "worktree", "add", "--detach", "-f", str(folder), version]
        subprocess.run(line, cwd=ROOT, check=True, capture_output=True)
    return folder


def start(folder: pathlib.Path, name: str, settings: dict[str, str]) -> LiveCluster:
    """A cluster that trains a workload with the Millrace of a folder."""
    environment = {**environment_of("millrace"), "PYTHONPATH": str(folder), **settings}
    return LiveCluster(sys.executable, "millrace", name, environment=environment)


def measured(cluster: LiveCluster, seconds: float) -> Turn:
    """One turn of a stopped cluster."""
    tasks = [task for job in cluster.tasks.values() for task in job]
    before = sum(task.cpu_seconds() for task in tasks)
    turn = cluster.turn(seconds)
    used = sum(task.cpu_seconds() for task in tasks) - before
    # The turn includes a moment to settle, in which steps are made at the same pace.
    steps = turn.rate * (seconds + SETTLING_SECONDS)
    return Turn(turn.rate, 1000 * used / max(steps, 1e-9))


def run_round(
    folders: dict[str, pathlib.Path], name: str, turns: int, seconds: float, settings: dict
) -> dict[str, dict[str, list[float]]]:
    """Figures of both versions: of each turn, or one of the whole round."""
    found: dict[str, dict[str, list[float]]] = {}
    with contextlib.ExitStack() as stack:
        clusters: dict[str, LiveCluster] = {}
        for version, folder in folders.items():
            cluster = stack.enter_context(start(folder, name, settings))
            clusters[version] = cluster
            found[version] = {figure: [] for figure in FIGURES}
            found[version]["start, s"].append(cluster.start_seconds)
            cluster.loss()
            cluster.stop()
        for _ in range(turns):
            for version, cluster in clusters.items():
                turn = measured(cluster, seconds)
                found[version]["steps/s"].append(turn.rate)
                found[version]["CPU ms per step"].append(turn.cpu_per_step)
        for version, cluster in clusters.items():
            found[version]["ps memory, MB"].append(cluster.ps_bytes() / 1e6)
    return found


def ratios(figure: str, now: list[float], before: list[float]) -> list[float]:
    """How far this version is ahead, turn by turn."""
    pairs = zip(now, before, strict=True)
    return [a / b if FIGURES[figure] else b / a for a, b in pairs if a > 0 and b > 0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", help="a commit, or the folder of a checkout")
    parser.add_argument("--rounds", type=int, default=2, help="clusters of each (default 2)")
    parser.add_argument("--turns", type=int, default=10, help="of a cluster (default 10)")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn (default 0.5)")
    parser.add_argument("--only", choices=WORKLOADS, action="append", help="run this workload")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="set a variable for both, as MILLRACE_COMPILE=now")  # fmt: skip
    parser.add_argument("--write", type=pathlib.Path, help="write the figures to this file")
    options = parser.parse_args()
    folders = {"before": checkout(options.version), "now": ROOT}
    settings = dict(setting.split("=", 1) for setting in options.set)
    table = Table(title=f"this version against {options.version}; above 1 is ahead (quartiles)")
    for column in ("workload", *FIGURES):
        table.add_column(column, justify="left" if column == "workload" else "right")
    record: dict[str, dict[str, dict]] = {}
    is_good = True
    for name in options.only or WORKLOADS:
        rounds = []
        for number in range(options.rounds):
            order = sorted(folders, reverse=bool(number % 2))  # Who starts first changes.
            chosen = {version: folders[version] for version in order}
            rounds.append(run_round(chosen, name, options.turns, options.seconds, settings))
        cells, record[name] = [], {}
        for figure in FIGURES:
            both = {
                version: [value for each in rounds for value in each[version][figure]]
                for version in folders
            }
            found = ratios(figure, both["now"], both["before"])
            if not found:  # The machine was too busy for a step in any pair of turns.
                is_good = False
                cells.append("[red]no step")
                continue
            middle = statistics.median(found)
            low, _, high = statistics.quantiles(found, n=4) if len(found) > 1 else found * 3
            record[name][figure] = {
                "ratio": middle,
                "quartiles": [low, high],
                **{version: statistics.median(values) for version, values in both.items()},
            }
            behind = middle < 1 - TOLERANCE
            is_good &= not behind
            color = "red" if behind else "green"
            cells.append(f"[{color}]{middle:.2f}[/] ({low:.2f} … {high:.2f})")
        table.add_row(WORKLOADS[name].title, *cells)
        if options.write is not None:
            options.write.write_text(json.dumps(record, indent=2) + "\n")
    wide_console().print(table)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
