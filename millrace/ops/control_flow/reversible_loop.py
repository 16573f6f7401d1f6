"""A while loop that JAX can differentiate in reverse though its length is only known as it runs.

`lax.while_loop` keeps nothing of its iterations. Here the backward pass runs the loop again and
keeps a state every so many iterations, at most `KEPT` of them; going backwards, the state before
each iteration is computed from the kept one before it. So memory is bounded, whatever the length;
a loop of n iterations costs about n * n / (2 * KEPT) more when it is long. The backward pass is
made of such loops itself: derivatives of any order exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.compiler.xla import jax, jnp, lax

#: States that a backward pass keeps.
KEPT = 64

Leaves = list[Any]


def while_loop(cond: Callable[[Any], Any], body: Callable[[Any], Any], start: Any) -> Any:
    """As `lax.while_loop`.

    Args:
      cond: From the state to a bool.
      body: From the state to the next one.
      start: The first state: arrays in any structure.
    """
    leaves, structure = jax.tree.flatten(start)
    leaves = [jnp.asarray(leaf) for leaf in leaves]

    def flat_cond(state: Leaves) -> Any:
        return cond(jax.tree.unflatten(structure, state))

    def flat_body(state: Leaves) -> Leaves:
        after = jax.tree.leaves(body(jax.tree.unflatten(structure, state)))
        return [jnp.asarray(leaf) for leaf in after]

    # What comes from around must come in as an argument: it may be differentiated.
    holds, cond_captures = _converted(flat_cond, leaves)
    advance, captures = _converted(flat_body, leaves)

    def run(state: Leaves, cond_captures: Leaves, captures: Leaves) -> Leaves:
        return lax.while_loop(
            lambda s: holds(s, *cond_captures), lambda s: advance(s, *captures), state
        )

    def forward(state: Leaves, cond_captures: Leaves, captures: Leaves) -> Any:
        final, count = lax.while_loop(
            lambda s: holds(s[0], *cond_captures),
            lambda s: (advance(s[0], *captures), s[1] + 1),
            (state, jnp.int32(0)),
        )
        return final, (state, count, captures)

    def backward(kept: Any, cotangents: Leaves) -> Any:
        state, count, used = kept
        # JAX hands constants back as plain numbers.
        state = [jnp.asarray(v, like.dtype) for v, like in zip(state, leaves, strict=True)]
        used = [jnp.asarray(v, like.dtype) for v, like in zip(used, captures, strict=True)]
        start_gradients, capture_gradients = _backward(advance, state, count, used, cotangents)
        return start_gradients, [None] * len(cond_captures), capture_gradients

    differentiable = jax.custom_vjp(run)
    differentiable.defvjp(forward, backward)
    final = map(_without_tangent, differentiable(leaves, cond_captures, captures))
    return jax.tree.unflatten(structure, list(final))


def _converted(function: Callable[[Leaves], Any], leaves: Leaves) -> tuple[Any, Leaves]:
    """A function of the state and of all that it captures, and what it captures."""
    traced, shape = jax.make_jaxpr(function, return_shape=True)(leaves)
    structure = jax.tree.structure(shape)

    def converted(state: Leaves, *captures: Any) -> Any:
        results = jax.core.eval_jaxpr(traced.jaxpr, captures, *state)
        return jax.tree.unflatten(structure, results)

    return converted, [jnp.asarray(value) for value in traced.consts]


def _without_tangent(leaf: Any) -> Any:
    """The same; a whole number is told apart from what is differentiated."""
    if _is_continuous(leaf):
        return leaf
    return lax.bitwise_or(leaf, jnp.zeros_like(leaf))


def _is_continuous(leaf: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(leaf), jnp.inexact))


def _repeat(count: Any, body: Callable[[Any, Any], Any], start: Any) -> Any:
    """Calls ``body(i, state)`` for i below `count`."""
    return while_loop(
        lambda s: s[0] < count, lambda s: (s[0] + 1, body(s[0], s[1])), (jnp.int32(0), start)
    )[1]


def _backward(
    advance: Any, start: Leaves, count: Any, captures: Leaves, cotangents: Leaves
) -> tuple[Leaves, Leaves]:
    """Gradients of the first state and of the captures; None where there is none."""
    stride = jnp.maximum(1, (count + KEPT - 1) // KEPT)

    def keep(i: Any, kept: tuple[Leaves, Leaves]) -> tuple[Leaves, Leaves]:
        state, stored = kept
        is_due = i % stride == 0
        stored = [
            jnp.where(is_due, buffer.at[i // stride].set(leaf), buffer)
            for buffer, leaf in zip(stored, state, strict=True)
        ]
        return advance(state, *captures), stored

    empty = [jnp.zeros((KEPT, *leaf.shape), leaf.dtype) for leaf in start]
    _, stored = _repeat(count, keep, (start, empty))
    moving = [i for i, leaf in enumerate(start) if _is_continuous(leaf)]
    taken = [i for i, leaf in enumerate(captures) if _is_continuous(leaf)]

    def step_back(done: Any, gradients: tuple[Leaves, Leaves]) -> tuple[Leaves, Leaves]:
        iteration = count - 1 - done
        near = [buffer[iteration // stride] for buffer in stored]
        state = _repeat(iteration % stride, lambda _, s: advance(s, *captures), near)

        def one_iteration(leaves: Leaves, used: Leaves) -> Leaves:
            full, around = list(state), list(captures)
            for i, leaf in zip(moving, leaves, strict=True):
                full[i] = leaf
            for i, leaf in zip(taken, used, strict=True):
                around[i] = leaf
            after = advance(full, *around)
            return [after[i] for i in moving]

        _, pull_back = jax.vjp(
            one_iteration, [state[i] for i in moving], [captures[i] for i in taken]
        )
        before, used = pull_back(gradients[0])
        return before, [a + b for a, b in zip(gradients[1], used, strict=True)]

    nothing = [jnp.zeros_like(captures[i]) for i in taken]
    found, used = _repeat(count, step_back, ([cotangents[i] for i in moving], nothing))
    return (
        [found[moving.index(i)] if i in moving else None for i in range(len(start))],
        [used[taken.index(i)] if i in taken else None for i in range(len(captures))],
    )
