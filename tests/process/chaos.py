"""The kill test: a cluster learns MNIST while its tasks are killed, stopped and restarted.

`python tests/process/chaos.py --faults 200` prints how long it took to recover and how many steps
were lost, for each kind of fault. `test_chaos.py` runs a short one.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from millrace.platform.ports import HeldPorts

PROGRAM = Path(__file__).parent / "programs" / "mnist_trainer.py"
PS, WORKERS = 2, 3
#: How long anything may take on a machine that is busy with other things.
TIMEOUT = 120.0
KILL, STOP = "kill", "stop"
#: For an accuracy of 97 %.
ENOUGH_STEPS = 700
HEARTBEAT_SECONDS = 2
#: Longer than a heartbeat waits.
STOPPED_SECONDS = (2.6, 3.6)


class Fault(NamedTuple):
    """What was done, and what came of it.

    Attributes:
      at: When, on the clock of the logs.
      kind: As "kill ps".
      task: Whom it befell.
      found: Seconds until a worker noticed, if one had to.
      recovered: Seconds from when the task was back until every worker trained again.
      lost: Steps that were lost.
      queued: For how many seconds of that the threads of one task were ready to run, and no core
        was free: of the task that had to wait longest. Where that is most of the time, the
        machine was busy with other things, and the figure says nothing of the cluster.
    """

    at: float
    kind: str
    task: str
    found: float | None
    recovered: float
    lost: int
    queued: float


class Task:
    """A process, and when it said what."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name = name
        self._command = command
        self._log = log
        self.lines: list[tuple[float, str]] = []
        self.popen: subprocess.Popen[str]

    def start(self) -> None:
        self.popen = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "MILLRACE_HEARTBEAT_SECONDS": str(HEARTBEAT_SECONDS)},
        )
        threading.Thread(target=self._read, args=(self.popen,), daemon=True).start()

    def _read(self, popen: subprocess.Popen[str]) -> None:
        assert popen.stdout is not None
        with open(self._log, "a") as log:
            for line in popen.stdout:
                self.lines.append((time.monotonic(), line.rstrip()))
                log.write(f"{time.monotonic():.3f} {line}")
                log.flush()
        popen.stdout.close()

    def queued(self) -> float:
        """Seconds for which its threads have waited for a core; 0 where the system does not tell.

        Those of threads that have ended are not counted.
        """
        total = 0
        for path in Path(f"/proc/{self.popen.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, IndexError):
                total += int(path.read_text().split()[1])
        return total / 1e9

    def first(self, pattern: str, since: float) -> tuple[float, str] | None:
        """The first line since then that matches."""
        for when, line in reversed_since(self.lines, since):
            if re.search(pattern, line):
                return when, line
        return None

    def steps(self, since: float = 0.0) -> list[int]:
        """The global steps that it said."""
        said = [line for _, line in reversed_since(self.lines, since)]
        return [int(line.split()[1]) for line in said if line.startswith("step ")]


def reversed_since(lines: list[tuple[float, str]], since: float) -> list[tuple[float, str]]:
    """The lines since then, in order; found from the end, because there may be very many."""
    start = len(lines)
    while start and lines[start - 1][0] >= since:
        start -= 1
    return lines[start:]


class Chaos:
    """A cluster, and what is done to it."""

    def __init__(self, folder: Path, seed: int, sync: bool) -> None:
        self._random = random.Random(seed)
        self._sync = sync
        self._folder = folder
        self._held = HeldPorts(PS + WORKERS)
        ps, workers = self._held.addresses[:PS], self._held.addresses[PS:]
        options = ["--ps", ",".join(ps), "--workers", ",".join(workers), "--folder", str(folder)]
        if sync:
            options.append("--sync")
        self.tasks: dict[str, Task] = {}
        for job, count in (("ps", PS), ("worker", WORKERS)):
            for i in range(count):
                name = f"{job}{i}"
                command = [sys.executable, "-u", str(PROGRAM), job, str(i), *options]
                self.tasks[name] = Task(name, command, folder / f"{name}.log")
        self.workers = [task for name, task in self.tasks.items() if name.startswith("worker")]
        self.faults: list[Fault] = []

    def run(self, faults: int, spacing: int, say: Callable[[str], None] = print) -> dict:
        """Trains, with some faults at least `spacing` steps apart; what the chief learned."""
        try:
            for task in self.tasks.values():
                task.start()
            began = 0.0
            for how, name in itertools.islice(self._schedule(), faults):
                self._until_trained(began, spacing)
                fault = self._befall(how, self.tasks[name])
                self.faults.append(fault)
                say(f"{fault.kind:12} {fault.task}: {fault}")
                began = time.monotonic()
            return self._finish()
        finally:
            for task in self.tasks.values():
                with contextlib.suppress(AttributeError):
                    task.popen.kill()
                    task.popen.wait()
            self._held.close()

    def _until_trained(self, since: float, spacing: int) -> None:
        """Waits until every worker trains, and the model has made some steps."""

        def trained() -> bool:
            said = [task.steps(since) for task in self.workers]
            return all(said) and max(map(max, said)) - min(map(min, said)) >= spacing

        self._until(trained, f"{spacing} steps")

    def _schedule(self) -> Iterator[tuple[str, str]]:
        """What happens to whom: in every round each kind of fault once, in any order."""
        while True:
            round_ = [
                (how, self._random.choice(names))
                for how in (KILL, STOP)
                for names in (("ps0", "ps1"), ("worker0",), ("worker1", "worker2"))
            ]
            self._random.shuffle(round_)
            yield from round_

    def _befall(self, how: str, task: Task) -> Fault:
        """Lets a fault happen to a task, and waits until all is well."""
        role = "ps" if task.name.startswith("ps") else "worker"
        kind = f"{how} {'chief' if task.name == 'worker0' else role}"
        at = time.monotonic()
        if how == KILL:
            task.popen.kill()
            task.popen.wait()
            task.start()
            self._until(lambda: task.first("^up$", at), f"{task.name} to be up")
            found = task.first("^up$", at)
            assert found is not None
            back = found[0]
        else:
            task.popen.send_signal(signal.SIGSTOP)
            deadline = time.monotonic() + self._random.uniform(*STOPPED_SECONDS)
            while time.monotonic() < deadline:
                time.sleep(0.01)
            task.popen.send_signal(signal.SIGCONT)
            back = time.monotonic()
        queued = {name: each.queued() for name, each in self.tasks.items()}
        self._until(
            lambda: all(worker.first("^step ", back) for worker in self.workers),
            f"every worker to train after {kind} {task.name}",
        )
        queued = {name: each.queued() - queued[name] for name, each in self.tasks.items()}
        first = [worker.first("^step ", back) for worker in self.workers]
        recovered = max(when for when, _ in filter(None, first)) - back
        noticed = [
            when
            for worker in self.workers
            if (line := worker.first("An error was raised by a step", at)) is not None
            for when in [line[0]]
        ]
        return Fault(
            round(at, 3),
            kind,
            task.name,
            min(noticed) - at if noticed else None,
            recovered,
            self._lost(at),
            max(0.0, *queued.values()),
        )

    def _lost(self, since: float) -> int:
        """By how much the global step has gone back.

        Workers do not speak in the order of their steps, and the first step of one that was
        restarted takes long: so it has gone back when one and the same worker saw that it did.
        """
        said: list[tuple[float, int, int]] = []
        for i, worker in enumerate(self.workers):
            lines = [(when, line) for when, line in worker.lines if line.startswith("step ")]
            start = max((k for k, (when, _) in enumerate(lines) if when < since), default=0)
            said += [(when, i, int(line.split()[1])) for when, line in lines[start:]]
        highest = lost = 0
        seen: dict[int, int] = {}
        for _, i, step in sorted(said):
            if step < seen.get(i, 0):
                lost = max(lost, highest - step)
            seen[i] = max(seen.get(i, 0), step)
            highest = max(highest, step)
        return lost

    def _finish(self) -> dict:
        """Lets the training end; what the chief says of it."""
        # Far enough away that all hear of it in time, though others may keep us from the cores.
        ahead = 100 if self._sync else 100 * WORKERS
        last = max(ENOUGH_STEPS, max(max(worker.steps()) for worker in self.workers) + ahead)
        (self._folder / "last_step.new").write_text(str(last))
        os.rename(self._folder / "last_step.new", self._folder / "last_step")
        for worker in self.workers:
            self._until(lambda w=worker: w.popen.poll() is not None, f"{worker.name} to end")
            assert worker.popen.returncode == 0, self.story(f"{worker.name} failed")
        for task in self.tasks.values():
            self._until(lambda t=task: t.popen.poll() is not None, f"{task.name} to end")
        for port in self._held.ports:
            socket.create_server(("localhost", port)).close()
        result = self.tasks["worker0"].first(r"^\{", 0.0)
        assert result is not None, self.story("the chief said nothing")
        return {"last_step": last, **json.loads(result[1])}

    def _until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            for task in self.tasks.values():
                code = task.popen.poll()
                assert code in (None, 0), self.story(f"{task.name} ended with {code}")
            assert time.monotonic() < deadline, self.story(f"waited in vain for {what}")
            time.sleep(0.01)

    def story(self, what: str) -> str:
        """What went wrong, with the last lines of all."""
        last = []
        for task in self.tasks.values():
            last.append(f"== {task.name}")
            last += [f"{when:.3f} {line}" for when, line in task.lines[-25:]]
        return "\n".join([what, f"now {time.monotonic():.3f}", *map(str, self.faults), *last])


def table(faults: list[Fault]) -> Iterator[str]:
    """Time to recover and steps lost, for each kind of fault."""
    heads = ("found", "recovered", "steps lost", "no core free")
    yield f"{'fault':14}{'count':>6}" + "".join(f"{head:>15}" for head in heads)
    yield " " * 20 + f"{'median  worst':>15}" * len(heads)
    for kind in sorted({fault.kind for fault in faults}):
        those = [fault for fault in faults if fault.kind == kind]
        found = [f.found for f in those if f.found is not None]
        rest = zip(*[(f.recovered, f.lost, f.queued) for f in those], strict=True)
        shown = [
            f"{statistics.median(c):7.2f}{max(c):7.2f}" if c else "      –      –"
            for c in (found, *rest)
        ]
        yield f"{kind:14}{len(those):6}" + "".join(f"{each:>15}" for each in shown)


def keep_logs(chaos: Chaos, folder: Path, kept: Path) -> None:
    """Keeps what the tasks said, and when the faults were: for reading why one took long."""
    kept.mkdir(parents=True, exist_ok=True)
    for name in chaos.tasks:
        log = folder / f"{name}.log"
        if log.exists():
            shutil.copy(log, kept)
    (kept / "faults.txt").write_text("\n".join(map(str, chaos.faults)) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=200, help="of each mode")
    parser.add_argument("--spacing", type=int, default=40, help="steps between faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", choices=("sync", "async", "both"), default="both")
    parser.add_argument("--keep", type=Path, help="a folder for the tasks' logs, with times")
    options = parser.parse_args()
    status = 0
    with tempfile.TemporaryDirectory() as cache:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", cache)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
        for mode in ("async", "sync") if options.mode == "both" else (options.mode,):
            status = torment(mode, options) or status
    return status


def torment(mode: str, options: argparse.Namespace) -> int:
    """Trains in one mode, and says what came of it; 0 if it was as it should be."""
    with tempfile.TemporaryDirectory() as folder:
        chaos = Chaos(Path(folder), options.seed, mode == "sync")
        try:
            result = chaos.run(options.faults, options.spacing)
        finally:
            if options.keep is not None:
                keep_logs(chaos, Path(folder), options.keep / mode)
    overshoot = result["step"] - result["last_step"]
    good = result["accuracy"] > 0.96 and 0 <= overshoot <= 4 * WORKERS
    print(f"\n{mode}: {result} {'good' if good else 'NOT GOOD'}")
    print("\n".join(table(chaos.faults)), flush=True)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
