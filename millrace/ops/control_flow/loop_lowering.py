"""Conditionals and loops in JAX: `lax.cond`, `lax.scan`, `reversible_loop.while_loop`.

Called while a stage is traced, and also outside of a trace (a stage run op by op), where
values are there to be looked at and plain Python does.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from millrace.compiler.xla import jax, jnp, lax
from millrace.ops.control_flow import reversible_loop
from millrace.ops.control_flow.tensor_array_value import TensorArrayValue
from millrace.ops.control_flow.tensor_list_value import ABSENT, Collection, TensorList
from millrace.ops.random import philox

#: Longer loops are not counted ahead.
_MAX_COUNTED = 1_000_000
#: Longer loops whose shapes change are not written out.
_MAX_UNROLLED = 200


class _Current(threading.local):
    """What loops look at between iterations: words that are not 0 when the step is cancelled."""

    #: Memory of the host, for loops that Python runs.
    host_words: np.ndarray | None = None
    #: The same memory as an argument of the program that is traced, for loops of that program.
    traced_words: Any = None


_current = _Current()


class Stopped(Exception):
    """A loop has ended because its step is cancelled."""


@contextlib.contextmanager
def stopped_by(words: np.ndarray) -> Iterator[None]:
    """Lets loops that Python runs in this thread, also while it traces, end by `Stopped`."""
    before, _current.host_words = _current.host_words, words
    try:
        yield
    finally:
        _current.host_words = before


@contextlib.contextmanager
def traced_with(words: Any) -> Iterator[None]:
    """Lets loops that are traced in this thread look at words, an argument of their program.

    The host changes their memory while the program runs. A loop that has ended for it is not ok, as
    if a check in it had failed, so nothing that follows from it is stored. Loops whose number of
    iterations is known while tracing do not look.
    """
    before, _current.traced_words = _current.traced_words, words
    try:
        yield
    finally:
        _current.traced_words = before


def check_not_stopped() -> None:
    """Ends a loop that Python runs, by `Stopped`, if its step is cancelled."""
    words = _current.host_words
    if words is not None and words[0]:
        raise Stopped


def _goes_on(words: Any, iteration: Any) -> Any:
    """Whether a loop of a program may begin an iteration."""
    # At a place that changes: what does not change is looked up once, before the loop.
    return words[iteration % len(words)] == 0


class NotCompilable(Exception):
    """Shapes change in a way that one XLA program cannot follow: run it op by op."""


def as_predicate(value: Any) -> Any:
    """A Python bool where the value is there to be looked at, else a traced scalar."""
    if not isinstance(value, jax.core.Tracer):
        return bool(np.asarray(value).reshape(()))
    return jnp.reshape(value, ()).astype(bool)


def _is_static(value: Any) -> bool:
    """Whether a value is closed over rather than carried: host arrays and variables."""
    return not isinstance(value, jax.Array | Collection)


def _arrays(outputs: list[Any]) -> list[Any]:
    return [
        value.in_program() if isinstance(value, TensorList) else jax.tree.map(jnp.asarray, value)
        for value in outputs
    ]


def conditional(
    index: Any, branches: list[Any], args: list[Any], key: Any, invoke: Any
) -> tuple[list[Any], Any]:
    """`lax.cond` (for a bool index) or `lax.switch` over function bodies."""
    positions = [i for i, value in enumerate(args) if not _is_static(value)]

    def runner(branch: Any) -> Any:
        def run(operands: list[Any]) -> Any:
            values = list(args)
            for i, value in zip(positions, operands, strict=True):
                values[i] = value
            outputs, ok = invoke(branch, values, key)
            return _arrays(outputs), jnp.asarray(ok)

        return run

    operands = [args[i] for i in positions]
    runners = [runner(branch) for branch in branches]
    if any(t.op.type == "FakeParam" for branch in branches for t in branch.outputs):
        runners = _with_same_outputs(runners, operands)
    try:
        if index.dtype == bool:
            outputs, ok = lax.cond(index, runners[1], runners[0], operands)
        else:
            outputs, ok = lax.switch(index, runners, operands)
    except TypeError as error:
        if (
            "must have equal types" in str(error)
            or "same type structure" in str(error)
            or ("branch" in str(error))
        ):
            raise NotCompilable(str(error)) from error
        raise
    return outputs, ok


def _with_same_outputs(runners: list[Any], operands: list[Any]) -> list[Any]:
    """Branches that give zeros where only another one has a value."""
    forms = [jax.eval_shape(run, operands)[0] for run in runners]
    common = [
        next((form for form in each if form is not ABSENT), ABSENT)
        for each in zip(*forms, strict=True)
    ]

    def filled(run: Any) -> Any:
        def run_and_fill(operands: list[Any]) -> Any:
            outputs, ok = run(operands)
            return [
                jax.tree.map(lambda like: jnp.zeros(like.shape, like.dtype), form)
                if output is ABSENT
                else output
                for output, form in zip(outputs, common, strict=True)
            ], ok

        return run_and_fill

    return [filled(run) for run in runners]


#: What JAX says of a traced value that Python code wants to know.
_NOT_KNOWN_YET = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)


def loop(cond: Any, body: Any, values: list[Any], key: Any, invoke: Any) -> tuple[list[Any], Any]:
    """A while loop: by Python, by `lax.scan` when its length is known, or `reversible_loop`."""
    leaves = jax.tree.leaves([v for v in values if not _is_static(v)])
    has_tracers = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
    if not invoke.traced and not has_tracers:
        return _python_loop(cond, body, values, key, invoke)
    counted = _counted(cond, body, values, invoke)
    count = None if counted is None else counted.iterations
    if not has_tracers and count is None:
        holds = invoke(cond, values, key)[0][0]
        if not isinstance(holds, jax.core.Tracer):
            # Not so if the body's results are traced though its arguments are not: random numbers.
            with contextlib.suppress(*_NOT_KNOWN_YET):
                return _python_loop(cond, body, values, key, invoke)
    if count == 0:
        return list(values), True
    outputs, ok = _lax_loop(cond, body, values, key, invoke, count)
    if counted is not None:
        # The gradient's loop can be counted too: it begins with a number that is known.
        for i, value in counted.final.items():
            outputs[i] = value
    return outputs, ok


class _Counted(NamedTuple):
    """A loop that was counted ahead: its iterations, and the last values of what it counts with."""

    iterations: int
    final: dict[int, np.ndarray]


def _counted(cond: Any, body: Any, values: list[Any], invoke: Any) -> _Counted | None:
    positions = invoke.deciding_positions(cond, body)
    if positions is None or any(not isinstance(values[i], np.ndarray) for i in positions):
        return None
    state: list[Any] = [values[i] if i in positions else None for i in range(len(values))]
    wanted = sorted(positions)
    count = 0
    while bool(invoke(cond, state, None)[0][0]):
        check_not_stopped()
        count += 1
        if count > _MAX_COUNTED:
            return None
        results = invoke(body, state, None, only=wanted)[0]
        for i in wanted:
            state[i] = np.asarray(results[i])
    final = {i: state[i] for i in wanted}
    for i in body.counters:
        if isinstance(values[i], np.ndarray):
            final[i] = np.asarray(values[i] + count, values[i].dtype)
    return _Counted(count, final)


def _python_loop(
    cond: Any, body: Any, values: list[Any], key: Any, invoke: Any
) -> tuple[list[Any], Any]:
    ready = invoke.prepared_loop(cond, body, values)
    if ready is not None:
        return ready.run(key, check_not_stopped), True
    state = list(values)
    iteration = 0
    while bool(np.asarray(invoke(cond, state, key)[0][0])):
        check_not_stopped()
        inner = None if key is None else philox.fold_in(key, iteration)
        state, ok = invoke(body, state, inner)
        if ok is not True and not bool(ok):
            return state, False
        iteration += 1
    return state, True


def _lax_loop(
    cond: Any, body: Any, values: list[Any], key: Any, invoke: Any, count: int | None
) -> tuple[list[Any], Any]:
    words = _current.traced_words
    # What the body hands on unchanged is closed over, not carried.
    varying = [i for i, t in enumerate(body.outputs) if t is not body.inputs[i]]

    def merged(carry: list[Any]) -> list[Any]:
        state = list(values)
        for i, value in zip(varying, carry, strict=True):
            state[i] = value
        return state

    def step(carry: list[Any], iteration: Any) -> tuple[list[Any], Any]:
        inner = None if key is None else jax.random.fold_in(key, iteration)
        outputs, ok = invoke(body, merged(carry), inner)
        return _arrays([outputs[i] for i in varying]), jnp.asarray(ok)

    try:
        start = _settled([values[i] for i in varying], step, count)
        if count is not None:

            def scan_step(state: Any, iteration: Any) -> Any:
                carry, ok = state
                new, now = step(carry, iteration)
                return (new, ok & now), None

            (final, ok), _ = lax.scan(
                scan_step, (start, jnp.asarray(True)), jnp.arange(count, dtype=jnp.uint32)
            )
        else:

            def while_cond(state: Any) -> Any:
                holds = invoke(cond, merged(state[0]), key)[0][0]
                holds = jnp.reshape(holds, ()).astype(bool)
                return holds if words is None else holds & _goes_on(words, state[2])

            def while_body(state: Any) -> Any:
                carry, ok, iteration = state
                new, now = step(carry, iteration)
                return new, ok & now, iteration + 1

            final, ok, iterations = reversible_loop.while_loop(
                while_cond, while_body, (start, jnp.asarray(True), jnp.uint32(0))
            )
            if words is not None:
                ok = ok & _goes_on(words, iterations)
    except TypeError as error:
        if "carry" not in str(error) and "body_fun" not in str(error):
            raise
        if count is not None and count <= _MAX_UNROLLED:
            return _unrolled(body, values, key, invoke, count)
        raise NotCompilable(str(error)) from error
    return merged(final), ok


def _unrolled(
    body: Any, values: list[Any], key: Any, invoke: Any, count: int
) -> tuple[list[Any], Any]:
    """All iterations one after the other: their shapes may differ."""
    state, ok = list(values), jnp.asarray(True)
    for iteration in range(count):
        inner = None if key is None else jax.random.fold_in(key, iteration)
        state, now = invoke(body, state, inner)
        ok = ok & now
    return state, ok


def _settled(start: list[Any], step: Any, count: int | None) -> list[Any]:
    """Initial values in the form that one iteration leaves them in.

    A TensorArray that was not written yet has no buffer; the first iteration shows its shape, and
    by how much a list grows.
    """
    carry = [
        value.with_buffer() if isinstance(value, TensorArrayValue) and _is_known(value) else value
        for value in start
    ]
    carry = _arrays(carry)
    if not any(
        isinstance(value, TensorArrayValue | TensorList) and value.buffer is None for value in carry
    ):
        return carry
    shapes, _ = jax.eval_shape(lambda c: step(c, jnp.uint32(0)), carry)
    result = []
    for value, after in zip(carry, shapes, strict=True):
        if isinstance(value, TensorList) and value.buffer is None:
            value = _with_room(value, after, count)
        if (
            isinstance(value, TensorArrayValue)
            and value.buffer is None
            and after.buffer is not None
        ):
            base = jnp.zeros(after.buffer.shape, after.buffer.dtype)
            for i, item in enumerate(value.items or ()):
                base = base if item is None else base.at[i].set(item)
            value = TensorArrayValue(value.dtype, None, base, value.element_shape)
        result.append(value)
    return result


def _with_room(value: TensorList, after: TensorList, count: int | None) -> TensorList:
    """A list in a buffer that has place for what all iterations push."""
    growth = after.size - value.size
    if not (value.size or growth):
        return value
    if count is None and growth > 0:
        raise NotCompilable("A list grows, and only the run shows how often")
    forms = [jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), item) for item in value.items]
    if any(form != forms[0] for form in forms):
        raise TypeError("The elements of a list differ, so that no loop can carry it")
    element = (value.items or after.items)[0]
    return value.in_buffer(element, value.size + max(0, growth) * (count or 0))


def _is_known(value: TensorArrayValue) -> bool:
    return value.buffer is not None or (
        value.items is not None
        and bool(value.items)
        and (value.element_shape is not None or any(item is not None for item in value.items))
    )
