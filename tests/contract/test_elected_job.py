"""`millrace launch --elect`: the workers of a program that names its chief elect one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import millrace as tf

PROGRAM = Path(__file__).parents[1] / "process" / "programs" / "elected_trainer.py"
SECONDS = 240


def test_a_launched_job_elects_its_chief_in_zookeeper(zookeeper: Any, tmp_path: Path) -> None:
    model, logs = tmp_path / "model", tmp_path / "logs"
    command = [
        *(sys.executable, "-m", "millrace", "launch", "--ps", "1", "--workers", "2"),
        *("--logs", str(logs), f"--elect=zookeeper://{zookeeper.address}/launched"),
        *(str(PROGRAM), "--", f"--folder={model}", "--steps=60"),
    ]
    done = subprocess.run(
        command,
        timeout=SECONDS,
        capture_output=True,
        text=True,
        env={**os.environ, "MILLRACE_FSYNC": "0"},
    )
    said = "\n".join(path.read_text(errors="replace") for path in sorted(logs.glob("*.log")))
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{said}"
    assert "This task is the chief now, for term 1." in said
    assert "The chief is the task" in said
    path = tf.train.latest_checkpoint(str(model))
    assert path is not None
    assert int(path.rpartition("-")[2]) >= 60
    assert list(model.glob("checkpoint.chief-1-*"))
