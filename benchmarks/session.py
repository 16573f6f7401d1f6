"""How long it takes to create a session on a cluster that is up, Millrace beside TensorFlow.

One ps and two workers, each a process; the client is one more. A session counts as created when its
first step, which reads a variable of the ps, is over: TensorFlow's client tells its server of the
session only then. The first session of each cluster, which compiles, is not counted. Fails if
Millrace takes 0.2 s or more.

    python benchmarks/session.py [--sessions 20]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time

from environments import python_of
from processes import HERE, Task, free_ports
from rich.console import Console
from rich.table import Table

LIMIT_SECONDS = 0.2


def play(library: str, job: str, index: int, hosts: dict[str, list[str]], count: int) -> None:
    """What a task or the client does; in a process of its own."""
    if library == "millrace":
        import millrace as tf
    else:
        import tensorflow.compat.v1 as tf

        tf.disable_v2_behavior()
    if job != "client":
        server = tf.train.Server(tf.train.ClusterSpec(hosts), job_name=job, task_index=index)
        print("@" + json.dumps({"target": server.target}), flush=True)
        server.join()
    seconds = []
    for _ in range(count + 1):
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                v = tf.get_variable("v", initializer=1.0)
            began = time.perf_counter()
            with tf.Session(f"grpc://{hosts['worker'][0]}") as sess:
                if not seconds:
                    sess.run(v.initializer)
                sess.run(v)
                seconds.append(time.perf_counter() - began)
    print("@" + json.dumps({"seconds": seconds[1:]}), flush=True)


def measure(python: str, library: str, count: int) -> list[float]:
    """The times of one cluster's sessions."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
    hosts = {"ps": addresses[:1], "worker": addresses[1:]}
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment["PYTHONPATH"] = str(HERE.parent) if library == "millrace" else ""
    with tempfile.NamedTemporaryFile("w") as log, contextlib.ExitStack() as stack:

        def start(job: str, index: int) -> Task:
            command = [python, "session.py", "--play", library, job, str(index), json.dumps(hosts)]
            task = Task([*command, str(count)], environment, log)
            stack.callback(task.end)
            return task

        tasks = [start(job, i) for job, places in hosts.items() for i in range(len(places))]
        for task in tasks:
            task.report()
        found: list[float] = start("client", 0).report()["seconds"]
    return found


def main() -> int:
    """Measures both and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=20, help="of each (default 20)")
    parser.add_argument("--play", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        library, job, index, hosts, count = options.play
        play(library, job, int(index), json.loads(hosts), int(count))
        return 0
    console = Console()
    pythons = {"tensorflow": python_of("tensorflow", console), "millrace": sys.executable}
    table = Table(title="creating a session on 1 ps + 2 workers that are up, in milliseconds")
    for column in ("library", "best", "median", "worst"):
        table.add_column(column, justify="left" if column == "library" else "right")
    medians = {}
    for library, python in pythons.items():
        seconds = measure(python, library, options.sessions)
        medians[library] = statistics.median(seconds)
        figures = (min(seconds), medians[library], max(seconds))
        table.add_row(library, *(f"{figure * 1000:.1f}" for figure in figures))
    console.print(table)
    return 0 if medians["millrace"] < LIMIT_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
