"""`millrace launch`: a cluster on this machine, from one command."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from millrace.cli import security
from millrace.cli.job import WAYS, last_step_of, tasks_of, way_of
from millrace.cli.task_process import TaskProcess, stop_all
from millrace.core import errors
from millrace.rpc.service import Connection

SUMMARY = "start parameter servers and workers on this machine, and watch them"
INTERRUPTED = 130
TERMINATED = 143
USAGE_ERROR = 2
_POLL_SECONDS = 0.2
_PLAIN_SECONDS = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How many tasks, which program, how it is told its cluster."""
    parser.add_argument("--ps", type=int, default=1, help="parameter servers (1)")
    parser.add_argument("--workers", type=int, default=2, help="workers (2)")
    parser.add_argument("--max-restarts", type=int, default=0, help="of one task (0)")
    parser.add_argument("--logs", type=Path, help="folder of the logs (millrace-logs/<time>)")
    parser.add_argument(
        "--cluster-via",
        choices=WAYS,
        help="how the program learns its cluster: `flags` (--ps_hosts, --worker_hosts, --job_name, "
        "--task_index), `TF_CONFIG`, or `servers` (it is a client of servers that run already); "
        "found out from its source by default",
    )
    parser.add_argument("--hosts", help="print the commands for these machines (a,b,c) instead")
    parser.add_argument("--port", type=int, default=2222, help="first port with --hosts (2222)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, no table")
    parser.add_argument(
        "--tls",
        action="store_true",
        help="make certificates for the job, and throw them away at its end; with --hosts they "
        "are kept",
    )
    parser.add_argument(
        "--certificates",
        type=Path,
        default=Path("millrace-certificates"),
        metavar="FOLDER",
        help="where --hosts with --tls puts them (millrace-certificates)",
    )
    security.add_arguments(parser)
    parser.add_argument("script", help="the program")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="its arguments, after --", default=[]
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the job to its end."""
    script = Path(arguments.script)
    try:
        security.set_environment(arguments)
    except ValueError as error:
        print(f"millrace launch: {error}", file=sys.stderr)
        return USAGE_ERROR
    if not script.is_file():
        print(f"millrace launch: there is no file {script}", file=sys.stderr)
        return USAGE_ERROR
    if arguments.ps < 0 or arguments.workers < 1:
        print("millrace launch: a job has at least one worker", file=sys.stderr)
        return USAGE_ERROR
    source = script.read_text(errors="replace")
    way = arguments.cluster_via or way_of(source)
    if way is None:
        print(
            f"millrace launch: {script} does not say how it learns its cluster (no --ps_hosts "
            f"flag, no TF_CONFIG); say --cluster-via {'|'.join(WAYS)}",
            file=sys.stderr,
        )
        return USAGE_ERROR
    given = list(arguments.arguments)
    given = given[1:] if given[:1] == ["--"] else given
    counts = {"ps": arguments.ps, "worker": arguments.workers}
    if arguments.hosts:
        return _print_commands(arguments, str(script), source, given, counts, way)
    cluster = _free_addresses(counts)
    folder = arguments.logs or Path("millrace-logs") / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    tasks = tasks_of(str(script), source, given, cluster, way)
    with security.certified(tasks, arguments.tls) as tasks:
        processes = [TaskProcess(task, folder) for task in tasks]
        job = Job(processes, arguments.max_restarts, last_step_of(given))
        with _watching(job, arguments.json, folder) as show:
            code = job.run(show)
    if code not in (0, INTERRUPTED, TERMINATED):
        _explain_failure(job)
    return code


def _free_addresses(counts: dict[str, int]) -> dict[str, list[str]]:
    """Free ports of this machine; held together while they are chosen, so that all differ."""
    held: list[socket.socket] = []
    cluster: dict[str, list[str]] = {}
    for job, count in counts.items():
        addresses = []
        for _ in range(count):
            holder = socket.socket()
            holder.bind(("localhost", 0))
            held.append(holder)
            addresses.append(f"localhost:{holder.getsockname()[1]}")
        if addresses:
            cluster[job] = addresses
    for holder in held:
        holder.close()
    return cluster


def _print_commands(
    arguments: argparse.Namespace,
    script: str,
    source: str,
    given: list[str],
    counts: dict[str, int],
    way: str,
) -> int:
    hosts = arguments.hosts.split(",")
    ports = dict.fromkeys(hosts, arguments.port)
    cluster: dict[str, list[str]] = {}
    for job, count in counts.items():
        for i in range(count):
            host = hosts[i % len(hosts)]
            cluster.setdefault(job, []).append(f"{host}:{ports[host]}")
            ports[host] += 1
    tasks = tasks_of(script, source, given, cluster, way)
    place = arguments.certificates if arguments.tls else None
    try:
        tasks, advice = security.prepare_for_hosts(tasks, place)
    except OSError as error:
        print(f"millrace launch: {error}", file=sys.stderr)
        return USAGE_ERROR
    for line in advice:
        print(line)
    for task in tasks:
        words = ["millrace", *task.command[4:]]
        variables = [f"{k}={shlex.quote(v)}" for k, v in task.environment.items()]
        host = task.address.rpartition(":")[0] or hosts[0]
        print(f"# {task.name} on {host}")
        print(" ".join([*variables, shlex.join(words)]))
    return 0


class _Terminated(Exception):
    """SIGTERM has arrived."""


def _terminate(number: int, frame: Any) -> None:
    raise _Terminated


class Job:
    """All processes of a job, and what is known of its progress."""

    def __init__(
        self, processes: list[TaskProcess], max_restarts: int, last_step: int | None
    ) -> None:
        self.processes = processes
        self.last_step = last_step
        self.global_step: int | None = None
        self.steps_per_second = 0.0
        self.failed: TaskProcess | None = None
        self._max_restarts = max_restarts
        self._over = threading.Event()

    @property
    def workers(self) -> list[TaskProcess]:
        """The processes whose end is the job's end."""
        return [p for p in self.processes if not p.task.serves]

    def run(self, show: Any) -> int:
        """Starts everything, waits for the workers, stops the rest; the exit code."""
        asker = threading.Thread(target=self._ask_for_step, daemon=True)
        signal.signal(signal.SIGTERM, _terminate)
        try:
            for process in self.processes:
                process.start()
            asker.start()
            while self.failed is None and any(p.code is None for p in self.workers):
                self._restart_the_dead()
                show(self)
                time.sleep(_POLL_SECONDS)
            self._restart_the_dead()
            if self.failed is None:
                self._dismiss_servers()
                show(self)
                return 0
            code = self.failed.code or 1
            return code if code > 0 else 128 - code
        except KeyboardInterrupt:
            return INTERRUPTED
        except _Terminated:
            return TERMINATED
        finally:
            # A second Ctrl-C must not leave processes behind.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            self._over.set()
            stop_all([p for p in self.processes if p.started])

    def _restart_the_dead(self) -> None:
        for process in self.processes:
            code = process.code
            if code is None or (code == 0 and not process.task.serves):
                continue
            if code == 0 and all(p.code == 0 for p in self.workers):
                continue
            if process.restarts < self._max_restarts:
                process.restarts += 1
                process.start()
            else:
                self.failed = self.failed or process

    def _dismiss_servers(self) -> None:
        """The workers are done: lets the servers end as they would by themselves."""
        for process in self.processes:
            if process.code is None and process.task.address:
                process.stopping = True
                connection = Connection(process.task.address)
                with contextlib.suppress(errors.OpError):
                    connection.stop_server(timeout=2.0)
                connection.close()
        deadline = time.monotonic() + 5.0
        for process in self.processes:
            process.wait(deadline - time.monotonic())

    def _ask_for_step(self) -> None:
        """Asks the servers for the global step, about once a second."""
        addresses = [p.task.address for p in self.processes if p.task.serves and p.task.address]
        connections = [Connection(address) for address in addresses]
        seen: tuple[float, int] | None = None
        while not self._over.wait(1.0):
            for connection in connections:
                try:
                    step = json.loads(connection.status(timeout=1.0)).get("global_step")
                except (errors.OpError, ValueError):
                    continue
                if step is None:
                    continue
                now = time.monotonic()
                if seen is not None and step > seen[1]:
                    self.steps_per_second = (step - seen[1]) / (now - seen[0])
                if seen is None or step != seen[1]:
                    seen = (now, step)
                self.global_step = step
                break
        for connection in connections:
            connection.close()


# -- Showing -------------------------------------------------------------------------------


@contextlib.contextmanager
def _watching(job: Job, as_json: bool, folder: Path) -> Iterator[Any]:
    console = Console()
    if as_json or not console.is_terminal:
        printer = _Plain(as_json)
        if not as_json:
            print(f"logs: {folder}")
        yield printer
        return
    with Live(console=console, auto_refresh=False, transient=False) as live:
        console.print(f"logs: [bold]{folder}[/bold]   Ctrl-C stops everything")
        yield lambda job: live.update(_table(job), refresh=True)


class _Plain:
    """Lines for where there is no terminal: when a state changes, and now and then."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._states: dict[str, tuple[str, int]] = {}
        self._next = 0.0

    def __call__(self, job: Job) -> None:
        changed = False
        for process in job.processes:
            state = (process.state, process.restarts)
            if self._states.get(process.task.name) != state:
                self._states[process.task.name] = state
                changed = True
                if not self._as_json:
                    print(f"{process.task.name}: {state[0]}", flush=True)
        if changed or time.monotonic() >= self._next:
            self._next = time.monotonic() + _PLAIN_SECONDS
            if self._as_json:
                print(json.dumps(_facts(job)), flush=True)
            elif job.global_step is not None:
                rate = f"{job.steps_per_second:.0f} steps/s"
                print(f"global step {job.global_step}, {rate}", flush=True)


def _facts(job: Job) -> dict[str, Any]:
    return {
        "global_step": job.global_step,
        "steps_per_second": round(job.steps_per_second, 1),
        "tasks": {
            p.task.name: {"state": p.state, "restarts": p.restarts, "log": str(p.log)}
            for p in job.processes
        },
    }


_COLOURS = {"running": "green", "done": "blue", "stopping": "yellow"}


def _table(job: Job) -> Table:
    step = "–" if job.global_step is None else str(job.global_step)
    title = f"global step {step}   {job.steps_per_second:.0f} steps/s"
    table = Table(title=title, expand=True, title_justify="left")
    for name in ("task", "state", "restarts"):
        table.add_column(name, no_wrap=True)
    table.add_column("last line of its log", no_wrap=True, overflow="ellipsis", ratio=1)
    for process in job.processes:
        colour = _COLOURS.get(process.state, "red")
        table.add_row(
            process.task.name,
            f"[{colour}]{process.state}[/{colour}]",
            str(process.restarts or ""),
            process.last_line().replace("[", r"\["),
        )
    if job.last_step:
        done = min(job.global_step or 0, job.last_step)
        table.add_row("job", f"{done}/{job.last_step}", "", ProgressBar(job.last_step, done))
    return table


def _explain_failure(job: Job) -> None:
    assert job.failed is not None
    process = job.failed
    print(
        f"millrace launch: {process.task.name} ended with {process.code}; its log ends:",
        file=sys.stderr,
    )
    for line in process.tail(12):
        print(f"  {line}", file=sys.stderr)
    print(f"  (all of it: {process.log})", file=sys.stderr)
