"""`millrace logs [JOB]`: what the tasks of a job wrote, in the order of time."""

from __future__ import annotations

import argparse
import heapq
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from millrace.observe import job_record
from millrace.observe.job_record import JobRecord, NoJob, short_name

SUMMARY = "print the logs of a job's tasks, merged by time"
USAGE_ERROR = 2
_POLL_SECONDS = 0.3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which job, which tasks, how much."""
    parser.add_argument("target", nargs="?", help="a job's name or folder (the newest job)")
    parser.add_argument("--task", action="append", default=[], help="this task alone: ps:0")
    parser.add_argument("-n", "--lines", type=int, help="the last lines of each task")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")


def run(arguments: argparse.Namespace) -> int:
    """Prints the lines, each with its task."""
    try:
        record = job_record.find(arguments.target)
        logs = _logs_of(record, arguments.task)
    except NoJob as error:
        print(f"millrace logs: {error}", file=sys.stderr)
        return USAGE_ERROR
    width = max(len(name) for name in logs)
    places = dict.fromkeys(logs, 0)
    first = True
    while True:
        ended = not job_record.load(record.path).is_running
        parts = []
        for name, path in logs.items():
            lines, places[name] = _new_lines(path, places[name])
            if first and arguments.lines is not None:
                lines = lines[-arguments.lines :] if arguments.lines > 0 else []
            parts.append([(line, name) for line in _stamped(lines)])
        # Lines of one task stay in their order; a line has its time first.
        for line, name in heapq.merge(*parts, key=lambda each: each[0][:19]):
            print(f"{name:<{width}} {line}", flush=True)
        if not arguments.follow or ended:
            return 0
        first = False
        time.sleep(_POLL_SECONDS)


def _logs_of(record: JobRecord, wanted: list[str]) -> dict[str, Path]:
    logs = {short_name(name): Path(task.log) for name, task in record.tasks.items()}
    asked = [short_name(name) for name in wanted]
    unknown = [name for name in asked if name not in logs]
    if unknown:
        known = ", ".join(logs)
        raise NoJob(f"job {record.name} has no task {unknown[0]}; it has {known}")
    return {name: path for name, path in logs.items() if not asked or name in asked}


def _new_lines(path: Path, place: int) -> tuple[list[str], int]:
    """Whole lines after a place in a file, and the place after them."""
    try:
        with path.open("rb") as file:
            file.seek(place)
            data = file.read()
    except OSError:
        return [], place
    whole = data[: data.rfind(b"\n") + 1]
    return whole.decode(errors="replace").splitlines(), place + len(whole)


def _stamped(lines: list[str]) -> Iterator[str]:
    """The lines; one without a time sorts with the one before it."""
    last = ""
    for line in lines:
        if line[:4].isdigit() and line[10:11] == " ":
            last = line[:19]
            yield line
        else:
            yield f"{last} {line}" if last else line
