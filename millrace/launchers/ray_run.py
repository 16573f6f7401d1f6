"""`millrace.ray.run`: a job on a cluster of Ray, from Python, to its end."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from millrace.launchers.ray_job import PACK, RayJob, RayRun, connect, handed_on, script_of


def run(
    script: str,
    arguments: Sequence[str] = (),
    *,
    ps: int = 1,
    workers: int = 2,
    resources: Mapping[str, Mapping[str, float]] | None = None,
    strategy: str = PACK,
    max_restarts: int = 3,
    address: str | None = None,
    variables: Mapping[str, str] | None = None,
    runtime_env: Mapping[str, Any] | None = None,
    cluster_via: str = "",
) -> dict[str, Any]:
    """Runs a job on Ray, and waits for its end.

    Args:
      script: The program. All nodes see it at the same path, or `runtime_env` ships its folder.
      arguments: Its arguments.
      ps: Parameter servers.
      workers: Workers, the chief among them.
      resources: What a task needs, by its kind: ``{"worker": {"CPU": 4, "GPU": 1}}``; one CPU each
        by default. ``memory`` is in bytes.
      strategy: `PACK`, on as few nodes as possible, or `SPREAD`.
      max_restarts: How often a task may be started again, there or on another node.
      address: Of the cluster; ``RAY_ADDRESS`` or this machine's by default. A process that has
        called ``ray.init`` uses what it has.
      variables: Set in the environment of the tasks.
      runtime_env: As of ``ray.init``, as ``{"working_dir": "."}``.
      cluster_via: ``flags`` or ``TF_CONFIG``, if the program's source does not say.

    Returns:
      ``exit_code`` of the job, and ``tasks``: for each its ``exit_code``, ``restarts``,
      ``address``, ``node`` and, if it failed, its ``last_lines``.

    Raises:
      RayError: Ray is not installed, no cluster answers, or it has no room for the job.
      ValueError: No job can be made of these arguments.
    """
    job = RayJob(
        script_of(script, runtime_env),
        list(arguments),
        ps,
        workers,
        resources or {},
        strategy,
        max_restarts,
        {**handed_on(os.environ), **(variables or {})},
        cluster_via,
    )
    found = RayRun(connect(address, runtime_env), job, lambda tasks: None)
    code = found.run()
    return {"exit_code": code, "tasks": {name: vars(task) for name, task in found.tasks.items()}}
