"""One step's context: what its kernels may touch, and what it counts."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from millrace.core.resource_handle import ResourceHandle
from millrace.core.value import Value
from millrace.passes.function_body import bodies_of, random_name
from millrace.passes.node import Node
from millrace.platform.file_access import FileAccess
from millrace.runtime.cancellation import Cancellation
from millrace.runtime.future import Future
from millrace.runtime.resources import ResourceStore
from millrace.runtime.step_services import EffectRecord, Exchange, Gate, MessageReader
from millrace.runtime.tier_choices import TierChoices

if TYPE_CHECKING:
    from millrace.runtime.plan import Plan

State = TypeVar("State")
#: Runs a plan with its arguments as part of a step, and returns its results.
Runner = Callable[["Plan", "Step", Sequence[Value]], list[Value]]


class SessionState:
    """What a session keeps between its steps in one task.

    Random ops count their executions here, so that a seeded program repeats from the start
    of a session.
    """

    def __init__(self, resources: ResourceStore, file_access: FileAccess | None = None) -> None:
        self.resources = resources
        #: What the session's ops may touch when its client is not in this process.
        self.file_access = file_access
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._salt = secrets.randbits(32)
        #: Tensors kept by tf.get_session_handle.
        self.tensors: dict[str, Any] = {}
        #: Free for host kernels: state by node name that lives as long as the session.
        self.kernel_state: dict[str, Any] = {}
        #: Resources in the store that are this session's own: queues without a shared name.
        self.own_resources: set[ResourceHandle] = set()

    def count_random(self, node: Node) -> tuple[int, int]:
        """(salt, count) for one more execution of a random node."""
        name = random_name(node)
        with self._lock:
            count = self._counts.get(name, 0)
            self._counts[name] = count + 1
        return 0 if _is_seeded(node) else self._salt, count & 0xFFFFFFFF

    def state_of(self, node: Node, create: Callable[[], State]) -> State:
        """The session-long state of a host kernel, made by `create` the first time."""
        with self._lock:
            if node.name not in self.kernel_state:
                self.kernel_state[node.name] = create()
            found: State = self.kernel_state[node.name]
            return found

    def for_dataset(self) -> SessionState:
        """A session for the functions of one dataset: the same state, random counts of its own.

        So what a seeded dataset draws does not depend on what else the session runs.
        """
        made = SessionState(self.resources, self.file_access)
        made.tensors, made.kernel_state = self.tensors, self.kernel_state
        made.own_resources = self.own_resources
        return made

    def close(self) -> None:
        """Drops the resources that are this session's own; what others share stays."""
        for handle in self.own_resources:
            self.resources.drop(handle)
        self.own_resources.clear()


def _is_seeded(node: Node) -> bool:
    """Whether the node, or something in the functions that it calls, has a seed."""
    if node.attrs.get("seed", 0) or node.attrs.get("seed2", 0):
        return True
    return any(_is_seeded(inner) for body in bodies_of(node) for inner in body.nodes)


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
        "_counted",
        "_runner",
        "cancellation",
        "deadline",
        "events",
        "exchange",
        "gate",
        "last_output",
        "listener",
        "record",
        "resources",
        "session",
        "tier_choices",
        "tiers",
        "why",
        "xla_calls",
    )

    def __init__(
        self,
        session: SessionState,
        runner: Runner,
        *,
        trace: bool = False,
        timeout: float | None = None,
    ) -> None:
        self.session = session
        self.resources = session.resources
        self.cancellation = Cancellation()
        self.xla_calls = 0
        self._runner = runner
        self._counted: dict[str, tuple[int, int]] = {}
        self.last_output: Any = None
        self.events: list[Any] | None = [] if trace else None
        #: When traced: which tier has run each compiled stage, and why, in a few words.
        self.tiers: dict[Any, str] = {}
        self.deadline = None if timeout is None else time.monotonic() + timeout
        #: Says why other tasks let the step wait; asked when a wait lasts, and may take a moment.
        self.why: Callable[[], str] = str
        #: Sends to and receives from the other tasks; set only where there may be some.
        self.exchange: Exchange
        #: Decides what an attempt of a numbered step changes (`server.drivers.effects`); or None.
        self.record: EffectRecord | None = None
        #: On which tiers stages run that a standby repeats; or None.
        self.tier_choices: TierChoices | None = None
        #: Where changes of variables wait while a cut is taken (`server.drivers.cuts`); or None.
        self.gate: Gate | None = None
        #: Reads what other tasks send, for a thread that waits for it; None when others do.
        self.listener: MessageReader | None = None

    def run_plan(self, plan: Plan, args: list[Value]) -> list[Value]:
        """Runs the plan of a function's body as part of this step; values stay where they are."""
        return self._runner(plan, self, args)

    def for_session(self, session: SessionState) -> Step:
        """A step of another session that is run as this one is, and outlives it."""
        return Step(session, self._runner)

    def future(self, waits_for: str | Callable[[], str]) -> Future:
        """What a blocking kernel returns while it cannot answer yet.

        Args:
          waits_for: What is waited for, in words; shown when the wait lasts.
        """
        return Future(waits_for)

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

    @property
    def counted(self) -> dict[str, tuple[int, int]]:
        """What random nodes have counted so far, by their names."""
        return self._counted

    def forget_random(self) -> None:
        """Lets random nodes count again: the next iteration of a loop draws other numbers."""
        self._counted.clear()

    def random_counters(self, nodes: list[Node]) -> np.ndarray:
        """A (salt, count) row per node; a node counts once in a step."""
        rows = np.empty((len(nodes), 2), np.uint32)
        for row, node in zip(rows, nodes, strict=True):
            name = random_name(node)
            counted = self._counted.get(name)
            if counted is None:
                counted = self._counted[name] = self.session.count_random(node)
            row[:] = counted
        return rows
