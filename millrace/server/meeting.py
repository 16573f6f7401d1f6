"""Which tasks a session has, and the wait until all of them are there.

Every task is asked at the same time, in a thread of its own, again and again until it answers: who
waits says for whom. One that refuses ends the wait for all. No thread asks on when the wait is over
or the session is given up.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from millrace.core import errors
from millrace.core.cluster_spec import ClusterSpec
from millrace.platform.patience import Patience
from millrace.rpc import messages
from millrace.rpc.channel import start_thread
from millrace.server.peers import Peers
from millrace.server.tasks import filtered_tasks, task_of

#: How long one question to a task lasts.
_ASK_SECONDS = 0.5
#: A connection over which a task does not answer for so long is replaced.
_RENEW_SECONDS = 5.0


def choose_tasks(
    config: Any, target: str, cluster: ClusterSpec, me: str, my_address: str
) -> tuple[str, dict[str, str]]:
    """The tasks that a session has.

    Args:
      config: The session's ConfigProto: its own `cluster_def` if it has one, `device_filters`.
      target: What the client has connected to.
      cluster: The cluster of the server.
      me: The name of the server's task.
      my_address: Its address.

    Returns:
      What the task of the master is called in the session, and addresses by names of tasks.

    Raises:
      InvalidArgumentError: The session's own cluster does not have the task of the master.
    """
    if config.HasField("cluster_def") and config.cluster_def.job:
        tasks = filtered_tasks(ClusterSpec(config.cluster_def), config.device_filters)
        address = target.removeprefix("grpc://") or my_address
        for task, place in tasks.items():
            if place in (address, my_address):
                return task, tasks
        raise errors.InvalidArgumentError(
            None,
            None,
            f"The cluster_def of the session's config does not have the task at {address} "
            f"that the session connects to; it has {tasks}.",
        )
    tasks = filtered_tasks(cluster, config.device_filters)
    tasks.setdefault(me, my_address)
    return me, tasks


class Meeting:
    """Waits for the tasks of one session.

    Args:
      peers: How they are reached.
      home: What the task of the master is called in the session.
    """

    def __init__(self, peers: Peers, home: str) -> None:
        self._peers = peers
        self._home = home
        #: Set when nobody waits for tasks any more.
        self._given_up = threading.Event()

    def meet(self, tasks: dict[str, str], mine: list[Any]) -> list[Any]:
        """The devices of all tasks, those of the master's first; waits until all have answered.

        Args:
          tasks: Their addresses, by their names.
          mine: The devices of the master's task.

        Raises:
          UnavailableError: Nobody wants the session any more.
          OpError: A task refuses.
        """
        try:
            return self._meet(tasks, mine)
        finally:
            self.give_up()  # ends the threads that still ask, whatever happened

    def give_up(self) -> None:
        """Stops waiting for tasks; nothing happens when all have been met."""
        self._given_up.set()

    def _meet(self, tasks: dict[str, str], mine: list[Any]) -> list[Any]:
        here = self._peers.me.address
        found: dict[str, list[Any]] = {self._home: mine}
        failures: dict[str, errors.OpError] = {}
        met = threading.Semaphore(0)
        others = {task: address for task, address in tasks.items() if address != here}

        def ask(task: str, address: str) -> None:
            try:
                found[task] = self._ask(task, address)
            except errors.OpError as error:
                failures[task] = error
                self._given_up.set()  # One that fails is enough.
            finally:
                met.release()

        for item in others.items():
            start_thread(ask, f"millrace meets {item[0]}", *item)
        for _ in others:
            met.acquire()
        if failures:
            raise next(iter(failures.values()))
        devices: list[Any] = []
        for task in [self._home, *(t for t in tasks if t != self._home)]:
            for device in found[task]:
                copy = messages.DeviceAttributes()
                copy.CopyFrom(device)
                # A session's own cluster may know the task by another name than its server does.
                copy.name = task + device.name[len(task_of(device.name)) :]
                devices.append(copy)
        return devices

    def _ask(self, task: str, address: str) -> list[Any]:
        """The devices of a task; waits until it answers."""
        patience = Patience("CreateSession has waited")
        renewed = time.monotonic()
        while not self._given_up.is_set():
            try:
                stub = self._peers.connection(address).worker()
                # Short calls: who gives up should not be waited for.
                timeout = min(_ASK_SECONDS, max(0.1, patience.seconds_left()))
                answer = stub.get_status(
                    messages.GetStatusRequest(), timeout=timeout, wait_for_ready=True
                )
                return list(answer.device_attributes)
            except (errors.DeadlineExceededError, errors.UnavailableError):
                patience.tell(
                    lambda: (
                        f"{task} at {address}: check that its process runs and that the "
                        "address is right (device_filters leave tasks out)"
                    )
                )
                if time.monotonic() >= renewed + _RENEW_SECONDS:
                    self._peers.renew(address)
                    renewed = time.monotonic()
        raise errors.UnavailableError(
            None, None, f"Nobody waits any more for the session that {task} was needed for."
        )
