"""A step over several tasks, as its master sees it: its parts, and what was heard of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from millrace.core import errors
from millrace.core.places import taker
from millrace.graph.graph import Graph
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.passes.partitions import Partition
from millrace.passes.transfer import LOOP_RECEIVE, RECEIVE
from millrace.platform import wait_reporter
from millrace.rpc.channel import Channel
from millrace.rpc.failed_node import explained
from millrace.rpc.message import Message
from millrace.rpc.turns import Listener
from millrace.runtime import allotments, executor
from millrace.runtime.partial_run import PartialRun
from millrace.server.drivers.remote_part import LateParts, RemotePart
from millrace.server.worker_sessions import RegisteredGraph


class PreparedStep:
    """A step, split and registered: ready to be run many times."""

    def __init__(
        self, local: Partition, graph: RegisteredGraph, remote: list[RemotePart], fetches: int
    ) -> None:
        self.local = local
        self.graph = graph
        self.remote = remote
        self.fetches = fetches
        #: The names of its fetches, targets and feeds: the same in another session.
        self.what: tuple[str, ...] = ()
        #: Of what is fed: what this task's part takes.
        self.take_feeds = taker(local.arguments)
        #: Whether it ran before, or was about to.
        self.has_begun = False
        #: Those that begin late, by the key of what they begin with.
        self.firsts = {r.part.first_key: r for r in remote if r.part.first_key is not None}
        self.late = {r.address for r in self.firsts.values()}
        #: Those that are asked for variables, by the key of what they send then.
        self.reads = {key: r for r in remote for key in r.part.read_keys}
        #: Whether a part elsewhere waits for other steps too, as in a synchronous round.
        self.meets_others = any(
            node.definition.kind == "blocking" and node.definition not in (RECEIVE, LOOP_RECEIVE)
            for part in remote
            for node in part.part.program.nodes
        )
        #: The tasks that take part besides this one, by address.
        self.tasks = {r.address: r.part.task for r in remote}
        #: Of those whose last message to this one is their answer: how many results come before
        #: what it brings, and its key.
        self.last = {
            r.address: (len(r.part.results), r.part.last_key)
            for r in remote
            if r.part.last_key is not None
        }


class Gathering:
    """What a step's master has heard from the other tasks."""

    def __init__(
        self,
        number: int,
        waiting: dict[str, str],
        graph: Graph,
        ask: Callable[[str, int], str] = lambda address, number: "",
    ) -> None:
        self.number = number
        #: Says what another task's part of the step waits for; may take a moment.
        self._ask = ask
        self._graph = graph
        #: Tasks that have not answered, by address.
        self.waiting = waiting
        self.answers: dict[str, Message] = {}
        self.error: errors.OpError | None = None
        self._lock = threading.RLock()
        #: Made when a thread waits to be told, which reads no messages itself.
        self._condition: threading.Condition | None = None
        #: The parts that begin with what is sent to them, if some do.
        self.late: LateParts | None = None
        #: To the tasks that were asked.
        self.channels: list[Channel] = []
        #: Reads what the tasks send, for the thread that waits for it; None when others do.
        self.listener: Listener | None = None
        #: As in `PreparedStep`.
        self.last: Mapping[str, tuple[int, int]] = {}
        #: Called with the first error.
        self.on_error: Callable[[errors.OpError], None] = lambda error: None

    @property
    def condition(self) -> threading.Condition:
        """Tells of answers and errors."""
        with self._lock:
            if self._condition is None:
                self._condition = threading.Condition(self._lock)
            return self._condition

    def explained(self, address: str, code: int, text: bytes) -> errors.OpError:
        """What a task says of its failure: with its name, and where the failed op was built."""
        task = self.waiting.get(address, address)
        return explained(code, f"From {task}:\n{text.decode(errors='replace')}", self._graph)

    def answer(self, address: str, message: Message | None, error: errors.OpError | None) -> None:
        """A task has answered, or will not any more; only its first answer counts."""
        with self._lock:
            if self.waiting.pop(address, None) is None:
                return
            if message is not None:
                self.answers[address] = message
            first = error is not None and self.error is None
            if first:
                self.error = error
            if self._condition is not None:
                self._condition.notify_all()
        if self.listener is not None:
            self.listener.wake()
        if first:
            assert error is not None
            self.on_error(error)

    def fail(self, error: errors.OpError) -> bool:
        """Notes the cause of the failure; False when another was there before."""
        with self._lock:
            if self.error is not None:
                return False
            self.error = error
            return True

    def take_back(self, error: errors.OpError) -> None:
        """What a task has done for the step was in vain, though it had said that it is done."""
        if not self.fail(error):
            return
        with self.condition:
            self.condition.notify_all()
        if self.listener is not None:
            self.listener.wake()
        self.on_error(error)

    def wait(self, deadline: float | None, *, ends_with_error: bool) -> bool:
        """Waits for all answers, or also for an error; False when the deadline has passed.

        A wait for what is to come says so when it lasts, one for the end of what has failed not.
        """
        began = time.monotonic()
        reporter: wait_reporter.WaitReporter | None = None
        while self.waiting and not (ends_with_error and self.error is not None):
            timeout = wait_reporter.FIRST_SECONDS if reporter is None else reporter.seconds_left()
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                timeout = min(timeout, left)
            share = allotments.current()
            if share is not None:
                share.pause()
            try:
                self._wait(timeout, ends_with_error)
            finally:
                if share is not None:
                    share.resume()
            if ends_with_error and self.waiting:
                if reporter is None:
                    reporter = wait_reporter.WaitReporter("A step has waited", since=began)
                reporter.tell(lambda: ", ".join(list(self.waiting.values())) + self.why())
        return True

    def why(self) -> str:
        """What the other tasks wait for themselves, in words, as far as they tell."""
        found = [
            (task, self._ask(address, self.number)) for address, task in list(self.waiting.items())
        ]
        return "".join(f". There ({task}) it waits for {words}" for task, words in found if words)

    def _wait(self, timeout: float, ends_with_error: bool) -> None:
        def is_over() -> bool:
            return not self.waiting or (ends_with_error and self.error is not None)

        if self.listener is None:
            self._wait_to_be_told(timeout, is_over)
        elif not self.listener.wait(timeout, is_over):
            with self.listener.following():
                self._wait_to_be_told(timeout, is_over)

    def _wait_to_be_told(self, timeout: float, is_over: Callable[[], bool]) -> None:
        with self.condition:
            if not is_over():
                self.condition.wait(timeout)


class DistributedPartialRun(PartialRun):
    """A step over several tasks whose feeds arrive in parts: its ends are in this task's part."""

    def __init__(
        self,
        prepared: PreparedStep,
        number: int,
        gathering: Gathering,
        execution: executor.Execution,
        ends: tuple[Sequence[Tensor], Sequence[Tensor], Sequence[Operation]],
    ) -> None:
        feeds, fetches, targets = ends
        self.prepared = prepared
        self.number = number
        self.gathering = gathering
        self.all_feeds = frozenset(feeds)
        local = prepared.local
        position = {index: k for k, index in enumerate(local.arguments)}
        place = {index: k for k, index in enumerate(local.targets)}
        super().__init__(
            execution,
            {tensor: position[i] for i, tensor in enumerate(feeds)},
            fetches,
            {op: place[i] for i, op in enumerate(targets)},
        )


def check_can_be_computed(
    fetches: Sequence[Tensor],
    targets: Sequence[Operation],
    unfed: set[Tensor],
    all_feeds: frozenset[Tensor],
) -> None:
    """Raises when something wanted needs a tensor that a partial run has not been fed yet."""
    seen: set[Operation] = set()
    pending: list[Tensor | Operation] = [*fetches, *targets]
    while pending:
        found = pending.pop()
        if isinstance(found, Tensor):
            if found in unfed:
                raise errors.InvalidArgumentError(
                    None,
                    found.op,
                    f"Fetch {found.name} can't be computed from the feeds that have been fed so "
                    "far.",
                )
            if found in all_feeds:
                continue
            found = found.op
        if found not in seen:
            seen.add(found)
            pending.extend([*found.inputs, *found.control_inputs])
