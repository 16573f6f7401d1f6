"""Which tasks a cluster has, and at which addresses: `tf.train.ClusterSpec`.

Invariants: a ClusterSpec never changes; jobs keep the order in which they were given; names and
addresses are `str`; a job's tasks may leave numbers out ("sparse": a worker that needs to know
only some of its peers).

Must not: resolve, contact or check addresses.
"""

from __future__ import annotations

from typing import Any

from tensorboard.compat.proto import cluster_pb2

ClusterDef = cluster_pb2.ClusterDef


class ClusterSpec:
    """The jobs of a cluster and the addresses of their tasks.

    For example `ClusterSpec({"ps": ["ps0:2222"], "worker": ["w0:2222", "w1:2222"]})`.
    """

    __slots__ = ("_jobs",)
    __hash__ = None  # type: ignore[assignment]  # as in TF

    # Job name -> task index -> address.
    _jobs: dict[str, dict[int, str]]

    def __init__(self, cluster: Any) -> None:
        """Makes a spec.

        Args:
            cluster: A dict from job name to a list of addresses or to a dict from task index to
                address; or a ClusterDef; or another ClusterSpec.

        Raises:
            TypeError: If it is none of these, or a name or address is not a string.
            ValueError: If a task index is not a number, or negative.
        """
        if isinstance(cluster, dict):
            self._jobs = {}
            for name, tasks in cluster.items():
                job = _text(name, "Job name")
                self._jobs[job] = _tasks_of(job, tasks)
        elif isinstance(cluster, ClusterDef):
            self._jobs = {job.name: _tasks_of(job.name, dict(job.tasks)) for job in cluster.job}
        elif isinstance(cluster, ClusterSpec):
            self._jobs = {job: dict(tasks) for job, tasks in cluster._jobs.items()}
        else:
            raise TypeError(
                "`cluster` must be a dictionary mapping one or more job names to lists of network "
                f"addresses, or a `ClusterDef` protocol buffer, got {cluster!r}"
            )

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs."""
        return list(self._jobs)

    def as_dict(self) -> dict[str, list[str] | dict[int, str]]:
        """The cluster as a dict: a job without gaps as a list, one with gaps as a dict."""
        plain: dict[str, list[str] | dict[int, str]] = {}
        for job, tasks in self._jobs.items():
            indices = sorted(tasks)
            if indices and indices[-1] + 1 == len(indices):
                plain[job] = [tasks[index] for index in indices]
            else:
                plain[job] = dict(tasks)
        return plain

    def as_cluster_def(self) -> Any:
        """The cluster as a new ClusterDef, with jobs sorted by name."""
        cluster_def = ClusterDef()
        for job, tasks in sorted(self._jobs.items()):
            job_def = cluster_def.job.add(name=job)
            for index, address in sorted(tasks.items()):
                job_def.tasks[index] = address
        return cluster_def

    def num_tasks(self, job_name: str) -> int:
        """The number of tasks of a job; ValueError if there is no such job."""
        return len(self._tasks(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """The task indices of a job in order; ValueError if there is no such job."""
        return sorted(self._tasks(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """The address of a task; ValueError if there is no such job or task."""
        tasks = self._tasks(job_name)
        try:
            return tasks[task_index]
        except KeyError:
            raise ValueError(
                f"No task with index {task_index!r} in job {job_name!r}, which has {sorted(tasks)}"
            ) from None

    def job_tasks(self, job_name: str) -> list[str | None]:
        """The addresses of a job by task index, None where an index is left out."""
        tasks = self._tasks(job_name)
        return [tasks.get(index) for index in range(max(tasks, default=-1) + 1)]

    def _tasks(self, job_name: str) -> dict[int, str]:
        try:
            return self._jobs[job_name]
        except KeyError:
            raise ValueError(
                f"No such job in cluster: {job_name!r}, which has {self.jobs}"
            ) from None

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ClusterSpec):
            return self._jobs == other._jobs
        return self._jobs == other

    def __repr__(self) -> str:
        return f"ClusterSpec({self.as_dict()!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ClusterSpec, (self._jobs,)


def _tasks_of(job: str, tasks: Any) -> dict[int, str]:
    if isinstance(tasks, (list, tuple)):
        tasks = dict(enumerate(tasks))
    elif not isinstance(tasks, dict):
        raise TypeError(
            f"The tasks for job {job!r} must be a list or a dictionary from integers to strings, "
            f"got {tasks!r}."
        )
    addresses = {int(index): _text(address, "Task address") for index, address in tasks.items()}
    negative = [index for index in addresses if index < 0]
    if negative:
        raise ValueError(f"Task indices of job {job!r} must not be negative, got {negative}.")
    return addresses


def _text(value: Any, what: str) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError(f"{what} {value!r} must be bytes or unicode")
    return value
