"""What people and programs see of a running job: a live table, plain lines, or JSON."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from millrace.cli.launch import Job

_PLAIN_SECONDS = 10.0
_COLOURS = {"running": "green", "done": "blue", "stopping": "yellow", "stopped": "yellow"}


@contextlib.contextmanager
def watching(as_json: bool, folder: Path) -> Iterator[Callable[[Job], None]]:
    """Gives the function that shows a job: it is called every now and then."""
    console = Console()
    if as_json or not console.is_terminal:
        if not as_json:
            print(f"logs: {folder}", flush=True)
        yield PlainView(as_json)
        return
    console.print(f"logs: [bold]{escape(str(folder))}[/bold]   Ctrl-C stops everything")
    with Live(console=console, auto_refresh=False, transient=False) as live:
        yield lambda job: live.update(table_of(job), refresh=True)


class PlainView:
    """Lines for where there is no terminal: when a state changes, and now and then."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._states: dict[str, tuple[str, int]] = {}
        self._next = 0.0
        self._viewer_line = ""

    def __call__(self, job: Job) -> None:
        """Prints what is new."""
        changed = False
        if job.viewer is not None and job.viewer.line != self._viewer_line:
            self._viewer_line = job.viewer.line
            changed = True
            if not self._as_json:
                print(self._viewer_line, flush=True)
        for process in job.processes:
            state = (process.state, process.restarts)
            if self._states.get(process.task.name) != state:
                self._states[process.task.name] = state
                changed = True
                if not self._as_json:
                    again = f" (restart {state[1]})" if state[1] else ""
                    print(f"{process.task.name}: {state[0]}{again}", flush=True)
        if changed or time.monotonic() >= self._next:
            self._next = time.monotonic() + _PLAIN_SECONDS
            if self._as_json:
                print(json.dumps(facts_of(job)), flush=True)
            elif job.watch.global_step is not None:
                rate = f"{job.watch.steps_per_second:.0f} steps/s"
                print(f"global step {job.watch.global_step}, {rate}", flush=True)


def facts_of(job: Job) -> dict[str, Any]:
    """A job's state in plain values."""
    tasks = {}
    for process in job.processes:
        rate = job.watch.of(process.task.name)
        tasks[process.task.name] = {
            "state": process.state,
            "restarts": process.restarts,
            "steps": rate.count if rate else None,
            "steps_per_second": round(rate.per_second, 1) if rate else None,
            "last_line": process.last_line(),
            "log": str(process.log),
        }
    return {
        "global_step": job.watch.global_step,
        "last_step": job.last_step,
        "steps_per_second": round(job.watch.steps_per_second, 1),
        "tensorboard": job.viewer.url if job.viewer else None,
        "tasks": tasks,
    }


def table_of(job: Job) -> RenderableType:
    """The live table: a row a task, and how far the job is."""
    table = Table(expand=True)
    table.add_column("task", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("steps", no_wrap=True, justify="right")
    table.add_column("steps/s", no_wrap=True, justify="right")
    table.add_column("restarts", no_wrap=True, justify="right")
    table.add_column("last line of its log", no_wrap=True, overflow="ellipsis", ratio=1)
    for process in job.processes:
        rate = job.watch.of(process.task.name)
        running = rate is not None and process.code is None
        table.add_row(
            process.task.name,
            Text(process.state, style=_COLOURS.get(process.state, "red")),
            "" if rate is None or rate.count is None else str(rate.count),
            f"{rate.per_second:.0f}" if rate is not None and running else "",
            str(process.restarts or ""),
            Text(process.last_line()),
        )
    below = [] if job.viewer is None else [Text(f" {job.viewer.line}")]
    return Group(table, _progress_of(job), *below)


def _progress_of(job: Job) -> RenderableType:
    step, last = job.watch.global_step, job.last_step
    words = f"global step {'–' if step is None else step}"
    words += f" of {last}" if last else ""
    if any(process.code is None for process in job.processes):
        words += f", {job.watch.steps_per_second:.0f} a second"
    if not last:
        return Text(f" {words}", style="bold")
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    done = min(step or 0, last)
    grid.add_row(Text(f" {words}", style="bold"), ProgressBar(last, done))
    return grid
