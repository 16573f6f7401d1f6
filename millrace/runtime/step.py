"""One step's context: what its kernels may touch, and what it counts."""

from __future__ import annotations

import secrets
import threading
import time
from typing import Any

import numpy as np

from millrace.passes.node import Node
from millrace.runtime.cancellation import Cancellation
from millrace.runtime.resources import ResourceStore


class SessionState:
    """What a session keeps between its steps in one task.

    Random ops count their executions here, so that a seeded program repeats from the start
    of a session.
    """

    def __init__(self, resources: ResourceStore) -> None:
        self.resources = resources
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._salt = secrets.randbits(32)
        #: Tensors kept by tf.get_session_handle.
        self.tensors: dict[str, Any] = {}
        #: Free for host kernels: state by node name that lives as long as the session.
        self.kernel_state: dict[str, Any] = {}

    def random_counters(self, nodes: list[Node]) -> np.ndarray:
        """A (salt, count) row a node; every call counts once more."""
        rows = np.empty((len(nodes), 2), np.uint32)
        with self._lock:
            for row, node in zip(rows, nodes, strict=True):
                count = self._counts.get(node.name, 0)
                self._counts[node.name] = count + 1
                seeded = node.attrs.get("seed", 0) or node.attrs.get("seed2", 0)
                row[0] = 0 if seeded else self._salt
                row[1] = count & 0xFFFFFFFF
        return rows

    def state_of(self, node: Node, create: Any) -> Any:
        """The session-long state of a host kernel, made by `create` the first time."""
        with self._lock:
            if node.name not in self.kernel_state:
                self.kernel_state[node.name] = create()
            return self.kernel_state[node.name]


class Step:
    """The context of one execution of a plan.

    Attributes:
      resources: The store of variables, queues, tables.
      cancellation: Ends every wait of this step.
      xla_calls: How many XLA programs this step has called.
      events: (name, type, start, end) of every stage when traced, else None.
      deadline: `time.monotonic()` value after which the step fails, or None.
    """

    __slots__ = (
        "cancellation",
        "deadline",
        "events",
        "last_output",
        "resources",
        "session",
        "xla_calls",
    )

    def __init__(self, session: SessionState, *, trace: bool = False, timeout: float | None = None):
        self.session = session
        self.resources = session.resources
        self.cancellation = Cancellation()
        self.xla_calls = 0
        self.last_output: Any = None
        self.events: list[Any] | None = [] if trace else None
        self.deadline = None if timeout is None else time.monotonic() + timeout

    def wait_until_done(self) -> None:
        """Waits for the XLA program that was dispatched last.

        A step is over when its work is done: a caller may then change the arrays that it fed.
        """
        last, self.last_output = self.last_output, None
        if last is not None:
            try:
                last.block_until_ready()
            except RuntimeError:
                # The buffer was donated to a later step: then its work is done or follows.
                return

    def random_counters(self, nodes: list[Node]) -> np.ndarray:
        """See `SessionState.random_counters`."""
        return self.session.random_counters(nodes)
