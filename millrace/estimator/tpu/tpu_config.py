"""The configuration of programs that were written for TPUs."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from millrace.estimator.run_config import RunConfig as _RunConfig


class InputPipelineConfig:
    """Where the input of a TPU is read; on CPUs there is one place."""

    PER_SHARD_V1 = 1
    PER_HOST_V1 = 2
    PER_HOST_V2 = 3
    BROADCAST = 4
    SLICED = 5


class _TPUConfig(NamedTuple):
    iterations_per_loop: int
    num_shards: int | None
    num_cores_per_replica: int | None
    per_host_input_for_training: Any
    tpu_job_name: str | None
    initial_infeed_sleep_secs: int | None
    input_partition_dims: Any
    eval_training_input_configuration: int
    experimental_host_call_every_n_steps: int
    experimental_allow_per_host_v2_parallel_get_next: bool
    experimental_feed_hook: Any


class TPUConfig(_TPUConfig):
    """Settings of TPUs. On CPUs they are kept, checked and otherwise ignored.

    Raises:
      ValueError: A number is not positive.
    """

    __slots__ = ()

    def __new__(
        cls,
        iterations_per_loop: int = 2,
        num_shards: int | None = None,
        num_cores_per_replica: int | None = None,
        per_host_input_for_training: Any = True,
        tpu_job_name: str | None = None,
        initial_infeed_sleep_secs: int | None = None,
        input_partition_dims: Any = None,
        eval_training_input_configuration: int = InputPipelineConfig.PER_HOST_V1,
        experimental_host_call_every_n_steps: int = 1,
        experimental_allow_per_host_v2_parallel_get_next: bool = False,
        experimental_feed_hook: Any = None,
    ) -> TPUConfig:
        for word, number in (
            ("TPUConfig iterations_per_loop", iterations_per_loop),
            ("TPUConfig num_shards", num_shards),
            ("TPUConfig initial_infeed_sleep_secs", initial_infeed_sleep_secs),
        ):
            if number is not None and int(number) < 1:
                raise ValueError(f"{word} must be positive")
        return super().__new__(
            cls,
            iterations_per_loop,
            num_shards,
            num_cores_per_replica,
            per_host_input_for_training,
            tpu_job_name,
            initial_infeed_sleep_secs,
            input_partition_dims,
            eval_training_input_configuration,
            experimental_host_call_every_n_steps,
            experimental_allow_per_host_v2_parallel_get_next,
            experimental_feed_hook,
        )


class RunConfig(_RunConfig):
    """A RunConfig with a TPUConfig."""

    def __init__(
        self,
        tpu_config: TPUConfig | None = None,
        evaluation_master: str | None = None,
        master: str | None = None,
        cluster: Any = None,
        **kwargs: Any,
    ) -> None:
        """Makes a configuration.

        Args:
          tpu_config: Settings of TPUs.
          evaluation_master: The target of evaluation's sessions; `master` when None.
          master: The target of sessions.
          cluster: A cluster resolver, which gives the targets and the cluster instead.
          kwargs: The arguments of `tf.estimator.RunConfig`.

        Raises:
          ValueError: Both `cluster` and a target are given.
        """
        super().__init__(**kwargs)
        if cluster is not None and (master is not None or evaluation_master is not None):
            raise ValueError("Both master/evaluation_master and cluster were provided.")
        self._tpu_config = tpu_config or TPUConfig()
        self._cluster = cluster
        if cluster is not None:
            self._cluster_spec = cluster.cluster_spec()
            master = evaluation_master = cluster.master()
        if master is not None:
            self._master = master
            if self._session_config is not None and master:
                self._session_config.isolate_session_state = True
        if evaluation_master is not None:
            self._evaluation_master = evaluation_master
        elif not self._evaluation_master and self._task_type != "evaluator":
            self._evaluation_master = self._master

    @property
    def tpu_config(self) -> TPUConfig:
        """Settings of TPUs."""
        return self._tpu_config

    @property
    def cluster(self) -> Any:
        """The cluster resolver, or None."""
        return self._cluster

    def replace(self, **kwargs: Any) -> RunConfig:
        """A copy with some settings changed, `tpu_config` among them."""
        if "tpu_config" not in kwargs:
            return super().replace(**kwargs)  # type: ignore[return-value]
        tpu_config = kwargs.pop("tpu_config")
        changed = super().replace(**kwargs) if kwargs else copy.deepcopy(self)
        assert isinstance(changed, RunConfig)
        changed._tpu_config = tpu_config
        return changed
