"""A stage of pure nodes: one XLA call, or its nodes one by one on NumPy.

`tiers` decides which, for each set of shapes that the stage meets. This module makes the call:
it takes the variables' locks, hands values in and out, and stores what was written. On tier 1
variables that are written are donated, so that they are updated in place; on tier 0 they change in
position while nobody else refers to them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Hashable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from millrace.compiler import budget
from millrace.compiler.xla import ArrayImpl, jax
from millrace.core import errors
from millrace.core.aligned import LITTLE, aligned
from millrace.core.value import Context, Value
from millrace.ops.control_flow.loop_lowering import NotCompilable, Stopped, stopped_by
from millrace.passes.node import Edge, Node
from millrace.platform import logging
from millrace.runtime import (
    compile_ahead,
    host_integers,
    memory,
    tiers,
    trace_time_results,
)
from millrace.runtime.cancellation import STOP_WORDS
from millrace.runtime.host_run import HostRun
from millrace.runtime.kernel_call import StoredState, uninitialized, variable_key
from millrace.runtime.resources import ResourceStore, VariableSlot
from millrace.runtime.split_stage import SeenShapes, SplitStage, split
from millrace.runtime.stage_form import MAX_EMBEDDED_BYTES, StageForm
from millrace.runtime.stage_program import (
    Outcome,
    comparable,
    jitted,
    raise_failed_checks,
    random_key,
)
from millrace.runtime.step import Step
from millrace.runtime.tier_choices import HOST, PROGRAM, TierChoices
from millrace.runtime.tiers import (
    COMPILER,
    COUNTS,
    FIRST_SAMPLE,
    Mode,
    Programs,
    Shape,
    Turns,
)
from millrace.runtime.variable_state import owned
from millrace.runtime.variable_use import VariableUse

__all__ = ["MAX_EMBEDDED_BYTES", "CompiledStage", "VariableUse", "random_key"]

#: A program that takes longer does not keep others from the variables that it only reads.
_LONG_SECONDS = 0.001
#: After so many runs with the same shapes they are taken to be the same, and only JAX looks.
_STEADY_RUNS = 8
#: After so many, a stage whose shapes have changed before is worth a program as a whole.
_LONG_STEADY_RUNS = 50

#: How long a stage that must be compiled waits for a compiler that is busy.
_BUSY_SECONDS = 0.05

_NONE_GIVEN: Mapping[Edge, Any] = {}

#: What a program is called with: donated variables, kept ones, inputs, counters; values or their
#: shapes and types.
Forms: TypeAlias = tuple[list[Value], list[Value], list[Value], Value]


class _Slots(NamedTuple):
    """The storage of a stage's variables, in the orders in which it is used."""

    kept: list[VariableSlot]
    donated: list[VariableSlot]
    written: list[VariableSlot]
    locked: list[threading.Lock]
    by_node: dict[Node, VariableSlot]


class CompiledStage:
    """Values and variables in, values and variables out, on the tier that suits the shapes."""

    may_block = False

    def __init__(
        self,
        nodes: list[Node],
        outputs: list[Edge],
        name: str = "stage",
        owned: frozenset[Edge] = frozenset(),
        mode: Mode | None = None,
        host_nodes: Collection[Node] = (),
        is_part: bool = False,
    ) -> None:
        self.nodes = nodes
        self.outputs = outputs
        self.name = name
        form = self._form = StageForm(nodes, outputs, name, owned, host_nodes)
        self._on_host = HostRun(form)
        self.inputs = form.inputs
        self.variables = form.variables
        self.random_nodes = form.random_nodes
        self.is_empty = form.is_empty
        #: Whether it has loops, which look whether the step is cancelled.
        self.has_loops = form.has_loops
        self.is_short = not form.has_loops  # Nobody knows when a loop ends.
        #: The sets of shapes that it has met, with their programs.
        self.programs = Programs(len(nodes), nodes[0].name if nodes else "", is_part)
        self._mode = tiers.mode() if mode is None else mode
        #: What was seen of the shapes inside; None once that is of no use any more.
        self._seen: SeenShapes | None = SeenShapes()
        #: Its parts, if some of its shapes change and others do not.
        self._split: SplitStage | None = None
        #: Whether the parts are quicker than the whole, while that is found out; and how many
        #: programs the parts had when it was last asked.
        self._turns: Turns | None = None
        self._compared_programs = 0
        #: While no part has a program: runs since the parts ran, and how many there must be.
        self._runs_since_sample = 0
        self._next_sample = FIRST_SAMPLE
        #: How many more runs are made on NumPy before the stage is worth a program.
        self._runs_on_host = host_integers.RUNS if form.is_little else 0
        self._is_interpreted = False
        #: Set when what another thread compiles ahead is there; None if none does.
        self._ahead: threading.Event | None = None
        self._slots: tuple[ResourceStore, int, _Slots] | None = None
        #: Whether it reads variables and writes none.
        self._only_reads = bool(form.kept) and not form.written
        self._is_long = False
        #: The shapes of the last run with their signature (one object, for several threads may run
        #: it), and how many runs had the same.
        self._latest: tuple[Shape, Any] | None = None
        self._same_runs = 0

    @property
    def node(self) -> Node:
        """The node that words name."""
        return self.nodes[0]

    @property
    def has_loops_in_programs(self) -> bool:
        """Whether one of its loops may run inside a program, where Ctrl-C does not end it."""
        if not self.has_loops or self._mode is Mode.NEVER:
            return False
        if self._mode is Mode.NOW or self.programs.counts.compiles:
            return True
        parts = self._split.parts if self._split is not None else ()
        return any(isinstance(p, CompiledStage) and p.has_loops_in_programs for p in parts)

    @property
    def compiles(self) -> int:
        """How many programs were compiled for it, its parts included."""
        parts = 0 if self._split is None else self._split.programs
        return self.programs.counts.compiles + parts

    def run(self, inputs: list[Value], step: Step) -> list[Value]:
        """Runs the stage, and ends its loops when the step is cancelled; as `Stage.run`."""
        if not self.has_loops:
            return self._run(inputs, step)
        try:
            with stopped_by(step.cancellation.stop_words):
                return self._run(inputs, step)
        except Stopped:
            error = step.cancellation.error
            assert error is not None
            raise error from None

    def _run(self, inputs: list[Value], step: Step) -> list[Value]:
        """Runs the stage.

        Args:
          inputs: The values of `self.inputs`.
          step: The step's context: resources, random counters, XLA call counter.

        Returns:
          The values of `self.outputs`.
        """
        form = self._form
        if form.is_empty:
            return []
        if form.copies is not None:
            return self._copied_values(step.resources)
        if step.tier_choices is not None and step.tier_choices.is_played:
            return self._run_as_played(inputs, step, step.tier_choices)
        if self._is_interpreted or self._mode is Mode.NEVER:
            reason = "never compiled" if self._mode is Mode.NEVER else "no program fits"
            return self._run_on_host(inputs, step, None, reason)
        latest = self._latest
        if (
            latest is None
            or latest[0].program is None
            or form.static
            or self._same_runs < _STEADY_RUNS
        ):
            signature = self._signature(inputs)
            if latest is not None and signature == latest[1]:
                self._same_runs += 1
            else:
                self._same_runs = 0
                latest = self._latest = self.programs.shape(signature), signature
        shape = latest[0]
        if shape.known is not None:
            return self._hand_out(shape.known, inputs, step)
        if self.variables.perhaps and self._lacks_a_value(step.resources):
            return self._run_on_host(inputs, step, None, "a variable has no value yet")
        if (
            shape.program is None
            and self._mode is Mode.NOW
            and form.is_one_program
            and not self._stays_on_host(inputs)
        ):
            self._compile_now(shape, inputs, step)
            if shape.known is not None:
                return self._hand_out(shape.known, inputs, step)
        if shape.program is None:
            return self._run_on_host(inputs, step, shape, shape.reason)
        return self._run_program(shape, inputs, step)

    def _run_on_host(
        self, inputs: list[Value], step: Step, shape: Shape | None, reason: str
    ) -> list[Value]:
        """Runs on tier 0, and sees whether compiling pays by now."""
        start, cpu = time.perf_counter(), time.thread_time()
        if step.tier_choices is not None:
            step.tier_choices.note(HOST)
        takes_parts = (
            self._split is not None and step.tier_choices is None and self._takes_parts(self._split)
        )
        if takes_parts:
            assert self._split is not None
            outputs = self._split.run(inputs, step)
            reason = "parts of it have programs of their own"
        else:
            is_new = shape is not None and shape.runs == 0
            outputs = self._run_nodes(inputs, step, self._seen if is_new else None)
        self.programs.counts.host_runs += 1
        COUNTS.host_runs += 1
        if step.events is not None:
            step.tiers[self] = f"NumPy: {reason}"
        if self._split is not None:
            self._compare_parts(takes_parts, time.perf_counter() - start)
        if shape is not None and self._mode is Mode.BACKGROUND:
            shape.note_host_run(
                time.perf_counter() - start,
                time.thread_time() - cpu,
                self.programs.runs_per_note,
            )
            is_steady = self._split is None or self._same_runs >= _LONG_STEADY_RUNS
            is_wanted = is_steady and self.programs.wants_program(shape)
            if is_wanted and self._form.is_one_program:
                self._compile_in_background(shape, inputs, step)
            if self._seen is not None and (self._seen.is_enough or is_wanted):
                self._split = split(self._form, self._seen, self._part)
                self._seen = None
        return outputs

    def _takes_parts(self, parts: SplitStage) -> bool:
        """Whether a run goes through the parts of the stage.

        Without programs of theirs the whole is quicker: then few runs do, ever more seldom, to see
        what they cost.
        """
        if self._turns is not None:
            return bool(self._turns.next)
        if parts.programs:
            return True
        self._runs_since_sample += 1
        if self._runs_since_sample < self._next_sample:
            return False
        parts.note_for(self._runs_since_sample)
        self._runs_since_sample = 0
        self._next_sample *= 2
        return True

    def _compare_parts(self, takes_parts: bool, seconds: float) -> None:
        """Gives up the parts of the stage if their programs make it no quicker."""
        assert self._split is not None
        if self._turns is None:
            if self._split.programs > self._compared_programs:
                self._compared_programs = self._split.programs
                self._split.note_for(1)
                self._turns = Turns()
            return
        self._turns.note(int(takes_parts), seconds)
        if self._turns.better is not None:
            if not self._turns.better:
                self._split = None
            self._turns = None

    def _run_nodes(self, inputs: list[Value], step: Step, seen: SeenShapes | None) -> list[Value]:
        slots = self._variable_slots(step.resources)
        locked = slots.locked
        for lock in locked:
            lock.acquire()
        try:
            return self._on_host.run(inputs, step, slots.by_node, seen)
        finally:
            for lock in reversed(locked):
                lock.release()

    def _run_as_played(
        self, inputs: list[Value], step: Context, choices: TierChoices
    ) -> list[Value]:
        """Runs on the tier that another task has taken for the same inputs."""
        if choices.next() == HOST:
            return self._run_nodes(inputs, step, None)
        shape = self.programs.shape(self._signature(inputs))
        while shape.program is None and shape.known is None and not self._is_interpreted:
            try:
                self._compile(shape, self._forms(inputs, step), inputs, step.resources)
            except budget.CompilerBusyError:
                time.sleep(_BUSY_SECONDS)
        if shape.known is not None:
            return self._hand_out(shape.known, inputs, step)
        if shape.program is None:
            return self._run_nodes(inputs, step, None)
        return self._run_program(shape, inputs, step)

    def _part(
        self, nodes: list[Node], outputs: list[Edge], name: str, on_host: bool
    ) -> CompiledStage:
        mode = Mode.NEVER if on_host else self._mode
        return CompiledStage(nodes, outputs, name, self._form.owned, mode, is_part=True)

    def _run_program(self, shape: Shape, inputs: list[Value], step: Step) -> list[Value]:
        """Runs the program of these shapes."""
        form = self._form
        program = shape.program
        dynamic = [
            value if type(value) is not np.ndarray or value.nbytes < LITTLE else aligned(value)
            for value in (inputs if not form.static else [inputs[i] for i in form.dynamic])
        ]
        counters: Value = step.random_counters(form.random_nodes) if form.random_nodes else ()
        if form.has_loops:
            counters = counters, step.cancellation.stop_words
        slots = self._variable_slots(step.resources)
        step.xla_calls += 1
        outcome: Outcome | None = None
        views: list[tuple[int, Any]] = []
        is_timed = self._only_reads or not shape.is_measured
        start = time.perf_counter() if is_timed else 0.0
        # Only who reads without writing has a choice.
        views_only = self._is_long and self._only_reads
        locked = () if views_only else slots.locked
        for lock in locked:
            lock.acquire()
        try:
            if views_only:
                kept = self._views(slots.kept)
            else:
                kept = [slot.value for slot in slots.kept] if slots.kept else []
            donated = [slot.value for slot in slots.donated] if slots.donated else []
            for value in kept:
                if value is None:
                    raise self._uninitialized(slots)
            for value in donated:
                if value is None:
                    raise self._uninitialized(slots)
            outcome = program(donated, kept, dynamic, counters)
            notes = outcome.notes
            if notes.aliases:
                # A host view keeps later updates from reusing the variable's buffer.
                views = [(position, np.asarray(kept[i])) for position, i in notes.aliases]
            if notes.moves or outcome.stores is not None:
                _store_some(outcome, slots.written, dynamic)
            else:
                for slot, value in zip(slots.written, outcome.written, strict=True):
                    slot.value = value
        except compile_ahead.OtherShapes:
            # Of an input since it was steady, or of a variable since it was compiled.
            step.xla_calls -= 1
            if self._same_runs < _STEADY_RUNS:
                shape.program, shape.is_queued = None, False
            self._latest, self._same_runs = None, 0
        except RuntimeError as error:
            found = memory.out_of_memory(error, self.nodes)
            if found is None:
                raise
            raise found from None
        finally:
            for lock in reversed(locked):
                lock.release()
        if outcome is None:
            return self._run(inputs, step)
        if is_timed:
            seconds = time.perf_counter() - start
            self._is_long = seconds > _LONG_SECONDS
            if not shape.is_measured:
                shape.note_program_run(seconds)
        self.programs.counts.program_runs += 1
        COUNTS.program_runs += 1
        if step.events is not None:
            step.tiers[self] = "XLA"
        if step.tier_choices is not None:
            step.tier_choices.note(PROGRAM)
        outputs = outcome.outputs
        # One program's outputs become ready together: any of them tells.
        step.last_output = outcome.written[0] if outcome.written else _first_array(outputs)
        if outcome.oks is not None:
            if form.has_loops and step.cancellation.error is not None:
                raise step.cancellation.error
            raise_failed_checks(outcome)
        for position, view in views:
            outputs.insert(position, view)
        return outputs

    # -- Compiling -------------------------------------------------------------------------

    def _stays_on_host(self, inputs: list[Value]) -> bool:
        """Whether a stage that is compiled in front of its steps gets no program all the same."""
        if self._runs_on_host and host_integers.is_little(inputs):
            self._runs_on_host -= 1
            return True
        return self.programs.is_full

    def _compile_now(self, shape: Shape, inputs: list[Value], step: Step) -> None:
        """Compiles in front of a step, or takes what another thread has compiled ahead."""
        ahead = self._ahead
        if ahead is not None:
            ahead.wait()
            self._ahead = None
        if shape.program is not None:
            return
        COUNTS.waits += 1
        self.programs.counts.waits += 1
        try:
            self._compile(shape, self._forms(inputs, step), inputs, step.resources)
        except budget.CompilerBusyError as busy:
            shape.reason = busy.message  # It is no fault of this step: it runs on tier 0.

    def _compile_in_background(self, shape: Shape, inputs: list[Value], step: Step) -> None:
        try:
            forms = self._forms(inputs, step)
        except errors.FailedPreconditionError:
            shape.is_queued = False
            return
        static = list(inputs)
        for i in self._form.dynamic:
            static[i] = None
        resources = step.resources

        def compile_it() -> None:
            try:
                self._compile(shape, forms, static, resources)
            except budget.CompilerBusyError:
                shape.is_queued = False  # It is asked for again.
                raise
            except Exception as error:
                shape.reason = f"it cannot be compiled: {error}"
                raise

        COMPILER.submit(compile_it)

    def _compile(
        self, shape: Shape, forms: Forms, inputs: list[Value], resources: ResourceStore
    ) -> None:
        """Compiles a program, or finds out that none is needed or possible."""
        start = time.perf_counter()
        program = jitted(self._form, inputs, resources)
        try:
            budget.compile(program.lower(*forms), self.name, self.nodes)
        except trace_time_results.NothingToCompute as found_out:
            shape.known = found_out.results
            return
        except NotCompilable:
            self._is_interpreted = True
            return
        self.programs.add(shape, program, time.perf_counter() - start)

    def _forms(self, inputs: list[Value], step: Step) -> Forms:
        """The shapes and types that a program for these inputs is called with."""
        form, slots = self._form, self._variable_slots(step.resources)

        def described(slots: list[VariableSlot], variables: list[Node]) -> list[Value]:
            values = [StoredState.read_slot(slot) for slot in slots]
            for value, variable in zip(values, variables, strict=True):
                if value is None:
                    raise uninitialized(variable)
            return [_described(value) for value in values]

        counters: Any = ()
        if form.random_nodes:
            counters = _described(np.empty((len(form.random_nodes), 2), np.uint32))
        if form.has_loops:
            counters = counters, _described(np.empty(STOP_WORDS, np.int32))
        dynamic = [jax.tree.map(_described, inputs[i]) for i in form.dynamic]
        kept = described(slots.kept, form.kept)
        return described(slots.donated, form.donated), kept, dynamic, counters

    def forms_ahead(self, given: Mapping[Edge, Value] = _NONE_GIVEN) -> Forms | None:
        """What the program will be called with, if it waits for other tasks and all is known.

        Only where steps wait for the compiler: else it is asked once shapes have come back.

        Args:
          given: The forms of values that are there already.
        """
        form = self._form
        if form.is_empty or form.copies is not None or form.static or self._mode is not Mode.NOW:
            return None
        edges = [self.inputs[i] for i in form.dynamic]
        if given and all(edge in given for edge in edges):
            return None  # It waits for nobody.
        dynamic = [given[e] if e in given else compile_ahead.received(e) for e in edges]
        kept = [compile_ahead.held(v) for v in form.kept]
        donated = [compile_ahead.held(v) for v in form.donated]
        if (
            self._runs_on_host
            or not dynamic
            or any(form is None for form in (*dynamic, *kept, *donated))
        ):
            return None
        counters: Any = ()
        if form.random_nodes:
            counters = _described(np.empty((len(form.random_nodes), 2), np.uint32))
        if form.has_loops:
            counters = counters, compile_ahead.given(np.empty(STOP_WORDS, np.int32))
        return donated, kept, dynamic, counters

    def compile_ahead(self, given: Mapping[Edge, Value] = _NONE_GIVEN) -> None:
        """Compiles the program that `forms_ahead` describes, if no run has done so yet."""
        forms = self.forms_ahead(given)
        if forms is None or self.programs.counts.compiles:
            return
        self._ahead = done = threading.Event()
        try:
            start = time.perf_counter()
            program = compile_ahead.PROGRAMS.compile(
                jitted(self._form, [], None), forms, comparable
            )
            signature = (), tuple((form.shape, form.dtype) for form in forms[2])
            shape = self.programs.shape(signature)
            self.programs.add(shape, program, time.perf_counter() - start)
        except Exception as error:
            # It will come again when the stage is run, and is told then.
            logging.debug("%s was not compiled ahead: %s", self.name, error)
        finally:
            done.set()

    # -- Values ----------------------------------------------------------------------------

    def _signature(self, inputs: list[Value]) -> Hashable:
        form = self._form
        if not form.static:
            try:
                return (), tuple([(value.shape, value.dtype) for value in inputs])
            except AttributeError:  # an array of tensors
                pass
        leaves, tree = jax.tree.flatten([inputs[i] for i in form.dynamic])
        shapes = tuple([(value.shape, value.dtype) for value in leaves])
        key = form.static_key(inputs)
        return (key, shapes) if len(leaves) == len(form.dynamic) else (key, shapes, tree)

    def _uninitialized(self, slots: _Slots) -> errors.FailedPreconditionError:
        """The error for the first variable that has no value."""
        form = self._form
        held = zip(slots.kept + slots.donated, form.kept + form.donated, strict=True)
        return next(uninitialized(variable) for slot, variable in held if slot.value is None)

    def _copied_values(self, resources: ResourceStore) -> list[Value]:
        """The outputs of a stage that computes nothing, without a call.

        They are host views: later updates do not reuse a buffer that somebody looks at.
        """
        form = self._form
        assert form.copies is not None
        slots = self._variable_slots(resources)
        found = []
        for lock in slots.locked:
            lock.acquire()
        try:
            for i in form.copies:
                value = slots.kept[i].value
                if value is None:
                    raise uninitialized(form.kept[i])
                found.append(np.asarray(value))
        finally:
            for lock in reversed(slots.locked):
                lock.release()
        return found

    def _hand_out(
        self, results: trace_time_results.Results, inputs: list[Value], step: Step
    ) -> list[Value]:
        """Stores and returns what is known without a program."""
        form = self._form
        if step.tier_choices is not None:
            step.tier_choices.note(PROGRAM)
        dynamic = [inputs[i] for i in form.dynamic]
        slots = self._variable_slots(step.resources)
        for lock in slots.locked:
            lock.acquire()
        try:
            kept = [slot.value for slot in slots.kept]
            for value, variable in zip(kept, form.kept, strict=True):
                if value is None:
                    raise uninitialized(variable)
            outputs = [
                trace_time_results.returned(result, dynamic, kept) for result in results.outputs
            ]
            for slot, result in zip(slots.written, results.written, strict=True):
                if isinstance(result, trace_time_results.Input) and form.is_owned(result.position):
                    slot.value = dynamic[result.position]  # used once, so it is nobody else's
                elif self._mode is Mode.NOW:
                    slot.value = trace_time_results.stored(result, dynamic, kept)
                else:
                    # JAX takes a tenth of a millisecond to take an array over.
                    slot.value = owned(trace_time_results.found(result, dynamic, kept))
        finally:
            for lock in reversed(slots.locked):
                lock.release()
        return outputs

    def _lacks_a_value(self, resources: ResourceStore) -> bool:
        """Whether a variable without a value is read in a branch, which may not be taken."""
        return any(
            resources.variable(*variable_key(v)).value is None for v in self.variables.perhaps
        )

    def _variable_slots(self, resources: ResourceStore) -> _Slots:
        found = self._slots
        if found is None or found[0] is not resources or found[1] != resources.generation:
            form = self._form
            kept, donated, written = (
                [resources.variable(*variable_key(v)) for v in group]
                for group in (form.kept, form.donated, form.written)
            )
            # Every stage takes locks in the order of their serials; two nodes may share one. What
            # is only read is locked too: another step must not give its buffer away between our
            # look and the call.
            locked = [s.lock for _, s in sorted({s.serial: s for s in kept + written}.items())]
            found = self._slots = (
                resources,
                resources.generation,
                _Slots(
                    kept,
                    donated,
                    written,
                    locked,
                    dict(zip((*form.kept, *form.written), (*kept, *written), strict=True)),
                ),
            )
        return found[2]

    def _views(self, slots: list[VariableSlot]) -> list[Value]:
        """Values that stay as they are while others update the variables."""
        values = [StoredState.read_slot(slot) for slot in slots]
        for value, variable in zip(values, self._form.kept, strict=True):
            if value is None:
                raise uninitialized(variable)
        return values


def _described(value: Value) -> Value:
    return jax.ShapeDtypeStruct(value.shape, value.dtype)  # type: ignore[no-untyped-call]


def _store_some(outcome: Outcome, written: list[VariableSlot], dynamic: list[Value]) -> None:
    """Stores what a program made, where inputs become variables or a check may forbid it."""
    stores: Any = outcome.stores
    # Waits for the program.
    kept_back = () if stores is None else np.flatnonzero(~np.asarray(stores))
    moves = dict(outcome.notes.moves)
    for position, source in moves.items():
        written[position].value = dynamic[source]
    computed = [slot for i, slot in enumerate(written) if i not in moves]
    for i, (slot, value) in enumerate(zip(computed, outcome.written, strict=True)):
        if i not in kept_back:
            slot.value = value


def _first_array(outputs: list[Value]) -> Value:
    """The first of a program's results, or None."""
    if outputs and isinstance(outputs[0], ArrayImpl):
        return outputs[0]
    return next(iter(jax.tree.leaves(outputs)), None)
