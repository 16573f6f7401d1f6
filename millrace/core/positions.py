"""Taking the values at given positions of a list, as every stage of every step does.

A comprehension is a call of a Python function for each; what is made here once is none.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any


def taker(positions: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What takes the values at these positions, in this order."""
    if len(positions) > 1:
        return operator.itemgetter(*positions)
    start = positions[0] if positions else 0
    return operator.itemgetter(slice(start, start + len(positions)))  # a value alone would be bare
