"""A program made ready to run: stages, value slots, and who waits for whom.

A plan is made once for a signature (feeds, fetches, targets) and run many times, by several
threads at once: it holds no state of a step.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.compiler.xla import jax
from millrace.core import errors
from millrace.core.convert import is_filled
from millrace.core.dead import DEAD
from millrace.core.places import taker
from millrace.ops.control_flow.tensor_array_value import TensorArrayValue
from millrace.passes import schedule
from millrace.passes.frames import REGION, WAITING_REGION
from millrace.passes.function_body import (
    functions_of,
)
from millrace.passes.join_accumulators import JoinedNode, absorbed_handles
from millrace.passes.node import (
    Edge,
    Node,
    Program,
    is_chosen_reference,
    is_variable_edge,
)
from millrace.passes.rendezvous import SENDS, may_die
from millrace.passes.transfer import RECEIVE, SEND
from millrace.runtime import (
    assign_stage,
    compile_ahead,
    count_stage,
    row_stage,
)
from millrace.runtime.accumulator_stage import (
    ApplyGradientsStage,
    HandleStage,
    TakeGradientsStage,
    gradients_stage,
)
from millrace.runtime.assign_stage import AssignStage
from millrace.runtime.compiled_stage import (
    MAX_EMBEDDED_BYTES,
    CompiledStage,
    VariableUse,
    random_key,
)
from millrace.runtime.count_stage import CountStage
from millrace.runtime.dataset_function import Binder
from millrace.runtime.function_stage import function_stage
from millrace.runtime.interpreter import RegionStage
from millrace.runtime.kernel_call import (
    Services,
    StoredState,
    VariableRef,
    call,
    call_plainly,
    gather_inputs,
    variable_key,
)
from millrace.runtime.queue_stage import handle_stage
from millrace.runtime.row_stage import (
    PlainStage,
    SentRowsStage,
    StitchStage,
    TakeStage,
    UpdateStage,
)
from millrace.runtime.transfer_stage import ReceiveStage, SendStage, can_send


def _uses(program: Program) -> Counter[Edge]:
    """How often each value is used."""
    uses = Counter(edge for node in program.nodes for edge in node.inputs)
    uses.update(program.results)
    return uses


def _restored_for_one(uses: Counter[Edge]) -> frozenset[Edge]:
    """What is read from a checkpoint and used once: its memory is that of whoever uses it."""
    return frozenset(
        edge for edge, count in uses.items() if count == 1 and edge.node.type == "RestoreV2"
    )


#: Stateful ops that only look at or change something in memory.
_IN_MEMORY = re.compile(r"Accumulator|Queue(V2)?$|QueueSize|QueueIsClosed|HashTable(V2)?$")


class HostStage:
    """One node that runs in Python, on NumPy arrays."""

    def __init__(
        self,
        node: Node,
        blocking: bool,
        wanted: set[Edge],
        make_plan: Callable[[Program], Plan],
    ) -> None:
        self.node = node
        self._make_plan = make_plan
        self.nodes = [node]
        self.blocking = blocking
        self.outputs = [Edge(node, i) for i in range(len(node.output_types))]
        #: Reference outputs whose value right after the kernel is wanted.
        self._snapshots = [
            edge.index
            for edge in self.outputs
            if edge.dtype._is_ref_dtype and edge in wanted and not is_chosen_reference(edge)
        ]
        use = VariableUse([node], frozenset())
        #: What is locked while it runs: all that it touches, if it writes anything.
        self._locked = list(dict.fromkeys(use.written + use.read)) if use.written else []
        self.inputs = [edge for edge in dict.fromkeys(node.inputs) if not is_variable_edge(edge)]
        self._places = [self.inputs.index(edge) for edge in node.inputs if edge in self.inputs]
        self._is_plain = (
            _IN_MEMORY.search(node.type) is not None
            and len(self._places) == len(node.inputs)
            and not self._locked
            and not self._snapshots
            and set(node.definition.specials) <= {"ctx", "node"}
        )

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    def run(self, inputs: list[Any], step: Any) -> Any:
        """Runs the kernel; a blocking one may return a Deferred of its outputs."""
        if self._is_plain and all(type(value) is np.ndarray for value in inputs):
            return call_plainly(self.node, [inputs[place] for place in self._places], step)
        services = Services(
            StoredState(step.resources),
            rng=lambda node: random_key(node, step.random_counters([node])[0]),
            ctx=step,
            bind=lambda node: Binder(node, step, self._make_plan),
        )
        env = {
            edge: value
            if type(value) is np.ndarray or value is DEAD or isinstance(value, VariableRef)
            else jax.tree.map(np.asarray, value)
            for edge, value in zip(self.inputs, inputs, strict=True)
        }
        if not self._locked and not self._snapshots:
            return call(self.node, gather_inputs(self.node, env, services), services)
        slots = [step.resources.variable(*variable_key(v)) for v in self._locked]
        with contextlib.ExitStack() as locks:
            for _, slot in sorted({s.serial: s for s in slots}.items()):
                locks.enter_context(slot.lock)
            outputs = call(self.node, gather_inputs(self.node, env, services), services)
            for i in self._snapshots:
                if isinstance(outputs[i], VariableRef):
                    outputs[i] = outputs[i].read()
        return outputs


class Plan:
    """Stages of a program and the slots that their values travel in.

    Attributes:
      stages: `CompiledStage` or `HostStage`, in an order that works when none blocks.
      constants: (slot, value) pairs that are there from the start.
      followers: For each stage the stages that wait for it.
      waits: For each stage how many stages and late arguments it waits for.
      is_chain: Whether nothing could be done while a stage waits.
    """

    def __init__(self, program: Program, make_plan: Callable[[Program], Plan]) -> None:
        """Makes the plan of a program whose nodes are grouped.

        Args:
          program: What the passes of a task have made.
          make_plan: Makes the plans of functions that it calls.
        """
        assert program.stages is not None
        grouped = program.stages
        late_arguments = program.setting.feeds_one_by_one
        #: Whether what it receives may be dead without anything in it telling so.
        self.may_die = may_die(program)
        absorbed = absorbed_handles(program)
        in_rows = row_stage.nodes_in_rows(program)
        self.stages: list[Any] = []
        self._slots: dict[Edge, int] = {}
        self.constants: list[tuple[int, Any]] = []
        outside = self._edges_needed(program, grouped)
        uses = _uses(program)
        owned = _restored_for_one(uses)
        made: dict[Node, Node] = {}
        if not self.may_die:
            staged = {node for stage in grouped for node in stage.nodes}
            made = row_stage.made_for_sends(program, in_rows, staged, uses)
        in_sends = set(made.values())
        for i, stage in enumerate(grouped):
            first = stage.nodes[0]
            if stage.compiled:
                wanted = [
                    Edge(node, k)
                    for node in stage.nodes
                    for k in range(len(node.output_types))
                    if Edge(node, k) in outside
                ]
                if len(stage.nodes) == 1 and assign_stage.applies(first):
                    self.stages.append(AssignStage(first, wanted, f"stage_{i}"))
                elif len(stage.nodes) == 1 and count_stage.applies(first, wanted):
                    self.stages.append(CountStage(first, wanted, f"stage_{i}"))
                else:
                    self.stages.append(CompiledStage(stage.nodes, wanted, f"stage_{i}", owned))
            elif first.definition in (REGION, WAITING_REGION):
                self.stages.append(RegionStage(first))
            elif first in in_sends:
                continue
            elif first in made:
                rows: Any = row_stage.row_stage(made[first], outside, f"stage_{i}")
                self.stages.append(SentRowsStage(rows, SendStage(first)))
            elif first in in_rows:
                self.stages.append(row_stage.row_stage(first, outside, f"stage_{i}"))
            elif functions_of(first):
                self.stages.append(function_stage(first, make_plan))
            elif first.definition is RECEIVE:
                self.stages.append(ReceiveStage(first))
            elif first.definition is SEND and can_send(first):
                self.stages.append(SendStage(first))
            elif isinstance(first, JoinedNode):
                self.stages.append(gradients_stage(first, uses.__getitem__))
            elif first.inputs and first.inputs[0].node in absorbed:
                self.stages.append(handle_stage(first, stage.blocking))
            else:
                self.stages.append(HostStage(first, stage.blocking, outside, make_plan))
        self._arguments = list(program.arguments)
        self.argument_slots = [self._slot(edge) for edge in program.arguments]
        taken = Counter(edge for stage in self.stages for edge in stage.inputs)
        #: For each argument whether several stages take it: a copy that XLA can use serves all.
        self.aligns = [taken[edge] > 1 for edge in program.arguments]
        self.stage_inputs = [[self._slot(e) for e in stage.inputs] for stage in self.stages]
        self.stage_outputs = [[self._slot(e) for e in stage.outputs] for stage in self.stages]
        self.result_slots = [self._slot(edge) for edge in program.results]
        #: Of all values of a step: what the stages take, each in turn, and the results.
        self.take_inputs = [taker(slots) for slots in self.stage_inputs]
        self.take_results = taker(self.result_slots)
        before = [None] * len(self._slots)
        for slot, value in self.constants:
            before[slot] = value
        #: Makes the values of a step, with the constants in place.
        self.new_values: Callable[[], list[Any]] = before.copy
        self.blocks = late_arguments or any(not s.compiled and s.blocking for s in grouped)
        #: Whether it never holds a thread for long: no files, no user's Python, no wait that a
        #: branch or loop makes by itself.
        self.is_quick = all(_is_quick(stage) for stage in self.stages)
        self._link(program, late_arguments)
        self.compiled_count = sum(
            isinstance(s, CompiledStage) and not s.is_empty for s in self.stages
        )

    def _edges_needed(self, program: Program, grouped: list[schedule.Stage]) -> set[Edge]:
        """Edges that leave the stage that makes them."""
        home = {node: stage for stage in grouped for node in stage.nodes}
        needed = set(program.results)
        for stage in grouped:
            for node in stage.nodes:
                for edge in node.inputs:
                    if home.get(edge.node) is stage:
                        continue
                    # A variable's identity needs no slot; its value is read where it is used.
                    if not is_variable_edge(edge):
                        needed.add(edge)
        return needed

    def _slot(self, edge: Edge) -> int:
        slot = self._slots.get(edge)
        if slot is None:
            slot = self._slots[edge] = len(self._slots)
            if edge.node.type == "Const":
                value = edge.node.attrs["value"]
                if (
                    value.dtype != object
                    and value.nbytes > MAX_EMBEDDED_BYTES
                    and not is_filled(value)
                ):
                    value = jax.device_put(value)  # jnp.asarray would compile a program
                self.constants.append((slot, value))
        return slot

    def _link(self, program: Program, late_arguments: bool) -> None:
        home = {node: i for i, stage in enumerate(self.stages) for node in stage.nodes}
        late = {e.node: i for i, e in enumerate(program.arguments)} if late_arguments else {}
        self.followers: list[list[int]] = [[] for _ in self.stages]
        self.argument_followers: list[list[int]] = [[] for _ in program.arguments]
        self.waits = [0] * len(self.stages)
        self.sources: list[set[int]] = []
        for i, stage in enumerate(self.stages):
            sources: set[int] = set()
            self.sources.append(sources)
            arguments: set[int] = set()
            for node in stage.nodes:
                for source in node.predecessors():
                    place = home.get(source)
                    if place is not None and place != i:
                        sources.add(place)
                    if source in late:
                        arguments.add(late[source])
            for place in sources:
                self.followers[place].append(i)
            for place in arguments:
                self.argument_followers[place].append(i)
            self.waits[i] = len(sources) + len(arguments)
        self.ready_at_once = [i for i, count in enumerate(self.waits) if count == 0]
        #: For each stage whether what it returns is to be brought into the form of its outputs.
        self.flattens = [
            getattr(stage, "blocking", False) and not getattr(stage, "outputs_are_flat", False)
            for stage in self.stages
        ]
        #: (stage, slots of its inputs, of its outputs, whether to flatten) for a run in one sweep.
        self.in_order = list(
            zip(self.stages, self.stage_inputs, self.stage_outputs, self.flattens, strict=True)
        )
        self.is_chain = not late_arguments and not self.may_die and self._waits_alone()
        #: For each result the stage that makes it, or None for arguments and constants.
        self.result_stages = [home.get(edge.node) for edge in program.results]
        self.target_stages = [home.get(node) for node in program.targets]

    def _waits_alone(self) -> bool:
        """Whether all stages after one that may wait need what it waits for."""
        needed: list[set[int]] = []
        waiting: set[int] = set()
        for i, stage in enumerate(self.stages):
            needed.append(self.sources[i].union(*(needed[k] for k in self.sources[i])))
            if not waiting <= needed[i]:
                return False
            if getattr(stage, "blocking", False):
                waiting.add(i)
        return True

    def compile_ahead(self) -> Callable[[], None] | None:
        """A call that compiles what waits for other tasks, or None if nothing is known of it."""
        stages = [
            stage
            for stage in self.stages
            if isinstance(stage, CompiledStage) and stage.forms_ahead() is not None
        ]

        def compile_all() -> None:
            for stage in stages:
                stage.compile_ahead()

        return compile_all if stages else None

    def compile_for(self, feeds: Sequence[Any]) -> None:
        """Compiles what computes with values of other tasks, as far as feeds and shapes tell."""
        forms = map(compile_ahead.given, feeds)
        given = {
            edge: form
            for edge, form in zip(self._arguments, forms, strict=True)
            if form is not None
        }
        for stage in self.stages:
            if isinstance(stage, CompiledStage):
                stage.compile_ahead(given)


def takes_dead_values(stage: Any) -> bool:
    """Whether a stage runs although what it gets is dead."""
    return isinstance(stage, RegionStage) or stage.nodes[0].definition in (SEND, *SENDS)


def _is_quick(stage: Any) -> bool:
    if isinstance(
        stage, CompiledStage | SendStage | ReceiveStage | TakeStage | UpdateStage | StitchStage
    ):
        return True
    if isinstance(stage, ApplyGradientsStage | TakeGradientsStage | PlainStage):
        return True
    if isinstance(stage, AssignStage | CountStage | SentRowsStage):
        return True
    if isinstance(stage, HandleStage):
        return stage.blocking or _IN_MEMORY.search(stage.node.type) is not None
    if isinstance(stage, HostStage):
        definition = stage.node.definition
        return (
            stage.blocking
            or definition is SEND
            or not (definition.is_stateful or "File" in stage.node.type)
            or _IN_MEMORY.search(stage.node.type) is not None
        )
    return False


def host_value(value: Any) -> Any:
    """A result as a NumPy array of the caller's own; a scalar (or bytes) for rank 0."""
    if value is DEAD:
        raise errors.InvalidArgumentError(
            None,
            None,
            "Retval[0] does not have value: the fetched tensor is in a branch that was not taken",
        )
    if isinstance(value, VariableRef):
        value = value.read()
    if isinstance(value, TensorArrayValue):
        return np.float32(0)  # a flow, seen from outside, is just a number
    array = value.copy() if type(value) is np.ndarray else np.array(value)
    return array if array.ndim else array[()]
