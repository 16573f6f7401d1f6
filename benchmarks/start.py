"""The CPU time that tasks take until the first step, phase by phase: Millrace beside TensorFlow.

A cluster of one workload of `cluster_workloads.py` is started by turns on each library. CPU time,
because other work on the machine does not change it much; the best of all turns counts. How long it
takes by the clock is in `cluster.py`'s table.

    python benchmarks/start.py [--rounds 3] [--workload mlp_async_1_1]
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import sys
import tempfile
import time
from typing import Any

from environments import python_of
from processes import HERE, Task, environment_of, free_ports, wide_console
from rich.table import Table

RESULTS = HERE / "results" / "start.json"
#: How much less CPU time than TensorFlow all tasks together must take.
LEAST = 2.0
PHASES = ("import", "server", "graph", "session", "first step")


def play(library: str, name: str, job: str, index: int, hosts: dict[str, list[str]]) -> None:
    """One task, in a process of its own: says what each phase took."""
    from cluster_workloads import WORKLOADS
    from local_workloads import load

    spent = {}
    before = 0.0

    def note(phase: str) -> None:
        nonlocal before
        now = time.process_time()
        spent[phase], before = now - before, now

    tf = load(library)
    note("import")
    cluster = tf.train.ClusterSpec(hosts)
    server = tf.train.Server(cluster, job_name=job, task_index=index)
    note("server")
    if job == "ps":
        say(spent)
        server.join()
    workload = WORKLOADS[name]
    setter = tf.train.replica_device_setter(
        worker_device=f"/job:worker/task:{index}", cluster=cluster
    )
    with tf.device(setter):
        global_step = tf.train.get_or_create_global_step()
        loss, feeds = workload.model(tf)
        step = workload.optimizer(tf).minimize(loss, global_step=global_step)
    note("graph")
    session = tf.train.MonitoredTrainingSession(
        master=server.target, is_chief=index == 0, save_checkpoint_secs=None,
        save_checkpoint_steps=None, save_summaries_steps=None, save_summaries_secs=None,
        log_step_count_steps=None,
    )  # fmt: skip
    note("session")
    session.run([step, loss, global_step], next(feeds))
    note("first step")
    say(spent)
    sys.stdin.readline()
    os._exit(0)


def say(values: dict[str, Any]) -> None:
    """A report for the process that started this one."""
    print("@" + json.dumps(values), flush=True)


def measure(python: str, library: str, name: str, ps: int, workers: int) -> dict[str, Any]:
    """One cluster, from its start to the first step of its last worker."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(ps + workers)]
    hosts = {"ps": addresses[:ps], "worker": addresses[ps:]}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        tasks: dict[str, list[Task]] = {"ps": [], "worker": []}
        for job, each in hosts.items():
            for index in range(len(each)):
                log = stack.enter_context(open(pathlib.Path(folder) / f"{job}{index}", "w"))
                words = ["play", library, name, job, str(index), json.dumps(hosts)]
                task = Task([python, "start.py", *words], environment_of(library), log)
                stack.callback(task.end)
                tasks[job].append(task)
        reports = {job: [task.report() for task in each] for job, each in tasks.items()}
        total = {job: [task.cpu_seconds() for task in each] for job, each in tasks.items()}
        memory = {job: max(task.peak_bytes() for task in each) for job, each in tasks.items()}
    for report, seconds in zip(reports["ps"], total["ps"], strict=True):
        report["first step"] = seconds - sum(report.values())
    return {
        "phases": {job: each[0] for job, each in reports.items()},
        "seconds": {job: min(each) for job, each in total.items()},
        "all": sum(total["ps"]) + sum(total["worker"]),
        "peak_bytes": memory,
    }


def main() -> int:
    if sys.argv[1:2] == ["play"]:
        _, _, library, name, job, index, hosts = sys.argv
        play(library, name, job, int(index), json.loads(hosts))
    from cluster_workloads import WORKLOADS

    names = [name for name, workload in WORKLOADS.items() if not workload.synchronous]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (default 3)")
    parser.add_argument("--workload", choices=names, default=names[0])
    options = parser.parse_args()
    console = wide_console()
    pythons = {"tensorflow": python_of("tensorflow", console), "millrace": sys.executable}
    workload = WORKLOADS[options.workload]
    best: dict[str, dict[str, Any]] = {}
    for _ in range(options.rounds):
        for library, python in pythons.items():
            found = measure(python, library, options.workload, workload.ps, workload.workers)
            if library not in best or found["all"] < best[library]["all"]:
                best[library] = found
    ratio = best["tensorflow"]["all"] / best["millrace"]["all"]
    console.print(table_of(workload.title, best))
    console.print(f"All tasks together: {ratio:.2f} times less than TensorFlow ({LEAST} wanted).")
    record = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": round(os.getloadavg()[2], 1),
        "python": platform.python_version(),
        "workload": options.workload,
        "rounds": options.rounds,
        "ratio": ratio,
        **best,
    }
    RESULTS.write_text(json.dumps(record, indent=2) + "\n")
    return 0 if ratio >= LEAST else 1


def table_of(title: str, best: dict[str, dict[str, Any]]) -> Table:
    """The figures, for people."""
    table = Table(title=f"{title}: CPU seconds until the first step")
    columns = [(library, job) for job in ("ps", "worker") for library in best]
    table.add_column("phase")
    for library, job in columns:
        table.add_column(f"{job}, {library}", justify="right")
    for phase in PHASES:
        found = [best[library]["phases"][job].get(phase) for library, job in columns]
        table.add_row(phase, *("" if each is None else f"{each:.2f}" for each in found))
    seconds = [best[library]["seconds"][job] for library, job in columns]
    table.add_row("all", *(f"{each:.2f}" for each in seconds))
    memory = [best[library]["peak_bytes"][job] / 1e6 for library, job in columns]
    table.add_row("memory, MB", *(f"{each:.0f}" for each in memory))
    return table


if __name__ == "__main__":
    sys.exit(main())
