"""How long it takes until another worker is chief, from the SIGKILL of the elected one.

`python tests/process/takeover.py --turns 10` trains on a ps and three workers that elect their
chief with the built-in lease, kills the chief, and prints the seconds until another one says that
it is chief, and until it has written a checkpoint: median and worst. `test_election.py` has what
must happen, without times.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from test_election import Job

WORKERS = 3


def take_over(folder: Path, elect: str) -> tuple[float, float]:
    """Seconds from the death of the chief until there is another, and until he has saved."""
    job = Job(folder, WORKERS, elect, "--elect")
    names = [f"worker-{task}" for task in range(WORKERS)]
    try:
        job.start("ps", 0)
        for task in range(WORKERS):
            job.start("worker", task)
        job.wait_for(lambda: all("\nstep " in job.said(name) for name in names), "not all train")
        job.wait_for(lambda: job.step() >= 20, "no checkpoints were written")
        term, chief = job.chief()
        began = time.monotonic()
        job.signal(chief, signal.SIGKILL)
        job.processes[chief].wait()
        before = job.step()
        job.wait_for(lambda: job.chief()[0] > term, "nobody followed the chief")
        elected = time.monotonic() - began
        job.wait_for(lambda: job.step() > before, "the new chief wrote no checkpoint")
        return elected, time.monotonic() - began
    finally:
        job.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--elect", default="builtin", help="the address of the election")
    options = parser.parse_args()
    found = []
    for _ in range(options.turns):
        with tempfile.TemporaryDirectory() as folder:
            found.append(take_over(Path(folder), options.elect))
        print("another chief after {:.2f} s, his checkpoint after {:.2f} s".format(*found[-1]))
        sys.stdout.flush()
    elected, saved = zip(*found, strict=True)
    for what, times in (("another chief", elected), ("his checkpoint", saved)):
        print(f"{what:15} median {statistics.median(times):.2f} s, worst {max(times):.2f} s")


if __name__ == "__main__":
    main()
