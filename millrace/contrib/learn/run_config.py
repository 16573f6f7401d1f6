"""`tf.contrib.learn.RunConfig`: the older form of tf.estimator's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import millrace as tf
from millrace.core.cluster_spec import ClusterSpec
from millrace.estimator import cluster_place
from millrace.estimator.cluster_place import ClusterPlace, TaskType
from millrace.estimator.run_config import RunConfig as CoreRunConfig


class Environment:
    """Where a job runs, as TF_CONFIG's "environment" says."""

    CLOUD = "cloud"
    GOOGLE = "google"
    LOCAL = "local"


class RunConfig(CoreRunConfig):
    """Settings of an Estimator. A cluster needs no chief: worker 0 is one if there is no master."""

    def __init__(
        self,
        master: str | None = None,
        num_cores: int = 0,
        log_device_placement: bool = False,
        gpu_memory_fraction: float = 1,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_secs: float | None = 600,
        save_checkpoints_steps: int | None = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        protocol: str | None = None,
        evaluation_master: str | None = None,
        model_dir: Any = None,
        session_config: Any = None,
    ) -> None:
        """Makes a configuration; see `tf.estimator.RunConfig`.

        Args:
          master: The target of sessions, instead of that of TF_CONFIG.
          num_cores: How many threads an operation and a step may have; 0 for all.
          log_device_placement: Whether sessions log devices.
          gpu_memory_fraction: How much of a GPU's memory is used.
          tf_random_seed: The seed of every graph.
          save_summary_steps: Steps between summaries.
          save_checkpoints_secs: Seconds between checkpoints, unless steps are given.
          save_checkpoints_steps: Steps between checkpoints.
          keep_checkpoint_max: How many checkpoints are kept.
          keep_checkpoint_every_n_hours: One per this many hours is kept for ever.
          log_step_count_steps: Steps between reports.
          protocol: Of the server.
          evaluation_master: The target of evaluation's sessions.
          model_dir: The folder of checkpoints and summaries.
          session_config: A ConfigProto, which is used as it is.
        """
        super().__init__(
            model_dir=model_dir,
            tf_random_seed=tf_random_seed,
            save_summary_steps=save_summary_steps,
            save_checkpoints_secs=None if save_checkpoints_steps else save_checkpoints_secs,
            save_checkpoints_steps=save_checkpoints_steps,
            session_config=session_config,
            keep_checkpoint_max=keep_checkpoint_max,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            log_step_count_steps=log_step_count_steps,
            protocol=protocol,
        )
        self._environment = cluster_place.read_tf_config().get("environment", Environment.LOCAL)
        if master is not None:
            self._master = master
        if evaluation_master is not None:
            self._evaluation_master = evaluation_master
        if session_config is None:
            config = self._session_config or tf.ConfigProto()
            config.log_device_placement = log_device_placement
            config.inter_op_parallelism_threads = num_cores
            config.intra_op_parallelism_threads = num_cores
            config.gpu_options.per_process_gpu_memory_fraction = gpu_memory_fraction
            self._session_config = config

    def _init_distributed_setting_from_environment_var(self, tf_config: Mapping[str, Any]) -> None:
        cluster = ClusterSpec(tf_config.get("cluster", {}))
        if not cluster or {TaskType.MASTER, TaskType.CHIEF} & set(cluster.jobs):
            super()._init_distributed_setting_from_environment_var(tf_config)
            return
        place = _place_without_chief(cluster, tf_config)
        self._service = place.service
        self._cluster_spec = place.cluster_spec
        self._task_type, self._task_id = place.task_type, place.task_id
        self._global_id_in_cluster = place.global_id_in_cluster
        self._master, self._evaluation_master = place.master, place.evaluation_master
        self._num_ps_replicas = place.num_ps_replicas
        self._num_worker_replicas = place.num_worker_replicas
        self._is_chief = place.is_chief

    @property
    def environment(self) -> str:
        """Where the job runs."""
        return str(self._environment)

    def uid(self, whitelist: Any = None) -> str:
        """A text that is the same for equal settings."""
        return ", ".join(f"{k}={v!r}" for k, v in sorted(vars(self).items()))


def _place_without_chief(cluster: ClusterSpec, tf_config: Mapping[str, Any]) -> ClusterPlace:
    task = tf_config.get("task", {})
    task_type, task_id = task.get("type") or TaskType.WORKER, int(task.get("index") or 0)
    if task_type not in cluster.jobs or task_id not in cluster.task_indices(task_type):
        raise ValueError(f"{task_type} {task_id} is no task of the cluster in TF_CONFIG: {cluster}")
    is_worker = task_type == TaskType.WORKER
    ps = cluster.num_tasks(TaskType.PS) if TaskType.PS in cluster.jobs else 0
    workers = cluster.num_tasks(TaskType.WORKER) if TaskType.WORKER in cluster.jobs else 0
    return ClusterPlace(
        cluster_spec=cluster,
        task_type=task_type,
        task_id=task_id,
        is_chief=is_worker and task_id == 0,
        master=f"grpc://{cluster.task_address(task_type, task_id)}",
        evaluation_master="",
        num_ps_replicas=ps,
        num_worker_replicas=workers,
        global_id_in_cluster=task_id if is_worker else workers + task_id,
        service=tf_config.get("service"),
    )
