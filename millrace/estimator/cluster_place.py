"""A task's place in a cluster, as the variable TF_CONFIG states it.

Pure: takes the parsed JSON and gives a `ClusterPlace`, or says what is wrong with it.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from millrace.core.cluster_spec import ClusterSpec

VARIABLE = "TF_CONFIG"
_LOCAL = ""


class TaskType:
    """The jobs of a training."""

    MASTER = "master"
    PS = "ps"
    WORKER = "worker"
    CHIEF = "chief"
    EVALUATOR = "evaluator"


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterPlace:
    """Which task this process is, and what it has to know of the others."""

    cluster_spec: ClusterSpec
    task_type: str
    task_id: int
    is_chief: bool
    #: Targets of sessions; "" for one in this process.
    master: str
    evaluation_master: str
    num_ps_replicas: int
    num_worker_replicas: int
    #: The chief is 0, then come the workers, then the ps; None for an evaluator.
    global_id_in_cluster: int | None
    service: Mapping[str, Any] | None


def read_tf_config() -> dict[str, Any]:
    """What TF_CONFIG says; nothing if it is not set.

    Raises:
      ValueError: It is no JSON object.
    """
    text = os.environ.get(VARIABLE) or "{}"
    try:
        found = json.loads(text)
    except ValueError as error:
        error.add_note(f"{VARIABLE} must be a JSON object, found: {text[:200]}")
        raise
    if not isinstance(found, dict):
        raise ValueError(f"{VARIABLE} must be a JSON object, found: {text[:200]}")
    return found


def place_in(tf_config: Mapping[str, Any]) -> ClusterPlace:
    """The place that TF_CONFIG gives to this process.

    Raises:
      ValueError: The cluster has no chief or several, or the task is none of the cluster.
      TypeError: "service" is no dict.
    """
    service = tf_config.get("service")
    if service is not None and not isinstance(service, dict):
        raise TypeError(
            f'If "service" is set in TF_CONFIG, it must be a dict. Given {type(service)}'
        )
    cluster = ClusterSpec(tf_config.get("cluster", {}))
    task = tf_config.get("task", {})
    if not cluster:
        return _alone(tf_config, task, service)
    chief_job = TaskType.MASTER if TaskType.MASTER in cluster.jobs else TaskType.CHIEF
    if chief_job == TaskType.MASTER and TaskType.CHIEF in cluster.jobs:
        raise ValueError(
            "If `master` node exists in `cluster`, job `chief` is not supported. "
            f"Found jobs {cluster.jobs}; keep one of the two."
        )
    task_type, task_id = _checked_task(cluster, task, chief_job)
    if task_type == TaskType.EVALUATOR:
        if chief_job == TaskType.MASTER:
            raise ValueError(
                "If `master` node exists in `cluster`, task_type `evaluator` is not supported. The "
                "master evaluates by itself; call it chief to have an evaluator."
            )
        return ClusterPlace(
            cluster_spec=ClusterSpec({}),  # an evaluator is no part of the training's cluster
            task_type=task_type,
            task_id=task_id,
            is_chief=False,
            master=_LOCAL,
            evaluation_master=tf_config.get("eval_session_master", _LOCAL),
            num_ps_replicas=0,
            num_worker_replicas=0,
            global_id_in_cluster=None,
            service=service,
        )
    return ClusterPlace(
        cluster_spec=cluster,
        task_type=task_type,
        task_id=task_id,
        is_chief=task_type == chief_job,
        master=_session_master(cluster, task_type, task_id, tf_config),
        evaluation_master=_LOCAL,
        num_ps_replicas=_size(cluster, TaskType.PS),
        num_worker_replicas=_size(cluster, TaskType.WORKER) + _size(cluster, chief_job),
        global_id_in_cluster=_global_id(cluster, task_type, task_id, chief_job),
        service=service,
    )


def _alone(tf_config: Mapping[str, Any], task: Mapping[str, Any], service: Any) -> ClusterPlace:
    task_type = task.get("type", TaskType.WORKER)
    task_id = int(task.get("index", 0))
    if task_type != TaskType.WORKER:
        raise ValueError(
            'If "cluster" is not set in TF_CONFIG, task type must be WORKER. '
            f'Found {task_type!r}; add the "cluster", or leave "task" out to train in one process.'
        )
    if task_id != 0:
        raise ValueError(
            'If "cluster" is not set in TF_CONFIG, task index must be 0. '
            f'Found {task_id}; add the "cluster", or leave "task" out to train in one process.'
        )
    return ClusterPlace(
        cluster_spec=ClusterSpec({}),
        task_type=task_type,
        task_id=0,
        is_chief=True,
        master=tf_config.get("session_master", _LOCAL),
        evaluation_master=tf_config.get("eval_session_master", _LOCAL),
        num_ps_replicas=0,
        num_worker_replicas=1,
        global_id_in_cluster=0,
        service=service,
    )


def _checked_task(cluster: ClusterSpec, task: Mapping[str, Any], chief_job: str) -> tuple[str, int]:
    chiefs = _size(cluster, chief_job)
    if chiefs == 0:
        raise ValueError(
            f'If "cluster" is set in TF_CONFIG, it must have one "{chief_job}" node. Found jobs '
            f'{cluster.jobs}; give the first worker the job "chief" (its index is 0 there), and '
            "the other workers count from 0."
        )
    if chiefs > 1:
        raise ValueError(
            f'The "cluster" in TF_CONFIG must have only one "{chief_job}" node. Found '
            f"{cluster.job_tasks(chief_job)}; the others are workers."
        )
    task_type, task_id = task.get("type"), task.get("index")
    if not task_type:
        raise ValueError(
            'If "cluster" is set in TF_CONFIG, task type must be set. Add "task": {"type": …, '
            '"index": …}: it says which of the cluster this process is.'
        )
    if task_id is None:
        raise ValueError(
            'If "cluster" is set in TF_CONFIG, task index must be set. Add "index" to "task".'
        )
    task_id = int(task_id)
    if task_id < 0:
        raise ValueError(f"Task index must be non-negative number. Found {task_id}.")
    if task_type == TaskType.EVALUATOR:
        return task_type, task_id
    where = (
        f"in the cluster_spec:\n{cluster}\n\nNote that these values may be coming from the "
        "TF_CONFIG environment variable."
    )
    if task_type not in cluster.jobs:
        raise ValueError(f"{task_type} is not a valid task_type {where}")
    if task_id not in cluster.task_indices(task_type):
        raise ValueError(f"{task_id} is not a valid task_id for task_type {task_type} {where}")
    return task_type, task_id


def _size(cluster: ClusterSpec, job: str) -> int:
    return cluster.num_tasks(job) if job in cluster.jobs else 0


def _session_master(
    cluster: ClusterSpec, task_type: str, task_id: int, tf_config: Mapping[str, Any]
) -> str:
    if "session_master" in tf_config:
        return str(tf_config["session_master"])
    if len(cluster.jobs) == 1 and cluster.num_tasks(cluster.jobs[0]) == 1:
        return _LOCAL  # a cluster of one task needs no server
    return f"grpc://{cluster.task_address(task_type, task_id)}"


def _global_id(cluster: ClusterSpec, task_type: str, task_id: int, chief_job: str) -> int:
    others = sorted(job for job in cluster.jobs if job not in (chief_job, TaskType.PS))
    before = 0
    for job in (chief_job, *others, TaskType.PS):
        if job == task_type:
            break
        before += cluster.num_tasks(job)
    return before + task_id
