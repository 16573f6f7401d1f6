"""What a job on this machine consists of: pure values, no processes.

How a program wants to be told its place in the cluster is read from its source, its own modules
included (`program_source`): by the flags that TensorFlow's own examples use, or by TF_CONFIG.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

FLAGS = "flags"
ENVIRONMENT = "TF_CONFIG"
SERVERS = "servers"
#: Ways to tell a program its cluster.
WAYS = (FLAGS, ENVIRONMENT, SERVERS)


class Task(NamedTuple):
    """One process of a job.

    Attributes:
      name: Shown to people, and the name of its log.
      command: What is run.
      environment: Variables that are set besides those of the launcher.
      serves: Whether it only serves others, and ends when the rest is done.
      address: Where its server can be asked, or an empty text.
      remote: Whether it runs on another machine, its command being the connection to it.
      evaluates: Whether it evaluates the checkpoints of the others, which do not know it.
      host: That machine.
    """

    name: str
    command: list[str]
    environment: dict[str, str]
    serves: bool
    address: str
    remote: bool = False
    evaluates: bool = False
    host: str = ""


#: Flags whose definition does not spell their name, as in a loop: they are named in a list, looked
#: up by name, or their names are put together from a job's.
_FLAGS_BY_NAME = re.compile(
    r"""['"]ps_hosts['"]|\b(FLAGS|flags|args|opts|options|params)\.ps_hosts\b"""
    r"""|DEFINE_\w+\([^)\n]*_hosts\b|add_argument\([^)\n]*_hosts\b"""
)


def way_of(source: str) -> str | None:
    """How a program wants to be told its cluster, or None if its source does not say."""
    if re.search(r"""DEFINE_\w+\(\s*['"]ps_hosts|--ps_hosts""", source):
        return FLAGS
    if re.search(r"TF_CONFIG|TFConfigClusterResolver", source):
        return ENVIRONMENT
    if _FLAGS_BY_NAME.search(source):
        return FLAGS
    if is_estimator_program(source):
        return ENVIRONMENT  # its RunConfig reads it
    if re.search(r"^\s*(ps_hosts|worker_hosts)\s*=\s*\[", source, re.MULTILINE):
        return SERVERS
    return None


def is_estimator_program(source: str) -> bool:
    """Whether a program leaves its part in the cluster to tf.estimator, which wants a chief."""
    return bool(re.search(r"\btrain_and_evaluate\b|\blearn_runner\b", source))


def uses_tensorflow(source: str) -> bool:
    """Whether a program imports TensorFlow, or Millrace by its name."""
    return bool(re.search(r"^\s*(import|from)\s+(tensorflow|millrace)\b", source, re.MULTILINE))


def index_flag_of(source: str) -> str:
    """The flag by which a program is told its task's number."""
    for name in ("task_index", "task_id", "task"):
        if re.search(rf"""['"](--)?{name}['"]|\b(FLAGS|flags|args)\.{name}\b""", source):
            return name
    return "task_index"


def tasks_of(
    script: str,
    source: str,
    arguments: Sequence[str],
    cluster: Mapping[str, Sequence[str]],
    way: str,
    evaluator: bool = False,
) -> list[Task]:
    """The processes of a job.

    Args:
      script: The program's path.
      source: Its text.
      arguments: Its arguments.
      cluster: Addresses by job: ``ps``, ``worker``, and ``chief`` if the first worker is one.
      way: One of WAYS.
      evaluator: Whether there is a task that evaluates.
    """
    python = [sys.executable, "-u", "-m", "millrace"]
    hosts = json.dumps({job: list(addresses) for job, addresses in cluster.items()})
    # As on any scheduler, a task finds its place in its environment.
    own = [*python, "task", "--cluster-via", way, script, "--", *arguments]
    found: list[Task] = []
    for job, addresses in cluster.items():
        for index, address in enumerate(addresses):
            environment = {"TF_CONFIG": _place(cluster, job, index)}
            if way == SERVERS:
                command = [*python, "server", "--cluster", hosts, "--job", job]
                command += ["--task", str(index)]
                found.append(Task(f"{job}-{index}", command, {}, True, address))
                continue
            found.append(Task(f"{job}-{index}", own, environment, job == "ps", address))
    if evaluator:
        environment = {"TF_CONFIG": _place(cluster, "evaluator", 0)}
        found.append(Task("evaluator-0", own, environment, False, "", evaluates=True))
    if way == SERVERS:
        for index, _ in enumerate(cluster["worker"]):
            command = [*python, "run", "--hosts", hosts, script, *arguments]
            command += [f"--{index_flag_of(source)}={index}"]
            found.append(Task(f"client-{index}", command, {}, False, ""))
    return found


def _place(cluster: Mapping[str, Sequence[str]], job: str, index: int) -> str:
    """TF_CONFIG of a task."""
    jobs = {name: list(addresses) for name, addresses in cluster.items()}
    return json.dumps({"cluster": jobs, "task": {"type": job, "index": index}})


def last_step_of(arguments: Sequence[str]) -> int | None:
    """How many steps the job will make, when an argument says so."""
    for argument in arguments:
        match = re.fullmatch(r"--(?:train_steps|max_steps|steps|last_step)=(\d+)", argument)
        if match is not None:
            return int(match[1])
    return None
