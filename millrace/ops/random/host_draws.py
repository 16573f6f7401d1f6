"""Draws of `philox` on NumPy: the same numbers, at any shape, without a trace or a program.

A compiled program computes each element by itself; here whole blocks of four words are made, so
that each round is a handful of NumPy calls on arrays that stay in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
Array = npt.NDArray[Any]

_ROUNDS = 10
#: The round constants of the paper that `philox` names.
_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_MULTIPLIERS = np.array([[_M0], [_M1]], np.uint64)
_WEYL = np.array([[_W0], [_W1]], np.uint64)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
#: The key of each round less that of the first.
_KEY_STEPS = [_WEYL * np.uint64(i) & _LOW for i in range(_ROUNDS)]
#: So many blocks at a time: their words and what they are made with stay in the cache.
_CHUNK = 1 << 13
#: So many blocks are sooner made one by one.
_FEW = 4


def blocks(
    key: tuple[int, int], start: int, high: tuple[int, int], index: npt.NDArray[np.uint64]
) -> Words:
    """The words of blocks, a row per block.

    Args:
      key: The two words of the key.
      start: The low 64 bits of the counter of block 0.
      high: The two high words of the counter.
      index: Which blocks.
    """
    if len(index) <= _FEW:
        of_counters = [int(i) + start & 0xFFFFFFFFFFFFFFFF for i in index]
        return np.array([_block(key, counter, high) for counter in of_counters], np.uint32)
    result = np.empty((len(index), 4), np.uint32)
    keys = np.array([[key[0]], [key[1]]], np.uint64)
    with np.errstate(over="ignore"):
        counters = index + np.uint64(start)
    for begin in range(0, len(index), _CHUNK):
        counter = counters[begin : begin + _CHUNK]
        # The words that a round multiplies, and those that it mixes in.
        factors = np.empty((2, len(counter)), np.uint64)
        factors[0], factors[1] = counter & _LOW, high[0]
        mixed = np.empty_like(factors)
        mixed[0], mixed[1] = counter >> _HALF, high[1]
        for step in _KEY_STEPS:
            products = factors * _MULTIPLIERS
            factors = (products >> _HALF)[::-1] ^ mixed
            factors ^= keys + step & _LOW
            mixed = products[::-1] & _LOW
        rows = result[begin : begin + _CHUNK]
        rows[:, 0], rows[:, 2] = factors
        rows[:, 1], rows[:, 3] = mixed
    return result


def _block(key: tuple[int, int], counter: int, high: tuple[int, int]) -> tuple[int, int, int, int]:
    """The words of one block, by Python's own integers: a crop wants three numbers."""
    (k0, k1), (c2, c3) = key, high
    c0, c1 = counter & 0xFFFFFFFF, counter >> 32
    for _ in range(_ROUNDS):
        left, right = c0 * _M0, c2 * _M1
        c0, c1 = right >> 32 ^ c1 ^ k0, right & 0xFFFFFFFF
        c2, c3 = left >> 32 ^ c3 ^ k1, left & 0xFFFFFFFF
        k0, k1 = k0 + _W0 & 0xFFFFFFFF, k1 + _W1 & 0xFFFFFFFF
    return c0, c1, c2, c3


class Source:
    """The blocks of one execution of an op, from its first on."""

    def __init__(self, key: tuple[int, int], start: int, high: tuple[int, int]) -> None:
        self._of = key, start, high

    def words(self, count: int) -> Words:
        """The first `count` words."""
        index = np.arange(-(-count // 4), dtype=np.uint64)
        return blocks(*self._of, index).reshape(-1)[:count]

    def blocks(self, index: npt.NDArray[np.uint64]) -> Words:
        """The words of the blocks at `index`, a row per block."""
        return blocks(*self._of, index)


def uniform(source: Source, count: int, dtype: npt.DTypeLike) -> Array:
    """Floats in [0, 1)."""
    kind = np.dtype(dtype)
    if kind == np.float64:
        return _unit_float64(source.words(2 * count).reshape(-1, 2))
    words = source.words(count)
    if kind == np.float32:
        return _unit_float32(words)
    # As many bits as the type has, under the exponent of 1.
    mask, one = (0x3FF, 15 << 10) if kind == np.float16 else (0x7F, 127 << 7)
    bits = (words & np.uint32(mask) | np.uint32(one)).astype(np.uint16)
    return bits.view(kind) - kind.type(1)


def full_integers(source: Source, count: int, dtype: npt.DTypeLike) -> Array:
    """Integers over the whole range of a type."""
    kind = np.dtype(dtype)
    if kind.itemsize == 8:
        pairs = source.words(2 * count).reshape(-1, 2).astype(np.uint64)
        return (pairs[:, 0] | pairs[:, 1] << _HALF).view(kind)
    return source.words(count).astype(kind)


def normal(source: Source, count: int, dtype: npt.DTypeLike) -> Array:
    """Floats with mean 0 and standard deviation 1."""
    if np.dtype(dtype) == np.float64:
        rows = source.words(4 * -(-count // 2)).reshape(-1, 4)
        return _box_muller(_unit_float64(rows[:, :2]), _unit_float64(rows[:, 2:])).ravel()[:count]
    pairs = source.words(4 * -(-count // 4)).reshape(-1, 2)
    drawn = _box_muller(_unit_float32(pairs[:, 0]), _unit_float32(pairs[:, 1]))
    return drawn.ravel()[:count].astype(dtype, copy=False)


def truncated_normal(
    source: Source, count: int, dtype: npt.DTypeLike, per_block: int, stride: int
) -> Array:
    """Normal floats of which those beyond 2 are drawn again.

    Args:
      source: Where words come from.
      count: How many are wanted.
      dtype: Their type.
      per_block: How many normals a block makes, and so how many outputs share a stream.
      stride: By how many blocks the streams lie apart.
    """
    groups = -(-count // per_block)
    result = np.zeros((groups, per_block), np.float64 if per_block == 2 else np.float32)
    filled = np.zeros(groups, np.intp)
    waiting = np.arange(groups)
    draw = 0
    while waiting.size:
        rows = source.blocks(waiting.astype(np.uint64) * np.uint64(stride) + np.uint64(draw))
        if per_block == 2:
            values = _box_muller(_unit_float64(rows[:, :2]), _unit_float64(rows[:, 2:]))
        else:
            values = _box_muller(_unit_float32(rows[:, ::2]), _unit_float32(rows[:, 1::2]))
        values = values.reshape(len(waiting), per_block)
        accepted = np.abs(values) < 2
        places = filled[waiting, None] + np.cumsum(accepted, axis=1) - 1
        taken = accepted & (places < per_block)
        of_group, of_value = np.nonzero(taken)
        result[waiting[of_group], places[taken]] = values[of_group, of_value]
        filled[waiting] += np.count_nonzero(taken, axis=1)
        waiting = waiting[filled[waiting] < per_block]
        draw += 1
    return result.reshape(-1)[:count].astype(dtype, copy=False)


def _unit_float32(words: Words) -> npt.NDArray[np.float32]:
    bits = words & np.uint32(0x7FFFFF) | np.uint32(0x3F800000)
    return bits.view(np.float32) - np.float32(1)


def _unit_float64(pairs: Words) -> npt.NDArray[np.float64]:
    """Of 52 bits each, the high 20 of them in the first word of the pair."""
    bits = (pairs[:, 0] & np.uint32(0xFFFFF)).astype(np.uint64) << _HALF
    bits |= pairs[:, 1]
    bits |= np.uint64(0x3FF << 52)
    return bits.view(np.float64) - 1.0


def _box_muller(first: Array, second: Array) -> Array:
    """Both normals that Box and Muller's transform makes of two uniforms, side by side."""
    kind = first.dtype.type
    radius = np.sqrt(kind(-2) * np.log(np.maximum(first, kind(1e-7))))
    angle = second * kind(2 * np.pi)
    return np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=-1)
