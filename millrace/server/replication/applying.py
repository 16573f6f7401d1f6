"""The standby's side: applies the changes of a primary to this task's state, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tensorboard.compat.proto import graph_pb2

from millrace.core import aligned, errors
from millrace.core.resource_handle import DEFAULT_CONTAINER
from millrace.core.value import JsonObject, Value
from millrace.passes.program_def import from_graph_def
from millrace.protocol.step.applied_steps import Effect, StepAttempt
from millrace.rpc.message import Message
from millrace.runtime import executor, store_snapshot
from millrace.runtime.future import Future
from millrace.runtime.kernel_call import VariableRef
from millrace.runtime.planning import plan_of
from millrace.runtime.step import SessionState, Step
from millrace.runtime.tier_choices import TierChoices
from millrace.runtime.variable_state import StoredState, owned
from millrace.server.admission.remote_client import ClientGraph
from millrace.server.drivers.effects import ChangingStage, changing_stages
from millrace.server.registers import Registers
from millrace.server.replication import changes
from millrace.server.replication.changes import What
from millrace.server.replication.forwarding import digest
from millrace.server.replication.resource_changes import Mirrors, digests
from millrace.server.worker import Worker
from millrace.server.worker_sessions import what_runs


class Difference(Exception):
    """This task's state is not the primary's."""


class _Graph:
    """A graph of the primary, planned here as it is there.

    Attributes:
      changes: The stages that change state, by their places in the plan.
    """

    def __init__(self, definition: bytes, feeds_one_by_one: bool, state: SessionState) -> None:
        message = graph_pb2.GraphDef()
        message.ParseFromString(definition)
        program = from_graph_def(message, ClientGraph().operations)
        plan = plan_of(what_runs(program), feeds_one_by_one=feeds_one_by_one)
        self.changes: dict[int, ChangingStage] = changing_stages(plan)
        self._nodes = {node.name: node for node in program.nodes}
        self._state = StoredState(state.resources)

    def variable(self, name: str) -> VariableRef:
        """A reference to a variable, as stages get it."""
        return VariableRef(self._state, self._nodes[name])


class Applier:
    """Applies changes to the state of a task.

    Args:
      worker: The task's worker.
      registers: The task's registers.

    Attributes:
      state_incarnation: The incarnation of the state, as the primary has said.
    """

    def __init__(self, worker: Worker, registers: Registers) -> None:
        self._worker = worker
        self._registers = registers
        self.state_incarnation = 0
        #: The primary's queues, accumulators and tables.
        self.mirrors = Mirrors()
        self._session = SessionState(worker.resources)
        self._graphs: dict[int, _Graph] = {}
        #: Variables of which some slices have come.
        self._partial: dict[tuple[str, str], Any] = {}
        #: The digests that were made here, by the change at which.
        self._digests: dict[int, tuple[dict[str, int], JsonObject]] = {}

    def apply(self, message: Message) -> None:
        """Applies one change.

        Raises:
          Difference: The state of this task is not what it should be.
          Exception: It cannot be applied.
        """
        _APPLY[What(message.key)](self, message)

    def reset(self) -> None:
        """Forgets all state."""
        self._graphs.clear()
        self._partial.clear()
        self._digests.clear()
        self.mirrors = Mirrors()
        self._worker.resources.clear_all()
        self._worker.record.set_state(())
        self._session = SessionState(self._worker.resources)

    # -- Pieces of state -----------------------------------------------------------------------

    def _begin(self, message: Message) -> None:
        self.reset()
        self.state_incarnation = int(changes.said(message)["incarnation"])

    def _end(self, message: Message) -> None:
        if self._partial:
            raise Difference(f"slices of {next(iter(self._partial))} are missing")

    def _variables(self, message: Message) -> None:
        store = self._worker.resources
        for (container, name, whole), value in zip(
            changes.said(message), message.tensors, strict=True
        ):
            slot = store.variable(container, name)
            if whole is None:
                new = owned(value)
            else:
                shape, start = whole
                new = self._partial.get((container, name))
                if new is None:
                    new = self._partial[container, name] = aligned.empty(tuple(shape), value.dtype)
                new.reshape(-1)[start : start + value.size] = value
                if start + value.size < new.size:
                    continue
                del self._partial[container, name]
            with slot.lock:
                slot.value = new

    def _record(self, message: Message) -> None:
        told = changes.said(message)
        record = self._worker.record
        if isinstance(told, list):
            record.set_state(changes.record_of(message, self._no_variable))
        elif "x" in told:
            record.replaced(frozenset(told["x"]))
        else:
            outputs = changes.unpack(told["o"], message.tensors, self._no_variable)
            effect = Effect(told["e"], frozenset(told["v"]))
            record.follow(StepAttempt(*told["a"]), effect, outputs)

    def _no_variable(self, name: str) -> Value:
        raise Difference(f"a reference to {name} outside of a graph")

    def _register(self, message: Message) -> None:
        name, version = changes.said(message)
        content = np.asarray(message.tensors[0]).tobytes()
        self._registers.follow(name, content, int(version))

    def _resources(self, message: Message) -> None:
        for noted in changes.unpack_events(changes.said(message), list(message.tensors)):
            self.mirrors.set(noted)

    def _cleared(self, message: Message) -> None:
        containers = changes.said(message)
        self._worker.resources.clear(containers)
        self.mirrors.clear(containers or [DEFAULT_CONTAINER])

    # -- Queues, accumulators and tables -------------------------------------------------------

    def _events(self, message: Message) -> None:
        told, tensors = changes.said(message), list(message.tensors)
        for noted in changes.unpack_events(told["v"], tensors):
            self.mirrors.on(noted)
        if "a" in told:
            outputs = changes.unpack(told["o"], tensors, self._no_variable)
            effect = Effect(told["e"], frozenset(told["n"]))
            self._worker.record.follow(StepAttempt(*told["a"]), effect, outputs)
        elif "x" in told:
            self._worker.record.replaced(frozenset(told["x"]))

    # -- Stages --------------------------------------------------------------------------------

    def _graph(self, message: Message) -> None:
        told = changes.said(message)
        for number in told["gone"]:
            self._graphs.pop(number, None)
        definition = np.asarray(message.tensors[0]).tobytes()
        self._graphs[told["g"]] = _Graph(definition, told["one_by_one"], self._session)

    def _stage(self, message: Message) -> None:
        told = changes.said(message)
        graph = self._graphs[told["g"]]
        stage = graph.changes.get(told["s"])
        if stage is None or stage.effect.name != told["e"]:
            found = "nothing" if stage is None else stage.effect.name
            raise Difference(f"stage {told['s']} changes {found} here, and {told['e']} there")
        step = Step(self._session, executor.run_values)
        step.tier_choices = TierChoices(told["t"])
        for name, (salt, count) in told.get("r", {}).items():
            step.counted[name] = salt, count
        inputs = changes.unpack(told["i"], message.tensors, graph.variable)
        outputs = stage.run(inputs, step)
        assert not isinstance(outputs, Future)  # Such a one is forwarded by its effect.
        step.wait_until_done()
        record = self._worker.record
        if "a" in told:
            record.follow(StepAttempt(*told["a"]), stage.effect, list(outputs))
        elif stage.overwritten:
            record.replaced(stage.overwritten)

    # -- Digests -------------------------------------------------------------------------------

    def _mark(self, message: Message) -> None:
        variables = digest(store_snapshot.take(self._worker.resources))
        self._digests[message.step] = variables, digests(self.mirrors.wholes())

    def _digest(self, message: Message) -> None:
        told = changes.said(message)
        found = self._digests.pop(told["mark"], None)
        if found is None:
            return
        mine, resources = found
        theirs: dict[str, int] = told["digest"]
        differ = sorted(n for n in {*mine, *theirs} if mine.get(n) != theirs.get(n))
        # What a step has changed there, and has not told yet, cannot be compared.
        differ += sorted(
            name
            for name, (version, checksum) in told["resources"].items()
            if name in resources and resources[name] != [version, checksum]
            if resources[name][0] == version
        )
        if differ:
            raise Difference(
                f"{len(differ)} of {len(theirs) + len(told['resources'])} variables, queues, "
                f"accumulators and tables differ from the primary's after change {told['mark']}: "
                f"{', '.join(differ[:5])}"
            )

    def _unexpected(self, message: Message) -> None:
        raise errors.InternalError(None, None, f"{What(message.key).name} is not applied")


_APPLY: dict[What, Callable[[Applier, Message], None]] = {
    What.BEGIN: Applier._begin,
    What.END: Applier._end,
    What.VARIABLES: Applier._variables,
    What.RECORD: Applier._record,
    What.REGISTER: Applier._register,
    What.GRAPH: Applier._graph,
    What.STAGE: Applier._stage,
    What.CLEARED: Applier._cleared,
    What.MARK: Applier._mark,
    What.DIGEST: Applier._digest,
    What.EVENTS: Applier._events,
    What.RESOURCES: Applier._resources,
    What.OVER: Applier._unexpected,
}
