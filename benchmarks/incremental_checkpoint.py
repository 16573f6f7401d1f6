"""What an incremental checkpoint costs: bytes and time of a full one, a delta, and restoring it.

python benchmarks/incremental_checkpoint.py [--rows N] [--columns N] [--share PERCENT]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import millrace as tf
from millrace.data.delta_bundle import data_bytes


def timed(what: str, run: Callable[[], Any]) -> Any:
    """Runs something and prints its CPU time and duration."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = run()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    size = f", {data_bytes(result):,} bytes" if isinstance(result, str) else ""
    print(f"{what}: {cpu:.2f} s of CPU, {wall:.2f} s{size}")
    return result


def main() -> None:
    """Saves a table, changes a share of its rows, saves again, restores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--share", type=float, default=1.0, help="percent of the rows that change")
    arguments = parser.parse_args()
    table = tf.get_variable("table", [arguments.rows, arguments.columns])
    rows = tf.placeholder(tf.int64, [None])
    change = tf.scatter_add(table, rows, tf.ones([tf.size(rows), arguments.columns]))
    saver = tf.train.Saver(keep_delta=True)
    count = int(arguments.rows * arguments.share / 100)
    changed = np.random.default_rng(0).permutation(arguments.rows)[:count]
    with tempfile.TemporaryDirectory() as folder, tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        path = f"{folder}/model"
        full = timed("full save", lambda: saver.save(sess, path, 0))
        for step in range(1, 4):
            sess.run(change.op, {rows: changed})
            delta = timed(
                f"incremental save {step}", lambda step=step: saver.save(sess, path, step)
            )
        print(f"{data_bytes(delta) / data_bytes(full):.2%} of the bytes")
        timed("restore of the full one", lambda: saver.restore(sess, full))
        timed("restore of the incremental one", lambda: saver.restore(sess, delta))


if __name__ == "__main__":
    main()
