"""A job on Kubernetes, as resources: what `millrace manifest` prints.

Each kind of task (ps, chief, worker) is an indexed Job, and each pod runs `millrace task`, which
finds its number in JOB_COMPLETION_INDEX. A headless Service gives the pods names before they are
ready. With JobSet the Jobs are one resource, whose success is that of the workers; without, they
are two Jobs, and the ps end by themselves when the workers have left.

Pure: options in, plain dictionaries out.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from millrace.launchers.place import CLUSTER, JOB
from millrace.observe.observation import METRICS_PORT
from millrace.platform.file_access import ALLOWED_FOLDERS
from millrace.rpc.security import TLS_CA, TLS_CERTIFICATE, TLS_KEY, TOKEN_FILE

PORT, METRICS = 2222, 9100
_KEYS = "/var/run/millrace"
#: Where each file of the Secret is named to the tasks.
_FILES = {
    "token": TOKEN_FILE,
    "ca.pem": TLS_CA,
    "task.pem": TLS_CERTIFICATE,
    "task.key": TLS_KEY,
}
_QUEUE = "kueue.x-k8s.io/queue-name"
#: A Job's name, and a pod's below it, must fit a DNS label.
_LONGEST_NAME = 40
#: Between SIGTERM and SIGKILL: the chief saves.
_GRACE_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What is asked for.

    Attributes:
      name: Of all resources.
      image: Has Millrace and the program.
      tasks: How many of each kind, as ``{"ps": 2, "worker": 4}``.
      command: What a pod runs.
      secret: Files of the keys, by name (see `_FILES`).
      namespace: Where; the client's own when empty.
      variables: Further variables of the environment.
      requests: Resources of a pod by kind of task, as ``{"worker": {"cpu": "2"}}``; also limits.
      volumes: Claims and where they are mounted, for checkpoints.
      queue: Kueue's queue.
      restarts: How often pods that fail are started again.
      uses_jobset: Whether JobSet is installed.
    """

    name: str
    image: str
    tasks: Mapping[str, int]
    command: Sequence[str]
    secret: Mapping[str, bytes]
    namespace: str = ""
    variables: Sequence[Mapping[str, Any]] = ()
    requests: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    volumes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    queue: str = ""
    restarts: int = 3
    uses_jobset: bool = True

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", self.name):
            raise ValueError(
                f"{self.name!r} is no name for Kubernetes: lower-case letters, digits and `-`"
            )
        if len(self.name) > _LONGEST_NAME:
            raise ValueError(f"the name {self.name!r} is longer than {_LONGEST_NAME} letters")
        if not self.image:
            raise ValueError("name the image that has Millrace and the program: --image")
        if not any(count for job, count in self.tasks.items() if job != "ps"):
            raise ValueError("a job has at least one worker")

    @property
    def cluster(self) -> dict[str, list[str]]:
        """The addresses of all tasks: names that the headless Service gives."""
        between = "-0-" if self.uses_jobset else "-"
        return {
            job: [f"{self.name}-{job}{between}{i}.{self.name}:{PORT}" for i in range(count)]
            for job, count in self.tasks.items()
            if count
        }


def resources_of(manifest: Manifest) -> list[dict[str, Any]]:
    """Secret, Service, and a JobSet or Jobs, in the order in which they are to be made."""
    kinds = [job for job, count in manifest.tasks.items() if count]
    jobs = {job: _job_spec(manifest, job) for job in kinds}
    found = [_secret(manifest), _service(manifest)]
    if manifest.uses_jobset:
        return [*found, _jobset(manifest, jobs)]
    for job, spec in jobs.items():
        metadata = _queued(manifest, _metadata(manifest, f"{manifest.name}-{job}", job))
        found.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    return found


def hosts_of(manifest: Manifest) -> list[str]:
    """The names under which tasks are reached, for certificates."""
    addresses = [a for each in manifest.cluster.values() for a in each]
    return [address.rpartition(":")[0] for address in addresses]


def _metadata(manifest: Manifest, name: str, job: str = "") -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "millrace", "millrace/job": manifest.name}
    if job:
        labels["millrace/task"] = job
    found: dict[str, Any] = {"name": name, "labels": labels}
    if manifest.namespace:
        found["namespace"] = manifest.namespace
    return found


def _queued(manifest: Manifest, metadata: dict[str, Any]) -> dict[str, Any]:
    """The metadata of what Kueue holds back until there is room for it."""
    if manifest.queue:
        metadata["labels"][_QUEUE] = manifest.queue
    return metadata


def _secret(manifest: Manifest) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(manifest, f"{manifest.name}-keys"),
        "type": "Opaque",
        "data": {k: base64.b64encode(v).decode() for k, v in manifest.secret.items()},
    }


def _service(manifest: Manifest) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(manifest, manifest.name),
        "spec": {
            "clusterIP": "None",
            # Tasks look for each other before any of them is ready.
            "publishNotReadyAddresses": True,
            "selector": {"millrace/job": manifest.name},
            "ports": [
                {"name": "grpc", "port": PORT},
                {"name": "metrics", "port": METRICS},
            ],
        },
    }


def _jobset(manifest: Manifest, jobs: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    workers = [job for job in jobs if job != "ps"]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _queued(manifest, _metadata(manifest, manifest.name)),
        "spec": {
            # The Service above: JobSet's own is not made before the pods.
            "network": {"enableDNSHostnames": True, "subdomain": manifest.name},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": workers},
            "failurePolicy": {"maxRestarts": manifest.restarts},
            "replicatedJobs": [
                {"name": job, "replicas": 1, "template": {"spec": spec}}
                for job, spec in jobs.items()
            ],
        },
    }


def _job_spec(manifest: Manifest, job: str) -> dict[str, Any]:
    count = manifest.tasks[job]
    return {
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": count,
        # A pod that fails is started again where it was; the others go on.
        "backoffLimit": manifest.restarts * count,
        "template": {
            "metadata": {"labels": _metadata(manifest, "", job)["labels"]},
            "spec": _pod_spec(manifest, job),
        },
    }


def _pod_spec(manifest: Manifest, job: str) -> dict[str, Any]:
    mounts = [{"name": "keys", "mountPath": _KEYS, "readOnly": True}]
    volumes: list[dict[str, Any]] = [
        {"name": "keys", "secret": {"secretName": f"{manifest.name}-keys", "defaultMode": 0o440}}
    ]
    for number, (claim, path) in enumerate(manifest.volumes.items()):
        mounts.append({"name": f"data-{number}", "mountPath": path})
        volumes.append({"name": f"data-{number}", "persistentVolumeClaim": {"claimName": claim}})
    container: dict[str, Any] = {
        "name": "task",
        "image": manifest.image,
        "command": list(manifest.command),
        "env": _variables(manifest, job),
        "ports": [
            {"name": "grpc", "containerPort": PORT},
            {"name": "metrics", "containerPort": METRICS},
        ],
        "startupProbe": _probe("/healthz", failureThreshold=60),
        "livenessProbe": _probe("/healthz", failureThreshold=6),
        "readinessProbe": _probe("/readyz"),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }
    wanted = dict(manifest.requests.get(job, {}))
    if wanted:
        container["resources"] = {"requests": wanted, "limits": wanted}
    return {
        "restartPolicy": "OnFailure",
        "subdomain": manifest.name,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
    }


def _variables(manifest: Manifest, job: str) -> list[dict[str, Any]]:
    found = {
        CLUSTER: json.dumps(manifest.cluster),
        JOB: job,
        "MILLRACE_BIND": f"0.0.0.0:{PORT}",
        "MILLRACE_GRACE_SECONDS": str(_GRACE_SECONDS - 10),
        METRICS_PORT: f"0.0.0.0:{METRICS}",
    }
    found |= {_FILES[name]: f"{_KEYS}/{name}" for name in manifest.secret if name in _FILES}
    if manifest.volumes:
        found[ALLOWED_FOLDERS] = ":".join(manifest.volumes.values())
    own = [{"name": name, "value": value} for name, value in found.items()]
    return [*own, *({**each} for each in manifest.variables if each.get("name") not in found)]


def _probe(path: str, **more: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "metrics"}, "periodSeconds": 5, **more}
