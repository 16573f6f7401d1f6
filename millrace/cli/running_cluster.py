"""The cluster that a command looks at: a job by its name, the newest, or one task's address."""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
from typing import Any

from millrace.cli import security
from millrace.core import errors
from millrace.observe import job_record
from millrace.observe.job_record import JobRecord, NoJob
from millrace.platform.reachability import why_unreachable
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
    parser.add_argument(
        "target",
        nargs="?",
        help="a job's name or folder, or grpc://host:port of any task (the newest job)",
    )
    security.add_arguments(parser, serves=False)


def record_of(arguments: argparse.Namespace) -> JobRecord | None:
    """The job that was named, or the newest; None if it is an address that was named.

    Raises:
      NoCluster: There is no such job.
    """
    target = arguments.target
    try:
        if target is not None and ":" in target:
            return None
        return job_record.find(target)
    except NoJob as error:
        if target is not None and "/" not in target:
            sentence = f"{error}; an address is grpc://host:port"
            raise NoCluster(sentence, USAGE_ERROR) from None
        raise NoCluster(str(error), USAGE_ERROR) from None


def find(arguments: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The address and the status of a task that answers.

    Raises:
      NoCluster: There is no such job, it is over, it is no address, the keys make no sense, or
        nobody answers.
    """
    record = record_of(arguments)
    if record is None:
        addresses = [_checked(arguments.target.removeprefix("grpc://"))]
    else:
        if not record.is_running:
            raise NoCluster(f"job {record.name} is over{how_it_ended(record)}", FAILED)
        addresses = list(record.addresses.values())
        use_keys_of(record)
    if not addresses:
        raise NoCluster("the job has no task that serves", FAILED)
    try:
        security.set_environment(arguments)
    except ValueError as error:
        raise NoCluster(str(error), FAILED) from None
    with concurrent.futures.ThreadPoolExecutor(max_workers=32) as pool:
        answers = list(pool.map(try_to_ask, addresses))
    for address, answer in zip(addresses, answers, strict=True):
        if isinstance(answer, dict):
            return address, answer
    first = addresses[0]
    why = why_unreachable(first) or str(answers[0])
    if record is None:
        raise NoCluster(f"{first} does not answer: {why}", FAILED)
    raise NoCluster(f"none of the tasks of job {record.name} answers: {why}", FAILED)


def how_it_ended(record: JobRecord) -> str:
    """The end of a sentence about a job that is over."""
    if record.exit_code is None:
        return " (its launcher is gone)"
    step = "" if record.global_step is None else f" at global step {record.global_step}"
    return f": it ended with {record.exit_code}{step}; its logs are in {record.folder}"


def use_keys_of(record: JobRecord) -> None:
    """Lets this process use the job's keys, unless it was given others."""
    for name, value in record.variables.items():
        os.environ.setdefault(name, value)


def _checked(address: str) -> str:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        sentence = f"{address} is no address of a task; one is grpc://host:port"
        raise NoCluster(sentence, USAGE_ERROR)
    return address


def try_to_ask(address: str) -> dict[str, Any] | str:
    """A task's status, or why there is none."""
    try:
        return ask(address)
    except errors.OpError as error:
        return error.message


def ask(address: str) -> dict[str, Any]:
    """A task's status."""
    connection = Connection(address)
    try:
        status: dict[str, Any] = json.loads(connection.status(_SECONDS))
        return status
    finally:
        connection.close()
