"""Millrace and TensorFlow on clusters of processes, by turns, as ratios: part of `make bench`.

Each workload is one TF1 program (`cluster_workloads.py`), which runs unchanged on both. For each
turn a cluster is started, warmed up, measured for a few seconds, and ended. The losses of both at
the same global step are held against each other, so that nobody is fast by not training.

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
import queue
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from cluster_workloads import WORKLOADS
from local import tensorflow_python
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results" / "cluster.json"
#: How long a cluster may take to become warm, or a worker to report.
PATIENCE = 180.0


def free_ports(count: int) -> list[int]:
    """Ports that nobody listened on a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Task:
    """One process of a cluster; its lines that begin with @ are reports."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Any) -> None:
        self.log = log
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            text=True, env=environment, cwd=HERE,
        )  # fmt: skip
        self._reports: queue.Queue[dict | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            if line.startswith("@"):
                self._reports.put(json.loads(line[1:]))
        self._reports.put(None)

    def report(self) -> dict:
        """The next report of this task.

        Raises:
          RuntimeError: It ended, or was silent for too long; with the end of its log.
        """
        try:
            found = self._reports.get(timeout=PATIENCE)
        except queue.Empty:
            found = None
        if found is None:
            self.log.flush()
            text = pathlib.Path(self.log.name).read_text(errors="replace")
            raise RuntimeError(
                f"{' '.join(self.process.args[1:5])} did not report:\n{text[-2500:]}"
            )
        return found

    def go(self) -> None:
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def peak_bytes(self) -> int:
        """The largest resident set so far."""
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        return 0

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                stream.close()


def run(python: str, library: str, name: str, seconds: float) -> dict:
    """One cluster's life: steps per second, losses, start time and memory."""
    ps_count, worker_count = WORKLOADS[name].ps, WORKLOADS[name].workers
    ports = free_ports(ps_count + worker_count)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    hosts = {"ps": addresses[:ps_count], "worker": addresses[ps_count:]}
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    # TensorFlow's bytecode is there already; Millrace's must be allowed to be.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPATH"] = str(HERE.parent) if library == "millrace" else ""
    began = time.time()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        tasks: dict[str, list[Task]] = {"ps": [], "worker": []}
        for job, count in (("ps", ps_count), ("worker", worker_count)):
            for index in range(count):
                log = stack.enter_context(open(pathlib.Path(folder) / f"{job}{index}", "w"))
                command = [python, "cluster_workloads.py", library, name, job, str(index)]
                task = Task([*command, json.dumps(hosts), str(seconds)], environment, log)
                stack.callback(task.end)
                tasks[job].append(task)
        firsts = [worker.report()["first_step"] for worker in tasks["worker"]]
        for worker in tasks["worker"]:
            worker.go()
        reports = [worker.report() for worker in tasks["worker"]]
        memory = max(ps.peak_bytes() for ps in tasks["ps"])
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
    names = ("tensorflow", "tensorflow-cpu", "tensorflow_cpu", "millrace", "jax")
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
    console = Console()
    pythons = {"tensorflow": tensorflow_python(console), "millrace": sys.executable}
    names = options.only or list(WORKLOADS)
    rows: dict[str, dict] = {}
    failed: dict[str, str] = {}
    with Progress(console=console) as progress:
        bar = progress.add_task("", total=len(names) * options.rounds * len(pythons))
        for name in names:
            figures: dict[str, list[dict]] = {library: [] for library in pythons}
            try:
                for turn in range(options.rounds):
                    for library, python in pythons.items():
                        progress.update(bar, description=f"{name} {turn + 1} {library}")
                        figures[library].append(run(python, library, name, options.seconds))
                        progress.advance(bar)
            except RuntimeError as error:
                failed[name] = str(error)
                continue
            rows[name] = summary(figures)
    good = not failed
    table = Table(title=f"medians of {options.rounds} turns; ratios above 1: Millrace is ahead")
    for column in (
        "workload", "TF steps/s", "Millrace", "ratio", "at least", "loss TF", "loss M",
        "start", "ps memory",
    ):  # fmt: skip
        table.add_column(column, justify="left" if column == "workload" else "right")
    for name, row in rows.items():
        least = WORKLOADS[name].least
        good = good and row["ratio"] >= least and row["trained"]
        color = "green" if row["ratio"] >= least else "red"
        table.add_row(
            WORKLOADS[name].title,
            f"{row['tensorflow']['rate']:.1f}",
            f"{row['millrace']['rate']:.1f}",
            f"[{color}]{row['ratio']:.2f}",
            f"{least}",
            *(f"{row[library]['loss'] or float('nan'):.4f}" for library in pythons),
            f"{row['start_ratio']:.2f}",
            f"{row['memory_ratio']:.2f}",
        )
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


def summary(figures: dict[str, list[dict]]) -> dict:
    """Medians for each library, and Millrace's ratios to TensorFlow."""
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
    losses = [theirs["loss"], ours["loss"]]
    row["trained"] = None not in losses and losses[1] <= losses[0] * 1.15 + 0.05
    return row


if __name__ == "__main__":
    sys.exit(main())
