"""Tasks of a job on other machines, each behind an `ssh` process of this one.

What a task writes comes back through its connection, and so into its log. When the connection
ends, for whatever reason, the task's standard input does, and it ends too: see `end_with_launcher`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from millrace.cli.job import Task
from millrace.platform.launcher import BY_STANDARD_INPUT, LAUNCHER

#: What ssh itself ends with when it cannot connect.
CANNOT_CONNECT = 255
#: Nobody can answer a question, and a machine that is off is not waited for for minutes.
_OPTIONS = ("BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5")


def over_ssh(task: Task, host: str, ssh: Sequence[str], python: str, folder: str) -> Task:
    """The same task, on another machine.

    Args:
      task: As it would run on this machine.
      host: The machine, as ``user@host`` or ``host``.
      ssh: The command that connects, with options.
      python: The interpreter there.
      folder: The folder there in which the task runs.
    """
    variables = {**task.environment, LAUNCHER: BY_STANDARD_INPUT}
    given = [f"{name}={value}" for name, value in variables.items()]
    command = shlex.join(["env", *given, python, *task.command[1:]])
    remote = f"cd {shlex.quote(folder)} && exec {command}"
    options = [word for option in _OPTIONS for word in ("-o", option)]
    return task._replace(
        command=[*ssh, *options, host, remote], environment={}, remote=True, host=host
    )


def host_of(address: str) -> str:
    """``a`` for ``user@a``: what others call the machine."""
    return address.rpartition("@")[2]
