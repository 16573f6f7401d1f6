"""A program made ready to run: stages, value slots, and who waits for whom.

A plan is made once for a signature (feeds, fetches, targets) and run many times, by several
threads at once: it holds no state of a step.
"""

from __future__ import annotations

from typing import Any

import numpy as np


from millrace.ops.xla import jnp
from millrace.passes import schedule
from millrace.passes.node import Edge, Node, Program, is_variable_edge, variable_of
from millrace.runtime.compiled_stage import MAX_EMBEDDED_BYTES, CompiledStage
from millrace.runtime.kernel_call import Services, StoredState, call, gather_inputs

_NOT_IN_XLA = frozenset(("string", "variant", "resource"))


def can_compile(node: Node) -> bool:
    """Whether a node may be part of an XLA program."""
    if not node.definition.is_pure:
        return False
    for edge in node.inputs:
        base = edge.dtype.base_dtype.name
        if base in _NOT_IN_XLA and not (base == "resource" and variable_of(edge) is not None):
            return False
    for i, dtype in enumerate(node.output_types):
        name = dtype.base_dtype.name
        if name in _NOT_IN_XLA and not (name == "resource" and variable_of(Edge(node, i))):
            return False
    return True


class HostStage:
    """One node that runs in Python, on NumPy arrays."""

    def __init__(self, node: Node, blocking: bool) -> None:
        self.node = node
        self.nodes = [node]
        self.blocking = blocking
        self.outputs = [Edge(node, i) for i in range(len(node.output_types))]
        self.inputs = [
            edge for edge in dict.fromkeys(node.inputs) if not is_variable_edge(edge)
        ]

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    def run(self, inputs: list[Any], step: Any) -> Any:
        """Runs the kernel; a blocking one may return a Deferred of its outputs."""
        services = Services(StoredState(step.resources), ctx=step)
        env = {
            edge: value if type(value) is np.ndarray else np.asarray(value)
            for edge, value in zip(self.inputs, inputs, strict=True)
        }
        return call(self.node, gather_inputs(self.node, env, services), services)


class Plan:
    """Stages of a program and the slots that their values travel in.

    Attributes:
      stages: `CompiledStage` or `HostStage`, in an order that works when none blocks.
      constants: (slot, value) pairs that are there from the start.
      followers: For each stage the stages that wait for it.
      waits: For each stage how many stages and late arguments it waits for.
    """

    def __init__(self, program: Program, *, late_arguments: bool = False) -> None:
        _detach_constants(program)
        program.nodes = schedule.topological_order(program.nodes)
        grouped = schedule.stages(program, can_compile, late_arguments=late_arguments)
        self.stages: list[Any] = []
        self._slots: dict[Edge, int] = {}
        self.constants: list[tuple[int, Any]] = []
        outside = self._edges_needed(program, grouped)
        for i, stage in enumerate(grouped):
            if stage.compiled:
                wanted = [
                    Edge(node, k)
                    for node in stage.nodes
                    for k in range(len(node.output_types))
                    if Edge(node, k) in outside
                ]
                self.stages.append(CompiledStage(stage.nodes, wanted, f"stage_{i}"))
            else:
                self.stages.append(HostStage(stage.nodes[0], stage.blocking))
        self.argument_slots = [self._slot(edge) for edge in program.arguments]
        self.stage_inputs = [[self._slot(e) for e in stage.inputs] for stage in self.stages]
        self.stage_outputs = [[self._slot(e) for e in stage.outputs] for stage in self.stages]
        self.result_slots = [self._slot(edge) for edge in program.results]
        self.slot_count = len(self._slots)
        self.blocks = late_arguments or any(
            not s.compiled and s.blocking for s in grouped
        )
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
                if value.dtype != object and value.nbytes > MAX_EMBEDDED_BYTES:
                    value = jnp.asarray(value)
                self.constants.append((slot, value))
        return slot

    def _link(self, program: Program, late_arguments: bool) -> None:
        home = {node: i for i, stage in enumerate(self.stages) for node in stage.nodes}
        late = {e.node: i for i, e in enumerate(program.arguments)} if late_arguments else {}
        self.followers: list[list[int]] = [[] for _ in self.stages]
        self.argument_followers: list[list[int]] = [[] for _ in program.arguments]
        self.waits = [0] * len(self.stages)
        for i, stage in enumerate(self.stages):
            sources: set[int] = set()
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
        #: For each result the stage that makes it, or None for arguments and constants.
        self.result_stages = [home.get(edge.node) for edge in program.results]
        self.target_stages = [home.get(node) for node in program.targets]

    def new_values(self) -> list[Any]:
        """A step's value slots, with the constants in place."""
        values = [None] * self.slot_count
        for slot, value in self.constants:
            values[slot] = value
        return values


def _detach_constants(program: Program) -> None:
    """Takes Const nodes out of the node list: their values are in their attributes.

    What a constant waited for, its consumers wait for.
    """
    def controls_behind(node: Node, seen: set[Node]) -> list[Node]:
        found: list[Node] = []
        for control in node.controls:
            if control.type != "Const":
                found.append(control)
            elif control not in seen:
                seen.add(control)
                found.extend(controls_behind(control, seen))
        return found

    kept = [node for node in program.nodes if node.type != "Const"]
    for node in kept:
        seen: set[Node] = set()
        controls = controls_behind(node, seen)
        for edge in node.inputs:
            if edge.node.type == "Const" and edge.node.controls:
                controls.extend(controls_behind(edge.node, seen))
        node.controls = list(dict.fromkeys(controls))
    program.nodes = kept


def host_value(value: Any) -> Any:
    """A result as a NumPy array of the caller's own."""
    if type(value) is np.ndarray:
        return value.copy()
    return np.array(value)


