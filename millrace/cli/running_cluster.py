"""A cluster that runs, found by one of its tasks: what `millrace status` and `stop` begin with."""

from __future__ import annotations

import argparse
import json
from typing import Any

from millrace.cli import security
from millrace.core import errors
from millrace.rpc.service import Connection

FAILED = 1
USAGE_ERROR = 2
_SECONDS = 3.0


class NoCluster(Exception):
    """There is no cluster: a sentence that says why, and the exit code of the command."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which cluster, and the keys to it."""
    parser.add_argument("target", help="grpc://host:port of any of its tasks")
    security.add_arguments(parser, serves=False)


def find(arguments: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The address and the status of the task that was named.

    Raises:
      NoCluster: It is no address, the keys make no sense, or nobody answers.
    """
    address = arguments.target.removeprefix("grpc://")
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        sentence = f"{address} is no address of a task; one is grpc://host:port"
        raise NoCluster(sentence, USAGE_ERROR)
    try:
        security.set_environment(arguments)
        return address, ask(address)
    except ValueError as error:
        raise NoCluster(str(error), FAILED) from None
    except errors.OpError as error:
        raise NoCluster(f"{address} does not answer: {error.message}", FAILED) from None


def ask(address: str) -> dict[str, Any]:
    """A task's status."""
    connection = Connection(address)
    try:
        status: dict[str, Any] = json.loads(connection.status(_SECONDS))
        return status
    finally:
        connection.close()
