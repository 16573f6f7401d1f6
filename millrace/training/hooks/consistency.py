"""ConsistencyHook: how far ahead of the slowest worker this one may be."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Sequence
from typing import Any

from millrace.core import errors
from millrace.platform import logging, wait_reporter
from millrace.protocol.consistency import Dial
from millrace.server.consistency import keeper_of
from millrace.server.server import Server, find_running
from millrace.training.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)

#: While the dial says `async`, the task that keeps the clocks is asked so often where it is.
_LOOK_SECONDS = 1.0
#: The op that only a synchronous training has.
_SYNCHRONOUS = frozenset(("ConditionalAccumulator", "SparseConditionalAccumulator"))


class ConsistencyHook(SessionRunHook):
    """Lets a worker wait that is too far ahead of the slowest one. Not in TensorFlow.

    `tf.train.MonitoredTrainingSession` has one for each worker of a cluster, so that
    ``millrace consistency ssp:4`` can turn the dial while the job trains.
    """

    def __init__(self, consistency: str | None = None) -> None:
        """Makes the hook.

        Args:
          consistency: ``async``, ``ssp:K``, ``backup:B`` or ``sync``: where the dial is at first;
            by default what MILLRACE_CONSISTENCY says.

        Raises:
          ValueError: It is none of these.
        """
        said = consistency or os.environ.get("MILLRACE_CONSISTENCY", "")
        self._dial = Dial.parse(said) if said else Dial()
        #: A dial that was given counts until somebody turns it.
        self._version = 1 if said else 0
        self._server: Server | None = None
        self._keeper = ""
        self._run = ""
        self._steps = 0
        self._asked_at = 0.0
        self._is_synchronous = False

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Finds the task that keeps the clocks."""
        self._run = secrets.token_hex(4)
        self._asked_at = 0.0
        target = getattr(session, "sess_str", b"").decode()
        self._server = find_running(target)
        if self._server is not None:
            self._keeper = keeper_of(self._server.cluster)
        types = {op.type for op in session.graph.get_operations()}
        self._is_synchronous = not types.isdisjoint(_SYNCHRONOUS)
        if self._is_synchronous and self._version:
            logging.warning(
                "MILLRACE_CONSISTENCY=%s has no effect: the program trains synchronously already.",
                self._dial,
            )
            self._version, self._dial = 0, Dial()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Waits until this worker may make its next step."""
        if self._server is None:
            return None
        is_free = self._dial == Dial()
        if is_free and time.monotonic() < self._asked_at + _LOOK_SECONDS:
            return None
        reporter: wait_reporter.WaitReporter | None = None
        while True:
            try:
                told = self._ask()
            except errors.OpError as error:
                # The task that keeps the clocks is away: what it holds is, too, and the step says.
                logging.debug("%s does not answer about clocks: %s", self._keeper, error)
                return None
            if told["go"]:
                return None
            if reporter is None:
                reporter = wait_reporter.WaitReporter("A step has waited")
            if not reporter.seconds_left():
                reporter.tell(lambda told=told: self._words(told))  # type: ignore[misc]

    def _words(self, told: dict[str, Any]) -> str:
        late = ", ".join(f"{name} (at its step {steps})" for name, steps in told["waits_for"])
        return f"the slowest worker, {late}: consistency is {told['dial']}"

    def _ask(self, leaves: bool = False) -> dict[str, Any]:
        server = self._server
        assert server is not None
        question = {
            "worker": server.worker.task,
            "address": server.peers.me.address,
            "run": self._run,
            "steps": self._steps,
            "at": str(self._dial),
            "version": self._version,
            "synchronous": self._is_synchronous,
            "leaves": leaves,
        }
        answer = server.ask_consistency(self._keeper, json.dumps(question).encode())
        self._asked_at = time.monotonic()
        told: dict[str, Any] = json.loads(answer)
        dial = Dial.parse(told["dial"])
        if dial != self._dial:
            logging.info("Consistency is %s from now on.", dial)
        self._dial, self._version = dial, told["version"]
        return told

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Counts the step."""
        self._steps += 1

    def end(self, session: Any) -> None:
        """Lets nobody wait for this worker any more."""
        if self._server is not None and not self._is_synchronous:
            try:
                self._ask(leaves=True)
            except errors.OpError as error:
                logging.debug("%s was not told of the end: %s", self._keeper, error)


def consistency_hooks(master: str, hooks: Sequence[SessionRunHook]) -> list[ConsistencyHook]:
    """The hook of a worker that has not one of its own, if there are other workers.

    Args:
      master: The target of its session.
      hooks: Those that it has.
    """
    server = find_running(master)
    if server is None or any(isinstance(hook, ConsistencyHook) for hook in hooks):
        return []
    cluster = server.cluster
    workers = sum(cluster.num_tasks(job) for job in cluster.jobs if job != "ps")
    return [ConsistencyHook()] if workers > 1 else []
