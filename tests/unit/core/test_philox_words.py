"""Philox words, against the authors' known answers."""

from __future__ import annotations

import itertools

import pytest

from millrace.core.philox_words import philox_block, philox_words

ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [
        ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (ONES, ONES),
            (ONES, ONES, ONES, ONES),
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
    ],
)
def test_a_block_is_the_known_answer(
    key: tuple[int, int], counter: tuple[int, int, int, int], words: tuple[int, ...]
) -> None:
    assert philox_block(key, counter) == words


def test_words_go_through_blocks_in_order() -> None:
    words = list(itertools.islice(philox_words(5, 9), 8))
    assert tuple(words[:4]) == philox_block((5, 0), (0, 0, 9, 0))
    assert tuple(words[4:]) == philox_block((5, 0), (1, 0, 9, 0))
