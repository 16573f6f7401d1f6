"""`millrace status [JOB]`: what a running cluster holds and does."""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import re
import sys
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from millrace.cli import running_cluster
from millrace.cli.running_cluster import NoCluster, ask, find
from millrace.core import errors

SUMMARY = "show the tasks of a running cluster: devices, variables, traffic"
_BETWEEN_SECONDS = 0.5
_WATCH_SECONDS = 1.0
#: Where the variables of a program that names no container are.
_USUAL_CONTAINERS = ("", "localhost")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which cluster."""
    running_cluster.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="everything, as JSON")
    parser.add_argument("--watch", action="store_true", help="again every second, until Ctrl-C")


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
    console = Console()
    before, start = _ask_all(places), time.monotonic()
    time.sleep(_BETWEEN_SECONDS)
    with _live(console, arguments.watch) as live:
        while True:
            found, now = _ask_all(places), time.monotonic()
            _add_rates(before, found, now - start)
            before, start = found, now
            if arguments.json:
                print(json.dumps(found, indent=None if arguments.watch else 2), flush=True)
            elif live is not None:
                live.update(tasks_table(found, *console.size), refresh=True)
            elif console.is_terminal:
                console.print(tasks_table(found, console.width, _ENDLESS))
                _print_variables(found, console)
            else:
                _print_lines(found)
            if not arguments.watch:
                return 0
            if not any("devices" in status for status in found):
                print("millrace status: no task answers any more", file=sys.stderr)
                return running_cluster.FAILED
            time.sleep(_WATCH_SECONDS)


def _live(console: Console, wanted: bool) -> Any:
    if wanted and console.is_terminal:
        return Live(console=console, auto_refresh=False, transient=False)
    return contextlib.nullcontext()


def _add_rates(before: list[dict[str, Any]], found: list[dict[str, Any]], seconds: float) -> None:
    for old, new in zip(before, found, strict=True):
        if "steps" in old and "steps" in new:
            new["steps_per_second"] = round(max(0, new["steps"] - old["steps"]) / seconds, 1)


def _ask_all(places: dict[str, str]) -> list[dict[str, Any]]:
    """The status of every task; of one that does not answer, its name and address."""

    def one(place: str) -> dict[str, Any]:
        try:
            return ask(place)
        except errors.OpError:
            return {"task": places[place], "address": place}

    with concurrent.futures.ThreadPoolExecutor(max_workers=32) as pool:
        return list(pool.map(one, places))


def short_task(name: str) -> str:
    """``ps:0`` for ``/job:ps/replica:0/task:0``."""
    job, index = re.findall(r"/job:([^/]+).*/task:(\d+)", name)[0]
    return f"{job}:{index}"


def _row(status: dict[str, Any]) -> dict[str, str]:
    """What a line about a task says, by the name of the column."""
    row = {"task": short_task(status["task"]), "address": status["address"]}
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


#: Columns in the order in which they go when the terminal is narrow, the first ones first.
_DISPENSABLE = (
    "incarnation devices sessions up received sent steps variables address steps/s"
).split() + ["global step"]
#: Lines of the table that are no tasks, and the line below it.
_OTHER_LINES = 6
_ENDLESS = 1 << 30


def tasks_table(found: list[dict[str, Any]], width: int, height: int) -> RenderableType:
    """A row per task, as wide and as high as the terminal, and the global step.

    No name and no number is cut: columns are left out. Where there are more tasks than lines,
    those that do not answer come first, then the busiest, and the others are counted.
    """
    ordered = sorted(
        found, key=lambda s: ("devices" in s, -s.get("steps_per_second", 0.0), found.index(s))
    )
    room = max(1, height - _OTHER_LINES)
    shown = found if len(found) <= room else ordered[: room - 1]
    rows = [_row(status) for status in shown]
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in _DISPENSABLE:
        if _width_of(rows, names) <= width or name not in names:
            continue
        names.remove(name)
    table = Table()
    for name in names:
        table.add_column(name, no_wrap=True, overflow="ignore")
    for row in rows:
        cells = [row.get(name, "") for name in names]
        if len(row) == 2 and len(cells) > 1:
            cells[-1] = "[red]no answer[/red]"
        table.add_row(*cells)
    if len(shown) < len(found):
        table.add_row(f"+{len(found) - len(shown)} more")
    steps = [s["global_step"] for s in found if s.get("global_step") is not None]
    return Group(table, *([Text(f" global step {max(steps)}", style="bold")] if steps else []))


def _width_of(rows: list[dict[str, str]], names: list[str]) -> int:
    total = 1
    for name in names:
        total += max([len(name), *(len(row.get(name, "")) for row in rows)]) + 3
    return total


def _print_variables(found: list[dict[str, Any]], console: Console) -> None:
    variables = Table()
    for name in ("task", "variable", "type", "shape", "bytes"):
        variables.add_column(name, no_wrap=name == "task", overflow="fold")
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
            yield short_task(status["task"]), variable


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
