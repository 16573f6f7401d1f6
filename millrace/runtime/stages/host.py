"""One node that runs in Python, on NumPy arrays: strings, files, queues, data-dependent shapes."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from millrace.compiler.xla import jax
from millrace.core import pieces
from millrace.core.dead import DEAD
from millrace.core.dtypes import DType
from millrace.passes.node import Edge, Node, Program, is_chosen_reference, is_variable_edge
from millrace.passes.transfer import SEND
from millrace.runtime.compiled_stage import VariableUse, random_key
from millrace.runtime.dataset_function import Binder
from millrace.runtime.found import FoundVariables, in_lock_order
from millrace.runtime.future import Future
from millrace.runtime.kernel_call import (
    Services,
    StoredState,
    VariableRef,
    call,
    call_plainly,
    flatten_outputs,
    gather_inputs,
)
from millrace.runtime.stage import Value, positions_of
from millrace.runtime.step import Step
from millrace.runtime.tape import Tape

if TYPE_CHECKING:
    from millrace.runtime.plan import Plan

#: A kernel with so many elements may make as many Python objects.
_MANY = pieces.ELEMENTS
#: Stateful ops that only look at or change something in memory.
IN_MEMORY = re.compile(r"Accumulator|Queue(V2)?$|QueueSize|QueueIsClosed|HashTable(V2)?$")


class HostStage:
    """One node that runs in Python, on NumPy arrays."""

    def __init__(self, node: Node, wanted: set[Edge], make_plan: Callable[[Program], Plan]) -> None:
        self.node = node
        self._make_plan = make_plan
        self.nodes = [node]
        self.may_block = node.definition.kind == "blocking"
        self.is_short = self.may_block or is_short(node)
        #: Whether its Python is Millrace's, and ends.
        self._is_ours = not self.may_block and "PyFunc" not in node.type
        self.outputs = [Edge(node, i) for i in range(len(node.output_types))]
        #: Reference outputs whose value right after the kernel is wanted.
        self._snapshots = [
            edge.index
            for edge in self.outputs
            if edge.dtype._is_ref_dtype and edge in wanted and not is_chosen_reference(edge)
        ]
        use = VariableUse([node], frozenset())
        #: What is locked while it runs: all that it touches, if it writes anything.
        touched = list(dict.fromkeys(use.written + use.read)) if use.written else []
        self._locked = FoundVariables(touched)
        self.inputs = [edge for edge in dict.fromkeys(node.inputs) if not is_variable_edge(edge)]
        self._positions = positions_of(node.inputs, self.inputs)
        #: Whether it takes and gives values alone; then it runs as a tape.
        self._can_tape = (
            node.definition.kind == "host"
            and not touched
            and not self._snapshots
            and len(self._positions) == len(node.inputs)
            and not any(t._is_ref_dtype or t.name in ("resource", "variant") for t in _types(node))
        )
        self._tape: Tape | None = None
        self._is_plain = (
            IN_MEMORY.search(node.type) is not None
            and len(self._positions) == len(node.inputs)
            and not touched
            and not self._snapshots
            and set(node.definition.specials) <= {"ctx", "node"}
        )

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    def run(self, inputs: list[Value], step: Step) -> list[Value] | Future:
        """Runs the kernel; a blocking one may return a Future of its outputs."""
        if self._is_plain and all(type(value) is np.ndarray for value in inputs):
            return self._flat(
                call_plainly(self.node, [inputs[position] for position in self._positions], step)
            )
        services = Services(
            StoredState(step.resources),
            rng=lambda node: random_key(node, step.random_counters([node])[0]),
            ctx=step,
            bind=lambda node: Binder(node, step, self._make_plan),
        )
        if self._can_tape and all(type(value) is np.ndarray for value in inputs):
            if self._tape is None:
                self._tape = Tape([self.node], self.inputs, self.outputs)
            if self._is_ours and sum(value.size for value in inputs) > _MANY:
                with pieces.collector_pauses():
                    return self._tape(inputs, services)
            return self._tape(inputs, services)
        env = {
            edge: value
            if type(value) is np.ndarray or value is DEAD or isinstance(value, VariableRef)
            else jax.tree.map(np.asarray, value)
            for edge, value in zip(self.inputs, inputs, strict=True)
        }
        if self._is_ours and sum(v.size for v in inputs if type(v) is np.ndarray) > _MANY:
            with pieces.collector_pauses():
                return self._call(env, services, step)
        return self._call(env, services, step)

    def _call(self, env: dict[Edge, Value], services: Services, step: Step) -> list[Value] | Future:
        if not self._locked.variables and not self._snapshots:
            return self._flat(call(self.node, gather_inputs(self.node, env, services), services))
        with contextlib.ExitStack() as locks:
            for slot in in_lock_order(self._locked.slots(step.resources)):
                locks.enter_context(slot.lock)
            outputs = call(self.node, gather_inputs(self.node, env, services), services)
            for i in self._snapshots:
                if isinstance(outputs[i], VariableRef):
                    outputs[i] = outputs[i].read()
        return self._flat(outputs)

    def _flat(self, outputs: list[Value]) -> list[Value] | Future:
        return flat_when_done(self.node, outputs) if self.may_block else outputs


def _types(node: Node) -> list[DType]:
    return [*node.output_types, *(edge.dtype for edge in node.inputs)]


def is_short(node: Node) -> bool:
    """Whether a host node never holds a thread for long: no files, no user's Python."""
    return (
        node.definition is SEND
        or not (node.definition.is_stateful or "File" in node.type)
        or IN_MEMORY.search(node.type) is not None
    )


def flat_when_done(node: Node, result: list[Value] | Future) -> list[Value] | Future:
    """The outputs of a blocking kernel, one entry per output: now, or when they come."""
    if type(result) is Future:
        return result.then(functools.partial(flatten_outputs, node))
    return flatten_outputs(node, result)


def on_host(value: object) -> Value:
    """A value as a NumPy array."""
    if isinstance(value, VariableRef):
        value = value.read()
    return value if type(value) is np.ndarray else np.asarray(value)
