"""A step over several tasks, split and registered: ready to be run many times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from millrace.core import errors
from millrace.core.positions import taker
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.passes.node import Node
from millrace.passes.partitions import Partition
from millrace.passes.transfer import LOOP_RECEIVE, RECEIVE
from millrace.protocol.step.remote_partitions import RemotePartition, RemotePartitions
from millrace.rpc.channel import Channel
from millrace.rpc.snapshot import SnapshotReader
from millrace.runtime import executor
from millrace.runtime.partial_run import PartialRun
from millrace.server.drivers.effects import changes_state
from millrace.server.worker_sessions import RegisteredGraph

if TYPE_CHECKING:
    from millrace.server.drivers.pending_step import PendingStep

_SAVES = frozenset(("SaveV2", "_SaveDelta", "Save", "SaveSlices"))


class PreparedStep:
    """A step as its master has prepared it.

    Attributes:
      local: The partition of the master's own task.
      graph: The same, registered.
      remote: The partitions of other tasks, as they were split off.
      partitions: The same, as the step's rules know them.
      fetches: How many values are fetched.
      readers: How variables of other tasks are read in shared memory, by their key.
    """

    def __init__(
        self,
        local: Partition,
        graph: RegisteredGraph,
        remote: Sequence[Partition],
        registered: Sequence[RemotePartition],
        fetches: int,
    ) -> None:
        self.local = local
        self.graph = graph
        self.remote = remote
        self.partitions = RemotePartitions(registered)
        self.fetches = fetches
        #: The names of its fetches, targets and feeds: the same in another session.
        self.what: tuple[str, ...] = ()
        #: Whether it changes variables somewhere.
        self.is_written = False
        #: The tasks whose variables it reads as they were at one instant, with their addresses.
        self.cut_tasks: dict[str, str] = {}
        #: Of what is fed: what this task's partition takes.
        self.take_feeds = taker(local.arguments)
        #: Whether it ran before, or was about to.
        self.has_begun = False
        #: Whether a partition elsewhere waits for other steps too, as in a synchronous round.
        self.meets_others = any(
            node.definition.kind == "blocking" and node.definition not in (RECEIVE, LOOP_RECEIVE)
            for each in remote
            for node in each.program.nodes
        )
        self.readers: dict[int, tuple[Channel, SnapshotReader]] = {}

    @property
    def can_repeat(self) -> bool:
        """Whether one other task can repeat the step alone, with nothing to do here."""
        return (
            self.partitions.can_repeat
            and not self.fetches
            and not self.graph.plan.stages
            and not self.graph.arguments
        )


def saves_only(nodes: Iterable[Node]) -> bool:
    """Whether a step writes variables to files and changes nothing."""
    types = {node.type for node in nodes}
    return not types.isdisjoint(_SAVES) and not any(map(changes_state, nodes))


class DistributedPartialRun(PartialRun):
    """A step over several tasks whose feeds come one by one: its ends are in this partition."""

    def __init__(
        self,
        prepared: PreparedStep,
        pending: PendingStep,
        execution: executor.Execution,
        ends: tuple[Sequence[Tensor], Sequence[Tensor], Sequence[Operation]],
    ) -> None:
        feeds, fetches, targets = ends
        self.pending = pending
        self.all_feeds = frozenset(feeds)
        local = prepared.local
        position = {index: k for k, index in enumerate(local.arguments)}
        target_position = {index: k for k, index in enumerate(local.targets)}
        super().__init__(
            execution,
            {tensor: position[i] for i, tensor in enumerate(feeds)},
            fetches,
            {op: target_position[i] for i, op in enumerate(targets)},
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
