"""Workers that are connected and do nothing cost a ps nothing: counted work of a step, not time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def test_a_step_costs_a_ps_the_same_beside_200_idle_workers():
    done = subprocess.run(
        [sys.executable, str(_ROOT / "benchmarks" / "idle_workers.py"), "--idle", "200", "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    alone, among = found["alone"], found["among"]
    assert alone["ps_python_calls"] > 0 and alone["ps_threads_woken"] > 0
    assert among["messages"] == alone["messages"]
    assert among["bytes"] == alone["bytes"]
    # One call or one wake-up for each idle worker would be 200 more; chance is a few.
    assert among["ps_python_calls"] < alone["ps_python_calls"] + 50
    assert among["ps_threads_woken"] < alone["ps_threads_woken"] + 50
