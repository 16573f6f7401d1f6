"""Names of tasks, and which of them a session has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from millrace.core.cluster_spec import ClusterSpec
from millrace.core.device_spec import DeviceSpec


def filtered_tasks(cluster: ClusterSpec, filters: Sequence[str]) -> dict[str, str]:
    """Task name to address of all tasks, or of those that one of the filters names."""
    specs = [DeviceSpec.from_string(text) for text in filters]
    found: dict[str, str] = {}
    for job in sorted(cluster.jobs):
        for index in cluster.task_indices(job):
            if not specs or any(
                spec.job in (None, job) and spec.task in (None, index) for spec in specs
            ):
                found[task_name(job, index)] = cluster.task_address(job, index)
    return found


def tasks_named(devices: Iterable[str]) -> set[str]:
    """The tasks that requests for devices name in full; a request may leave anything open."""
    found: set[str] = set()
    for device in set(devices):
        try:
            spec = DeviceSpec.from_string(device)
        except ValueError:
            continue  # Placement tells what is wrong with it, if a step needs it.
        if spec.job is not None and spec.task is not None:
            found.add(task_name(spec.job, spec.task))
    return found


def task_name(job: str, index: int) -> str:
    """``/job:ps/replica:0/task:0``."""
    return f"/job:{job}/replica:0/task:{index}"
