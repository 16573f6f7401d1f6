"""A jaxpr as a list of NumPy calls, made once and run often.

Values live in a list of registers; each call names the registers that it reads and those that it
fills, and a register is cleared after its last use, so that memory is held no longer than XLA
would hold it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.compiler.numpy_evaluator.rules import RULES, Call
from millrace.compiler.xla import jax


class Evaluated:
    """A jaxpr that runs on NumPy arrays.

    Attributes:
      missing: Names of primitives without a rule; JAX runs those, compiling each for its shapes.
    """

    def __init__(self, jaxpr: Any, consts: Sequence[Any]) -> None:
        self.missing: set[str] = set()
        positions: dict[Any, int] = {}
        self._before: list[Any] = []

        def position_of(atom: Any) -> int:
            if hasattr(atom, "val"):  # a literal
                self._before.append(_constant(atom.val, atom.aval))
                return len(self._before) - 1
            position = positions.get(atom)
            if position is None:
                position = positions[atom] = len(self._before)
                self._before.append(None)
            return position

        for var, value in zip(jaxpr.constvars, consts, strict=True):
            self._before[position_of(var)] = _constant(value, var.aval)
        self._inputs = [position_of(var) for var in jaxpr.invars]
        calls: list[tuple[Call, list[int], Any, bool]] = []
        for eqn in jaxpr.eqns:
            made = RULES.get(eqn.primitive.name)
            if made is None:
                self.missing.add(eqn.primitive.name)
                call: Call = _by_jax(eqn)
            else:
                call = made(eqn)
            inner = getattr(call, "missing", None)
            if inner:
                self.missing |= inner
            takes = [position_of(atom) for atom in eqn.invars]
            gives = [position_of(var) for var in eqn.outvars]
            several = eqn.primitive.multiple_results
            calls.append((call, takes, gives if several else gives[0], several))
        self._results = [position_of(atom) for atom in jaxpr.outvars]
        kept = {i for i, value in enumerate(self._before) if value is not None}
        self._calls = _with_last_uses(calls, kept.union(self._results))

    def __call__(self, *values: Any) -> list[Any]:
        """The results for these inputs, as NumPy arrays."""
        registers = self._before.copy()
        for position, value in zip(self._inputs, values, strict=True):
            registers[position] = value
        for call, takes, gives, several, dead in self._calls:
            found = call(*[registers[position] for position in takes])
            if several:
                for position, value in zip(gives, found, strict=True):
                    registers[position] = value
            else:
                registers[gives] = found
            for position in dead:
                registers[position] = None
        return [registers[position] for position in self._results]


def _with_last_uses(
    calls: list[tuple[Call, list[int], Any, bool]], kept: set[int]
) -> list[tuple[Call, list[int], Any, bool, list[int]]]:
    """The calls, each with the registers that nobody reads after it."""
    seen = set(kept)
    result = []
    for call, takes, gives, several in reversed(calls):
        made = gives if several else [gives]
        dead = [position for position in dict.fromkeys((*takes, *made)) if position not in seen]
        seen.update(dead)
        result.append((call, takes, gives, several, dead))
    result.reverse()
    return result


def _constant(value: Any, aval: Any) -> Any:
    if not isinstance(aval.dtype, np.dtype):  # keys, each as one opaque element
        words = np.asarray(jax.random.key_data(value))
        flat = words.reshape(*aval.shape, -1)
        return flat.view(np.dtype((np.void, 4 * flat.shape[-1])))[..., 0]
    return np.asarray(value, aval.dtype)


def _by_jax(eqn: Any) -> Call:
    """A primitive without a rule: JAX runs it by itself."""
    primitive, params = eqn.primitive, eqn.params
    impls = [getattr(var.aval.dtype, "_impl", None) for var in eqn.invars]

    def call(*values: Any) -> Any:
        given = [
            v if impl is None else _key(v, impl) for v, impl in zip(values, impls, strict=True)
        ]
        found = primitive.bind(*given, **params)
        return [np.asarray(v) for v in found] if primitive.multiple_results else np.asarray(found)

    return call


def _key(keys: Any, impl: Any) -> Any:
    words: Any = np.ascontiguousarray(keys).reshape(-1, 1).view(np.uint32)
    return jax.random.wrap_key_data(words.reshape((*np.shape(keys), *impl.key_shape)), impl=impl)


def evaluated(closed: Any) -> Evaluated:
    """A closed jaxpr, ready to run on NumPy arrays."""
    return Evaluated(closed.jaxpr, closed.consts)
