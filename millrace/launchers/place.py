"""A task's place in its job, read from the environment that its scheduler made.

Pure: variables in, a Place or a sentence out. A scheduler is one function and one line in FINDERS.
Ranks are numbered as the scheduler does; the first `ps` of them are the parameter servers.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

#: What Millrace's own manifests say: the cluster as JSON, the job of this task, its number.
CLUSTER, JOB, TASK = "MILLRACE_CLUSTER", "MILLRACE_JOB", "MILLRACE_TASK"
#: Kubernetes numbers the pods of an indexed Job.
_INDEX_ON_KUBERNETES = "JOB_COMPLETION_INDEX"
#: (rank, count, count on this machine) as launchers of ranks call them.
_RANKS = (
    ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),  # MPICH, Intel MPI
)
#: Ports of Slurm jobs begin here; each job has a hundred of its own.
_FIRST_PORT, _PORTS_PER_JOB, _JOBS = 20000, 100, 120


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a task is.

    Attributes:
      cluster: Addresses by job.
      job: The task's job.
      index: Its number.
      found_in: What said so, for people.
    """

    cluster: dict[str, list[str]]
    job: str
    index: int
    found_in: str

    @property
    def tf_config(self) -> str:
        """As programs that read TF_CONFIG want it."""
        task = {"type": self.job, "index": self.index}
        return json.dumps({"cluster": self.cluster, "task": task})


class Wanted(NamedTuple):
    """What the command line says: parameter servers, machines, the first port."""

    ps: int = 1
    hosts: tuple[str, ...] = ()
    port: int | None = None


def find(variables: Mapping[str, str], wanted: Wanted) -> Place:
    """The place that the environment tells.

    Raises:
      ValueError: It tells none, or one that makes no sense.
    """
    for finder in FINDERS:
        place = finder(variables, wanted)
        if place is not None:
            return place
    raise ValueError(
        "nothing here says which task this is: there is no TF_CONFIG, no MILLRACE_CLUSTER, and no "
        "rank of Slurm (SLURM_PROCID), torchrun (RANK) or MPI (OMPI_COMM_WORLD_RANK, PMI_RANK)"
    )


def _from_tf_config(variables: Mapping[str, str], wanted: Wanted) -> Place | None:
    text = variables.get("TF_CONFIG")
    if not text:
        return None
    config = _parsed("TF_CONFIG", text)
    task = config.get("task") or {}
    if "cluster" not in config:
        return None
    return _checked(config["cluster"], task.get("type"), task.get("index"), "TF_CONFIG")


def _from_manifest(variables: Mapping[str, str], wanted: Wanted) -> Place | None:
    text = variables.get(CLUSTER)
    if not text:
        return None
    index = variables.get(TASK, variables.get(_INDEX_ON_KUBERNETES))
    found_in = f"{CLUSTER} and {TASK if TASK in variables else _INDEX_ON_KUBERNETES}"
    return _checked(_parsed(CLUSTER, text), variables.get(JOB), index, found_in)


def _from_slurm(variables: Mapping[str, str], wanted: Wanted) -> Place | None:
    if "SLURM_PROCID" not in variables or "SLURM_JOB_ID" not in variables:
        return None
    nodes, counts = [], []
    for listed, counted in _slurm_groups(variables):
        nodes += (these := expand_hosts(listed))
        counts += (each := expand_counts(counted))
        if len(each) != len(these):
            raise ValueError(f"Slurm names {len(these)} nodes and counts the tasks of {len(each)}")
    number = int(variables["SLURM_JOB_ID"]) % _JOBS
    port = wanted.port or _FIRST_PORT + _PORTS_PER_JOB * number
    return _of_ranks(
        _on(nodes, counts),
        int(variables["SLURM_PROCID"]),
        port,
        wanted.ps,
        "Slurm's variables",
    )


def _slurm_groups(variables: Mapping[str, str]) -> list[tuple[str, str]]:
    """Nodes and their tasks, of each component of a heterogeneous job in the order of the ranks."""
    if "SLURM_HET_SIZE" not in variables:
        nodes = variables.get("SLURM_STEP_NODELIST") or variables["SLURM_JOB_NODELIST"]
        counts = variables.get("SLURM_STEP_TASKS_PER_NODE") or variables["SLURM_TASKS_PER_NODE"]
        return [(nodes, counts)]
    return [
        (
            variables[f"SLURM_JOB_NODELIST_HET_GROUP_{group}"],
            variables[f"SLURM_TASKS_PER_NODE_HET_GROUP_{group}"],
        )
        for group in range(int(variables["SLURM_HET_SIZE"]))
    ]


def _from_ranks(variables: Mapping[str, str], wanted: Wanted) -> Place | None:
    for rank, size, local_size in _RANKS:
        if rank not in variables or size not in variables:
            continue
        count, here = int(variables[size]), int(variables.get(local_size, variables[size]))
        hosts = wanted.hosts
        if not hosts and here == count:
            hosts = (variables.get("MASTER_ADDR", "localhost"),)
        if not hosts:
            raise ValueError(
                f"{size} is {count} and only {here} of these are on this machine: name the "
                "machines in the order of their ranks, --hosts a,b,c"
            )
        if count % len(hosts):
            raise ValueError(f"{count} ranks cannot be shared evenly by {len(hosts)} machines")
        each = count // len(hosts)
        port = wanted.port or int(variables.get("MASTER_PORT", "2221")) + 1
        places = _on(list(hosts), [each] * len(hosts))
        return _of_ranks(places, int(variables[rank]), port, wanted.ps, f"{rank} and {size}")
    return None


def _on(hosts: list[str], counts: list[int]) -> list[tuple[str, int]]:
    """Machines with the number of each task on them, in the order of the ranks."""
    found: list[tuple[str, int]] = []
    taken: dict[str, int] = {}
    for host, count in zip(hosts, counts, strict=True):
        first = taken.get(host, 0)
        found += [(host, local) for local in range(first, first + count)]
        taken[host] = first + count
    return found


def _of_ranks(places: list[tuple[str, int]], rank: int, port: int, ps: int, found_in: str) -> Place:
    """The place of a rank; places are machines, with the task's number on each."""
    if not 0 <= ps < len(places):
        raise ValueError(
            f"--ps {ps} of {len(places)} tasks leaves no worker: say a smaller --ps, or start more"
        )
    if not 0 <= rank < len(places):
        raise ValueError(f"rank {rank} is not one of the {len(places)} tasks")
    addresses = [f"{host}:{port + local}" for host, local in places]
    cluster = {"ps": addresses[:ps], "worker": addresses[ps:]}
    cluster = {job: each for job, each in cluster.items() if each}
    is_ps = rank < ps
    return Place(cluster, "ps" if is_ps else "worker", rank if is_ps else rank - ps, found_in)


#: In this order: what was said on purpose comes before what happens to be there.
FINDERS: tuple[Callable[[Mapping[str, str], Wanted], Place | None], ...] = (
    _from_tf_config,
    _from_manifest,
    _from_slurm,
    _from_ranks,
)


def expand_hosts(text: str) -> list[str]:
    """``["a1", "a2", "b"]`` for Slurm's ``a[1-2],b``; numbers keep their zeros."""
    found: list[str] = []
    for word in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", word)
        if match is None:
            found.append(word)
            continue
        head, ranges, tail = match.groups()
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            for number in range(int(first), int(last or first) + 1):
                found += expand_hosts(f"{head}{number:0{len(first)}d}{tail}")
    return found


def expand_counts(text: str) -> list[int]:
    """``[2, 2, 1]`` for Slurm's ``2(x2),1``."""
    found: list[int] = []
    for word in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", word)
        if match is None:
            raise ValueError(f"Slurm's counts of tasks cannot be read: {text!r}")
        found += [int(match[1])] * int(match[2] or 1)
    return found


def _parsed(name: str, text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{name} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{name} is no JSON object: {text!r}")
    return found


def _checked(cluster: Any, job: Any, index: Any, found_in: str) -> Place:
    if not isinstance(cluster, dict) or not all(isinstance(v, list) for v in cluster.values()):
        raise ValueError(f"{found_in}: the cluster is no lists of addresses by job: {cluster!r}")
    if job == "evaluator":
        return Place(cluster, job, int(index or 0), found_in)
    if job not in cluster:
        raise ValueError(f"{found_in}: the job {job!r} is none of {', '.join(sorted(cluster))}")
    if index is None or not str(index).isdigit() or int(index) >= len(cluster[job]):
        raise ValueError(f"{found_in}: {job} has {len(cluster[job])} tasks, and none {index!r}")
    return Place(cluster, job, int(index), found_in)
