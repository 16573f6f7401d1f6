"""`millrace stop [JOB]`: ends a job by its launcher, or the servers of a cluster one by one."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from millrace.cli import launch_on_kubernetes, running_cluster
from millrace.cli.running_cluster import NoCluster, find, how_it_ended
from millrace.core import errors
from millrace.launchers import slurm
from millrace.launchers.kubernetes_api import KubernetesError
from millrace.observe.job_record import JobRecord
from millrace.rpc.service import Connection

SUMMARY = "stop a job, or the servers of a running cluster"
_SECONDS = 3.0


#: A launcher gives its workers twelve seconds to end, and then its servers.
_LAUNCHER_SECONDS = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which cluster, and how much of it."""
    running_cluster.add_arguments(parser)
    parser.add_argument("--only", action="store_true", help="stop this task, not the others")


def run(arguments: argparse.Namespace) -> int:
    """Asks every server to stop; those that do not answer are named."""
    try:
        record = running_cluster.record_of(arguments)
        if record is not None and not arguments.only:
            return _stop_job(record)
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


def _stop_job(record: JobRecord) -> int:
    """Lets the launcher of a job end everything, as Ctrl-C there would."""
    if not record.is_running:
        raise NoCluster(f"job {record.name} is over{how_it_ended(record)}", running_cluster.FAILED)
    if record.launcher == "slurm":
        try:
            slurm.cancel(record.identifier)
        except slurm.SlurmError as error:
            raise NoCluster(str(error), running_cluster.FAILED) from None
        print(f"cancelled Slurm's job {record.identifier}, {record.name}")
        return 0
    if record.launcher == "kubernetes":
        try:
            launch_on_kubernetes.stop(record)
        except (KubernetesError, OSError) as error:
            raise NoCluster(str(error), running_cluster.FAILED) from None
        print(f"took {record.identifier} away from Kubernetes")
        return 0
    if record.pid is None or b"millrace" not in _command_of(record.pid):
        raise NoCluster(
            f"job {record.name} was not started by a launcher of this machine; name one of its "
            "tasks: grpc://host:port",
            running_cluster.FAILED,
        )
    os.kill(record.pid, signal.SIGTERM)
    deadline = time.monotonic() + _LAUNCHER_SECONDS
    while Path(f"/proc/{record.pid}").exists() and _command_of(record.pid):
        if time.monotonic() > deadline:
            print(f"millrace stop: job {record.name} has not ended yet", file=sys.stderr)
            return running_cluster.FAILED
        time.sleep(0.05)
    print(f"stopped job {record.name}")
    return 0


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
