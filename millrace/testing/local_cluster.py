"""`tf.test.create_local_cluster`: servers of a cluster in this process, for tests."""

from __future__ import annotations

from typing import Any

from millrace.core.cluster_spec import ClusterSpec
from millrace.platform.ports import HeldPorts
from millrace.server.server import Server


def create_local_cluster(
    num_workers: int,
    num_ps: int,
    protocol: str = "grpc",
    worker_config: Any = None,
    ps_config: Any = None,
) -> tuple[list[Server], list[Server]]:
    """Starts a server for each task of the jobs ``worker`` and ``ps``.

    Args:
      num_workers: Tasks of the job ``worker``.
      num_ps: Tasks of the job ``ps``.
      protocol: How they talk.
      worker_config: ConfigProto of the workers' servers.
      ps_config: ConfigProto of the others.

    Returns:
      The servers of the workers and those of the parameter servers. They run until the process
      ends.
    """
    with HeldPorts(num_workers + num_ps) as held:
        addresses = held.addresses
        cluster = ClusterSpec({"worker": addresses[:num_workers], "ps": addresses[num_workers:]})
        jobs = (("worker", num_workers, worker_config), ("ps", num_ps, ps_config))
        workers, parameter_servers = (
            [
                Server(cluster, job, task, protocol=protocol, config=config, start=True)
                for task in range(count)
            ]
            for job, count, config in jobs
        )
    return workers, parameter_servers
