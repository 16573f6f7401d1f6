"""`millrace launch --on ray`: runs a job on a cluster of Ray and follows it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any

from millrace.launchers.ray_job import RayJob, RayRun, TaskResult, connect, handed_on, script_of
from millrace.observe import job_record
from millrace.observe.job_record import ENDED, JobRecord, TaskRecord
from millrace.rpc.security import TOKEN_FILE, write_token

INTERRUPTED = 130
TERMINATED = 143
_SHIPPED = "working_dir"


def run(arguments: argparse.Namespace, given: list[str]) -> int:
    """Runs the job to its end; what its tasks write comes through Ray.

    Raises:
      RayError: Ray is not there, or has no room.
      ValueError: No job can be made of these arguments.
    """
    options = _options(arguments.scheduler_option)
    runtime_env = {_SHIPPED: options.pop(_SHIPPED)} if _SHIPPED in options else {}
    strategy = options.pop("strategy", "PACK")
    resources = {job: _resources(options.pop(job, "")) for job in ("ps", "worker")}
    if options:
        known = "strategy=PACK|SPREAD, ps=CPU=1, worker=CPU=2+GPU=1+memory=4e9, working_dir=FOLDER"
        raise ValueError(f"--scheduler-option {next(iter(options))}: for Ray there are {known}")
    name = arguments.name or job_record.name_for(arguments.script)
    folder = Path(arguments.logs or Path("millrace-logs") / name)
    job = RayJob(
        script_of(arguments.script, runtime_env),
        given,
        arguments.ps,
        arguments.workers,
        resources,
        strategy,
        arguments.max_restarts,
        handed_on(os.environ),
        arguments.cluster_via or "",
    )
    ray = connect(None, runtime_env)
    folder.mkdir(parents=True, exist_ok=True)
    token_file = folder.absolute() / "token"
    record = JobRecord(
        name,
        str(folder.absolute()),
        "ray",
        [arguments.script, *given],
        pid=os.getpid(),
        variables={TOKEN_FILE: str(token_file)},
    )

    def note(tasks: dict[str, TaskResult]) -> None:
        record.tasks = {each.replace(":", "-"): _record_of(each, tasks[each]) for each in tasks}
        record.save()

    note({each: TaskResult() for each in job.names})
    print(f"job {name} on Ray, {len(job.names)} tasks", flush=True)
    found = RayRun(ray, job, note, write_token(token_file))
    code = _follow(found)
    record.state, record.exit_code = ENDED, code
    note(found.tasks)
    for each, task in found.tasks.items():
        if code and task.last_lines and code not in (INTERRUPTED, TERMINATED):
            print(f"millrace launch: {each} ended with {task.exit_code}:", file=sys.stderr)
            for line in task.last_lines:
                print(f"  {line}", file=sys.stderr)
    return code


def _follow(found: RayRun) -> int:
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return found.run()
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit:
        return TERMINATED


def _terminate(number: int, frame: Any) -> None:
    raise SystemExit(TERMINATED)


def _record_of(name: str, task: TaskResult) -> TaskRecord:
    state = {None: "running", 0: "done"}.get(task.exit_code, f"failed ({task.exit_code})")
    serves = name.startswith("ps:")
    return TaskRecord(task.address, None, task.node, "", serves, state, task.restarts)


def _options(given: list[str]) -> dict[str, str]:
    found = {}
    for word in given:
        name, _, value = word.partition("=")
        if not name or not value:
            raise ValueError(f"--scheduler-option {word}: write name=value")
        found[name] = value
    return found


def _resources(text: str) -> dict[str, float]:
    """``{"CPU": 2.0, "GPU": 1.0}`` for ``CPU=2+GPU=1``."""
    found = {}
    for word in text.split("+") if text else []:
        name, _, value = word.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise ValueError(f"{word!r} is no amount of a resource; write CPU=2") from None
    return found
