"""`millrace server`: a bare server, for clients that run elsewhere."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from typing import Any

from millrace.cli import orderly_end, security
from millrace.core import errors
from millrace.platform.launcher import end_with_launcher
from millrace.server.server import Server

SUMMARY = "run a task's server and nothing else, for clients elsewhere"
FAILED = 1
USAGE_ERROR = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which task of which cluster."""
    parser.add_argument(
        "--cluster",
        help='as JSON: \'{"ps": ["host:port"], "worker": [...]}\'; '
        "TF_CONFIG is read when it is not given",
    )
    parser.add_argument("--job", help="the task's job")
    parser.add_argument("--task", type=int, help="the task's number")
    parser.add_argument("--protocol", help="grpc+fast (the default) or grpc")
    parser.add_argument(
        "--standby-of",
        metavar="HOST:PORT",
        help="follow the process that serves this task there, and take its place when it is gone "
        "(MILLRACE_VIEWS says which task keeps who serves)",
    )
    security.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serves until it is stopped: by Ctrl-C, SIGTERM, or `millrace stop`."""
    end_with_launcher()
    try:
        security.set_environment(arguments)
        cluster, job, task = _place(arguments)
        server = Server(
            cluster, job, task, protocol=arguments.protocol, standby_of=arguments.standby_of
        )
    except (ValueError, TypeError, errors.OpError) as error:
        print(f"millrace server: {error}", file=sys.stderr)
        return USAGE_ERROR if isinstance(error, ValueError | TypeError) else FAILED
    print(
        f"millrace server: /job:{server.server_def.job_name}/task:"
        f"{server.server_def.task_index} serves at {server.target}",
        flush=True,
    )
    orderly_end.install()
    with contextlib.suppress(KeyboardInterrupt):
        server.wait_until_stopped()
    orderly_end.end(0)


def _place(arguments: argparse.Namespace) -> tuple[Any, str | None, int | None]:
    if arguments.cluster:
        return json.loads(arguments.cluster), arguments.job, arguments.task
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    if "cluster" not in config:
        raise ValueError("say --cluster, or set TF_CONFIG")
    task = config.get("task", {})
    job = arguments.job or task.get("type")
    return (
        config["cluster"],
        job,
        arguments.task if arguments.task is not None else task.get("index"),
    )
