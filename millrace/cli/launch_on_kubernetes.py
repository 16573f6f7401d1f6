"""`millrace launch --on kubernetes`: makes a job's resources on a cluster, and follows them."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from millrace.cli import manifest as manifests
from millrace.launchers.kubernetes_api import Cluster, follow
from millrace.observe import job_record
from millrace.observe.job_record import ENDED, JobRecord

FAILED = 1
INTERRUPTED = 130
#: Beside the job's record: which resources are its own, without their contents.
_RESOURCES = "resources.json"
_OPTIONS = ("namespace", "queue", "volume", "ps-resources", "worker-resources", "plain-jobs", "tls")


def run(arguments: argparse.Namespace, given: list[str]) -> int:
    """Runs the job to its end; Ctrl-C takes it away.

    Raises:
      KubernetesError: No cluster answers, or it refuses.
      ValueError: No job can be made of these arguments.
    """
    words = ["--image", arguments.image, "--ps", str(arguments.ps)]
    words += ["--workers", str(arguments.workers), "--restarts", str(arguments.max_restarts)]
    if arguments.name:
        words += ["--name", arguments.name]
    for option in arguments.scheduler_option:
        name = option.partition("=")[0]
        if name not in _OPTIONS:
            raise ValueError(
                f"--scheduler-option {option}: for Kubernetes there are {', '.join(_OPTIONS)}"
            )
        words.append(f"--{option}")
    found, resources = manifests.resources_for([*words, arguments.script, "--", *given])
    if arguments.dry_run:
        print(manifests.as_yaml(resources), end="")
        return 0
    cluster = Cluster(found.namespace)
    name = arguments.name or job_record.name_for(arguments.script)
    folder = Path(arguments.logs or Path("millrace-logs") / name)
    folder.mkdir(parents=True, exist_ok=True)
    record = JobRecord(
        name,
        str(folder.absolute()),
        "kubernetes",
        [arguments.script, *given],
        identifier=f"{cluster.namespace}/{found.name}",
    )
    made: list[dict[str, Any]] = []
    _note_resources(folder, resources)
    try:
        for resource in resources:
            made.append(resource)
            cluster.create(resource)
        record.save()
        print(f"job {name} is {cluster.namespace}/{found.name} on Kubernetes", flush=True)
        if arguments.detach:
            made.clear()
            return 0
        # The last one is the JobSet, or the Job of the workers: its end is the job's.
        succeeded, why = follow(cluster, found.name, resources[-1])
        code = 0 if succeeded else FAILED
        if not succeeded:
            print(f"millrace launch: the job failed: {why}", file=sys.stderr)
            for line in cluster.last_lines(found.name):
                print(f"  {line}", file=sys.stderr)
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        for resource in reversed(made):
            cluster.delete(resource)
    record.state, record.exit_code = ENDED, code
    record.save()
    return code


def stop(record: JobRecord) -> None:
    """Takes a job's resources away, and with them its pods.

    Raises:
      KubernetesError: No cluster answers.
    """
    cluster = Cluster(record.identifier.partition("/")[0])
    for resource in reversed(json.loads((Path(record.folder) / _RESOURCES).read_text())):
        cluster.delete(resource)
    record.state, record.exit_code = ENDED, INTERRUPTED
    record.save()


def _note_resources(folder: Path, resources: list[dict[str, Any]]) -> None:
    """Writes down what to take away again."""
    named = [{"kind": r["kind"], "metadata": {"name": r["metadata"]["name"]}} for r in resources]
    (folder / _RESOURCES).write_text(json.dumps(named) + "\n")
