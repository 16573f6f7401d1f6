"""What `millrace status` shows, for terminals of every size."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from millrace.cli.status import tasks_table


def status(job: str, index: int, rate: float = 0.0, step: int | None = None) -> dict[str, Any]:
    return {
        "task": f"/job:{job}/replica:0/task:{index}",
        "address": f"machine-{index}.example.com:2222",
        "uptime_seconds": 12.0,
        "incarnation": 2**60,
        "devices": [f"/job:{job}/replica:0/task:{index}/device:CPU:0"],
        "sessions": 1,
        "steps": 1234567,
        "steps_per_second": rate,
        "global_step": step,
        "variables": [{"bytes": 1 << 20}],
        "traffic": {"x": {"bytes_sent": 1 << 30, "bytes_received": 5}},
    }


def drawn(found: list[dict[str, Any]], width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(tasks_table(found, width, height))
    return console.export_text().splitlines()


@pytest.mark.parametrize("width", [30, 60, 100, 240])
def test_no_name_is_cut_whatever_the_width(width: int) -> None:
    found = [status("ps", 0, step=88), *(status("worker", i) for i in range(3))]
    text = "\n".join(drawn(found, width, 50))
    assert all(f" {name} " in text for name in ("ps:0", "worker:0", "worker:2"))
    assert "global step 88" in text and "…" not in text
    assert ("machine-2.example.com:2222" in text) == (width >= 100)


def test_a_short_terminal_has_the_silent_and_the_busiest_first() -> None:
    found = [status("worker", i, rate=float(i)) for i in range(64)]
    found[3] = {"task": "/job:worker/task:3", "address": "a:1"}
    found[9]["global_step"] = 5
    lines = drawn(found, 120, 14)
    rows = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    assert rows[:2] == ["worker:3", "worker:63"]
    assert rows[-1] == f"+{64 - len(rows) + 1} more"
    assert len(lines) <= 14 and lines[-1].strip() == "global step 5"
