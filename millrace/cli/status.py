"""`millrace status grpc://host:port`: what a running cluster holds and does."""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import sys
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from millrace.cli import running_cluster
from millrace.cli.running_cluster import NoCluster, ask, find
from millrace.core import errors

SUMMARY = "show the tasks of a running cluster: devices, variables, traffic"
_BETWEEN_SECONDS = 0.5
#: Where the variables of a program that names no container are.
_USUAL_CONTAINERS = ("", "localhost")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which cluster."""
    running_cluster.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="everything, as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Asks every task of the cluster, twice: the second time tells how fast it is."""
    try:
        _, first = find(arguments)
    except NoCluster as error:
        print(f"millrace status: {error}", file=sys.stderr)
        return error.code
    places = {
        place: f"/job:{job}/task:{index}"
        for job, tasks in first["cluster"].items()
        for index, place in tasks.items()
    }
    before, start = _ask_all(places), time.monotonic()
    time.sleep(_BETWEEN_SECONDS)
    found, seconds = _ask_all(places), time.monotonic() - start
    for old, new in zip(before, found, strict=True):
        if "steps" in old and "steps" in new:
            new["steps_per_second"] = round(max(0, new["steps"] - old["steps"]) / seconds, 1)
    if arguments.json:
        print(json.dumps(found, indent=2))
    elif (console := Console()).is_terminal:
        _print_tables(found, console)
    else:
        _print_lines(found)
    return 0


def _ask_all(places: dict[str, str]) -> list[dict[str, Any]]:
    """The status of every task; of one that does not answer, its name and address."""

    def one(place: str) -> dict[str, Any]:
        try:
            return ask(place)
        except errors.OpError:
            return {"task": places[place], "address": place}

    with concurrent.futures.ThreadPoolExecutor(max_workers=32) as pool:
        return list(pool.map(one, places))


def _row(status: dict[str, Any]) -> dict[str, str]:
    """What a line about a task says, by the name of the column."""
    row = {"task": status["task"].replace("/replica:0", ""), "address": status["address"]}
    if "devices" not in status:
        return row
    traffic = status["traffic"].values()
    step = status["global_step"]
    size = sum(variable["bytes"] for variable in status["variables"])
    return {
        **row,
        "up": f"{status['uptime_seconds']:.0f} s",
        "incarnation": f"{status['incarnation']:016x}",
        "devices": ", ".join(_short(name) for name in status["devices"]),
        "sessions": str(status["sessions"]),
        "steps": str(status["steps"]),
        "steps/s": f"{status.get('steps_per_second', 0.0):.0f}",
        "global step": "" if step is None else str(step),
        "variables": f"{len(status['variables'])} ({_bytes(size)})",
        "sent": _bytes(_total(traffic, "bytes_sent")),
        "received": _bytes(_total(traffic, "bytes_received")),
    }


def _print_tables(found: list[dict[str, Any]], console: Console) -> None:
    rows = [_row(status) for status in found]
    names = max(rows, key=len)
    table = Table()
    for name in names:
        table.add_column(name)
    for row in rows:
        silent = len(row) == 2
        cells = [row.get(name, "") for name in names]
        table.add_row(*cells[:2], "[red]no answer[/red]") if silent else table.add_row(*cells)
    console.print(table)
    variables = Table()
    for name in ("task", "variable", "type", "shape", "bytes"):
        variables.add_column(name)
    for task, variable in _variables(found):
        variables.add_row(task, *_described(variable))
    if variables.rows:
        console.print(variables)


def _print_lines(found: list[dict[str, Any]]) -> None:
    for status in found:
        row = _row(status)
        task, address = row.pop("task"), row.pop("address")
        facts = ", ".join(f"{name} {value}" for name, value in row.items() if value)
        print(f"{task} {address}: {facts or 'no answer'}")
    for task, variable in _variables(found):
        name, dtype, shape, size = _described(variable)
        print(f"{task} variable {name}: {dtype} {shape}, {size}")


def _variables(found: list[dict[str, Any]]) -> Iterable[tuple[str, dict[str, Any]]]:
    for status in found:
        for variable in status.get("variables", ()):
            yield status["task"].replace("/replica:0", ""), variable


def _described(variable: dict[str, Any]) -> tuple[str, str, str, str]:
    shown = [] if variable["container"] in _USUAL_CONTAINERS else [variable["container"]]
    name = "/".join([*shown, variable["name"]])
    return name, variable["dtype"], str(variable["shape"]), _bytes(variable["bytes"])


def _short(device: str) -> str:
    """``CPU:0`` for ``/job:ps/replica:0/task:0/device:CPU:0``."""
    return device.rpartition("/device:")[2]


def _total(traffic: Iterable[dict[str, int]], name: str) -> int:
    return sum(peer[name] for peer in traffic)


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
