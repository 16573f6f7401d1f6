"""The clocks of the job's workers, kept by one task: the first ps, or else the first task.

Each worker tells its steps before it makes the next, and is told whether it may; the rule is in
`protocol.consistency`. A worker that is lost is not waited for. When the task that keeps the clocks
is restarted, workers join again and tell it where the dial was.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from millrace.core import errors
from millrace.core.cluster_spec import ClusterSpec
from millrace.core.value import JsonObject, Value
from millrace.protocol.consistency import Clocks, Dial

#: A worker that must wait is answered after so long, and asks again.
_POLL_SECONDS = 1.0


class ConsistencyKeeper:
    """Answers workers, and people who turn the dial."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._clocks = Clocks()
        #: Grows with each turn of the dial: after a restart the latest counts.
        self._version = 0
        #: Of each worker: which run of it, how many steps it has told, its address.
        self._runs: dict[str, tuple[str, int, str]] = {}
        #: The workers that train synchronously by themselves.
        self._synchronous: set[str] = set()
        self._closed = False

    def answer(self, question: bytes) -> bytes:
        """Answers a worker, or a client that asks for the dial or turns it.

        Raises:
          InvalidArgumentError: The question cannot be understood.
          FailedPreconditionError: The dial cannot be turned.
        """
        try:
            asked: Any = json.loads(question)
            if "worker" in asked:
                return json.dumps(self._worker_asks(asked)).encode()
            if "dial" in asked:
                self._turn(Dial.parse(str(asked["dial"])))
        except (KeyError, TypeError, ValueError) as error:
            raise errors.InvalidArgumentError(None, None, str(error)) from None
        return json.dumps(self.status()).encode()

    def status(self) -> JsonObject:
        """The dial, and each worker's clock."""
        with self._lock:
            clocks = {name: self._clocks[name] for name in self._runs if name in self._clocks}
            return {"dial": str(self._clocks.dial), "clocks": clocks}

    def _turn(self, dial: Dial) -> None:
        with self._lock:
            if self._synchronous:
                raise errors.FailedPreconditionError(
                    None,
                    None,
                    f"The program trains synchronously already (SyncReplicasOptimizer on "
                    f"{', '.join(sorted(self._synchronous))}): the dial is for asynchronous ones.",
                )
            self._clocks.dial = dial
            self._version += 1
            self._changed.notify_all()

    def _worker_asks(self, asked: dict[str, Value]) -> dict[str, Value]:
        worker, run, steps = str(asked["worker"]), str(asked["run"]), int(asked["steps"])
        with self._lock:
            if asked.get("synchronous"):
                self._synchronous.add(worker)
            if int(asked.get("version", 0)) > self._version:
                self._clocks.dial = Dial.parse(str(asked["at"]))
                self._version = int(asked["version"])
            if asked.get("leaves"):
                self._forget(worker)
                return self._told(worker)
            known = self._runs.get(worker)
            if known is None or known[0] != run or worker not in self._clocks:
                self._clocks.join(worker)
            else:
                self._clocks.step(worker, max(0, steps - known[1]))
            self._runs[worker] = run, steps, str(asked.get("address", ""))
            self._changed.notify_all()
            deadline = time.monotonic() + _POLL_SECONDS
            while not self._closed and worker in self._clocks:
                left = deadline - time.monotonic()
                if self._clocks.may_step(worker) or left <= 0:
                    break
                self._changed.wait(left)
            return self._told(worker)

    def _told(self, worker: str) -> dict[str, Value]:
        goes = worker not in self._clocks or self._clocks.may_step(worker)
        late = [] if goes else self._clocks.waits_for(worker)
        return {
            "go": goes,
            "dial": str(self._clocks.dial),
            "version": self._version,
            "waits_for": [[name, self._clocks[name]] for name in late],
        }

    def _forget(self, worker: str) -> None:
        self._clocks.leave(worker)
        self._runs.pop(worker, None)
        self._synchronous.discard(worker)
        self._changed.notify_all()

    def lost(self, address: str) -> None:
        """The task at an address is gone."""
        with self._lock:
            for worker, known in list(self._runs.items()):
                if known[2] == address:
                    self._forget(worker)

    def close(self) -> None:
        """Lets nobody wait any more."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()


def keeper_of(cluster: ClusterSpec) -> str:
    """The address of the task that keeps the clocks."""
    jobs = cluster.jobs
    job = "ps" if "ps" in jobs else jobs[0]
    return str(cluster.task_address(job, cluster.task_indices(job)[0]))
