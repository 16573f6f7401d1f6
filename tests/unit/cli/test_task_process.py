"""What is read from the log of a task."""

from __future__ import annotations

from pathlib import Path

from millrace.cli.job import Task
from millrace.cli.task_process import TaskProcess

METRICS = (
    "INFO:millrace:Saving dict for global step 40: accuracy = 0.5, global_step = 40, loss = 1.5"
)


def test_an_evaluator_shows_its_last_metrics(tmp_path: Path) -> None:
    process = TaskProcess(Task("evaluator-0", [], {}, False, "", evaluates=True), tmp_path)
    assert process.last_line() == ""
    process.log.write_text("begins\n")
    assert process.last_line() == "begins"
    process.log.write_text(f"begins\n{METRICS}\nwaits\n")
    shown = "step 40: accuracy = 0.5, global_step = 40, loss = 1.5"
    assert process.last_line() == shown
    process.log.write_text("x" * 9000 + "\nwaits\n")
    assert process.last_line() == shown


def test_another_task_shows_its_last_line(tmp_path: Path) -> None:
    process = TaskProcess(Task("worker-0", [], {}, False, ""), tmp_path)
    process.log.write_text(f"{METRICS}\nwaits\n")
    assert process.last_line() == "waits"
