"""The backend of `Session("")`: plans run in this process, with state of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from millrace.core import errors
from millrace.graph.graph import Graph
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.passes import pipeline
from millrace.passes.node import Edge, Node, Setting
from millrace.passes.place import local_devices
from millrace.passes.prune import prune
from millrace.rpc.service_messages import DeviceAttributes
from millrace.runtime import answered_in_time, executor, store_snapshot
from millrace.runtime.cancellation import CLOSED_WHILE_RUNNING
from millrace.runtime.partial_run import PartialRun
from millrace.runtime.plan import Plan, host_value
from millrace.runtime.planning import plan_of
from millrace.runtime.resources import ResourceStore
from millrace.runtime.step import SessionState, Step
from millrace.runtime.step_stats import fill_metadata, fill_partition_graphs
from millrace.server.drivers import current_attempt
from millrace.server.drivers.prepared_step import saves_only

_NO_TRACE = 0


def _seconds(milliseconds: int) -> float | None:
    return milliseconds / 1000 if milliseconds > 0 else None


class PlacedPlan(NamedTuple):
    """A plan, and the nodes that it was made of, each on its device.

    Attributes:
      plan: The plan.
      nodes: The nodes.
      arguments: What is fed.
      is_save: Whether it writes variables to files and changes nothing.
    """

    plan: Plan
    nodes: list[Node]
    arguments: list[Edge]
    is_save: bool = False


class LocalBackend:
    """Runs a graph in this process."""

    def __init__(self, target: str, graph: Graph | None, config: Any) -> None:
        if target not in ("", "local"):
            raise errors.NotFoundError(
                None, None, f"No session factory registered for target {target!r}"
            )
        self._graph = graph
        self.state = SessionState(ResourceStore())
        self._setting = Setting(
            devices=tuple(local_devices(dict(config.device_count))),
            allow_soft_placement=config.allow_soft_placement,
            log_placement=print if config.log_device_placement else None,
        )
        #: What a step may take, in seconds, unless it is told otherwise.
        self._timeout = _seconds(config.operation_timeout_in_ms)
        #: Those that run now. Any thread adds and discards its own.
        self._steps: set[Step] = set()
        #: What earlier steps still compute although they are over.
        self._unfinished = answered_in_time.Unfinished()
        self._closed = False
        #: XLA programs called by all steps so far.
        self.xla_calls = 0

    def prepare(
        self, fetches: Sequence[Tensor], targets: Sequence[Operation], feeds: Sequence[Tensor]
    ) -> PlacedPlan:
        """Prunes, places and plans."""
        return self._plan(fetches, targets, feeds)

    def _plan(
        self,
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        feeds: Sequence[Tensor],
        late: bool = False,
    ) -> PlacedPlan:
        program = pipeline.for_cluster(prune(fetches, targets, feeds, self._setting))
        plan = plan_of(program, feeds_one_by_one=late)
        is_save = saves_only(program.nodes) and not late
        return PlacedPlan(plan, program.nodes, program.arguments, is_save)

    def run(
        self, prepared: PlacedPlan, values: Sequence[Any], options: Any, run_metadata: Any
    ) -> list[Any]:
        """Runs one step in the calling thread."""
        timeout, trace = self._timeout, False
        if options is not None:
            if options.timeout_in_ms:
                timeout = _seconds(options.timeout_in_ms)
            trace = options.trace_level > _NO_TRACE and run_metadata is not None
        step = Step(self.state, executor.run_values, trace=trace, timeout=timeout)
        snapshot = None
        if prepared.is_save:
            snapshot = step.resources = store_snapshot.take(self.state.resources)
            current_attempt.cut_taken()
        self._begin(step)
        try:
            results = answered_in_time.run(prepared.plan, step, values, self._unfinished)
        finally:
            self._steps.discard(step)
            self.xla_calls += step.xla_calls
            if snapshot is not None:
                snapshot.release()
        if run_metadata is not None:
            run_metadata.Clear()  # It tells of this step, not of earlier ones as well.
            if trace:
                fill_metadata(run_metadata, step)
            if options is not None and options.output_partition_graphs:
                fill_partition_graphs(run_metadata, prepared.nodes, prepared.arguments)
        return results

    def _begin(self, step: Step) -> None:
        # In this order: `close` sees the step, or the step sees that the session is closed.
        self._steps.add(step)
        if self._closed:
            self._steps.discard(step)
            raise errors.CancelledError(None, None, "Session has been closed.")

    def repeated_step(self, prepared: Any) -> None:
        """Steps are repeated only by their caller."""
        return None

    def partial_run_setup(
        self, fetches: Sequence[Tensor], targets: Sequence[Operation], feeds: Sequence[Tensor]
    ) -> PartialRun:
        """Makes a step that waits for its feeds."""
        plan = self._plan(fetches, targets, feeds, late=True).plan
        step = Step(self.state, executor.run_values)
        self._begin(step)
        return PartialRun(
            executor.Execution(plan, step),
            {tensor: i for i, tensor in enumerate(feeds)},
            fetches,
            {op: i for i, op in enumerate(targets)},
        )

    def partial_run(
        self,
        run: PartialRun,
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        values: dict[Tensor, Any],
    ) -> list[Any]:
        """Gives feeds and waits for fetches of a partial run."""
        execution = run.execution
        run.check_feeds(values)
        run.provide(values)
        unfed = [tensor for tensor in fetches if tensor in run.feeds]
        stages = run.stages(fetches, targets)
        try:
            reached = not unfed and execution.wait(stages)
        finally:
            if execution.finished:
                self._steps.discard(execution.step)
        if not reached:
            names = ", ".join(tensor.name for tensor in run.feeds)
            raise errors.InvalidArgumentError(
                None, None, f"The fetches depend on tensors that are not fed yet, among {names}."
            )
        return [host_value(value) for value in run.results(fetches)]

    def drop_tensor(self, handle: str) -> None:
        """Forgets a tensor that `tf.get_session_handle` kept."""
        self.state.tensors.pop(handle, None)

    def list_devices(self) -> list[Any]:
        """This process's devices."""
        return [
            DeviceAttributes(
                name=device,
                device_type="CPU",
                memory_limit=256 << 20,
                incarnation=hash(device) & 0xFFFFFFFFFFFFFFFF,
            )
            for device in self._setting.devices
        ]

    def reset(self, containers: list[str] | None) -> None:
        """Drops containers of this backend's own store."""
        self.state.resources.clear(containers)

    def close(self) -> None:
        """Cancels running steps and drops all state."""
        self._closed = True
        for step in list(self._steps):
            step.cancellation.cancel(errors.CancelledError(None, None, CLOSED_WHILE_RUNNING))
        self.state.resources.clear_all()

    def close_soon(self) -> None:
        """The same: nobody else has anything of this session."""
        self.close()
