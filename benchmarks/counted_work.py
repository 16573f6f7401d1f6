"""What a step costs, counted instead of timed: messages, bytes, XLA calls, wake-ups.

The counts do not depend on how busy the machine is, so a test holds them (`counted_work.json` has
what is allowed). One process has the ps tasks of a workload, this one has its workers, and they
talk as they do in a benchmark. A *step* is one worker's step, or of a synchronous workload a round
of all workers; workers take turns, so that the counts do not depend on who is quicker.

    python benchmarks/counted_work.py [--only WORKLOAD] [--functions 30] [--write]

`--functions` names the functions that are called most in a step, `--write` sets what is allowed to
what is found. It fails when a count is above what is allowed. Messages, bytes and XLA calls must
not grow at all. Wake-ups (how often a thread of a ps goes to sleep and is woken) and Python calls
may grow by a quarter: they are there to find what happens too often, not to forbid a function that
makes the code clearer. How many functions Python calls for the same lines depends on its version:
other versions than the one that wrote the file are held to the other counts only.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import gc
import itertools
import json
import os
import pathlib
import queue
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import python_calls  # noqa: E402
from cluster_workloads import WORKLOADS, Workload, embedding, mlp, open_replica  # noqa: E402
from local_workloads import cnn_loss, digits  # noqa: E402
from processes import free_ports  # noqa: E402

ALLOWED = HERE / "counted_work.json"
WRITE = "python benchmarks/counted_work.py --write"
PYTHON = ".".join(map(str, sys.version_info[:2]))
#: By how much Python calls and wake-ups may grow.
TOLERANCE = 0.25
#: Steps before counting: compilation, connections, and what is learned from the first steps.
WARM_STEPS = 6
STEPS = 15
#: A task that nobody waits for makes no calls, pings would be counted, and programs that are
#: compiled in the background would be there in some steps and not in others.
QUIET = {
    "MILLRACE_SPIN": "0",
    "MILLRACE_HEARTBEAT_SECONDS": "1000",
    "MILLRACE_COMPILE": "now",
}
GRPC_THREADS = ("event_engine", "grpc_", "lifeguard", "timer_manager")
COUNTS = (
    "messages",
    "bytes",
    "xla_calls",
    "ps_wake_ups",
    "ps_python_calls",
    "worker_python_calls",
)


def small_cnn(tf: Any) -> tuple[Any, Iterator[dict]]:
    """The CNN of the benchmark with few images in a batch: only the arithmetic is less."""
    x, y_, loss = cnn_loss(tf)
    images, labels = digits(40)

    def feeds() -> Iterator[dict]:
        while True:
            for i in range(0, len(images), 4):
                yield {x: images[i : i + 4], y_: labels[i : i + 4]}

    return loss, feeds()


#: The benchmark's workloads, smaller where the counts do not depend on the size.
CASES: dict[str, Workload] = {
    **{name: WORKLOADS[name] for name in ("mlp_async_1_1", "mlp_async_1_2", "mlp_sync_1_2")},
    "mlp_4096_2_2": dataclasses.replace(
        WORKLOADS["mlp_4096_2_2"], model=lambda tf: mlp(tf, 4096, batch=10)
    ),
    "embedding_2_2": dataclasses.replace(
        WORKLOADS["embedding_2_2"], model=functools.partial(embedding, rows=100_000)
    ),
    "cnn_1_2": dataclasses.replace(WORKLOADS["cnn_1_2"], model=small_cnn),
}


class _Strangers(dict[str, Any]):
    """Makes tasks of one process talk as if they were in two."""

    def get(self, key: str, default: Any = None) -> Any:
        return default


def get_ready() -> Any:
    """Counts in all threads that Millrace starts; returns it."""
    python_calls.watch_new_threads()
    import millrace
    from millrace.rpc import turns
    from millrace.server.peers import Peers

    Peers._of_this_process = _Strangers()
    # We look between two steps, and no worker does: it would be taken for the end of all steps.
    turns._GRACE = 2.0
    return millrace


# -- The process of the ps tasks ---------------------------------------------------------------


def counted(servers: list[Any]) -> dict[str, int]:
    """What the servers of this process have done so far."""
    found = {"messages": 0, "received": 0, "bytes": 0, "xla_calls": 0, "running": 0}
    for server in servers:
        for traffic in server.peers.traffic().values():
            found["messages"] += traffic.messages_sent
            found["received"] += traffic.messages_received
            found["bytes"] += traffic.bytes_sent
        status = server.worker.status()
        found["xla_calls"] += status["xla_calls"]
        found["running"] += status["running_steps"]
    return {**found, "python_calls": python_calls.total()}


def switches() -> int:
    """How often the threads of this process have gone to sleep so far.

    Without the first thread, which answers us, and gRPC's own, which look after their connections
    from time to time, whether there are steps or not.
    """
    found = 0
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # It has ended.
            status = (task / "status").read_text()
            name = status.removeprefix("Name:\t").partition("\n")[0]
            if task.name != str(os.getpid()) and not name.startswith(GRPC_THREADS):
                count = status.partition("\nvoluntary_ctxt_switches:")[2]
                found += int(count.split(maxsplit=1)[0])
    return found


def serve() -> None:
    """Makes servers, tells their counts and stops them as lines of the input say."""
    tf = get_ready()
    servers: list[Any] = []
    for line in sys.stdin:
        question, *rest = json.loads(line)
        answer: Any = None
        if question == "start":
            spec = tf.train.ClusterSpec(rest[0])
            servers = [tf.train.Server(spec, "ps", i) for i in range(len(rest[0]["ps"]))]
        elif question == "collect":
            gc.collect()
            (gc.disable if rest[0] else gc.enable)()
        elif question == "count":
            answer = counted(servers)
        elif question == "switches":
            answer = switches()
        elif question == "functions":
            answer = python_calls.by_function()
        elif question == "stop":
            for server in servers:
                server.stop()
            servers = []
        print("@" + json.dumps(answer), flush=True)


class PsProcess:
    """The process that has the ps tasks."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **QUIET},
        )

    def ask(self, *question: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("@"):
                return json.loads(line[1:])
        raise SystemExit("The process of the ps tasks has ended; its errors are above.")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


# -- Counting ----------------------------------------------------------------------------------


class _Client:
    """A worker's program: a thread that makes a step when it is told to."""

    def __init__(self, once: Callable[[], Any]) -> None:
        self._once = once
        self._told: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while self._told.get():
            try:
                self._once()
            except BaseException as error:
                self._done.put(error)
            else:
                self._done.put(None)

    def begin(self) -> None:
        self._told.put(True)

    def wait(self) -> None:
        error = self._done.get()
        if error is not None:
            raise error

    def close(self) -> None:
        self._told.put(False)


class Cluster:
    """The tasks of a workload, and a replica for each worker.

    Attributes:
      hosts: Where the tasks are, by job.
    """

    def __init__(self, ps: PsProcess, workload: Workload) -> None:
        tf = get_ready()
        self._ps = ps
        self._workload = workload
        addresses = [f"127.0.0.1:{port}" for port in free_ports(workload.ps + workload.workers)]
        hosts = {"ps": addresses[: workload.ps], "worker": addresses[workload.ps :]}
        ps.ask("start", hosts)
        self.hosts = hosts
        spec = tf.train.ClusterSpec(hosts)
        self._servers = [tf.train.Server(spec, "worker", i) for i in range(workload.workers)]
        self._sessions: list[Any] = []
        self._clients: list[_Client] = []
        for i, server in enumerate(self._servers):
            with tf.Graph().as_default():
                once, session = open_replica(tf, server, spec, i, workload)
            self._clients.append(_Client(once))
            self._sessions.append(session)
        self._turn = 0

    def step(self) -> None:
        """One worker's step, or a round of all."""
        if self._workload.synchronous:
            chosen = self._clients
        else:
            chosen = [self._clients[self._turn % len(self._clients)]]
            self._turn += 1
        for client in chosen:
            client.begin()
        for client in chosen:
            client.wait()

    def count(self) -> dict[str, int]:
        """What all tasks have done so far; waits until they do nothing."""
        before, since, deadline = None, time.monotonic(), time.monotonic() + 60
        while True:
            ours, theirs = counted(self._servers), self._ps.ask("count")
            if (ours, theirs) != before:
                before, since = (ours, theirs), time.monotonic()
            sent = ours["messages"] + theirs["messages"]
            if sent == ours["received"] + theirs["received"] and time.monotonic() > since + 0.004:
                break
            if time.monotonic() > deadline:
                raise SystemExit(f"The tasks do not come to rest: {ours}, {theirs}")
            time.sleep(0.001)
        return {
            **{name: ours[name] + theirs[name] for name in ("messages", "bytes", "xla_calls")},
            "ps_wake_ups": self._ps.ask("switches"),
            "ps_python_calls": theirs["python_calls"],
            "worker_python_calls": ours["python_calls"],
        }

    def close(self) -> None:
        for client in self._clients:
            client.close()
        for session in reversed(self._sessions):
            with contextlib.suppress(Exception):
                session.close()
        for server in self._servers:
            server.stop()
        self._ps.ask("stop")


def count_work(
    ps: PsProcess, workload: Workload, functions: int = 0
) -> tuple[dict[str, float], dict[str, list[tuple[str, float]]]]:
    """The counts of a step, and the functions that are called most, by job."""
    cluster = Cluster(ps, workload)
    try:
        for _ in range(WARM_STEPS * workload.workers):
            cluster.step()
        gc.collect()
        gc.disable()  # What it calls would be found in any step.
        ps.ask("collect", True)
        marks = [cluster.count()]
        called = {"worker": python_calls.by_function(), "ps": ps.ask("functions")}
        for _ in range(STEPS):
            cluster.step()
            marks.append(cluster.count())
        after = {"worker": python_calls.by_function(), "ps": ps.ask("functions")}
    finally:
        gc.enable()
        ps.ask("collect", False)
        cluster.close()
    found: dict[str, float] = {}
    for name in COUNTS:
        if name.endswith(("python_calls", "wake_ups")):
            steps = [b[name] - a[name] for a, b in itertools.pairwise(marks)]
            # Which task comes first, and which has to wait, costs a few more or less.
            found[name] = round(statistics.median(steps))
        else:
            made = (marks[-1][name] - marks[0][name]) / STEPS
            found[name] = int(made) if made == int(made) else round(made, 2)
    most = {}
    for job, counts in after.items():
        a_step = {name: (n - called[job].get(name, 0)) / STEPS for name, n in counts.items()}
        most[job] = sorted(a_step.items(), key=lambda item: -item[1])[:functions]
    return found, most


def held(allowed: dict[str, float], version: str) -> Iterator[tuple[str, float, float]]:
    """The counts that are held, with what is allowed and how far off it may be."""
    for name in COUNTS:
        if name.endswith("wake_ups"):
            # A thread may find a lock taken, by chance, and sleep once more.
            yield name, allowed[name], max(1.0, allowed[name] * TOLERANCE)
        elif not name.endswith("python_calls"):
            yield name, allowed[name], 0.0
        elif version == PYTHON:
            yield name, allowed[name], allowed[name] * TOLERANCE


def differences(
    found: dict[str, float], allowed: dict[str, float], version: str
) -> tuple[list[str], list[str]]:
    """The counts that are above what is allowed, and those that are below, in words."""
    worse, better = [], []
    for name, limit, tolerance in held(allowed, version):
        said = f"{name.replace('_', ' ')} {found[name]:,} instead of {limit:,}"
        if found[name] > limit + tolerance:
            worse.append(said)
        elif found[name] < limit - tolerance:
            better.append(said)
    return worse, better


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=CASES, action="append", help="count this workload")
    parser.add_argument("--functions", type=int, default=0, help="name so many functions")
    parser.add_argument("--write", action="store_true", help=f"write {ALLOWED.name}")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.update(QUIET)
    if options.serve:
        serve()
        return 0
    allowed: dict[str, dict[str, float]] = {}
    version = PYTHON
    if ALLOWED.exists():
        record = json.loads(ALLOWED.read_text())
        allowed, version = record["workloads"], record["python"]
    found: dict[str, dict[str, float]] = {}
    failed = False
    ps = PsProcess()
    try:
        print(f"{'a step of':<14}", *(f"{name.replace('_', ' '):>19}" for name in COUNTS))
        for name in options.only or CASES:
            found[name], most = count_work(ps, CASES[name], options.functions)
            worse: list[str] = []
            better: list[str] = []
            if options.write:
                # The worse of two: by chance a step may go better than it usually does.
                found[name] = merge(max, found[name], count_work(ps, CASES[name])[0])
            elif name in allowed:
                worse, better = differences(found[name], allowed[name], version)
                for _ in range(2):
                    # By chance, or because the machine is busy, it may also go worse.
                    if worse:
                        found[name] = merge(min, found[name], count_work(ps, CASES[name])[0])
                        worse, better = differences(found[name], allowed[name], version)
            print(f"{name:<14}", *(f"{found[name][count]:>19,}" for count in COUNTS), flush=True)
            for job, counts in most.items():
                for function, count in counts:
                    print(f"    {job:<6} {count:8.2f}  {function}")
            for text in worse:
                print(f"    worse: {text}")
            for text in better:
                print(f"    better: {text}")
            failed = failed or bool(worse)
    finally:
        ps.close()
    if options.write:
        record = {
            "python": PYTHON,
            "workloads": {name: found.get(name, allowed.get(name)) for name in CASES},
        }
        ALLOWED.write_text(json.dumps(record, indent=2) + "\n")
        print(f"Written to {ALLOWED.relative_to(HERE.parent)}")
    elif failed:
        print(f"A step costs more than {ALLOWED.name} allows. If that is meant: {WRITE}")
    return 1 if failed else 0


def merge(
    choose: Callable[..., float], one: dict[str, float], other: dict[str, float]
) -> dict[str, float]:
    """The chosen of each count."""
    return {name: choose(one[name], other[name]) for name in one}


if __name__ == "__main__":
    sys.exit(main())
