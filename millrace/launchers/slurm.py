"""A job on Slurm: the batch script, its submission, and following it to its end.

Slurm places the tasks, starts them on their nodes (`srun`), and ends them. Each runs
`millrace task`, which finds its place in Slurm's variables; the first ranks are the ps. Nodes are
reached by the names that Slurm has for them. Where ps and workers want different nodes the job is
heterogeneous, with a component for each.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

#: The last states of a job, and what to say of those that are not its own doing.
_ENDS = {
    "COMPLETED": "",
    "FAILED": "",
    "CANCELLED": "it was cancelled",
    "TIMEOUT": "Slurm's time limit ended it; say a longer --time, the checkpoint is kept",
    "OUT_OF_MEMORY": "it took more memory than Slurm gave it",
    "NODE_FAIL": "a node failed",
    "PREEMPTED": "Slurm gave its place to another job",
    "BOOT_FAIL": "a node did not start",
    "DEADLINE": "its deadline passed",
}
_POLL_SECONDS = 1.0
#: An option for one job alone.
_JOB = re.compile(r"(ps|worker):(?=-)")


class SlurmError(Exception):
    """Slurm refuses: one sentence."""


@dataclasses.dataclass(frozen=True)
class Batch:
    """What Slurm is asked for.

    Attributes:
      name: The job's name.
      ps, workers: How many tasks of each.
      command: What each task runs, up to and with the program's arguments.
      folder: Where logs go; all nodes must see it.
      time: Slurm's limit, as ``1:00:00``; its default when empty.
      options: Further options of sbatch, as ``--partition=gpu``; ``worker:--gres=gpu:1`` is for the
        workers alone.
      variables: Set for the tasks; files, never secrets.
    """

    name: str
    ps: int
    workers: int
    command: Sequence[str]
    folder: Path
    time: str = ""
    options: Sequence[str] = ()
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def is_heterogeneous(self) -> bool:
        """Whether ps and workers ask for different nodes."""
        return self.ps > 0 and any(_JOB.match(option) for option in self.options)


def script_of(batch: Batch) -> str:
    """The batch script."""
    folder = batch.folder.absolute()
    lines = [
        "#!/bin/bash",
        f"#SBATCH --job-name={batch.name}",
        f"#SBATCH --output={folder}/slurm.log",
        "#SBATCH --open-mode=append",
        "#SBATCH --requeue",
    ]
    if batch.time:
        # A minute before the limit the tasks get SIGTERM: the chief saves, and they end in order.
        lines += [f"#SBATCH --time={batch.time}", "#SBATCH --signal=TERM@60"]
    lines += [f"#SBATCH {option}" for option in batch.options if not _JOB.match(option)]
    srun = ["srun", "--kill-on-bad-exit=1"]
    if batch.is_heterogeneous:
        lines += [*_component(batch, "ps"), "#SBATCH hetjob", *_component(batch, "worker")]
        # Slurm's own %t counts the ranks of a second component wrongly.
        log = f'exec "$@" >{shlex.quote(str(folder))}/task-$SLURM_PROCID.log 2>&1'
        srun += ["--het-group=0,1", "sh", "-c", log, "task"]
    else:
        lines += [f"#SBATCH --ntasks={batch.ps + batch.workers}"]
        srun += [f"--output={folder}/task-%t.log"]
    variables = {"MILLRACE_GRACE_SECONDS": "50", **batch.variables}
    lines += ["", *(f"export {k}={shlex.quote(v)}" for k, v in variables.items())]
    return "\n".join([*lines, shlex.join([*srun, *batch.command]), ""])


def _component(batch: Batch, job: str) -> list[str]:
    """What the tasks of a job ask for."""
    count = batch.ps if job == "ps" else batch.workers
    own = [option.partition(":")[2] for option in batch.options if option.startswith(f"{job}:")]
    return [f"#SBATCH {option}" for option in (f"--ntasks={count}", *own)]


def submit(batch: Batch) -> str:
    """Writes the script beside the logs and submits it; Slurm's number of the job.

    Raises:
      SlurmError: There is no Slurm here, or it does not take the job.
    """
    if shutil.which("sbatch") is None:
        raise SlurmError("there is no sbatch on this machine; run this on a login node of Slurm")
    path = batch.folder / "job.sbatch"
    path.write_text(script_of(batch))
    # A job that never fits would wait for ever: Slurm is asked first whether it can run at all.
    # Of a heterogeneous one it cannot tell.
    done = None if batch.is_heterogeneous else _run(["sbatch", "--test-only", str(path)])
    if done is None or not done.returncode:
        done = _run(["sbatch", "--parsable", str(path)])
    if done.returncode:
        raise SlurmError(f"Slurm does not take the job: {_sentence(done.stderr)}")
    return done.stdout.strip().partition(";")[0]


def follow(identifier: str, tell: Callable[[str], None]) -> tuple[int, str]:
    """Waits for the end of a job, and tells its states as they change.

    Returns:
      The exit code, and a sentence if it did not end by itself.

    Raises:
      SlurmError: Slurm does not answer.
    """
    last = ""
    while True:
        facts = describe(identifier)
        state, reason = facts.get("JobState", ""), facts.get("Reason", "None")
        words = state.lower() + (f" ({reason})" if state == "PENDING" and reason != "None" else "")
        if words != last:
            tell(words)
            last = words
        if state in _ENDS:
            code, _, number = facts.get("ExitCode", "1:0").partition(":")
            if state == "COMPLETED":
                return 0, ""
            return int(code) or (128 + int(number) if int(number or 0) else 1), _ENDS[state]
        time.sleep(_POLL_SECONDS)


def describe(identifier: str) -> dict[str, str]:
    """What Slurm knows of a job."""
    done = _run(["scontrol", "--oneliner", "show", "job", identifier])
    if done.returncode:
        raise SlurmError(f"Slurm does not know job {identifier}: {_sentence(done.stderr)}")
    words = (word.partition("=") for word in done.stdout.split())
    return {name: value for name, _, value in words}


def cancel(identifier: str) -> None:
    """Ends a job.

    Raises:
      SlurmError: Slurm refuses.
    """
    done = _run(["scancel", identifier])
    if done.returncode:
        raise SlurmError(f"Slurm does not cancel job {identifier}: {_sentence(done.stderr)}")


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        raise SlurmError(f"there is no {command[0]} on this machine") from None
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{command[0]} gave no answer in a minute") from None


def _sentence(text: str) -> str:
    """Slurm's own words, in one line."""
    prefixes = r"^(?:(?:sbatch|scontrol|scancel|error|allocation failure): )*"
    lines = [re.sub(prefixes, "", line) for line in text.splitlines()]
    return "; ".join(line for line in lines if line) or "it said nothing"
