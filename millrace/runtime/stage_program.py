"""Tier 1: a stage traced into one XLA program.

Variables that the stage writes are passed as donated buffers and come back as new ones, so that
an update happens in place. A program is for one set of shapes: called with others it says so
(`compile_ahead.OtherShapes`) before anything has happened.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from millrace.compiler import one_pass
from millrace.compiler.xla import JOINING_LOOPS, compiled, jax, jnp
from millrace.core import errors
from millrace.core.value import Value
from millrace.ops.control_flow.loop_lowering import traced_with
from millrace.ops.random import philox
from millrace.passes.function_body import random_name
from millrace.passes.node import Edge, Node
from millrace.runtime import compile_ahead, guarded_writes, memory, trace_time_results
from millrace.runtime.kernel_call import Services, op_error
from millrace.runtime.resources import ResourceStore
from millrace.runtime.stage_form import StageForm


class Check:
    """A condition that a kernel stated: which node, and how to say what was wrong."""

    def __init__(self, node: Node, message: Value, count: int) -> None:
        self.node = node
        self.message = message
        self.value_count = count


class Checks(list[Check]):
    """The checks of one program, in the order of `Outcome.oks`."""


class Notes:
    """What tracing found out about one program: which differs from shape to shape.

    JAX keeps them in caches that outlive the stage, so they do not keep its nodes: the checks are
    the program's.
    """

    def __init__(
        self,
        checks: Checks,
        aliases: list[tuple[int, int]],
        moves: list[tuple[int, int]],
    ) -> None:
        self._checks = weakref.ref(checks)
        #: (position in `outputs`, position in `kept`): what is read as it is, without a program.
        self.aliases = aliases
        #: (position in `written`, position in `dynamic`): inputs that become variables.
        self.moves = moves

    @property
    def checks(self) -> Sequence[Check]:
        """What the program checks; none once it is gone itself."""
        return self._checks() or ()


# JAX hands them back with the results that they belong to.
jax.tree_util.register_pytree_node(Notes, lambda notes: ((), notes), lambda notes, _: notes)


class Outcome(NamedTuple):
    """What a program returns."""

    outputs: list[Any]
    written: list[Any]
    #: None, or for each of `written` whether it is to be stored.
    stores: Any
    oks: Any
    details: list[Any]
    notes: Notes


def jitted(form: StageForm, inputs: list[Value], resources: ResourceStore | None) -> Value:
    """The program of a stage, which is traced and compiled when it is called or lowered.

    Args:
      form: The stage.
      inputs: Its inputs, of which the static ones are looked at.
      resources: Where its variables are, to see how much memory is left.

    Returns:
      (donated, kept, dynamic, random counters) -> Outcome. It can be traced once.
    """
    static_values = {form.inputs[i]: np.asarray(inputs[i]) for i in form.static}
    traced: list[Checks] = []  # Keeps them as long as there is the program.

    def stage(
        donated: list[Value], kept: list[Value], dynamic: list[Value], counters: Value
    ) -> Outcome:
        if traced:
            raise compile_ahead.OtherShapes
        traced.append(Checks())
        env: dict[Edge, Any] = dict(static_values)
        for edge in form.filled:
            value = edge.node.attrs["value"]
            env[edge] = jnp.full(value.shape, value[(0,) * value.ndim])
        for i, value in zip(form.dynamic, dynamic, strict=True):
            env[form.inputs[i]] = value
        return _trace(form, traced[0], env, donated, kept, dynamic, counters, resources)

    stage.__name__ = form.name
    options = JOINING_LOOPS if form.in_one_pass else None
    return compiled(stage, donate_argnums=(0,) if form.donated else (), options=options)


def _trace(
    form: StageForm,
    checks: Checks,
    env: dict[Edge, Value],
    donated: list[Value],
    kept: list[Value],
    dynamic: list[Value],
    counters: Value,
    resources: ResourceStore | None,
) -> Outcome:
    stop_words = None
    if form.has_loops:
        counters, stop_words = counters
    initial = dict(zip(form.donated, donated, strict=True))
    initial.update(zip(form.kept, kept, strict=True))
    oks: list[Any] = []
    details: list[Any] = []

    def check_for(node: Node) -> Callable[..., None]:
        def check(ok: Value, message: Value, *values: Value) -> None:
            if not isinstance(ok, jax.Array):
                if not np.all(ok):
                    raise ValueError(message(*values) if callable(message) else message)
                return
            checks.append(Check(node, message, len(values)))
            oks.append(jnp.all(ok))
            details.extend(values)

        return check

    keys = {node: random_key(node, counters[i]) for i, node in enumerate(form.random_nodes)}
    with one_pass.tracing(form.in_one_pass), traced_with(stop_words):
        values, stores = guarded_writes.trace(
            form.nodes,
            form.writes,
            initial,
            env,
            form.snapshots,
            lambda state: Services(state, rng=keys.get, check=check_for, traced=True),
            lambda: [(check.node, ok) for check, ok in zip(checks, oks, strict=True)],
        )
    results = [env[edge] for edge in form.outputs]
    buffers = {id(value): i for i, value in enumerate(kept)}
    aliases = [(i, buffers[id(o)]) for i, o in enumerate(results) if id(o) in buffers]
    outputs = [value for value in results if id(value) not in buffers]
    moves = [] if stores else _moves(form, values, dynamic)
    moved = {form.written[position] for position, _ in moves}
    written = [values[v] for v in form.written if v not in moved]
    stored = None
    if stores:
        always = jnp.asarray(True)
        stored = jnp.stack([stores.get(v, always) for v in form.written])
    stacked = jnp.stack(oks) if oks else None
    # What is donated is written in place.
    memory.check_held(_bytes([*outputs, *written]) - _bytes(donated), resources)
    if not (checks or stores or donated or form.random_nodes):
        trace_time_results.look(results, [values[v] for v in form.written], dynamic, kept)
    return Outcome(outputs, written, stored, stacked, details, Notes(checks, aliases, moves))


def _moves(
    form: StageForm, values: dict[Node, Value], dynamic: list[Value]
) -> list[tuple[int, int]]:
    """Variables whose new values are inputs as they came: no program need copy those."""
    owned = {id(value): i for i, value in enumerate(dynamic) if form.is_owned(i)}
    positions = ((k, owned.pop(id(values[v]), -1)) for k, v in enumerate(form.written))
    return [(position, source) for position, source in positions if source >= 0]


def _bytes(values: list[Value]) -> int:
    return sum(value.size * value.dtype.itemsize for value in jax.tree.leaves(values))


def comparable(outcome: Outcome) -> Value:
    """What must be the same of two programs' results, besides the programs; None if none can be."""
    notes = outcome.notes
    if notes.checks or outcome.stores is not None:
        return None  # An error would name the other's op.
    counts = len(outcome.outputs), len(outcome.written)
    return counts, tuple(notes.aliases), tuple(notes.moves)


def raise_failed_checks(outcome: Outcome) -> None:
    """Raises what the first check that does not hold says.

    Raises:
      InvalidArgumentError: One does not hold.
    """
    oks = np.asarray(outcome.oks)
    if oks.all():
        return
    start = 0
    for ok, check in zip(oks, outcome.notes.checks, strict=True):
        values = [np.asarray(v) for v in outcome.details[start : start + check.value_count]]
        start += check.value_count
        if not ok:
            message = check.message(*values) if callable(check.message) else check.message
            raise op_error(check.node, errors.InvalidArgumentError(None, None, message))


def random_key(node: Node, counter: Value) -> Value:
    """The random key of one execution of a node, inside a program or outside.

    Args:
      node: Its seeds are the attributes ``seed`` and ``seed2``.
      counter: (salt, count): how often it ran in this session, and a salt that is zero for
        seeded nodes.
    """
    seed, seed2 = int(node.attrs.get("seed", 0)), int(node.attrs.get("seed2", 0))
    words = philox.key_words(random_name(node), seed, seed2, counter)
    is_traced = isinstance(counter, jax.core.Tracer)
    return philox.make_key(words) if is_traced else philox.host_key(words)
