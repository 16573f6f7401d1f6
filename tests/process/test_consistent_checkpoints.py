"""Real processes: checkpoints that are saved while workers train and ps tasks are killed.

Each step adds one to every variable on every ps. So all variables of a checkpoint are equal, and
equal to its global step, or a step is in it by half, which is said.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from millrace.platform.ports import HeldPorts
from millrace.training.checkpoint.reader import load_checkpoint

PROGRAM = Path(__file__).parent / "programs" / "counting_steps.py"
PS, WORKERS, STEPS = 2, 3, 700
SECONDS = 180.0
#: The chief may not have seen so many steps of the others when a ps dies.
FEW_STEPS = 10


class Task:
    """A process, and what it says."""

    def __init__(self, name: str, arguments: list[str], log: Path) -> None:
        self.name = name
        self._log = log
        self.last_step = 0
        self.longest_fall = 0  # By how many steps it once went back.
        self.popen = subprocess.Popen(
            [sys.executable, str(PROGRAM), *arguments],
            stdout=subprocess.PIPE,
            stderr=log.open("ab"),
            text=True,
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            if line.startswith(("step ", "end ")):
                step = int(line.split()[1])
                self.longest_fall = max(self.longest_fall, self.last_step - step)
                self.last_step = step

    def wait_for(self, step: int) -> None:
        deadline = time.monotonic() + SECONDS
        while self.last_step < step and self.popen.poll() is None:
            assert time.monotonic() < deadline, self._log.read_text()[-4000:]
            time.sleep(0.01)

    def kill(self) -> None:
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait(SECONDS)


@pytest.fixture
def tasks() -> Iterator[dict[str, Task]]:
    running: dict[str, Task] = {}
    yield running
    for task in running.values():
        if task.popen.poll() is None:
            task.kill()
        assert task.popen.stdout is not None
        task._thread.join(SECONDS)
        task.popen.stdout.close()


def counts_of(path: str) -> set[float]:
    """All that the variables of a checkpoint have counted, and its global step."""
    reader = load_checkpoint(path)
    names = reader.get_variable_to_shape_map()
    return {float(x) for name in names for x in np.unique(reader.get_tensor(name))}


def test_a_checkpoint_is_one_instant_also_when_ps_tasks_are_killed(
    tasks: dict[str, Task], tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoints"
    with HeldPorts(PS + WORKERS) as held:
        cluster = {"ps": held.addresses[:PS], "worker": held.addresses[PS:]}
    spec = tmp_path / "cluster.json"
    spec.write_text(json.dumps(cluster))

    def start(job: str, index: int) -> Task:
        name = f"{job}{index}"
        arguments = [job, str(index), str(spec), str(folder), str(STEPS)]
        tasks[name] = Task(name, arguments, tmp_path / f"{name}.log")
        return tasks[name]

    for i in range(PS):
        start("ps", i)
    workers = [start("worker", i) for i in range(WORKERS)]
    for at, ps in ((150, 1), (350, 0)):
        workers[0].wait_for(at)
        tasks[f"ps{ps}"].kill()
        start("ps", ps)
    for worker in workers:
        assert worker.popen.wait(SECONDS) == 0, (tmp_path / f"{worker.name}.log").read_text()
    saved = sorted(str(each)[: -len(".index")] for each in folder.glob("*.index"))
    assert len(saved) > 4
    torn = {path: found for path in saved if len(found := counts_of(path)) != 1}
    said = (tmp_path / "worker0.log").read_text()
    # A step whose ps died in its middle may be in the next checkpoint by half: never silently.
    assert len(torn) <= said.count("may have a part of"), torn
    # A ps that dies right after a save costs the chief no step that it has seen.
    assert workers[0].longest_fall <= FEW_STEPS or "steps are lost" in said
