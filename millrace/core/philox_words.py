"""Random 32-bit words by the Philox4x32-10 generator, one after the other, in plain Python.

Salmon et al., 2011: "Parallel random numbers: as easy as 1, 2, 3". For a few numbers on the
host, where TensorFlow's order is to be met: seeded queues choose by these.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

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


class PhiloxStream:
    """The words of `philox_words`, made a few hundred at a time; knows how many it has given.

    Args:
      seed: The first seed.
      seed2: The second one.
      drawn: How many words were given before.
    """

    #: How many counters are worked out together.
    _BLOCKS = 256

    def __init__(self, seed: int, seed2: int, drawn: int = 0) -> None:
        self._key = seed & _MASK, seed >> 32 & _MASK
        self._high = seed2 & _MASK, seed2 >> 32 & _MASK
        self.drawn = drawn
        self._words: list[int] = []
        #: How many words come before `_words`.
        self._first = -1

    def next(self) -> int:
        """The next word."""
        place = self.drawn - self._first
        if self._first < 0 or not 0 <= place < len(self._words):
            start = self.drawn // 4
            self._words = _philox_blocks(self._key, start, self._BLOCKS, self._high)
            self._first = start * 4
            place = self.drawn - self._first
        self.drawn += 1
        return self._words[place]


def _philox_blocks(
    key: tuple[int, int], start: int, count: int, high: tuple[int, int]
) -> list[int]:
    """The words of `count` blocks with counters from `start`, in order."""
    index = np.arange(start, start + count, dtype=np.uint64)
    mask, shift = np.uint64(_MASK), np.uint64(32)
    a, b = index & mask, index >> shift
    c, d = np.full(count, high[0], np.uint64), np.full(count, high[1], np.uint64)
    k, m = key
    for _ in range(_ROUNDS):
        first, second = np.uint64(_MULTIPLIERS[0]) * a, np.uint64(_MULTIPLIERS[1]) * c
        a, b, c, d = (
            (second >> shift) ^ b ^ np.uint64(k),
            second & mask,
            (first >> shift) ^ d ^ np.uint64(m),
            first & mask,
        )
        k, m = (k + _WEYL[0]) & _MASK, (m + _WEYL[1]) & _MASK
    words: list[int] = np.stack([a, b, c, d], axis=1).ravel().tolist()
    return words
