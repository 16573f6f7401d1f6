"""How long a worker waits for a save, and how much slower it is meanwhile.

Two ps tasks hold a table (1 GiB unless told otherwise), whose rows a worker trains while
`Saver.save_async` writes it. Printed are, of the worker's steps: the median before, the longest
before and during the save, the median during the save; and how long the tasks were closed for the
cut (decision 23). Only differences and ratios count: the machine does other things, too.

    checkpoint_pause.py [--mebibytes 1024] [--saves 5] [--seconds 3]

Writes results/checkpoint_pause.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from millrace.platform.ports import HeldPorts

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results" / "checkpoint_pause.json"
PS, WIDTH, BATCH = 2, 64, 512


def serve(cluster: dict[str, list[str]], index: int) -> None:
    """A ps: serves until its standard input is closed."""
    import millrace as tf

    server = tf.train.Server(cluster, "ps", index)
    sys.stdin.read()
    server.stop()


def measure(cluster: dict[str, list[str]], options: argparse.Namespace) -> dict[str, object]:
    """The worker: trains, saves, and says what it cost."""
    import numpy as np

    import millrace as tf

    server = tf.train.Server(cluster, "worker", 0)
    rows = options.mebibytes * (1 << 20) // (4 * WIDTH)
    device = tf.train.replica_device_setter(
        cluster=tf.train.ClusterSpec(cluster), worker_device="/job:worker/task:0"
    )
    with tf.device(device):
        ids = tf.placeholder(tf.int64, [BATCH])
        table = tf.get_variable(
            "table",
            [rows, WIDTH],
            initializer=tf.zeros_initializer(),
            partitioner=tf.fixed_size_partitioner(PS),
        )
        step = tf.train.get_or_create_global_step()
        found = tf.nn.embedding_lookup(table, ids, partition_strategy="div")
        loss = tf.reduce_sum(tf.square(found - 1.0))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    saver = tf.train.Saver(sharded=True, max_to_keep=1)
    chance = np.random.default_rng(1)
    with tf.Session(server.target) as session, tempfile.TemporaryDirectory() as folder:
        session.run(tf.global_variables_initializer())

        def one() -> float:
            batch = chance.integers(0, rows, BATCH)
            start = time.perf_counter()
            session.run(train, {ids: batch})
            return time.perf_counter() - start

        for _ in range(50):
            one()
        saves = []
        for number in range(options.saves):
            before, deadline = [], time.perf_counter() + options.seconds
            while time.perf_counter() < deadline:
                before.append(one())
            start = time.perf_counter()
            pending = saver.save_async(session, f"{folder}/m", number, write_meta_graph=False)
            cut = time.perf_counter() - start
            during = []
            while not pending.done:
                during.append(one())
            pending.result()
            saves.append(
                {
                    "cut ms": 1000 * cut,
                    "save s": time.perf_counter() - start,
                    "median before ms": 1000 * statistics.median(before),
                    "longest before ms": 1000 * max(before),
                    "first during ms": 1000 * during[0] if during else None,
                    "longest during ms": 1000 * max(during, default=0.0),
                    "median during ms": 1000 * statistics.median(during or [0.0]),
                }
            )
            print(json.dumps(saves[-1]), flush=True)
    server.stop()
    return {"date": str(datetime.date.today()), "mebibytes": options.mebibytes, "saves": saves}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--saves", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(json.loads(options.serve[0]), int(options.serve[1]))
        return
    with HeldPorts(PS + 1) as held:
        cluster = {"ps": held.addresses[:PS], "worker": held.addresses[PS:]}
    command = [sys.executable, __file__, "--serve", json.dumps(cluster)]
    tasks = [subprocess.Popen([*command, str(index)], stdin=subprocess.PIPE) for index in range(PS)]
    try:
        RESULTS.write_text(json.dumps(measure(cluster, options), indent=2) + "\n")
    finally:
        for task in tasks:
            task.communicate()


if __name__ == "__main__":
    main()
