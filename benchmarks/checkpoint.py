"""Saving and restoring variables of two ps tasks: Millrace, TensorFlow and `dd`, by turns.

Millrace must reach half of the rate at which `dd` writes to the same disk in the same run, with and
without waiting for the disk (fsync). TensorFlow never waits. Only ratios count: what a disk does
depends on the machine and on what else it does. `dd` is measured before and after the others in
each round, and the goal is held against the faster of the two; all begin in the same state (see
`settle`).

    checkpoint.py [--mebibytes 1024] [--rounds 3] [--folder FOLDER] [--tensorflow PYTHON]

Prints a table and writes it to results/checkpoint.json, with the machine, versions and date.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from cluster import versions
from rich.console import Console
from rich.table import Table

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results" / "checkpoint.json"
GOAL = 0.5
PS_TASKS = 2
DDS = ("dd before", "dd after")


class Cluster:
    """Two ps and a worker of one library, each a process; ends when it is closed."""

    def __init__(self, python: str, library: str, mebibytes: int, fsync: bool) -> None:
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(PS_TASKS + 1)]
            for each in sockets:
                each.bind(("localhost", 0))
            ports = [f"localhost:{each.getsockname()[1]}" for each in sockets]
        addresses = json.dumps({"ps": ports[:-1], "worker": ports[-1:]})
        environment = {
            **os.environ,
            "MILLRACE_FSYNC": "1" if fsync else "0",
            "PYTHONPATH": str(HERE.parent) if library == "millrace" else "",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        self._processes = []
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open as long as the cluster
        for job, index in [*(("ps", i) for i in range(PS_TASKS)), ("worker", 0)]:
            task = [python, str(HERE / "checkpoint_task.py"), library, addresses, job, str(index)]
            self._processes.append(
                subprocess.Popen(
                    [*task, str(mebibytes)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._log,
                    text=True,
                    env=environment,
                )
            )
        for process in self._processes:
            self._answer(process)

    def _answer(self, process: subprocess.Popen) -> float:
        while True:
            line = process.stdout.readline()
            if not line:
                self._log.seek(0)
                raise SystemExit(f"A task ended early:\n{self._log.read()[-2500:]}")
            with contextlib.suppress(json.JSONDecodeError):  # what a library prints is passed over
                return json.loads(line)

    def ask(self, action: str, folder: pathlib.Path, number: int) -> float:
        """The seconds that the worker took."""
        worker = self._processes[-1]
        print(action, folder, number, file=worker.stdin, flush=True)
        return self._answer(worker)

    def close(self) -> None:
        for process in reversed(self._processes):
            process.stdin.close()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        self._log.close()


def settle(folder: pathlib.Path, mebibytes: int) -> None:
    """Brings the machine to the state in which everyone is measured.

    Nothing waits for the disk, so that nobody writes while the files of the one before go out.
    And as much memory as a file takes was in use a moment ago: a virtual machine gives memory that
    is free back to its host, and taking it again can cost five times as much as writing to it.
    Whoever came right after a file was removed would be spared that, and others would not.
    """
    os.sync()
    used = folder / "settle"
    block = os.urandom(1 << 20)
    with used.open("wb", buffering=0) as file:
        for _ in range(mebibytes):
            file.write(block)
    used.unlink()


def dd(folder: pathlib.Path, mebibytes: int, fsync: bool, source: pathlib.Path) -> float:
    """The seconds in which `dd` copies a file of random bytes, which is in memory."""
    target = folder / "dd"
    command = ["dd", f"if={source}", f"of={target}", "bs=1M", f"count={mebibytes}"]
    settle(folder, mebibytes)
    start = time.perf_counter()
    subprocess.run(
        [*command, *(["conv=fsync"] if fsync else [])], check=True, stderr=subprocess.DEVNULL
    )
    seconds = time.perf_counter() - start
    target.unlink()
    return seconds


def measure(
    folder: pathlib.Path, mebibytes: int, rounds: int, fsync: bool, tensorflow: str | None
) -> dict[str, list[float]]:
    """Seconds of each, a number a round; the first round does not count."""
    found: dict[str, list[float]] = {}
    clusters = {"millrace": Cluster(sys.executable, "millrace", mebibytes, fsync)}
    if tensorflow and not fsync:
        clusters["tensorflow"] = Cluster(tensorflow, "tensorflow", mebibytes, fsync)
    source = pathlib.Path("/dev/shm") / f"checkpoint-bench-{os.getpid()}"
    try:
        with source.open("wb") as file:
            for _ in range(mebibytes):
                file.write(os.urandom(1 << 20))
        for number in range(rounds + 1):
            taken = {DDS[0]: dd(folder, mebibytes, fsync, source)}
            for library, cluster in clusters.items():
                own = folder / library
                own.mkdir(exist_ok=True)
                for action in ("save", "restore"):
                    settle(folder, mebibytes)
                    taken[f"{library} {action}"] = cluster.ask(action, own, number)
            taken[DDS[1]] = dd(folder, mebibytes, fsync, source)
            if number:
                for name, seconds in taken.items():
                    found.setdefault(name, []).append(seconds)
    finally:
        source.unlink(missing_ok=True)
        for left in ("dd", "settle"):
            (folder / left).unlink(missing_ok=True)
        for cluster in clusters.values():
            cluster.close()
        for library in clusters:
            shutil.rmtree(folder / library, ignore_errors=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default=None, help="a folder on the disk to measure")
    parser.add_argument(
        "--tensorflow",
        default=os.environ.get("MILLRACE_TENSORFLOW_PYTHON"),
        help="an interpreter that has TensorFlow; without it TensorFlow is left out",
    )
    arguments = parser.parse_args()
    console = Console()
    slow = []
    rows: dict[str, dict[str, dict[str, float]]] = {}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for fsync in (False, True):
            table = Table("", "seconds", "MiB/s", *(f"to {dd}" for dd in DDS))
            table.title = f"{arguments.mebibytes} MiB from {PS_TASKS} ps tasks, " + (
                "waiting for the disk" if fsync else "not waiting for the disk"
            )
            times = measure(
                pathlib.Path(folder),
                arguments.mebibytes,
                arguments.rounds,
                fsync,
                arguments.tensorflow,
            )
            kind = "with fsync" if fsync else "without fsync"
            rows[kind] = {}
            for name, seconds in times.items():
                middle = statistics.median(seconds)
                ratios = [
                    statistics.median(a / b for a, b in zip(times[each], seconds, strict=True))
                    for each in DDS
                ]
                table.add_row(
                    name,
                    f"{middle:.2f}",
                    f"{arguments.mebibytes / middle:.0f}",
                    *(f"{ratio:.2f}" for ratio in ratios),
                )
                rows[kind][name] = {
                    "seconds": round(middle, 3),
                    **{f"to {dd}": round(r, 2) for dd, r in zip(DDS, ratios, strict=True)},
                }
                # The goal is held against the faster kind of dd.
                if name.startswith("millrace") and min(ratios) < GOAL:
                    slow.append(f"{name} ({kind}): {min(ratios):.2f}")
            console.print(table)
    if arguments.mebibytes == 1024:
        pythons = {"millrace": sys.executable, "tensorflow": arguments.tensorflow}
        record = {
            "date": datetime.date.today().isoformat(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "load before": round(load, 1),
            "python": platform.python_version(),
            "versions": {name: versions(python) for name, python in pythons.items() if python},
            "mebibytes": arguments.mebibytes,
            "rounds": arguments.rounds,
            "goal": GOAL,
            "results": rows,
        }
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(record, indent=2) + "\n")
        console.print(f"Written to {RESULTS.relative_to(HERE.parent)}")
    if slow:
        console.print(f"Below {GOAL} of dd's rate: {', '.join(slow)}")
    return bool(slow)


if __name__ == "__main__":
    sys.exit(main())
