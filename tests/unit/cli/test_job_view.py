"""What is shown of a running job."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from millrace.cli import job_view
from millrace.cli.step_watch import Rate, StepWatch


def process(name: str, state: str, restarts: int = 0, line: str = "") -> Any:
    return SimpleNamespace(
        task=SimpleNamespace(name=name),
        state=state,
        code=None if state == "running" else 1,
        restarts=restarts,
        last_line=lambda: line,
        log=Path("logs") / f"{name}.log",
    )


def job(last_step: int | None = 4000, viewer: Any = None) -> Any:
    """A job in the middle of its work."""
    watch = StepWatch({"ps-0": "localhost:1", "worker-0": "localhost:2"})
    for second in range(3):
        watch._tasks["ps-0"].add(second, 300 * second)
        watch._tasks["worker-0"].add(second, 100 * second)
        watch._global.add(second, 200 * second)
    return SimpleNamespace(
        processes=[
            process("ps-0", "running"),
            process("worker-0", "running", 2, "loss [0.5] at step 400"),
            process("client-0", "failed (3)"),
        ],
        watch=watch,
        last_step=last_step,
        viewer=viewer,
        page=None,
    )


def drawn(shown: Any) -> str:
    console = Console(width=110, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(job_view.table_of(shown))
    return console.export_text()


def test_the_table_has_a_row_for_each_task() -> None:
    rows = [line.split("│") for line in drawn(job()).splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in row[1:-1]] for row in rows]
    assert cells == [
        ["ps:0", "running", "600", "300", "", ""],
        ["worker:0", "running", "200", "100", "2", "loss [0.5] at step 400"],
        ["client:0", "failed (3)", "", "", "", ""],
    ]


def many(count: int) -> Any:
    shown = job()
    names = [f"worker-{i}" for i in range(count)]
    shown.processes = [process("ps-0", "running"), *(process(n, "running") for n in names)]
    shown.watch = StepWatch(dict.fromkeys(["ps-0", *names], "localhost:1"))
    for second in range(2):
        shown.watch._note(100 * second)
        for i, name in enumerate(names):
            shown.watch._tasks[name].add(second, i * second)
    return shown


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_names_and_the_global_step_are_never_cut(width: int) -> None:
    shown = many(12)
    console = Console(width=width, height=50, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(job_view.JobTable(shown))
    text = console.export_text()
    assert all(f" worker:{i} " in text for i in range(12)) and " ps:0 " in text
    assert "global step 100" in text


def test_a_short_terminal_shows_the_failed_and_the_busiest_and_counts_the_others() -> None:
    shown = many(64)
    shown.processes[5] = process("worker-4", "failed (1)")
    console = Console(width=80, height=16, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(job_view.JobTable(shown))
    lines = console.export_text().splitlines()
    rows = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    assert rows[:3] == ["worker:4", "worker:63", "worker:62"]
    assert rows[-1] == f"+{65 - len(rows) + 1} more"
    assert len(lines) <= 16 and "global step 100" in lines[-1]


def test_when_the_job_is_over_the_rate_is_that_of_all_of_it(monkeypatch) -> None:
    watch = StepWatch({})
    now = iter([10.0, 20.0, 30.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    watch._note(100)
    watch._note(900)
    watch.end(1100)
    assert (watch.global_step, watch.steps_per_second) == (1100, 50.0)


def test_progress_is_a_bar_when_the_last_step_is_known() -> None:
    last = drawn(job()).rstrip().splitlines()[-1]
    assert last.startswith(" global step 400 of 4000, 200 steps/s ━")
    assert drawn(job(None)).rstrip().splitlines()[-1] == " global step 400, 200 steps/s"


def test_tensorboard_has_a_line_of_its_own() -> None:
    viewer = SimpleNamespace(line="TensorBoard: http://localhost:6006/", url="")
    assert "TensorBoard: http://localhost:6006/" in drawn(job(viewer=viewer))


def test_plain_lines_tell_what_has_changed(capsys: pytest.CaptureFixture[str]) -> None:
    view, shown = job_view.PlainView(as_json=False), job()
    view(shown)
    assert capsys.readouterr().out.splitlines() == [
        "ps-0: running",
        "worker-0: running (restart 2)",
        "client-0: failed (3)",
        "global step 400, 200 steps/s",
    ]
    view(shown)
    assert capsys.readouterr().out == ""


def test_json_tells_everything(capsys: pytest.CaptureFixture[str]) -> None:
    job_view.PlainView(as_json=True)(job())
    facts = json.loads(capsys.readouterr().out)
    assert facts["global_step"] == 400
    assert facts["last_step"] == 4000
    assert facts["tasks"]["worker-0"] == {
        "state": "running",
        "restarts": 2,
        "steps": 200,
        "steps_per_second": 100.0,
        "last_line": "loss [0.5] at step 400",
        "log": "logs/worker-0.log",
    }


def test_a_rate_is_over_the_last_seconds() -> None:
    rate = Rate(window=2.0)
    assert (rate.count, rate.per_second) == (None, 0.0)
    for second, count in enumerate([0, 1000, 1010, 1020, 1030]):
        rate.add(second, count)
    assert rate.per_second == pytest.approx(10.0)


def test_a_count_that_goes_back_begins_again() -> None:
    rate = Rate()
    rate.add(0, 500)
    rate.add(1, 600)
    rate.add(2, 5)
    assert (rate.count, rate.per_second) == (5, 0.0)
