"""Input pipelines of Millrace and TensorFlow 2.21, by turns: examples per second.

    input.py [--rounds 3] [--seconds 4] [--tensorflow PYTHON] [--only NAME]

Five pipelines, each one TF1 program (`input_pipelines.py`) that both libraries run unchanged on the
same files: a click log of Example messages, the same as CSV, JPEG pictures, lines, and arrays of
MNIST's size in memory. Each runs in a process of its own; a round runs all of them, one library
after the other, and only ratios within a round count. Beside examples per second it tells examples
per second of processor time, of all threads together, which differs less on a busy machine. Prints
a table and writes results/input.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

from environments import python_of
from input_pipelines import PIPELINES, write_files
from rich.console import Console
from rich.table import Table

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results" / "input.json"


def measure(python: str, library: str, name: str, folder: str, seconds: float) -> dict[str, float]:
    """Examples per second of one pipeline of one library, in a process of its own."""
    command = [python, str(HERE / "input_pipelines.py"), library, name, folder, str(seconds)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, timeout=600
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--tensorflow", default="")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    console = Console()
    tensorflow = options.tensorflow or python_of("tensorflow", console)
    names = [name for name in PIPELINES if options.only in name]
    found: dict[str, dict[str, list[dict[str, float]]]] = {
        name: {"millrace": [], "tensorflow": []} for name in names
    }
    with tempfile.TemporaryDirectory() as folder:
        write_files(folder)
        for round_number in range(options.rounds):
            for name in names:
                pythons = {"millrace": sys.executable, "tensorflow": tensorflow}
                order = list(pythons) if round_number % 2 == 0 else list(reversed(pythons))
                for library in order:
                    rate = measure(pythons[library], library, name, folder, options.seconds)
                    found[name][library].append(rate)
                    console.print(f"{name}: {library} {rate['examples_per_second']:,.0f}/s")
    table = Table("pipeline", "Millrace", "TensorFlow", "ratio", "of rounds", "of CPU time", "grew")
    for name, each in found.items():
        ours, theirs = (
            [r["examples_per_second"] for r in each[k]] for k in ("millrace", "tensorflow")
        )
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        of_cpu = statistics.median(
            a["examples_per_cpu_second"] / b["examples_per_cpu_second"]
            for a, b in zip(each["millrace"], each["tensorflow"], strict=True)
        )
        grown = max(r["mebibytes_grown"] for r in each["millrace"])
        table.add_row(
            PIPELINES[name].title,
            f"{statistics.median(ours):,.0f}",
            f"{statistics.median(theirs):,.0f}",
            f"{statistics.median(ratios):.2f}",
            f"{min(ratios):.2f} to {max(ratios):.2f}",
            f"{of_cpu:.2f}",
            f"{grown:.0f} MiB",
        )
    console.print(table)
    if not options.only:
        RESULTS.write_text(
            json.dumps(
                {
                    "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                    "machine": platform.platform(),
                    "cores": os.cpu_count(),
                    "seconds": options.seconds,
                    "pipelines": found,
                },
                indent=1,
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
