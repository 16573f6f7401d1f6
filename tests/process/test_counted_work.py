"""A step of a benchmark costs no more than it did: counted work, so a busy machine is no excuse.

`benchmarks/counted_work.json` has what is allowed: messages, bytes, XLA calls and wake-ups as they
are, Python calls up to a quarter more. `python benchmarks/counted_work.py --write` rewrites it
after a change that makes it less, or more for a reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def test_a_step_of_every_workload_costs_no_more_than_allowed():
    done = subprocess.run(
        [sys.executable, str(_ROOT / "benchmarks" / "counted_work.py")],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    if "better:" in done.stdout:
        warnings.warn(
            f"A step costs less than counted_work.json allows. Hold it there, by "
            f"`python benchmarks/counted_work.py --write`:\n{done.stdout}",
            stacklevel=1,
        )
