"""`millrace dashboard [JOB]`: the live page of a job, until Ctrl-C."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable

from millrace.cli import running_cluster, security
from millrace.cli.live_page import ANYWHERE, open_page
from millrace.cli.running_cluster import NoCluster, find, record_of
from millrace.observe.dashboard.watcher import JobWatcher, reader_of
from millrace.observe.job_record import JobRecord, TaskRecord

SUMMARY = "show a job in a page: its tasks, progress, scalars, loads, waits, events, logs"
USAGE_ERROR = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which job, and where to listen."""
    running_cluster.add_arguments(parser)
    parser.add_argument(
        "--bind",
        default=ANYWHERE,
        metavar="HOST:PORT",
        help="where to listen (any port of 127.0.0.1); elsewhere the job's token is asked for",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serves the page."""
    try:
        watcher = JobWatcher(_record_reader(arguments))
        page = open_page(watcher, arguments.bind)
    except NoCluster as error:
        print(f"millrace dashboard: {error}", file=sys.stderr)
        return error.code
    except ValueError as error:
        print(f"millrace dashboard: {error}", file=sys.stderr)
        return USAGE_ERROR
    print(f"{page.url}   Ctrl-C ends it", flush=True)
    try:
        threading.Event().wait()
    finally:
        page.close()
    return 0


def _record_reader(arguments: argparse.Namespace) -> Callable[[], JobRecord]:
    record = record_of(arguments)
    if record is not None:
        running_cluster.use_keys_of(record)
        security.set_environment(arguments)
        return reader_of(record.path)
    address, status = find(arguments)
    tasks = {
        f"{job}-{index}": TaskRecord(place)
        for job, places in status["cluster"].items()
        for index, place in places.items()
    }
    known = JobRecord(address, "", "elsewhere", [], tasks=tasks)
    return lambda: known
