"""The standbys of a launched job: who keeps the views, what each process is told, who is restarted.

The launcher keeps the view of every task that has a standby: it lives as long as the job does, and
is neither of the two. The replicas decide by themselves who serves (`server/replication`); the
launcher starts a process again in the place of one that has ended, as the standby of the other.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time

from millrace.cli.job import Task
from millrace.cli.task_process import TaskProcess
from millrace.core import errors
from millrace.platform.ports import HeldPorts
from millrace.protocol.replication.view import Member, View
from millrace.rpc.security import Security
from millrace.rpc.service import CachedThreads, RpcServer
from millrace.server.peers import PLACES
from millrace.server.registers import Registers
from millrace.server.replication.replica import VARIABLE, ReplicaPlace
from millrace.server.replication.views import name_of
from millrace.server.tasks import task_name

#: What the name of the second process of a task ends with.
SUFFIX = "-standby"
#: How long a standby that is in step may take to take over, before both count as lost.
_TAKE_OVER_SECONDS = 10.0
#: How often the processes of one task are started again.
MAX_RESTARTS = 1000


def with_standbys(tasks: list[Task], held: contextlib.ExitStack) -> list[Task]:
    """The tasks of a job on this machine, a second process for each that keeps state among them."""
    found: list[Task] = []
    for task in tasks:
        found.append(task)
        if is_replicated(task):
            (address,) = held.enter_context(HeldPorts(1)).addresses
            found.append(task._replace(name=task.name + SUFFIX, address=address))
    return found


def is_replicated(task: Task) -> bool:
    """Whether a task keeps state that a standby can have, too."""
    return task.name.startswith("ps-")


class Replicas:
    """Keeps the views of a job, and says what its processes are to be.

    Args:
      processes: All processes of the job.
      host: Where the views are kept, as the tasks reach it.
    """

    def __init__(self, processes: list[TaskProcess], host: str = "localhost") -> None:
        self._by_name = {process.task.name: process for process in processes}
        self._threads = CachedThreads("millrace views")
        self._server = RpcServer(self._threads, Security.from_environment())
        self._registers = Registers(secrets.randbits(63))
        self.address = f"{host}:{self._server.bind(f'{host}:0')}"
        self._server.add_peer(
            _refuse,
            lambda ticket: None,
            _status,
            _refuse,
            self._registers.answer,
            _refuse,
            _refuse,
            _refuse,
        )
        self._server.start()
        #: When the process that served a task was seen to have ended.
        self._ended_at: dict[str, float] = {}

    def close(self) -> None:
        """Keeps nothing any more."""
        self._server.stop()
        self._threads.shutdown()

    def view(self, task: str) -> View | None:
        """The view of a task, as it stands."""
        content, _, _ = self._registers.read(name_of(task))
        return None if content is None else View.decode(content)

    def prepare(self, process: TaskProcess) -> None:
        """Tells a process that is to be started what it is, and where the tasks are."""
        task = process.task
        environment = {**task.environment, PLACES: json.dumps(self._places())}
        if is_replicated(task):
            name = _task_of(task)
            view = self.view(name)
            first = self._by_name[task.name.removesuffix(SUFFIX)].task
            if view is None or view.primary.address == task.address:
                follows = first.address if task is not first and view is None else ""
            else:
                follows = view.primary.address
            place = ReplicaPlace(name, task.address, self.address, follows)
            environment[VARIABLE] = place.encode()
        process.task = task._replace(environment=environment)

    def _places(self) -> dict[str, str]:
        """Where tasks are that are not at the addresses that they are called by."""
        found = {}
        for name, process in self._by_name.items():
            if is_replicated(process.task) and not name.endswith(SUFFIX):
                view = self.view(_task_of(process.task))
                if view is not None and view.primary.address != process.task.address:
                    found[process.task.address] = view.primary.address
        return found

    def may_start_again(self, process: TaskProcess) -> bool:
        """Whether a process of a replicated task that has ended can be started again now.

        While its standby takes over it cannot: it would not know whom to follow.
        """
        task = process.task
        name = _task_of(task)
        view = self.view(name)
        if view is None or view.primary.address != task.address:
            self._ended_at.pop(name, None)
            return True
        base = task.name.removesuffix(SUFFIX)
        other = self._by_name[base if task.name != base else base + SUFFIX]
        ended = self._ended_at.setdefault(name, time.monotonic())
        waits = view.standby is not None and other.code is None
        if waits and time.monotonic() < ended + _TAKE_OVER_SECONDS:
            return False
        self._ended_at.pop(name, None)
        begins = view.followed_by(Member(task.address, 0))
        _, version, _ = self._registers.read(name_of(name))
        self._registers.write(name_of(name), begins.encode(), version)
        print(
            f"millrace launch: {name} is lost, and no standby was in step with it: it begins again "
            "without its state, and the newest checkpoint is restored"
        )
        return True


def _task_of(task: Task) -> str:
    job, _, index = task.name.removesuffix(SUFFIX).rpartition("-")
    return task_name(job, int(index))


def _status(question: bytes) -> bytes:
    return b"{}"


def _refuse(question: bytes) -> bytes:
    raise errors.UnimplementedError(None, None, "This is the launcher of a job, not a task.")
