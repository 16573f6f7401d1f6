"""Random 32-bit words by the Philox4x32-10 generator, one after the other, in plain Python.

Salmon et al., 2011: "Parallel random numbers: as easy as 1, 2, 3". For a few numbers on the
host, where TensorFlow's order is to be met: seeded queues choose by these.
"""

from __future__ import annotations

from collections.abc import Iterator

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def philox_block(key: tuple[int, int], counter: tuple[int, int, int, int]) -> tuple[int, ...]:
    """Four random words for a key and a counter."""
    a, b, c, d = counter
    k, m = key
    for _ in range(_ROUNDS):
        first, second = _MULTIPLIERS[0] * a, _MULTIPLIERS[1] * c
        a, b, c, d = (
            (second >> 32) ^ b ^ k,
            second & _MASK,
            (first >> 32) ^ d ^ m,
            first & _MASK,
        )
        k, m = (k + _WEYL[0]) & _MASK, (m + _WEYL[1]) & _MASK
    return a, b, c, d


def philox_words(seed: int, seed2: int) -> Iterator[int]:
    """The words that TensorFlow's generator with these two seeds gives."""
    key = seed & _MASK, seed >> 32 & _MASK
    high = seed2 & _MASK, seed2 >> 32 & _MASK
    index = 0
    while True:
        yield from philox_block(key, (index & _MASK, index >> 32 & _MASK, *high))
        index += 1
