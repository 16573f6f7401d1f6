"""`millrace consistency [ssp:4] [JOB]`: how far ahead of the slowest worker the others may be."""

from __future__ import annotations

import argparse
import json
import sys

from millrace.cli import running_cluster
from millrace.cli.running_cluster import NoCluster, find
from millrace.core import errors
from millrace.core.cluster_spec import ClusterSpec
from millrace.protocol.consistency import FORMS, Dial
from millrace.rpc.service import Connection
from millrace.server.consistency import keeper_of

SUMMARY = "show or set how far ahead of the slowest worker the others may be"
_SECONDS = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The dial, and which cluster."""
    parser.add_argument("dial", nargs="?", help=f"{FORMS}; without it, it is shown")
    running_cluster.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Turns the dial of a running job, or shows it."""
    question: dict[str, str] = {}
    try:
        if arguments.dial is not None:
            question["dial"] = str(Dial.parse(arguments.dial))
        _, first = find(arguments)
    except ValueError as error:
        print(f"millrace consistency: {error}", file=sys.stderr)
        return running_cluster.USAGE_ERROR
    except NoCluster as error:
        print(f"millrace consistency: {error}", file=sys.stderr)
        return error.code
    jobs = {
        job: {int(index): place for index, place in tasks.items()}
        for job, tasks in first["cluster"].items()
    }
    connection = Connection(keeper_of(ClusterSpec(jobs)))
    try:
        told = json.loads(connection.consistency(json.dumps(question).encode(), _SECONDS))
    except errors.OpError as error:
        print(f"millrace consistency: {error.message}", file=sys.stderr)
        return running_cluster.FAILED
    finally:
        connection.close()
    print(f"consistency {told['dial']}")
    for worker, steps in sorted(told["clocks"].items()):
        print(f"  {worker}  {steps} steps")
    return 0
