"""`millrace manifest`: a job as resources of Kubernetes, for `kubectl apply -f -`."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import secrets
import sys
import tempfile
from pathlib import Path
from typing import Any

from millrace.launchers import kubernetes, tfjob
from millrace.launchers.kubernetes import Manifest
from millrace.observe import job_record
from millrace.rpc import certificates

SUMMARY = "print a job as resources of Kubernetes (JobSet, or indexed Jobs)"
USAGE_ERROR = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The job, and what a cluster needs to know."""
    parser.add_argument("--image", default="", help="has Millrace and the program")
    parser.add_argument("--ps", type=int, default=1, help="parameter servers (1)")
    parser.add_argument("--workers", type=int, default=2, help="workers (2)")
    parser.add_argument("--name", help="of the resources (the program's)")
    parser.add_argument("--namespace", default="", help="where (kubectl's own)")
    parser.add_argument("--queue", default="", help="Kueue's queue")
    parser.add_argument("--restarts", type=int, default=3, help="of pods that fail (3)")
    parser.add_argument(
        "--volume",
        action="append",
        default=[],
        metavar="CLAIM:PATH",
        help="a claim and where it is mounted, for checkpoints; may be repeated",
    )
    for job in ("ps", "worker"):
        parser.add_argument(
            f"--{job}-resources", default="", metavar="cpu=2,memory=4Gi", help=f"of a {job} pod"
        )
    parser.add_argument(
        "--plain-jobs", action="store_true", help="indexed Jobs, where JobSet is not installed"
    )
    parser.add_argument("--tls", action="store_true", help="certificates instead of a token")
    parser.add_argument("--from", dest="tfjob", type=Path, help="translate this TFJob of Kubeflow")
    parser.add_argument("script", nargs="?", help="the program, as the image has it")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments, after --")


def run(arguments: argparse.Namespace) -> int:
    """Prints the resources; what a TFJob has and they have not goes to standard error."""
    try:
        manifest, lost = _manifest(arguments)
        secret = _secret(manifest, arguments.tls)
        found = kubernetes.resources_of(dataclasses.replace(manifest, secret=secret))
        text = as_yaml(found)
    except (ValueError, OSError, KeyError) as error:
        sentence = " ".join(str(error).split())
        print(f"millrace manifest: {sentence}", file=sys.stderr)
        return USAGE_ERROR
    for sentence in lost:
        print(f"millrace manifest: {sentence}", file=sys.stderr)
    print(text, end="")
    return 0


def resources_for(words: list[str]) -> tuple[Manifest, list[dict[str, Any]]]:
    """The manifest and the resources that this command would print for such arguments.

    Raises:
      ValueError: No job can be made of them.
    """
    parser = argparse.ArgumentParser(prog="millrace manifest", exit_on_error=False)
    add_arguments(parser)
    try:
        arguments = parser.parse_args(words)
    except argparse.ArgumentError as error:
        raise ValueError(str(error)) from None
    manifest, _ = _manifest(arguments)
    secret = _secret(manifest, arguments.tls)
    return manifest, kubernetes.resources_of(dataclasses.replace(manifest, secret=secret))


def as_yaml(resources: list[dict[str, Any]]) -> str:
    """The resources as kubectl reads them.

    Raises:
      ValueError: PyYAML is missing.
    """
    text: str = _yaml().safe_dump_all(resources, sort_keys=False)
    return text


def _yaml() -> Any:
    try:
        return importlib.import_module("yaml")
    except ImportError:
        raise ValueError("PyYAML is missing: pip install 'millrace-tf[kubernetes]'") from None


def _manifest(arguments: argparse.Namespace) -> tuple[Manifest, list[str]]:
    if arguments.tfjob is not None:
        yaml = _yaml()
        try:
            given = yaml.safe_load(arguments.tfjob.read_text())
        except OSError as error:
            raise ValueError(f"cannot read {arguments.tfjob}: {error.strerror}") from None
        except yaml.YAMLError as error:
            raise ValueError(f"{arguments.tfjob} is no YAML: {error}") from None
        found, lost = tfjob.translate(given, {})
        changed = {
            "image": arguments.image or found.image,
            "name": arguments.name or found.name,
            "namespace": arguments.namespace or found.namespace,
            "queue": arguments.queue,
            "uses_jobset": not arguments.plain_jobs,
        }
        return dataclasses.replace(found, **changed), lost
    if arguments.script is None:
        raise ValueError("name the program, as the image has it, or --from a TFJob")
    if arguments.ps < 0:
        raise ValueError(f"--ps {arguments.ps}: a job has no parameter servers, or more")
    given = arguments.arguments
    given = given[1:] if given[:1] == ["--"] else given
    name = arguments.name or job_record.name_for(arguments.script).rpartition("-")[0]
    name = name.rpartition("-")[0] if not arguments.name else name
    return Manifest(
        name.lower().replace("_", "-").replace(".", "-"),
        arguments.image,
        {"ps": arguments.ps, "worker": arguments.workers},
        ["millrace", "task", arguments.script, "--", *given],
        {},
        namespace=arguments.namespace,
        requests={
            "ps": _pairs(arguments.ps_resources, "="),
            "worker": _pairs(arguments.worker_resources, "="),
        },
        volumes=_pairs(",".join(arguments.volume), ":"),
        queue=arguments.queue,
        restarts=arguments.restarts,
        uses_jobset=not arguments.plain_jobs,
    ), []


def _pairs(text: str, separator: str) -> dict[str, str]:
    found = {}
    for word in text.split(",") if text else []:
        name, _, value = word.partition(separator)
        if not name or not value:
            raise ValueError(f"{word!r} is not of the form name{separator}value")
        found[name] = value
    return found


def _secret(manifest: Manifest, tls: bool) -> dict[str, bytes]:
    """The keys of a new job."""
    if not tls:
        return {"token": secrets.token_urlsafe(32).encode()}
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "keys"
        certificates.make_folder(made, ["task"], kubernetes.hosts_of(manifest))
        return {
            "ca.pem": (made / certificates.AUTHORITY_FILE).read_bytes(),
            "task.pem": (made / "task.pem").read_bytes(),
            "task.key": (made / "task.key").read_bytes(),
        }
