"""`millrace stop grpc://host:port`: ends the servers of a cluster."""

from __future__ import annotations

import argparse
import sys

from millrace.cli import running_cluster
from millrace.cli.running_cluster import NoCluster, find
from millrace.core import errors
from millrace.rpc.service import Connection

SUMMARY = "stop the servers of a running cluster"
_SECONDS = 3.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which cluster, and how much of it."""
    running_cluster.add_arguments(parser)
    parser.add_argument("--only", action="store_true", help="stop this task, not the others")


def run(arguments: argparse.Namespace) -> int:
    """Asks every server to stop; those that do not answer are named."""
    try:
        address, first = find(arguments)
    except NoCluster as error:
        print(f"millrace stop: {error}", file=sys.stderr)
        return error.code
    places = [place for tasks in first["cluster"].values() for place in tasks.values()]
    places = [address] if arguments.only else [*(p for p in places if p != address), address]
    for place in places:
        connection = Connection(place)
        try:
            connection.stop_server(_SECONDS)
            print(f"stopped {place}")
        except errors.OpError:
            print(f"{place} does not answer", file=sys.stderr)
        finally:
            connection.close()
    return 0
