"""The proof that nothing acknowledged is lost: a counting training whose replicas are tormented.

`python tests/process/standby_chaos.py --faults 100` launches `programs/counting_trainer.py` with
`millrace launch --standby`, kills and stops primaries, standbys and workers at random, and compares
at the end what the workers' `session.run` has acknowledged with the state: lost, doubled. It also
tells for how long nobody trained after each kind of fault. `test_standby_chaos.py` runs a few.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from millrace.core import errors
from millrace.observe import job_record
from millrace.rpc.service import Connection

PROGRAM = Path(__file__).parent / "programs" / "counting_trainer.py"
PS, WORKERS = 2, 2
#: How long anything may take on a machine that is busy with other things.
TIMEOUT_SECONDS = 180.0
#: Primaries are struck more often: they are what this is about.
KINDS = (
    *("kill primary", "stop primary") * 2,
    *("kill standby", "stop standby", "kill worker", "stop worker"),
)
#: Longer than replicas and workers wait for each other.
STOPPED_SECONDS = (0.2, 4.0)


class Fault(NamedTuple):
    """What was done, and what came of it.

    Attributes:
      kind: As "kill primary".
      silent: The longest time around it in which no worker completed a step.
      whole: Seconds until every worker trained and every task had a standby in step again.
    """

    kind: str
    silent: float
    whole: float


class Verdict(NamedTuple):
    """What a checker says of a training.

    Attributes:
      acknowledged: Steps whose `session.run` has returned.
      lost: Of those, steps that some parameter server has not.
      doubled: Steps that some parameter server has more than once.
      halves: Steps of killed workers that some parameter servers have and others have not.
      rounds: In synchronous training, by how many rounds a parameter server differs from the
        global step.
      pushes: There, acknowledged steps whose gradient some parameter server has not applied. What
        a round has not closed when the training ends is not among them.
      doubled_pushes: There, steps whose gradient some parameter server has applied twice.
    """

    acknowledged: int
    lost: int
    doubled: int
    halves: int
    rounds: int = 0
    pushes: int = 0
    doubled_pushes: int = 0

    @property
    def is_good(self) -> bool:
        """Whether nothing is lost or doubled; of killed workers' gradients the count says more."""
        return not (self.lost or self.doubled or self.rounds or self.doubled_pushes)


#: At the end a worker may be so many steps ahead of the rounds that are closed.
_OPEN_STEPS = 2


def acknowledged(folder: Path) -> dict[int, list[tuple[int, float]]]:
    """The steps that each worker wrote down as done, and when."""
    found: dict[int, list[tuple[int, float]]] = {}
    for path in sorted(folder.glob("history-*")):
        lines = [line.split() for line in path.read_text().splitlines()]
        done = [(int(line[1]), float(line[2])) for line in lines if line[0] == "done"]
        found[int(path.name.rpartition("-")[2])] = done
    return found


def check(folder: Path) -> Verdict:
    """Compares the state with what was acknowledged."""
    state = np.load(folder / "state.npz")
    tables = [state[name] for name in sorted(state.files) if name.startswith("rows_")]
    # The last row is not a worker's own step: rounds that are closed at the end use it.
    tables = [table[:, :-1] for table in tables]
    done = acknowledged(folder)
    lost = sum(
        any(table[worker, number] < 1 for table in tables)
        for worker, steps in done.items()
        for number, _ in steps
    )
    together = np.stack(tables)
    return Verdict(
        sum(len(steps) for steps in done.values()),
        lost,
        int((together > 1).any(axis=0).sum()),
        int(((together > 0).any(axis=0) & (together < 1).any(axis=0)).sum()),
        *_rounds(state, done),
    )


def _rounds(
    state: Mapping[str, np.ndarray], done: dict[int, list[tuple[int, float]]]
) -> tuple[int, int, int]:
    """What is wrong with the rounds, the gradients that are lost, and those that are doubled."""
    counts = [-int(state[name]) for name in sorted(state) if name.startswith("rounds_")]
    if not counts:
        return 0, 0, 0
    wrong = max(abs(count - int(state["global_step"])) for count in counts)
    names = sorted(name for name in state if name.startswith("pushed_"))
    tables = [-state[name].reshape(WORKERS, -1)[:, :-1] for name in names]
    lost = sum(
        any(table[worker, number] < 0.5 for table in tables)
        for worker, steps in done.items()
        for number, _ in steps[:-_OPEN_STEPS]
    )
    return wrong, lost, int((np.stack(tables) > 1.5).any(axis=0).sum())


class Torment:
    """A launched job, and what is done to it.

    Args:
      folder: For logs and histories.
      seed: Of what is done.
      sync: Whether it trains in rounds.
      size: Elements of the variable that is trained.
      kinds: The faults that are chosen from.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        sync: bool = False,
        size: int = 1000,
        kinds: tuple[str, ...] = KINDS,
    ) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self._random = random.Random(seed)
        self._sync = sync
        self._size = size
        self._kinds = kinds
        self.faults: list[Fault] = []
        self._job: subprocess.Popen[bytes]

    def run(
        self,
        faults: int,
        together: int = 1,
        spacing: int = 10,
        say: Callable[[str], None] = print,
    ) -> Verdict:
        """Trains through so many faults, and says what became of the steps.

        Args:
          faults: How many.
          together: How many of them strike at the same time, each another task.
          spacing: Steps of every worker between them.
          say: Is told of each.
        """
        with self._launched():
            self._until(self._is_whole, "every task has a standby in step")
            self._until_trained(spacing)
            while len(self.faults) < faults:
                blow = self._choose(min(together, faults - len(self.faults)))
                found = self._befall(blow, spacing)
                self.faults += found
                say(
                    f"{len(self.faults):4} {', '.join(f'{k} ({n})' for n, k in blow.items())}: "
                    f"silent {found[0].silent:.2f} s, whole after {found[0].whole:.2f} s"
                )
            (self.folder / "over").touch()
            self._until(lambda: self._job.poll() is not None, "the job ends")
        assert self._job.returncode == 0, self._story()
        return check(self.folder)

    @contextlib.contextmanager
    def _launched(self) -> Iterator[None]:
        command = [sys.executable, "-m", "millrace", "launch", "--standby", "--json"]
        command += ["--ps", str(PS), "--workers", str(WORKERS), "--max-restarts", "1000"]
        command += ["--logs", str(self.logs), str(PROGRAM), "--", f"--folder={self.folder}"]
        command += [f"--size={self._size}", *(["--sync"] if self._sync else [])]
        out = (self.folder / "launch.txt").open("wb")
        self._job = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            for process in self._pids().values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)
            if self._job.poll() is None:
                self._job.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._job.wait(20)
            if self._job.poll() is None:
                self._job.kill()
                self._job.wait()
            out.close()

    # -- What is known ---------------------------------------------------------------------

    def _record(self) -> job_record.JobRecord | None:
        try:
            return job_record.load(self.logs / job_record.FILE)
        except (OSError, ValueError, LookupError, errors.OpError):
            return None

    def _pids(self) -> dict[str, int]:
        record = self._record()
        tasks = {} if record is None else record.tasks
        return {name: task.pid for name, task in tasks.items() if task.pid is not None}

    def _roles(self) -> dict[str, str]:
        """Which process is the primary or the standby of its task, and in step."""
        record = self._record()
        found = {}
        for name, task in ({} if record is None else record.tasks).items():
            if not name.startswith("ps-"):
                continue
            connection = Connection(task.address)
            try:
                told = json.loads(connection.status(2.0)).get("replica", {})
            except (errors.OpError, ValueError):
                continue
            finally:
                connection.close()
            if told.get("phase") in ("paired", "following"):
                found[name] = told["role"]
        return found

    def _is_whole(self) -> bool:
        assert self._job.poll() is None, self._story()
        roles = list(self._roles().values())
        return roles.count("primary") == PS and roles.count("standby") == PS

    def _until_trained(self, spacing: int) -> None:
        before = {worker: len(done) for worker, done in acknowledged(self.folder).items()}

        def trained() -> bool:
            assert self._job.poll() is None, self._story()
            done = acknowledged(self.folder)
            return len(done) == WORKERS and all(
                len(steps) >= before.get(worker, 0) + spacing for worker, steps in done.items()
            )

        self._until(trained, "every worker trains")

    def _until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain: {what}\n{self._story()}")
            time.sleep(0.05)

    def _story(self) -> str:
        """The last lines of all logs."""
        lines = [(self.folder / "launch.txt").read_text(errors="replace")[-2000:]]
        for path in sorted(self.logs.glob("*.log")):
            tail = path.read_text(errors="replace").splitlines()[-12:]
            lines += [f"--- {path.name}", *tail]
        return "\n".join(lines)

    # -- What is done ----------------------------------------------------------------------

    def _choose(self, count: int) -> dict[str, str]:
        """Faults by the processes that they befall: one of each task at most."""
        blow: dict[str, str] = {}
        struck: set[str] = set()
        roles = self._roles()
        while len(blow) < count:
            kind = self._random.choice(self._kinds)
            whom = kind.partition(" ")[2]
            names = sorted(name for name, role in roles.items() if role == whom)
            if whom == "worker":
                names = [f"worker-{i}" for i in range(WORKERS)]
            name = self._random.choice(names)
            task = name.removesuffix("-standby")
            if task not in struck:
                struck.add(task)
                blow[name] = kind
        return blow

    def _befall(self, blow: dict[str, str], spacing: int) -> list[Fault]:
        pids = self._pids()
        began, wall = time.monotonic(), time.time()
        stopped = [pids[name] for name, kind in blow.items() if kind.startswith("stop")]
        for name, kind in blow.items():
            with contextlib.suppress(ProcessLookupError):
                killed = kind.startswith("kill")
                os.kill(pids[name], signal.SIGKILL if killed else signal.SIGSTOP)
        if stopped:
            time.sleep(self._random.uniform(*STOPPED_SECONDS))
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._until_trained(spacing)
        self._until(self._is_whole, "every task has a standby in step again")
        whole = time.monotonic() - began
        self._until_trained(1)
        silent = self._silent(wall)
        return [Fault(kind, silent, whole) for kind in blow.values()]

    def _silent(self, since: float) -> float:
        times = sorted(
            at for steps in acknowledged(self.folder).values() for _, at in steps if at > since - 5
        )
        gaps = [b - a for a, b in itertools.pairwise(times) if b > since]
        return max(gaps, default=0.0)


def table(faults: list[Fault]) -> Iterator[str]:
    """The figures of each kind of fault: median and worst."""
    yield f"{'fault':16}{'count':>6}{'silent, s':>18}{'whole again, s':>20}"
    for kind in sorted({fault.kind for fault in faults}):
        found = [fault for fault in faults if fault.kind == kind]
        silent = [fault.silent for fault in found]
        whole = [fault.whole for fault in found]
        yield (
            f"{kind:16}{len(found):6}{statistics.median(silent):10.2f},{max(silent):6.2f}"
            f"{statistics.median(whole):12.2f},{max(whole):6.2f}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--together", type=int, default=1, help="faults at the same time")
    parser.add_argument("--only", help='one kind of fault, as "kill primary"')
    parser.add_argument("--keep", type=Path, help="a folder in which all logs stay")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        kinds = (options.only,) if options.only else KINDS
        torment = Torment(folder, options.seed, options.sync, options.size, kinds)
        verdict = torment.run(options.faults, options.together)
        print("\n".join(table(torment.faults)))
        print(verdict)
    return 0 if verdict.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
