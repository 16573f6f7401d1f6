"""`millrace task SCRIPT`: one task of a job, started by whatever scheduler there is.

It finds its place in the environment, tells the program in the way that the program wants, and
ends with the program's exit code.
"""

from __future__ import annotations

import argparse
import functools
import os
import socket
import sys
import time
from pathlib import Path

from millrace.cli import program_source, security
from millrace.cli import run as runner
from millrace.cli.job import ENVIRONMENT, FLAGS, SERVERS, index_flag_of, way_of
from millrace.launchers import place as places
from millrace.launchers.place import Place, Wanted
from millrace.platform.wait_reporter import WaitReporter

SUMMARY = "run one task of a job, for a scheduler: its place is found in the environment"
USAGE_ERROR = 2
_RESOLVE_SECONDS = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The program, and what the environment does not say."""
    parser.add_argument("--ps", type=int, default=1, help="of ranks: so many are ps, the first (1)")
    parser.add_argument("--hosts", default="", help="of ranks: the machines in their order: a,b,c")
    parser.add_argument("--port", type=int, help="of ranks: the first port of each machine")
    parser.add_argument(
        "--cluster-via",
        choices=(FLAGS, ENVIRONMENT),
        help="how the program learns its cluster (found out from its source)",
    )
    parser.add_argument(
        "--wait-for-names",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="how long the names of the other tasks may take to resolve (300)",
    )
    parser.add_argument("--show", action="store_true", help="print the place, and run nothing")
    security.add_arguments(parser)
    parser.add_argument("script", help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments, after --")


def run(arguments: argparse.Namespace) -> int:
    """Finds the place, waits for the names, runs the program."""
    hosts = tuple(host for host in arguments.hosts.split(",") if host)
    script = Path(arguments.script)
    try:
        security.set_environment(arguments)
        place = places.find(os.environ, Wanted(arguments.ps, hosts, arguments.port))
        if not script.is_file():
            raise ValueError(f"there is no file {script} on {socket.gethostname()}")
        source = program_source.text_of(script)
        way = arguments.cluster_via or way_of(source) or ENVIRONMENT
        if way == SERVERS:
            raise ValueError(
                f"{script} is a client of servers that run already; `millrace launch` starts those"
            )
        if arguments.show:
            print(f"{place.job}:{place.index} of {place.cluster} ({place.found_in}), by {way}")
            return 0
        _wait_for_names(place, arguments.wait_for_names)
    except (ValueError, OSError) as error:
        print(f"millrace task: {error}", file=sys.stderr)
        return USAGE_ERROR
    if place.found_in != "TF_CONFIG":  # what somebody said on purpose need not be told
        print(f"millrace task: {place.job}:{place.index}, from {place.found_in}", file=sys.stderr)
    os.environ["TF_CONFIG"] = place.tf_config
    given = list(arguments.arguments)
    given = given[1:] if given[:1] == ["--"] else given
    if way == FLAGS:
        given += flags_of(place, index_flag_of(source))
    namespace = argparse.Namespace(script=str(script), arguments=given, hosts=None, is_module=False)
    return runner.run(namespace)


def flags_of(place: Place, index_flag: str) -> list[str]:
    """The flags that tell a program its place, as TensorFlow's own examples define them."""
    hosts = [f"--{job}_hosts={','.join(each)}" for job, each in place.cluster.items()]
    return [*hosts, f"--job_name={place.job}", f"--{index_flag}={place.index}"]


def _wait_for_names(place: Place, seconds: float) -> None:
    """Waits until every task's name resolves: a scheduler may know them only a while later.

    Raises:
      ValueError: One does not in time.
    """
    names = {address.rpartition(":")[0] for each in place.cluster.values() for address in each}
    deadline = time.monotonic() + seconds
    reporter = WaitReporter(f"{place.job}:{place.index} has waited")
    for name in sorted(names):
        while not _resolves(name):
            if time.monotonic() > deadline:
                raise ValueError(
                    f"the name {name} does not resolve on {socket.gethostname()}, and has not for "
                    f"{seconds:.0f} s"
                )
            reporter.tell(functools.partial("the name {} to resolve".format, name))
            time.sleep(_RESOLVE_SECONDS)


def _resolves(name: str) -> bool:
    try:
        socket.getaddrinfo(name.strip("[]"), None)
    except OSError:
        return False
    return True
