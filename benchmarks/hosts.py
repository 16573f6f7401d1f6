"""Millrace and TensorFlow with each task on a host of its own, by turns.

The workloads are those of `cluster.py`. Every task has network and process namespaces of its own
(`virtual_hosts.py`), so that nothing passes in shared memory; the links between them are unlimited,
or have the rate that is asked for. Millrace also runs with a token and with TLS, which TensorFlow
does not have: their cost is told as a share of Millrace's own speed without them.

    python benchmarks/hosts.py [--link unlimited|10gbit|1gbit …] [--security plain|token|tls …]
                               [--rounds 2] [--turns 4] [--seconds 1] [--only WORKLOAD …]

Takes root. Where hosts cannot be made it says so, and ends with 0.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import secrets
import statistics
import sys
import tempfile
import time
from typing import Any, NamedTuple

from cluster_workloads import WORKLOADS
from environments import python_of
from live_cluster import LiveCluster
from processes import HERE, environment_of, wide_console
from rich.progress import Progress
from rich.table import Table
from virtual_hosts import CannotMakeHosts, Traffic, VirtualHosts, busiest

from millrace.rpc import certificates

RESULTS = HERE / "results" / "hosts.json"
LINKS = {"unlimited": None, "10gbit": 10e9, "1gbit": 1e9}
SECURITIES = ("plain", "token", "tls")
#: The ratio to TensorFlow's steps per second that must be reached on unlimited links.
LEAST = {
    "mlp_async_1_2": 4.0,
    "mlp_async_1_1": 4.0,
    "mlp_sync_1_2": 4.0,
    "mlp_4096_2_2": 2.2,
    "mlp_10000_1_1": 1.7,
    "embedding_2_2": 3.0,
    "cnn_1_2": 1.25,
}
#: What TLS may leave of the speed without it.
LEAST_WITH_TLS = 2 / 3


class Contender(NamedTuple):
    """A library, and how its tasks tell each other who they are."""

    library: str
    security: str

    def __str__(self) -> str:
        return self.library if self.security == "plain" else f"{self.library}, {self.security}"


PLAIN = Contender("millrace", "plain")
THEIRS = Contender("tensorflow", "plain")


def secured(contender: Contender, hosts: VirtualHosts, folder: pathlib.Path) -> dict[str, str]:
    """The environment of a contender's tasks."""
    environment = environment_of(contender.library)
    match contender.security:
        case "plain":
            environment["MILLRACE_INSECURE"] = "1"
        case "token":
            environment["MILLRACE_TOKEN"] = secrets.token_urlsafe(32)
        case "tls":
            names = [address.partition(":")[0] for address in hosts.addresses]
            made = certificates.make_folder(folder / "keys", ["task"], names, days=1)
            environment.update(made["task"])
    return environment


class Measured(NamedTuple):
    """One turn: global steps per second, and what the busiest link carried."""

    rate: float
    traffic: Traffic


def run_round(
    pythons: dict[Contender, str], name: str, link: str, turns: int, seconds: float
) -> dict[Contender, list[Measured]]:
    """All contenders' clusters, started one after the other, and then measured in short turns."""
    workload = WORKLOADS[name]
    found: dict[Contender, list[Measured]] = {contender: [] for contender in pythons}
    with contextlib.ExitStack() as stack:
        clusters: dict[Contender, tuple[LiveCluster, VirtualHosts]] = {}
        for contender, python in pythons.items():
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            rate = None if link == "unlimited" else link
            hosts = stack.enter_context(VirtualHosts(workload.ps + workload.workers, rate))
            environment = secured(contender, hosts, folder)
            cluster = stack.enter_context(
                LiveCluster(python, contender.library, name, environment=environment, on=hosts)
            )
            cluster.loss()  # Waits until it has trained for a while.
            cluster.stop()
            clusters[contender] = cluster, hosts
        for _ in range(turns):
            for contender, (cluster, hosts) in clusters.items():
                before, began = hosts.counted(), time.monotonic()
                turn = cluster.turn(seconds)
                traffic = busiest(before, hosts.counted(), time.monotonic() - began)
                found[contender].append(Measured(turn.rate, traffic))
    return found


def summary(link: str, rounds: list[dict[Contender, list[Measured]]]) -> dict[str, Any]:
    """Medians, Millrace's ratio to TensorFlow, and each way's share of Millrace's plain speed."""
    turns = {
        contender: [turn for found in rounds for turn in found[contender]]
        for contender in rounds[0]
    }

    def ratio(one: Contender, other: Contender) -> float:
        pairs = zip(turns[one], turns[other], strict=True)
        return statistics.median(mine.rate / max(theirs.rate, 1e-9) for mine, theirs in pairs)

    row: dict[str, Any] = {
        str(contender): {"rate": statistics.median(turn.rate for turn in found)}
        for contender, found in turns.items()
    }
    row["ratio"] = ratio(PLAIN, THEIRS)
    for contender in turns:
        if contender.security != "plain":
            row[contender.security] = ratio(contender, PLAIN)
    capacity = LINKS[link]
    if capacity is not None:
        for contender, found in turns.items():
            rates = (turn.traffic.rate for turn in found)
            row[str(contender)]["link"] = statistics.median(rates) / capacity
    return row


def table_of(link: str, rows: dict[str, dict[str, Any]], ways: list[str]) -> Table:
    """The figures of one kind of link, for people."""
    table = Table(title=f"a host for each task, links {link}: steps/s")
    heads = ["workload", "TensorFlow", "Millrace", "ratio"]
    heads += ["at least"] * (link == "unlimited")
    heads += ["link used, TensorFlow", "Millrace"] * (link != "unlimited")
    heads += [f"with {way}" for way in ways if way != "plain"]
    for head in heads:
        table.add_column(head, justify="left" if head == "workload" else "right")
    for name, row in rows.items():
        cells = [f"{row[str(each)]['rate']:.1f}" for each in (THEIRS, PLAIN)]
        reached = link != "unlimited" or row["ratio"] >= LEAST[name]
        cells.append(f"[{'green' if reached else 'red'}]{row['ratio']:.2f}")
        if link == "unlimited":
            cells.append(f"{LEAST[name]}")
        else:
            cells += [f"{row[str(each)]['link']:.0%}" for each in (THEIRS, PLAIN)]
        for way in ways:
            if way != "plain":
                bad = way == "tls" and row[way] < LEAST_WITH_TLS
                cells.append(f"[{'red' if bad else 'green'}]{row[way]:.2f}")
        table.add_row(WORKLOADS[name].title, *cells)
    return table


def falls_short(link: str, name: str, row: dict[str, Any]) -> bool:
    """Whether a row misses what it must reach."""
    if row.get("tls", 1.0) < LEAST_WITH_TLS:
        return True
    return link == "unlimited" and row["ratio"] < LEAST[name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--link", choices=LINKS, action="append", help="default: unlimited")
    parser.add_argument("--security", choices=SECURITIES, action="append", help="default: plain")
    parser.add_argument("--rounds", type=int, default=2, help="clusters of each (default 2)")
    parser.add_argument("--turns", type=int, default=4, help="of a cluster (default 4)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn (default 1)")
    parser.add_argument("--only", choices=LEAST, action="append", help="run this workload")
    options = parser.parse_args()
    console = wide_console()
    try:
        VirtualHosts(2, "1gbit").close()
    except CannotMakeHosts as error:
        console.print(f"Left out: {error}")
        return 0
    names = options.only or list(LEAST)
    links = options.link or ["unlimited"]
    ways = list(dict.fromkeys(["plain", *(options.security or [])]))
    pythons = {THEIRS: python_of("tensorflow", console)}
    pythons |= {Contender("millrace", way): sys.executable for way in ways}
    found: dict[str, dict[str, dict[str, Any]]] = {link: {} for link in links}
    with Progress(console=console) as progress:
        bar = progress.add_task("", total=len(links) * len(names) * options.rounds)
        for link in links:
            for name in names:
                rounds = []
                for number in range(options.rounds):
                    progress.update(bar, description=f"{link} {name} {number + 1}")
                    rounds.append(run_round(pythons, name, link, options.turns, options.seconds))
                    progress.advance(bar)
                found[link][name] = summary(link, rounds)
    for link, rows in found.items():
        console.print(table_of(link, rows, ways))
    if not options.only:
        record = {
            "date": datetime.date.today().isoformat(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "load": round(os.getloadavg()[2], 1),
            "rounds": options.rounds,
            "turns": options.turns,
            "seconds": options.seconds,
            "links": found,
        }
        RESULTS.write_text(json.dumps(record, indent=2) + "\n")
        console.print(f"Written to {RESULTS.relative_to(HERE.parent)}")
    short = [
        (link, name)
        for link, rows in found.items()
        for name, row in rows.items()
        if falls_short(link, name, row)
    ]
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
