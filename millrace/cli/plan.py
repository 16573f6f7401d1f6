"""`millrace plan SCRIPT`: how fast a job would be with more workers, ps, and other links."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from millrace.core import errors
from millrace.observe import job_record
from millrace.observe.job_record import NoJob
from millrace.observe.planner import cost as costs
from millrace.observe.planner import picture
from millrace.observe.planner.cost import NotMeasured, StepCost
from millrace.observe.planner.simulation import Outcome, Setting, simulate
from millrace.rpc.service import Connection

SUMMARY = "measure a step of a program, and simulate larger clusters"
FAILED = 1
USAGE_ERROR = 2
_ASK_SECONDS = 2.0
_START_SECONDS = 300.0
#: Steps that are not measured: they compile.
_WARM_STEPS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The program, and what to try."""
    parser.add_argument("--workers", default="1,2,4,8,16", help="how many workers (1,2,4,8,16)")
    parser.add_argument("--ps", default="1,2,4", help="how many parameter servers (1,2,4)")
    parser.add_argument("--link", default="10gbit", help="of each machine (10gbit)")
    parser.add_argument("--rtt", default="100us", help="of a round trip between machines (100us)")
    parser.add_argument("--cores", type=int, default=1, help="that serve steps on a ps (1)")
    parser.add_argument("--sync", action="store_true", help="steps are rounds of all workers")
    parser.add_argument("--seconds", type=float, default=10.0, help="to measure (10)")
    parser.add_argument(
        "--cost",
        metavar="W,P,D,U",
        help="measure nothing: seconds of a worker and of a ps, bytes down and up, per step",
    )
    parser.add_argument("--plot", type=Path, help="write a picture (SVG) here")
    parser.add_argument("--json", action="store_true", help="the outcomes, as JSON")
    parser.add_argument("script", nargs="?", help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments, after --")


def run(arguments: argparse.Namespace) -> int:
    """Measures, simulates, shows."""
    try:
        settings = _settings(arguments)
        found = _cost(arguments)
    except NotMeasured as error:
        print(f"millrace plan: {error}", file=sys.stderr)
        return FAILED
    except (ValueError, OSError) as error:
        print(f"millrace plan: {error}", file=sys.stderr)
        return USAGE_ERROR
    outcomes = [simulate(found, setting) for setting in settings]
    if arguments.plot is not None:
        title = f"{Path(arguments.script or 'a job').name}, links {arguments.link}"
        arguments.plot.write_text(picture.draw(outcomes, title))
    if arguments.json:
        print(json.dumps({"cost": vars(found), "outcomes": [_plain(each) for each in outcomes]}))
        return 0
    print(
        f"a step: {found.worker * 1e3:.2f} ms of a worker, {found.ps * 1e3:.2f} ms of a ps, "
        f"{found.down / 1e6:.2f} MB down, {found.up / 1e6:.2f} MB up"
    )
    Console().print(_table(outcomes))
    return 0


def _plain(each: Outcome) -> dict[str, Any]:
    return {**vars(each), "setting": vars(each.setting)}


def _table(outcomes: list[Outcome]) -> Table:
    table = Table()
    for name in ("workers", "ps", "steps/s", "limit"):
        table.add_column(name, justify="left" if name == "limit" else "right", no_wrap=True)
    for each in outcomes:
        setting = each.setting
        rate = f"{each.steps_per_second:,.{1 if each.steps_per_second < 100 else 0}f}"
        table.add_row(str(setting.workers), str(setting.ps), rate, each.limit)
    return table


def _settings(arguments: argparse.Namespace) -> list[Setting]:
    link, rtt = costs.parse_rate(arguments.link), costs.parse_time(arguments.rtt)
    if arguments.cores < 1:
        raise ValueError(f"--cores {arguments.cores}: a ps has at least one")
    return [
        Setting(workers, ps, link, rtt, arguments.sync, arguments.cores)
        for ps in _counts("--ps", arguments.ps)
        for workers in _counts("--workers", arguments.workers)
    ]


def _counts(name: str, text: str) -> list[int]:
    words = text.split(",")
    if not all(word.strip().isdigit() and int(word) > 0 for word in words):
        raise ValueError(f"{name} {text}: write numbers above 0, as 1,2,8")
    if max(map(int, words)) > 10_000:
        raise ValueError(f"{name} {text}: at most 10,000 are simulated")
    return [int(word) for word in words]


def _cost(arguments: argparse.Namespace) -> StepCost:
    if arguments.cost is not None:
        try:
            worker, ps, down, up = (float(word) for word in arguments.cost.split(","))
        except ValueError:
            raise ValueError(f"--cost {arguments.cost}: write four numbers, W,P,D,U") from None
        return StepCost(worker, ps, down, up)
    if arguments.script is None:
        raise ValueError("name the program to measure, or say --cost")
    if not Path(arguments.script).is_file():
        raise ValueError(f"there is no file {arguments.script}")
    if arguments.seconds <= 0:
        raise ValueError(f"--seconds {arguments.seconds:g}: say how long to measure")
    given = arguments.arguments[arguments.arguments[:1] == ["--"] :]
    return measure(arguments.script, given, arguments.seconds)


def measure(script: str, given: list[str], seconds: float) -> StepCost:
    """Runs one worker and one ps of a program here for a while, and says what a step takes.

    Raises:
      NotMeasured: The job ended, or made too few steps.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        _launched(script, given, Path(folder)) as process,
    ):
        addresses = _addresses(process, Path(folder))
        worker, ps = (Connection(addresses[name]) for name in ("worker-0", "ps-0"))
        try:
            _warm_up(process, worker, ps)
            first, start = [_look(each) for each in (worker, ps)], time.monotonic()
            time.sleep(seconds)
            last, end = [_look(each) for each in (worker, ps)], time.monotonic()
        except errors.OpError as error:
            raise NotMeasured(f"the job ended while it was measured: {error.message}") from None
        finally:
            worker.close()
            ps.close()
    looks = list(zip(first, last, strict=True))
    return costs.between(looks[0], looks[1], end - start, costs.seconds_per_byte())


def _look(connection: Connection) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(connection.status(_ASK_SECONDS, observe=True))
    return found


@contextlib.contextmanager
def _launched(script: str, given: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "millrace", "launch", "--ps", "1", "--workers", "1", "--json"]
    command += ["--logs", str(folder), script, "--", *given]
    with (folder / "launch.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def _addresses(process: subprocess.Popen[bytes], folder: Path) -> dict[str, str]:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(NoJob):
            found = job_record.load(folder / job_record.FILE).addresses
            if {"ps-0", "worker-0"} <= {*found}:
                return found
        time.sleep(0.1)
    said = (folder / "launch.log").read_text(errors="replace").strip().splitlines()
    raise NotMeasured(f"the job did not start: {said[-1] if said else 'it said nothing'}")


def _warm_up(process: subprocess.Popen[bytes], worker: Connection, ps: Connection) -> None:
    """Waits until the first steps are over."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(errors.OpError):
            _look(ps)
            if _look(worker)["own_steps"] >= _WARM_STEPS:
                return
        time.sleep(0.2)
    raise NotMeasured(f"the job made fewer than {_WARM_STEPS} steps: it ended, or waits")
