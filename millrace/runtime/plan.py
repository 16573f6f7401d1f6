"""A program made ready to run: stages, value slots, and who waits for whom.

A plan is made once for a signature (feeds, fetches, targets) and run many times, by several
threads at once: it holds no state of a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from millrace.compiler.xla import jax
from millrace.core import errors
from millrace.core.convert import is_filled
from millrace.core.dead import DEAD
from millrace.core.positions import taker
from millrace.ops.control_flow.tensor_list_value import Collection
from millrace.passes.frames import REGION, WAITING_REGION
from millrace.passes.node import (
    Edge,
    Program,
)
from millrace.passes.rendezvous import SENDS, may_die
from millrace.passes.transfer import SEND
from millrace.runtime import (
    compile_ahead,
)
from millrace.runtime.compiled_stage import (
    MAX_EMBEDDED_BYTES,
    CompiledStage,
)
from millrace.runtime.kernel_call import (
    VariableRef,
)
from millrace.runtime.stage import Stage, Value


class Plan:
    """Stages of a program and the slots that their values travel in.

    Attributes:
      stages: In an order that works when none blocks.
      constants: (slot, value) pairs that are there from the start.
      followers: For each stage the stages that wait for it.
      waits: For each stage how many stages and late arguments it waits for.
    """

    def __init__(self, program: Program, stages: Sequence[Stage]) -> None:
        """Links stages.

        Args:
          program: What the passes of a task have made.
          stages: What its nodes have become.
        """
        late_arguments = program.setting.feeds_one_by_one
        #: Whether what it receives may be dead without anything in it telling so.
        self.may_die = may_die(program)
        self.stages = list(stages)
        self._slots: dict[Edge, int] = {}
        self.constants: list[tuple[int, Value]] = []
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
        self.new_values: Callable[[], list[Value]] = before.copy
        self.blocks = late_arguments or any(stage.may_block for stage in self.stages)
        #: Whether it never holds a thread for long: no files, no user's Python, no wait that a
        #: branch or loop makes by itself.
        self.is_quick = all(stage.is_short for stage in self.stages)
        #: Stages that may run for as long as a condition holds.
        self._with_loops = [
            stage for stage in self.stages if isinstance(stage, CompiledStage) and stage.has_loops
        ]
        #: For each stage whether it runs although what it gets is dead.
        self.takes_dead = [
            stage.nodes[0].definition in (REGION, WAITING_REGION, SEND, *SENDS)
            for stage in self.stages
        ]
        self._link(program, late_arguments)

    @property
    def may_hold_its_thread(self) -> bool:
        """Whether a program of XLA's may run for as long as a condition holds."""
        return any(stage.has_loops_in_programs for stage in self._with_loops)

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
                    position = home.get(source)
                    if position is not None and position != i:
                        sources.add(position)
                    if source in late:
                        arguments.add(late[source])
            for position in sources:
                self.followers[position].append(i)
            for position in arguments:
                self.argument_followers[position].append(i)
            self.waits[i] = len(sources) + len(arguments)
        self.ready_at_once = [i for i, count in enumerate(self.waits) if count == 0]
        #: For each result the stage that makes it, or None for arguments and constants.
        self.result_stages = [home.get(edge.node) for edge in program.results]
        self.target_stages = [home.get(node) for node in program.targets]

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

    def compile_for(self, feeds: Sequence[object]) -> None:
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


def host_value(value: object) -> Value:
    """A result as a NumPy array of the caller's own; a scalar (or bytes) for rank 0."""
    if value is DEAD:
        raise errors.InvalidArgumentError(
            None,
            None,
            "Retval[0] does not have value: the fetched tensor is in a branch that was not taken",
        )
    if isinstance(value, VariableRef):
        value = value.read()
    if isinstance(value, Collection):
        return np.float32(0)  # a flow, seen from outside, is just a number
    array = value.copy() if type(value) is np.ndarray else np.array(value)
    return array if array.ndim else array[()]
