"""Inputs of cases: recipes that turn a seeded generator into a small numpy array.

Invariant: the array depends only on the recipe and on the case's name. `RandomState` is used, not
`default_rng`, because numpy promises that its stream never changes between releases: figures
recorded with one numpy are compared under another.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Input:
    """A recipe for one input array; `partial` is its static shape in the partly known variant."""

    make: Callable[[np.random.RandomState], np.ndarray]
    partial: Sequence[int | None] | None = None

    def with_partial(self, *shape: int | None) -> Input:
        """The same input, whose partly known variant has this static shape."""
        return Input(self.make, shape)


def generator(*words: str) -> np.random.RandomState:
    """A generator seeded by words alone, so that adding a case never moves another's numbers."""
    return np.random.RandomState(zlib.crc32("/".join(words).encode()) & 0x7FFFFFFF)


def floats(*shape: int, low: float = -2.0, high: float = 2.0, dtype: Any = np.float32) -> Input:
    """Uniform floats in [low, high): distinct in practice, so that no maximum is tied."""
    return Input(lambda rng: np.asarray(rng.uniform(low, high, size=shape)).astype(dtype))


def positive(*shape: int, dtype: Any = np.float32) -> Input:
    """Floats well inside the domain of log, sqrt and the gamma family."""
    return floats(*shape, low=0.3, high=3.0, dtype=dtype)


def ints(*shape: int, low: int = -5, high: int = 6, dtype: Any = np.int32) -> Input:
    """Integers in [low, high)."""
    return Input(lambda rng: np.asarray(rng.randint(low, high, size=shape)).astype(dtype))


def bools(*shape: int) -> Input:
    """Truth values, about half of each."""
    return Input(lambda rng: np.asarray(rng.randint(0, 2, size=shape)).astype(np.bool_))


def complexes(*shape: int, dtype: Any = np.complex64) -> Input:
    """Complex numbers in the unit square and a bit."""
    return Input(
        lambda rng: np.asarray(
            rng.uniform(-1.5, 1.5, size=shape) + 1j * rng.uniform(-1.5, 1.5, size=shape)
        ).astype(dtype)
    )


def permutation(n: int, dtype: Any = np.int32) -> Input:
    """The numbers 0..n-1, shuffled."""
    return Input(lambda rng: rng.permutation(n).astype(dtype))


def array(value: Any, dtype: Any = None) -> Input:
    """This very array; Python numbers become int32 and float32, as they do in TensorFlow."""
    made = np.array(value, dtype=dtype)
    if dtype is None and not isinstance(value, np.ndarray):
        made = made.astype(
            {"int64": np.int32, "float64": np.float32}.get(made.dtype.name, made.dtype)
        )
    return Input(lambda rng: made)


def strings(value: Any) -> Input:
    """An array of byte strings, from nested lists of `str` or `bytes`."""

    def encoded(item: Any) -> Any:
        if isinstance(item, (list, tuple)):
            return [encoded(x) for x in item]
        return item if isinstance(item, bytes) else str(item).encode()

    return Input(lambda rng: np.array(encoded(value), dtype=object))


def draw(inputs: dict[str, Input], *words: str) -> dict[str, np.ndarray]:
    """The arrays of a case, each from a generator of its own."""
    return {name: recipe.make(generator(*words, name)) for name, recipe in inputs.items()}
