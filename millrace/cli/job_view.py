"""What people and programs see of a running job: a live table, plain lines, or JSON."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from millrace.observe.job_record import short_name

if TYPE_CHECKING:
    from millrace.cli.launch import Job

_PLAIN_SECONDS = 10.0
_COLOURS = {"running": "green", "done": "blue", "stopping": "yellow", "stopped": "yellow"}
#: Lines that are no tasks: the frame and head of the table, and what is below it.
_OTHER_LINES = 7
#: How wide a terminal must be for a column; the task and its state are always there.
_COLUMNS = {"steps/s": 36, "steps": 48, "restarts": 80, "last line of its log": 64}
_LAST_LINE = "last line of its log"


@contextlib.contextmanager
def watching(as_json: bool, folder: Path, name: str = "") -> Iterator[Callable[[Job], None]]:
    """Gives the function that shows a job: it is called every now and then."""
    console = Console()
    if as_json or not console.is_terminal:
        if not as_json:
            print(f"job {name}, logs: {folder}", flush=True)
        yield PlainView(as_json)
        return
    shown = f"job [bold]{escape(name)}[/bold]   logs: {escape(str(folder))}   Ctrl-C stops all"
    console.print(shown, soft_wrap=True)
    with Live(console=console, auto_refresh=False, transient=False) as live:
        yield lambda job: live.update(JobTable(job), refresh=True)


class PlainView:
    """Lines for where there is no terminal: when a state changes, and now and then."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._states: dict[str, tuple[str, int]] = {}
        self._next = 0.0
        #: What was said of the page and of TensorBoard.
        self._lines: set[str] = set()

    def __call__(self, job: Job) -> None:
        """Prints what is new."""
        changed = False
        for shown in (job.page, job.viewer):
            if shown is not None and shown.line not in self._lines:
                self._lines.add(shown.line)
                changed = True
                if not self._as_json:
                    print(shown.line, flush=True)
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
                print(f"global step {job.watch.global_step}{_rate_of(job)}", flush=True)


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
        "dashboard": job.page.url if job.page else None,
        "tasks": tasks,
    }


class JobTable:
    """The live table: a row per task, and how far the job is, as the terminal has room.

    Names are never cut. Where there are more tasks than lines, those that failed come first, then
    the busiest, and the others are counted; the global step is always there.
    """

    def __init__(self, job: Job) -> None:
        self._job = job

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield table_of(self._job, options.max_width, options.size.height)


def table_of(job: Job, width: int = 110, height: int = 50) -> RenderableType:
    """The table for a terminal of this size."""
    columns = [name for name, least in _COLUMNS.items() if width >= least]
    columns.sort(key=["steps", "steps/s", "restarts", _LAST_LINE].index)
    table = Table(expand=_LAST_LINE in columns)
    longest = max((len(short_name(p.task.name)) for p in job.processes), default=4)
    table.add_column("task", no_wrap=True, overflow="ignore", min_width=longest)
    table.add_column("state", no_wrap=True, overflow="ignore")
    for name in columns:
        if name == _LAST_LINE:
            table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=1)
        else:
            table.add_column(name, no_wrap=True, overflow="ignore", justify="right")
    room = max(1, height - _OTHER_LINES)
    shown = job.processes if len(job.processes) <= room else _busiest(job)[: room - 1]
    for process in shown:
        cells = _cells(job, process)
        state = Text(process.state, style=_COLOURS.get(process.state, "red"))
        table.add_row(short_name(process.task.name), state, *(cells[name] for name in columns))
    if len(shown) < len(job.processes):
        table.add_row(f"+{len(job.processes) - len(shown)} more", _others(job, shown))
    below = [Text(f" {each.line}") for each in (job.page, job.viewer) if each is not None]
    return Group(table, _progress_of(job, width), *below)


def _cells(job: Job, process: Any) -> dict[str, RenderableType]:
    rate = job.watch.of(process.task.name)
    running = rate is not None and process.code is None
    return {
        "steps": "" if rate is None or rate.count is None else str(rate.count),
        "steps/s": f"{rate.per_second:.0f}" if rate is not None and running else "",
        "restarts": str(process.restarts or ""),
        _LAST_LINE: Text(process.last_line()),
    }


def _busiest(job: Job) -> list[Any]:
    """The processes: those that failed, then by steps a second."""

    def order(process: Any) -> tuple[bool, float]:
        rate = job.watch.of(process.task.name)
        return process.state in _COLOURS, -(rate.per_second if rate else 0.0)

    return sorted(job.processes, key=order)


def _others(job: Job, shown: list[Any]) -> str:
    states = [each.state for each in job.processes if each not in shown]
    return states[0] if len(set(states)) == 1 else "various"


def _rate_of(job: Job) -> str:
    rate = job.watch.steps_per_second
    return f", {rate:.0f} steps/s" if rate >= 10 else f", {rate:.1f} steps/s" if rate else ""


def _progress_of(job: Job, width: int) -> RenderableType:
    step, last = job.watch.global_step, job.last_step
    words = f"global step {'–' if step is None else step}"
    words += f" of {last}" if last else ""
    words += _rate_of(job)
    if not last or width < len(words) + 12:
        return Text(f" {words}", style="bold")
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    done = min(step or 0, last)
    grid.add_row(Text(f" {words}", style="bold"), ProgressBar(last, done))
    return grid
