"""`millrace move ps:1 [HOST]`: lets the standby of a task take its place, while it trains."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from typing import Any

from millrace.cli import running_cluster
from millrace.cli.running_cluster import NoCluster, find, try_to_ask
from millrace.core import errors
from millrace.rpc.service import Connection

SUMMARY = "let the standby of a parameter server take its place, without a pause of the training"
_SECONDS = 10.0
#: A standby takes over within this time, or something is wrong.
_MOVE_SECONDS = 60.0
_TASK = re.compile(r"^(?P<job>\w+)[:-](?P<index>\d+)$")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which task, where to, and of which cluster."""
    parser.add_argument("task", help="as ps:1")
    parser.add_argument(
        "host", nargs="?", help="where the standby is that is to serve; without it, wherever it is"
    )
    running_cluster.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Has the task served by its standby from now on; returns when it is."""
    asked = _TASK.match(arguments.task)
    if asked is None:
        return _fail(f"{arguments.task!r} is no task; one is ps:1", running_cluster.USAGE_ERROR)
    # An address or a job may stand where a host would: a host has neither port nor folder.
    if arguments.target is None and arguments.host and ":" in arguments.host:
        arguments.host, arguments.target = None, arguments.host
    try:
        _, first = find(arguments)
        began = time.monotonic()
        primary = _primary(first, asked["job"], asked["index"])
        place = _hand_over(primary, arguments.host)
        _await_primary(place)
    except NoCluster as error:
        return _fail(str(error), error.code)
    except errors.OpError as error:
        return _fail(error.message, running_cluster.FAILED)
    seconds = time.monotonic() - began
    print(f"{arguments.task} is served at {place} (was: {primary}); it took {seconds:.2f} s")
    return 0


def _fail(sentence: str, code: int) -> int:
    print(f"millrace move: {sentence}", file=sys.stderr)
    return code


def _primary(status: dict[str, Any], job: str, index: str) -> str:
    """Where the process is that serves a task."""
    tasks = status["cluster"].get(job, {})
    if index not in tasks:
        known = ", ".join(f"{j}:{i}" for j, found in status["cluster"].items() for i in found)
        raise NoCluster(
            f"there is no {job}:{index}; tasks are {known}", running_cluster.USAGE_ERROR
        )
    address = str(tasks[index])
    found = try_to_ask(address)
    if isinstance(found, dict) and found["replica"].get("role") == "standby":
        return str(found["replica"]["follows"])
    return address


def _hand_over(primary: str, host: str | None) -> str:
    """Asks a primary to let its standby serve; where that is."""
    connection = Connection(primary)
    try:
        told = json.loads(connection.move(json.dumps({"host": host or ""}).encode(), _SECONDS))
        return str(told["place"])
    finally:
        connection.close()


def _await_primary(place: str) -> None:
    deadline = time.monotonic() + _MOVE_SECONDS
    while time.monotonic() < deadline:
        found = try_to_ask(place)
        if isinstance(found, dict) and found["replica"].get("role") == "primary":
            return
        time.sleep(0.02)
    raise NoCluster(
        f"the standby at {place} was asked to serve and does not yet; `millrace status` shows who "
        "serves",
        running_cluster.FAILED,
    )
