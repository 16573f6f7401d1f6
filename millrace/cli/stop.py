"""`millrace stop grpc://host:port`: ends the servers of a cluster."""

from __future__ import annotations

import argparse
import sys

from millrace.cli import security
from millrace.cli.status import NO_ADDRESS, ask, is_address
from millrace.core import errors
from millrace.rpc.service import Connection

SUMMARY = "stop the servers of a running cluster"
FAILED = 1
USAGE_ERROR = 2
_SECONDS = 3.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which cluster, and how much of it."""
    parser.add_argument("target", help="grpc://host:port of any of its tasks")
    parser.add_argument("--only", action="store_true", help="stop this task, not the others")
    security.add_arguments(parser, serves=False)


def run(arguments: argparse.Namespace) -> int:
    """Asks every server to stop; those that do not answer are named."""
    address = arguments.target.removeprefix("grpc://")
    if not is_address(address):
        print(f"millrace stop: {address} is no {NO_ADDRESS}", file=sys.stderr)
        return USAGE_ERROR
    try:
        security.set_environment(arguments)
        cluster = ask(address)["cluster"]
    except ValueError as error:
        print(f"millrace stop: {error}", file=sys.stderr)
        return FAILED
    except errors.OpError as error:
        print(f"millrace stop: {address} does not answer: {error.message}", file=sys.stderr)
        return FAILED
    places = [place for tasks in cluster.values() for place in tasks.values()]
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
