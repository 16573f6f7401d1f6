"""Models with changing shapes on Millrace and TensorFlow, by turns, as ratios.

    python benchmarks/models.py [--cluster] [--only NAME ...] [--rounds N]

Each library has one process (with ``--cluster`` a ps and a worker), and makes steps while the
other waits. What counts is CPU time, of all processes and threads: what a library compiles while
the other has its turn is part of its next turn. Only ratios count: absolute times depend on the
machine and on what else it does. Writes results/models.json.
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
import sys
import tempfile
from collections.abc import Iterator

from environments import python_of
from live_cluster import hosts_of
from model_zoo import MODELS
from processes import Task, environment_of, wide_console
from rich.table import Table

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results" / "models.json"
#: What steady speed must be at least; what first step and memory may be at most; how far losses
#: may differ.
LEAST, MOST_FIRST, MOST_MEMORY, MOST_LOSS = 1.0, 1.2, 1.2, 1e-4
#: Steps before the first turn: shapes are seen, programs compiled.
WARM_STEPS = 100


class Run:
    """One library's processes for one model."""

    def __init__(self, library: str, python: str, name: str, cluster: bool, folder: str) -> None:
        line = [python, "model_task.py", library, name]
        jobs: list[list[str]] = [[]]
        if cluster:
            hosts = hosts_of(1, 1)
            jobs = [[job, "0", json.dumps(hosts)] for job in ("ps", "worker")]
        self.tasks: list[Task] = []
        for place, words in enumerate(jobs):
            log = open(pathlib.Path(folder) / f"{library}{place}", "w")  # noqa: SIM115
            self.tasks.append(Task([*line, *words], environment_of(library), log))
        self.trainer = self.tasks[-1]
        first = self.trainer.report()
        self.first_step: float = first["first_step"]
        self.losses: list[float] = first["losses"]
        self._cpu = first["cpu"] + self._others()

    def _others(self) -> float:
        return sum(task.cpu_seconds() for task in self.tasks[:-1])

    def steps(self, count: int) -> float:
        """Makes steps; the CPU time of each, with what went on since the last time."""
        stdin = self.trainer.process.stdin
        stdin.write(f"{count}\n")
        stdin.flush()
        cpu = self.trainer.report()["cpu"] + self._others()
        used, self._cpu = cpu - self._cpu, cpu
        return used / count

    @property
    def peak_bytes(self) -> int:
        """The largest resident sets of its processes, added up."""
        return sum(task.peak_bytes() for task in self.tasks)

    def end(self) -> None:
        for task in self.tasks:
            task.end()
            task.log.close()


@contextlib.contextmanager
def runs(pythons: dict[str, str], name: str, cluster: bool) -> Iterator[dict[str, Run]]:
    """Both libraries' processes, after their first steps."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        found = {}
        for library, python in pythons.items():
            found[library] = run = Run(library, python, name, cluster, folder)
            stack.callback(run.end)
        yield found


def measure(pythons: dict[str, str], name: str, cluster: bool, rounds: int) -> dict:
    """One row of the table."""
    with runs(pythons, name, cluster) as pair:
        ours, theirs = pair["millrace"], pair["tensorflow"]
        early = {library: run.steps(WARM_STEPS) for library, run in pair.items()}
        count = max(10, min(200, round(0.4 / max(early["tensorflow"], 1e-4))))
        turns = []
        for turn in range(rounds):
            order = list(pair) if turn % 2 else list(pair)[::-1]
            turns.append({library: pair[library].steps(count) for library in order})
        losses = zip(ours.losses, theirs.losses, strict=True)
        return {
            "ratio": statistics.median(t["tensorflow"] / t["millrace"] for t in turns),
            "early_ratio": early["tensorflow"] / early["millrace"],
            "first_step": ours.first_step / theirs.first_step,
            "memory": ours.peak_bytes / theirs.peak_bytes,
            "loss_difference": max(abs(a - b) / max(1.0, abs(b)) for a, b in losses),
            "cpu_ms": {k: 1e3 * statistics.median(t[k] for t in turns) for k in pair},
            "first_step_ms": {k: 1e3 * run.first_step for k, run in pair.items()},
            "megabytes": {k: run.peak_bytes / 1e6 for k, run in pair.items()},
            "date": datetime.date.today().isoformat(),
            # Above the number of cores: others were at work.
            "load": round(os.getloadavg()[0], 1),
        }


def table_of(rows: dict[str, dict], title: str) -> Table:
    """What was measured, with what falls short in red."""
    table = Table(title=title)
    table.add_column("model")
    for column in ("TF ms", "ours ms", "ratio", "first 100", "first step", "memory", "loss"):
        table.add_column(column, justify="right")

    def shown(value: float, good: bool, digits: str = ".2f") -> str:
        return f"[{'green' if good else 'red'}]{value:{digits}}[/]"

    for name, row in rows.items():
        if "error" in row:
            table.add_row(MODELS[name][0], f"[red]{row['error']}[/]")
            continue
        table.add_row(
            MODELS[name][0],
            f"{row['cpu_ms']['tensorflow']:.2f}",
            f"{row['cpu_ms']['millrace']:.2f}",
            shown(row["ratio"], row["ratio"] >= LEAST),
            shown(row["early_ratio"], row["early_ratio"] >= LEAST),
            shown(row["first_step"], row["first_step"] <= MOST_FIRST),
            shown(row["memory"], row["memory"] <= MOST_MEMORY),
            shown(row["loss_difference"], row["loss_difference"] <= MOST_LOSS, ".0e"),
        )
    return table


def keep(place: str, rows: dict[str, dict]) -> None:
    """Writes rows into the results; those of other models stay."""
    record = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    record["machine"] = f"{platform.machine()}, {os.cpu_count()} cores"
    record.setdefault(place, {}).update(rows)
    RESULTS.write_text(json.dumps(record, indent=2) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", action="store_true", help="1 ps + 1 worker, as processes")
    parser.add_argument("--only", nargs="*", choices=MODELS, help="these models")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each (default 5)")
    options = parser.parse_args()
    console = wide_console()
    pythons = {"tensorflow": python_of("tensorflow", console), "millrace": sys.executable}
    place = "cluster" if options.cluster else "local"
    measured = {}
    for name in options.only or MODELS:
        try:
            measured[name] = measure(pythons, name, options.cluster, options.rounds)
            text = " ".join(
                f"{k}={v:.3g}" for k, v in measured[name].items() if isinstance(v, float)
            )
        except RuntimeError as error:
            text = str(error)
            measured[name] = {"error": text.strip().splitlines()[-1][:100]}
        console.print(f"{name}: {text}", highlight=False)
        keep(place, {name: measured[name]})
    console.print(table_of(measured, f"{place}: TensorFlow's CPU time per step / Millrace's"))
    good = all(row.get("ratio", 0.0) >= LEAST for row in measured.values())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
