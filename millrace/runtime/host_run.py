"""Tier 0: a stage's nodes run one by one on NumPy, at any shape and without a compiler."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.xla import jax
from millrace.core import errors
from millrace.core.value import Context, Value
from millrace.ops.control_flow.tensor_array_value import in_program
from millrace.passes.node import Edge, Node, is_array_handle
from millrace.platform import process_tuning
from millrace.runtime import body_tape, guarded_writes, kernel_call
from millrace.runtime.kernel_call import Services, StoredState, run_nodes
from millrace.runtime.split_stage import SeenShapes
from millrace.runtime.stage_form import StageForm
from millrace.runtime.stage_program import random_key
from millrace.runtime.tape import MAX_NODES, Tape

kernel_call.register_host_bodies(body_tape.prepared, body_tape.prepared_loop)

#: So often a stage runs before it gets a tape.
RUNS_WITHOUT_TAPE = 1
#: A value of so many bytes goes after its last use, also in the first run.
_LARGE_BYTES = 1 << 20


class HostRun:
    """Runs a stage on tier 0.

    The first time its nodes are looked at one by one; a stage that runs again has a tape. Making
    that takes as long as a few runs, and many stages run once.

    Args:
      form: The stage.
    """

    def __init__(self, form: StageForm) -> None:
        self._form = form
        self._runs = 0
        #: A tape does not give the name of a TensorArray, whose value is its flow.
        self._can_tape = not any(map(is_array_handle, form.outputs))
        self._tape: Tape | None = None
        #: Notes all shapes; it is only used while they are new.
        self._observing: Tape | None = None
        #: Positions of inputs that were no plain arrays.
        self._arrays: frozenset[int] = frozenset()

    def run(
        self, inputs: list[Value], step: Context, slots: Value, seen: SeenShapes | None = None
    ) -> list[Value]:
        """Runs the stage; the locks of its variables are held.

        Args:
          inputs: The values of its inputs.
          step: The step's context.
          slots: The storage of its variables, by node.
          seen: Notes the shapes of all values; None if nobody wants to know.

        Returns:
          The values of its outputs.
        """
        process_tuning.use_one_blas_thread()
        form = self._form
        values = [
            value
            if type(value) is np.ndarray or not in_program(value)
            else jax.tree.map(np.asarray, value)
            for value in inputs
        ]
        keys: dict[Node, Any] = {}
        if form.random_nodes:
            counters = step.random_counters(form.random_nodes)
            keys = {n: random_key(n, counters[i]) for i, n in enumerate(form.random_nodes)}
        stored = StoredState(step.resources, slots)
        if not form.writes.any:
            return self._run(values, Services(stored, rng=keys.get), seen)
        state = guarded_writes.PendingState(stored)
        services = Services(state, rng=keys.get)
        try:
            outputs = self._run(values, services, seen)
        except errors.OpError:
            state.commit(form.writes, before=services.failed or state.current)
            raise
        state.commit(form.writes)
        return outputs

    def _run(self, values: list[Value], services: Services, seen: SeenShapes | None) -> list[Value]:
        form = self._form
        can_tape = self._can_tape and len(form.nodes) <= MAX_NODES
        if self._runs < RUNS_WITHOUT_TAPE or not can_tape:
            self._runs += 1
            return self._run_first(values, services, seen)
        for position, value in enumerate(values):
            if type(value) is not np.ndarray and position not in self._arrays:
                self._arrays |= {position}
                self._tape = self._observing = None
        if seen is not None:
            tape = self._observing = self._observing or self._made(observed=True)
            found: dict[Edge, Any] = dict(zip(form.inputs, values, strict=True))
            outputs = tape(values, services, found, seen.begin)
            seen.note(found)
            return outputs
        self._observing = None
        tape = self._tape = self._tape or self._made(observed=False)
        return tape(values, services)

    def _made(self, observed: bool) -> Tape:
        form = self._form
        return Tape(form.nodes, form.inputs, form.outputs, form.snapshots, self._arrays, observed)

    def _run_first(
        self, values: list[Value], services: Services, seen: SeenShapes | None
    ) -> list[Value]:
        form = self._form
        env: dict[Edge, Any] = dict(zip(form.inputs, values, strict=True))
        note = None if seen is None else seen.begin
        state = services.state
        wanted = set(form.outputs)
        ends: dict[Node | None, list[Edge]] = {}
        for edge, user in {e: node for node in form.nodes for e in node.inputs}.items():
            if edge not in wanted:
                ends.setdefault(user, []).append(edge)
        before: Node | None = None

        def begin(node: Node) -> None:
            nonlocal before
            for edge in ends.get(before, ()):
                value = env.get(edge)
                if type(value) is np.ndarray and value.nbytes >= _LARGE_BYTES:
                    del env[edge]
                    if seen is not None:
                        seen.note_shape(edge, value)
            before = node
            if isinstance(state, guarded_writes.PendingState):
                state.current = node
            if note is not None:
                note(node)

        run_nodes(form.nodes, env, services, form.snapshots, begin)
        if seen is not None:
            seen.note(env)
        return [env[edge] for edge in form.outputs]
