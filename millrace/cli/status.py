"""`millrace status grpc://host:port`: what a running cluster holds and does."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from millrace.cli import security
from millrace.core import errors
from millrace.rpc.service import Connection

SUMMARY = "show the tasks of a running cluster: devices, variables, traffic"
FAILED = 1
_SECONDS = 3.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which cluster."""
    parser.add_argument("target", help="grpc://host:port of any of its tasks")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")
    security.add_arguments(parser, serves=False)


def run(arguments: argparse.Namespace) -> int:
    """Asks every task of the cluster."""
    address = arguments.target.removeprefix("grpc://")
    try:
        security.set_environment(arguments)
        first = ask(address)
    except ValueError as error:
        print(f"millrace status: {error}", file=sys.stderr)
        return FAILED
    except errors.OpError as error:
        print(f"millrace status: {address} does not answer: {error.message}", file=sys.stderr)
        return FAILED
    found: list[dict[str, Any]] = []
    for job, tasks in first["cluster"].items():
        for index, place in tasks.items():
            if place == first["address"]:
                found.append(first)
                continue
            try:
                found.append(ask(place))
            except errors.OpError:
                found.append({"task": f"/job:{job}/task:{index}", "address": place})
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        _print(found)
    return 0


def ask(address: str) -> dict[str, Any]:
    """A task's status."""
    connection = Connection(address)
    try:
        status: dict[str, Any] = json.loads(connection.status(_SECONDS))
        return status
    finally:
        connection.close()


def _print(found: list[dict[str, Any]]) -> None:
    table = Table()
    for name in (
        "task",
        "address",
        "up",
        "sessions",
        "steps",
        "global step",
        "variables",
        "sent",
        "received",
    ):
        table.add_column(name)
    for status in found:
        name = status["task"].replace("/replica:0", "")
        if "devices" not in status:
            table.add_row(name, status["address"], "[red]no answer[/red]")
            continue
        variables = status["variables"]
        size = sum(variable["bytes"] for variable in variables)
        traffic = status["traffic"].values()
        step = status["global_step"]
        table.add_row(
            name,
            status["address"],
            f"{status['uptime_seconds']:.0f} s",
            str(status["sessions"]),
            str(status["steps"]),
            "" if step is None else str(step),
            f"{len(variables)} ({_bytes(size)})",
            _bytes(sum(t["bytes_sent"] for t in traffic)),
            _bytes(sum(t["bytes_received"] for t in traffic)),
        )
    Console().print(table)


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
