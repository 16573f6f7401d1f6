"""A stage of pure nodes as one XLA call.

Variables that the stage writes are passed as donated buffers and come back as new ones, so
that an update happens in place. A value whose number decides a shape is a static input: it
joins the compile key. A stage that keeps meeting new keys is run op by op instead.

Compiling costs more than many a stage's whole work, so two kinds have no program: one in which
tracing leaves nothing to compute (`foregone`), such as most initializers, and, for its first
runs, one that only counts and sorts out (`bookkeeping`), such as whether variables have values.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from millrace.compiler import one_pass
from millrace.compiler.xla import JOINING_LOOPS, ArrayImpl, compiled, jax, jnp
from millrace.core import errors
from millrace.core.aligned import LITTLE, aligned
from millrace.core.convert import is_filled
from millrace.ops.control_flow.loop_lowering import NotCompilable, Stopped, stopped_by, traced_with
from millrace.ops.random import philox
from millrace.passes.function_body import (
    LOOPS,
    bodies_of,
    forward_type,
    functions_of,
    is_random,
    length_inputs,
    random_name,
)
from millrace.passes.node import Edge, Node, is_variable_edge, names_variable, variable_of
from millrace.passes.schedule import SHAPE_QUERIES, static_positions
from millrace.platform import logging
from millrace.runtime import bookkeeping, compile_ahead, foregone, guarded_writes, memory
from millrace.runtime.cancellation import STOP_WORDS
from millrace.runtime.kernel_call import (
    Services,
    StoredState,
    op_error,
    run_nodes,
    uninitialized,
    variable_key,
)
from millrace.runtime.plain_update import is_plain_update
from millrace.runtime.resources import ResourceStore, VariableSlot

#: After this many different compilations a stage runs op by op.
MAX_TRACES = 24
#: Larger constants are passed as inputs instead of being compiled into the program.
MAX_EMBEDDED_BYTES = 1 << 16
#: A program that takes longer does not keep others from the variables that it only reads.
_LONG_SECONDS = 0.001


_NONE_GIVEN: Mapping[Edge, Any] = {}


class _Check:
    """A condition that a kernel stated: which node, and how to say what was wrong."""

    def __init__(self, node: Node, message: Any, count: int) -> None:
        self.node = node
        self.message = message
        self.value_count = count


class _Notes:
    """What tracing found out about one program: which differs from shape to shape."""

    def __init__(
        self,
        checks: list[_Check],
        aliases: list[tuple[int, int]],
        moves: list[tuple[int, int]],
    ) -> None:
        self.checks = checks
        #: (position in `outputs`, position in `_kept`): what is read as it is, without a program.
        self.aliases = aliases
        #: (position in `_written`, position in `_dynamic`): inputs that become variables.
        self.moves = moves


# JAX hands them back with the results that they belong to.
jax.tree_util.register_pytree_node(_Notes, lambda notes: ((), notes), lambda notes, _: notes)


class _Outcome(NamedTuple):
    """What a program returns."""

    outputs: list[Any]
    written: list[Any]
    #: None, or for each of `written` whether it is to be stored.
    stores: Any
    oks: Any
    details: list[Any]
    notes: _Notes


class VariableUse:
    """Which variables a stage touches.

    Attributes:
      read: Read before the stage writes them (inputs of the call).
      written: Changed by the stage (outputs of the call).
      perhaps: Those of `read` that only bodies of conditionals and loops read.
    """

    def __init__(self, nodes: list[Node], snapshots: frozenset[Edge]) -> None:
        self.read: list[Node] = []
        self.written: list[Node] = []
        self._seen_read: set[Node] = set()
        self._seen_written: set[Node] = set()
        self._surely: set[Node] = set()
        self._scan(nodes, snapshots, in_body=False)
        self.perhaps = [v for v in self.read if v not in self._surely]

    def _scan(self, nodes: list[Node], snapshots: frozenset[Edge], in_body: bool) -> None:
        for node in nodes:
            for body in bodies_of(node):
                self._scan(body.nodes, snapshots, in_body=True)
                for edge in body.results:
                    found = variable_of(edge) if is_variable_edge(edge) else None
                    if found is not None and edge.dtype.name != "resource":
                        self._note_read(found, in_body=True)
            places = node.definition.signature.input_slices(node.attrs)
            updates = {places[i] for i in node.definition.updates}
            overwrites = {places[i] for i in node.definition.overwrites}
            for i, edge in enumerate(node.inputs):
                if not is_variable_edge(edge):
                    continue
                variable = variable_of(edge)
                if variable is None:
                    continue
                if i in updates or (i not in overwrites and not _only_passes(node)):
                    self._note_read(variable, in_body)
                if (i in updates or i in overwrites) and variable not in self._seen_written:
                    self._seen_written.add(variable)
                    self.written.append(variable)
            for i in range(len(node.output_types)):
                edge = Edge(node, i)
                if edge in snapshots and is_variable_edge(edge):
                    variable = variable_of(edge)
                    if variable is not None:
                        self._note_read(variable, in_body)

    def _note_read(self, variable: Node, in_body: bool) -> None:
        if not in_body:
            self._surely.add(variable)
        if variable not in self._seen_written and variable not in self._seen_read:
            self._seen_read.add(variable)
            self.read.append(variable)


def _only_passes(node: Node) -> bool:
    """Whether the node hands a variable's identity on without reading it."""
    if functions_of(node):
        return all(names_variable(edge) for edge in node.inputs if is_variable_edge(edge))
    if node.type == "Identity":
        return is_variable_edge(Edge(node, 0))
    return (
        bool(node.output_types)
        and all(t._is_ref_dtype or t.name == "resource" for t in node.output_types)
        and not (node.definition.updates or node.definition.overwrites)
    )


def _variables_copied(outputs: list[Edge], use: VariableUse) -> list[int] | None:
    """Where only values of variables are wanted: which of those read each output is."""
    if use.written or not outputs:
        return None
    found = [variable_of(edge) if is_variable_edge(edge) else None for edge in outputs]
    if any(edge.dtype.name == "resource" for edge in outputs):
        return None
    if any(variable not in use.read for variable in found):
        return None
    return [use.read.index(variable) for variable in found if variable is not None]


class _Slots(NamedTuple):
    """The storage of a stage's variables, in the orders in which it is used."""

    kept: list[VariableSlot]
    donated: list[VariableSlot]
    written: list[VariableSlot]
    locked: list[threading.Lock]


class CompiledStage:
    """One XLA call: values and variables in, values and variables out."""

    may_block = False

    def __init__(
        self,
        nodes: list[Node],
        outputs: list[Edge],
        name: str = "stage",
        owned: frozenset[Edge] = frozenset(),
    ) -> None:
        self.nodes = nodes
        self.outputs = outputs
        self.name = name
        #: Inputs whose memory nobody else has: a variable that is assigned one takes it over.
        self._owned = owned
        self._snapshots = frozenset(edge for edge in outputs if is_variable_edge(edge))
        inside = set(nodes)
        use = VariableUse(nodes, self._snapshots)
        self.variables = use
        self._copies = None if _has_checks(nodes) else _variables_copied(outputs, use)
        self._donated = [v for v in use.read if v in set(use.written)]
        self._kept = [v for v in use.read if v not in set(use.written)]
        # JAX pairs donated buffers with results of the same shape in their order: were it not
        # the same for both, XLA would copy one variable into the other's buffer.
        self._written = self._donated + [v for v in use.written if v not in set(self._donated)]
        inputs: dict[Edge, None] = {}
        for node in nodes:
            for edge in node.inputs:
                if edge.node in inside or is_variable_edge(edge) or _is_embedded(edge):
                    continue
                inputs[edge] = None
        static = _static_edges(nodes)
        #: Large constants of one value, which a program makes itself.
        self._filled = [
            edge
            for edge in dict.fromkeys(edge for node in nodes for edge in node.inputs)
            if edge.node.type == "Const"
            and edge not in static
            and is_filled(edge.node.attrs["value"])
            and edge.node.attrs["value"].nbytes > foregone.LARGEST_CONSTANT
        ]
        #: Values from outside, in the order of the call's arguments.
        self.inputs = list(inputs)
        self._static = [i for i, edge in enumerate(self.inputs) if edge in static]
        self._dynamic = [i for i, edge in enumerate(self.inputs) if edge not in static]
        self._writes = guarded_writes.Writes(nodes)
        self.random_nodes = [n for n in nodes if is_random(n)]
        self.is_empty = not outputs and not use.written and not _has_checks(nodes)
        #: Whether it has loops, which look whether the step is cancelled.
        self.has_loops = _has_loops(nodes)
        self.is_short = not self.has_loops  # Nobody knows when a loop ends.
        self._programs: dict[Any, Callable[..., Any]] = {}
        self._traces = 0
        #: (key, shapes and types) of the inputs that a program was compiled for.
        self._compiled_for: set[Any] = set()
        self._is_interpreted = False
        #: What is known without a program, by the inputs' keys, shapes and types.
        self._foregone: dict[Any, foregone.Results] = {}
        is_bookkeeping = not (use.read or use.written) and bookkeeping.is_bookkeeping(nodes)
        self._is_bookkeeping = is_bookkeeping
        #: How many more runs are made on NumPy before the stage is worth a program.
        self._runs_on_host = bookkeeping.RUNS if is_bookkeeping else 0
        #: Set when what another thread compiles ahead is there; None if none does.
        self._ahead: threading.Event | None = None
        self._slots: tuple[int, _Slots] | None = None
        #: Whether it reads variables and writes none.
        self._only_reads = bool(self._kept) and not self._written
        self._is_long = False
        #: Where the latest run has its variables; for a program that is being made.
        self._resources: ResourceStore | None = None

    @property
    def node(self) -> Node:
        """The node that words name."""
        return self.nodes[0]

    def run(self, inputs: list[Any], step: Any) -> list[Any]:
        """Runs the stage.

        Args:
          inputs: The values of `self.inputs`.
          step: The step's context: resources, random counters, XLA call counter.

        Returns:
          The values of `self.outputs`.
        """
        if self.is_empty:
            return []
        if self._copies is not None:
            return self._copied_values(step.resources)
        key: Any = ()
        if self._static:
            key = tuple(
                (value.shape, value.dtype.str, value.tobytes())
                for value in (np.asarray(inputs[i]) for i in self._static)
            )
        if self._is_interpreted or (
            self._traces >= MAX_TRACES and self._signature(key, inputs) not in self._compiled_for
        ):
            return self._interpret(inputs, step)
        if self._foregone:
            results = self._foregone.get(self._signature(key, inputs))
            if results is not None:
                return self._hand_out(results, inputs, step)
        if self._runs_on_host and bookkeeping.is_little(inputs):
            self._runs_on_host -= 1
            return bookkeeping.run(self.nodes, self.inputs, inputs, self.outputs, step)
        ahead = self._ahead
        if ahead is not None:
            ahead.wait()
            self._ahead = None
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = self._make_program(key, inputs)
        if self.variables.perhaps and self._lacks_a_value(step.resources):
            return self._interpret(inputs, step)
        dynamic = [
            value if type(value) is not np.ndarray or value.nbytes < LITTLE else aligned(value)
            for value in (inputs if not self._static else [inputs[i] for i in self._dynamic])
        ]
        counters = step.random_counters(self.random_nodes) if self.random_nodes else ()
        if self.has_loops:
            counters = counters, step.cancellation.stop_words
        slots = self._variable_slots(step.resources)
        self._resources = step.resources
        step.xla_calls += 1
        outcome: _Outcome | None = None
        views: list[tuple[int, Any]] = []
        # Only a stage that reads without writing has a choice.
        start = time.perf_counter() if self._only_reads else 0.0
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
            if self.has_loops:
                with stopped_by(step.cancellation.stop_words):  # also while it is traced
                    outcome = program(donated, kept, dynamic, counters)
            else:
                outcome = program(donated, kept, dynamic, counters)
            notes = outcome.notes
            if notes.aliases:
                # A host view keeps later updates from reusing the variable's buffer.
                views = [(place, np.asarray(kept[i])) for place, i in notes.aliases]
            if notes.moves or outcome.stores is not None:
                self._store_some(outcome, slots.written, dynamic)
            else:
                for slot, value in zip(slots.written, outcome.written, strict=True):
                    slot.value = value
        except NotCompilable:
            self._is_interpreted = True
        except Stopped:
            raise step.cancellation.error from None
        except compile_ahead.OtherShapes:
            step.xla_calls -= 1
            self._programs[key] = self._make_program(key, inputs)
        except foregone.NothingToCompute as found_out:
            step.xla_calls -= 1
            self._foregone[self._signature(key, inputs)] = found_out.results
        except RuntimeError as error:
            found = memory.out_of_memory(error, self.nodes)
            if found is None:
                raise
            raise found from None
        finally:
            for lock in reversed(locked):
                lock.release()
        if start:
            self._is_long = time.perf_counter() - start > _LONG_SECONDS
        if outcome is None:
            # The nodes turned out not to fit into one program, not into this one, or to need none.
            return self.run(inputs, step)
        outputs = outcome.outputs
        # One program's outputs become ready together: any of them tells.
        if outcome.written:
            step.last_output = outcome.written[0]
        else:
            step.last_output = _first_array(outputs)
        if outcome.oks is not None:
            if self.has_loops and step.cancellation.error is not None:
                raise step.cancellation.error
            _raise_failed_checks(np.asarray(outcome.oks), outcome.details, outcome.notes.checks)
        for place, view in views:
            outputs.insert(place, view)
        return outputs

    def _store_some(
        self, outcome: _Outcome, written: list[VariableSlot], dynamic: list[Any]
    ) -> None:
        """Stores what a program made, where inputs become variables or a check may forbid it."""
        stores: Any = outcome.stores
        # Waits for the program.
        kept_back = () if stores is None else np.flatnonzero(~np.asarray(stores))
        moves = dict(outcome.notes.moves)
        for place, source in moves.items():
            written[place].value = dynamic[source]
        computed = [slot for i, slot in enumerate(written) if i not in moves]
        for i, (slot, value) in enumerate(zip(computed, outcome.written, strict=True)):
            if i not in kept_back:
                slot.value = value

    def _uninitialized(self, slots: _Slots) -> errors.FailedPreconditionError:
        """The error for the first variable that has no value."""
        held = zip(slots.kept + slots.donated, self._kept + self._donated, strict=True)
        return next(uninitialized(variable) for slot, variable in held if slot.value is None)

    def _copied_values(self, resources: ResourceStore) -> list[Any]:
        """The outputs of a stage that computes nothing, without a call.

        They are host views: later updates do not reuse a buffer that somebody looks at.
        """
        assert self._copies is not None
        slots = self._variable_slots(resources)
        found = []
        for lock in slots.locked:
            lock.acquire()
        try:
            for i in self._copies:
                value = slots.kept[i].value
                if value is None:
                    raise uninitialized(self._kept[i])
                found.append(np.asarray(value))
        finally:
            for lock in reversed(slots.locked):
                lock.release()
        return found

    def forms_ahead(
        self, given: Mapping[Edge, Any] = _NONE_GIVEN
    ) -> tuple[list[Any], list[Any], list[Any], Any] | None:
        """What the program will be called with, if it waits for other tasks and all is known.

        Args:
          given: The forms of values that are there already.
        """
        if self.is_empty or self._copies is not None or self._static:
            return None
        edges = [self.inputs[i] for i in self._dynamic]
        if given and all(edge in given for edge in edges):
            return None  # It waits for nobody.
        dynamic = [given[e] if e in given else compile_ahead.received(e) for e in edges]
        kept = [compile_ahead.held(v) for v in self._kept]
        donated = [compile_ahead.held(v) for v in self._donated]
        if (
            self._runs_on_host
            or not dynamic
            or any(form is None for form in (*dynamic, *kept, *donated))
        ):
            return None
        counters: Any = ()
        if self.random_nodes:
            counters = compile_ahead.given(np.empty((len(self.random_nodes), 2), np.uint32))
        if self.has_loops:
            counters = counters, compile_ahead.given(np.empty(STOP_WORDS, np.int32))
        return donated, kept, dynamic, counters

    def compile_ahead(self, given: Mapping[Edge, Any] = _NONE_GIVEN) -> None:
        """Compiles the program that `forms_ahead` describes, if no run has done so yet."""
        forms = self.forms_ahead(given)
        if forms is None or self._programs:
            return
        self._ahead = done = threading.Event()
        try:
            program: Any = self._make_program((), [], once=True)
            self._programs[()] = compile_ahead.PROGRAMS.compile(program, forms, _comparable)
        except Exception as error:
            # It will come again when the stage is run, and is told then.
            logging.debug("%s was not compiled ahead: %s", self.name, error)
        finally:
            done.set()

    def _hand_out(self, results: foregone.Results, inputs: list[Any], step: Any) -> list[Any]:
        """Stores and returns what is known without a program."""
        dynamic = [inputs[i] for i in self._dynamic]
        slots = self._variable_slots(step.resources)
        for lock in slots.locked:
            lock.acquire()
        try:
            kept = self._values(slots.kept, self._kept)
            outputs = [foregone.returned(result, dynamic, kept) for result in results.outputs]
            for slot, result in zip(slots.written, results.written, strict=True):
                if isinstance(result, foregone.Input) and self._is_owned(result.place):
                    slot.value = dynamic[result.place]  # used once, so it is nobody else's
                else:
                    slot.value = foregone.stored(result, dynamic, kept)
        finally:
            for lock in reversed(slots.locked):
                lock.release()
        return outputs

    def _is_owned(self, place: int) -> bool:
        return self.inputs[self._dynamic[place]] in self._owned

    def _signature(self, key: Any, inputs: list[Any]) -> Any:
        dynamic = jax.tree.leaves([inputs[i] for i in self._dynamic])
        return key, tuple((value.shape, value.dtype) for value in dynamic)

    def _lacks_a_value(self, resources: ResourceStore) -> bool:
        """Whether a variable without a value is read in a branch, which may not be taken."""
        return any(
            resources.variable(*variable_key(v)).value is None for v in self.variables.perhaps
        )

    def _variable_slots(self, resources: ResourceStore) -> _Slots:
        found = self._slots
        if found is None or found[0] != resources.generation:
            kept, donated, written = (
                [resources.variable(*variable_key(v)) for v in group]
                for group in (self._kept, self._donated, self._written)
            )
            # Every stage takes locks in the order of their serials; two nodes may share one. What
            # is only read is locked too: another step must not give its buffer away between our
            # look and the call.
            locked = [s.lock for _, s in sorted({s.serial: s for s in kept + written}.items())]
            found = self._slots = (
                resources.generation,
                _Slots(kept, donated, written, locked),
            )
        return found[1]

    def _values(self, slots: list[VariableSlot], variables: list[Node]) -> list[Any]:
        values = [slot.value for slot in slots]
        for value, variable in zip(values, variables, strict=True):
            if value is None:
                raise uninitialized(variable)
        return values

    def _views(self, slots: list[VariableSlot]) -> list[Any]:
        """Values that stay as they are while others update the variables."""
        values = [StoredState.read_slot(slot) for slot in slots]
        for value, variable in zip(values, self._kept, strict=True):
            if value is None:
                raise uninitialized(variable)
        return values

    def _make_program(
        self, key: Any, inputs: list[Any], *, once: bool = False
    ) -> Callable[..., _Outcome]:
        """The jitted program; `once` if it may be traced for one set of shapes only."""
        static_values = {self.inputs[i]: np.asarray(inputs[i]) for i in self._static}
        traced: list[bool] = []
        in_one_pass = is_plain_update(self.nodes)

        def stage(
            donated: list[Any], kept: list[Any], dynamic: list[Any], counters: Any
        ) -> _Outcome:
            if once and traced:
                raise compile_ahead.OtherShapes
            traced.append(True)
            self._traces += 1
            shapes = tuple((value.shape, value.dtype) for value in jax.tree.leaves(dynamic))
            self._compiled_for.add((key, shapes))
            stop_words = None
            if self.has_loops:
                counters, stop_words = counters
            initial = dict(zip(self._donated, donated, strict=True))
            initial.update(zip(self._kept, kept, strict=True))
            env: dict[Edge, Any] = dict(static_values)
            for edge in self._filled:
                value = edge.node.attrs["value"]
                env[edge] = jnp.full(value.shape, value[(0,) * value.ndim])
            for i, value in zip(self._dynamic, dynamic, strict=True):
                env[self.inputs[i]] = value
            checks: list[_Check] = []
            oks: list[Any] = []
            details: list[Any] = []

            def check_for(node: Node) -> Callable[..., None]:
                def check(ok: Any, message: Any, *values: Any) -> None:
                    if not isinstance(ok, jax.Array):
                        if not np.all(ok):
                            raise ValueError(message(*values) if callable(message) else message)
                        return
                    checks.append(_Check(node, message, len(values)))
                    oks.append(jnp.all(ok))
                    details.extend(values)

                return check

            keys = {node: random_key(node, counters[i]) for i, node in enumerate(self.random_nodes)}
            with one_pass.tracing(in_one_pass), traced_with(stop_words):
                values, stores = guarded_writes.trace(
                    self.nodes,
                    self._writes,
                    initial,
                    env,
                    self._snapshots,
                    lambda state: Services(state, rng=keys.get, check=check_for, traced=True),
                    lambda: [(check.node, ok) for check, ok in zip(checks, oks, strict=True)],
                )
            outputs = [env[edge] for edge in self.outputs]
            results = outputs
            buffers = {id(value): i for i, value in enumerate(kept)}
            aliases = [(i, buffers[id(o)]) for i, o in enumerate(outputs) if id(o) in buffers]
            outputs = [value for value in outputs if id(value) not in buffers]
            moves = [] if stores else self._moves(values, dynamic)
            moved = {self._written[place] for place, _ in moves}
            written = [values[v] for v in self._written if v not in moved]
            stored = None
            if stores:
                always = jnp.asarray(True)
                stored = jnp.stack([stores.get(v, always) for v in self._written])
            stacked = jnp.stack(oks) if oks else None
            # What is donated is written in place.
            memory.check_held(_bytes([*outputs, *written]) - _bytes(donated), self._resources)
            if not (checks or stores or donated or self.random_nodes):
                foregone.look(results, [values[v] for v in self._written], dynamic, kept)
            notes = _Notes(checks, aliases, moves)
            return _Outcome(outputs, written, stored, stacked, details, notes)

        stage.__name__ = self.name
        options = JOINING_LOOPS if in_one_pass else None
        donated = (0,) if self._donated else ()
        return cast(
            "Callable[..., _Outcome]", compiled(stage, donate_argnums=donated, options=options)
        )

    def _moves(self, values: dict[Node, Any], dynamic: list[Any]) -> list[tuple[int, int]]:
        """Variables whose new values are inputs as they came: no program need copy those."""
        owned = {id(value): i for i, value in enumerate(dynamic) if self._is_owned(i)}
        places = ((k, owned.pop(id(values[v]), -1)) for k, v in enumerate(self._written))
        return [(place, source) for place, source in places if source >= 0]

    def _interpret(self, inputs: list[Any], step: Any) -> list[Any]:
        """Runs the stage's nodes one by one, without compiling the whole."""
        if not self.has_loops:
            return self._interpret_nodes(inputs, step)
        try:
            with stopped_by(step.cancellation.stop_words):
                return self._interpret_nodes(inputs, step)
        except Stopped:
            raise step.cancellation.error from None

    def _interpret_nodes(self, inputs: list[Any], step: Any) -> list[Any]:
        if self._is_bookkeeping:
            return bookkeeping.run(self.nodes, self.inputs, inputs, self.outputs, step)
        env = {
            edge: jax.tree.map(jnp.asarray, value)
            for edge, value in zip(self.inputs, inputs, strict=True)
        }
        for i in self._static:
            env[self.inputs[i]] = np.asarray(inputs[i])
        keys: dict[Node, Any] = {}
        if self.random_nodes:
            counters = step.random_counters(self.random_nodes)
            keys = {n: random_key(n, counters[i]) for i, n in enumerate(self.random_nodes)}
        stored = StoredState(step.resources)
        with contextlib.ExitStack() as locks:
            for lock in self._variable_slots(step.resources).locked:
                locks.enter_context(lock)
            if self._writes.any:
                state = guarded_writes.PendingState(stored)
                services = Services(state, rng=keys.get)
                guarded_writes.run(self.nodes, self._writes, state, env, services, self._snapshots)
            else:
                run_nodes(self.nodes, env, Services(stored, rng=keys.get), self._snapshots)
        return [env[edge] for edge in self.outputs]


def _comparable(outcome: _Outcome) -> Any:
    """What must be the same of two programs' results, besides the programs; None if none can be."""
    notes = outcome.notes
    if notes.checks or outcome.stores is not None:
        return None  # An error would name the other's op.
    counts = len(outcome.outputs), len(outcome.written)
    return counts, tuple(notes.aliases), tuple(notes.moves)


def _raise_failed_checks(oks: np.ndarray, details: list[Any], checks: list[_Check]) -> None:
    if oks.all():
        return
    start = 0
    for ok, check in zip(oks, checks, strict=True):
        values = [np.asarray(v) for v in details[start : start + check.value_count]]
        start += check.value_count
        if not ok:
            message = check.message(*values) if callable(check.message) else check.message
            raise op_error(check.node, errors.InvalidArgumentError(None, None, message))


def _first_array(outputs: list[Any]) -> Any:
    """The first of a program's results, or None."""
    if outputs and isinstance(outputs[0], ArrayImpl):
        return outputs[0]
    return next(iter(jax.tree.leaves(outputs)), None)


def _bytes(values: list[Any]) -> int:
    return sum(value.size * value.dtype.itemsize for value in jax.tree.leaves(values))


def _static_edges(nodes: list[Node]) -> set[Edge]:
    """Edges whose values must be known while the stage is traced.

    A static input that is computed inside the stage folds, and what it is computed from must
    be known in turn, back to the values that come from outside.
    """
    inside = set(nodes)
    wanted = [node.inputs[i] for node in nodes for i in static_positions(node)]
    for node in nodes:
        wanted.extend(length_inputs(node) or ())
    static: set[Edge] = set()
    while wanted:
        edge = wanted.pop()
        if edge not in static:
            static.add(edge)
            if edge.node in inside and edge.node.type not in SHAPE_QUERIES:
                wanted.extend(edge.node.inputs)
    return static


def _is_embedded(edge: Edge) -> bool:
    if edge.node.type != "Const":
        return False
    value = edge.node.attrs["value"]
    return bool(value.nbytes <= MAX_EMBEDDED_BYTES or is_filled(value))


def _has_loops(nodes: list[Node]) -> bool:
    return any(
        forward_type(node) in LOOPS or any(_has_loops(body.nodes) for body in bodies_of(node))
        for node in nodes
    )


def _has_checks(nodes: list[Node]) -> bool:
    return any("check" in node.definition.specials for node in nodes)


def random_key(node: Node, counter: Any) -> Any:
    """The random key of one execution of a node.

    Args:
      node: Its seeds are the attributes ``seed`` and ``seed2``.
      counter: (salt, count): how often it ran in this session, and a salt that is zero for
        seeded nodes.
    """
    seed, seed2 = int(node.attrs.get("seed", 0)), int(node.attrs.get("seed2", 0))
    return philox.make_key(philox.key_words(random_name(node), seed, seed2, counter))
