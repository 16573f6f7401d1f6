"""The lease on a task of the cluster itself: no other server is needed.

It is kept by the first ps task, not by a majority of them. When a ps task is away, training
stands still with any chief, until it is back and restored; so a majority would keep chiefs for
jobs that cannot train, and with the usual one or two ps tasks it would need all of them. A ps that
restarts forgets the lease, and gets it back from its holder (`millrace.protocol.election`).

A cluster without a job called ``ps`` keeps it on the first task of its first job; without a
cluster there is nobody to elect another one, and the lease is in this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from millrace.core import errors
from millrace.protocol.election import Reading, Record
from millrace.training.election.register import CALL_SECONDS
from millrace.training.sessions.task_register import SCHEME, TaskRegister, keys_for, tasks_of


class BuiltinRegister:
    """A register of a task.

    Args:
      master: The target of a session: any task of the cluster.
      path: The register's name.
    """

    def __init__(self, master: str, path: str) -> None:
        self._master = master
        self._path = path
        #: On the task that keeps the register, once it is known which one that is.
        self._register: TaskRegister | None = None
        if not master.startswith(SCHEME):
            self._register = TaskRegister(None, path, CALL_SECONDS)

    def read(self) -> Reading:
        """What it holds."""
        with self._reached():
            content, version = self._opened().read()
        return Reading(None if content is None else Record.decode(content), version)

    def write(self, record: Record, version: int) -> bool:
        """Replaces the content if it has this version; whether it did."""
        with self._reached():
            return self._opened().write(record.encode(), version).done

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Looks again where the task is, the next time, if it cannot be reached."""
        try:
            with _of_millrace(self._master):
                yield
        except errors.UnavailableError:
            if self._register is not None and self._master.startswith(SCHEME):
                self._register.close()
                self._register = None
            raise

    def _opened(self) -> TaskRegister:
        if self._register is None:
            cluster = tasks_of(self._master, CALL_SECONDS)
            tasks = cluster.get("ps") or cluster[min(cluster)]
            self._register = TaskRegister(
                tasks[min(tasks)], self._path, CALL_SECONDS, keys_for(self._master)
            )
        return self._register

    def close(self) -> None:
        """Ends the connection."""
        if self._register is not None:
            self._register.close()


@contextmanager
def _of_millrace(master: str) -> Iterator[None]:
    try:
        yield
    except errors.UnimplementedError as error:
        raise errors.FailedPreconditionError(
            None,
            None,
            f"The cluster of {master} has tasks that are no Millrace servers, so that they cannot "
            "keep the lease of the chief: use zookeeper:// or etcd://.",
        ) from error
