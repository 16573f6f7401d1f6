"""`millrace launch --on slurm`: submits a job and follows it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from millrace.launchers import slurm
from millrace.launchers.slurm import Batch
from millrace.observe import job_record
from millrace.observe.job_record import ENDED, JobRecord, TaskRecord
from millrace.rpc.security import INSECURE, TLS_KEY, TOKEN, TOKEN_FILE, write_token

FAILED = 1
INTERRUPTED = 130


def run(arguments: argparse.Namespace, given: list[str]) -> int:
    """Submits the job; without --detach also waits for its end.

    Raises:
      SlurmError: Slurm refuses.
    """
    name = arguments.name or job_record.name_for(arguments.script)
    folder = Path(arguments.logs or Path("millrace-logs") / name)
    variables = {k: v for k, v in os.environ.items() if k.startswith("MILLRACE_") and k != TOKEN}
    token_file = folder.absolute() / "token"
    needs_token = not any(variables.get(k) for k in (TLS_KEY, TOKEN_FILE, INSECURE))
    if needs_token:
        variables[TOKEN_FILE] = str(token_file)
    command = [sys.executable, "-u", "-m", "millrace", "task", "--ps", str(arguments.ps)]
    if arguments.cluster_via:
        command += ["--cluster-via", arguments.cluster_via]
    command += [str(Path(arguments.script).absolute()), "--", *given]
    batch = Batch(
        name,
        arguments.ps,
        arguments.workers,
        command,
        folder,
        arguments.time or "",
        [option for option in arguments.scheduler_option if option],
        variables,
    )
    if arguments.dry_run:
        print(slurm.script_of(batch), end="")
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    if needs_token:
        write_token(token_file)  # requeued tasks find the same
    identifier = slurm.submit(batch)
    keys = {TOKEN_FILE: variables[TOKEN_FILE]} if variables.get(TOKEN_FILE) else {}
    record = JobRecord(
        name,
        str(folder.absolute()),
        "slurm",
        [arguments.script, *given],
        tasks=_tasks(arguments.ps, arguments.workers, folder.absolute()),
        variables=keys,
        identifier=identifier,
    )
    record.save()
    print(f"job {name} is Slurm's {identifier}, logs: {folder}", flush=True)
    if arguments.detach:
        return 0
    return _follow(record)


def _follow(record: JobRecord) -> int:
    try:
        code, why = slurm.follow(record.identifier, lambda state: print(state, flush=True))
    except KeyboardInterrupt:
        slurm.cancel(record.identifier)
        code, why = INTERRUPTED, ""
    record.state, record.exit_code = ENDED, code
    record.save()
    if code and code != INTERRUPTED:
        end = f"Slurm's job {record.identifier} ended with {code}" + (f": {why}" if why else "")
        print(f"millrace launch: {end}", file=sys.stderr)
        for line in _last_lines(record):
            print(f"  {line}", file=sys.stderr)
    return code


def _last_lines(record: JobRecord) -> list[str]:
    """What each task wrote last; when none wrote anything, what Slurm did."""
    found = {name: _lines(Path(task.log)) for name, task in record.tasks.items()}
    if not any(found.values()):
        return _lines(Path(record.folder) / "slurm.log")[-5:]
    return [f"{name}: {(lines or ['it wrote nothing'])[-1]}" for name, lines in found.items()]


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines() if path.exists() else []


def _tasks(ps: int, workers: int, folder: Path) -> dict[str, TaskRecord]:
    names = [f"ps-{i}" for i in range(ps)] + [f"worker-{i}" for i in range(workers)]
    return {
        name: TaskRecord(log=str(folder / f"task-{rank}.log"), serves=rank < ps)
        for rank, name in enumerate(names)
    }
