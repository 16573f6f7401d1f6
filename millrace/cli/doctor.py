"""`millrace doctor [JOB]`: what is wrong with a job, and what to do."""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import sys
from collections.abc import Mapping
from typing import Any

from millrace.cli import running_cluster, security
from millrace.cli.running_cluster import NoCluster, find, how_it_ended, record_of, try_to_ask
from millrace.observe import doctor
from millrace.observe.job_record import short_name

SUMMARY = "say what is wrong with a running job, and what to do about it"
ILL = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which job."""
    running_cluster.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="the findings, as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Asks the tasks and prints the findings; 1 if there are any."""
    try:
        addresses = _addresses(arguments)
    except NoCluster as error:
        print(f"millrace doctor: {error}", file=sys.stderr)
        return error.code
    found = doctor.findings(doctor.examine(addresses, _ask_all))
    if arguments.json:
        print(json.dumps([dataclasses.asdict(finding) for finding in found], indent=2))
        return ILL if found else 0
    for finding in found:
        print(f"- {finding}")
    if not found:
        print(f"Nothing is wrong with the {len(addresses)} tasks that can be seen from here.")
    return ILL if found else 0


def _addresses(arguments: argparse.Namespace) -> dict[str, str]:
    """By task; of a job that was launched, also when none of its tasks answers."""
    record = record_of(arguments)
    if record is not None:
        if not record.is_running:
            raise NoCluster(f"job {record.name} is over{how_it_ended(record)}", ILL)
        running_cluster.use_keys_of(record)
        try:
            security.set_environment(arguments)
        except ValueError as error:
            raise NoCluster(str(error), ILL) from None
        return {short_name(name): address for name, address in record.addresses.items()}
    _, first = find(arguments)
    return {
        f"{job}:{index}": address
        for job, tasks in first["cluster"].items()
        for index, address in tasks.items()
    }


def _ask_all(addresses: Mapping[str, str]) -> dict[str, dict[str, Any] | str]:
    with concurrent.futures.ThreadPoolExecutor(max_workers=32) as pool:
        return dict(zip(addresses, pool.map(try_to_ask, addresses.values()), strict=True))
