"""How Millrace grows: the small MLP, asynchronous, with 1 to 8 workers and 1 to 4 ps.

For each size of the cluster, all on this machine: global steps per second; CPU time that a step
costs on the workers and on the ps (from the system, so all threads count); bytes between the tasks
for a step, beside the least possible, which is every parameter and every gradient once. Part of
`make bench`; on a machine with fewer cores than tasks, more workers can only keep the rate up.

    python benchmarks/scaling.py [--seconds 3] [--workers 1 2 4 8] [--ps 1 2 4] [--draw]

`--draw` only draws the picture for docs/performance.md anew from the results.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import sys
import time
from typing import Any

from live_cluster import LiveCluster
from processes import HERE, wide_console
from svg import COLORS, FAINT, Drawing, nice_steps

from millrace.cli.status import ask

RESULTS = HERE / "results" / "scaling.json"
PICTURE = HERE.parent / "docs" / "images" / "scaling.svg"
#: 784-100-10 with biases, float32: read once and written back once as gradients.
PARAMETER_BYTES = 4 * (784 * 100 + 100 + 100 * 10 + 10)
LEAST_BYTES = 2 * PARAMETER_BYTES


def snapshot(cluster: LiveCluster) -> dict[str, Any]:
    """What all tasks have done so far."""
    statuses = [ask(address) for address in cluster.hosts["ps"]]
    moved = 0
    for status in statuses:
        for peer, traffic in status["traffic"].items():
            # What goes from ps to ps is counted where it is sent.
            received = 0 if "/job:ps" in peer else traffic["bytes_received"]
            moved += traffic["bytes_sent"] + received
    return {
        "at": time.monotonic(),
        "step": max(status["global_step"] or 0 for status in statuses),
        "bytes": moved,
        **{job: [task.cpu_seconds() for task in each] for job, each in cluster.tasks.items()},
    }


def measure(ps: int, workers: int, seconds: float) -> dict[str, Any]:
    """The figures of one size of the cluster."""
    with LiveCluster(sys.executable, "millrace", "mlp_async_1_1", size=(ps, workers)) as cluster:
        cluster.loss()
        before = snapshot(cluster)
        time.sleep(seconds)
        after = snapshot(cluster)
    steps = max(1, after["step"] - before["step"])
    cpu = {
        job: [(b - a) / steps for a, b in zip(before[job], after[job], strict=True)]
        for job in cluster.tasks
    }
    return {
        "ps": ps,
        "workers": workers,
        "rate": steps / (after["at"] - before["at"]),
        "worker_cpu": sum(cpu["worker"]),
        "ps_cpu": sum(cpu["ps"]),
        "ps_cpu_each": cpu["ps"],
        "bytes": (after["bytes"] - before["bytes"]) / steps,
        "bytes_to_least": (after["bytes"] - before["bytes"]) / steps / LEAST_BYTES,
    }


# -- The picture -------------------------------------------------------------------------------


def draw(record: dict[str, Any], path: pathlib.Path) -> None:
    """Two charts: steps per second, and what a step costs."""
    rows = record["sizes"]
    ps_counts = sorted({row["ps"] for row in rows})
    worker_counts = sorted({row["workers"] for row in rows})
    found = {(row["ps"], row["workers"]): row for row in rows}
    drawing = Drawing(960, 400, "How Millrace grows with workers and ps tasks")
    top, bottom = 60.0, 310.0

    def axis(left: float, right: float, limit: float, title: str) -> float:
        drawing.text(left, 30, title, bold=True, size=15)
        values = nice_steps(limit)
        for value in values:
            y = bottom - (bottom - top) * value / values[-1]
            drawing.line([(left, y), (right, y)], FAINT)
            drawing.text(left - 8, y + 4, f"{value:g}", anchor="end", size=12)
        return values[-1]

    # Steps per second: a line for each number of ps tasks.
    left, right = 60.0, 430.0
    limit = axis(left, right, max(row["rate"] for row in rows), "global steps a second")
    place = {w: left + 40 + i * (right - left - 80) / max(1, len(worker_counts) - 1)
             for i, w in enumerate(worker_counts)}  # fmt: skip
    for color, ps in zip(COLORS, ps_counts, strict=False):
        points = []
        for workers in worker_counts:
            if row := found.get((ps, workers)):
                y = bottom - (bottom - top) * row["rate"] / limit
                points.append((place[workers], y))
        drawing.line(points, color, 2.5)
        for (x, y), workers in zip(points, worker_counts, strict=False):
            rate = found[ps, workers]["rate"]
            drawing.dot(x, y, color, f"{ps} ps, {workers} workers: {rate:.0f} steps/s")
    for workers, x in place.items():
        drawing.text(x, bottom + 20, f"{workers}", anchor="middle")
    drawing.text((left + right) / 2, bottom + 40, "workers", anchor="middle")
    for i, ps in enumerate(ps_counts):
        drawing.box(left + 90 * i, bottom + 56, 14, 14, COLORS[i])
        drawing.text(left + 90 * i + 20, bottom + 68, f"{ps} ps")

    # CPU time of a step: a bar for each size, workers above ps tasks.
    left, right = 540.0, 930.0
    most = max(row["worker_cpu"] + row["ps_cpu"] for row in rows) * 1000
    limit = axis(left, right, most, "CPU time of a step, ms")
    group = (right - left) / len(worker_counts)
    width = group * 0.8 / len(ps_counts)
    for i, workers in enumerate(worker_counts):
        for j, ps in enumerate(ps_counts):
            row = found.get((ps, workers))
            if row is None:
                continue
            x, y = left + group * (i + 0.1) + width * j, bottom
            for part, color in (("ps_cpu", COLORS[1]), ("worker_cpu", COLORS[0])):
                height = (bottom - top) * row[part] * 1000 / limit
                y -= height
                about = f"{ps} ps, {workers} workers: {part[:-4]} {row[part] * 1000:.2f} ms"
                drawing.box(x, y, width - 2, height, color, about)
            drawing.text(x + width / 2 - 1, y - 4, f"{ps} ps", anchor="middle", size=10)
        drawing.text(left + group * (i + 0.5), bottom + 20, f"{workers}", anchor="middle")
    drawing.text((left + right) / 2, bottom + 40, "workers", anchor="middle")
    for i, name in enumerate(("workers", "ps tasks")):
        drawing.box(left + 100 * i, bottom + 56, 14, 14, COLORS[i])
        drawing.text(left + 100 * i + 20, bottom + 68, name)
    drawing.text(
        940, 392, f"{record['machine']}, {record['date']}", anchor="end", size=11, color="#777"
    )
    drawing.save(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each size (default 3)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--ps", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--draw", action="store_true", help="draw the picture from the results")
    options = parser.parse_args()
    if options.draw:
        draw(json.loads(RESULTS.read_text()), PICTURE)
        return 0
    console = wide_console()
    columns = ("ps", "workers", "steps/s", "worker CPU", "ps CPU", "bytes", "to least")
    console.print(*(f"{name:>12}" for name in columns), sep="")
    rows = []
    for ps in options.ps:
        for workers in options.workers:
            row = measure(ps, workers, options.seconds)
            rows.append(row)
            cells = (
                f"{ps}", f"{workers}", f"{row['rate']:.0f}", f"{row['worker_cpu'] * 1000:.2f} ms",
                f"{row['ps_cpu'] * 1000:.2f} ms", f"{row['bytes']:,.0f}",
                f"{row['bytes_to_least']:.3f}",
            )  # fmt: skip
            console.print(*(f"{cell:>12}" for cell in cells), sep="", highlight=False)
    whole = {(row["ps"], row["workers"]) for row in rows} >= {
        (ps, workers) for ps in (1, 2, 4) for workers in (1, 2, 4, 8)
    }
    if whole:
        record = {
            "date": datetime.date.today().isoformat(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "load": round(os.getloadavg()[2], 1),
            "python": platform.python_version(),
            "seconds": options.seconds,
            "least_bytes": LEAST_BYTES,
            "sizes": rows,
        }
        RESULTS.write_text(json.dumps(record, indent=2) + "\n")
        draw(record, PICTURE)
        for path in (RESULTS, PICTURE):
            console.print(f"Written to {path.relative_to(HERE.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
