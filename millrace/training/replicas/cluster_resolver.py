"""Who is in the cluster, and which task am I: told by the environment or by the program.

`TFConfigClusterResolver` reads the variable TF_CONFIG, which job launchers (Kubernetes operators,
YARN, `millrace launch`) set for each process. It is read when asked, not when made.
"""

from __future__ import annotations

import json
import os
from typing import Any

from millrace.core.cluster_spec import ClusterSpec

__all__ = ["ClusterResolver", "SimpleClusterResolver", "TFConfigClusterResolver"]

_VARIABLE = "TF_CONFIG"


class ClusterResolver:
    """What every resolver can tell.

    Attributes:
      task_type: The job of this task, or None.
      task_id: Its number, or None.
      rpc_layer: The protocol's name for addresses, such as ``grpc``.
      environment: Where the program runs, in a word, or ``""``.
    """

    task_type: str | None
    task_id: int | None
    rpc_layer: str | None
    environment: str | None = ""

    def cluster_spec(self) -> ClusterSpec:
        """The cluster."""
        raise NotImplementedError

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """The target for a session on a task."""
        raise NotImplementedError

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """How many accelerators the task has, by kind: none that Millrace places ops on."""
        return {}


class SimpleClusterResolver(ClusterResolver):
    """A cluster that the program gives."""

    def __init__(
        self,
        cluster_spec: ClusterSpec,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        num_accelerators: dict[str, int] | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        if not isinstance(cluster_spec, ClusterSpec):
            raise TypeError("cluster_spec must be a `tf.train.ClusterSpec`.")
        self._cluster_spec = cluster_spec
        self._master = master
        self._num_accelerators = num_accelerators
        self.task_type = task_type
        self.task_id = task_id
        self.environment = environment
        self.rpc_layer = rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        """The cluster."""
        return self._cluster_spec

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """The target of the named task, or the one that was given."""
        address = self._master
        if task_type is not None and task_id is not None:
            address = self._cluster_spec.task_address(task_type, task_id)
        return _target(address, rpc_layer or self.rpc_layer)

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """What was given."""
        return dict(self._num_accelerators or {})


class TFConfigClusterResolver(ClusterResolver):
    """The cluster that the environment variable TF_CONFIG describes.

    Its value is JSON: ``{"cluster": {"ps": ["host:port"], "worker": {"1": "host:port"}},
    "task": {"type": "worker", "index": 1}}``; a job is a list, or names only some of its tasks.
    """

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        """Makes a resolver; what is given here goes before what TF_CONFIG says."""
        self._task_type = task_type
        self._task_id = task_id
        self._rpc_layer = rpc_layer
        self.environment = environment

    @property
    def task_type(self) -> str | None:  # type: ignore[override]
        """The job of this task."""
        if self._task_type is not None:
            return self._task_type
        found = _config().get("task", {}).get("type")
        return None if found is None else str(found)

    @property
    def task_id(self) -> int | None:  # type: ignore[override]
        """The number of this task."""
        if self._task_id is not None:
            return self._task_id
        found = _config().get("task", {}).get("index")
        return None if found is None else int(found)

    @property
    def rpc_layer(self) -> str | None:  # type: ignore[override]
        """The protocol's name for addresses."""
        return self._rpc_layer or _config().get("rpc_layer")

    def cluster_spec(self) -> ClusterSpec:
        """The cluster; without tasks when TF_CONFIG is not set.

        Raises:
          ValueError: TF_CONFIG is no JSON object.
        """
        jobs = _config().get("cluster", {})
        return ClusterSpec(
            {
                job: {int(k): v for k, v in tasks.items()} if isinstance(tasks, dict) else tasks
                for job, tasks in jobs.items()
            }
        )

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """The target of a task; ``""`` (this process) when the cluster has one task or none.

        Raises:
          ValueError: The cluster has no such task.
        """
        cluster = self.cluster_spec()
        if sum(cluster.num_tasks(job) for job in cluster.jobs) <= 1:
            return ""
        job = task_type if task_type is not None else self.task_type
        index = task_id if task_id is not None else self.task_id
        if job is None or index is None:
            raise ValueError(
                f"No such job in cluster: {job!r}. {_VARIABLE} has no "
                '"task": {"type": ..., "index": ...}.'
            )
        return _target(cluster.task_address(job, index), rpc_layer or self.rpc_layer)


def _target(address: str, rpc_layer: str | None) -> str:
    return f"{rpc_layer}://{address}" if rpc_layer else address


def _config() -> dict[str, Any]:
    text = os.environ.get(_VARIABLE) or "{}"
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{_VARIABLE} is no JSON ({error}): {text[:200]!r}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{_VARIABLE} must be a JSON object, got {text[:200]!r}")
    return found
