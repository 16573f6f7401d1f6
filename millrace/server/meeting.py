"""Which tasks a session has, and the wait until all of them are there.

Every task is asked at the same time, in a thread of its own, again and again until it answers; the
log says which ones are waited for. A task that does not answer and has left the job well
(`protocol/leaving.py`) is not waited for, unless the session needs it: the tasks that do answer
know, and those among them that were restarted are told. One that refuses ends the wait for all. No
thread asks on when the wait is over or the session is given up.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

from millrace.core import errors
from millrace.core.cluster_spec import ClusterSpec
from millrace.core.config import ConfigProto
from millrace.core.device_spec import task_of
from millrace.platform import logging
from millrace.platform.wait_reporter import WaitReporter
from millrace.protocol.leaving import LeavingTasks
from millrace.rpc import service_messages
from millrace.rpc.channel import start_thread
from millrace.server.peers import Peers
from millrace.server.tasks import filtered_tasks

#: How long one question to a task lasts.
_ASK_SECONDS = 0.5
#: How often the tasks that answer are asked which ones have left the job.
_LEARN_SECONDS = 1.0
#: A connection over which a task does not answer for so long is replaced.
_RENEW_SECONDS = 5.0


def choose_tasks(
    config: ConfigProto, target: str, cluster: ClusterSpec, me: str, my_address: str
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
      leaving: What the master's task knows of the tasks that have left the job.

    Attributes:
      absent: The tasks that were not waited for because they have left, with their addresses.
    """

    def __init__(self, peers: Peers, home: str, leaving: LeavingTasks) -> None:
        self._peers = peers
        self._home = home
        self._leaving = leaving
        self.absent: dict[str, str] = {}
        #: Set when nobody waits for tasks any more.
        self._given_up = threading.Event()
        #: Guards what is learned from others of tasks that have left.
        self._learning = threading.Lock()
        self._learned: set[str] = set()
        self._learned_at = float("-inf")

    def meet(
        self,
        tasks: dict[str, str],
        mine: list[service_messages.DeviceAttributes],
        needed: Collection[str] = (),
    ) -> list[service_messages.DeviceAttributes]:
        """The devices of all tasks, those of the master's first; waits until all have answered.

        Args:
          tasks: Their addresses, by their names.
          mine: The devices of the master's task.
          needed: The names of the tasks that are waited for even if they have left.

        Raises:
          UnavailableError: Nobody wants the session any more.
          OpError: A task refuses.
        """
        try:
            return self._meet(tasks, mine, needed)
        finally:
            self.give_up()  # ends the threads that still ask, whatever happened

    def give_up(self) -> None:
        """Stops waiting for tasks; nothing happens when all have been met."""
        self._given_up.set()

    def _meet(
        self,
        tasks: dict[str, str],
        mine: list[service_messages.DeviceAttributes],
        needed: Collection[str],
    ) -> list[service_messages.DeviceAttributes]:
        here = self._peers.me.address
        found: dict[str, list[Any]] = {self._home: mine}
        failures: dict[str, errors.OpError] = {}
        met = threading.Semaphore(0)
        others = {task: address for task, address in tasks.items() if address != here}

        def has_left(task: str, address: str) -> bool:
            if task in needed:
                return False
            present = [others[each] for each in list(found) if each in others]
            return address in self._learn_who_left(present)

        def ask(task: str, address: str) -> None:
            try:
                devices = self._ask(task, address, has_left)
                if devices is None:
                    self.absent[task] = address
                else:
                    found[task] = devices
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
        self._pass_on([others[task] for task in found if task in others])
        devices: list[Any] = []
        for task in [self._home, *(t for t in tasks if t != self._home)]:
            for device in found.get(task, ()):
                copy = service_messages.DeviceAttributes()
                copy.CopyFrom(device)
                # A session's own cluster may know the task by another name than its server does.
                copy.name = task + device.name[len(task_of(device.name)) :]
                devices.append(copy)
        return devices

    def _ask(
        self, task: str, address: str, has_left: Callable[[str, str], bool]
    ) -> list[service_messages.DeviceAttributes] | None:
        """The devices of a task; waits until it answers, or None when it has left the job."""
        reporter = WaitReporter("CreateSession has waited")
        renewed = time.monotonic()
        while not self._given_up.is_set():
            try:
                stub = self._peers.connection(address).worker()
                # Short calls: who gives up should not be waited for.
                timeout = min(_ASK_SECONDS, max(0.1, reporter.seconds_left()))
                answer = stub.get_status(
                    service_messages.GetStatusRequest(), timeout=timeout, wait_for_ready=True
                )
                return list(answer.device_attributes)
            except (errors.DeadlineExceededError, errors.UnavailableError):
                self._look_elsewhere(address)
                if has_left(task, address):
                    logging.warning(
                        "%s at %s has left the job: this session does not wait for it.",
                        task,
                        address,
                    )
                    return None
                reporter.tell(
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

    def _look_elsewhere(self, address: str) -> None:
        """Asks a process that does not serve its task where the one is that does."""
        try:
            told = json.loads(self._peers.connection(address).status(_ASK_SECONDS))
            follows = str(told["replica"]["follows"])
        except (errors.OpError, ValueError, KeyError, TypeError):
            return
        self._peers.moved(address, follows, 0)

    def _pass_on(self, present: list[str]) -> None:
        """Tells the tasks that are there who has left: one that was restarted has not heard it.

        So the job remembers as long as one task of it does, and sessions are opened in between.
        """
        for gone in self.absent.values():
            self._leaving.left(gone)
            for address in present:
                try:
                    self._peers.connection(address).say_left(gone, _ASK_SECONDS)
                except errors.OpError as error:
                    logging.debug("%s did not hear that %s has left: %s", address, gone, error)

    def _learn_who_left(self, present: list[str]) -> set[str]:
        """The addresses of the tasks that have left, as this task and those present know.

        One thread at a time asks, and not too often: there may be as many that want to know as
        there are tasks.
        """
        with self._learning:
            if time.monotonic() >= self._learned_at + _LEARN_SECONDS:
                self._learned = set(self._leaving.gone)
                for address in present:
                    try:
                        answer = self._peers.connection(address).status(_ASK_SECONDS)
                        self._learned.update(map(str, json.loads(answer).get("left", ())))
                    except (errors.OpError, ValueError, AttributeError, TypeError) as error:
                        # TensorFlow's tasks know nothing of it.
                        logging.debug("%s does not say which tasks have left: %s", address, error)
                self._learned_at = time.monotonic()
            return self._learned
